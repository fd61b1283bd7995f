/* batch_store.c - the arrays of a batch. */
#include "io/batch_store.h"

#include <string.h>

#include "base/dense_columns.h"
#include "base/mem.h"
#include "io/targets.h"
#include "runtime/trace.h"

static ts_err name_features(ts_feature_of *of, const ts_config *c) {
  ts_feature_columns m;
  TS_DO(ts_feature_columns_create(&m, c));
  for (int32_t t = 0, f = 0; t < c->n_tables; t++)
    for (int32_t k = 0; k < c->tables[t].features.n; k++, f++)
      of[f] = (ts_feature_of){&c->tables[t], c->tables[t].features.item[k],
                              m.first[f], ts_table_ids(&c->tables[t])};
  const int32_t times = ts_feature_of_times(c);
  if (times >= 0) of[times].rows = INT64_MAX;
  ts_feature_columns_reset(&m);
  return TS_OK;
}

ts_err ts_batch_store_create(ts_batch_store **out, const ts_config *c,
                             ts_device *device) {
  ts_err err = TS_OK;
  ts_batch_store *s = NULL;
  const int32_t n = ts_feature_count(c);
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  s->arena.device = device;
  s->arena.space = c->data.pin_memory ? TS_SPACE_PINNED : TS_SPACE_HOST;
  s->sources = strcmp(c->data.input, "columns") ? &s->stage : &s->arena;
  TS_TRY(ts_mem_many(s->feature, n, INPUT));
  TS_TRY(ts_mem_many(s->batch.kjt.features, n, INPUT));
  TS_TRY(ts_mem_many(s->of, n, INPUT));
  TS_TRY(name_features(s->of, c));
  TS_TRY(ts_targets_create(&s->targets, c));
  s->times = ts_feature_of_times(c);
  s->batch.kjt.n_features = n;
  s->batch.owner = s;
  *out = s;
done:
  if (err != TS_OK) ts_batch_store_destroy(s);
  return err;
}

void ts_batch_store_destroy(ts_batch_store *s) {
  if (!s) return;
  ts_batch_arena_reset(&s->arena);
  ts_batch_arena_reset(&s->stage);
  ts_targets_destroy(s->targets);
  ts_mem_free_all(s->feature, s->of, s->batch.kjt.features, s);
}

ts_batch *ts_batch_store_batch(ts_batch_store *s) {
  return &s->batch;
}

/* ---- where the arrays are ------------------------------------------------ */

static void point_samples(ts_batch_store *s) {
  ts_batch *b = &s->batch;
  b->labels = s->labels = ts_batch_arena_at(&s->arena, s->labels_piece);
  s->dense = ts_batch_arena_at(&s->arena, s->dense_piece);
  s->weights = ts_batch_arena_at(&s->arena, s->weights_piece);
  b->dense = b->n_dense ? s->dense : NULL;
  b->weights = s->has_weights ? s->weights : NULL;
  b->times = (ts_event_times){0};
  if (s->time_bags.bytes)
    b->times = (ts_event_times){ts_batch_arena_at(&s->arena, s->time_bags),
                                ts_batch_arena_at(&s->arena, s->time_ids)};
  b->arena = s->arena.base;
  b->arena_bytes = s->arena.used_bytes;
}

static void point_feature(ts_batch_store *s, int32_t f) {
  ts_feature_store *x = &s->feature[f];
  ts_jagged *j = &s->batch.kjt.features[f];
  void *bags = ts_batch_arena_at(s->sources, x->part[TS_PART_BAGS]);
  j->lengths = x->lengths = x->bags == TS_BAGS_LENGTHS ? bags : NULL;
  j->offsets = x->offsets = x->bags == TS_BAGS_OFFSETS ? bags : NULL;
  j->ids = x->ids = ts_batch_arena_at(s->sources, x->part[TS_PART_IDS]);
  j->weights = x->weights =
      x->weighted ? ts_batch_arena_at(s->sources, x->part[TS_PART_WEIGHTS])
                  : NULL;
}

/* After feature F got room.  OLD_BASE, OLD_AT: where the block, and F's ids
 * in it, were before: what had to move is counted. */
static void point_after(ts_batch_store *s, int32_t f, const char *old_base,
                        size_t old_at) {
  const ts_kjt *kjt = &s->batch.kjt;
  const bool moved = s->sources->base != old_base;
  for (int32_t i = 0; moved && i < kjt->n_features; i++) {
    s->batch.n_copied += kjt->features[i].n_ids;
    point_feature(s, i);
  }
  if (!moved && s->feature[f].part[TS_PART_IDS].at != old_at)
    s->batch.n_copied += kjt->features[f].n_ids;
  point_feature(s, f);
  point_samples(s);
}

