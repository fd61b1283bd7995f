/* test_weight_grad.c - the gradient by each id's weight against dot products
 * in double, and all instruction sets and numbers of threads against each
 * other bit for bit.
 * ranks: 1
 * seconds: 400 */
#include <omp.h>

#include "tests/support/sparse_util.h"

enum { FEATURES = 3, BATCH = 37, ROWS = 50, BAGS = FEATURES * BATCH };

/* Three features on two tables; gradients lie apart. */
typedef struct {
  ts_lookup_args bags;
  ts_weight_grad_args args;
  int64_t offsets[BAGS + 1], base[FEATURES], starts[FEATURES + 1], at[BAGS];
  int32_t *rows;
  float *grad, *out;
  void *table;
  int64_t n;
} dot_case;

static void make(dot_case *c, int32_t dim, ts_dtype t, bool mean) {
  uint64_t seed = (uint64_t)dim * 8 + (uint64_t)t;
  memset(c, 0, sizeof *c);
  for (int bag = 0; bag < BAGS; bag++) {
    c->at[bag] = (int64_t)(BAGS - 1 - bag) * (dim + 3) + 1;
    c->offsets[bag] = c->n;
    c->n += bag % 5 == 0 ? 0 : test_random(&seed) % 9;
  }
  c->offsets[BAGS] = c->n;
  c->rows = test_alloc(c->n, sizeof *c->rows);
  c->out = test_alloc(c->n, sizeof *c->out);
  c->grad = test_alloc(BAGS * (dim + 3), sizeof *c->grad);
  test_floats(c->grad, BAGS * (dim + 3), 5);
  for (int64_t i = 0; i < c->n; i++)
    c->rows[i] = (int32_t)(test_random(&seed) % ROWS);
  float *wide = test_alloc(2 * ROWS * dim, sizeof *wide);
  test_floats(wide, 2 * ROWS * dim, 7);
  c->table = test_alloc(2 * ROWS * dim, sizeof(float));
  ts_from_f32(c->table, wide, t, 2 * ROWS * dim);
  free(wide);
  for (int32_t f = 0; f < FEATURES; f++) {
    c->base[f] = f == 1 ? ROWS : 0;
    c->starts[f + 1] = (f + 1) * BATCH;
  }
  c->bags = (ts_lookup_args){.at = c->at,
                             .weight = c->table,
                             .dtype = t,
                             .dim = dim,
                             .row_base = c->base,
                             .bag_start = c->starts,
                             .offsets = c->offsets,
                             .rows = c->rows,
                             .mean = mean,
                             .n_features = FEATURES};
  c->args = (ts_weight_grad_args){&c->bags, c->out, c->grad};
}

static void drop(dot_case *c) {
  free(c->rows);
  free(c->out);
  free(c->grad);
  free(c->table);
}

static void compare(const dot_case *c) {
  const ts_lookup_args *a = &c->bags;
  for (int bag = 0; bag < BAGS; bag++)
    for (int64_t i = a->offsets[bag]; i < a->offsets[bag + 1]; i++) {
      const int64_t row = (a->row_base[bag / BATCH] + a->rows[i]) * a->dim;
      double sum = 0, size = 0;
      for (int32_t d = 0; d < a->dim; d++) {
        const double part = (double)c->grad[a->at[bag] + d] *
                            test_get(a->weight, a->dtype, row + d);
        sum += part;
        size += fabs(part);
      }
      const int64_t length = a->offsets[bag + 1] - a->offsets[bag];
      if (a->mean) sum /= (double)length, size /= (double)length;
      ck_assert_msg(fabs(c->out[i] - sum) <= 1e-6 * size,
                    "dim %d bag %d id %lld: %g, not %g", a->dim, bag,
                    (long long)i, (double)c->out[i], sum);
    }
}

/* The reference is right; the others give its bits on 1 to 3 threads. */
static void check_case(dot_case *c, int max_threads) {
  ts_kernels k;
  const size_t bytes = (size_t)c->n * sizeof(float);
  float *first = test_alloc(c->n, sizeof *first);
  for (int threads = 1; threads <= max_threads; threads++) {
    omp_set_num_threads(threads);
    for (int isa = 0; test_kernels(&k, isa); isa++) {
      for (int64_t i = 0; i < c->n; i++) c->out[i] = NAN;
      ck_assert_int_eq(k.weight_grad(&c->args), TS_OK);
      compare(c);
      if (isa == 0 && threads == 1) memcpy(first, c->out, bytes);
      ck_assert_mem_eq(first, c->out, bytes);
    }
  }
  free(first);
}

START_TEST(all_shapes) {
  static const int32_t dims[] = {1,  3,  4,  15,  16,  17,
                                 24, 32, 64, 100, 128, 520};
  static const ts_dtype types[] = {TS_F32, TS_BF16, TS_F16};
  for (int i = 0; i < TEST_COUNT(dims); i++)
    for (int t = 0; t < TEST_COUNT(types); t++)
      for (int mean = 0; mean < 2; mean++) {
        dot_case c;
        make(&c, dims[i], types[t], mean);
        check_case(&c, dims[i] == 24 || dims[i] == 64 ? 3 : 1);
        drop(&c);
      }
}
END_TEST

/* A bag without ids, a batch without bags. */
START_TEST(nothing) {
  ts_kernels k;
  for (int isa = 0; test_kernels(&k, isa); isa++) {
    const int64_t starts[] = {0, 1}, none[] = {0, 0}, at[] = {0};
    ts_lookup_args bags = {.at = at,
                           .dim = 16,
                           .row_base = at,
                           .bag_start = starts,
                           .offsets = none,
                           .n_features = 1};
    ck_assert_int_eq(k.weight_grad(&(ts_weight_grad_args){.bags = &bags}),
                     TS_OK);
    bags.bag_start = none;
    ck_assert_int_eq(k.weight_grad(&(ts_weight_grad_args){.bags = &bags}),
                     TS_OK);
  }
}
END_TEST

static Suite *suite(void) {
  const TTest *const tests[] = {all_shapes, nothing};
  return test_suite("weight gradients", tests, TEST_COUNT(tests));
}
TS_TEST_MAIN(suite)
