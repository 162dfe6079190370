/* Rotary positions and appending to one layer's cache (its layout: attention.c). */
#include "device.cuh"

enum { THREADS = 128, LANES = 16 };

/* Grid (rows). As reference.rope_append: width may hold what is added to k and v first, after them. */
KERNEL(THREADS) rope_append(float *qkv, const float *cosine, const float *sine, const int *positions, float *keys,
                            float *values, int base, int heads, int kv_heads, int dim, int width, int capacity) {
  const int r = blockIdx.x, half = dim / 2, own = kv_heads * dim, slot = base + r;
  float *row = qkv + (long long)r * width, *kv = row + heads * dim;
  const bool fine = width > (heads + 2 * kv_heads) * dim;
  const float *c = cosine + (long long)positions[r] * half, *s = sine + (long long)positions[r] * half;
  for (int i = threadIdx.x; i < (heads + kv_heads) * half; i += THREADS) {
    const int head = i / half, d = i % half;
    float *x = row + head * dim + d, a = x[0], b = x[half];
    if (fine && head >= heads) a += x[2 * own], b += x[2 * own + half];
    x[0] = a * c[d] - b * s[d];
    x[half] = b * c[d] + a * s[d];
    if (head < heads) continue;
    float *key = keys + ((long long)(head - heads) * capacity + slot / LANES * LANES) * dim + slot % LANES;
    key[d * LANES] = x[0];
    key[(d + half) * LANES] = x[half];
  }
  for (int i = threadIdx.x; i < own; i += THREADS) {
    const float value = kv[own + i] + (fine ? kv[3 * own + i] : 0.0f);
    kv[own + i] = value;
    values[((long long)(i / dim) * capacity + slot) * dim + i % dim] = value;
  }
}