/* ---- filling ------------------------------------------------------------- */

ts_err ts_batch_store_begin(ts_batch_store *s, int32_t n, int32_t n_tasks,
                            int32_t n_dense, bool weights) {
  ts_batch *b = &s->batch;
  const size_t rows = (size_t)n;
  const int32_t n_features = b->kjt.n_features;
  ts_batch_arena_rewind(&s->arena);
  ts_batch_arena_rewind(&s->stage);
  memset(s->feature, 0, (size_t)n_features * sizeof *s->feature);
  memset(b->kjt.features, 0, (size_t)n_features * sizeof *b->kjt.features);
  s->labels_piece = s->dense_piece = s->weights_piece = (ts_batch_piece){0};
  s->time_bags = s->time_ids = (ts_batch_piece){0};
  s->has_weights = weights |= s->targets != NULL;
  b->kjt = (ts_kjt){b->kjt.features, n_features, n, NULL, NULL, NULL, 0};
  b->n = n;
  b->n_tasks = n_tasks;
  b->n_dense = n_dense;
  b->n_bad = b->n_bad_ids = b->n_copied = 0;
  TS_DO(ts_batch_arena_grow(&s->arena, &s->labels_piece,
                            rows * (size_t)n_tasks * 4));
  TS_DO(ts_batch_arena_grow(&s->arena, &s->dense_piece,
                            rows * (size_t)n_dense * 4));
  TS_DO(ts_batch_arena_grow(&s->arena, &s->weights_piece,
                            weights ? rows * 4 : 0));
  point_samples(s);
  for (int32_t i = 0; weights && i < n; i++) s->weights[i] = 1.0f;
  return TS_OK;
}

ts_err ts_batch_store_feature(ts_batch_store *s, int32_t f, int64_t n_ids,
                              ts_bag_form bags, bool weighted) {
  ts_feature_store *x = &s->feature[f];
  const char *base = s->sources->base;
  const size_t at = x->part[TS_PART_IDS].at;
  const size_t n = (size_t)s->batch.n;
  const size_t part_bytes[TS_PART_COUNT] = {
      bags == TS_BAGS_LENGTHS   ? n * 4
      : bags == TS_BAGS_OFFSETS ? (n + 1) * 8
                                : 0,
      (size_t)n_ids * 8, weighted ? (size_t)n_ids * 4 : 0};
  for (int k = 0; k < TS_PART_COUNT; k++)
    TS_DO(ts_batch_arena_grow(s->sources, &x->part[k], part_bytes[k]));
  x->bags = bags;
  x->weighted = weighted;
  point_after(s, f, base, at);
  s->batch.kjt.features[f].n_ids = n_ids;
  return TS_OK;
}

ts_err ts_batch_store_open(ts_batch_store *s, int32_t f, int64_t n_ids) {
  const ts_feature_store *x = &s->feature[f];
  const bool one = x->bags == TS_BAGS_ONE;
  TS_DO(ts_batch_store_feature(s, f, n_ids, one ? TS_BAGS_LENGTHS : x->bags,
                               false));
  for (int32_t b = 0; one && b < s->batch.n; b++) x->lengths[b] = 1;
  return TS_OK;
}

ts_err ts_batch_store_clear(ts_batch_store *s, int32_t f) {
  TS_DO(ts_batch_store_feature(s, f, 0, TS_BAGS_LENGTHS, false));
  memset(s->feature[f].lengths, 0,
         (size_t)s->batch.n * sizeof *s->feature[f].lengths);
  return TS_OK;
}

/* ---- times --------------------------------------------------------------- */

static ts_err make_room_for_times(ts_batch_store *s, int64_t n_ids) {
  const char *base = s->sources->base;
  TS_DO(ts_batch_arena_grow(&s->arena, &s->time_bags,
                            ((size_t)s->batch.n + 1) * 8));
  TS_DO(ts_batch_arena_grow(&s->arena, &s->time_ids, (size_t)n_ids * 8 + 8));
  for (int32_t f = 0; s->sources->base != base && f < s->batch.kjt.n_features;
       f++)
    point_feature(s, f);
  point_samples(s);
  return TS_OK;
}

