/* fully_sharded_reduce.c - gradients go as they come: once a group's are all
 * there they are copied into an input, which frees the room they were written
 * to for the next layer, and reduced; a rank gets those of its shard.
 *
 * Parameters that every rank has whole (late ones) are reduced together. */
#include "dense/fully_sharded.h"

/* Groups' gradients: with in_backward two take turns, else each has its own,
 * one after the other, and the late parameters' at the end. */
static ts_err make_grads(ts_fully_sharded *d) {
  int64_t largest = 0, at = 0;
  for (int32_t i = 0; i < d->n_groups; i++) {
    const int64_t n = d->groups[i].shard_n;
    if (n > largest) largest = n;
    d->grads_n += d->in_backward ? 0 : n;
  }
  d->grads_n += d->late.shard_n;
  TS_DO(ts_fully_sharded_take(d, &d->grads, d->grads_n, sizeof *d->grads,
                              TS_TAG_DENSE));
  if (d->in_backward)
    TS_DO(ts_fully_sharded_take(d, &d->grad_memory, 2 * largest,
                                sizeof *d->grad_memory, TS_TAG_DENSE));
  for (int k = 0; d->in_backward && k < 2; k++)
    d->recycled[k].at = d->grad_memory + k * largest;
  for (int32_t i = 0; i < d->n_groups && !d->in_backward; i++) {
    d->groups[i].own.at = d->grads + at;
    at += d->groups[i].shard_n;
  }
  d->late.own.at = d->grads + at;
  d->late.grad = &d->late.own;
  for (int32_t k = 0; k < d->late.n_parts; k++)
    d->late.parts[k].param->grad = d->late.own.at + d->late.parts[k].shard_at;
  return TS_OK;
}

static ts_err make_earlier(ts_fully_sharded *d) {
  int64_t n = d->late.shard_n;
  if (d->config->run.accumulate <= 1) return TS_OK;
  for (int32_t i = 0; i < d->n_groups; i++) n += d->groups[i].shard_n;
  TS_DO(ts_fully_sharded_take(d, &d->earlier, n, sizeof *d->earlier,
                              TS_TAG_DENSE));
  n = 0;
  for (int32_t i = 0; i < d->n_groups; i++) {
    d->groups[i].earlier = d->earlier + n;
    n += d->groups[i].shard_n;
  }
  d->late.earlier = d->earlier + n;
  return TS_OK;
}

static ts_err make_states(ts_fully_sharded *d, ts_fully_sharded_group *g) {
  for (int32_t i = 0; i < g->n_parts; i++) {
    const ts_fully_sharded_part *part = &g->parts[i];
    ts_param *p = part->param;
    const ts_optim_config *c = ts_param_optims_of(d->base.optims, p);
    for (int k = 0; k < ts_param_n_states(c, p); k++)
      TS_DO(ts_fully_sharded_take(d, &p->state[k], part->n_rows * part->width,
                                  sizeof(float), TS_TAG_DENSE_STATE));
    if (ts_parallel_averages(d->config, p))
      TS_DO(ts_fully_sharded_take(d, &p->ema, part->n_rows * part->width,
                                  sizeof(float), TS_TAG_DENSE_STATE));
  }
  return TS_OK;
}

ts_err ts_fully_sharded_grads_create(ts_fully_sharded *d) {
  TS_DO(make_grads(d));
  TS_DO(make_earlier(d));
  for (int32_t i = 0; i < d->n_groups; i++)
    TS_DO(make_states(d, &d->groups[i]));
  return make_states(d, &d->late);
}

/* ---- sums of micro-batches ----------------------------------------------- */

static bool folds(const ts_fully_sharded *d) {
  return !d->sync || d->n_earlier;
}

/* Earlier ones are kept aside and added to the last one's. */
static ts_err fold(ts_fully_sharded *d, const ts_fully_sharded_group *g,
                   ts_lane *lane) {
  return ts_parallel_fold(d->kernels, d->sync ? g->grad->at : g->earlier,
                          d->sync ? g->earlier : g->grad->at, g->shard_n,
                          !d->sync && !d->n_earlier, lane);
}

/* ---- a group ------------------------------------------------------------- */

static ts_fully_sharded_slot *take_input(ts_fully_sharded *d) {
  const int32_t n = d->config->dense.reduce_inputs;
  if (d->live.inputs < n) d->live.inputs++;
  return &d->slots[TS_FULLY_SHARDED_INPUTS + d->next_input++ % n];
}

