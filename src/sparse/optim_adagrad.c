/* optim_adagrad.c - Adagrad, elementwise and row-wise.
 *
 *   adagrad          m += g'^2;            w = c w - lr / (sqrt(m) + eps) g'
 *   rowwise_adagrad  m += mean over the row of g'^2, one m per row
 * with l2: g' = g + wd w, c = 1; decoupled: g' = g, c = 1 - lr wd. */
#include <math.h>

#include "sparse/isa.h"
#include "sparse/row_optim.h"

TS_BODY float l2_of(const ts_row_hyper *h) {
  return h->weight_decay_mode == TS_WD_L2 ? h->weight_decay : 0.0f;
}

TS_BODY float keep_of(const ts_row_hyper *h) {
  return h->weight_decay_mode == TS_WD_DECOUPLED
             ? 1.0f - h->lr * h->weight_decay
             : 1.0f;
}

TS_BODY void elementwise(const ts_row *r, const ts_row_hyper *h,
                         const float *stat) {
  (void)stat;
  const float lr = h->lr, eps = h->eps, l2 = l2_of(h), keep = keep_of(h);
  float *w = r->w, *m = r->state[0];
  const float *g = r->g;
  for (int32_t d = 0; d < r->dim; d++) {
    const float x = g[d] + l2 * w[d];
    m[d] += x * x;
    w[d] = keep * w[d] - lr * x / (sqrtf(m[d]) + eps);
  }
}
TS_ROW_APPLY_VERSIONS(elementwise)

TS_BODY void rowwise_round(const ts_row *r, const ts_row_hyper *h,
                           float *stat) {
  const float l2 = l2_of(h);
  stat[0] += l2 == 0.0f ? ts_row_sum_squares(r->g, r->dim)
                        : ts_row_sum_squares_l2(r->g, r->w, l2, r->dim);
}
TS_ROW_ROUND_VERSIONS(rowwise_round)

TS_BODY void rowwise(const ts_row *r, const ts_row_hyper *h,
                     const float *stat) {
  const float l2 = l2_of(h), keep = keep_of(h);
  float *m = r->state[0], *w = r->w;
  const float *g = r->g;
  *m += stat[0] / (float)r->row_dim;
  const float a = h->lr / (sqrtf(*m) + h->eps), c = keep - a * l2;
  if (c == 1.0f)
    for (int32_t d = 0; d < r->dim; d++) w[d] -= a * g[d];
  else
    for (int32_t d = 0; d < r->dim; d++) w[d] = c * w[d] - a * g[d];
}
TS_ROW_APPLY_VERSIONS(rowwise)

extern const ts_row_optim ts_row_optim_adagrad, ts_row_optim_rowwise_adagrad;
const ts_row_optim ts_row_optim_adagrad = {
    .kind = "adagrad",
    .options = TS_OPT_EPS | TS_OPT_WD_L2 | TS_OPT_WD_DECOUPLED,
    .n_states = 1,
    .state = {{"sum", false}},
    .apply = TS_VERSIONS(elementwise),
};
const ts_row_optim ts_row_optim_rowwise_adagrad = {
    .kind = "rowwise_adagrad",
    .options = TS_OPT_EPS | TS_OPT_WD_L2 | TS_OPT_WD_DECOUPLED,
    .n_states = 1,
    .state = {{"sum", true}},
    .n_rounds = 1,
    .round = {TS_VERSIONS(rowwise_round)},
    .apply = TS_VERSIONS(rowwise),
};
