/* One step of a draft head: joined inputs, projection, decoder layer, scores of the draft vocabulary. One row. */
#include "kernels.h"

void tl_draft_step(const tl_head *head, const tl_scratch *t, const float *const *parts, long count, const int8_t *w,
                   const float *scb, float *x, float *y, const float *cosine, const float *sine, int32_t position,
                   float *keys, float *values, long capacity, float *scores) {
  const tl_layer *layer = &head->layer;
  const long hidden = layer->hidden, k = count * hidden;
  for (long i = 0; i < count; i++) /* the layer's own norms have no weights: those of ones serve here too */
    tl_rms_norm(parts[i], layer->norm_in, layer->epsilon, t->wide + i * hidden, 1, hidden);
  tl_quantize_rows(t->wide, t->q, t->s, t->offset, 1, k);
  tl_int8_linear(t->q, t->s, t->offset, w, scb, 0, 0, x, 1, hidden, k);
  memcpy(y, x, (size_t)hidden * sizeof *y);
  tl_decoder_layer(layer, t, y, cosine, sine, &position, 0, keys, values, position, 1, capacity);
  tl_rms_norm_quantize(y, head->norm, layer->epsilon, t->q, t->s, t->offset, 1, hidden);
  tl_int8_linear(t->q, t->s, t->offset, head->out_w, head->out_scb, 0, 0, scores, 1, head->vocabulary, hidden);
}
