/* cuda_lookup_cases.c - the CUDA lookup against the plain C reference. */
#include "tests/kernels/cuda_lookup_cases.h"

static cuda_lookup_run *run;

/* How bags look. */
typedef enum {
  MIXED,
  SINGLE,
  LONG,
  EMPTY,
  MANY_FEATURES,
  SHAPES,
  FEATURES_240, /* by value */
  FEATURES_241, /* put into device memory, as are more */
  FEATURES_1000,
  FEATURES_5000
} shape;

static int32_t features_of(shape s) {
  switch (s) {
  case MANY_FEATURES:
    return 517;
  case FEATURES_240:
    return 240;
  case FEATURES_241:
    return 241;
  case FEATURES_1000:
    return 1000;
  case FEATURES_5000:
    return 5000;
  default:
    return 4;
  }
}

/* Features on two tables, one of them without bags; outputs lie apart, in
 * another order, on borders of 16 bytes or not. */
typedef struct lookup_case {
  ts_lookup_args args;
  ts_weight_grad_args grads;
  cuda_lookup_sizes sizes;
  int64_t n_bags, n_ids;
  int64_t *starts, *base, *offsets, *at;
  int32_t *rows;
  float *weights, *out, *expected, *grad;
  void *table;
} lookup_case;

enum { ROWS = 60 };

/* No byte more than N elements: a sanitizer sees what goes beyond. */
static void *exactly(int64_t n, size_t size) {
  void *p = calloc((size_t)(n > 0 ? n : 1), size);
  ck_assert_ptr_nonnull(p);
  return p;
}

static int64_t bags_of(shape s, int32_t f) {
  if (features_of(s) > 4) return f % 7 == 3 ? 0 : 1 + f % 2;
  return f == 1 ? 0 : s == LONG ? 3 : 23 + 4 * f;
}

static int64_t ids_of(shape s, int64_t bag, uint64_t *seed) {
  switch (s) {
  case SINGLE:
    return 1;
  case LONG:
    return bag % 3 == 1 ? 0 : 120 + test_random(seed) % 40;
  case EMPTY:
    return 0;
  default:
    return bag % 4 == 0 ? 0 : test_random(seed) % 12;
  }
}

static void make_bags(lookup_case *c, shape s, int32_t dim) {
  const int32_t n = features_of(s);
  uint64_t seed = (uint64_t)dim * 8 + (uint64_t)s;
  c->starts = exactly(n + 1, sizeof *c->starts);
  c->base = exactly(n, sizeof *c->base);
  for (int32_t f = 0; f < n; f++) {
    c->starts[f + 1] = c->starts[f] + bags_of(s, f);
    c->base[f] = f % 7 == 2 || f % 7 == 5 ? ROWS : 0;
  }
  c->n_bags = c->starts[n];
  c->offsets = exactly(c->n_bags + 1, sizeof *c->offsets);
  c->at = exactly(c->n_bags, sizeof *c->at);
  const int64_t apart = dim + (dim % 8 == 4 ? 3 : 4);
  for (int64_t b = 0; b < c->n_bags; b++) {
    c->offsets[b + 1] = c->offsets[b] + ids_of(s, b, &seed);
    c->at[b] = 4 + (c->n_bags - 1 - b) * apart;
  }
  c->n_ids = c->offsets[c->n_bags];
  c->sizes.n_out = 4 + c->n_bags * apart;
  c->args.n_features = n;
}

