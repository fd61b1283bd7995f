/* entries.c - the contract of the kernels of sparse/entries.h, bit for bit.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 400 */
#include "sparse/entries.h"
#include "tests/support/contract.h"

/* ---- entries ------------------------------------------------------------- */

typedef enum {
  MIXED,
  ONES,
  EMPTY,
  FEATURES_320, /* by value */
  FEATURES_321, /* put into device memory */
  FEATURES_3000,
  SHAPES
} shape;

enum { MOST = 3000, BY_VALUE = 320 };
static const int32_t n_features[SHAPES] = {5,   5, 5, BY_VALUE, BY_VALUE + 1,
                                           MOST};

static int64_t length_of(shape s, int64_t bag) {
  if (s == ONES) return 1;
  if (s == EMPTY) return 0;
  if (s == MIXED && bag == 40) return 700; /* in the midst of a warp's bags */
  return bag % 5 == 0 ? 0 : kt_below(9);
}

/* One launch, and puts of what there is no room for in its parameters. */
static ts_err run_entries(const ts_kernels *k, const void *arg) {
  ts_entries_args a = *(const ts_entries_args *)arg;
  kt_at_all(&a, sizeof a);
  const int64_t all = kt_launches(NULL), puts = kt_launches("ts_put_kernel");
  const ts_err err = k->entries(&a);
  const int64_t n_puts = kt_launches("ts_put_kernel") - puts;
  if (all < 0) return err;
  ck_assert_int_eq(kt_launches(NULL) - all - n_puts, a.n_features > 0);
  ck_assert_int_eq(n_puts > 0, a.n_features > BY_VALUE);
  return err;
}

static void check_entries(shape s, bool weighted, bool mean) {
  static int64_t starts[MOST + 1], base[MOST];
  const int32_t f = n_features[s];
  kt_begin();
  for (int32_t i = 0; i < f; i++) {
    starts[i + 1] = starts[i] + (f > 5 ? i % 3 : i == 2 ? 0 : 30 + 37 * i);
    base[i] = i % 4 == 3 ? INT64_C(4294960000) : i % 7 * 1000;
  }
  const int64_t n_bags = starts[f];
  int64_t *offsets = kt_zeros(n_bags + 1, 8);
  for (int64_t j = 0; j < n_bags; j++)
    offsets[j + 1] = offsets[j] + length_of(s, j);
  const int64_t n = offsets[n_bags];
  int32_t *rows = kt_array(n, 4, 0);
  for (int64_t i = 0; i < n; i++) rows[i] = kt_below(1000);
  const ts_entries_args a = {.keys = kt_array(n, 4, 0),
                             .order = kt_array(n, 4, 0),
                             .bag_of = weighted ? kt_array(n, 4, 0) : NULL,
                             .bag_scale = mean ? kt_array(n_bags, 4, 0) : NULL,
                             .offsets = offsets,
                             .rows = rows,
                             .bag_start = starts,
                             .row_base = base,
                             .n_features = f};
  kt_check(run_entries, &a);
}

KT_CONTRACT("entries append add add_rows find mark_rows take_rows")

TS_TEST(entries_of_ids) {
  for (shape s = MIXED; s < SHAPES; s++)
    for (int mode = 0; mode < 4; mode++) check_entries(s, mode & 1, mode & 2);
}

/* ---- sums ---------------------------------------------------------------- */

KT_CALL(run_append, append, ts_append_args)

static void check_append(int64_t first, int64_t n, int32_t dim) {
  kt_begin();
  const ts_append_args a = {.keys = kt_array(first + n, 4, 0),
                            .order = kt_array(first + n, 4, 0),
                            .at = kt_array(first + n, 8, 0),
                            .from = kt_array(n, 4, 0),
                            .first = first,
                            .n = n,
                            .offset = 77,
                            .dim = dim};
  kt_check(run_append, &a);
}

TS_TEST(appended) {
  check_append(0, 0, 4);
  check_append(0, 1, 4);
  check_append(3, 257, 1);
  check_append(100, 3000, 128);
}

typedef struct add_case {
  float *to, *from;
  int64_t n;
} add_case;

static ts_err run_add(const ts_kernels *k, const void *arg) {
  const add_case *c = arg;
  return k->add(kt_at(c->to), kt_at(c->from), c->n);
}

TS_TEST(added) {
  static const int64_t counts[] = {0, 1, 255, 3001};
  for (int i = 0; i < TEST_COUNT(counts); i++) {
    const int64_t n = counts[i];
    kt_begin();
    const add_case c = {kt_array(n, 4, 0), kt_array(n, 4, 0), n};
    test_floats(c.to, n, 8);
    test_floats(c.from, n, 9);
    if (n > 2) c.to[1] = c.from[1] = -0.0f, c.to[2] = INFINITY;
    kt_check(run_add, &c);
  }
}

