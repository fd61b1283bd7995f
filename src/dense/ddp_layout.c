/* ddp_layout.c - which parameters share a bucket, and where their gradients
 * are.
 *
 * A bucket closes once it holds bucket_mb; bucket_mb 0: first 1 MiB, then 25,
 * and before a heavy part below the embeddings, under which it is reduced.
 * On one rank nothing is reduced, so where slots are used each layer is a
 * bucket: it is updated as soon as its backward pass is over. */
#include <string.h>

#include "base/mem.h"
#include "dense/ddp.h"

enum { SLOTS_MIN = 3 }; /* being written, on the wire, being applied */

static int64_t bucket_cap(const ts_config *c, int32_t bucket) {
  const double mb = c->dense.bucket_mb > 0 ? c->dense.bucket_mb
                    : bucket == 0          ? 1.0
                                           : 25.0;
  return (int64_t)(mb * 1024 * 1024);
}

static bool uses_slots(const ts_ddp *d) {
  return d->in_backward || d->config->run.accumulate > 1;
}

/* Backward order: places, and the layers' numbers. */
static void order(ts_ddp *d) {
  const int32_t n = d->params->n;
  for (int32_t s = 0; s < n; s++) {
    d->place[s] = d->params->item[n - 1 - s];
    d->place_of[d->place[s]->index] = s;
    d->group_of[s] =
        s ? d->group_of[s - 1] +
                (strcmp(d->place[s]->group, d->place[s - 1]->group) != 0)
          : 0;
  }
}

/* True when the bucket that ends with place S closes. */
static bool closes(const ts_ddp *d, const ts_bucket *b, int32_t s) {
  if (s + 1 == d->params->n) return true;
  if (d->place[s]->late != d->place[s + 1]->late) return true;
  if (d->place[s]->below != d->place[s + 1]->below &&
      !(d->config->dense.bucket_mb > 0) && ts_params_heavy_below(d->params))
    return true;
  if (!d->comm && uses_slots(d)) return d->group_of[s] != d->group_of[s + 1];
  return b->n * 4 >= bucket_cap(d->config, (int32_t)(b - d->buckets));
}

/* Gradients begin on borders (TS_PARAM_ALIGN), but what does not reach from one
 * to the next ends on one: behind a bias of few outputs, which is the first of
 * all, there is no gap. */
static void fill_buckets(ts_ddp *d) {
  ts_bucket *b = d->buckets;
  int64_t at = 0;
  for (int32_t s = 0; s < d->params->n; s++) {
    if (b->end == b->first)
      *b = (ts_bucket){
          .first = s, .at = at, .late = d->place[s]->late, .slot = -1};
    d->bucket_of[s] = (int32_t)(b - d->buckets);
    const int64_t n = d->place[s]->n, room = ts_param_room(n);
    d->offset[s] = b->n + (n < TS_PARAM_ALIGN ? room - n : 0);
    b->n += room;
    at += room;
    b->end = s + 1;
    if (closes(d, b, s)) b++;
  }
  d->n_buckets = (int32_t)(b - d->buckets);
  d->n_kept = at;
}

/* Enough that the layer being written never waits for itself. */
static int32_t count_slots(const ts_ddp *d) {
  int32_t n = 0, most = SLOTS_MIN, first = 0;
  if (!uses_slots(d)) return 0;
  while (n < d->n_buckets && !d->buckets[n].late) n++;
  for (int32_t s = 0; s < d->params->n; s++) {
    if (!s || d->group_of[s] != d->group_of[s - 1]) first = d->bucket_of[s];
    if (d->bucket_of[s] - first + 2 > most) most = d->bucket_of[s] - first + 2;
  }
  return n < most ? n : most;
}

static ts_err make_slots(ts_ddp *d) {
  d->n_slots = count_slots(d);
  TS_DO(ts_mem_many(d->slots, d->n_slots, DENSE));
  for (int32_t i = 0; i < d->n_buckets; i++) {
    ts_bucket *b = &d->buckets[i];
    if (b->late || !d->n_slots) continue;
    b->slot = i % d->n_slots;
    if (b->n > d->slots[b->slot].n) d->slots[b->slot].n = b->n;
  }
  for (int32_t i = 0; i < d->n_slots; i++) {
    d->slots[i].bucket = -1;
    TS_DO(ts_arrays_take(&d->arrays, d->base.spec.device, &d->slots[i].grads,
                         d->slots[i].n, sizeof(float), TS_TAG_GRADS));
  }
  return TS_OK;
}

