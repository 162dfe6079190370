/* Row-wise operators: RMS norm, quantising in groups of GROUP inputs, the gated product. A row never sees another row. */
#include "kernels.h"

/* Quantises one row of k floats: q = round(x / s), s = largest / 127 in each group (0 for a group of zeros).
 * offset[l] = -128 * sum of s * q over the four bytes of lane l in every chunk: what the biased weights add too much. */
static void quantize_row(const float *x, int8_t *q, float *s, float *offset, long k) {
  const vf bias = vf_set(-128.0f);
  vf sum = vf_set(0.0f);
  for (long c = 0; c < k; c += CHUNK) {
    for (long g = c; g < c + CHUNK; g += GROUP) {
      const vf a = vf_load(x + g), b = vf_load(x + g + LANES);
      const float largest = vf_largest(vf_max(vf_abs(a), vf_abs(b)));
      const vf inverse = vf_set(largest > 0.0f ? 127.0f / largest : 0.0f);
      vi_store_i8(q + g, vi_round(vf_mul(a, inverse)));
      vi_store_i8(q + g + LANES, vi_round(vf_mul(b, inverse)));
      s[g / GROUP] = largest / 127.0f;
    }
    float four[LANES];
    for (int l = 0; l < LANES; l++) {
      const int8_t *p = q + c + 4 * l;
      four[l] = (float)(p[0] + p[1] + p[2] + p[3]);
    }
    sum = vf_fma(vf_mul(vf_load(four), bias), vf_pair(s + c / GROUP), sum);
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
  long k;
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

void tl_rms_norm_quantize(const float *x, const float *weight, float epsilon, int8_t *q, float *s, float *offset,
                          long rows, long k) {
  const rows_job job = {.x = x, .weight = weight, .epsilon = epsilon, .q = q, .s = s, .offset = offset, .k = k};
  pool_run(norm_quantize_rows, &job, rows, grain_for(rows));
}

void tl_silu_mul_quantize(const float *x, int8_t *q, float *s, float *offset, long rows, long k) {
  const rows_job job = {.x = x, .q = q, .s = s, .offset = offset, .k = k};
  pool_run(silu_mul_quantize_rows, &job, rows, grain_for(rows));
}