static void make(lookup_case *c, shape s, int32_t dim, ts_dtype t,
                 bool weighted, bool mean) {
  memset(c, 0, sizeof *c);
  make_bags(c, s, dim);
  uint64_t seed = 99;
  const int64_t n = c->n_ids, n_out = c->sizes.n_out;
  c->rows = exactly(n, sizeof *c->rows);
  c->weights = exactly(n, sizeof *c->weights);
  for (int64_t i = 0; i < n; i++)
    c->rows[i] = (int32_t)(test_random(&seed) % ROWS);
  test_floats(c->weights, n, 5);
  c->sizes.n_rows = 2 * ROWS;
  float *wide = exactly(2 * ROWS * dim, sizeof *wide);
  test_floats(wide, 2 * ROWS * dim, 7);
  for (int32_t d = 0; d < dim; d++) wide[d] *= 1e-6f; /* f16: subnormal */
  wide[dim] = -0.0f;
  c->table = exactly(2 * ROWS * dim, ts_dtype_bytes(t));
  ts_from_f32(c->table, wide, t, 2 * ROWS * dim);
  free(wide);
  c->out = exactly(n_out > n ? n_out : n, sizeof *c->out);
  c->expected = exactly(n_out > n ? n_out : n, sizeof *c->expected);
  c->grad = exactly(n_out, sizeof *c->grad);
  test_floats(c->grad, n_out, 11);
  c->sizes.n_grad = n_out;
  c->args = (ts_lookup_args){.out = c->out,
                             .at = c->at,
                             .weight = c->table,
                             .dtype = t,
                             .dim = dim,
                             .row_base = c->base,
                             .bag_start = c->starts,
                             .offsets = c->offsets,
                             .rows = c->rows,
                             .weights = weighted ? c->weights : NULL,
                             .mean = mean,
                             .n_features = c->args.n_features};
  c->grads = (ts_weight_grad_args){&c->args, c->out, c->grad};
}

static void drop(lookup_case *c) {
  void *all[] = {c->starts,  c->base, c->offsets,  c->at,   c->rows,
                 c->weights, c->out,  c->expected, c->grad, c->table};
  for (int i = 0; i < TEST_COUNT(all); i++) free(all[i]);
}

/* What lies between the outputs must stay, too. */
static void fill(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = 777;
}

static void same_bits(const lookup_case *c, int64_t n, const char *what) {
  const uint32_t *a = (const uint32_t *)c->out;
  const uint32_t *b = (const uint32_t *)c->expected;
  for (int64_t i = 0; i < n; i++)
    ck_assert_msg(
        a[i] == b[i], "%s of %s, dim %d, %s%s: float %lld is %a, not %a", what,
        ts_dtype_name(c->args.dtype), c->args.dim,
        c->args.weights ? "weighted " : "", c->args.mean ? "mean" : "sum",
        (long long)i, (double)c->out[i], (double)c->expected[i]);
}

static void check_lookup(lookup_case *c, const ts_kernels *k) {
  const int64_t n = c->sizes.n_out;
  fill(c->out, n);
  fill(c->expected, n);
  ck_assert_ok(run(&c->args, NULL, &c->sizes));
  c->args.out = c->expected;
  ck_assert_ok(k->lookup(&c->args));
  c->args.out = c->out;
  same_bits(c, n, "lookup");
}

static void check_weight_grad(lookup_case *c, const ts_kernels *k) {
  cuda_lookup_sizes sizes = c->sizes;
  sizes.n_out = c->n_ids;
  fill(c->out, c->n_ids);
  fill(c->expected, c->n_ids);
  ck_assert_ok(run(&c->args, &c->grads, &sizes));
  c->grads.out = c->expected;
  ck_assert_ok(k->weight_grad(&c->grads));
  c->grads.out = c->out;
  same_bits(c, c->n_ids, "weight gradient");
}

static void check(shape s, int32_t dim, ts_dtype t, bool weighted, bool mean) {
  lookup_case c;
  ts_kernels k;
  ck_assert(test_kernels(&k, 0));
  make(&c, s, dim, t, weighted, mean);
  check_lookup(&c, &k);
  if (!weighted) check_weight_grad(&c, &k);
  drop(&c);
}

static const ts_dtype types[] = {TS_F32, TS_BF16, TS_F16};

START_TEST(all_shapes) {
  static const int32_t dims[] = {1, 3, 4, 8, 20, 32, 64, 100, 128, 256, 260};
  for (int i = 0; i < TEST_COUNT(dims); i++)
    for (int t = 0; t < TEST_COUNT(types); t++)
      for (int mode = 0; mode < 4; mode++)
        check(MIXED, dims[i], types[t], mode & 1, mode & 2);
}
END_TEST

/* Every other kind of bag, with each number of lanes and size of vector. */
START_TEST(all_bags) {
  static const int32_t dims[] = {1, 16, 36, 52, 64, 128};
  for (int i = 0; i < TEST_COUNT(dims); i++)
    for (int t = 0; t < TEST_COUNT(types); t++)
      for (shape s = SINGLE; s < SHAPES; s++)
        check(s, dims[i], types[t], (i + t + (int)s) % 2, (i + t) % 3 == 0);
}
END_TEST

