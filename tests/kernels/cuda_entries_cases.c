/* cuda_entries_cases.c - the CUDA kernels of sparse/entries.h against the
 * host's. */
#include "tests/kernels/cuda_entries_cases.h"

#include "sparse/entries.h"

static const cuda_entries_target *target;
static ts_lane *lane;
static ts_kernels host;

static void start(int grid) {
  ck_assert_ok(ts_kernels_fill(&host, "host", "ref"));
  ck_assert_ok(
      ts_lane_create(*target->device, &lane, "kernels", TS_LANE_COMPUTE));
  if (target->set_grid) target->set_grid(grid);
}

static void stop(void) {
  ts_lane_destroy(lane);
}

/* ---- arrays, here and on the device -------------------------------------- */

/* A few bytes more than N elements: what lies behind them must stay. */
typedef struct pair {
  void *here;
  ts_buffer there;
  size_t bytes;
} pair;
enum { BEHIND = 16 };

static pair pair_of(const void *from, int64_t n, size_t size) {
  pair p = {.bytes = (size_t)n * size + BEHIND};
  p.here = test_alloc((int64_t)p.bytes, 1);
  memset(p.here, 0x55, p.bytes);
  if (from && n) memcpy(p.here, from, (size_t)n * size);
  ck_assert_ok(ts_buffer_create(&p.there, *target->device, p.bytes,
                                TS_SPACE_DEVICE, TS_TAG_MISC));
  ts_test_put(*target->device, p.there.ptr, p.here, p.bytes);
  return p;
}

/* Both are the same now. */
static void end(pair *p) {
  void *got = test_alloc((int64_t)p->bytes, 1);
  ts_test_get(*target->device, got, p->there.ptr, p->bytes);
  ck_assert_mem_eq(got, p->here, p->bytes);
  free(got);
  free(p->here);
  ts_buffer_reset(&p->there);
}

/* ---- calls in tasks ------------------------------------------------------ */

static ts_err entries_task(void *arg, ts_lane *l) {
  (void)l;
  return target->kernels->entries(*(const ts_entries_args **)arg);
}
static ts_err append_task(void *arg, ts_lane *l) {
  (void)l;
  return target->kernels->append(*(const ts_append_args **)arg);
}
static ts_err find_task(void *arg, ts_lane *l) {
  (void)l;
  return target->kernels->find(*(const ts_find_args **)arg);
}
static ts_err add_rows_task(void *arg, ts_lane *l) {
  (void)l;
  return target->kernels->add_rows(*(const ts_add_rows_args **)arg);
}

typedef struct add_args {
  float *to;
  const float *from;
  int64_t n;
} add_args;
static ts_err add_task(void *arg, ts_lane *l) {
  const add_args *a = *(const add_args **)arg;
  (void)l;
  return target->kernels->add(a->to, a->from, a->n);
}

static void run(ts_task task, const void *args) {
  ck_assert_ok(ts_lane_submit(lane, "kernel", task, &args, sizeof args));
  ck_assert_ok(ts_lane_sync(lane));
}

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

enum { FEATURES_MOST = 3000 };
static const int32_t n_features[SHAPES] = {5, 5, 5, 320, 321, FEATURES_MOST};

static int64_t length_of(shape s, int64_t bag, uint64_t *seed) {
  if (s == ONES) return 1;
  if (s == EMPTY) return 0;
  if (s == MIXED && bag == 40) return 700; /* in the midst of a warp's bags */
  return bag % 5 == 0 ? 0 : test_random(seed) % 9;
}

typedef struct bags {
  int64_t starts[FEATURES_MOST + 1], base[FEATURES_MOST], *offsets;
  int32_t n_features, *rows;
  int64_t n_bags, n_ids;
} bags;

