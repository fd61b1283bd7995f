/* test_sort.c - the sort of keys: stable, any number of bits, segments alone.
 */
#include <omp.h>

#include "tests/support/sparse_util.h"

typedef struct {
  uint32_t key, value;
} pair;

static int by_key(const void *a, const void *b) {
  const pair *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->value < y->value ? -1 : x->value > y->value;
}

/* Keys and values, X[0] and X[2], are PAIRS by key; frees all. */
static void compare(uint32_t *const *x, pair *pairs, int64_t n) {
  qsort(pairs, (size_t)n, sizeof *pairs, by_key);
  for (int64_t i = 0; i < n; i++) {
    ck_assert_uint_eq(x[0][i], pairs[i].key);
    ck_assert_uint_eq(x[2][i], pairs[i].value);
  }
  for (int i = 0; i < 4; i++) free(x[i]);
  free(pairs);
}

static void check_sort(const ts_kernels *k, int64_t n, int bits) {
  uint64_t seed = (uint64_t)n + (uint64_t)bits;
  uint32_t *x[4];
  pair *pairs = test_alloc(n, sizeof *pairs);
  for (int i = 0; i < 4; i++) x[i] = test_alloc(n, 4);
  for (int64_t i = 0; i < n; i++) {
    x[0][i] = bits ? test_random(&seed) >> (32 - bits) : 0;
    if (i % 3 == 0) x[0][i] = x[0][i / 2];
    x[2][i] = (uint32_t)i;
    pairs[i] = (pair){x[0][i], (uint32_t)i};
  }
  const ts_sort_args a = {.keys = x[0],
                          .keys_scratch = x[1],
                          .values = x[2],
                          .values_scratch = x[3],
                          .n = n,
                          .n_bits = bits};
  ck_assert_int_eq(k->sort(&a), TS_OK);
  compare(x, pairs, n);
}

/* Segments of uneven lengths, some empty: as sorting all at once. */
static void check_segments(const ts_kernels *k, int64_t n, int n_segments) {
  uint64_t seed = (uint64_t)n;
  uint32_t *x[4];
  int64_t segment[16] = {0}, base[16] = {0};
  pair *pairs = test_alloc(n, sizeof *pairs);
  for (int i = 0; i < 4; i++) x[i] = test_alloc(n, 4);
  for (int s = 0; s < n_segments; s++) {
    const int64_t left = n - segment[s];
    segment[s + 1] = s + 1 == n_segments ? n : segment[s] + left * s / 5;
    base[s + 1] = base[s] + 1000 + 3 * s;
    for (int64_t i = segment[s]; i < segment[s + 1]; i++)
      x[0][i] = (uint32_t)(base[s] + test_random(&seed) % 1000);
  }
  for (int64_t i = 0; i < n; i++) {
    x[2][i] = (uint32_t)i;
    pairs[i] = (pair){x[0][i], (uint32_t)i};
  }
  const ts_sort_args a = {x[0],       x[1],    x[2], x[3], n,   14,
                          n_segments, segment, base, 10,   NULL};
  ck_assert_int_eq(k->sort(&a), TS_OK);
  compare(x, pairs, n);
}

START_TEST(segments_are_sorted_alone) {
  static const int64_t sizes[] = {2, 100, 1000, 20000};
  ts_kernels k;
  test_kernels(&k, 0);
  for (int threads = 1; threads <= 3; threads++) {
    omp_set_num_threads(threads);
    for (int s = 0; s < TEST_COUNT(sizes); s++)
      for (int n_segments = 1; n_segments <= 6; n_segments++)
        check_segments(&k, sizes[s], n_segments);
  }
}
END_TEST

START_TEST(sort_is_stable) {
  static const int bits[] = {0, 1, 5, 10, 11, 12, 20, 22, 23, 31, 32};
  static const int64_t sizes[] = {0, 1, 2, 100, 9001, 20000};
  ts_kernels k;
  for (int threads = 1; threads <= 3; threads++) {
    omp_set_num_threads(threads);
    for (int isa = 0; test_kernels(&k, isa); isa++)
      for (int b = 0; b < TEST_COUNT(bits); b++)
        for (int s = 0; s < TEST_COUNT(sizes); s++)
          check_sort(&k, sizes[s], bits[b]);
  }
}
END_TEST

static Suite *suite(void) {
  const TTest *const tests[] = {sort_is_stable, segments_are_sorted_alone};
  return test_suite("sort", tests, TEST_COUNT(tests));
}
TS_TEST_MAIN(suite)
