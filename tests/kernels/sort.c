/* sort.c - the contract of sort: stable, any number of bits, segments alone.
 * ranks: 1  fake: 1  emulated: 1  isa: none */
#include "tests/support/contract.h"

typedef struct {
  uint32_t key, value;
} pair;

static int by_key(const void *a, const void *b) {
  const pair *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->value < y->value ? -1 : x->value > y->value;
}

KT_CALL(run, sort, ts_sort_args)

static ts_sort_args make(int64_t n, int bits) {
  ts_sort_args a = {.n = n, .n_bits = bits};
  uint32_t **all[] = {&a.keys, &a.values, &a.keys_scratch, &a.values_scratch};
  kt_begin();
  for (int i = 0; i < 4; i++) *all[i] = kt_array(n, 4, 0);
  kt_compare(a.keys_scratch, KT_OWN);
  kt_compare(a.values_scratch, KT_OWN);
  a.runs = kt_array(n + 1, 4, 0);
  kt_compare(a.runs, KT_OWN);
  for (int64_t i = 0; i < n; i++) a.values[i] = (uint32_t)i;
  return a;
}

/* Kernels of a GPU say where runs of equal keys begin. */
static void look_at_runs(const void *arg) {
  const ts_sort_args *a = arg;
  const uint32_t *keys = kt_ref(a->keys), *runs = kt_got(a->runs);
  uint32_t n = 0;
  if (!a->n || (strcmp(ts_test_backend(), "emulated") != 0 &&
                strcmp(ts_test_backend(), "cuda") != 0))
    return;
  for (int64_t i = 0; i < a->n; i++)
    if (i == 0 || keys[i] != keys[i - 1]) {
      n++;
      ck_assert_uint_eq(runs[n], (uint32_t)i);
    }
  ck_assert_uint_eq(runs[0], n);
}

/* The oracle has what qsort makes of the pairs. */
static void check(const ts_sort_args *a) {
  pair *pairs = test_alloc(a->n, sizeof *pairs);
  for (int64_t i = 0; i < a->n; i++)
    pairs[i] = (pair){a->keys[i], a->values[i]};
  qsort(pairs, (size_t)a->n, sizeof *pairs, by_key);
  kt_look(look_at_runs);
  kt_check(run, a);
  const uint32_t *keys = kt_ref(a->keys), *values = kt_ref(a->values);
  for (int64_t i = 0; i < a->n; i++) {
    ck_assert_uint_eq(keys[i], pairs[i].key);
    ck_assert_uint_eq(values[i], pairs[i].value);
  }
  free(pairs);
}

KT_CONTRACT("sort")

TS_TESTS(stable, 0, 8) {
  static const int bits[] = {0,  1,  5,  7,  8,  9,  10, 11, 12,
                             16, 20, 22, 23, 24, 25, 31, 32};
  static const int64_t sizes[] = {0, 1, 2, 100, 5000, 9001, 20000, 300000};
  for (int b = 0; b < TEST_COUNT(bits); b++) {
    const ts_sort_args a = make(sizes[_i], bits[b]);
    for (int64_t i = 0; i < a.n; i++) {
      a.keys[i] = bits[b] ? kt_bits() >> (32 - bits[b]) : 0;
      if (i % 3 == 0) a.keys[i] = a.keys[i / 2];
    }
    check(&a);
  }
}

/* All numbers of bits, where that is quick. */
TS_TEST(a_million) {
  static const int bits[] = {24, 0, 1, 7, 8, 9, 16, 20, 25, 31, 32};
  const bool quick = !strcmp(ts_test_backend(), "cuda");
  for (int b = 0; b < (quick ? TEST_COUNT(bits) : 1); b++) {
    const ts_sort_args a = make(1000001, bits[b]);
    for (int64_t i = 0; i < a.n; i++)
      a.keys[i] = bits[b] ? kt_bits() >> (32 - bits[b]) : 0;
    check(&a);
  }
}

/* Segments of uneven lengths, some empty: as sorting all at once. */
TS_TEST(segments) {
  static const int64_t sizes[] = {2, 100, 1000, 20000};
  for (int s = 0; s < TEST_COUNT(sizes); s++)
    for (int n_segments = 1; n_segments <= 6; n_segments++) {
      int64_t segment[16] = {0}, base[16] = {0};
      ts_sort_args a = make(sizes[s], 14);
      for (int k = 0; k < n_segments; k++) {
        const int64_t left = a.n - segment[k];
        segment[k + 1] = k + 1 == n_segments ? a.n : segment[k] + left * k / 5;
        base[k + 1] = base[k] + 1000 + 3 * k;
        for (int64_t i = segment[k]; i < segment[k + 1]; i++)
          a.keys[i] = (uint32_t)(base[k] + kt_below(1000));
      }
      a.n_segments = n_segments;
      a.segment = segment;
      a.segment_base = base;
      a.segment_bits = 10;
      check(&a);
    }
}