static void make_bags(bags *b, shape s) {
  uint64_t seed = 17;
  b->n_features = n_features[s];
  b->starts[0] = 0;
  for (int32_t f = 0; f < b->n_features; f++) {
    const int64_t n = b->n_features > 5 ? f % 3 : f == 2 ? 0 : 30 + 37 * f;
    b->starts[f + 1] = b->starts[f] + n;
    b->base[f] = f % 4 == 3 ? INT64_C(4294960000) : f % 7 * 1000;
  }
  b->n_bags = b->starts[b->n_features];
  b->offsets = test_alloc(b->n_bags + 1, sizeof *b->offsets);
  for (int64_t j = 0; j < b->n_bags; j++)
    b->offsets[j + 1] = b->offsets[j] + length_of(s, j, &seed);
  b->n_ids = b->offsets[b->n_bags];
  b->rows = test_alloc(b->n_ids + 1, sizeof *b->rows);
  for (int64_t i = 0; i < b->n_ids; i++)
    b->rows[i] = (int32_t)(test_random(&seed) % 1000);
}

static void check_entries(shape s, bool weighted, bool mean) {
  bags *b = test_alloc(1, sizeof *b);
  make_bags(b, s);
  pair keys = pair_of(NULL, b->n_ids, 4), order = pair_of(NULL, b->n_ids, 4);
  pair bag_of = pair_of(NULL, b->n_ids, 4),
       rows = pair_of(b->rows, b->n_ids, 4);
  pair scale = pair_of(NULL, b->n_bags, 4);
  pair offsets = pair_of(b->offsets, b->n_bags + 1, 8);
  const ts_entries_args here = {.keys = keys.here,
                                .order = order.here,
                                .bag_of = weighted ? bag_of.here : NULL,
                                .bag_scale = mean ? scale.here : NULL,
                                .offsets = offsets.here,
                                .rows = rows.here,
                                .bag_start = b->starts,
                                .row_base = b->base,
                                .n_features = b->n_features};
  ts_entries_args there = here;
  there.keys = keys.there.ptr;
  there.order = order.there.ptr;
  if (weighted) there.bag_of = bag_of.there.ptr;
  if (mean) there.bag_scale = scale.there.ptr;
  there.offsets = offsets.there.ptr;
  there.rows = rows.there.ptr;
  ck_assert_ok(host.entries(&here));
  run(entries_task, &there);
  pair *all[] = {&keys, &order, &bag_of, &rows, &scale, &offsets};
  for (int i = 0; i < TEST_COUNT(all); i++) end(all[i]);
  free(b->offsets);
  free(b->rows);
  free(b);
}

START_TEST(entries_of_ids) {
  start(_i);
  for (shape s = MIXED; s < SHAPES; s++)
    for (int mode = 0; mode < 4; mode++) check_entries(s, mode & 1, mode & 2);
  stop();
}
END_TEST

/* ---- sums ---------------------------------------------------------------- */

static void check_append(int64_t first, int64_t n, int32_t dim) {
  uint64_t seed = 5;
  uint32_t *from = test_alloc(n + 1, 4);
  for (int64_t i = 0; i < n; i++) from[i] = test_random(&seed);
  pair keys = pair_of(NULL, first + n, 4), order = pair_of(NULL, first + n, 4);
  pair at = pair_of(NULL, first + n, 8), sums = pair_of(from, n, 4);
  const ts_append_args here = {.keys = keys.here,
                               .order = order.here,
                               .at = at.here,
                               .from = sums.here,
                               .first = first,
                               .n = n,
                               .offset = 77,
                               .dim = dim};
  ts_append_args there = here;
  there.keys = keys.there.ptr;
  there.order = order.there.ptr;
  there.at = at.there.ptr;
  there.from = sums.there.ptr;
  ck_assert_ok(host.append(&here));
  run(append_task, &there);
  pair *all[] = {&keys, &order, &at, &sums};
  for (int i = 0; i < TEST_COUNT(all); i++) end(all[i]);
  free(from);
}

START_TEST(appended) {
  start(_i);
  check_append(0, 0, 4);
  check_append(0, 1, 4);
  check_append(3, 257, 1);
  check_append(100, 3000, 128);
  stop();
}
END_TEST