/* Their ids lie beside the features', whose own bags become empty. */
static ts_err take_times(ts_batch_store *s) {
  const ts_jagged *j = &s->batch.kjt.features[s->times];
  TS_DO(make_room_for_times(s, j->n_ids));
  int64_t *bags = ts_batch_arena_at(&s->arena, s->time_bags);
  bags[0] = 0;
  for (int32_t b = 0; b < s->batch.n; b++)
    bags[b + 1] = bags[b] + ts_jagged_length(j, b);
  if (j->n_ids)
    memcpy(ts_batch_arena_at(&s->arena, s->time_ids), j->ids,
           (size_t)j->n_ids * 8);
  return ts_batch_store_clear(s, s->times);
}

/* ---- columns of several features ----------------------------------------- */

bool ts_batch_store_is_same(const ts_batch_store *s, int32_t f) {
  const ts_table_config *t = s->of[f].table, *x = s->of[s->of[f].first].table;
  return s->of[f].first != f && ts_table_same_ids(t, x);
}

ts_err ts_batch_store_copy(ts_batch_store *s, int32_t f) {
  const bool weighted = s->of[f].table->weighted;
  const ts_feature_store *from = &s->feature[s->of[f].first];
  const int64_t n = s->batch.kjt.features[s->of[f].first].n_ids;
  TS_DO(ts_batch_store_feature(s, f, n, from->bags, weighted));
  const ts_feature_store *to = &s->feature[f];
  const size_t bags = (size_t)s->batch.n;
  if (n) memcpy(to->ids, from->ids, (size_t)n * 8);
  if (to->lengths) memcpy(to->lengths, from->lengths, bags * 4);
  if (to->offsets) memcpy(to->offsets, from->offsets, (bags + 1) * 8);
  for (int64_t k = 0; weighted && k < n; k++)
    to->weights[k] = from->weights ? from->weights[k] : 1.0f;
  s->batch.n_copied += n;
  return TS_OK;
}

/* After the others have theirs. */
static void share(ts_batch_store *s) {
  ts_jagged *j = s->batch.kjt.features;
  for (int32_t f = 0; f < s->batch.kjt.n_features; f++) {
    if (!ts_batch_store_is_same(s, f)) continue;
    s->feature[f] = s->feature[s->of[f].first];
    j[f] = j[s->of[f].first];
  }
}

/* ---- one keyed jagged tensor --------------------------------------------- */

/* Lengths of J's bags, and its ids and weights, to where they belong. */
static void put_feature(ts_jagged *to, const ts_jagged *j, int32_t n,
                        int64_t *ids, int32_t *lengths, float *weights) {
  *to = (ts_jagged){.ids = ids, .n_ids = j->n_ids};
  memcpy(ids, j->ids, (size_t)j->n_ids * 8);
  if (!ts_jagged_is_one(j)) {
    for (int32_t b = 0; b < n; b++)
      lengths[b] = (int32_t)ts_jagged_length(j, b);
    to->lengths = lengths;
  }
  if (j->weights) {
    memcpy(weights, j->weights, (size_t)j->n_ids * 4);
    to->weights = weights;
  }
}

/* Features of one id a bag need no lengths, unweighted ones no weights: the
 * arrays have those of the others, in the deck's order. */
static ts_err concatenate(ts_batch_store *s) {
  ts_kjt *kjt = &s->batch.kjt;
  ts_batch_piece piece[3] = {{0}};
  size_t n_ids = 0, n_lengths = 0, n_weights = 0;
  const size_t n = (size_t)s->batch.n;
  for (int32_t f = 0; f < kjt->n_features; f++) {
    const ts_jagged *j = &kjt->features[f];
    if (ts_batch_store_is_same(s, f)) continue;
    n_ids += (size_t)j->n_ids;
    n_lengths += ts_jagged_is_one(j) ? 0 : n;
    n_weights += j->weights ? (size_t)j->n_ids : 0;
  }
  TS_DO(ts_batch_arena_grow(&s->arena, &piece[0], n_ids * 8));
  TS_DO(ts_batch_arena_grow(&s->arena, &piece[1], n_lengths * 4));
  TS_DO(ts_batch_arena_grow(&s->arena, &piece[2], n_weights * 4));
  point_samples(s);
  int64_t *ids = ts_batch_arena_at(&s->arena, piece[0]);
  int32_t *lengths = ts_batch_arena_at(&s->arena, piece[1]);
  float *weights = ts_batch_arena_at(&s->arena, piece[2]);
  kjt->values = ids;
  kjt->lengths = lengths;
  kjt->weights = weights;
  kjt->n_ids = (int64_t)n_ids;
  for (int32_t f = 0; f < kjt->n_features; f++) {
    const ts_jagged j = kjt->features[f];
    if (ts_batch_store_is_same(s, f)) continue;
    put_feature(&kjt->features[f], &j, s->batch.n, ids, lengths, weights);
    ids += j.n_ids;
    lengths += ts_jagged_is_one(&j) ? 0 : n;
    weights += j.weights ? j.n_ids : 0;
  }
  s->batch.n_copied += (int64_t)n_ids;
  return TS_OK;
}

