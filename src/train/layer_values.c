/* layer_values.c - what a layer of the model gave for a batch. */
#include "train/layer_values.h"

#include <string.h>

#include "base/mem.h"

ts_err ts_layer_values_of(ts_layer_values *v, ts_trainer *t,
                          const ts_value *value) {
  const int64_t rows = t->batch_max;
  v->t = t;
  v->value = value;
  v->n = ts_shape_width(value->shape);
  TS_DO(ts_mem_many(v->wide, rows * value->stride, MISC));
  return ts_mem_many(v->rows, rows * v->n, MISC);
}

ts_err ts_layer_values_open(ts_layer_values *v, ts_trainer *t) {
  const ts_value *value = ts_graph_value(t->model, t->keeps);
  if (!value)
    return ts_fail(TS_ERR_USAGE,
                   "--layer %s: the model has no such layer; train --check "
                   "prints them",
                   t->keeps);
  if (value->tokens)
    return ts_fail(TS_ERR_USAGE,
                   "--layer %s: it gives a row for each token; name a layer "
                   "that gives one a sample",
                   t->keeps);
  return ts_layer_values_of(v, t, value);
}

void ts_layer_values_close(ts_layer_values *v) {
  ts_mem_free_all(v->wide, v->rows);
  *v = (ts_layer_values){0};
}

typedef struct ts_fetch_arg {
  const ts_layer_values *v;
  int32_t n;
} ts_fetch_arg;

static ts_err fetch_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_fetch_arg *a = arg;
  const ts_value *x = a->v->value;
  const size_t bytes = (size_t)a->n * (size_t)x->stride * sizeof(float);
  if (!bytes) return TS_OK;
  return a->v->t->kernels.fetch(a->v->wide, x->x, bytes);
}

ts_err ts_layer_values_take(ts_layer_values *v, int32_t n, const float **rows) {
  const ts_fetch_arg arg = {v, n};
  TS_DO(ts_lane_run(v->t->compute, "layer", fetch_task, arg));
  TS_DO(ts_lane_sync(v->t->compute));
  for (int64_t i = 0; i < n; i++)
    memcpy(v->rows + i * v->n, v->wide + i * v->value->stride,
           (size_t)v->n * sizeof(float));
  *rows = v->rows;
  return TS_OK;
}