START_TEST(added) {
  static const int64_t counts[] = {0, 1, 255, 3001};
  start(_i);
  for (int i = 0; i < TEST_COUNT(counts); i++) {
    const int64_t n = counts[i];
    float *x = test_alloc(2 * n + 2, 4);
    test_floats(x, 2 * n, 8);
    if (n > 2) x[1] = x[n + 1] = -0.0f, x[2] = INFINITY;
    pair to = pair_of(x, n, 4), from = pair_of(x + n, n, 4);
    const add_args there = {to.there.ptr, from.there.ptr, n};
    ck_assert_ok(host.add(to.here, from.here, n));
    run(add_task, &there);
    end(&to);
    end(&from);
    free(x);
  }
  stop();
}
END_TEST

static void check_add_rows(int64_t n, int32_t dim) {
  enum { ROWS = 200 };
  uint32_t which[ROWS];
  float *x = test_alloc((ROWS + n) * dim, 4);
  test_floats(x, (ROWS + n) * dim, 21);
  for (int64_t i = 0; i < n; i++) which[i] = (uint32_t)(3 * i + i % 2);
  pair to = pair_of(x, ROWS * dim, 4), keys = pair_of(which, n, 4);
  pair sums = pair_of(x + ROWS * dim, n * dim, 4);
  const ts_add_rows_args here = {to.here, keys.here, sums.here, n, dim};
  const ts_add_rows_args there = {to.there.ptr, keys.there.ptr, sums.there.ptr,
                                  n, dim};
  ck_assert_ok(host.add_rows(&here));
  run(add_rows_task, &there);
  pair *all[] = {&to, &keys, &sums};
  for (int i = 0; i < TEST_COUNT(all); i++) end(all[i]);
  free(x);
}

START_TEST(added_rows) {
  static const int32_t dims[] = {1, 3, 32, 33, 100};
  start(_i);
  for (int i = 0; i < TEST_COUNT(dims); i++) {
    check_add_rows(0, dims[i]);
    check_add_rows(1, dims[i]);
    check_add_rows(60, dims[i]);
  }
  stop();
}
END_TEST

/* ---- keys ---------------------------------------------------------------- */

static void check_find(int64_t n, int32_t m) {
  uint32_t *some = test_alloc(n + 1, 4);
  int64_t *row = test_alloc(m + 1, 8), *expected = test_alloc(m + 1, 8);
  int64_t *got = test_alloc(m + 1, 8);
  for (int64_t i = 0; i < n; i++)
    some[i] = i + 1 == n ? UINT32_MAX : (uint32_t)(5 * i + 2);
  for (int32_t k = 0; k < m; k++)
    row[k] = k == 0 ? 0 : k == 1 ? INT64_C(4294967296) : 3 * k;
  expected[m] = got[m] = -7;
  pair keys = pair_of(some, n, 4);
  const ts_find_args here = {keys.here, n, row, expected, m};
  const ts_find_args there = {keys.there.ptr, n, row, got, m};
  ck_assert_ok(host.find(&here));
  run(find_task, &there);
  ck_assert_mem_eq(got, expected, (size_t)(m + 1) * 8);
  end(&keys);
  free(some);
  free(row);
  free(expected);
  free(got);
}

START_TEST(found) {
  start(_i);
  check_find(0, 3);
  check_find(1, 5);
  check_find(1000, 0);
  check_find(1000, 256);
  check_find(1000, 600);
  stop();
}
END_TEST

Suite *cuda_entries_suite(const char *name, const cuda_entries_target *t) {
  const TTest *const tests[] = {entries_of_ids, appended, added, added_rows,
                                found};
  Suite *s = suite_create(name);
  TCase *c = tcase_create("kernels");
  target = t;
  tcase_set_timeout(c, 0);
  for (int i = 0; i < TEST_COUNT(tests); i++)
    tcase_add_loop_test(c, tests[i], 0, t->n_grids);
  suite_add_tcase(s, c);
  return s;
}
