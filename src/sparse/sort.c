/* sort.c - stable radix sort of (key, value) pairs, least digit first.
 *
 * Only as many bits as the keys have; digits of at most 11 bits, so that the
 * borders of all buckets stay in the first-level cache.  Each thread counts
 * and moves a block of its own; blocks are taken in order within a bucket,
 * so the result is the stable one whatever the number of threads. */
#include "sparse/sort.h"

#include <omp.h>
#include <string.h>

#include "base/mem.h"

enum { DIGIT_MAX = 11 };

typedef struct ts_pass {
  const uint32_t *keys, *values;
  uint32_t *keys_to, *values_to;
  int64_t n;
  int shift, bits, n_parts;
  uint32_t *counts; /* (n_parts, 1 << bits) */
} ts_pass;

static void count_part(const ts_pass *s, int p) {
  const uint32_t mask = (1u << s->bits) - 1;
  uint32_t *count = s->counts + ((int64_t)p << s->bits);
  memset(count, 0, sizeof *count << s->bits);
  const int64_t end = s->n * (p + 1) / s->n_parts;
  for (int64_t i = s->n * p / s->n_parts; i < end; i++)
    count[s->keys[i] >> s->shift & mask]++;
}

static void place_part(const ts_pass *s, int p) {
  const uint32_t mask = (1u << s->bits) - 1;
  uint32_t *at = s->counts + ((int64_t)p << s->bits);
  const int64_t end = s->n * (p + 1) / s->n_parts;
  for (int64_t i = s->n * p / s->n_parts; i < end; i++) {
    const uint32_t to = at[s->keys[i] >> s->shift & mask]++;
    s->keys_to[to] = s->keys[i];
    s->values_to[to] = s->values[i];
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
#pragma omp parallel for schedule(static, 1) num_threads(s->n_parts)
  for (int p = 0; p < s->n_parts; p++) count_part(s, p);
  sum_counts(s);
#pragma omp parallel for schedule(static, 1) num_threads(s->n_parts)
  for (int p = 0; p < s->n_parts; p++) place_part(s, p);
}

ts_err ts_sort_host(const ts_sort_args *a) {
  const int n_passes = (a->n_bits + DIGIT_MAX - 1) / DIGIT_MAX;
  const int bits = n_passes ? (a->n_bits + n_passes - 1) / n_passes : 0;
  ts_pass s = {.keys = a->keys,
               .values = a->values,
               .keys_to = a->keys_scratch,
               .values_to = a->values_scratch,
               .n = a->n,
               .bits = bits,
               .n_parts = a->n < 8192 ? 1 : omp_get_max_threads()};
  if (a->n < 2 || n_passes == 0) return TS_OK;
  ts_err err = ts_mem_array(&s.counts, (int64_t)s.n_parts << bits,
                            sizeof *s.counts, TS_TAG_SPARSE);
  if (err != TS_OK) return err;
  for (int pass = 0; pass < n_passes; pass++) {
    const uint32_t *keys = s.keys, *values = s.values;
    s.shift = pass * bits;
    run_pass(&s);
    s.keys = s.keys_to;
    s.values = s.values_to;
    s.keys_to = (uint32_t *)keys;
    s.values_to = (uint32_t *)values;
  }
  if (n_passes % 2) {
    memcpy(a->keys, a->keys_scratch, (size_t)a->n * 4);
    memcpy(a->values, a->values_scratch, (size_t)a->n * 4);
  }
  ts_mem_free(s.counts);
  return TS_OK;
}
