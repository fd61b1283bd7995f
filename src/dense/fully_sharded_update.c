/* fully_sharded_update.c - optimizers of this rank's shards, at the end of a
 * step or within its backward pass. */
#include "dense/fully_sharded.h"

/* The host may run ahead into the next step: tasks carry the step's numbers
 * with them. */
typedef struct ts_fully_sharded_update_arg {
  ts_fully_sharded *d;
  const ts_fully_sharded_group *g;
  const float *grads;
  int64_t step;
  double lr_factor;
} ts_fully_sharded_update_arg;

ts_dense_update_args ts_fully_sharded_update_args(
    const ts_fully_sharded *d, const ts_fully_sharded_part *part,
    const float *grads, double lr_factor, int64_t step) {
  ts_dense_update_args u =
      ts_parallel_update_args(&d->base, part->param, step, lr_factor, d->norm);
  u.w = part->w;
  u.grad = grads + part->shard_at;
  u.n = part->param->frozen ? 0 : part->n_rows * part->width;
  return u;
}

/* Rows alone: padding is never read. */
static ts_err update_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_fully_sharded_update_arg *a = arg;
  const ts_fully_sharded_group *g = a->g;
  ts_dense_update_args u[TS_DENSE_PIECES];
  int32_t n = 0;
  for (int32_t i = 0; i < g->n_parts; i++) {
    u[n] = ts_fully_sharded_update_args(a->d, &g->parts[i], a->grads,
                                        a->lr_factor, a->step);
    if (g->stats) u[n].stats = g->stats + 2 * i;
    n += u[n].n > 0;
    if (!n || (n < TS_DENSE_PIECES && i + 1 < g->n_parts)) continue;
    TS_DO(a->d->kernels->dense_update(u, n));
    n = 0;
  }
  for (int32_t i = 0; i < g->n_parts; i++)
    g->parts[i].param->version += !g->parts[i].param->frozen;
  return TS_OK;
}

ts_err ts_fully_sharded_update(ts_fully_sharded *d, ts_fully_sharded_group *g,
                               ts_lane *lane) {
  const ts_fully_sharded_update_arg arg = {d, g, g->grad->at, d->step,
                                           d->lr_factor};
  /* An all-gather that nobody has waited for may still have to read. */
  TS_DO(ts_lane_wait(lane, g->gathered));
  if (g->stats) TS_DO(ts_fully_sharded_norms(d, g, lane));
  TS_DO(ts_lane_run(lane, "dense optimizer", update_task, arg));
  g->updated = ts_lane_record(lane);
  return TS_OK;
}

/* ---- clipping ------------------------------------------------------------ */

static ts_err add_squares(const ts_fully_sharded *d,
                          const ts_fully_sharded_group *g) {
  for (int32_t i = 0; i < g->n_parts; i++) {
    const ts_fully_sharded_part *p = &g->parts[i];
    const int64_t n = p->n_rows * p->width;
    if (n && !p->param->frozen)
      TS_DO(d->kernels->squares(g->own.at + p->shard_at, n, d->norm));
  }
  return TS_OK;
}

/* This rank's part of the square of the norm; what all have counts once. */
static ts_err squares_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_fully_sharded *d = *(ts_fully_sharded **)arg;
  TS_DO(d->kernels->zero(d->norm, sizeof *d->norm));
  if (!d->rank) TS_DO(add_squares(d, &d->late));
  for (int32_t i = 0; i < d->n_groups; i++)
    TS_DO(add_squares(d, &d->groups[i]));
  return TS_OK;
}

static ts_err clip_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_fully_sharded *d = *(ts_fully_sharded **)arg;
  return d->kernels->clip(d->norm, d->norm + 1, d->config->optimizer.clip_norm);
}

static ts_err clip(ts_fully_sharded *d, double *grad_norm, ts_lane *lane) {
  ts_token token;
  TS_DO(ts_lane_run(lane, "clip", squares_task, d));
  ts_comm_set_stage(d->reduce_comm, "norm");
  TS_DO(ts_comm_all_reduce(d->reduce_comm, &token, d->norm, 1, TS_F64, TS_SUM,
                           lane));
  TS_DO(ts_comm_end(&token, lane));
  TS_DO(ts_lane_run(lane, "clip", clip_task, d));
  if (grad_norm) TS_DO(ts_lane_copy(lane, grad_norm, d->norm, sizeof *d->norm));
  return TS_OK;
}

/* ---- the end of a step --------------------------------------------------- */

