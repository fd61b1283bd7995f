/* ddp.c - buckets of gradients, reduced as they fill, and the optimizers that
 * run as soon as a bucket's sum is there.
 *
 * Parameters and optimizer state are on every rank.  Buckets are laid out
 * once, in the reverse of the parameters' order, which is the order of the
 * backward pass: no search for unused parameters, no rebuild.  A bucket closes
 * once it holds bucket_mb; bucket_mb 0: first 1 MiB, then 25.  Gradients are
 * views into buckets: no second copy. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "dense/parallel_impl.h"

typedef struct ts_bucket {
  int32_t first, end; /* slots, in backward order */
  int64_t at, n;      /* floats in ddp->grads */
  int32_t missing;    /* gradients still to come in this step */
  ts_token token;
} ts_bucket;

typedef struct ts_ddp {
  ts_parallel base;
  ts_params *params;
  const ts_config *config;
  const ts_kernels *kernels;
  ts_comm *own_comm; /* its lane carries the reductions */
  ts_comm *comm;     /* the same, NULL on one rank */
  ts_lane *lane;     /* optimizers run here, beside the backward pass */
  ts_param **slot;   /* (n) parameters in backward order */
  int32_t *slot_of;  /* (n) by param->index */
  ts_bucket *buckets;
  int32_t n_buckets, next; /* next: to be reduced */
  int32_t *bucket_of;      /* (n) by slot */
  float *grads;
  float *earlier; /* like grads: sums of the step's earlier micro-batches;
                     NULL unless run.accumulate > 1 */
  float *stash;   /* like grads: of the step before; NULL until it is used */
  bool in_backward, sync, stashing, stashed;
  int32_t n_earlier; /* micro-batches in EARLIER */
  int64_t step, n_reductions;
  double lr_factor;
  double grad_factor, norm; /* the lane's: tasks write and read them */
} ts_ddp;

/* ---- layout -------------------------------------------------------------- */

static int64_t bucket_cap(const ts_config *c, int32_t bucket) {
  const double mb = c->dense.bucket_mb > 0 ? c->dense.bucket_mb
                    : bucket == 0          ? 1.0
                                           : 25.0;
  return (int64_t)(mb * 1024 * 1024);
}

static void lay_out(ts_ddp *d) {
  int64_t at = 0;
  ts_bucket *b = d->buckets;
  *b = (ts_bucket){0};
  for (int32_t s = 0; s < d->params->n; s++) {
    if (b->n && d->slot[s]->late != d->slot[s - 1]->late)
      *++b = (ts_bucket){.first = s, .end = s, .at = at};
    d->bucket_of[s] = (int32_t)(b - d->buckets);
    d->slot[s]->grad = d->grads + at;
    at += d->slot[s]->n;
    b->end = s + 1;
    b->n = at - b->at;
    if (b->n * 4 < bucket_cap(d->config, d->bucket_of[s]) ||
        s + 1 == d->params->n)
      continue;
    *++b = (ts_bucket){.first = s + 1, .end = s + 1, .at = at};
  }
  d->n_buckets = (int32_t)(b - d->buckets) + 1;
}

static ts_err make_buckets(ts_ddp *d) {
  ts_err err = TS_OK;
  const int32_t n = d->params->n;
  TS_TRY(ts_mem_array(&d->slot, n, sizeof *d->slot, TS_TAG_DENSE));
  TS_TRY(ts_mem_array(&d->slot_of, n, sizeof *d->slot_of, TS_TAG_DENSE));
  TS_TRY(ts_mem_array(&d->bucket_of, n, sizeof *d->bucket_of, TS_TAG_DENSE));
  TS_TRY(ts_mem_array(&d->buckets, n + 1, sizeof *d->buckets, TS_TAG_DENSE));
  TS_TRY(ts_mem_array(&d->grads, ts_params_count(d->params), sizeof *d->grads,
                      TS_TAG_DENSE));
  if (d->config->run.accumulate > 1)
    TS_TRY(ts_mem_array(&d->earlier, ts_params_count(d->params),
                        sizeof *d->earlier, TS_TAG_DENSE));
  for (int32_t s = 0; s < n; s++) {
    d->slot[s] = d->params->item[n - 1 - s];
    d->slot_of[d->slot[s]->index] = s;
  }
  lay_out(d);
done:
  return err;
}

static ts_err make_states(ts_ddp *d) {
  ts_err err = TS_OK;
  for (int32_t i = 0; i < d->params->n; i++) {
    ts_param *p = d->params->item[i];
    for (int k = 0;
         k < ts_dense_optim_n_states(ts_param_optims_of(d->base.optims, p));
         k++)
      TS_TRY(
          ts_mem_array(&p->state[k], p->n, sizeof(float), TS_TAG_DENSE_STATE));
  }
done:
  return err;
}

