/* concat.c - embeddings side by side, and their gradients apart again. */
#include "model/concat.h"

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
  x->kernels = spec->kernels;
  x->n_features = spec->n_features;
  x->width = x->b_width = b_width;
  TS_DO(ts_mem_array(&x->at, x->n_features, sizeof *x->at, TS_TAG_DENSE));
  TS_DO(ts_mem_array(&x->dim, x->n_features, sizeof *x->dim, TS_TAG_DENSE));
  place(x, spec->config, &x->width, true, !weighted_last);
  if (weighted_last) place(x, spec->config, &x->width, false, true);
  x->stride = (x->width + 31) / 32 * 32;
  return TS_OK;
}

ts_err ts_concat_take(ts_concat *x, const ts_model_spec *spec,
                      ts_device *device, bool half) {
  const int64_t rows = spec->batch_max, n = rows * x->stride;
  const size_t size = half ? 2 : 4;
  x->half = half;
  TS_DO(ts_arrays_take(&x->arrays, device, &x->x, n, size, TS_TAG_ACTIVATIONS));
  TS_DO(
      ts_arrays_take(&x->arrays, device, &x->dx, n, size, TS_TAG_ACTIVATIONS));
  return ts_arrays_take(&x->arrays, device, &x->db, rows * x->b_width, 4,
                        TS_TAG_ACTIVATIONS);
}

void ts_concat_reset(ts_concat *x) {
  ts_mem_free_all(x->at, x->dim);
  ts_arrays_reset(&x->arrays);
  *x = (ts_concat){0};
}

typedef struct ts_join_task {
  const ts_kernels *kernels;
  ts_join_args args;
} ts_join_task;

static ts_err join_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_join_task *t = arg;
  return t->kernels->join_rows(&t->args);
}

static ts_err split_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_join_task *t = arg;
  return t->kernels->split_rows(&t->args);
}

/* WIDE side by side of FIRST and the PARTS, or apart again. */
static ts_err submit(const ts_concat *x, void *wide, float *first,
                     float *const *part, const ts_emb_views *emb, int32_t batch,
                     bool split, ts_lane *lane) {
  const ts_join_task t = {x->kernels,
                          {.wide = wide,
                           .first = first,
                           .part = part,
                           .part_stride = emb->stride,
                           .at = x->at,
                           .width = x->dim,
                           .stride = x->stride,
                           .first_width = x->b_width,
                           .n_parts = x->n_features,
                           .batch = batch,
                           .half = x->half}};
  return ts_lane_submit(lane, split ? "concatenate backward" : "concatenate",
                        split ? split_task : join_task, &t, sizeof t);
}

ts_err ts_concat_forward(ts_concat *x, const float *b, const ts_emb_views *emb,
                         int32_t batch, ts_lane *lane) {
  return submit(x, x->x, (float *)b, (float *const *)emb->data, emb, batch,
                false, lane);
}

ts_err ts_concat_backward(ts_concat *x, const ts_emb_views *emb, int32_t batch,
                          ts_lane *lane) {
  return submit(x, x->dx, x->db, emb->grad, emb, batch, true, lane);
}
