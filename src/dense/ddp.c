/* ddp.c - data parallel: every rank has all dense parameters; buckets of
 * gradients are reduced as they fill, and their optimizers run as soon as the
 * sum is there and no one reads the parameters any more.
 *
 * ddp.h tells what lies where.  The gradient of the loss is already that of the
 * global mean, so buckets are summed and nothing is divided, also not with 16
 * bits on the wire. */
#include "dense/ddp.h"

#include <string.h>

#include "base/mem.h"

static ts_err make_states(ts_ddp *d) {
  for (int32_t i = 0; i < d->params->n; i++) {
    ts_param *p = d->params->item[i];
    const ts_optim_config *c = ts_param_optims_of(d->base.optims, p);
    for (int k = 0; k < ts_param_n_states(c, p); k++)
      TS_DO(ts_arrays_take(&d->arrays, d->base.spec.device, &p->state[k], p->n,
                           sizeof(float), TS_TAG_DENSE_STATE));
    if (ts_parallel_averages(d->config, p))
      TS_DO(ts_arrays_take(&d->arrays, d->base.spec.device, &p->ema, p->n,
                           sizeof(float), TS_TAG_DENSE_STATE));
  }
  return TS_OK;
}

/* Makes room for the sum of the largest bucket: a small bucket takes all ranks'
 * copies at once, a large one a slice of each. */
static ts_err reserve_sums(ts_ddp *d) {
  enum { SMALL = 8192 };
  int64_t most = 0;
  if (!d->comm) return TS_OK;
  const int64_t w = ts_comm_size(d->comm);
  for (int32_t i = 0; i < d->n_buckets; i++) {
    const int64_t n = d->buckets[i].n;
    const int64_t floats = n <= SMALL ? n * w : n + w;
    if (floats > most) most = floats;
  }
  return ts_comm_reserve(d->comm, 4 * most);
}

static void destroy(ts_parallel *base) {
  ts_ddp *d = (ts_ddp *)base;
  if (!d) return;
  ts_lane_destroy(d->lane);
  if (d->own_comm) ts_comm_destroy(d->own_comm);
  for (int32_t i = 0; i < d->params->n; i++) {
    ts_param *p = d->params->item[i];
    for (int k = 0; k < TS_PARAM_STATES_MAX; k++) p->state[k] = NULL;
    p->grad = p->ema = NULL;
  }
  ts_param_optims_destroy(d->base.optims);
  ts_ddp_layout_reset(d);
  ts_arrays_reset(&d->arrays);
  ts_mem_free(d);
}

static ts_err create_training(ts_ddp *d) {
  const ts_config *c = d->config;
  d->in_backward = ts_parallel_in_backward(c);
  TS_DO(ts_schedule_check(c));
  TS_DO(ts_parallel_wire(&d->wire, c));
  TS_DO(ts_param_optims_create(&d->base.optims, d->params, c));
  TS_DO(ts_lane_create(d->base.spec.device, &d->lane, "dense optimizer",
                       TS_LANE_DATA));
  TS_DO(ts_comm_create(d->base.spec.world, &d->own_comm, TS_GROUP_WORLD,
                       "dense reduce"));
  d->comm = ts_comm_size(d->own_comm) > 1 ? d->own_comm : NULL;
  TS_DO(ts_ddp_lay_out(d));
  TS_DO(reserve_sums(d));
  TS_DO(make_states(d));
  if (c->optimizer.clip_norm > 0)
    TS_DO(ts_arrays_take(&d->arrays, d->base.spec.device, &d->norm, 2,
                         sizeof *d->norm, TS_TAG_DENSE));
  return TS_OK;
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
  if (d->open)
    return ts_fail(TS_ERR_INTERNAL, "step %lld begins before %lld has ended",
                   (long long)step, (long long)d->step);
  if (!sync && d->config->run.accumulate < 2)
    return ts_fail(TS_ERR_INTERNAL, "micro-batches without run.accumulate");
  d->open = true;
  d->step = step;
  d->sync = sync;
  d->lr_factor = ts_parallel_rate(base, step);
  d->next = d->next_update = 0;
  for (int32_t i = 0; i < d->n_buckets; i++)
    d->buckets[i].missing = d->buckets[i].end - d->buckets[i].first;
  memset(d->came, 0, (size_t)d->params->n * sizeof *d->came);
  memset(d->released, 0, (size_t)d->params->n * sizeof *d->released);
  return TS_OK;
}

