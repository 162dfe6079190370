/* The output head's second look: int8 scores find the few best tokens, 16-bit weights score those again. */
#include "kernels.h"

typedef struct {
  const float *x, *scb;
  const int8_t *w, *fine;
  float margin, *y;
  long n, k;
} head_job;

static float fine_score(const float *x, const int8_t *w, const int8_t *fine, float scb, long k) {
  const vf steps = vf_set((float)FINE);
  vf sum = vf_set(0.0f);
  for (long i = 0; i < k; i += LANES) /* FINE * w + fine is a whole number below 2^24: exact */
    sum = vf_fma(vf_load(x + i), vf_fma(vf_load_i8(w + i), steps, vf_load_i8(fine + i)), sum);
  return vf_sum(sum) * (scb * (1.0f / (127.0f * FINE)));
}

static void rescore_rows(const void *job, long begin, long end) {
  const head_job *j = job;
  const long whole = j->n & ~(long)(LANES - 1);
  for (long r = begin; r < end; r++) {
    float *y = j->y + r * j->n, largest = y[0];
    if (whole) {
      vf best = vf_load(y);
      for (long i = LANES; i < whole; i += LANES) best = vf_max(best, vf_load(y + i));
      largest = vf_largest(best);
    }
    for (long i = whole; i < j->n; i++) largest = y[i] > largest ? y[i] : largest;
    const float least = largest - j->margin;
    for (long i = 0; i < j->n; i += LANES) {
      if (i < whole && vf_largest(vf_load(y + i)) < least) continue;
      for (long o = i; o < i + LANES && o < j->n; o++)
        if (y[o] >= least) y[o] = fine_score(j->x + r * j->k, j->w + o * j->k, j->fine + o * j->k, j->scb[o], j->k);
    }
  }
}

void tl_rescore(const float *x, const int8_t *w, const int8_t *fine, const float *scb, float margin, float *y,
                long rows, long n, long k) {
  const head_job job = {.x = x, .scb = scb, .w = w, .fine = fine, .margin = margin, .y = y, .n = n, .k = k};
  pool_run(rescore_rows, &job, rows, 1);
}
