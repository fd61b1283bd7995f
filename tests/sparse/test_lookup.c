/* test_lookup.c - the pooled lookup against sums in double, and all
 * instruction sets and numbers of threads against each other bit for bit.
 * ranks: 1
 * seconds: 500 */
#include <omp.h>

#include "tests/support/sparse_util.h"

enum { FEATURES = 3, BATCH = 37, ROWS = 50 };

/* Three features on two tables; the output has a column more on each side
 * that must stay as it is. */
typedef struct {
  ts_lookup_args args;
  int64_t offsets[FEATURES * BATCH + 1], base[FEATURES];
  int32_t col[FEATURES];
  int64_t stride, starts[FEATURES + 1], at[FEATURES * BATCH];
  int32_t *rows;
  float *weights, *out;
  void *table;
  int64_t out_size;
} lookup_case;

static void make(lookup_case *c, int32_t dim, ts_dtype t, bool weighted,
                 bool mean, bool single) {
  uint64_t seed = (uint64_t)dim * 8 + (uint64_t)t;
  int64_t n = 0;
  for (int bag = 0; bag < FEATURES * BATCH; bag++) {
    c->offsets[bag] = n;
    n += single ? 1 : bag % 5 == 0 ? 0 : test_random(&seed) % 9;
  }
  c->offsets[FEATURES * BATCH] = n;
  c->rows = test_alloc(n, sizeof *c->rows);
  c->weights = test_alloc(n, sizeof *c->weights);
  for (int64_t i = 0; i < n; i++)
    c->rows[i] = (int32_t)(test_random(&seed) % ROWS);
  test_floats(c->weights, n, 5);
  float *wide = test_alloc(2 * ROWS * dim, sizeof *wide);
  test_floats(wide, 2 * ROWS * dim, 7);
  for (int32_t d = 0; d < dim; d++) wide[d] *= 1e-6f; /* f16: subnormal */
  c->table = test_alloc(2 * ROWS * dim, sizeof(float));
  ts_from_f32(c->table, wide, t, 2 * ROWS * dim);
  free(wide);
  const int64_t stride = c->stride = FEATURES * dim + 2;
  c->out_size = stride * BATCH;
  c->out = test_alloc(c->out_size, sizeof *c->out);
  for (int64_t i = 0; i < c->out_size; i++) c->out[i] = 777;
  for (int32_t f = 0; f < FEATURES; f++) {
    c->base[f] = f == 1 ? ROWS : 0;
    c->col[f] = 1 + (FEATURES - 1 - f) * dim;
    c->starts[f + 1] = (f + 1) * BATCH;
    for (int32_t b = 0; b < BATCH; b++)
      c->at[f * BATCH + b] = b * stride + c->col[f];
  }
  c->starts[0] = 0;
  c->args = (ts_lookup_args){.out = c->out,
                             .at = c->at,
                             .weight = c->table,
                             .dtype = t,
                             .dim = dim,
                             .row_base = c->base,
                             .offsets = c->offsets,
                             .rows = c->rows,
                             .weights = weighted ? c->weights : NULL,
                             .mean = mean,
                             .bag_start = c->starts,
                             .n_features = FEATURES};
}

static void drop(lookup_case *c) {
  free(c->rows);
  free(c->weights);
  free(c->table);
  free(c->out);
}

static double expected(const lookup_case *c, int32_t f, int32_t b, int32_t d) {
  const ts_lookup_args *a = &c->args;
  const int64_t from = a->offsets[f * BATCH + b];
  const int64_t to = a->offsets[f * BATCH + b + 1];
  double sum = 0;
  for (int64_t i = from; i < to; i++)
    sum += (a->weights ? a->weights[i] : 1.0) *
           test_get(a->weight, a->dtype,
                    (a->row_base[f] + a->rows[i]) * a->dim + d);
  return a->mean && to > from ? sum / (double)(to - from) : sum;
}

/* The same in f32 in the order of the bag: the bits that are promised. */
static float in_order(const lookup_case *c, int32_t f, int32_t b, int32_t d) {
  const ts_lookup_args *a = &c->args;
  const int64_t from = a->offsets[f * BATCH + b];
  const int64_t to = a->offsets[f * BATCH + b + 1];
  volatile float sum = 0, part;
  for (int64_t i = from; i < to; i++) {
    part = (float)test_get(a->weight, a->dtype,
                           (a->row_base[f] + a->rows[i]) * a->dim + d);
    if (a->weights) part *= a->weights[i];
    sum += part;
  }
  return a->mean && to > from ? sum * (1.0f / (float)(to - from)) : sum;
}