static ts_err widen(const ts_ddp *d, const ts_bucket *b, ts_lane *lane) {
  return d->comm ? ts_parallel_widen(d->kernels, b->grads, b->n, d->wire, lane)
                 : TS_OK;
}

/* A bucket whose gradients are all enqueued on LANE. */
static ts_err reduce(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  TS_DO(ts_ddp_fold(d, b, lane));
  if (!d->sync) return TS_OK;
  if (d->comm) {
    TS_DO(ts_parallel_shorten(d->kernels, b->grads, b->n, d->wire, lane));
    TS_DO(ts_comm_all_reduce(d->comm, &b->token, b->grads, b->n, d->wire,
                             TS_SUM, lane));
    d->n_reductions++;
  } else {
    b->token.done = ts_lane_record(lane);
  }
  return TS_OK;
}

/* Whether the rest of the backward pass no longer reads the bucket's
 * parameters, so that they may be updated. */
static bool unread(const ts_ddp *d, const ts_bucket *b) {
  for (int32_t s = b->first; s < b->end; s++)
    if (!b->late && !d->released[d->group_of[s]]) return false;
  return true;
}

/* In-backward: optimizers of buckets that are on their way. */
static ts_err update(ts_ddp *d, ts_lane *lane) {
  if (!d->in_backward || !d->sync) return TS_OK;
  while (d->next_update < d->next && unread(d, &d->buckets[d->next_update])) {
    ts_bucket *b = &d->buckets[d->next_update++];
    TS_DO(ts_lane_wait(d->lane, ts_lane_record(lane)));
    TS_DO(ts_comm_end(&b->token, d->lane));
    TS_DO(widen(d, b, d->lane));
    TS_DO(ts_ddp_update(d, b, d->lane));
    if (b->fresh == b->grads) ts_ddp_give_slot(d, b, d->lane);
  }
  return TS_OK;
}

static ts_err acquire(void *ddp, const ts_param *p, ts_pass pass,
                      ts_lane *lane) {
  ts_ddp *d = ddp;
  if (pass != TS_BACKWARD || !d->n_slots) return TS_OK;
  if (!d->open)
    return ts_fail(TS_ERR_INTERNAL, "backward of %s outside a step", p->name);
  return ts_ddp_take_slots(d, p, lane);
}

static ts_err ready(void *ddp, ts_param *p, ts_lane *lane) {
  ts_ddp *d = ddp;
  const int32_t place = d->place_of[p->index];
  ts_bucket *b = &d->buckets[d->bucket_of[place]];
  if (!d->open)
    return ts_fail(TS_ERR_INTERNAL, "a gradient of %s outside a step", p->name);
  if (d->came[place])
    return ts_fail(TS_ERR_INTERNAL, "the gradient of %s came twice in a step",
                   p->name);
  if (!p->grad)
    return ts_fail(TS_ERR_INTERNAL,
                   "the gradient of %s came without its layer's "
                   "acquire",
                   p->name);
  d->came[place] = true;
  b->missing--;
  if (b->slot >= 0) p->grad = NULL;
  /* In the order of the buckets on every rank, whatever came first. */
  while (d->next < d->n_buckets && d->buckets[d->next].missing == 0)
    TS_DO(reduce(d, &d->buckets[d->next++], lane));
  if (b->late) TS_DO(update(d, lane));
  return TS_OK;
}

static ts_err release(void *ddp, const ts_param *p, ts_pass pass,
                      ts_lane *lane) {
  ts_ddp *d = ddp;
  if (pass != TS_BACKWARD || !d->open) return TS_OK;
  d->released[d->group_of[d->place_of[p->index]]] = true;
  return update(d, lane);
}

