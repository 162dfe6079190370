/* int8 product of quantised rows with row-scaled int8 weights (bitsandbytes' CB and SCB), read where they lie.
 * Integer sums inside a group of inputs are exact; groups are added in one order in float32, lane by lane. */
#include "kernels.h"

enum {
  FAR = 8192,    /* bytes that a prefetch looks ahead at most */
  NEAR = 1024,   /* that it looks ahead in each row otherwise */
  PIECE = 2432,  /* inputs of a row that are worked on at a time, so that those of all rows stay in the first cache */
  GRAIN = 64,    /* outputs of one chunk of work, at most */
};

typedef struct {
  const int8_t *q, *w;
  const float *s, *offset, *scb, *bias, *residual;
  float *y;
  long rows, n, k;
} linear_job;

/* Where a tile is: outputs from n0, rows from m0, inputs c0 .. c1. held: its sums between two pieces of the inputs. */
typedef struct {
  long n0, m0, c0, c1, ahead; /* bytes; 0: nothing is fetched ahead */
  float *held;
} tile_place;

/* From a sum to y [m, n]. */
INLINE void finish(const linear_job *j, long n, long m, float sum) {
  float value = sum * (j->scb[n] * (1.0f / 127.0f));
  if (j->bias) value += j->bias[n];
  if (j->residual) value += j->residual[m * j->n + n];
  j->y[m * j->n + n] = value;
}

INLINE void finish4(const linear_job *j, long n, long m, vf a, vf b, vf c, vf d) {
  const long o = m * j->n + n;
  v4 value = vf_sum4(a, b, c, d) * (v4_load(j->scb + n) * (1.0f / 127.0f));
  if (j->bias) value += v4_load(j->bias + n);
  if (j->residual) value += v4_load(j->residual + o);
  v4_store(j->y + o, value);
}

#ifdef SIXTEEN_SUMS
/* lane 4i + r belongs to row m + i, output n + r */
INLINE void finish16(const linear_job *j, long n, long m, vf sums) {
  const long o = m * j->n + n;
  vf value = vf_mul(sums, vf_four_times(v4_load(j->scb + n) * (1.0f / 127.0f)));
  if (j->bias) value = vf_add(value, vf_four_times(v4_load(j->bias + n)));
  if (j->residual) value = vf_add(value, vf_load_quarters(j->residual + o, j->n));
  vf_store_quarters(j->y + o, j->n, value);
}
#endif

/* R output rows times M activation rows, held in registers. */
INLINE void tile(const linear_job *j, const tile_place *place, const int R, const int M, const int FETCH) {
  const long k = j->k, groups = k / GROUP, n0 = place->n0, m0 = place->m0, ahead = place->ahead;
  vf sum[8][8];
#pragma GCC unroll 8
  for (int m = 0; m < M; m++)
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
      sum[r][m] = vf_load(place->c0 ? place->held + (r * M + m) * LANES : j->offset + (m0 + m) * LANES);
  for (long c = place->c0; c < place->c1; c += BLOCK) {
    vb w[8][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      const int8_t *row = j->w + (n0 + r) * k + c;
      w[r][0] = vb_load_biased(row);
      w[r][1] = vb_load_biased(row + CHUNK);
      if (FETCH) {
        __builtin_prefetch(row + ahead);
        __builtin_prefetch(row + ahead + CHUNK);
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; m++) {
      const vf scale = vf_twice(j->s + (m0 + m) * groups + c / GROUP);
      const int8_t *a = j->q + (m0 + m) * k + c;
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) sum[r][m] = vf_fma(vb_dot(w[r][0], w[r][1], a), scale, sum[r][m]);
    }
  }
  if (place->c1 < k) {
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) vf_store(place->held + (r * M + m) * LANES, sum[r][m]);
    return;
  }
  if (R == 4) { /* spelt out: sums that a loop picks would go through memory */
#define ROW(m) finish4(j, n0, m0 + m, sum[0][m], sum[1][m], sum[2][m], sum[3][m])
    if (M >= 4) {
#ifdef SIXTEEN_SUMS
      const vf value = halve_twos(
          halve_fours(vf_sum4_quarters(sum[0][0], sum[0][1], sum[0][2], sum[0][3]),
                      vf_sum4_quarters(sum[2][0], sum[2][1], sum[2][2], sum[2][3])),
          halve_fours(vf_sum4_quarters(sum[1][0], sum[1][1], sum[1][2], sum[1][3]),
                      vf_sum4_quarters(sum[3][0], sum[3][1], sum[3][2], sum[3][3])));
      finish16(j, n0, m0, value);
#else
      ROW(0), ROW(1), ROW(2), ROW(3);
#endif
      if (M > 4) ROW(4);
      if (M > 5) ROW(5);
    } else {
      ROW(0), ROW(1), ROW(2);
    }
#undef ROW
    return;
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; m++) {
    if (R == 2 && m + 1 < M) {
      const v4 t = vf_sum4(sum[0][m], sum[1][m], sum[0][m + 1], sum[1][m + 1]);
      for (int i = 0; i < 4; i++) finish(j, n0 + i % 2, m0 + m + i / 2, t[i]);
      m++;
      continue;
    }
    if (R == 8) {
      finish4(j, n0, m0 + m, sum[0][m], sum[1][m], sum[2][m], sum[3][m]);
      finish4(j, n0 + 4, m0 + m, sum[4][m], sum[5][m], sum[6][m], sum[7][m]);
      continue;
    }
    for (int r = 0; r < R; r++) finish(j, n0 + r, m0 + m, vf_sum(sum[r][m]));
  }
}

