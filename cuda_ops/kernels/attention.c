/* Rotary positions, the key and value cache, and attention of few rows against it.
 * Keys lie in blocks of LANES positions, transposed: keys[kv_head][block][dim][lane], so that LANES scores are formed at
 * once without a horizontal sum; values[kv_head][slot][dim]. Scores, sums and products run over positions in order. */
#include "kernels.h"

#include <stdlib.h>

INLINE float *key_at(float *keys, long head, long slot, long dim, long capacity) {
  return keys + head * capacity * dim + (slot / LANES) * LANES * dim + slot % LANES;
}

typedef struct {
  float *qkv, *keys, *values, *out;
  const float *cosine, *sine;
  const int32_t *positions, *paths;
  long base, rows, heads, kv_heads, dim, width, capacity;
} attention_job;

static void rotate(float *x, const float *cosine, const float *sine, long dim) {
  const long half = dim / 2;
  for (long i = 0; i < half; i++) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cosine[i] - b * sine[i];
    x[i + half] = b * cosine[i] + a * sine[i];
  }
}

static void rope_rows(const void *job, long begin, long end) {
  const attention_job *j = job;
  const long dim = j->dim, width = j->width, own = j->kv_heads * dim;
  for (long r = begin; r < end; r++) {
    const float *cosine = j->cosine + j->positions[r] * (dim / 2), *sine = j->sine + j->positions[r] * (dim / 2);
    float *row = j->qkv + r * width, *kv = row + j->heads * dim;
    if (width > (j->heads + 2 * j->kv_heads) * dim)
      for (long i = 0; i < 2 * own; i++) kv[i] += kv[2 * own + i];
    for (long h = 0; h < j->heads + j->kv_heads; h++) rotate(row + h * dim, cosine, sine, dim);
    for (long h = 0; h < j->kv_heads; h++) {
      const float *key = row + (j->heads + h) * dim, *value = key + j->kv_heads * dim;
      float *to = key_at(j->keys, h, j->base + r, dim, j->capacity);
      for (long d = 0; d < dim; d++) to[d * LANES] = key[d];
      memcpy(j->values + (h * j->capacity + j->base + r) * dim, value, (size_t)dim * sizeof(float));
    }
  }
}

void tl_rope_append(float *qkv, const float *cosine, const float *sine, const int32_t *positions, float *keys,
                    float *values, long base, long rows, long heads, long kv_heads, long dim, long width, long capacity) {
  const attention_job job = {.qkv = qkv, .keys = keys, .values = values, .cosine = cosine, .sine = sine,
                             .positions = positions, .base = base, .rows = rows, .heads = heads,
                             .kv_heads = kv_heads, .dim = dim, .width = width, .capacity = capacity};
  /* LANES rows a chunk: two threads never write into one cache line of a key block for long */
  pool_run(rope_rows, &job, rows, rows < LANES ? rows : LANES);
}

/* Vectors of keys or values that meet each query number, as many as the registers hold beside eight heads' sums */
#ifdef __AVX512F__
#define AT_ONCE 2
#else
#define AT_ONCE 1
#endif

/* Scores of H heads of one row against the first `length` positions, from whole blocks; scores[h][stride]. */
INLINE void block_scores(const attention_job *j, const float *q, const float *keys, float *scores, long stride,
                         long blocks, const int H) {
  const long dim = j->dim;
  const vf scale = vf_set(1.0f / sqrtf((float)dim));
  for (long b = 0; b < blocks; b += AT_ONCE) {
    const int some = blocks - b < AT_ONCE ? 1 : AT_ONCE; /* AT_ONCE is 1 or 2 */
    const float *key = keys + b * LANES * dim, *next = key + (some - 1) * LANES * dim;
    vf sum[8], more[8];
#pragma GCC unroll 8
    for (int h = 0; h < H; h++) sum[h] = more[h] = vf_set(0.0f);
    for (long d = 0; d < dim; d++) {
      const vf kd = vf_load(key + d * LANES), nd = vf_load(next + d * LANES);
#pragma GCC unroll 8
      for (int h = 0; h < H; h++) {
        const vf each = vf_set(q[h * dim + d]);
        sum[h] = vf_fma(each, kd, sum[h]);
        if (AT_ONCE > 1) more[h] = vf_fma(each, nd, more[h]);
      }
    }
#pragma GCC unroll 8
    for (int h = 0; h < H; h++) {
      vf_store(scores + h * stride + b * LANES, vf_mul(sum[h], scale));
      if (some > 1) vf_store(scores + h * stride + (b + 1) * LANES, vf_mul(more[h], scale));
    }
  }
}

/* The score of one slot, formed by the same operations in the same order as in a block. */
static float slot_score(const attention_job *j, const float *q, const float *key) {
  vf sum = vf_set(0.0f);
  for (long d = 0; d < j->dim; d++) sum = vf_fma(vf_set(q[d]), vf_set(key[d * LANES]), sum);
  float t[LANES];
  vf_store(t, vf_mul(sum, vf_set(1.0f / sqrtf((float)j->dim))));
  return t[0];
}

