/* lookup.c - the contract of the pooled lookup and of its gradient by the ids'
 * weights, bit for bit; the oracle against sums in double, and in f32 in the
 * order of the bag.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 500 */
#include "tests/support/contract.h"

/* How bags look. */
typedef enum {
  MIXED,
  SINGLE,
  LONG,
  EMPTY,
  MANY_FEATURES,
  BLOCKS,  /* of one id a bag, more than the host takes at once */
  AS_MANY, /* ids as bags, but not one each */
  SHAPES,
  FEATURES_240, /* by value */
  FEATURES_241, /* put into device memory, as are more */
  FEATURES_1000,
  FEATURES_5000
} shape;

static int32_t features_of(shape s) {
  static const int32_t most[] = {240, 241, 1000, 5000};
  return s >= FEATURES_240    ? most[s - FEATURES_240]
         : s == MANY_FEATURES ? 517
                              : 4;
}

/* Features on two tables, one of them without bags; outputs lie apart, in
 * another order, on borders of 16 bytes or not. */
enum { ROWS = 60, MOST = 5000 };
typedef struct lookup_case {
  ts_lookup_args a, split; /* split: where memory is discrete, with lines */
  bool grads;
  const float *grad;
  float *grad_out;
} lookup_case;

static int64_t starts[MOST + 1], base[MOST];
static int64_t n_bags, n_ids;

static int64_t bags_of(shape s, int32_t f) {
  if (features_of(s) > 4) return f % 7 == 3 ? 0 : 1 + f % 2;
  return f == 1 ? 0 : s == LONG ? 3 : s == BLOCKS ? 120 + 90 * f : 23 + 4 * f;
}

static int64_t ids_of(shape s, int64_t bag) {
  switch (s) {
  case SINGLE:
  case BLOCKS:
    return 1;
  case AS_MANY:
    return bag == 5 ? 0 : bag == 6 ? 2 : 1;
  case LONG:
    return bag % 3 == 1 ? 0 : 120 + kt_below(40);
  case EMPTY:
    return 0;
  default:
    return bag % 4 == 0 ? 0 : kt_below(12);
  }
}

static void make_bags(lookup_case *c, shape s, int32_t dim) {
  const int32_t n = c->a.n_features = features_of(s);
  const int64_t discrete = dim + (dim % 8 == 4 ? 3 : 4);
  for (int32_t f = 0; f < n; f++) {
    starts[f + 1] = starts[f] + bags_of(s, f);
    base[f] = f % 7 == 2 || f % 7 == 5 ? ROWS : 0;
  }
  n_bags = starts[n];
  int64_t *offsets = kt_zeros(n_bags + 1, 8), *at = kt_array(n_bags, 8, 0);
  for (int64_t b = 0; b < n_bags; b++) {
    offsets[b + 1] = offsets[b] + ids_of(s, b);
    at[b] = 4 + (n_bags - 1 - b) * discrete;
  }
  n_ids = offsets[n_bags];
  float *grad = kt_array(4 + n_bags * discrete, 4, 0);
  test_floats(grad, 4 + n_bags * discrete, 11);
  c->a.out = kt_array(4 + n_bags * discrete, 4, 0);
  c->a.offsets = offsets;
  c->a.at = at;
  c->a.bag_start = starts;
  c->a.row_base = base;
  c->grad = grad;
  c->grad_out = kt_array(n_ids, 4, 0);
}

/* The table begins OFF bytes behind a border. */
static void make(lookup_case *c, shape s, int32_t dim, ts_dtype t, int mode,
                 int off) {
  kt_begin();
  memset(c, 0, sizeof *c);
  make_bags(c, s, dim);
  int32_t *rows = kt_array(n_ids, 4, 0);
  float *weights = kt_array(n_ids, 4, 0);
  float *wide = test_alloc(2 * ROWS * dim, sizeof *wide);
  void *table = kt_array(2 * ROWS, (size_t)ts_row_bytes(t, dim), off);
  for (int64_t i = 0; i < n_ids; i++) rows[i] = kt_below(ROWS);
  test_floats(weights, n_ids, 5);
  test_floats(wide, 2 * ROWS * dim, 7);
  for (int32_t d = 0; d < dim; d++) wide[d] *= 1e-6f; /* f16: subnormal */
  wide[dim] = -0.0f;
  ts_rows_from_f32(table, wide, t, 2 * ROWS, dim);
  free(wide);
  c->a.weight = table;
  c->a.dtype = t;
  c->a.dim = dim;
  c->a.rows = rows;
  c->a.weights = mode & 1 ? weights : NULL;
  c->a.mean = mode & 2;
}

/* ---- runs ---------------------------------------------------------------- */

/* One launch for any number of features; more than go by value are put into
 * device memory first: bags, then bases. */
static void check_launches(const ts_lookup_args *a, int64_t all, int64_t puts) {
  const int64_t n = a->n_features, by_value = 240, most = 32000 / 8;
  const bool some = n > 0 && a->bag_start[n] > 0;
  const int64_t n_puts = kt_launches("ts_put_kernel") - puts;
  if (all < 0) return;
  ck_assert_int_eq(kt_launches(NULL) - all - n_puts, some);
  ck_assert_int_eq(n_puts, some && n > by_value
                               ? (n + most) / most + (n + most - 1) / most
                               : 0);
}

