/* bags.c - what of a feature travels.
 *
 * Mostly the bags as they came.  Features of data.dedup send each distinct
 * bag (ids and weights in order) once; sequences send each distinct id once,
 * as a bag of one.  The inverse index, which stays here, says which of them
 * each row of the output is.  Numbering is by first occurrence, so nothing
 * depends on hashes; ids of sequences that are cut by rows are further put
 * in the order of their shards. */
#include <string.h>

#include "base/mem.h"
#include "shard/flight.h"

typedef struct ts_bag_store {
  int64_t *ids, *start; /* start (distinct + 1): of each in ids */
  float *weights;
  int32_t *lengths, *inverse, *part, *slot;
  size_t ids_bytes, start_bytes, weights_bytes, lengths_bytes, inverse_bytes,
      slot_bytes;
  int32_t n_parts;
} ts_bag_store;

static const ts_table_plan *plan_of(const ts_flight *fl, int32_t f) {
  return &fl->ebc->plan->tables[fl->ebc->feature_table[f]];
}

static bool is_sequence(const ts_ebc *ebc, int32_t f) {
  return ebc->config->tables[ebc->feature_table[f]].pooling == TS_POOL_NONE;
}

ts_err ts_bags_create(ts_flight *fl) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = fl->ebc;
  TS_TRY(
      ts_mem_array(&fl->bags, ebc->n_features, sizeof *fl->bags, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&fl->variable, (int64_t)ebc->n_variable * ebc->n_ranks,
                      sizeof *fl->variable, TS_TAG_MISC));
  for (int32_t f = 0; f < ebc->n_features; f++) {
    ts_bag_store *s = NULL;
    if (ebc->variable[f] < 0) continue;
    TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_MISC));
    fl->bags[f].store = s;
    if (!is_sequence(ebc, f) ||
        !ts_sharding_find(plan_of(fl, f)->kind)->split_rows)
      continue;
    s->n_parts = plan_of(fl, f)->n_shards;
    TS_TRY(
        ts_mem_array(&s->part, s->n_parts + 1, sizeof *s->part, TS_TAG_MISC));
  }
done:
  return err;
}

void ts_bags_destroy(ts_flight *fl) {
  for (int32_t f = 0; fl->bags && f < fl->ebc->n_features; f++) {
    ts_bag_store *s = fl->bags[f].store;
    if (!s) continue;
    void *arrays[] = {s->ids,     s->start, s->weights, s->lengths,
                      s->inverse, s->part,  s->slot,    s};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
      ts_mem_free(arrays[i]);
  }
  ts_mem_free(fl->bags);
  ts_mem_free(fl->variable);
}

/* Room for N_BAGS bags of N_IDS ids in all; returns the mask of the hash
 * table, whose slots are cleared. */
static ts_err reserve(ts_bag_store *s, int64_t n_bags, int64_t n_ids,
                      bool weighted, uint64_t *mask) {
  ts_err err = TS_OK;
  uint64_t n_slots = 16;
  while (n_slots < 2 * (uint64_t)n_bags) n_slots *= 2;
  TS_TRY(ts_mem_reserve(&s->ids, &s->ids_bytes, (size_t)(n_ids + 1) * 8,
                        TS_TAG_INPUT));
  TS_TRY(ts_mem_reserve(&s->start, &s->start_bytes, (size_t)(n_bags + 1) * 8,
                        TS_TAG_INPUT));
  TS_TRY(ts_mem_reserve(&s->lengths, &s->lengths_bytes,
                        (size_t)(n_bags + 1) * 4, TS_TAG_INPUT));
  TS_TRY(ts_mem_reserve(&s->inverse, &s->inverse_bytes,
                        (size_t)(n_bags + 1) * 4, TS_TAG_INPUT));
  TS_TRY(ts_mem_reserve(&s->slot, &s->slot_bytes, n_slots * 4, TS_TAG_INPUT));
  if (weighted)
    TS_TRY(ts_mem_reserve(&s->weights, &s->weights_bytes,
                          (size_t)(n_ids + 1) * 4, TS_TAG_INPUT));
  memset(s->slot, 0, n_slots * 4);
  *mask = n_slots - 1;
done:
  return err;
}

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
  return h ^ h >> 29;
}

/* A bag of the batch. */
typedef struct ts_one_bag {
  const int64_t *ids;
  const float *weights;
  int64_t n;
} ts_one_bag;

static uint64_t hash_of(const ts_one_bag *b) {
  uint64_t h = (uint64_t)b->n;
  for (int64_t k = 0; k < b->n; k++) h = mix(h, (uint64_t)b->ids[k]);
  for (int64_t k = 0; b->weights && k < b->n; k++) {
    uint32_t bits;
    memcpy(&bits, &b->weights[k], 4);
    h = mix(h, bits);
  }
  return h;
}

static bool same(const ts_bag_store *s, int32_t i, const ts_one_bag *b) {
  const int64_t at = s->start[i];
  return s->start[i + 1] - at == b->n &&
         !memcmp(s->ids + at, b->ids, (size_t)b->n * 8) &&
         (!b->weights ||
          !memcmp(s->weights + at, b->weights, (size_t)b->n * 4));
}

