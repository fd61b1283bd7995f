/* concat.c - embeddings side by side, and their gradients apart again. */
#include "model/concat.h"

#include <string.h>

#include "base/mem.h"

/* Columns for features of tables that are weighted or not, from *AT on. */
static void place(ts_concat *x, const ts_config *c, int32_t *at, bool plain,
                  bool weighted) {
  for (int32_t t = 0, f = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++) {
      if (!(c->tables[t].weighted ? weighted : plain)) continue;
      x->at[f] = *at;
      *at += x->dim[f] = c->tables[t].dim;
    }
}

ts_err ts_concat_init(ts_concat *x, const ts_model_spec *spec, int32_t b_width,
                      bool weighted_last) {
  ts_err err = TS_OK;
  const int64_t rows = spec->batch_max;
  x->n_features = spec->n_features;
  x->width = x->b_width = b_width;
  TS_TRY(ts_mem_array(&x->at, x->n_features, sizeof *x->at, TS_TAG_DENSE));
  TS_TRY(ts_mem_array(&x->dim, x->n_features, sizeof *x->dim, TS_TAG_DENSE));
  place(x, spec->config, &x->width, true, !weighted_last);
  if (weighted_last) place(x, spec->config, &x->width, false, true);
  x->stride = (x->width + 31) / 32 * 32;
  TS_TRY(ts_mem_array(&x->x, rows * x->stride, 4, TS_TAG_ACTIVATIONS));
  TS_TRY(ts_mem_array(&x->dx, rows * x->stride, 4, TS_TAG_ACTIVATIONS));
  TS_TRY(ts_mem_array(&x->db, rows * b_width, 4, TS_TAG_ACTIVATIONS));
done:
  return err;
}

void ts_concat_reset(ts_concat *x) {
  ts_mem_free(x->at);
  ts_mem_free(x->dim);
  ts_mem_free(x->x);
  ts_mem_free(x->dx);
  ts_mem_free(x->db);
  *x = (ts_concat){0};
}

typedef struct ts_concat_arg {
  ts_concat *x;
  const float *b;
  ts_emb_views emb;
  int32_t batch;
} ts_concat_arg;

static ts_err join_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_concat_arg *a = arg;
  const ts_concat *x = a->x;
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < a->batch; i++) {
    float *to = x->x + (int64_t)i * x->stride;
    if (x->b_width)
      memcpy(to, a->b + (int64_t)i * x->b_width, (size_t)x->b_width * 4);
    for (int32_t f = 0; f < x->n_features; f++)
      memcpy(to + x->at[f], a->emb.data[f] + i * a->emb.stride[f],
             (size_t)x->dim[f] * 4);
  }
  return TS_OK;
}

static ts_err split_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_concat_arg *a = arg;
  const ts_concat *x = a->x;
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < a->batch; i++) {
    const float *dx = x->dx + (int64_t)i * x->stride;
    if (x->b_width)
      memcpy(x->db + (int64_t)i * x->b_width, dx, (size_t)x->b_width * 4);
    for (int32_t f = 0; f < x->n_features; f++)
      memcpy(a->emb.grad[f] + i * a->emb.stride[f], dx + x->at[f],
             (size_t)x->dim[f] * 4);
  }
  return TS_OK;
}

ts_err ts_concat_forward(ts_concat *x, const float *b, const ts_emb_views *emb,
                         int32_t batch, ts_lane *lane) {
  const ts_concat_arg arg = {x, b, *emb, batch};
  return ts_lane_submit(lane, "concatenate", join_task, &arg, sizeof arg);
}

ts_err ts_concat_backward(ts_concat *x, const ts_emb_views *emb, int32_t batch,
                          ts_lane *lane) {
  const ts_concat_arg arg = {x, NULL, *emb, batch};
  return ts_lane_submit(lane, "concatenate backward", split_task, &arg,
                        sizeof arg);
}
