/* fully_sharded_gather.c - parameters come when a layer needs them, or
 * earlier, and go when it is done.
 *
 * The host runs ahead of the lanes, so in forward the next layer's gathering
 * runs under this one's work without being asked for.  In backward each layer
 * asks for the one before it, once it has copied out its own flat; lists
 * (dense.forward_prefetch, backward_prefetch) say otherwise, layer by layer.
 * A flat is given back when it has been copied out: in backward at once, in
 * forward when the next layer is acquired. */
#include <string.h>

#include "base/mem.h"
#include "dense/fully_sharded.h"
#include "runtime/trace.h"

void ts_fully_sharded_note(ts_fully_sharded *d, ts_fully_sharded_event event,
                           int32_t group) {
  static const char *const names[] = {"flats", "wholes", "grads", "inputs",
                                      "bytes"};
  const ts_fully_sharded_live *l = &d->live;
  if (d->watch) d->watch(d->watch_arg, event, group);
  if (!ts_trace_on()) return;
  const int n = l->flats + l->wholes + l->grads + l->inputs;
  const double values[] = {l->flats, l->wholes, l->grads, l->inputs,
                           4.0 * (double)(n * d->slot_n)};
  ts_trace_counter("fully sharded", 5, names, values);
}

/* ---- slots --------------------------------------------------------------- */

/* Slots of a pass's flats begin behind its other ones. */
static int32_t first_flat(const ts_fully_sharded *d, int pass) {
  return pass == TS_BACKWARD
             ? TS_FULLY_SHARDED_INPUTS + d->config->dense.reduce_inputs
             : TS_FULLY_SHARDED_WHOLE + 1;
}

/* The K-th group that group I gathers early in PASS: of its list, or in
 * backward the group before it. */
static int32_t early(const ts_fully_sharded *d, int32_t i, int pass,
                     int32_t k) {
  const ts_fully_sharded_group *g = &d->groups[i];
  if (k < g->n_list[pass]) return g->list[pass][k];
  if (g->n_list[pass] || k > 0 || pass == TS_FORWARD) return -1;
  return i - 1;
}

/* Flats that are alive at once in PASS: it is gone through without doing it. */
static int count_flats(const ts_fully_sharded *d, ts_pass pass) {
  const int32_t n = d->n_groups;
  int live = 0, peak = 0;
  if (n == 0 || (pass == TS_BACKWARD && d->keeps_whole)) return 0;
  bool has[n];
  memset(has, 0, sizeof has);
  for (int32_t at = 0; at < n; at++) {
    const int32_t i = pass == TS_FORWARD ? at : n - 1 - at;
    live += !has[i];
    if (live > peak) peak = live;
    /* Forward's own stays until the next one is copied out. */
    if (pass == TS_BACKWARD || at > 0) live--;
    has[i] = false;
    for (int32_t k = 0, j; (j = early(d, i, (int)pass, k)) >= 0; k++)
      if (j != i && !has[j]) has[j] = true, live++;
    if (live > peak) peak = live;
  }
  return peak;
}

ts_err ts_fully_sharded_slots_create(ts_fully_sharded *d) {
  for (int pass = TS_FORWARD; pass <= (int)d->base.spec.training; pass++) {
    d->n_flats[pass] = count_flats(d, (ts_pass)pass);
    const int32_t n = first_flat(d, pass) + d->n_flats[pass];
    if (n > d->n_slots) d->n_slots = n;
  }
  for (int32_t i = 0; i < d->n_groups; i++) {
    const ts_fully_sharded_group *g = &d->groups[i];
    const int64_t input = g->shard_n * d->n_ranks;
    const int64_t n = input > g->whole_n ? input : g->whole_n;
    if (n > d->slot_n) d->slot_n = n;
  }
  d->slot_n = (d->slot_n + 15) / 16 * 16;
  TS_DO(ts_mem_many(d->slots, d->n_slots, DENSE));
  TS_DO(ts_fully_sharded_take(d, &d->slot_memory, d->n_slots * d->slot_n,
                              sizeof(float), TS_TAG_DENSE));
  for (int32_t i = 0; i < d->n_slots; i++)
    d->slots[i].at = d->slot_memory + i * d->slot_n;
  return TS_OK;
}

static ts_err take_flat(ts_fully_sharded *d, int32_t *out,
                        const ts_fully_sharded_group *g) {
  int32_t best = -1;
  const int32_t first = first_flat(d, d->pass);
  for (int32_t i = first; i < first + d->n_flats[d->pass]; i++) {
    const ts_fully_sharded_slot *s = &d->slots[i];
    if (!s->taken && (best < 0 || s->given < d->slots[best].given)) best = i;
  }
  if (best < 0)
    return ts_fail(TS_ERR_INTERNAL,
                   "layer %s comes in another order than its parameters",
                   g->name);
  d->slots[best].taken = true;
  d->live.flats++;
  *out = best;
  return TS_OK;
}

