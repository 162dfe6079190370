/* One decoder layer as the sequence of its operators, so that a pass costs one call a layer. */
#include "kernels.h"

const char *tl_version(void) { return LANES_VERSION; }

void tl_decoder_layer(const tl_layer *layer, const tl_scratch *t, float *x, const float *cosine, const float *sine,
                      const int32_t *positions, const int32_t *paths, float *keys, float *values, long base, long rows,
                      long capacity) {
  const long hidden = layer->hidden, heads = layer->heads, kv = layer->kv_heads, dim = layer->dim;
  tl_rms_norm_quantize(x, layer->norm_in, layer->epsilon, t->q, t->s, t->offset, rows, hidden);
  tl_int8_linear(t->q, t->s, t->offset, layer->qkv_w, layer->qkv_scb, layer->qkv_bias, 0, t->wide, rows,
                 layer->width, hidden);
  tl_rope_append(t->wide, cosine, sine, positions, keys, values, base, rows, heads, kv, dim, layer->width, capacity);
  tl_decode_attention(t->wide, keys, values, positions, paths, t->attended, base, rows, heads, kv, dim, layer->width,
                      capacity);
  tl_quantize_rows(t->attended, t->q, t->s, t->offset, rows, heads * dim);
  tl_int8_linear(t->q, t->s, t->offset, layer->out_w, layer->out_scb, 0, x, x, rows, hidden, heads * dim);
  tl_rms_norm_quantize(x, layer->norm_post, layer->epsilon, t->q, t->s, t->offset, rows, hidden);
  tl_int8_linear(t->q, t->s, t->offset, layer->gate_up_w, layer->gate_up_scb, 0, 0, t->wide, rows,
                 2L * layer->inner, hidden);
  tl_silu_mul_quantize(t->wide, t->q, t->s, t->offset, layer->block, rows, layer->inner);
  tl_int8_linear(t->q, t->s, t->offset, layer->down_w, layer->down_scb, 0, x, x, rows, hidden, layer->inner);
}