/* LANE waits for room before it copies: no more inputs than there are. */
static ts_err reduce(ts_fully_sharded *d, int32_t i, ts_lane *lane) {
  ts_fully_sharded_group *g = &d->groups[i];
  ts_fully_sharded_slot *input = take_input(d),
                        *grads = &d->slots[TS_FULLY_SHARDED_GRAD];
  ts_token token;
  g->grad = d->in_backward ? &d->recycled[d->next_recycled++ % 2] : &g->own;
  TS_DO(ts_lane_wait(lane, input->last_use));
  TS_DO(ts_fully_sharded_copy_in(d, g, grads->at, input->at, lane));
  grads->last_use = ts_lane_record(lane);
  TS_DO(ts_parallel_shorten(d->kernels, input->at, g->shard_n * d->n_ranks,
                            d->wire, lane));
  for (int r = 0; r < d->n_ranks; r++) d->counts[r] = g->shard_n;
  ts_comm_follow(d->reduce_comm, g->grad->last_use);
  ts_comm_set_stage(d->reduce_comm, g->name);
  TS_DO(ts_comm_reduce_scatter_v(d->reduce_comm, &token, g->grad->at, input->at,
                                 d->counts, d->wire, lane));
  g->reduced = input->last_use = g->grad->last_use = token.done;
  d->n_reductions++;
  ts_fully_sharded_note(d, TS_FULLY_SHARDED_REDUCE, i);
  return TS_OK;
}

/* Makes the reduced gradients f32 again, as soon as they have come. */
static ts_err widen(ts_fully_sharded *d, ts_fully_sharded_group *g) {
  if (d->wire == TS_F32) return TS_OK;
  TS_DO(ts_lane_wait(d->lane, g->reduced));
  TS_DO(
      ts_parallel_widen(d->kernels, g->grad->at, g->shard_n, d->wire, d->lane));
  g->reduced = g->grad->last_use = ts_lane_record(d->lane);
  return TS_OK;
}

/* Enqueues what comes after a group's reduction, beside the rest of the
 * backward pass. */
static ts_err after(ts_fully_sharded *d, ts_fully_sharded_group *g) {
  const bool update = d->in_backward && d->sync;
  TS_DO(widen(d, g));
  if (!folds(d) && !update) return TS_OK;
  TS_DO(ts_lane_wait(d->lane, g->reduced));
  if (folds(d)) TS_DO(fold(d, g, d->lane));
  if (update) TS_DO(ts_fully_sharded_update(d, g, d->lane));
  g->grad->last_use = ts_lane_record(d->lane);
  return TS_OK;
}

/* ---- those that are whole ------------------------------------------------ */

static ts_err reduce_late(ts_fully_sharded *d, ts_lane *lane) {
  ts_fully_sharded_group *g = &d->late;
  ts_token token;
  if (folds(d)) TS_DO(fold(d, g, lane));
  if (!d->sync) return TS_OK;
  TS_DO(
      ts_parallel_shorten(d->kernels, g->grad->at, g->shard_n, d->wire, lane));
  ts_comm_set_stage(d->reduce_comm, g->name);
  TS_DO(ts_comm_all_reduce(d->reduce_comm, &token, g->grad->at, g->shard_n,
                           d->wire, TS_SUM, lane));
  g->reduced = token.done;
  d->n_reductions++;
  TS_DO(widen(d, g));
  if (!d->in_backward) return TS_OK;
  TS_DO(ts_lane_wait(d->lane, g->reduced));
  return ts_fully_sharded_update(d, g, d->lane);
}

ts_err ts_fully_sharded_ready(void *fs, ts_param *p, ts_lane *lane) {
  ts_fully_sharded *d = fs;
  const int32_t i = d->group_of[p->index];
  ts_fully_sharded_group *g = i < 0 ? &d->late : &d->groups[i];
  if (d->pass != TS_BACKWARD || (i >= 0 && i != d->open))
    return ts_fail(TS_ERR_INTERNAL,
                   "the gradient of %s comes outside its layer", p->name);
  if (g->missing-- <= 0)
    return ts_fail(TS_ERR_INTERNAL, "the gradient of %s came twice in a step",
                   p->name);
  if (g->missing) return TS_OK;
  if (i < 0) {
    TS_DO(reduce_late(d, lane));
  } else {
    TS_DO(reduce(d, i, lane));
    TS_DO(after(d, g));
  }
  return TS_OK;
}
