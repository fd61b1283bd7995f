/* ddp_update.c - what is done to a bucket's gradients: adding micro-batches,
 * clipping, optimizers.  Kernels do it: the gradients lie in the device's
 * memory. */
#include "dense/ddp.h"

/* ---- micro-batches ------------------------------------------------------- */

/* Backward writes gradients: they are added to those of earlier
 * micro-batches.  Not so what a slot has between them. */
ts_err ts_ddp_fold(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  if (b->fresh == b->grads) return TS_OK;
  for (int32_t s = b->first; s < b->end; s++) {
    const int64_t at = d->offset[s];
    int64_t end = at + d->place[s]->n;
    while (s + 1 < b->end && d->offset[s + 1] == end) end += d->place[++s]->n;
    TS_DO(ts_parallel_fold(d->kernels, b->grads + at, b->fresh + at, end - at,
                           !d->n_earlier, lane));
  }
  ts_ddp_give_slot(d, b, lane);
  return TS_OK;
}

/* ---- updates ------------------------------------------------------------- */

/* The host may run ahead into the next step: tasks carry the step's numbers
 * with them. */
typedef struct ts_update_arg {
  ts_ddp *d;
  const ts_bucket *b;
  int64_t step;
  double lr_factor;
} ts_update_arg;

/* Place S of the bucket. */
static ts_dense_update_args update_args(const ts_update_arg *a, int32_t s) {
  const ts_ddp *d = a->d;
  const ts_param *p = d->place[s];
  ts_dense_update_args u =
      ts_parallel_update_args(&d->base, p, a->step, a->lr_factor, d->norm);
  u.w = p->w;
  u.grad = a->b->grads + d->offset[s];
  u.n = p->n;
  return u;
}

/* The whole bucket in as few calls as there may be. */
static ts_err update_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_update_arg *a = arg;
  ts_dense_update_args u[TS_DENSE_PIECES];
  int32_t n = 0;
  for (int32_t s = a->b->first; s < a->b->end; s++) {
    u[n] = update_args(a, s);
    n += !a->d->place[s]->frozen;
    if (!n || (n < TS_DENSE_PIECES && s + 1 < a->b->end)) continue;
    TS_DO(a->d->kernels->dense_update(u, n));
    n = 0;
  }
  for (int32_t s = a->b->first; s < a->b->end; s++)
    a->d->place[s]->version += !a->d->place[s]->frozen;
  return TS_OK;
}

ts_err ts_ddp_update(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  const ts_update_arg arg = {d, b, d->step, d->lr_factor};
  return ts_lane_run(lane, "dense optimizer", update_task, arg);
}

/* Gradients that no optimizer wants are no part of the norm. */
static ts_err clear_frozen(const ts_ddp *d) {
  for (int32_t s = 0; s < d->params->n; s++) {
    float *grad = d->buckets[d->bucket_of[s]].grads + d->offset[s];
    if (d->place[s]->frozen)
      TS_DO(d->kernels->zero(grad, (size_t)d->place[s]->n * sizeof *grad));
  }
  return TS_OK;
}

/* Global norm of all reduced gradients, in double. */
static ts_err norm_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_ddp *d = *(ts_ddp **)arg;
  const ts_kernels *k = d->kernels;
  TS_DO(clear_frozen(d));
  TS_DO(k->zero(d->norm, sizeof *d->norm));
  TS_DO(k->squares(d->kept + d->offset[0], d->n_kept - d->offset[0], d->norm));
  return k->clip(d->norm, d->norm + 1, d->config->optimizer.clip_norm);
}

ts_err ts_ddp_update_all(ts_ddp *d, double *grad_norm, ts_lane *lane) {
  if (d->norm) {
    TS_DO(ts_lane_run(lane, "clip", norm_task, d));
    if (grad_norm)
      TS_DO(ts_lane_copy(lane, grad_norm, d->norm, sizeof *d->norm));
  }
  for (int32_t i = 0; i < d->n_buckets; i++)
    TS_DO(ts_ddp_update(d, &d->buckets[i], lane));
  return TS_OK;
}

ts_err ts_ddp_swap_stash(ts_ddp *d, ts_lane *lane) {
  return ts_parallel_swap(d->kernels, d->kept, d->stash, d->n_kept, lane);
}