/* scores -> weights that are not yet divided by their sum; gives 1 / sum */
static float soft_max(float *scores, long length, long padded) {
  for (long i = length; i < padded; i++) scores[i] = -INFINITY;
  vf most = vf_set(-INFINITY);
  for (long i = 0; i < padded; i += LANES) most = vf_max(most, vf_load(scores + i));
  const vf largest = vf_set(vf_largest(most));
  for (long i = 0; i < padded; i += LANES) vf_store(scores + i, vf_exp(vf_sub(vf_load(scores + i), largest)));
  for (long i = length; i < padded; i++) scores[i] = 0.0f;
  vf sum = vf_set(0.0f);
  for (long i = 0; i < padded; i += LANES) sum = vf_add(sum, vf_load(scores + i));
  return 1.0f / vf_sum(sum);
}

INLINE void weigh_values(const attention_job *j, const float *values, const float *weights, long stride,
                         const float *inverse, const int32_t *path, long length, float *out, const int H) {
  const long dim = j->dim, plain = path && length > j->base ? j->base : length;
  for (long d = 0; d < dim; d += AT_ONCE * LANES) {
    const int both = AT_ONCE > 1 && d + LANES < dim;
    vf sum[8], more[8];
#pragma GCC unroll 8
    for (int h = 0; h < H; h++) sum[h] = more[h] = vf_set(0.0f);
    for (long i = 0; i < length; i++) {
      const float *value = values + (i < plain ? i : j->base + path[i - j->base]) * dim + d;
      const vf v = vf_load(value), next = vf_load(value + both * LANES);
#pragma GCC unroll 8
      for (int h = 0; h < H; h++) {
        const vf each = vf_set(weights[h * stride + i]);
        sum[h] = vf_fma(each, v, sum[h]);
        if (AT_ONCE > 1) more[h] = vf_fma(each, next, more[h]);
      }
    }
#pragma GCC unroll 8
    for (int h = 0; h < H; h++) {
      vf_store(out + h * dim + d, vf_mul(sum[h], vf_set(inverse[h])));
      if (both) vf_store(out + h * dim + d + LANES, vf_mul(more[h], vf_set(inverse[h])));
    }
  }
}

/* H heads of one row that share a key and value head */
INLINE void heads_of_row(const attention_job *j, long row, long kv, long first, float *scores, const int H) {
  const long dim = j->dim, length = j->positions[row] + 1, stride = (length + LANES - 1) / LANES * LANES;
  const float *q = j->qkv + row * j->width + first * dim;
  const float *keys = j->keys + kv * j->capacity * dim, *values = j->values + kv * j->capacity * dim;
  const int32_t *path = j->paths ? j->paths + row * j->rows : 0;
  float inverse[8];
  block_scores(j, q, keys, scores, stride, stride / LANES, H);
  for (int h = 0; h < H; h++) {
    if (path)
      for (long i = j->base; i < length; i++)
        scores[h * stride + i] =
            slot_score(j, q + h * dim, key_at(j->keys, kv, j->base + path[i - j->base], dim, j->capacity));
    inverse[h] = soft_max(scores + h * stride, length, stride);
  }
  weigh_values(j, values, scores, stride, inverse, path, length, j->out + row * j->heads * dim + first * dim, H);
}

static void attend(const void *job, long begin, long end) {
  const attention_job *j = job;
  const long shared = j->heads / j->kv_heads;
  long longest = 0;
  for (long r = 0; r < j->rows; r++) longest = j->positions[r] > longest ? j->positions[r] : longest;
  float *scores = malloc((size_t)(longest / LANES + 1) * LANES * 8 * sizeof(float));
  for (long t = begin; t < end; t++) {
    const long row = t % j->rows, kv = t / j->rows; /* the rows of one head in turn: its keys stay in the cache */
    for (long h = 0; h < shared; h += 8) {
      const long first = kv * shared + h;
      switch (shared - h < 8 ? shared - h : 8) {
        case 1: heads_of_row(j, row, kv, first, scores, 1); break;
        case 2: heads_of_row(j, row, kv, first, scores, 2); break;
        case 3: heads_of_row(j, row, kv, first, scores, 3); break;
        case 4: heads_of_row(j, row, kv, first, scores, 4); break;
        case 5: heads_of_row(j, row, kv, first, scores, 5); break;
        case 6: heads_of_row(j, row, kv, first, scores, 6); break;
        case 7: heads_of_row(j, row, kv, first, scores, 7); break;
        default: heads_of_row(j, row, kv, first, scores, 8); break;
      }
    }
  }
  free(scores);
}

void tl_decode_attention(const float *qkv, const float *keys, const float *values, const int32_t *positions,
                         const int32_t *paths, float *out, long base, long rows, long heads, long kv_heads, long dim,
                         long width, long capacity) {
  const attention_job job = {.qkv = (float *)qkv, .keys = (float *)keys, .values = (float *)values, .out = out,
                             .positions = positions, .paths = paths, .base = base, .rows = rows, .heads = heads,
                             .kv_heads = kv_heads, .dim = dim, .width = width, .capacity = capacity};
  pool_run(attend, &job, rows * kv_heads, rows < LANES ? (rows + 1) / 2 : LANES / 2);
}