static ts_err run(const ts_kernels *k, const void *arg) {
  const lookup_case *c = arg;
  ts_lookup_args a = c->split.lines && kt_apart() ? c->split : c->a;
  kt_at_all(&a, sizeof a);
  const ts_weight_grad_args g = {&a, kt_at(c->grad_out), kt_at(c->grad)};
  const int64_t all = kt_launches(NULL), puts = kt_launches("ts_put_kernel");
  const ts_err err = c->grads ? k->weight_grad(&g) : k->lookup(&a);
  check_launches(&a, all, puts);
  return err;
}

static double row_at(const ts_lookup_args *a, int32_t f, int64_t i, int32_t d) {
  return test_number(a->weight, a->dtype, a->row_base[f] + a->rows[i], a->dim,
                     d);
}

/* Rows in few bits: w scale q, fused, to the sum that the first w bias begins,
 * and the other w biases to a sum of their own. */
static float few_sum(const ts_lookup_args *a, int32_t f, int64_t b, int32_t d) {
  const int64_t from = a->offsets[b], to = a->offsets[b + 1];
  volatile float sum = 0, biases = 0, by, bias;
  for (int64_t i = from; i < to; i++) {
    const uint8_t *row =
        (const uint8_t *)a->weight +
        (a->row_base[f] + a->rows[i]) * ts_row_bytes(a->dtype, a->dim);
    const bool wide = a->dtype == TS_INT8;
    const int q = wide ? row[d] : row[d / 2] >> 4 * (d % 2) & 15;
    float tail[2];
    memcpy(tail, row + (wide ? a->dim : (a->dim + 1) / 2), sizeof tail);
    by = (a->weights ? a->weights[i] : 1) * tail[0];
    bias = (a->weights ? a->weights[i] : 1) * tail[1];
    sum = fmaf((float)q, by, i == from ? bias : sum);
    if (i > from) biases += bias;
  }
  sum += biases;
  return sum * (a->mean && to > from ? 1.0f / (float)(to - from) : 1.0f);
}

/* The oracle's sum is that in f32 in the order of the bag: the bits that are
 * promised; and near to that in double. */
static void true_sum(const ts_lookup_args *a, int32_t f, int64_t b, int32_t d) {
  const int64_t from = a->offsets[b], to = a->offsets[b + 1];
  const float got = ((const float *)kt_ref(a->out))[a->at[b] + d];
  volatile float sum = 0, part;
  double want = 0, size = 0;
  for (int64_t i = from; i < to; i++) {
    const double by = a->weights ? a->weights[i] : 1.0;
    part = (float)row_at(a, f, i, d);
    if (a->weights) part *= a->weights[i];
    sum += part;
    want += by * row_at(a, f, i, d);
    size += fabs(by * row_at(a, f, i, d));
  }
  if (a->mean && to > from) {
    sum *= 1.0f / (float)(to - from);
    want /= (double)(to - from);
    size /= (double)(to - from);
  }
  /* Biases are summed beside: what is added is larger than the numbers. */
  if (ts_dtype_has_scale(a->dtype)) sum = few_sum(a, f, b, d), size *= 4;
  ck_assert_float_eq(got, sum);
  ck_assert_double_le(fabs(got - want),
                      (to - from > 12 ? 1e-4 : 4e-6) + 1e-6 * size);
}

static void true_grad(const lookup_case *c, int32_t f, int64_t b, int64_t i) {
  const ts_lookup_args *a = &c->a;
  const double m = a->mean ? (double)(a->offsets[b + 1] - a->offsets[b]) : 1;
  double sum = 0, size = 0;
  for (int32_t d = 0; d < a->dim; d++) {
    const double part = (double)c->grad[a->at[b] + d] * row_at(a, f, i, d);
    sum += part / m;
    size += fabs(part) / m;
  }
  const double got = ((const float *)kt_ref(c->grad_out))[i];
  ck_assert_double_le(fabs(got - sum), 1e-6 * size);
}

static void check(lookup_case *c, bool weight_grad) {
  const ts_lookup_args *a = &c->a;
  c->grads = weight_grad;
  kt_check(run, c);
  for (int32_t f = 0; f < a->n_features; f++)
    for (int64_t b = starts[f]; b < starts[f + 1]; b++)
      if (weight_grad)
        for (int64_t i = a->offsets[b]; i < a->offsets[b + 1]; i++)
          true_grad(c, f, b, i);
      else
        for (int32_t d = 0; d < a->dim; d++) true_sum(a, f, b, d);
}

static void check_both(shape s, int32_t dim, ts_dtype t, int mode, int off) {
  lookup_case c;
  make(&c, s, dim, t, mode, off);
  check(&c, false);
  if (!(mode & 1)) check(&c, true);
}

/* ---- cases --------------------------------------------------------------- */