/* Memory for the gradients that are in no slot. */
static ts_err make_rest(ts_ddp *d) {
  int64_t late = 0;
  ts_device *device = d->base.spec.device;
  for (int32_t i = 0; i < d->n_buckets; i++)
    if (d->buckets[i].late) late += d->buckets[i].n;
  if (!d->in_backward || d->config->run.accumulate > 1)
    TS_DO(ts_arrays_take(&d->arrays, device, &d->kept, d->n_kept,
                         sizeof *d->kept, TS_TAG_GRADS));
  if (uses_slots(d))
    TS_DO(ts_arrays_take(&d->arrays, device, &d->late, late, sizeof *d->late,
                         TS_TAG_GRADS));
  return TS_OK;
}

static void point(ts_ddp *d) {
  float *late = d->late;
  for (int32_t i = 0; i < d->n_buckets; i++) {
    ts_bucket *b = &d->buckets[i];
    b->grads = d->kept ? d->kept + b->at : NULL;
    b->fresh = b->slot >= 0 ? d->slots[b->slot].grads
               : d->late    ? late
                            : b->grads;
    if (b->late && d->late) late += b->n;
    if (!b->grads) b->grads = b->fresh;
    for (int32_t s = b->first; b->slot < 0 && s < b->end; s++)
      d->place[s]->grad = b->fresh + d->offset[s];
  }
}

ts_err ts_ddp_lay_out(ts_ddp *d) {
  const int32_t n = d->params->n;
  TS_DO(ts_mem_many(d->place, n, DENSE));
  TS_DO(ts_mem_many(d->place_of, n, DENSE));
  TS_DO(ts_mem_many(d->group_of, n, DENSE));
  TS_DO(ts_mem_many(d->bucket_of, n, DENSE));
  TS_DO(ts_mem_many(d->offset, n, DENSE));
  TS_DO(ts_mem_many(d->came, n, DENSE));
  TS_DO(ts_mem_many(d->released, n, DENSE));
  TS_DO(ts_mem_many(d->buckets, n + 1, DENSE));
  order(d);
  fill_buckets(d);
  TS_DO(make_slots(d));
  TS_DO(make_rest(d));
  point(d);
  return TS_OK;
}

void ts_ddp_layout_reset(ts_ddp *d) {
  void *arrays[] = {d->place, d->place_of, d->group_of, d->bucket_of, d->offset,
                    d->came,  d->released, d->buckets,  d->slots};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    ts_mem_free(arrays[i]);
}

static ts_err take_slot(ts_ddp *d, int32_t bucket, ts_lane *lane) {
  ts_slot *slot = &d->slots[d->buckets[bucket].slot];
  if (slot->bucket == bucket) return TS_OK;
  if (slot->bucket >= 0)
    return ts_fail(TS_ERR_INTERNAL,
                   "the backward pass does not follow the reverse order of the "
                   "parameters: %s while %s still has gradients to come",
                   d->place[d->buckets[bucket].first]->name,
                   d->place[d->buckets[slot->bucket].first]->name);
  slot->bucket = bucket;
  return ts_lane_wait(lane, slot->free);
}

ts_err ts_ddp_take_slots(ts_ddp *d, const ts_param *p, ts_lane *lane) {
  const int32_t group = d->group_of[d->place_of[p->index]];
  int32_t s = d->place_of[p->index];
  while (s > 0 && d->group_of[s - 1] == group) s--;
  for (; s < d->params->n && d->group_of[s] == group; s++) {
    const ts_bucket *b = &d->buckets[d->bucket_of[s]];
    if (b->slot < 0) continue;
    TS_DO(take_slot(d, d->bucket_of[s], lane));
    d->place[s]->grad = b->fresh + d->offset[s];
  }
  return TS_OK;
}

void ts_ddp_give_slot(ts_ddp *d, ts_bucket *b, ts_lane *lane) {
  if (b->slot < 0) return;
  d->slots[b->slot].bucket = -1;
  d->slots[b->slot].free = ts_lane_record(lane);
}
