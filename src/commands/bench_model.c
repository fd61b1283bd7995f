/* bench_model.c - what a model's passes by element move through memory.  An
 * array that a pass reads and writes counts twice. */
#include "commands/bench_limits.h"

static double width(const ts_config *c) {
  const ts_ints *bottom = &c->model.dense_arch;
  double n = 0;
  if (c->model.dense_features) /* deepfm has no list of layers */
    n = bottom->n ? (double)bottom->item[bottom->n - 1] : c->tables[0].dim;
  for (int32_t i = 0; i < c->n_tables; i++)
    n += (double)c->tables[i].dim * c->tables[i].features.n;
  return n;
}

/* Embeddings are f32, what cross layers keep is of E bytes. */
ts_model_bytes ts_bench_model_bytes(const ts_config *c, double batch,
                                    bool half) {
  const double n = width(c) * batch, e = half ? 2 : 4;
  const double layers = c->model.dcn_layers, more = layers - 1;
  ts_model_bytes x = {.join = (4 + e) * n};
  if (layers < 1) return x;
  /* x_0, t, y; x, which the first layer's x_0 is */
  x.cross = n * e * (3 * layers + more);
  /* dy, t, x_0 to dx_0, dt; then dy and dx_0 are added to: add, dy, dx_0, t,
   * x_0, dt; at the end dx_0, from dy and add */
  x.cross_backward = n * e * (5 + 8 * more + 4);
  return x;
}
