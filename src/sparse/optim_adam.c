/* optim_adam.c - Adam, with a second moment per element or one per row.
 *
 *   m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2 (partial_rowwise: the
 *   mean of g'^2 over the row)
 *   w -= lr (m / (1 - b1^k) / (sqrt(v / (1 - b2^k)) + eps) + wd w)
 * decoupled: as written, g' = g; l2: g' = g + wd w and no wd w at the end.
 * k counts backward passes of the table, from 1. */
#include <math.h>

#include "sparse/isa.h"
#include "sparse/row_optim.h"

TS_BODY float l2_of(const ts_row_hyper *h) {
  return h->weight_decay_mode == TS_WD_L2 ? h->weight_decay : 0.0f;
}
TS_BODY float decay_of(const ts_row_hyper *h) {
  return h->weight_decay_mode == TS_WD_DECOUPLED ? h->weight_decay : 0.0f;
}

TS_BODY void adam(const ts_row *r, const ts_row_hyper *h, const float *stat) {
  (void)stat;
  const float b1 = h->beta1, b2 = h->beta2, lr = h->lr, eps = h->eps;
  const float c1 = h->correction1, c2 = h->correction2;
  const float l2 = l2_of(h), decay = decay_of(h);
  float *w = r->w, *m = r->state[0], *v = r->state[1];
  const float *g = r->g;
  for (int32_t d = 0; d < r->dim; d++) {
    const float x = g[d] + l2 * w[d];
    m[d] = b1 * m[d] + (1.0f - b1) * x;
    v[d] = b2 * v[d] + (1.0f - b2) * (x * x);
    w[d] -= lr * (m[d] * c1 / (sqrtf(v[d] * c2) + eps) + decay * w[d]);
  }
}
TS_ROW_APPLY_VERSIONS(adam)

TS_BODY void partial_round(const ts_row *r, const ts_row_hyper *h,
                           float *stat) {
  stat[0] += ts_row_sum_squares_l2(r->g, r->w, l2_of(h), r->dim);
}
TS_ROW_ROUND_VERSIONS(partial_round)

TS_BODY void partial(const ts_row *r, const ts_row_hyper *h,
                     const float *stat) {
  const float b1 = h->beta1, b2 = h->beta2, lr = h->lr;
  const float l2 = l2_of(h), decay = decay_of(h);
  float *w = r->w, *m = r->state[0], *v = r->state[1];
  const float *g = r->g;
  *v = b2 * *v + (1.0f - b2) * (stat[0] / (float)r->row_dim);
  const float s = h->correction1 / (sqrtf(*v * h->correction2) + h->eps);
  for (int32_t d = 0; d < r->dim; d++) {
    m[d] = b1 * m[d] + (1.0f - b1) * (g[d] + l2 * w[d]);
    w[d] -= lr * (m[d] * s + decay * w[d]);
  }
}
TS_ROW_APPLY_VERSIONS(partial)

extern const ts_row_optim ts_row_optim_adam, ts_row_optim_partial_rowwise_adam;
const ts_row_optim ts_row_optim_adam = {
    .kind = "adam",
    .options = TS_OPT_EPS | TS_OPT_BETAS | TS_OPT_WD_L2 | TS_OPT_WD_DECOUPLED,
    .n_states = 2,
    .state = {{"exp_avg", false}, {"exp_avg_sq", false}},
    .apply = TS_VERSIONS(adam),
};
const ts_row_optim ts_row_optim_partial_rowwise_adam = {
    .kind = "partial_rowwise_adam",
    .options = TS_OPT_EPS | TS_OPT_BETAS | TS_OPT_WD_L2 | TS_OPT_WD_DECOUPLED,
    .n_states = 2,
    .state = {{"exp_avg", false}, {"exp_avg_sq", true}},
    .n_rounds = 1,
    .round = {TS_VERSIONS(partial_round)},
    .apply = TS_VERSIONS(partial),
};