static ts_err update_all(ts_fully_sharded *d, double *grad_norm,
                         ts_lane *lane) {
  if (d->norm) TS_DO(clip(d, grad_norm, lane));
  for (int32_t i = d->n_groups - 1; i >= 0; i--)
    TS_DO(ts_fully_sharded_update(d, &d->groups[i], lane));
  if (d->late.n_parts) TS_DO(ts_fully_sharded_update(d, &d->late, lane));
  return TS_OK;
}

static ts_err swap_stash(ts_fully_sharded *d, ts_lane *lane) {
  return ts_parallel_swap(d->kernels, d->grads, d->stash, d->grads_n, lane);
}

static ts_err check_all_came(const ts_fully_sharded *d) {
  for (int32_t i = -1; i < d->n_groups; i++) {
    const ts_fully_sharded_group *g = i < 0 ? &d->late : &d->groups[i];
    if (g->missing)
      return ts_fail(TS_ERR_INTERNAL, "a parameter of layer %s got no gradient",
                     g->name);
  }
  return TS_OK;
}

/* LANE waits for all gradients; then clips and updates, unless what is kept
 * comes first. */
static ts_err update_now(ts_fully_sharded *d, double *grad_norm,
                         ts_lane *lane) {
  for (int32_t i = 0; i < d->n_groups; i++)
    TS_DO(ts_lane_wait(lane, d->groups[i].reduced));
  TS_DO(ts_lane_wait(lane, d->late.reduced));
  TS_DO(ts_lane_wait(lane, ts_lane_record(d->lane)));
  const bool keep = d->stashing && !d->stashed;
  if (d->stashing) TS_DO(swap_stash(d, lane));
  d->stashed |= d->stashing;
  if (!keep) TS_DO(update_all(d, grad_norm, lane));
  for (int32_t i = 0; i < d->n_groups; i++)
    d->groups[i].own.last_use = ts_lane_record(lane);
  return TS_OK;
}

ts_err ts_fully_sharded_end(ts_parallel *base, double *grad_norm,
                            ts_lane *lane) {
  ts_fully_sharded *d = (ts_fully_sharded *)base;
  TS_DO(check_all_came(d));
  ts_fully_sharded_pass(d, -1);
  d->live.inputs = 0;
  d->n_earlier = d->sync ? 0 : d->n_earlier + 1;
  if (!d->sync) return TS_OK;
  if (d->in_backward) {
    d->optimized = ts_lane_record(d->lane);
    TS_DO(ts_lane_wait(lane, d->optimized));
  } else {
    TS_DO(update_now(d, grad_norm, lane));
    d->optimized = ts_lane_record(lane);
  }
  return TS_OK;
}

ts_err ts_fully_sharded_stash(ts_parallel *base, bool on) {
  ts_fully_sharded *d = (ts_fully_sharded *)base;
  if (on && !d->stash) {
    TS_DO(ts_fully_sharded_take(d, &d->bad, 1, sizeof *d->bad, TS_TAG_DENSE));
    TS_DO(ts_fully_sharded_take(d, &d->stash, d->grads_n, sizeof *d->stash,
                                TS_TAG_DENSE));
  }
  d->stashing = on;
  return TS_OK;
}

ts_err ts_fully_sharded_unstash(ts_parallel *base, int64_t step,
                                ts_lane *lane) {
  ts_fully_sharded *d = (ts_fully_sharded *)base;
  if (!d->stashed) return TS_OK;
  d->step = step;
  d->lr_factor = ts_parallel_rate(base, step);
  d->stashed = false;
  TS_DO(swap_stash(d, lane));
  TS_DO(update_all(d, NULL, lane));
  d->optimized = ts_lane_record(lane);
  return TS_OK;
}

static bool group_finite(const ts_fully_sharded *d,
                         const ts_fully_sharded_group *g) {
  enum { LOOKS = 32 };
  ts_check_finite_args looks[LOOKS];
  int32_t n = 0;
  for (int32_t k = 0; k < g->n_parts; k++) {
    const ts_fully_sharded_part *p = &g->parts[k];
    const float *x = d->stash + (g->own.at - d->grads) + p->shard_at;
    looks[n++] =
        (ts_check_finite_args){x, p->width, p->n_rows, p->width, d->bad};
    if (n < LOOKS && k + 1 < g->n_parts) continue;
    if (!ts_parallel_finite(d->kernels, d->bad, looks, n)) return false;
    n = 0;
  }
  return true;
}

/* Rows alone: what pads them may be anything. */
bool ts_fully_sharded_stash_finite(const ts_parallel *base) {
  const ts_fully_sharded *d = (const ts_fully_sharded *)base;
  bool all = true;
  if (!d->stashed) return true;
  for (int32_t i = 0; i < d->n_groups; i++)
    all &= group_finite(d, &d->groups[i]);
  return all & group_finite(d, &d->late);
}
