/* ddp_update.c - what is done to a bucket's gradients: adding micro-batches,
 * making them short for the wire, clipping, optimizers. */
#include <math.h>
#include <string.h>

#include "dense/ddp.h"

/* ---- micro-batches ------------------------------------------------------- */

typedef struct ts_fold_arg {
  float *to;
  const float *from;
  int64_t n;
  bool first; /* = instead of += */
} ts_fold_arg;

static ts_err fold_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_fold_arg *a = arg;
  float *restrict to = a->to;
  const float *restrict from = a->from;
  if (a->first)
    memcpy(to, from, (size_t)a->n * sizeof *to);
  else
    for (int64_t i = 0; i < a->n; i++) to[i] += from[i];
  return TS_OK;
}

/* Backward writes gradients: they are added to those of earlier
 * micro-batches. */
ts_err ts_ddp_fold(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  const ts_fold_arg arg = {b->grads, b->fresh, b->n, !d->n_earlier};
  if (b->fresh == b->grads) return TS_OK;
  ts_err err = ts_lane_submit(lane, "accumulate", fold_task, &arg, sizeof arg);
  ts_ddp_give_slot(d, b, lane);
  return err;
}

/* ---- 16 bits on the wire ------------------------------------------------- */

/* In place: the short values lie in the first half of the long ones, so one
 * goes upwards and the other downwards, by blocks through the side. */
enum { WIRE_BLOCK = 1024 };

typedef struct ts_wire_arg {
  float *grads;
  int64_t n;
  ts_dtype dtype;
} ts_wire_arg;

static ts_err shorten_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_wire_arg *a = arg;
  float block[WIRE_BLOCK];
  for (int64_t i = 0; i < a->n; i += WIRE_BLOCK) {
    const int64_t n = a->n - i < WIRE_BLOCK ? a->n - i : WIRE_BLOCK;
    memcpy(block, a->grads + i, (size_t)n * sizeof *block);
    ts_from_f32((uint16_t *)(void *)a->grads + i, block, a->dtype, n);
  }
  return TS_OK;
}

static ts_err widen_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_wire_arg *a = arg;
  uint16_t block[WIRE_BLOCK];
  for (int64_t i = (a->n - 1) / WIRE_BLOCK * WIRE_BLOCK; i >= 0;
       i -= WIRE_BLOCK) {
    const int64_t n = a->n - i < WIRE_BLOCK ? a->n - i : WIRE_BLOCK;
    memcpy(block, (uint16_t *)(void *)a->grads + i, (size_t)n * sizeof *block);
    ts_to_f32(a->grads + i, block, a->dtype, n);
  }
  return TS_OK;
}

ts_err ts_ddp_shorten(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  const ts_wire_arg arg = {b->grads, b->n, d->wire};
  if (d->wire == TS_F32) return TS_OK;
  return ts_lane_submit(lane, "shorten gradients", shorten_task, &arg,
                        sizeof arg);
}

ts_err ts_ddp_widen(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  const ts_wire_arg arg = {b->grads, b->n, d->wire};
  if (d->wire == TS_F32 || !d->comm) return TS_OK;
  return ts_lane_submit(lane, "widen gradients", widen_task, &arg, sizeof arg);
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

static ts_err update_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_err err = TS_OK;
  const ts_update_arg *a = arg;
  ts_ddp *d = a->d;
  for (int32_t s = a->b->first; s < a->b->end; s++) {
    ts_param *p = d->place[s];
    ts_dense_update_args u = {.optim = ts_param_optims_of(d->base.optims, p),
                              .w = p->w,
                              .grad = a->b->grads + d->offset[s],
                              .n = p->n,
                              .lr_factor = a->lr_factor,
                              .grad_factor = d->grad_factor,
                              .step = a->step};
    memcpy(u.state, p->state, sizeof u.state);
    TS_TRY(d->kernels->dense_update(&u));
    p->version++;
  }
done:
  return err;
}

ts_err ts_ddp_update(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  const ts_update_arg arg = {d, b, d->step, d->lr_factor};
  return ts_lane_submit(lane, "dense optimizer", update_task, &arg, sizeof arg);
}

/* Global norm of all reduced gradients, by parameter and in double. */
static ts_err norm_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_ddp *d = *(ts_ddp **)arg;
  double sum = 0;
  for (int32_t s = 0; s < d->params->n; s++) {
    const float *grad = d->buckets[d->bucket_of[s]].grads + d->offset[s];
    double part = 0;
    for (int64_t i = 0; i < d->place[s]->n; i++)
      part += (double)grad[i] * grad[i];
    sum += part;
  }
  d->norm = sqrt(sum);
  d->grad_factor = fmin(1.0, d->config->optimizer.clip_norm / (d->norm + 1e-6));
  return TS_OK;
}

ts_err ts_ddp_update_all(ts_ddp *d, double *grad_norm, ts_lane *lane) {
  ts_err err = TS_OK;
  if (d->config->optimizer.clip_norm > 0) {
    TS_TRY(ts_lane_submit(lane, "clip", norm_task, &d, sizeof d));
    if (grad_norm)
      TS_TRY(ts_lane_copy(lane, grad_norm, &d->norm, sizeof d->norm));
  }
  for (int32_t i = 0; i < d->n_buckets; i++)
    TS_TRY(ts_ddp_update(d, &d->buckets[i], lane));
done:
  return err;
}

static ts_err swap_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_ddp *d = *(ts_ddp **)arg;
  const int64_t n = ts_params_count(d->params);
  for (int64_t i = 0; i < n; i++) {
    const float x = d->kept[i];
    d->kept[i] = d->stash[i];
    d->stash[i] = x;
  }
  return TS_OK;
}

ts_err ts_ddp_swap_stash(ts_ddp *d, ts_lane *lane) {
  return ts_lane_submit(lane, "stash", swap_task, &d, sizeof d);
}