static void destroy(ts_parallel *base) {
  ts_ddp *d = (ts_ddp *)base;
  if (!d) return;
  ts_lane_destroy(d->lane);
  if (d->own_comm) ts_comm_destroy(d->own_comm);
  for (int32_t i = 0; i < d->params->n; i++) {
    ts_param *p = d->params->item[i];
    for (int k = 0; k < TS_PARAM_STATES_MAX; k++) {
      ts_mem_free(p->state[k]);
      p->state[k] = NULL;
    }
    p->grad = NULL;
  }
  ts_param_optims_destroy(d->base.optims);
  ts_mem_free(d->slot);
  ts_mem_free(d->slot_of);
  ts_mem_free(d->bucket_of);
  ts_mem_free(d->buckets);
  ts_mem_free(d->grads);
  ts_mem_free(d->earlier);
  ts_mem_free(d->stash);
  ts_mem_free(d);
}

static ts_err create_training(ts_ddp *d) {
  ts_err err = TS_OK;
  const ts_config *c = d->config;
  d->in_backward = c->optimizer.in_backward && !(c->optimizer.clip_norm > 0);
  if (c->optimizer.in_backward && c->optimizer.clip_norm > 0)
    ts_note("optimizer.clip_norm needs all gradients before any update: "
            "optimizer.in_backward is off");
  TS_TRY(ts_schedule_check(c));
  TS_TRY(ts_param_optims_create(&d->base.optims, d->params, c));
  TS_TRY(make_buckets(d));
  TS_TRY(make_states(d));
  TS_TRY(ts_lane_create(d->base.spec.device, &d->lane, "dense optimizer",
                        TS_LANE_DATA));
  TS_TRY(ts_comm_create(d->base.spec.world, &d->own_comm, TS_GROUP_WORLD,
                        "dense reduce"));
  d->comm = ts_comm_size(d->own_comm) > 1 ? d->own_comm : NULL;
done:
  return err;
}

static ts_err create(ts_parallel **out, const ts_parallel_spec *spec) {
  extern const ts_parallel_ops ts_parallel_ddp;
  ts_err err = TS_OK;
  ts_ddp *d = NULL;
  TS_TRY(ts_mem_alloc(&d, sizeof *d, TS_TAG_DENSE));
  d->base.ops = &ts_parallel_ddp;
  d->base.spec = *spec;
  d->params = spec->params;
  d->config = spec->config;
  d->kernels = spec->kernels;
  d->grad_factor = 1.0;
  if (spec->training) TS_TRY(create_training(d));
  *out = &d->base;
  d = NULL;
done:
  if (d) destroy(&d->base);
  return err;
}

/* ---- a step -------------------------------------------------------------- */

static ts_err begin(ts_parallel *base, int64_t step, bool sync) {
  ts_ddp *d = (ts_ddp *)base;
  if (!sync && !d->earlier)
    return ts_fail(TS_ERR_INTERNAL, "micro-batches without run.accumulate");
  d->step = step;
  d->sync = sync;
  d->lr_factor = ts_schedule_factor(d->config, step);
  d->next = 0;
  for (int32_t i = 0; i < d->n_buckets; i++)
    d->buckets[i].missing = d->buckets[i].end - d->buckets[i].first;
  return TS_OK;
}

/* The host may run ahead into the next step: tasks carry the step's numbers
 * with them. */
typedef struct ts_update_arg {
  ts_ddp *d;
  int32_t first, end;
  int64_t step;
  double lr_factor;
} ts_update_arg;