KT_CALL(run_add_rows, add_rows, ts_add_rows_args)

static void check_add_rows(int64_t n, int32_t dim) {
  enum { ROWS = 200 };
  kt_begin();
  float *to = kt_array(ROWS * dim, 4, 0), *sums = kt_array(n * dim, 4, 0);
  uint32_t *keys = kt_array(n, 4, 0);
  test_floats(to, ROWS * dim, 21);
  test_floats(sums, n * dim, 22);
  for (int64_t i = 0; i < n; i++) keys[i] = (uint32_t)(3 * i + i % 2);
  const ts_add_rows_args a = {to, keys, sums, n, dim};
  kt_check(run_add_rows, &a);
}

TS_TEST(added_rows) {
  static const int32_t dims[] = {1, 3, 32, 33, 100};
  for (int i = 0; i < TEST_COUNT(dims); i++)
    for (int n = 0; n < 3; n++) check_add_rows(n == 2 ? 60 : n, dims[i]);
}

/* ---- rows that were updated -----------------------------------------------
 */

KT_CALL(run_mark_rows, mark_rows, ts_mark_rows_args)

/* The last row of a group has the highest bit of the last word. */
static void check_mark_rows(int64_t n, uint32_t step) {
  kt_begin();
  uint32_t *keys = kt_array(n, 4, 0);
  for (int64_t i = 0; i < n; i++) keys[i] = (uint32_t)(i / 3 * step + 31);
  const int64_t words = n ? keys[n - 1] / 32 + 2 : 2;
  uint32_t *bits = kt_array(words, 4, 0);
  for (int64_t i = 0; i < words; i++) bits[i] = i % 5 == 0 ? 0x80000001u : 0;
  const ts_mark_rows_args a = {bits, keys, n};
  kt_check(run_mark_rows, &a);
}

TS_TEST(marked_rows) {
  static const int64_t counts[] = {0, 1, 2, 255, 3000, 20001};
  for (int i = 0; i < TEST_COUNT(counts); i++)
    for (uint32_t step = 1; step < 100; step += 32)
      check_mark_rows(counts[i], step);
}

KT_CALL(run_take_rows, take_rows, ts_take_rows_args)

static void check_take_rows(int64_t n, int64_t row_bytes) {
  enum { ROWS = 900 };
  kt_begin();
  uint16_t *from = kt_array(ROWS * row_bytes, 1, 0);
  uint32_t *rows = kt_array(n, 4, 0);
  for (int64_t i = 0; i < ROWS * row_bytes / 2; i++)
    from[i] = (uint16_t)(i * 7919);
  for (int64_t i = 0; i < n; i++) rows[i] = (uint32_t)(i * 17 % ROWS);
  const ts_take_rows_args a = {kt_array(n * row_bytes, 1, 0), from, rows, n,
                               row_bytes};
  kt_check(run_take_rows, &a);
}

TS_TEST(taken_rows) {
  static const int64_t bytes[] = {2, 4, 6, 200, 512, 514};
  for (int i = 0; i < TEST_COUNT(bytes); i++) {
    check_take_rows(0, bytes[i]);
    check_take_rows(1, bytes[i]);
    check_take_rows(1500, bytes[i]);
  }
}

/* ---- keys ---------------------------------------------------------------- */

typedef struct find_case {
  ts_find_args a;
  const int64_t *want;
} find_case;

static ts_err run_find(const ts_kernels *k, const void *arg) {
  const find_case *c = arg;
  ts_find_args a = c->a;
  KT_AT(a.keys);
  a.at[a.m] = -7;
  const ts_err err = k->find(&a);
  ck_assert_mem_eq(a.at, c->want, (size_t)(a.m + 1) * 8);
  return err;
}

static void check_find(int64_t n, int32_t m) {
  kt_begin();
  uint32_t *keys = kt_array(n, 4, 0);
  int64_t *row = test_alloc(m + 1, 8), *got = test_alloc(m + 1, 8);
  int64_t *want = test_alloc(m + 1, 8);
  for (int64_t i = 0; i < n; i++)
    keys[i] = i + 1 == n ? UINT32_MAX : (uint32_t)(5 * i + 2);
  for (int32_t k = 0; k < m; k++) {
    row[k] = k == 0 ? 0 : k == 1 ? INT64_C(4294967296) : 3 * k;
    for (int64_t i = 0; i < n; i++) want[k] += keys[i] < row[k];
  }
  want[m] = -7;
  const find_case c = {{keys, n, row, got, m}, want};
  kt_check(run_find, &c);
  free(row);
  free(got);
  free(want);
}

TS_TEST(found) {
  check_find(0, 3);
  check_find(1, 5);
  check_find(1000, 0);
  check_find(1000, 256);
  check_find(1000, 600);
}