static const ts_dtype types[] = {TS_F32, TS_BF16, TS_F16, TS_INT8, TS_INT4};
enum { DIMS = 20 };
static const int32_t dims[DIMS] = {1,   3,   4,   8,   15,  16, 17,
                                   20,  24,  32,  48,  64,  96, 100,
                                   128, 200, 256, 260, 512, 520};

KT_CONTRACT("lookup weight_grad")

TS_TESTS(all_shapes, 0, DIMS) {
  for (int t = 0; t < TEST_COUNT(types); t++)
    for (int mode = 0; mode < 8; mode++)
      check_both(mode & 4 ? SINGLE : MIXED, dims[_i], types[t], mode, 0);
}

/* Every other kind of bag, with each number of lanes and size of vector. */
TS_TEST(all_bags) {
  static const int32_t some[] = {1, 16, 36, 52, 64, 128};
  for (int i = 0; i < TEST_COUNT(some); i++)
    for (int t = 0; t < TEST_COUNT(types); t++)
      for (shape s = SINGLE; s < SHAPES; s++)
        check_both(s, some[i], types[t],
                   (i + t + (int)s) % 2 + 2 * ((i + t) % 3 == 0), 0);
}

/* Around the most that go by value, and more than one put takes along. */
TS_TEST(many_features) {
  for (shape s = FEATURES_240; s <= FEATURES_5000; s++) {
    check_both(s, 8, types[s % 5], s % 2, 0);
    check_both(s, 36, types[(s + 1) % 5], !(s % 2) + 2, 0);
  }
}

/* A table that doesn't begin on a vector's border is read by element. */
TS_TEST(table_off_borders) {
  for (int t = 0; t < TEST_COUNT(types); t++)
    check_both(MIXED, 64, types[t], 0,
               ts_dtype_has_scale(types[t]) ? 4
                                            : (int)ts_dtype_bytes(types[t]));
}

/* The second half of the rows lies elsewhere, OFF elements from a border: the
 * same bits. */
static void check_lines(int32_t dim, ts_dtype t, bool weighted, int off) {
  lookup_case c;
  const size_t size = (size_t)ts_row_bytes(t, dim), half = ROWS * size;
  const int element = ts_dtype_has_scale(t) ? 4 : (int)ts_dtype_bytes(t);
  make(&c, MIXED, dim, t, weighted, 0);
  char *lines = kt_array(ROWS, size, off * element);
  const char *all = c.a.weight;
  int32_t *rows = (int32_t *)(uintptr_t)c.a.rows;
  memcpy(lines, all + half, half);
  for (int32_t f = 0; f < c.a.n_features; f++) base[f] = 0;
  for (int64_t i = 0; i < n_ids; i++) rows[i] = rows[i] * 7 % (2 * ROWS);
  c.split = c.a;
  c.split.weight = kt_copy(all, ROWS, size);
  c.split.lines = lines;
  c.split.first_line = ROWS;
  check(&c, !weighted);
}

TS_TEST(lines) {
  static const int32_t some[] = {3, 20, 64, 128};
  for (int i = 0; i < TEST_COUNT(some); i++)
    for (int t = 0; t < TEST_COUNT(types); t++)
      for (int mode = 0; mode < 4; mode++)
        check_lines(some[i], types[t], mode & 1, mode / 2);
}

/* No ids: zeros.  No bags, no features: nothing is launched, nothing is
 * written. */
TS_TEST(nothing) {
  lookup_case c;
  check_both(EMPTY, 40, TS_BF16, 3, 0);
  check_both(EMPTY, 16, TS_F32, 0, 0);
  make(&c, MIXED, 32, TS_F32, 0, 0);
  memset(starts, 0, 5 * sizeof *starts);
  for (int n = 4; n >= 0; n -= 4) {
    c.a.n_features = n;
    check(&c, false);
    check(&c, true);
    ck_assert_mem_eq(kt_ref(c.a.out), c.a.out, 4 + (size_t)n_bags * 36);
  }
}

/* An id's bag of one is a copy of the row. */
TS_TEST(single_is_copy) {
  lookup_case c;
  make(&c, SINGLE, 64, TS_F32, 0, 0);
  check(&c, false);
  for (int64_t b = 0; b < starts[1]; b++)
    ck_assert_mem_eq((float *)kt_ref(c.a.out) + c.a.at[b],
                     (const float *)c.a.weight + c.a.rows[b] * 64, 64 * 4);
}

/* Infinities and subnormals of 16-bit tables arrive as they are. */
TS_TEST(special_values) {
  static const uint16_t all[] = {0x7c00, 0xfc00, 0x0001, 0x83ff, 0x8000};
  lookup_case c;
  make(&c, SINGLE, 32, TS_F16, 0, 0);
  uint16_t *table = (uint16_t *)(uintptr_t)c.a.weight;
  for (int i = 0; i < 2 * ROWS * 32; i++) table[i] = all[i % TEST_COUNT(all)];
  kt_check(run, &c);
  for (int64_t b = 0; b < starts[1]; b++)
    for (int d = 0; d < 32; d++)
      ck_assert_float_eq(((float *)kt_ref(c.a.out))[c.a.at[b] + d],
                         (float)row_at(&c.a, 0, b, d));
}