static void give_flat(ts_fully_sharded *d, int32_t *slot, ts_event last_use) {
  ts_fully_sharded_slot *s = &d->slots[*slot];
  s->taken = false;
  s->last_use = last_use;
  s->given = ++d->clock;
  d->live.flats--;
  *slot = -1;
}

/* ---- gathering ----------------------------------------------------------- */

/* New weights: a pass's first all-gather waits for the optimizer, once; the
 * others are behind it on their lane, and so are conversions on theirs.
 * LANE's whole work is more than need be: what was enqueued after the
 * optimizer, too. */
static ts_err follow_optimizer(ts_fully_sharded *d, ts_lane *lane) {
  if (!d->first) return TS_OK;
  const ts_event last = d->config->dense.post_optimizer_event
                            ? d->optimized
                            : ts_lane_record(lane);
  d->first = false;
  d->optimized = (ts_event){0};
  ts_comm_follow(d->gather_comm, last);
  return d->lane ? ts_lane_wait(d->lane, last) : TS_OK;
}

/* *SEND = this rank's part of group G: what its block has KEPT, or its shard;
 * the latter is shortened into its own part of the FLAT first where the group
 * travels in bf16.  The next all-gather of COMM waits until it is there. */
static ts_err offer(ts_fully_sharded *d, const ts_fully_sharded_group *g,
                    const float **send, ts_comm *comm, bool kept,
                    const ts_fully_sharded_slot *flat) {
  /* Only a list can want what this backward pass has updated. */
  const ts_event ready = kept                     ? g->kept_at
                         : d->pass == TS_BACKWARD ? g->updated
                                                  : (ts_event){0};
  *send = kept ? g->kept : g->shard;
  if (kept || !g->half) {
    ts_comm_follow(comm, ready);
    ts_comm_follow(comm, flat->last_use);
    return TS_OK;
  }
  *send = flat->at + d->rank * g->flat_n;
  TS_DO(ts_lane_wait(d->lane, ready));
  TS_DO(ts_lane_wait(d->lane, flat->last_use));
  TS_DO(ts_fully_sharded_shorten(d, g, flat->at, d->lane));
  ts_comm_follow(comm, ts_lane_record(d->lane));
  return TS_OK;
}

static ts_err gather(ts_fully_sharded *d, int32_t i, ts_lane *lane) {
  ts_fully_sharded_group *g = &d->groups[i];
  const float *send = NULL;
  ts_token token;
  const bool kept = d->pass == TS_BACKWARD && g->is_kept;
  ts_comm *comm = kept ? d->block_comm : d->gather_comm;
  const int n = ts_comm_size(comm);
  const int64_t bytes = 4 * g->flat_n * (d->n_ranks / n);
  TS_DO(take_flat(d, &g->slot, g));
  if (d->pass == TS_FORWARD) TS_DO(follow_optimizer(d, lane));
  TS_DO(offer(d, g, &send, comm, kept, &d->slots[g->slot]));
  ts_comm_set_stage(comm, g->name);
  for (int r = 0; r < n; r++) d->counts[r] = bytes;
  TS_DO(ts_comm_all_gather_v(comm, &token, d->slots[g->slot].at, send,
                             d->counts, NULL));
  g->gathered = token.done;
  ts_fully_sharded_note(d, TS_FULLY_SHARDED_GATHER, i);
  return TS_OK;
}

static float *whole_of(const ts_fully_sharded *d,
                       const ts_fully_sharded_group *g) {
  return d->keeps_whole && g->kept ? g->kept
                                   : d->slots[TS_FULLY_SHARDED_WHOLE].at;
}

static ts_err copy_out(ts_fully_sharded *d, int32_t i, ts_lane *lane) {
  ts_fully_sharded_group *g = &d->groups[i];
  const bool forward = d->pass == TS_FORWARD;
  const float *flat = d->slots[g->slot].at;
  const int64_t kept_n = g->flat_n * (d->n_ranks / d->block);
  ts_flat_copy kept = {0};
  if (forward && g->kept && !d->keeps_whole)
    kept = (ts_flat_copy){g->kept, flat + d->rank % d->block * kept_n, kept_n,
                          TS_COPY_F32};
  TS_DO(ts_lane_wait(lane, g->gathered));
  /* Behind that wait the lane has done with what forward held. */
  if (d->held >= 0) give_flat(d, &d->held, d->slots[d->held].last_use);
  TS_DO(ts_lane_wait(lane, d->slots[TS_FULLY_SHARDED_WHOLE].last_use));
  TS_DO(ts_fully_sharded_copy_out(d, g, flat, whole_of(d, g), kept, lane));
  d->slots[g->slot].last_use = ts_lane_record(lane);
  if (forward) {
    d->held = g->slot;
    g->slot = -1;
    g->is_kept = g->kept != NULL;
    g->kept_at = ts_lane_record(lane);
  } else {
    give_flat(d, &g->slot, d->slots[g->slot].last_use);
  }
  return TS_OK;
}

