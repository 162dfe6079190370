/* int8 product of quantised rows with row-scaled int8 weights, by tensor cores: one mma is one group of GROUP inputs.
 * A block makes 16 outputs of 8 rows; its warps share the BLOCKs of inputs among them. Each sum is formed group by group
 * in float, warp w taking the BLOCKs w, w + WARPS, ..; then the warps' sums are added in order. Rows that are not there
 * count as zeros, so that a row has the same bits alone and beside others. */
#include "device.cuh"

enum { OUTPUTS = 16, ROWS = 8, WARPS = 8 };

/* Word t (of four) of group g of a BLOCK: bytes 8g .. 8g + 7, then 64 + 8g .. 64 + 8g + 7. */
DEVICE unsigned group_word(const int8 *block, int g, int t) {
  return *(const unsigned *)(block + 8 * g + (t & 1) * 4 + (t >> 1) * (BLOCK / 2));
}

/* Grid (outputs / OUTPUTS, rows / ROWS), both rounded up. bias and residual may be null. */
KERNEL(WARPS * WARP) int8_linear(const int8 *q, const float *s, const int8 *weight, const float *scb, const float *bias,
                                 const float *residual, float *y, int rows, int n, int k) {
  SHARED(float, part, WARPS * ROWS * OUTPUTS);
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, place = lane / 4, t = lane % 4;
  const int n0 = blockIdx.x * OUTPUTS, m0 = blockIdx.y * ROWS, groups = k / GROUP;
  const int upper = n0 + place, lower = upper + 8, row = m0 + place;
  float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int c = warp * BLOCK; c < k; c += WARPS * BLOCK) {
    for (int g = 0; g < BLOCK / GROUP; g++) {
      const unsigned a0 = upper < n ? group_word(weight + (long long)upper * k + c, g, t) : 0;
      const unsigned a1 = lower < n ? group_word(weight + (long long)lower * k + c, g, t) : 0;
      const unsigned b = row < rows ? group_word(q + (long long)row * k + c, g, t) : 0;
      int dot[4] = {0, 0, 0, 0};
      mma_16x8x16(dot, a0, a1, b);
      for (int i = 0; i < 4; i++) {
        const int m = m0 + 2 * t + i % 2;
        const float scale = m < rows ? s[(long long)m * groups + c / GROUP + g] : 0.0f;
        sum[i] = fmaf((float)dot[i], scale, sum[i]);
      }
    }
  }
  for (int i = 0; i < 4; i++) part[(warp * ROWS + 2 * t + i % 2) * OUTPUTS + place + i / 2 * 8] = sum[i];
  __syncthreads();
  if (threadIdx.x >= ROWS * OUTPUTS) return;
  const int m = threadIdx.x / OUTPUTS, o = threadIdx.x % OUTPUTS;
  if (m0 + m >= rows || n0 + o >= n) return;
  float value = 0.0f;
  for (int w = 0; w < WARPS; w++) value += part[(w * ROWS + m) * OUTPUTS + o];
  value *= scb[n0 + o] * (1.0f / 127.0f);
  if (bias) value += bias[n0 + o];
  const long long at = (long long)(m0 + m) * n + n0 + o;
  if (residual) value += residual[at];
  y[at] = value;
}
