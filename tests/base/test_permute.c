/* test_permute.c - permutations that are computed: each number once, for any
 * size; others for other seeds, epochs and streams; well mixed. */
#include <stdlib.h>
#include <string.h>

#include "base/permute.h"
#include "tests/support/harness.h"

enum { MOST = 5000, TAKES = 4000 };

static void check_bijection(uint64_t n, uint32_t epoch) {
  static bool seen[MOST];
  const ts_permute p = ts_permute_of(n, 7, epoch, 3);
  memset(seen, 0, sizeof seen);
  for (uint64_t x = 0; x < n; x++) {
    const uint64_t y = ts_permute_at(&p, x);
    ck_assert_uint_lt(y, n);
    ck_assert(!seen[y]);
    seen[y] = true;
  }
}

TS_TEST(each_number_once) {
  for (uint64_t n = 1; n <= 300; n++) check_bijection(n, 0);
  for (uint64_t k = 512; k <= 4096; k *= 2)
    for (int d = -1; d <= 1; d++) check_bijection(k + (uint64_t)d, 1);
  check_bijection(997, 2);
  check_bijection(4999, 2);
}

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Sizes that none counts through: no two of many numbers meet, and those from
 * one corner go everywhere. */
TS_TESTS(large_sizes, 0, 4) {
  const uint64_t n[] = {(UINT64_C(1) << 32) + 1, (UINT64_C(1) << 33) - 9,
                        UINT64_C(10000000000019), INT64_MAX};
  const ts_permute p = ts_permute_of(n[_i], 5, 1, 0);
  static uint64_t y[TAKES];
  int upper = 0;
  for (int k = 0; k < TAKES; k++) {
    y[k] = ts_permute_at(&p, k % 2 ? n[_i] - 1 - (uint64_t)k : (uint64_t)k);
    ck_assert_uint_lt(y[k], n[_i]);
    upper += y[k] >= n[_i] / 2;
  }
  ck_assert_int_gt(upper, TAKES / 2 - 200);
  ck_assert_int_lt(upper, TAKES / 2 + 200);
  qsort(y, TAKES, sizeof *y, compare);
  for (int k = 1; k < TAKES; k++) ck_assert_uint_ne(y[k - 1], y[k]);
}

/* Numbers that stay where another permutation has them: about one. */
TS_TEST(others_for_other_keys) {
  const uint64_t n = 3001;
  const ts_permute p = ts_permute_of(n, 7, 1, 3);
  const ts_permute others[] = {
      ts_permute_of(n, 8, 1, 3), ts_permute_of(n, 7, 2, 3),
      ts_permute_of(n, 7, 1, 4), ts_permute_of(n, 7, 3, 1)};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    int same = 0;
    for (uint64_t x = 0; x < n; x++)
      same += ts_permute_at(&p, x) == ts_permute_at(&others[i], x);
    ck_assert_int_lt(same, 12);
  }
}

/* Where each tenth goes to, and by how much neighbours move apart, over many
 * epochs: chi squared stays within 5 deviations of its mean. */
static double chi_squared(const double *count, int n, double expected) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += (count[i] - expected) * (count[i] - expected) / expected;
  return sum;
}

TS_TESTS(well_mixed, 0, 3) {
  const uint64_t sizes[] = {10, 1000, 1021}, n = sizes[_i];
  const int epochs = (int)(200000 / n);
  double cells[100] = {0}, steps[10] = {0};
  for (int e = 0; e < epochs; e++) {
    const ts_permute p = ts_permute_of(n, 3, (uint32_t)e, 0);
    uint64_t before = ts_permute_at(&p, n - 1);
    for (uint64_t x = 0; x < n; x++) {
      const uint64_t y = ts_permute_at(&p, x);
      cells[x * 10 / n * 10 + y * 10 / n]++;
      /* 1 .. n - 1, from one to the next */
      steps[((y + n - before) % n - 1) * 10 / (n - 1)]++;
      before = y;
    }
  }
  const double all = (double)n * epochs;
  if (n % 10 == 0) /* cells of one size */
    ck_assert_double_lt(chi_squared(cells, 100, all / 100), 99 + 5 * 14.1);
  if ((n - 1) % 10 == 0)
    ck_assert_double_lt(chi_squared(steps, 10, all / 10), 9 + 5 * 4.3);
}