/* The number of bag B among the N distinct ones so far; a new one is added. */
static int32_t number_of(ts_bag_store *s, int32_t *n, uint64_t mask,
                         const ts_one_bag *b) {
  uint64_t at = hash_of(b) & mask;
  for (; s->slot[at]; at = (at + 1) & mask)
    if (same(s, s->slot[at] - 1, b)) return s->slot[at] - 1;
  const int64_t to = s->start[*n];
  if (b->n) memcpy(s->ids + to, b->ids, (size_t)b->n * 8);
  if (b->n && b->weights) memcpy(s->weights + to, b->weights, (size_t)b->n * 4);
  s->lengths[*n] = (int32_t)b->n;
  s->start[*n + 1] = to + b->n;
  s->slot[at] = ++*n;
  return *n - 1;
}

static ts_err make_distinct(ts_flight *fl, int32_t f) {
  ts_err err = TS_OK;
  ts_bags *bags = &fl->bags[f];
  ts_bag_store *s = bags->store;
  const ts_jagged *j = &fl->kjt->features[f];
  const bool sequence = is_sequence(fl->ebc, f);
  const int64_t n_out = sequence ? j->n_ids : fl->own.n;
  uint64_t mask;
  int32_t n = 0;
  int64_t k = 0;
  if (n_out > INT32_MAX / 2)
    TS_THROW(TS_ERR_DATA, "a batch has %lld ids of one feature",
             (long long)n_out);
  TS_TRY(reserve(s, n_out, j->n_ids, j->weights != NULL, &mask));
  s->start[0] = 0;
  for (int32_t i = 0; i < n_out; i++) {
    const ts_one_bag b = {j->ids + k, j->weights ? j->weights + k : NULL,
                          sequence ? 1 : ts_jagged_length(j, i)};
    s->inverse[i] = number_of(s, &n, mask, &b);
    k += b.n;
  }
  *bags = (ts_bags){.ids = {.ids = s->ids,
                            .lengths = sequence ? NULL : s->lengths,
                            .weights = j->weights ? s->weights : NULL,
                            .n_ids = s->start[n]},
                    .n = n,
                    .n_out = (int32_t)n_out,
                    .inverse = s->inverse,
                    .part = s->part,
                    .store = s};
done:
  return err;
}

static int32_t part_of(const ts_table_plan *p, int64_t id) {
  int32_t low = 0, high = p->n_shards - 1;
  while (low < high) {
    const int32_t mid = (low + high + 1) / 2;
    if (p->shards[mid].row0 <= id)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

/* Distinct ids in the order of their row shards. */
static void order_by_part(ts_flight *fl, int32_t f) {
  ts_bags *bags = &fl->bags[f];
  ts_bag_store *s = bags->store;
  const ts_table_plan *p = plan_of(fl, f);
  int64_t *sorted = s->start; /* free from here on, as long as ids */
  memset(s->part, 0, (size_t)(s->n_parts + 1) * sizeof *s->part);
  for (int32_t i = 0; i < bags->n; i++) {
    s->lengths[i] = part_of(p, s->ids[i]);
    s->part[s->lengths[i] + 1]++;
  }
  for (int32_t k = 0; k < s->n_parts; k++) s->part[k + 1] += s->part[k];
  for (int32_t i = 0; i < bags->n; i++) {
    const int32_t to = s->part[s->lengths[i]]++;
    sorted[to] = s->ids[i];
    s->slot[i] = to;
  }
  for (int32_t k = s->n_parts; k > 0; k--) s->part[k] = s->part[k - 1];
  s->part[0] = 0;
  for (int32_t i = 0; i < bags->n_out; i++)
    s->inverse[i] = s->slot[s->inverse[i]];
  bags->ids.ids = sorted;
}

ts_err ts_bags_make(ts_flight *fl) {
  ts_err err = TS_OK;
  ts_ebc *ebc = fl->ebc;
  for (int32_t f = 0; f < ebc->n_features; f++) {
    ts_bags *bags = &fl->bags[f];
    const ts_jagged *j = &fl->kjt->features[f];
    if (ebc->variable[f] < 0) {
      *bags = (ts_bags){.ids = *j, .n = fl->own.n, .n_out = fl->own.n};
      continue;
    }
    TS_TRY(make_distinct(fl, f));
    if (bags->part) order_by_part(fl, f);
    ebc->stat.n_bags_in += bags->n_out;
    ebc->stat.n_bags_sent += bags->n;
    ebc->stat.n_ids_in += j->n_ids;
    ebc->stat.n_ids_sent += bags->ids.n_ids;
  }
done:
  return err;
}

ts_err ts_bags_expect(ts_flight *fl) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = fl->ebc;
  for (int32_t f = 0; f < ebc->n_features; f++) {
    ts_bags *b = &fl->bags[f];
    ts_bag_store *s = b->store;
    const int64_t n_ids = ts_expect_ids(ebc, f);
    const int64_t n = is_sequence(ebc, f) ? n_ids : fl->batch_max;
    uint64_t mask;
    b->ids.n_ids = n_ids;
    b->n = b->n_out = (int32_t)n;
    if (!s) continue;
    TS_TRY(reserve(s, n, n_ids,
                   ebc->config->tables[ebc->feature_table[f]].weighted, &mask));
    for (int r = 0; r < ebc->n_ranks; r++)
      fl->variable[(int64_t)r * ebc->n_variable + ebc->variable[f]] = b->n;
    b->part = s->part;
    const ts_table_plan *p = plan_of(fl, f);
    for (int32_t k = 0; k < s->n_parts; k++) /* spread over the row shards */
      s->part[k + 1] =
          s->part[k] + (int32_t)ts_expect_part(ebc, f, p->shards[k].n_rows);
  }
done:
  return err;
}
