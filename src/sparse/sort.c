/* sort.c - stable radix sort of (key, value) pairs, least digit first.
 *
 * Only as many bits as the keys have; digits of at most 11 bits, so that the
 * borders of all buckets stay in the first-level cache.  One array is shared
 * by all threads: each counts and moves a block of its own; blocks are taken
 * in order within a bucket, so the result is the stable one whatever the
 * number of threads.  Segments (tables, mostly) are sorted each by one
 * thread: they fit its caches, need fewer bits, and no thread waits. */
#include "sparse/sort.h"

#include <omp.h>
#include <string.h>

#include "base/mem.h"

enum { DIGIT_MAX = 11, PASSES_MAX = 4 };

typedef struct ts_pairs {
  uint32_t *keys, *values;
} ts_pairs;

typedef struct ts_pass {
  ts_pairs from, to;
  int64_t n;
  uint32_t base; /* subtracted from keys */
  int shift, bits, n_parts;
  uint32_t *counts; /* (n_parts, 1 << bits) */
} ts_pass;

static void count_part(const ts_pass *s, int p) {
  const uint32_t mask = (1u << s->bits) - 1, base = s->base;
  const uint32_t *keys = s->from.keys;
  uint32_t *count = s->counts + ((int64_t)p << s->bits);
  memset(count, 0, sizeof *count << s->bits);
  const int64_t end = s->n * (p + 1) / s->n_parts;
  for (int64_t i = s->n * p / s->n_parts; i < end; i++)
    count[(keys[i] - base) >> s->shift & mask]++;
}

static void place_part(const ts_pass *s, int p) {
  const uint32_t mask = (1u << s->bits) - 1, base = s->base;
  const ts_pairs from = s->from, to = s->to;
  uint32_t *at = s->counts + ((int64_t)p << s->bits);
  const int64_t end = s->n * (p + 1) / s->n_parts;
  for (int64_t i = s->n * p / s->n_parts; i < end; i++) {
    const uint32_t key = from.keys[i];
    const uint32_t j = at[(key - base) >> s->shift & mask]++;
    to.keys[j] = key;
    to.values[j] = from.values[i];
  }
}

static void sum_counts(const ts_pass *s) {
  uint32_t total = 0;
  for (int64_t digit = 0; digit < INT64_C(1) << s->bits; digit++)
    for (int p = 0; p < s->n_parts; p++) {
      uint32_t *count = &s->counts[((int64_t)p << s->bits) + digit];
      const uint32_t n = *count;
      *count = total;
      total += n;
    }
}

static void run_pass(const ts_pass *s) {
  if (s->n_parts == 1) {
    count_part(s, 0);
    sum_counts(s);
    place_part(s, 0);
    return;
  }
#pragma omp parallel for schedule(static, 1) num_threads(s->n_parts)
  for (int p = 0; p < s->n_parts; p++) count_part(s, p);
  sum_counts(s);
#pragma omp parallel for schedule(static, 1) num_threads(s->n_parts)
  for (int p = 0; p < s->n_parts; p++) place_part(s, p);
}

/* Passes for N keys of BITS bits: fewer, wider digits mean fewer moves but
 * more buckets to count, about two of which cost as much as a key. */
static int passes_for(int64_t n, int bits) {
  int best = (bits + DIGIT_MAX - 1) / DIGIT_MAX;
  int64_t least = INT64_MAX;
  for (int k = best; k <= PASSES_MAX; k++) {
    const int width = (bits + k - 1) / k;
    const int64_t cost = k * (2 * n + (INT64_C(1) << width) / 2);
    if (cost < least) {
      least = cost;
      best = k;
    }
  }
  return best;
}

/* All passes over S->n pairs from S->from, with S->to as scratch. */
static void sort_pairs(ts_pass s, int bits) {
  if (s.n < 2 || bits == 0) return;
  const ts_pairs first = s.from;
  const int n_passes = passes_for(s.n, bits);
  s.bits = (bits + n_passes - 1) / n_passes;
  for (int pass = 0; pass < n_passes; pass++) {
    const ts_pairs from = s.from;
    s.shift = pass * s.bits;
    run_pass(&s);
    s.from = s.to;
    s.to = from;
  }
  if (n_passes % 2) {
    memcpy(first.keys, s.from.keys, (size_t)s.n * 4);
    memcpy(first.values, s.from.values, (size_t)s.n * 4);
  }
}

static void sort_segments(const ts_sort_args *a, ts_pass s) {
  uint32_t *counts = s.counts;
  s.n_parts = 1;
#pragma omp parallel for schedule(dynamic, 1) firstprivate(s)
  for (int32_t k = 0; k < a->n_segments; k++) {
    const int64_t at = a->segment[k];
    s.from = (ts_pairs){a->keys + at, a->values + at};
    s.to = (ts_pairs){a->keys_scratch + at, a->values_scratch + at};
    s.n = a->segment[k + 1] - at;
    s.base = (uint32_t)a->segment_base[k];
    s.counts = counts + ((int64_t)omp_get_thread_num() << DIGIT_MAX);
    sort_pairs(s, a->segment_bits);
  }
}

/* Segments keep all threads busy unless one has most of the pairs. */
static bool by_segment(const ts_sort_args *a, int n_threads) {
  int64_t longest = 0;
  for (int32_t k = 0; k < a->n_segments; k++)
    if (a->segment[k + 1] - a->segment[k] > longest)
      longest = a->segment[k + 1] - a->segment[k];
  return a->n_segments > 0 && longest * n_threads < 2 * a->n;
}

size_t ts_sort_work_bytes(int n_threads) {
  return ((size_t)n_threads << DIGIT_MAX) * sizeof(uint32_t);
}

ts_err ts_sort_host(const ts_sort_args *a) {
  const int n_threads = omp_get_max_threads();
  ts_pass s = {.from = {a->keys, a->values},
               .to = {a->keys_scratch, a->values_scratch},
               .n = a->n,
               .n_parts = a->n < 8192 ? 1 : n_threads};
  if (a->n < 2) return TS_OK;
  s.counts = a->work;
  ts_err err = s.counts ? TS_OK
                        : ts_mem_alloc(&s.counts, ts_sort_work_bytes(n_threads),
                                       TS_TAG_SPARSE);
  if (err != TS_OK) return err;
  if (by_segment(a, n_threads))
    sort_segments(a, s);
  else
    sort_pairs(s, a->n_bits);
  if (!a->work) ts_mem_free(s.counts);
  return TS_OK;
}
