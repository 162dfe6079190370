/* The gated product, its Hadamard turn and quantising: one block for SEGMENT inputs of a row, which hold whole turns. */
#include "device.cuh"
#include "quantize.cuh"

enum { SEGMENT = 256 };

/* e^x, x clamped to [-87, 88]: the CPU's polynomial (lanes.h), so the same bits */
DEVICE float exponential(float x) {
  x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  const int n = __float2int_rn(x * 1.44269504088896341f);
  float r = fmaf((float)n, -0.693359375f, x);
  r = fmaf((float)n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fmaf(p, r, 1.3981999507e-3f);
  p = fmaf(p, r, 8.3334519073e-3f);
  p = fmaf(p, r, 4.1665795894e-2f);
  p = fmaf(p, r, 1.6666665459e-1f);
  p = fmaf(p, r, 5.0000001201e-1f);
  return fmaf(p * r, r, r + 1.0f) * __int_as_float((n + 127) << 23);
}

/* Grid (k / SEGMENT rounded up, rows). block: a power of two up to SEGMENT that divides k, or 0; scale: block ^ -1/2. */
KERNEL(SEGMENT) silu_mul_quantize(const float *gate_up, int8 *q, float *s, int block, float scale, int k) {
  SHARED(float, turned, SEGMENT);
  const long long row = blockIdx.y;
  const int c = blockIdx.x * SEGMENT, i = threadIdx.x, at = c + i;
  float value = 0.0f;
  if (at < k) {
    const float gate = gate_up[row * 2 * k + at];
    value = gate / (1.0f + exponential(0.0f - gate)) * gate_up[row * 2 * k + k + at];
  }
  turned[i] = value;
  __syncthreads();
  for (int step = 1; step < block; step *= 2) {
    const float other = turned[i ^ step];
    value = i & step ? other - value : value + other;
    __syncthreads();
    turned[i] = value;
    __syncthreads();
  }
  const int first = i / WARP * BLOCK;
  if (first >= SEGMENT || c + first >= k) return;
  const int from = first + place_in_block(i % WARP);
  const float by = block ? scale : 1.0f;
  const float4 four = make_float4(turned[from] * by, turned[from + 1] * by, turned[from + 2] * by, turned[from + 3] * by);
  quantize_four(four, c + from, q + row * k, s + row * (k / GROUP));
}
