/* RMS norm and quantising in groups of GROUP inputs: one block a row. */
#include "device.cuh"
#include "quantize.cuh"

enum { THREADS = 256 };

KERNEL(THREADS) quantize_rows(const float *x, int8 *q, float *s, int k) {
  const long long row = blockIdx.x;
  const int lane = threadIdx.x % WARP;
  for (int c = threadIdx.x / WARP * BLOCK; c < k; c += THREADS / WARP * BLOCK) {
    const int at = c + place_in_block(lane);
    quantize_four(*(const float4 *)(x + row * k + at), at, q + row * k, s + row * (k / GROUP));
  }
}

/* 1 / sqrt(mean(x^2) + epsilon): each thread's inputs in order, then one tree over the threads. */
DEVICE float norm_scale(const float *x, float epsilon, int k, Shared<float> sums) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < k; i += THREADS) sum = fmaf(x[i], x[i], sum);
  sums[threadIdx.x] = sum;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  __syncthreads();
  return 1.0f / sqrtf(sums[0] / (float)k + epsilon);
}

KERNEL(THREADS) rms_norm(const float *x, const float *weight, float epsilon, float *y, int k) {
  SHARED(float, sums, THREADS);
  const long long row = blockIdx.x;
  const float scale = norm_scale(x + row * k, epsilon, k, sums);
  for (int i = threadIdx.x; i < k; i += THREADS) y[row * k + i] = x[row * k + i] * scale * weight[i];
}

KERNEL(THREADS) rms_norm_quantize(const float *x, const float *weight, float epsilon, int8 *q, float *s, int k) {
  SHARED(float, sums, THREADS);
  const long long row = blockIdx.x;
  const float scale = norm_scale(x + row * k, epsilon, k, sums);
  const int lane = threadIdx.x % WARP;
  for (int c = threadIdx.x / WARP * BLOCK; c < k; c += THREADS / WARP * BLOCK) {
    const int at = c + place_in_block(lane);
    const float4 a = *(const float4 *)(x + row * k + at), w = *(const float4 *)(weight + at);
    const float4 normed = make_float4(a.x * scale * w.x, a.y * scale * w.y, a.z * scale * w.z, a.w * scale * w.w);
    quantize_four(normed, at, q + row * k, s + row * (k / GROUP));
  }
}
