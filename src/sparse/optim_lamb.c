/* optim_lamb.c - LAMB per row, with a second moment per element or per row.
 *
 *   r = mhat / (sqrt(vhat) + eps) + wd w;  w -= lr (|w| / |r|) r
 * with the norms of the whole row; a ratio with a zero norm is 1, so that
 * rows that are zero move and rows without an update do not become NaN.
 * m and v grow in the round, before the norms: the same for all shards. */
#include <math.h>

#include "sparse/isa.h"
#include "sparse/row_optim.h"

TS_BODY float ratio(const float *stat) {
  return stat[0] > 0.0f && stat[1] > 0.0f ? sqrtf(stat[0]) / sqrtf(stat[1])
                                          : 1.0f;
}

/* The update's direction r, element d. */
#define DIRECTION(m, v) ((m)*c1 / (sqrtf((v)*c2) + eps) + decay * w[d])

/* N <= 16 columns from AT on; their squares to the parts of two sums. */
TS_BODY void lamb_columns(const ts_row *r, const ts_row_hyper *h, int32_t at,
                          int32_t n, ts_v4 *ww, ts_v4 *rr) {
  const float b1 = h->beta1, b2 = h->beta2, eps = h->eps;
  const float c1 = h->correction1, c2 = h->correction2;
  const float decay = h->weight_decay;
  float *restrict m = r->state[0] + at, *restrict v = r->state[1] + at;
  const float *restrict w = r->w + at, *restrict g = r->g + at;
  float was[16] = {0}, x[16] = {0};
  for (int32_t d = 0; d < n; d++) {
    m[d] = b1 * m[d] + (1.0f - b1) * g[d];
    v[d] = b2 * v[d] + (1.0f - b2) * (g[d] * g[d]);
    was[d] = w[d];
    x[d] = DIRECTION(m[d], v[d]);
  }
  ts_row_add_squares(ww, was, at);
  ts_row_add_squares(rr, x, at);
}

TS_BODY void lamb_round(const ts_row *r, const ts_row_hyper *h, float *stat) {
  ts_v4 ww[8] = {{0}}, rr[8] = {{0}};
  int32_t d = 0;
  for (; d + 16 <= r->dim; d += 16) lamb_columns(r, h, d, 16, ww, rr);
  if (d < r->dim) lamb_columns(r, h, d, r->dim - d, ww, rr);
  stat[0] += ts_row_parts_sum(ww);
  stat[1] += ts_row_parts_sum(rr);
}
TS_ROW_ROUND_VERSIONS(lamb_round)

TS_BODY void lamb(const ts_row *r, const ts_row_hyper *h, const float *stat) {
  const float eps = h->eps, c1 = h->correction1, c2 = h->correction2;
  const float decay = h->weight_decay, a = h->lr * ratio(stat);
  float *w = r->w;
  const float *m = r->state[0], *v = r->state[1];
  for (int32_t d = 0; d < r->dim; d++) w[d] -= a * DIRECTION(m[d], v[d]);
}
TS_ROW_APPLY_VERSIONS(lamb)

/* partial: first the row's mean of g^2, then the norms. */
TS_BODY void partial_mean(const ts_row *r, const ts_row_hyper *h, float *stat) {
  (void)h;
  stat[0] += ts_row_sum_squares(r->g, r->dim);
}
TS_ROW_ROUND_VERSIONS(partial_mean)

TS_BODY void partial_columns(const ts_row *r, const ts_row_hyper *h, float v,
                             int32_t at, int32_t n, ts_v4 *ww, ts_v4 *rr) {
  const float b1 = h->beta1, eps = h->eps;
  const float c1 = h->correction1, c2 = h->correction2;
  const float decay = h->weight_decay;
  float *restrict m = r->state[0] + at;
  const float *restrict w = r->w + at, *restrict g = r->g + at;
  float was[16] = {0}, x[16] = {0};
  for (int32_t d = 0; d < n; d++) {
    m[d] = b1 * m[d] + (1.0f - b1) * g[d];
    was[d] = w[d];
    x[d] = DIRECTION(m[d], v);
  }
  ts_row_add_squares(ww, was, at);
  ts_row_add_squares(rr, x, at);
}

TS_BODY void partial_round(const ts_row *r, const ts_row_hyper *h,
                           float *stat) {
  ts_v4 ww[8] = {{0}}, rr[8] = {{0}};
  float *v = r->state[1];
  int32_t d = 0;
  *v = h->beta2 * *v + (1.0f - h->beta2) * (stat[0] / (float)r->row_dim);
  for (; d + 16 <= r->dim; d += 16) partial_columns(r, h, *v, d, 16, ww, rr);
  if (d < r->dim) partial_columns(r, h, *v, d, r->dim - d, ww, rr);
  stat[0] = ts_row_parts_sum(ww);
  stat[1] = ts_row_parts_sum(rr);
}
TS_ROW_ROUND_VERSIONS(partial_round)

TS_BODY void partial(const ts_row *r, const ts_row_hyper *h,
                     const float *stat) {
  const float eps = h->eps, c1 = h->correction1, c2 = h->correction2;
  const float decay = h->weight_decay, a = h->lr * ratio(stat);
  float *w = r->w;
  const float *m = r->state[0], *v = r->state[1];
  for (int32_t d = 0; d < r->dim; d++) w[d] -= a * DIRECTION(m[d], *v);
}
TS_ROW_APPLY_VERSIONS(partial)

extern const ts_row_optim ts_row_optim_lamb, ts_row_optim_partial_rowwise_lamb;
const ts_row_optim ts_row_optim_lamb = {
    .kind = "lamb",
    .options = TS_OPT_EPS | TS_OPT_BETAS | TS_OPT_WD_DECOUPLED,
    .n_states = 2,
    .state = {{"exp_avg", false}, {"exp_avg_sq", false}},
    .n_rounds = 1,
    .round = {TS_VERSIONS(lamb_round)},
    .apply = TS_VERSIONS(lamb),
};
const ts_row_optim ts_row_optim_partial_rowwise_lamb = {
    .kind = "partial_rowwise_lamb",
    .options = TS_OPT_EPS | TS_OPT_BETAS | TS_OPT_WD_DECOUPLED,
    .n_states = 2,
    .state = {{"exp_avg", false}, {"exp_avg_sq", true}},
    .n_rounds = 2,
    .round = {TS_VERSIONS(partial_mean), TS_VERSIONS(partial_round)},
    .apply = TS_VERSIONS(partial),
};
