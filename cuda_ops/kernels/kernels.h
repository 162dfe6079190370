/* The operators' C interface. All arrays are contiguous, row-major; lengths count elements. What each operator means is
 * stated in reference.py. A row's result depends on that row alone, bit for bit. */
#ifndef TOKENLEAP_KERNELS_H
#define TOKENLEAP_KERNELS_H

#include "lanes.h"
#include "pool.h"

enum {
  GROUP = 16,  /* inputs that share one activation scale */
  FINE = 224,  /* steps of a fine code in one step of a code */
  CHUNK = 64,  /* inputs that one vector of weights holds */
  BLOCK = 128, /* two chunks: group g holds inputs 8g .. 8g + 7 of both; every inner length is a multiple */
};

void tl_rms_norm(const float *x, const float *weight, float epsilon, float *y, long rows, long k);
void tl_quantize_rows(const float *x, int8_t *q, float *s, float *offset, long rows, long k);
/* the offsets [rows, LANES] of rows quantised elsewhere, as tl_quantize_rows gives them */
void tl_offsets(const int8_t *q, const float *s, float *offset, long rows, long k);
void tl_rms_norm_quantize(const float *x, const float *weight, float epsilon, int8_t *q, float *s, float *offset,
                          long rows, long k);
/* block: the Hadamard turn of the product before it is quantised, a power of two from LANES to 256; 0 for none */
void tl_silu_mul_quantize(const float *x, int8_t *q, float *s, float *offset, long block, long rows, long k);

/* y = x w^T (+ bias) (+ residual); y may be the residual itself */
void tl_int8_linear(const int8_t *q, const float *s, const float *offset, const int8_t *w, const float *scb,
                    const float *bias, const float *residual, float *y, long rows, long n, long k);

/* Scores again, by the weights (w + fine / FINE) scb / 127, every y [rows, n] that lies within margin of its row's largest. */
void tl_rescore(const float *x, const int8_t *w, const int8_t *fine, const float *scb, float margin, float *y,
                long rows, long n, long k);

/* Rotates q and k of qkv [rows, width] and appends k and v at slots base.. of the cache. A row is q, k, v and, where width
 * is more than (heads + 2 kv_heads) * dim, what is to be added to k and v first. */
void tl_rope_append(float *qkv, const float *cosine, const float *sine, const int32_t *positions, float *keys,
                    float *values, long base, long rows, long heads, long kv_heads, long dim, long width, long capacity);

/* paths: NULL for a chain, else [rows, rows]: row r sees slots base + paths[r][0 .. positions[r] - base] */
void tl_decode_attention(const float *qkv, const float *keys, const float *values, const int32_t *positions,
                         const int32_t *paths, float *out, long base, long rows, long heads, long kv_heads, long dim,
                         long width, long capacity);

typedef struct {
  const int8_t *qkv_w, *out_w, *gate_up_w, *down_w;
  const float *qkv_scb, *out_scb, *gate_up_scb, *down_scb, *qkv_bias, *norm_in, *norm_post;
  float epsilon;
  int32_t heads, kv_heads, dim, width, hidden, inner, block; /* width: outputs of qkv_w; block: as in tl_silu_mul_quantize */
} tl_layer;

/* Scratch memory for at most the given rows: q, s, offset as for the widest input, wide floats for qkv or gate and up. */
typedef struct {
  int8_t *q;
  float *s, *offset, *wide, *attended;
} tl_scratch;

/* One decoder layer in place on x [rows, hidden]: the operators above, one after the other. */
void tl_decoder_layer(const tl_layer *layer, const tl_scratch *scratch, float *x, const float *cosine,
                      const float *sine, const int32_t *positions, const int32_t *paths, float *keys, float *values,
                      long base, long rows, long capacity);

/* The matrices of a draft head besides its projections; norm and output rows are the backbone's. */
typedef struct {
  tl_layer layer; /* its norms are ones */
  const float *norm, *out_scb;
  const int8_t *out_w; /* [vocabulary, hidden] */
  int64_t vocabulary;
} tl_head;

/* A draft step at `position`: count parts [hidden] at unit size, joined, by w [hidden, count * hidden] into x, through the
 * layer into y, to scores [vocabulary]. Key and value of the step go to slot `position`. */
void tl_draft_step(const tl_head *head, const tl_scratch *scratch, const float *const *parts, long count, const int8_t *w,
                   const float *scb, float *x, float *y, const float *cosine, const float *sine, int32_t position,
                   float *keys, float *values, long capacity, float *scores);

const char *tl_version(void);

#endif