/* Around the most that go by value, and more than one put takes along. */
START_TEST(many_features) {
  for (shape s = FEATURES_240; s <= FEATURES_5000; s++) {
    check(s, 8, types[s % 3], s % 2, false);
    check(s, 36, types[(s + 1) % 3], !(s % 2), true);
  }
}
END_TEST

/* A table that doesn't begin on a vector's border is read by element. */
START_TEST(table_off_borders) {
  for (int t = 0; t < TEST_COUNT(types); t++) {
    lookup_case c;
    ts_kernels k;
    ck_assert(test_kernels(&k, 0));
    make(&c, MIXED, 64, types[t], false, false);
    c.args.weight = (char *)c.table + ts_dtype_bytes(types[t]);
    c.sizes.n_rows--;
    for (int64_t i = 0; i < c.n_ids; i++) c.rows[i] %= ROWS - 1;
    check_lookup(&c, &k);
    check_weight_grad(&c, &k);
    drop(&c);
  }
}
END_TEST

/* The second half of the rows lies elsewhere, OFF elements from a border: the
 * same bits. */
static void check_lines(int32_t dim, ts_dtype t, bool weighted, int off) {
  lookup_case c;
  ts_kernels k;
  const size_t size = ts_dtype_bytes(t), half = (size_t)(ROWS * dim) * size;
  ck_assert(test_kernels(&k, 0));
  make(&c, MIXED, dim, t, weighted, false);
  char *rows = exactly(ROWS * dim, size), *all = exactly(ROWS * dim + 8, size);
  char *lines = all + off * (int)size;
  memcpy(rows, c.table, half);
  memcpy(lines, (const char *)c.table + half, half);
  for (int32_t f = 0; f < c.args.n_features; f++) c.base[f] = 0;
  for (int64_t i = 0; i < c.n_ids; i++) c.rows[i] = c.rows[i] * 7 % (2 * ROWS);
  const int64_t n = weighted ? c.sizes.n_out : c.n_ids;
  const ts_lookup_args one = c.args;
  c.sizes = (cuda_lookup_sizes){c.sizes.n_out, ROWS, ROWS, c.sizes.n_grad};
  fill(c.out, n);
  fill(c.expected, n);
  c.args.weight = rows;
  c.args.lines = lines;
  c.args.first_line = ROWS;
  c.sizes.n_out = n;
  ck_assert_ok(run(&c.args, weighted ? NULL : &c.grads, &c.sizes));
  c.args = one;
  c.args.out = c.grads.out = c.expected;
  ck_assert_ok(weighted ? k.lookup(&c.args) : k.weight_grad(&c.grads));
  same_bits(&c, n, "rows in two places");
  free(rows);
  free(all);
  drop(&c);
}

START_TEST(lines) {
  static const int32_t dims[] = {3, 20, 64, 128};
  for (int i = 0; i < TEST_COUNT(dims); i++)
    for (int t = 0; t < TEST_COUNT(types); t++)
      for (int mode = 0; mode < 4; mode++)
        check_lines(dims[i], types[t], mode & 1, mode / 2);
}
END_TEST

/* No bags, no features: nothing is launched, nothing is written. */
START_TEST(nothing) {
  lookup_case c;
  make(&c, MIXED, 32, TS_F32, false, false);
  memset(c.starts, 0, sizeof *c.starts * 5);
  fill(c.out, c.sizes.n_out);
  ck_assert_ok(run(&c.args, NULL, &c.sizes));
  c.args.n_features = 0;
  ck_assert_ok(run(&c.args, NULL, &c.sizes));
  for (int64_t i = 0; i < c.sizes.n_out; i++) ck_assert_float_eq(c.out[i], 777);
  drop(&c);
}
END_TEST

Suite *cuda_lookup_suite(const char *name, cuda_lookup_run *r) {
  const TTest *const tests[] = {all_shapes,        all_bags, many_features,
                                table_off_borders, lines,    nothing};
  run = r;
  return test_suite(name, tests, TEST_COUNT(tests));
}