static double sum_weights(const ts_batch *b) {
  double sum = 0;
  if (!b->weights) return b->n;
  for (int32_t i = 0; i < b->n; i++) sum += b->weights[i];
  return sum;
}

void ts_batch_store_weigh(ts_batch_store *s, double positive) {
  ts_batch *b = &s->batch;
  for (int64_t i = 0; i < b->n; i++)
    b->weights[i] *= 1 + (float)(positive - 1) * b->labels[i * b->n_tasks];
  b->weight_sum = sum_weights(b);
}

ts_err ts_batch_store_end(ts_batch_store *s) {
  ts_batch *b = &s->batch;
  TS_DO(ts_targets_expand(s->targets, s));
  if (s->for_model) TS_DO(ts_batch_store_map(s));
  if (s->for_model && s->times >= 0) TS_DO(take_times(s));
  if (s->sources == &s->stage) {
    const double t0 = ts_now();
    TS_DO(concatenate(s));
    ts_timer_add("concatenate (own thread)", ts_now() - t0);
  } else {
    for (int32_t f = 0; f < b->kjt.n_features; f++)
      if (!ts_batch_store_is_same(s, f))
        b->kjt.n_ids += b->kjt.features[f].n_ids;
  }
  share(s);
  b->weight_sum = sum_weights(b);
  return TS_OK;
}

/* ---- before the first batch ---------------------------------------------- */

ts_err ts_batch_store_expect(ts_batch_store *s, const ts_config *c, int32_t n,
                             const double *pooling) {
  const int32_t n_tasks = c->model.n_tasks > 0 ? c->model.n_tasks : 1;
  TS_DO(ts_batch_store_begin(s, n, n_tasks, ts_dense_width(c), false));
  for (int32_t f = 0; f < s->batch.kjt.n_features; f++) {
    const bool one = pooling[f] == 1.0;
    const int64_t n_ids = one ? n : (int64_t)(1.25 * n * pooling[f]) + 16;
    if (ts_batch_store_is_same(s, f)) continue;
    TS_DO(ts_batch_store_feature(s, f, n_ids,
                                 one ? TS_BAGS_ONE : TS_BAGS_OFFSETS,
                                 s->of[f].table->weighted));
  }
  if (s->times >= 0)
    TS_DO(make_room_for_times(s, s->batch.kjt.features[s->times].n_ids));
  if (s->sources == &s->stage) TS_DO(concatenate(s));
  s->batch.n = 0;
  ts_batch_arena_count(&s->arena);
  ts_batch_arena_count(&s->stage);
  return TS_OK;
}

size_t ts_batch_store_bytes(const ts_batch_store *s, size_t *copied) {
  *copied = s->arena.used_bytes;
  return s->arena.bytes + s->stage.bytes;
}

ts_err ts_batch_store_cut(ts_batch_store *s, int32_t f, int64_t most,
                          bool newest) {
  ts_jagged *j = &s->batch.kjt.features[f];
  ts_feature_store *x = &s->feature[f];
  int64_t to = 0, k = 0;
  for (int32_t b = 0; x->bags != TS_BAGS_ONE && b < s->batch.n; b++) {
    const int64_t end = x->lengths ? k + x->lengths[b] : x->offsets[b + 1];
    const int64_t n = end - k < most ? end - k : most;
    if (newest) k = end - n;
    memmove(x->ids + to, x->ids + k, (size_t)n * sizeof *x->ids);
    if (x->weights)
      memmove(x->weights + to, x->weights + k, (size_t)n * sizeof *x->weights);
    to += n;
    k = end;
    if (x->lengths) x->lengths[b] = (int32_t)n;
    if (x->offsets) x->offsets[b + 1] = to;
  }
  if (x->bags != TS_BAGS_ONE) j->n_ids = to;
  return TS_OK;
}