static ts_err update_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_err err = TS_OK;
  const ts_update_arg *a = arg;
  ts_ddp *d = a->d;
  for (int32_t s = a->first; s < a->end; s++) {
    ts_param *p = d->slot[s];
    ts_dense_update_args u = {.optim = ts_param_optims_of(d->base.optims, p),
                              .w = p->w,
                              .grad = p->grad,
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

static ts_err update_bucket(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  ts_update_arg arg = {d, b->first, b->end, d->step, d->lr_factor};
  return ts_lane_submit(lane, "dense optimizer", update_task, &arg, sizeof arg);
}

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

/* Backward writes gradients: those of earlier micro-batches are kept aside
 * and added to the last one's. */
static ts_err fold_bucket(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  float *grads = d->grads + b->at, *earlier = d->earlier + b->at;
  const ts_fold_arg arg = {d->sync ? grads : earlier, d->sync ? earlier : grads,
                           b->n, !d->sync && !d->n_earlier};
  return ts_lane_submit(lane, "accumulate", fold_task, &arg, sizeof arg);
}

/* A bucket whose gradients are all enqueued on LANE. */
static ts_err reduce_bucket(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  ts_err err = TS_OK;
  if (!d->sync || d->n_earlier) TS_TRY(fold_bucket(d, b, lane));
  if (!d->sync) goto done;
  if (d->comm) {
    TS_TRY(ts_comm_all_reduce(d->comm, &b->token, d->grads + b->at, b->n,
                              TS_F32, TS_SUM, lane));
    d->n_reductions++;
  } else {
    b->token.done = ts_lane_record(lane);
  }
  if (!d->in_backward) goto done;
  TS_TRY(ts_comm_end(&b->token, d->lane));
  TS_TRY(update_bucket(d, b, d->lane));
done:
  return err;
}

static ts_err ready(void *ddp, ts_param *p, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_ddp *d = ddp;
  const int32_t at = d->bucket_of[d->slot_of[p->index]];
  if (d->buckets[at].missing-- <= 0)
    TS_THROW(TS_ERR_INTERNAL, "the gradient of %s came twice in a step",
             p->name);
  /* In the order of the buckets on every rank, whatever came first. */
  while (d->next < d->n_buckets && d->buckets[d->next].missing == 0)
    TS_TRY(reduce_bucket(d, &d->buckets[d->next++], lane));
done:
  return err;
}

/* Global norm of all reduced gradients, by parameter and in double. */
static ts_err norm_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_ddp *d = *(ts_ddp **)arg;
  double sum = 0;
  for (int32_t s = 0; s < d->params->n; s++) {
    double part = 0;
    for (int64_t i = 0; i < d->slot[s]->n; i++)
      part += (double)d->slot[s]->grad[i] * d->slot[s]->grad[i];
    sum += part;
  }
  d->norm = sqrt(sum);
  d->grad_factor = fmin(1.0, d->config->optimizer.clip_norm / (d->norm + 1e-6));
  return TS_OK;
}

static ts_err swap_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_ddp *d = *(ts_ddp **)arg;
  const int64_t n = ts_params_count(d->params);
  for (int64_t i = 0; i < n; i++) {
    const float x = d->grads[i];
    d->grads[i] = d->stash[i];
    d->stash[i] = x;
  }
  return TS_OK;
}

/* Clipping, where it is asked for, and all optimizers. */
static ts_err update_all(ts_ddp *d, double *grad_norm, ts_lane *lane) {
  ts_err err = TS_OK;
  if (d->config->optimizer.clip_norm > 0) {
    TS_TRY(ts_lane_submit(lane, "clip", norm_task, &d, sizeof d));
    if (grad_norm)
      TS_TRY(ts_lane_copy(lane, grad_norm, &d->norm, sizeof d->norm));
  }
  for (int32_t i = 0; i < d->n_buckets; i++)
    TS_TRY(update_bucket(d, &d->buckets[i], lane));
done:
  return err;
}

static ts_err end(ts_parallel *base, double *grad_norm, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_ddp *d = (ts_ddp *)base;
  if (d->next != d->n_buckets)
    TS_THROW(TS_ERR_INTERNAL, "a parameter of bucket %d got no gradient",
             d->next);
  d->n_earlier = d->sync ? 0 : d->n_earlier + 1;
  if (!d->sync) goto done;
  if (d->in_backward) {
    TS_TRY(ts_lane_wait(lane, ts_lane_record(d->lane)));
    goto done;
  }
  for (int32_t i = 0; i < d->n_buckets; i++)
    TS_TRY(ts_comm_end(&d->buckets[i].token, lane));
  if (d->stashing) {
    const bool first = !d->stashed;
    TS_TRY(ts_lane_submit(lane, "stash", swap_task, &d, sizeof d));
    d->stashed = true;
    if (first) goto done;
  }
  TS_TRY(update_all(d, grad_norm, lane));
done:
  return err;
}

static ts_err stash(ts_parallel *base, bool on) {
  ts_err err = TS_OK;
  ts_ddp *d = (ts_ddp *)base;
  if (on && !d->stash)
    TS_TRY(ts_mem_array(&d->stash, ts_params_count(d->params), sizeof *d->stash,
                        TS_TAG_DENSE));
  d->stashing = on;
done:
  return err;
}

static ts_err unstash(ts_parallel *base, int64_t step, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_ddp *d = (ts_ddp *)base;
  if (!d->stashed) return TS_OK;
  d->step = step;
  d->lr_factor = ts_schedule_factor(d->config, step);
  d->stashed = false;
  TS_TRY(ts_lane_submit(lane, "stash", swap_task, &d, sizeof d));
  TS_TRY(update_all(d, NULL, lane));
done:
  return err;
}

static ts_parallel_stat stat_of(const ts_parallel *base) {
  const ts_ddp *d = (const ts_ddp *)base;
  return (ts_parallel_stat){d->n_buckets, d->n_reductions};
}

static ts_param_piece piece(const ts_parallel *base, const ts_param *p) {
  (void)base;
  ts_param_piece all = {.replicated = true, .n_rows = p->rows, .w = p->w};
  memcpy(all.state, p->state, sizeof all.state);
  return all;
}

extern const ts_parallel_ops ts_parallel_ddp;
const ts_parallel_ops ts_parallel_ddp = {.kind = "ddp",
                                         .create = create,
                                         .destroy = destroy,
                                         .hooks = {.ready = ready},
                                         .begin = begin,
                                         .end = end,
                                         .stash = stash,
                                         .unstash = unstash,
                                         .stat = stat_of,
                                         .piece = piece};
