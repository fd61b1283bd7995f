/* distinct.c - the host's kernel of distinct bags: a hash table of the bags
 * so far, which compares what they hold. */
#include <string.h>

#include "shard/message.h"
#include "sparse/index.h"

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

static bool same(const ts_distinct *d, uint32_t i, const ts_one_bag *b) {
  const int64_t at = d->start[i];
  return d->start[i + 1] - at == b->n &&
         !memcmp(d->ids + at, b->ids, (size_t)b->n * 8) &&
         (!b->weights ||
          !memcmp(d->weights + at, b->weights, (size_t)b->n * 4));
}

/* The number of bag B among the N distinct ones so far; a new one is added. */
static uint32_t number_of(const ts_distinct *d, uint32_t *n,
                          const ts_one_bag *b) {
  uint64_t at = hash_of(b) & d->mask;
  for (; d->slot[at]; at = (at + 1) & d->mask)
    if (same(d, d->slot[at] - 1, b)) return d->slot[at] - 1;
  const int64_t to = d->start[*n];
  if (b->n) memcpy(d->ids + to, b->ids, (size_t)b->n * 8);
  if (b->n && b->weights) memcpy(d->weights + to, b->weights, (size_t)b->n * 4);
  d->lengths[*n] = (int32_t)b->n;
  d->start[*n + 1] = to + b->n;
  d->slot[at] = ++*n;
  return *n - 1;
}

/* Numbers bags; returns how many are distinct. */
static int32_t number_all(const ts_distinct *d) {
  const ts_jagged *j = &d->from;
  uint32_t n = 0;
  int64_t k = 0;
  memset(d->slot, 0, (size_t)(d->mask + 1) * 4);
  d->start[0] = 0;
  for (int32_t i = 0; i < d->n_out; i++) {
    const ts_one_bag b = {j->ids + k, j->weights ? j->weights + k : NULL,
                          d->sequence ? 1 : ts_jagged_length(j, i)};
    d->inverse[i] = (int32_t)number_of(d, &n, &b);
    k += b.n;
  }
  return (int32_t)n;
}

/* The same of ids without weights. */
static int32_t number_ids(const ts_distinct *d) {
  const int64_t *from = d->from.ids;
  uint32_t n = 0;
  memset(d->slot, 0, (size_t)(d->mask + 1) * 4);
  d->start[0] = 0;
  for (int32_t i = 0; i < d->n_out; i++) {
    uint64_t at = mix(1, (uint64_t)from[i]) & d->mask;
    while (d->slot[at] && d->ids[d->slot[at] - 1] != from[i])
      at = (at + 1) & d->mask;
    if (!d->slot[at]) {
      d->ids[n] = from[i];
      d->lengths[n] = 1;
      d->slot[at] = ++n;
      d->start[n] = n;
    }
    d->inverse[i] = (int32_t)d->slot[at] - 1;
  }
  return (int32_t)n;
}

static int32_t part_of(const ts_distinct *d, int64_t id) {
  int32_t low = 0, high = d->n_parts - 1;
  if (d->hashed) return ts_index_shard(id, d->n_parts);
  while (low < high) {
    const int32_t mid = (low + high + 1) / 2;
    if (d->row0[mid] <= id)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

/* N distinct ids in the order of their row shards. */
static void order_by_part(const ts_distinct *d, int32_t n) {
  int64_t *sorted = d->start; /* free from here on, as long as ids */
  int64_t *part = d->found + 2;
  int32_t *to = (int32_t *)d->slot;
  memset(part, 0, (size_t)(d->n_parts + 1) * sizeof *part);
  for (int32_t i = 0; i < n; i++) {
    d->lengths[i] = part_of(d, d->ids[i]);
    part[d->lengths[i] + 1]++;
  }
  for (int32_t k = 0; k < d->n_parts; k++) part[k + 1] += part[k];
  for (int32_t i = 0; i < n; i++) {
    to[i] = (int32_t)part[d->lengths[i]]++;
    sorted[to[i]] = d->ids[i];
  }
  for (int32_t k = d->n_parts; k > 0; k--) part[k] = part[k - 1];
  part[0] = 0;
  for (int32_t i = 0; i < d->n_out; i++) d->inverse[i] = to[d->inverse[i]];
}

/* Which of FROM's bags each of the N distinct ones is, ascending. */
static void list_members(const ts_distinct *d, int32_t n) {
  int32_t *start = d->member_start;
  memset(start, 0, (size_t)(n + 1) * 4);
  for (int32_t i = 0; i < d->n_out; i++) start[d->inverse[i] + 1]++;
  for (int32_t k = 0; k < n; k++) start[k + 1] += start[k];
  for (int32_t i = 0; i < d->n_out; i++) d->member[start[d->inverse[i]]++] = i;
  for (int32_t k = n; k > 0; k--) start[k] = start[k - 1];
  start[0] = 0;
}

ts_err ts_bags_distinct(const ts_distinct_args *a) {
  for (int32_t f = 0; f < a->n_features; f++) {
    const ts_distinct *d = &a->features[f];
    const bool plain = d->sequence && !d->from.weights;
    const int32_t n = plain ? number_ids(d) : number_all(d);
    d->found[0] = n;
    d->found[1] = d->start[n];
    if (d->n_parts) order_by_part(d, n);
    if (d->member_start) list_members(d, n);
  }
  return TS_OK;
}