#define TILE(R, M)                                                       \
  static void tile_##R##_##M(const linear_job *j, const tile_place *p) { \
    if (p->ahead) tile(j, p, R, M, 1);                                   \
    else tile(j, p, R, M, 0);                                            \
  }
TILE(8, 1) TILE(8, 2) TILE(4, 3) TILE(4, 4) TILE(4, 5) TILE(4, 6)
TILE(1, 1) TILE(1, 2) TILE(1, 3) TILE(1, 4) TILE(1, 5) TILE(1, 6) TILE(2, 7) TILE(2, 8) TILE(1, 7) TILE(1, 8)

enum { MOST_ROWS = 8, BEST_ROWS = 6 }; /* that one tile can take; that many rows are split into */
typedef void (*tile_function)(const linear_job *, const tile_place *);
static const struct { tile_function wide, narrow; int outputs; } tiles[MOST_ROWS + 1] = {
    {0, 0, 0},
    {tile_8_1, tile_1_1, 8}, {tile_8_2, tile_1_2, 8}, {tile_4_3, tile_1_3, 4},
    {tile_4_4, tile_1_4, 4}, {tile_4_5, tile_1_5, 4}, {tile_4_6, tile_1_6, 4}, {tile_2_7, tile_1_7, 2}, {tile_2_8, tile_1_8, 2},
};

/* Rows m0 .. m0 + m times outputs begin .. end. */
static void linear_rows(const linear_job *j, long m0, long m, long begin, long end) {
  float held[GRAIN * MOST_ROWS * LANES];
  const long outputs = tiles[m].outputs, k = j->k;
  /* all inputs of one or two rows stay anyway; of many rows the weights come from the second cache too */
  const long pieces = j->rows < 3 || j->rows > MOST_ROWS ? 1 : (k + PIECE - 1) / PIECE;
  for (long p = 0; p < pieces; p++) {
    tile_place place = {.m0 = m0, .c0 = p * (k / BLOCK) / pieces * BLOCK, .c1 = (p + 1) * (k / BLOCK) / pieces * BLOCK};
    for (place.n0 = begin; place.n0 < end;) {
      const int wide = place.n0 + outputs <= end;
      const long next = place.n0 + (wide ? outputs : 1), step = (next - place.n0) * k;
      place.held = held + (place.n0 - begin) * m * LANES;
      /* the next tile if it is near, else a few lines on in each row, as far as memory takes to answer, and nothing for
       * later rows, whose weights the second cache has */
      place.ahead = step <= FAR || (pieces > 1 && next < end) ? step : m0 ? 0 : NEAR;
      (wide ? tiles[m].wide : tiles[m].narrow)(j, &place);
      place.n0 = next;
    }
  }
}

static void linear_outputs(const void *job, long begin, long end) {
  const linear_job *j = job;
  const long parts = j->rows <= MOST_ROWS ? 1 : (j->rows + BEST_ROWS - 1) / BEST_ROWS;
  for (long p = 0; p < parts; p++) {
    const long m0 = p * j->rows / parts, m = (p + 1) * j->rows / parts - m0;
    for (long n0 = begin; n0 < end; n0 += GRAIN) linear_rows(j, m0, m, n0, n0 + GRAIN < end ? n0 + GRAIN : end);
  }
}

void tl_int8_linear(const int8_t *q, const float *s, const float *offset, const int8_t *w, const float *scb,
                    const float *bias, const float *residual, float *y, long rows, long n, long k) {
  const linear_job job = {q, w, s, offset, scb, bias, residual, y, rows, n, k};
  /* a block of weights that stays in the second-level cache while all rows pass over it */
  long grain = (128 * 1024 / k) & ~7L;
  if (grain < 8) grain = 8;
  if (grain > GRAIN) grain = GRAIN;
  pool_run(linear_outputs, &job, n, grain);
}