/* ---- passes -------------------------------------------------------------- */

void ts_fully_sharded_pass(ts_fully_sharded *d, int pass) {
  if (d->held >= 0) give_flat(d, &d->held, d->slots[d->held].last_use);
  for (int32_t i = 0; i < d->n_groups; i++) {
    ts_fully_sharded_group *g = &d->groups[i];
    if (pass == TS_FORWARD) g->is_kept = false;
    if (g->slot < 0) continue;
    give_flat(d, &g->slot, g->gathered);
    ts_fully_sharded_note(d, TS_FULLY_SHARDED_DRAIN, i);
  }
  if (d->open >= 0) d->live.wholes = d->live.grads = 0;
  d->open = -1;
  d->pass = pass;
  d->last = pass == TS_BACKWARD ? d->n_groups : -1;
  d->first = pass == TS_FORWARD;
}

static ts_err enter(ts_fully_sharded *d, int32_t i, ts_pass pass) {
  const ts_fully_sharded_group *g = &d->groups[i];
  if (d->open >= 0)
    return ts_fail(TS_ERR_INTERNAL, "layer %s is acquired within layer %s",
                   g->name, d->groups[d->open].name);
  if (pass == TS_FORWARD && (d->pass != TS_FORWARD || i <= d->last))
    ts_fully_sharded_pass(d, TS_FORWARD);
  if (d->pass != (int)pass || (pass == TS_BACKWARD && i >= d->last))
    return ts_fail(TS_ERR_INTERNAL, "layer %s has no backward pass now",
                   g->name);
  return TS_OK;
}

static void point(ts_fully_sharded *d, ts_fully_sharded_group *g) {
  float *whole = whole_of(d, g), *grads = d->slots[TS_FULLY_SHARDED_GRAD].at;
  for (int32_t k = 0; k < g->n_parts; k++) {
    const ts_fully_sharded_part *p = &g->parts[k];
    p->param->w = whole + p->whole_at;
    if (d->pass == TS_BACKWARD) p->param->grad = grads + p->whole_at;
  }
}

/* Group I is whole for LANE, and needs no flat. */
static bool is_whole(const ts_fully_sharded *d, int32_t i) {
  return i == d->open ||
         (d->pass == TS_BACKWARD && d->keeps_whole && d->groups[i].is_kept);
}

ts_err ts_fully_sharded_acquire(void *fs, const ts_param *p, ts_pass pass,
                                ts_lane *lane) {
  ts_fully_sharded *d = fs;
  const int32_t i = d->group_of[p->index];
  if (i < 0 || (i == d->open && d->pass == (int)pass)) return TS_OK;
  ts_fully_sharded_group *g = &d->groups[i];
  TS_DO(enter(d, i, pass));
  if (!is_whole(d, i)) {
    if (g->slot < 0) TS_DO(gather(d, i, lane));
    TS_DO(copy_out(d, i, lane));
  }
  d->open = d->last = i;
  g->layers_done = 0;
  d->live.wholes++;
  d->live.grads += pass == TS_BACKWARD;
  if (pass == TS_BACKWARD)
    TS_DO(ts_lane_wait(lane, d->slots[TS_FULLY_SHARDED_GRAD].last_use));
  point(d, g);
  ts_fully_sharded_note(d, TS_FULLY_SHARDED_OPEN, i);
  for (int32_t k = 0, j; (j = early(d, i, (int)pass, k)) >= 0; k++)
    if (!is_whole(d, j) && d->groups[j].slot < 0) TS_DO(gather(d, j, lane));
  return TS_OK;
}

ts_err ts_fully_sharded_release(void *fs, const ts_param *p, ts_pass pass,
                                ts_lane *lane) {
  ts_fully_sharded *d = fs;
  const int32_t i = d->group_of[p->index];
  if (i < 0) return TS_OK;
  ts_fully_sharded_group *g = &d->groups[i];
  if (i != d->open || d->pass != (int)pass)
    return ts_fail(TS_ERR_INTERNAL, "layer %s is released but not acquired",
                   p->group);
  if (++g->layers_done < g->n_layers) return TS_OK;
  for (int32_t k = 0; k < g->n_parts; k++)
    g->parts[k].param->w = g->parts[k].param->grad = NULL;
  d->slots[TS_FULLY_SHARDED_WHOLE].last_use = ts_lane_record(lane);
  d->open = -1;
  d->live.wholes--;
  d->live.grads -= pass == TS_BACKWARD;
  if (pass == TS_FORWARD && d->keeps_whole && g->is_kept) return TS_OK;
  ts_fully_sharded_note(d, TS_FULLY_SHARDED_RESHARD, i);
  return TS_OK;
}
