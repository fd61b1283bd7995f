/* distinct.c - the contract of bags_distinct, byte by byte.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "base/hash.h"
#include "shard/pack.h"
#include "tests/support/contract.h"

enum { FEATURES = 5 };

typedef struct bags_spec {
  int32_t n;
  int kinds, longest; /* bags that there are; ids of one at most */
  bool weighted, sequence, discrete; /* apart: with members */
  int n_parts;
  bool hashed;
} bags_spec;

typedef struct distinct_case {
  ts_distinct d[FEATURES];
  int n;
} distinct_case;

static ts_err run(const ts_kernels *k, const void *arg) {
  distinct_case c = *(const distinct_case *)arg;
  kt_at_all(&c, sizeof c);
  const ts_distinct_args a = {kt_pin(c.d, sizeof c.d), c.n};
  return k->bags_distinct(&a);
}

/* The bags that come; bag KIND: ids, and signs of zeros as weights, which
 * count. */
static void take_bags(ts_distinct *d, const bags_spec *s) {
  int32_t *lengths = kt_array(s->n, 4, 0);
  int64_t *offsets = kt_zeros(s->n + 1, 8), n = 0;
  int64_t *ids = kt_array((int64_t)s->n * s->longest, 8, 0);
  float *weights = kt_array((int64_t)s->n * s->longest, 4, 0);
  for (int32_t i = 0; i < s->n; i++) {
    uint64_t kind = kt_bits() % (uint32_t)s->kinds;
    lengths[i] = s->sequence ? 1 : (int32_t)(kind % (uint64_t)(s->longest + 1));
    kind = kind * 977 + 13;
    for (int32_t k = 0; k < lengths[i]; k++) {
      ids[n] = (int64_t)(test_random(&kind) % 1000);
      if (s->hashed) ids[n] = (int64_t)ts_mix64((uint64_t)ids[n]);
      weights[n++] = test_random(&kind) % 2 ? 0.0f : -0.0f;
    }
    offsets[i + 1] = n;
  }
  d->from = (ts_jagged){.lengths = lengths,
                        .ids = ids,
                        .weights = s->weighted ? weights : NULL,
                        .n_ids = n};
  d->from_offsets = offsets;
}

/* Whole arrays are compared: nobody writes beyond what is distinct. */
static void make(ts_distinct *d, const bags_spec *s) {
  int64_t n_slots = 16;
  while (n_slots < 2 * (int64_t)s->n) n_slots *= 2;
  take_bags(d, s);
  d->n_out = s->n;
  d->sequence = s->sequence;
  d->ids = kt_array(d->from.n_ids + 1, 8, 0);
  d->start = kt_array(s->n + 1, 8, 0);
  d->weights = kt_array(d->from.n_ids + 1, 4, 0);
  d->lengths = kt_array(s->n + 1, 4, 0);
  d->inverse = kt_array(s->n + 1, 4, 0);
  d->slot = kt_array(n_slots, 4, 0);
  d->mask = (uint64_t)n_slots - 1;
  d->member_start = s->discrete ? kt_array(s->n + 1, 4, 0) : NULL;
  d->member = kt_array(s->n + 1, 4, 0);
  int64_t *row0 = kt_array(s->n_parts + 1, 8, 0);
  for (int p = 0; p < s->n_parts; p++)
    row0[p] = (int64_t)p * 1100 / s->n_parts; /* the last ones have none */
  d->row0 = row0;
  d->n_parts = s->n_parts;
  d->hashed = s->hashed;
  d->found = kt_array(s->n_parts + 3, 8, 0);
  kt_compare(d->slot, KT_OWN);
  if (s->sequence) kt_compare(d->lengths, KT_OWN);
}

static void check(const bags_spec *s, int n) {
  distinct_case c = {.n = n};
  kt_begin();
  for (int i = 0; i < n; i++) make(&c.d[i], &s[i]);
  kt_check(run, &c);
}

KT_CONTRACT("bags_distinct")

TS_TEST(distinct) {
  const bags_spec s[] = {{1000, 300, 4, false, false, true, 0, false},
                         {1300, 300, 4, true, false, true, 0, false},
                         {900, 1, 3, false, false, true, 0, false},
                         {700, 100000, 3, false, false, false, 0, false},
                         {0, 5, 3, true, false, true, 0, false}};
  check(s, TEST_COUNT(s));
}

TS_TEST(distinct_ids) {
  const bags_spec s[] = {{2000, 400, 1, false, true, true, 0, false},
                         {2000, 400, 1, false, true, true, 3, false},
                         {1500, 5000, 1, false, true, false, 12, false},
                         {0, 1, 1, false, true, true, 4, false},
                         {1, 1, 1, false, true, true, 1, false}};
  check(s, TEST_COUNT(s));
}

TS_TEST(distinct_any_ids) {
  const bags_spec s[] = {{2000, 400, 1, false, true, true, 3, true},
                         {1500, 5000, 1, false, true, false, 12, true}};
  check(s, TEST_COUNT(s));
}

TS_TEST(distinct_sizes) {
  static const int32_t sizes[] = {1, 2, 255, 256, 257, 1023, 1024, 1025};
  for (int i = 0; i < TEST_COUNT(sizes); i++) {
    const bags_spec s[] = {{sizes[i], 40, 5, true, false, true, 0, false},
                           {sizes[i], 40, 1, false, true, true, 2, false}};
    check(s, 2);
  }
}
