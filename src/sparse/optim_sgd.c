/* optim_sgd.c - plain stochastic gradient descent.
 *
 *   l2         w -= lr (g + wd w)
 *   decoupled  w = (1 - lr wd) w - lr g */
#include "sparse/isa.h"
#include "sparse/row_optim.h"

TS_BODY void apply(const ts_row *r, const ts_row_hyper *h, const float *stat) {
  (void)stat;
  const float lr = h->lr;
  const float keep =
      h->weight_decay_mode == TS_WD_NONE ? 1.0f : 1.0f - lr * h->weight_decay;
  float *w = r->w;
  const float *g = r->g;
  for (int32_t d = 0; d < r->dim; d++) w[d] = keep * w[d] - lr * g[d];
}
TS_ROW_APPLY_VERSIONS(apply)

extern const ts_row_optim ts_row_optim_sgd;
const ts_row_optim ts_row_optim_sgd = {
    .kind = "sgd",
    .options = TS_OPT_WD_L2 | TS_OPT_WD_DECOUPLED,
    .apply = TS_VERSIONS(apply),
};
