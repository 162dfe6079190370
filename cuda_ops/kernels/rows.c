/* Row-wise operators: RMS norm, quantising in groups of GROUP inputs, the gated product. A row never sees another row. */
#include "kernels.h"

/* One block's share of offset[l] = -128 * sum of s * q over the four bytes of lane l in every chunk: what the biased
 * weights add too much. */
INLINE vf offset_block(const int8_t *q, const float *s, vf sum) {
  return vf_fma(vf_mul(vb_dot(vb_ones(), vb_ones(), q), vf_set(-128.0f)), vf_twice(s), sum);
}

/* Quantises one row of k floats: q = round(x / s), s = largest / 127 in each group (0 for a group of zeros). */
static void quantize_row(const float *x, int8_t *q, float *s, float *offset, long k) {
  vf sum = vf_set(0.0f);
  for (long c = 0; c < k; c += BLOCK) {
    float *scale = s + c / GROUP;
    for (int g = 0; g < BLOCK / GROUP; g++) {
      const long at = c + 8 * g;
      const vf a = vf_halves(x + at, x + at + CHUNK);
      const float largest = vf_largest(vf_abs(a));
      int8_t both[GROUP];
      vi_store_i8(both, vi_round(vf_mul(a, vf_set(largest > 0.0f ? 127.0f / largest : 0.0f))));
      memcpy(q + at, both, 8);
      memcpy(q + at + CHUNK, both + 8, 8);
      scale[g] = largest / 127.0f;
    }
    sum = offset_block(q + c, scale, sum);
  }
  vf_store(offset, sum);
}

static void norm_row(const float *x, const float *weight, float epsilon, float *y, long k) {
  vf sum = vf_set(0.0f);
  for (long i = 0; i < k; i += LANES) {
    const vf a = vf_load(x + i);
    sum = vf_fma(a, a, sum);
  }
  const vf scale = vf_set(1.0f / sqrtf(vf_sum(sum) / (float)k + epsilon));
  for (long i = 0; i < k; i += LANES) vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), scale), vf_load(weight + i)));
}

typedef struct {
  const float *x, *weight;
  float epsilon, *y, *s, *offset;
  int8_t *q;
  long k, block;
} rows_job;

static void norm_rows(const void *job, long begin, long end) {
  const rows_job *j = job;
  for (long r = begin; r < end; r++) norm_row(j->x + r * j->k, j->weight, j->epsilon, j->y + r * j->k, j->k);
}

static void quantize_rows(const void *job, long begin, long end) {
  const rows_job *j = job;
  for (long r = begin; r < end; r++)
    quantize_row(j->x + r * j->k, j->q + r * j->k, j->s + r * (j->k / GROUP), j->offset + r * LANES, j->k);
}

static void norm_quantize_rows(const void *job, long begin, long end) {
  const rows_job *j = job;
  float y[j->k];
  for (long r = begin; r < end; r++) {
    norm_row(j->x + r * j->k, j->weight, j->epsilon, y, j->k);
    quantize_row(y, j->q + r * j->k, j->s + r * (j->k / GROUP), j->offset + r * LANES, j->k);
  }
}

/* Turns each block (a power of two, LANES to 256) of k floats by the Hadamard matrix in place: butterflies of stride 1,
 * 2, 4, .., then one multiplication. The small strides swap lanes; -1 * a + b is b - a to the bit. */
static void hadamard(float *x, long block, long k) {
  static const float signs[4][LANES] = {
      {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
      {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
      {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
      {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1},
  };
  const vf s1 = vf_load(signs[0]), s2 = vf_load(signs[1]), s4 = vf_load(signs[2]), s8 = vf_load(signs[3]);
  const vf scale = vf_set((float)(1.0 / sqrt((double)block)));
  const long count = block / LANES;
  for (long b = 0; b < k; b += block) {
    vf v[256 / LANES];
    for (long i = 0; i < count; i++) {
      vf a = vf_load(x + b + i * LANES);
      a = vf_fma(a, s1, vf_swap1(a));
      a = vf_fma(a, s2, vf_swap2(a));
      a = vf_fma(a, s4, vf_swap4(a));
      v[i] = vf_fma(a, s8, vf_swap8(a));
    }
    for (long stride = 1; stride < count; stride *= 2)
      for (long i = 0; i < count; i++)
        if (!(i & stride)) {
          const vf a = v[i], c = v[i + stride];
          v[i] = vf_add(a, c);
          v[i + stride] = vf_sub(a, c);
        }
    for (long i = 0; i < count; i++) vf_store(x + b + i * LANES, vf_mul(v[i], scale));
  }
}

/* x holds gate and up side by side: [rows, 2k] */
static void silu_mul_quantize_rows(const void *job, long begin, long end) {
  const rows_job *j = job;
  const vf one = vf_set(1.0f), zero = vf_set(0.0f);
  float y[j->k];
  for (long r = begin; r < end; r++) {
    const float *gate = j->x + r * 2 * j->k, *up = gate + j->k;
    for (long i = 0; i < j->k; i += LANES) {
      const vf g = vf_load(gate + i);
      const vf silu = vf_div(g, vf_add(one, vf_exp(vf_sub(zero, g))));
      vf_store(y + i, vf_mul(silu, vf_load(up + i)));
    }
    if (j->block) hadamard(y, j->block, j->k);
    quantize_row(y, j->q + r * j->k, j->s + r * (j->k / GROUP), j->offset + r * LANES, j->k);
  }
}

/* few rows are done by the caller alone: handing them over costs more */
static long grain_for(long rows) { return rows < 4 ? rows : 2; }

void tl_rms_norm(const float *x, const float *weight, float epsilon, float *y, long rows, long k) {
  const rows_job job = {.x = x, .weight = weight, .epsilon = epsilon, .y = y, .k = k};
  pool_run(norm_rows, &job, rows, grain_for(rows));
}

void tl_quantize_rows(const float *x, int8_t *q, float *s, float *offset, long rows, long k) {
  const rows_job job = {.x = x, .q = q, .s = s, .offset = offset, .k = k};
  pool_run(quantize_rows, &job, rows, grain_for(rows));
}

void tl_offsets(const int8_t *q, const float *s, float *offset, long rows, long k) {
  for (long r = 0; r < rows; r++) {
    vf sum = vf_set(0.0f);
    for (long c = 0; c < k; c += BLOCK) sum = offset_block(q + r * k + c, s + (r * k + c) / GROUP, sum);
    vf_store(offset + r * LANES, sum);
  }
}

void tl_rms_norm_quantize(const float *x, const float *weight, float epsilon, int8_t *q, float *s, float *offset,
                          long rows, long k) {
  const rows_job job = {.x = x, .weight = weight, .epsilon = epsilon, .q = q, .s = s, .offset = offset, .k = k};
  pool_run(norm_quantize_rows, &job, rows, grain_for(rows));
}

void tl_silu_mul_quantize(const float *x, int8_t *q, float *s, float *offset, long block, long rows, long k) {
  const rows_job job = {.x = x, .q = q, .s = s, .offset = offset, .k = k, .block = block};
  pool_run(silu_mul_quantize_rows, &job, rows, grain_for(rows));
}
