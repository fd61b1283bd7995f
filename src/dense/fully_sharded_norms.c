/* fully_sharded_norms.c - lamb and lars step by norms of whole parameters: each
 * rank's part of their squares, summed in rank order.  On a communicator of
 * its own: reductions of further layers don't wait behind an optimizer. */
#include "dense/fully_sharded.h"

static bool needs(const ts_fully_sharded *d, const ts_fully_sharded_group *g) {
  for (int32_t i = 0; i < g->n_parts; i++)
    if (ts_dense_optim_has_norms(
            ts_param_optims_of(d->base.optims, g->parts[i].param)))
      return true;
  return false;
}

ts_err ts_fully_sharded_norms_create(ts_fully_sharded *d) {
  int64_t most = 0;
  for (int32_t i = 0; i < d->n_groups; i++) {
    ts_fully_sharded_group *g = &d->groups[i];
    if (!needs(d, g)) continue;
    TS_DO(ts_fully_sharded_take(d, &g->stats, 2 * (int64_t)g->n_parts,
                                sizeof *g->stats, TS_TAG_DENSE));
    if (2 * g->n_parts > most) most = 2 * g->n_parts;
  }
  if (!most) return TS_OK;
  TS_DO(ts_comm_create(d->base.spec.world, &d->norm_comm, TS_GROUP_WORLD,
                       "dense norms"));
  return ts_comm_reserve(d->norm_comm, most * 8 * d->n_ranks);
}

typedef struct ts_fully_sharded_norms_arg {
  const ts_fully_sharded *d;
  const ts_fully_sharded_group *g;
  const float *grads;
  int64_t step;
  double lr_factor;
} ts_fully_sharded_norms_arg;

static ts_err norms_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_fully_sharded_norms_arg *a = arg;
  const size_t bytes = 2 * (size_t)a->g->n_parts * sizeof *a->g->stats;
  TS_DO(a->d->kernels->zero(a->g->stats, bytes));
  for (int32_t i = 0; i < a->g->n_parts; i++) {
    const ts_dense_update_args u = ts_fully_sharded_update_args(
        a->d, &a->g->parts[i], a->grads, a->lr_factor, a->step);
    if (u.n && ts_dense_optim_has_norms(u.optim))
      TS_DO(a->d->kernels->dense_stats(&u, a->g->stats + 2 * i));
  }
  return TS_OK;
}

ts_err ts_fully_sharded_norms(ts_fully_sharded *d, ts_fully_sharded_group *g,
                              ts_lane *lane) {
  ts_token token;
  const ts_fully_sharded_norms_arg arg = {d, g, g->grad->at, d->step,
                                          d->lr_factor};
  TS_DO(ts_lane_run(lane, "dense norms", norms_task, arg));
  TS_DO(ts_comm_all_reduce(d->norm_comm, &token, g->stats,
                           2 * (int64_t)g->n_parts, TS_F64, TS_SUM, lane));
  return ts_comm_end(&token, lane);
}
