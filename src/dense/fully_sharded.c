/* fully_sharded.c - parameters, gradients and optimizer state cut over the
 * ranks; layers are gathered as they are used.  fully_sharded.h tells the life
 * of a group. */
#include "dense/fully_sharded.h"

#include <string.h>

#include "base/mem.h"

ts_err ts_fully_sharded_take(ts_fully_sharded *d, void *p, int64_t n,
                             size_t size, ts_tag tag) {
  return ts_arrays_take(&d->arrays, d->base.spec.device, p, n, size, tag);
}

static void forget_arrays(const ts_params *ps) {
  for (int32_t i = 0; i < ps->n; i++) {
    ts_param *p = ps->item[i];
    for (int k = 0; k < TS_PARAM_STATES_MAX; k++) p->state[k] = NULL;
    p->grad = p->ema = NULL;
  }
}

static void destroy(ts_parallel *base) {
  ts_fully_sharded *d = (ts_fully_sharded *)base;
  if (!d) return;
  ts_lane_destroy(d->lane);
  ts_comm_destroy(d->gather_comm);
  ts_comm_destroy(d->block_comm);
  ts_comm_destroy(d->reduce_comm);
  ts_comm_destroy(d->norm_comm);
  forget_arrays(d->params);
  ts_fully_sharded_groups_destroy(d);
  ts_param_optims_destroy(d->base.optims);
  ts_mem_free(d->slots);
  ts_mem_free(d->counts);
  ts_arrays_reset(&d->arrays);
  ts_mem_free(d);
}

static ts_err check(ts_fully_sharded *d) {
  const ts_config *c = d->config;
  d->block = c->dense.reshard ? c->dense.reshard : d->n_ranks;
  d->keeps_whole = c->dense.reshard == 1;
  if (d->block > d->n_ranks || d->n_ranks % d->block != 0)
    return ts_fail(TS_ERR_DECK,
                   "dense.reshard_after_forward = %d: blocks of as many ranks "
                   "do not make up %d",
                   d->block, d->n_ranks);
  TS_DO(ts_parallel_wire(&d->wire, c));
  if (d->n_ranks == 1) d->wire = TS_F32;
  return TS_OK;
}

static ts_err make_lane(ts_fully_sharded *d) {
  bool needed = d->base.spec.training;
  for (int32_t i = 0; i < d->n_groups; i++) needed |= d->groups[i].half;
  return needed ? ts_lane_create(d->base.spec.device, &d->lane,
                                 "dense optimizer", TS_LANE_DATA)
                : TS_OK;
}

static ts_err create_training(ts_fully_sharded *d) {
  const ts_config *c = d->config;
  ts_world *world = d->base.spec.world;
  d->in_backward = ts_parallel_in_backward(c);
  TS_DO(ts_schedule_check(c));
  TS_DO(ts_param_optims_create(&d->base.optims, d->params, c));
  TS_DO(ts_fully_sharded_grads_create(d));
  if (c->optimizer.clip_norm > 0)
    TS_DO(ts_fully_sharded_take(d, &d->norm, 2, sizeof *d->norm, TS_TAG_DENSE));
  TS_DO(ts_comm_create(world, &d->reduce_comm, TS_GROUP_WORLD,
                       "dense reduce-scatter"));
  TS_DO(ts_fully_sharded_norms_create(d));
  if (d->block > 1 && d->block < d->n_ranks)
    TS_DO(ts_comm_create_block(world, &d->block_comm, d->block,
                               "dense all-gather in blocks"));
  return TS_OK;
}

static ts_err create(ts_parallel **out, const ts_parallel_spec *spec) {
  extern const ts_parallel_ops ts_parallel_fully_sharded;
  ts_err err = TS_OK;
  ts_fully_sharded *d = NULL;
  TS_TRY(ts_mem_alloc(&d, sizeof *d, TS_TAG_DENSE));
  d->base.ops = &ts_parallel_fully_sharded;
  d->base.spec = *spec;
  d->params = spec->params;
  d->config = spec->config;
  d->kernels = spec->kernels;
  d->rank = ts_world_rank(spec->world);
  d->n_ranks = ts_world_size(spec->world);
  d->pass = d->last = d->open = d->held = -1;
  TS_TRY(check(d));
  TS_TRY(ts_mem_many(d->counts, d->n_ranks, DENSE));
  TS_TRY(ts_fully_sharded_groups_create(d));
  TS_TRY(ts_fully_sharded_slots_create(d));
  TS_TRY(make_lane(d));
  if (spec->training) TS_TRY(create_training(d));
  TS_TRY(ts_comm_create(spec->world, &d->gather_comm, TS_GROUP_WORLD,
                        "dense all-gather"));
  *out = &d->base;
  d = NULL;
done:
  if (d) destroy(&d->base);
  return err;
}

static ts_err begin(ts_parallel *base, int64_t step, bool sync) {
  ts_fully_sharded *d = (ts_fully_sharded *)base;
  if (!sync && !d->earlier)
    return ts_fail(TS_ERR_INTERNAL, "micro-batches without run.accumulate");
  d->step = step;
  d->sync = sync;
  d->lr_factor = ts_parallel_rate(base, step);
  ts_fully_sharded_pass(d, TS_BACKWARD);
  for (int32_t i = 0; i < d->n_groups; i++)
    d->groups[i].missing = d->groups[i].n_parts;
  d->late.missing = d->late.n_parts;
  return TS_OK;
}

static void drop(ts_parallel *base) {
  ((ts_fully_sharded *)base)->n_earlier = 0;
}

static ts_parallel_stat stat_of(const ts_parallel *base) {
  const ts_fully_sharded *d = (const ts_fully_sharded *)base;
  return (ts_parallel_stat){
      d->n_groups, d->n_reductions,
      d->reduce_comm ? ts_comm_stat_of(d->reduce_comm).sent_bytes : 0};
}

static ts_param_piece piece(const ts_parallel *base, const ts_param *p) {
  const ts_fully_sharded *d = (const ts_fully_sharded *)base;
  const int32_t i = d->group_of[p->index];
  const ts_fully_sharded_group *g = i < 0 ? &d->late : &d->groups[i];
  const ts_fully_sharded_part *part = g->parts;
  while (part->param != p) part++;
  ts_param_piece x = {.replicated = i < 0,
                      .row0 = part->row0,
                      .n_rows = part->n_rows,
                      .w = part->w};
  memcpy(x.state, p->state, sizeof x.state);
  return x;
}

extern const ts_parallel_ops ts_parallel_fully_sharded;
const ts_parallel_ops ts_parallel_fully_sharded = {
    .kind = "fully_sharded",
    .defers = true,
    .create = create,
    .destroy = destroy,
    .hooks = {.acquire = ts_fully_sharded_acquire,
              .release = ts_fully_sharded_release,
              .ready = ts_fully_sharded_ready},
    .begin = begin,
    .end = ts_fully_sharded_end,
    .drop = drop,
    .stash = ts_fully_sharded_stash,
    .unstash = ts_fully_sharded_unstash,
    .stash_finite = ts_fully_sharded_stash_finite,
    .stat = stat_of,
    .piece = piece};
