/* ddp.c - buckets of gradients, reduced as they fill, and the optimizers that
 * run as soon as a bucket's sum is there.
 *
 * Buckets are laid out once, in the reverse of the parameters' order, which is
 * the order of the backward pass: no search for unused parameters, no
 * rebuild. */
#include "dense/ddp.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

typedef struct ts_bucket {
  int32_t first, end; /* slots, in backward order */
  int64_t at, n;      /* floats in ddp->grads */
  int32_t missing;    /* gradients still to come in this step */
  ts_token token;
} ts_bucket;

struct ts_ddp {
  ts_params *params;
  const ts_config *config;
  const ts_kernels *kernels;
  ts_comm *comm;
  ts_lane *lane;    /* optimizers run here, beside the backward pass */
  ts_param **slot;  /* (n) parameters in backward order */
  int32_t *slot_of; /* (n) by param->index */
  const ts_optim_config **optim; /* (n) by param->index */
  ts_optim_config *overrides;    /* (n_overrides), checked copies */
  ts_optim_config base;
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
};

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

/* What summing the largest bucket keeps aside: all of a small one from each
 * rank, or a slice. */
static ts_err reserve_sums(ts_ddp *d) {
  enum { SMALL = 8192 };
  const int64_t w = d->comm ? ts_comm_size(d->comm) : 1;
  int64_t most = 0;
  if (!d->comm) return TS_OK;
  for (int32_t i = 0; i < d->n_buckets; i++) {
    const int64_t n = d->buckets[i].n;
    const int64_t floats = n <= SMALL ? n * w : n + w;
    if (floats > most) most = floats;
  }
  return ts_comm_reserve(d->comm, 4 * most);
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

/* ---- optimizers ---------------------------------------------------------- */

static void inherit(double *x, double base) {
  if (isnan(*x)) *x = base;
}

/* An override takes from the deck's optimizer what it does not give, as far
 * as it is of the same kind. */
static ts_err make_overrides(ts_ddp *d) {
  ts_err err = TS_OK;
  const ts_config *c = d->config;
  TS_TRY(ts_mem_array(&d->overrides, c->optimizer.n_overrides,
                      sizeof *d->overrides, TS_TAG_DENSE));
  d->base = c->optimizer.base;
  TS_TRY(ts_dense_optim_check(&d->base, "optimizer"));
  for (int32_t i = 0; i < c->optimizer.n_overrides; i++) {
    ts_optim_config *o = &d->overrides[i];
    *o = c->optimizer.overrides[i].optimizer;
    if (!o->kind) o->kind = c->optimizer.base.kind;
    inherit(&o->lr, d->base.lr);
    if (!strcmp(o->kind, d->base.kind)) {
      inherit(&o->eps, d->base.eps);
      inherit(&o->beta1, d->base.beta1);
      inherit(&o->beta2, d->base.beta2);
      inherit(&o->momentum, d->base.momentum);
    }
    inherit(&o->weight_decay, d->base.weight_decay);
    TS_TRY(ts_dense_optim_check(o, c->optimizer.overrides[i].match));
  }
done:
  return err;
}

static ts_err choose_optimizers(ts_ddp *d) {
  const ts_config *c = d->config;
  for (int32_t p = 0; p < d->params->n; p++)
    d->optim[d->params->item[p]->index] = &d->base;
  for (int32_t i = 0; i < c->optimizer.n_overrides; i++) {
    const char *match = c->optimizer.overrides[i].match;
    int n = 0;
    for (int32_t p = 0; p < d->params->n; p++)
      if (fnmatch(match, d->params->item[p]->name, 0) == 0) {
        d->optim[d->params->item[p]->index] = &d->overrides[i];
        n++;
      }
    if (!n)
      return ts_fail(TS_ERR_DECK,
                     "optimizer.overrides: \"%s\" matches no parameter; the "
                     "first is \"%s\"",
                     match, d->params->n ? d->params->item[0]->name : "");
  }
  return TS_OK;
}

static ts_err make_states(ts_ddp *d) {
  ts_err err = TS_OK;
  for (int32_t i = 0; i < d->params->n; i++) {
    ts_param *p = d->params->item[i];
    for (int k = 0; k < ts_dense_optim_n_states(d->optim[p->index]); k++)
      TS_TRY(
          ts_mem_array(&p->state[k], p->n, sizeof(float), TS_TAG_DENSE_STATE));
  }
done:
  return err;
}

ts_err ts_ddp_create(ts_ddp **out, ts_params *params, const ts_config *c,
                     ts_device *device, const ts_kernels *kernels,
                     ts_comm *comm) {
  ts_err err = TS_OK;
  ts_ddp *d = NULL;
  TS_TRY(ts_mem_alloc(&d, sizeof *d, TS_TAG_DENSE));
  d->params = params;
  d->config = c;
  d->kernels = kernels;
  d->comm = ts_comm_size(comm) > 1 ? comm : NULL;
  d->grad_factor = 1.0;
  d->in_backward = c->optimizer.in_backward && !(c->optimizer.clip_norm > 0);
  if (c->optimizer.in_backward && c->optimizer.clip_norm > 0)
    ts_note("optimizer.clip_norm needs all gradients before any update: "
            "optimizer.in_backward is off");
  TS_TRY(ts_schedule_check(c));
  TS_TRY(ts_mem_array(&d->optim, params->n, sizeof *d->optim, TS_TAG_DENSE));
  TS_TRY(make_overrides(d));
  TS_TRY(choose_optimizers(d));
  TS_TRY(make_buckets(d));
  TS_TRY(reserve_sums(d));
  TS_TRY(make_states(d));
  TS_TRY(ts_lane_create(device, &d->lane, "dense optimizer", TS_LANE_DATA));
  *out = d;
  d = NULL;
done:
  ts_ddp_destroy(d);
  return err;
}

void ts_ddp_destroy(ts_ddp *d) {
  if (!d) return;
  ts_lane_destroy(d->lane);
  for (int32_t i = 0; i < d->params->n; i++) {
    ts_param *p = d->params->item[i];
    for (int k = 0; k < TS_PARAM_STATES_MAX; k++) {
      ts_mem_free(p->state[k]);
      p->state[k] = NULL;
    }
    p->grad = NULL;
  }
  ts_mem_free(d->slot);
  ts_mem_free(d->slot_of);
  ts_mem_free(d->bucket_of);
  ts_mem_free(d->buckets);
  ts_mem_free(d->grads);
  ts_mem_free(d->earlier);
  ts_mem_free(d->stash);
  ts_mem_free((void *)d->optim);
  ts_mem_free(d->overrides);
  ts_mem_free(d);
}

/* ---- a step -------------------------------------------------------------- */

ts_err ts_ddp_begin(ts_ddp *d, int64_t step, bool sync) {
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
    ts_dense_update_args u = {.optim = d->optim[p->index],
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

ts_err ts_ddp_ready(void *ddp, ts_param *p, ts_lane *lane) {
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

ts_err ts_ddp_end(ts_ddp *d, double *grad_norm, ts_lane *lane) {
  ts_err err = TS_OK;
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

ts_err ts_ddp_stash(ts_ddp *d, bool on) {
  ts_err err = TS_OK;
  if (on && !d->stash)
    TS_TRY(ts_mem_array(&d->stash, ts_params_count(d->params), sizeof *d->stash,
                        TS_TAG_DENSE));
  d->stashing = on;
done:
  return err;
}

ts_err ts_ddp_unstash(ts_ddp *d, int64_t step, ts_lane *lane) {
  ts_err err = TS_OK;
  if (!d->stashed) return TS_OK;
  d->step = step;
  d->lr_factor = ts_schedule_factor(d->config, step);
  d->stashed = false;
  TS_TRY(ts_lane_submit(lane, "stash", swap_task, &d, sizeof d));
  TS_TRY(update_all(d, NULL, lane));
done:
  return err;
}

ts_ddp_stat ts_ddp_stat_of(const ts_ddp *d) {
  return (ts_ddp_stat){d->n_buckets, d->n_reductions};
}

const ts_optim_config *ts_ddp_optim(const ts_ddp *d, const ts_param *p) {
  return d->optim[p->index];
}