/* Without in_backward: the sums, then all updates. */
static ts_err finish(ts_ddp *d, double *grad_norm, ts_lane *lane) {
  for (int32_t i = 0; i < d->n_buckets; i++) {
    TS_DO(ts_comm_end(&d->buckets[i].token, lane));
    TS_DO(widen(d, &d->buckets[i], lane));
  }
  if (d->stashing) {
    const bool first = !d->stashed;
    TS_DO(ts_ddp_swap_stash(d, lane));
    d->stashed = true;
    if (first) return TS_OK;
  }
  return ts_ddp_update_all(d, grad_norm, lane);
}

static ts_err name_missing(const ts_ddp *d) {
  int32_t s = 0;
  while (d->came[s]) s++;
  return ts_fail(TS_ERR_INTERNAL, "parameter %s got no gradient in step %lld",
                 d->place[s]->name, (long long)d->step);
}

static ts_err end(ts_parallel *base, double *grad_norm, ts_lane *lane) {
  ts_ddp *d = (ts_ddp *)base;
  if (!d->open) return ts_fail(TS_ERR_INTERNAL, "a step ends that never began");
  if (d->next != d->n_buckets) TS_DO(name_missing(d));
  d->open = false;
  d->n_earlier = d->sync ? 0 : d->n_earlier + 1;
  if (!d->sync) return TS_OK;
  if (!d->in_backward) {
    TS_DO(finish(d, grad_norm, lane));
    return TS_OK;
  }
  for (int32_t s = 0; s < d->params->n; s++) d->released[d->group_of[s]] = true;
  TS_DO(update(d, lane));
  return ts_lane_wait(lane, ts_lane_record(d->lane));
}

static void drop(ts_parallel *base) {
  ((ts_ddp *)base)->n_earlier = 0;
}

static ts_err stash(ts_parallel *base, bool on) {
  ts_ddp *d = (ts_ddp *)base;
  if (on && d->in_backward)
    return ts_fail(
        TS_ERR_DECK,
        "gradients that are kept for the next step can't be applied in "
        "the backward pass: optimizer.in_backward = false");
  if (on && !d->stash) {
    ts_device *device = d->base.spec.device;
    TS_DO(ts_arrays_take(&d->arrays, device, &d->bad, 1, sizeof *d->bad,
                         TS_TAG_GRADS));
    TS_DO(ts_arrays_take(&d->arrays, device, &d->stash, d->n_kept,
                         sizeof *d->stash, TS_TAG_GRADS));
  }
  d->stashing = on;
  return TS_OK;
}

static ts_err unstash(ts_parallel *base, int64_t step, ts_lane *lane) {
  ts_ddp *d = (ts_ddp *)base;
  if (!d->stashed) return TS_OK;
  d->step = step;
  d->lr_factor = ts_parallel_rate(base, step);
  d->stashed = false;
  TS_DO(ts_ddp_swap_stash(d, lane));
  return ts_ddp_update_all(d, NULL, lane);
}

static bool stash_finite(const ts_parallel *base) {
  const ts_ddp *d = (const ts_ddp *)base;
  const int64_t n = d->n_kept;
  const ts_check_finite_args check_finite = {d->stash, n, 1, n, d->bad};
  return !d->stashed ||
         ts_parallel_finite(d->kernels, d->bad, &check_finite, 1);
}

static ts_parallel_stat stat_of(const ts_parallel *base) {
  const ts_ddp *d = (const ts_ddp *)base;
  return (ts_parallel_stat){
      d->n_buckets, d->n_reductions,
      d->own_comm ? ts_comm_stat_of(d->own_comm).sent_bytes : 0};
}

static ts_param_piece piece(const ts_parallel *base, const ts_param *p) {
  (void)base;
  ts_param_piece all = {.replicated = true, .n_rows = p->rows, .w = p->w};
  memcpy(all.state, p->state, sizeof all.state);
  return all;
}

extern const ts_parallel_ops ts_parallel_ddp;
const ts_parallel_ops ts_parallel_ddp = {
    .kind = "ddp",
    .create = create,
    .destroy = destroy,
    .hooks = {.acquire = acquire, .release = release, .ready = ready},
    .begin = begin,
    .end = end,
    .drop = drop,
    .stash = stash,
    .unstash = unstash,
    .stash_finite = stash_finite,
    .stat = stat_of,
    .piece = piece};
