/* optim_lars.c - LARS with momentum, per row.
 *
 *   a = lr eta |w| / (|g| + wd |w|);  m = momentum m + a (g + wd w);  w -= m
 * with the norms of the whole row; where one of them is zero a = lr. */
#include <math.h>

#include "sparse/isa.h"
#include "sparse/row_optim.h"

TS_BODY void norms(const ts_row *r, const ts_row_hyper *h, float *stat) {
  (void)h;
  stat[0] += ts_row_sum_squares(r->w, r->dim);
  stat[1] += ts_row_sum_squares(r->g, r->dim);
}
TS_ROW_ROUND_VERSIONS(norms)

TS_BODY void apply(const ts_row *r, const ts_row_hyper *h, const float *stat) {
  const float decay = h->weight_decay, momentum = h->momentum;
  const float w_norm = sqrtf(stat[0]), g_norm = sqrtf(stat[1]);
  const float a = w_norm > 0.0f && g_norm > 0.0f
                      ? h->lr * h->eta * w_norm / (g_norm + decay * w_norm)
                      : h->lr;
  float *w = r->w, *m = r->state[0];
  const float *g = r->g;
  for (int32_t d = 0; d < r->dim; d++) {
    m[d] = momentum * m[d] + a * (g[d] + decay * w[d]);
    w[d] -= m[d];
  }
}
TS_ROW_APPLY_VERSIONS(apply)

extern const ts_row_optim ts_row_optim_lars_sgd;
const ts_row_optim ts_row_optim_lars_sgd = {
    .kind = "lars_sgd",
    .options = TS_OPT_MOMENTUM | TS_OPT_ETA | TS_OPT_WD_L2,
    .n_states = 1,
    .state = {{"momentum", false}},
    .n_rounds = 1,
    .round = {TS_VERSIONS(norms)},
    .apply = TS_VERSIONS(apply),
};