static void compare(const lookup_case *c) {
  const ts_lookup_args *a = &c->args;
  for (int32_t b = 0; b < BATCH; b++) {
    const float *row = a->out + b * c->stride;
    ck_assert_float_eq(row[0], 777);
    ck_assert_float_eq(row[c->stride - 1], 777);
    for (int32_t f = 0; f < FEATURES; f++)
      for (int32_t d = 0; d < a->dim; d++)
        if (!(fabs(row[c->col[f] + d] - expected(c, f, b, d)) < 4e-6))
          ck_abort_msg("feature %d bag %d column %d of %d: %g, not %g", f, b, d,
                       a->dim, (double)row[c->col[f] + d],
                       expected(c, f, b, d));
        else
          ck_assert_float_eq(row[c->col[f] + d], in_order(c, f, b, d));
  }
}

/* The reference is right; the others give its bits on 1 to 3 threads. */
static void check_case(lookup_case *c, int max_threads) {
  ts_kernels k;
  const size_t bytes = (size_t)c->out_size * sizeof(float);
  float *first = test_alloc(c->out_size, sizeof *first);
  for (int threads = 1; threads <= max_threads; threads++) {
    omp_set_num_threads(threads);
    for (int isa = 0; test_kernels(&k, isa); isa++) {
      for (int64_t i = 0; i < c->out_size; i++)
        if (c->out[i] != 777) c->out[i] = NAN;
      ck_assert_int_eq(k.lookup(&c->args), TS_OK);
      if (isa == 0 && threads == 1) {
        compare(c);
        memcpy(first, c->out, bytes);
      }
      ck_assert_mem_eq(first, c->out, bytes);
    }
  }
  free(first);
}

START_TEST(all_shapes) {
  static const int32_t dims[] = {1,  3,  4,   15,  16,  24,  32, 48,
                                 64, 96, 128, 200, 256, 512, 520};
  static const ts_dtype types[] = {TS_F32, TS_BF16, TS_F16};
  for (int i = 0; i < TEST_COUNT(dims); i++)
    for (int t = 0; t < TEST_COUNT(types); t++)
      for (int mode = 0; mode < 8; mode++) {
        lookup_case c;
        make(&c, dims[i], types[t], mode & 1, mode & 2, mode & 4);
        check_case(&c, dims[i] == 24 || dims[i] == 64 ? 3 : 1);
        drop(&c);
      }
}
END_TEST

/* An id's bag of one is a copy of the row. */
START_TEST(single_is_copy) {
  lookup_case c;
  ts_kernels k;
  make(&c, 64, TS_F32, false, false, true);
  for (int isa = 0; test_kernels(&k, isa); isa++) {
    ck_assert_int_eq(k.lookup(&c.args), TS_OK);
    for (int b = 0; b < BATCH; b++)
      ck_assert_mem_eq(c.out + b * c.stride + c.col[0],
                       (float *)c.table + c.rows[b] * 64, 64 * 4);
  }
  drop(&c);
}
END_TEST

/* Infinities and subnormals of 16-bit tables arrive as they are. */
START_TEST(special_values) {
  static const uint16_t bits[] = {0x7c00, 0xfc00, 0x0001, 0x83ff, 0x8000};
  lookup_case c;
  ts_kernels k;
  make(&c, 32, TS_F16, false, false, true);
  for (int i = 0; i < 2 * ROWS * 32; i++)
    ((uint16_t *)c.table)[i] = bits[i % TEST_COUNT(bits)];
  for (int isa = 0; test_kernels(&k, isa); isa++) {
    ck_assert_int_eq(k.lookup(&c.args), TS_OK);
    for (int b = 0; b < BATCH; b++)
      for (int d = 0; d < 32; d++)
        ck_assert_float_eq(
            c.out[b * c.stride + c.col[0] + d],
            (float)test_get(c.table, TS_F16, c.rows[b] * 32 + d));
  }
  drop(&c);
}
END_TEST

/* No ids at all: zeros. */
START_TEST(all_empty) {
  lookup_case c;
  ts_kernels k;
  make(&c, 40, TS_BF16, true, true, false);
  memset(c.offsets, 0, sizeof c.offsets);
  for (int isa = 0; test_kernels(&k, isa); isa++) {
    for (int64_t i = 0; i < c.out_size; i++) c.out[i] = 777;
    ck_assert_int_eq(k.lookup(&c.args), TS_OK);
    compare(&c);
  }
  drop(&c);
}
END_TEST

static Suite *suite(void) {
  const TTest *const tests[] = {all_shapes, single_is_copy, special_values,
                                all_empty};
  return test_suite("lookup", tests, TEST_COUNT(tests));
}
TS_TEST_MAIN(suite)
