/* test_cuda_lookup.c - how CUDA lookups are cut, and the kernels run on the
 * CPU against the plain C reference.
 * ranks: 1
 * seconds: 400 */
#include "tests/kernels/cuda_lookup_cases.h"
#include "tests/kernels/cuda_lookup_emulated.h"

/* ---- the plan ------------------------------------------------------------ */

static const ts_lookup_machine h200 = {132, TS_GRID_X_MAX};

typedef struct plan_case {
  ts_dtype t;
  int32_t dim;
  int vector, lanes;
  int32_t chunks;
} plan_case;

START_TEST(plan_of_rows) {
  static const plan_case cases[] = {{TS_F32, 1, 1, 4, 1},
                                    {TS_F32, 3, 1, 4, 1},
                                    {TS_F32, 4, 4, 4, 1},
                                    {TS_F32, 16, 4, 4, 1},
                                    {TS_F32, 20, 4, 8, 1},
                                    {TS_F32, 32, 4, 8, 1},
                                    {TS_F32, 33, 1, 32, 2},
                                    {TS_F32, 64, 4, 16, 1},
                                    {TS_F32, 100, 4, 32, 1},
                                    {TS_F32, 128, 4, 32, 1},
                                    {TS_F32, 1000, 4, 32, 8},
                                    {TS_BF16, 1, 1, 4, 1},
                                    {TS_BF16, 4, 4, 8, 1},
                                    {TS_BF16, 8, 8, 4, 1},
                                    {TS_BF16, 36, 4, 32, 1},
                                    {TS_F16, 100, 4, 32, 1},
                                    {TS_F16, 128, 8, 16, 1},
                                    {TS_BF16, 256, 8, 32, 1},
                                    {TS_F16, 1000, 8, 32, 4},
                                    {TS_BF16, 130, 1, 32, 5},
                                    {TS_F32, INT32_MAX, 1, 32, 67108864}};
  for (int i = 0; i < TEST_COUNT(cases); i++) {
    const plan_case *c = &cases[i];
    const ts_lookup_plan p = ts_lookup_plan_of(c->t, c->dim, NULL, 1000, &h200);
    ck_assert_int_eq(p.vector, c->vector);
    ck_assert_int_eq(p.lanes, c->lanes);
    ck_assert_int_eq(p.chunks, c->chunks);
  }
}
END_TEST

/* Rows off the borders of vectors. */
START_TEST(plan_of_borders) {
  char *p = (char *)(uintptr_t)4096;
  ck_assert_int_eq(ts_lookup_vector(TS_F32, 64, p), 4);
  ck_assert_int_eq(ts_lookup_vector(TS_F32, 64, p + 8), 1);
  ck_assert_int_eq(ts_lookup_vector(TS_BF16, 64, p + 8), 4);
  ck_assert_int_eq(ts_lookup_vector(TS_BF16, 64, p + 4), 1);
}
END_TEST

/* All bags have a place, no grid is larger than CUDA's; few bags make short
 * runs, many long ones. */
START_TEST(plan_of_bags) {
  static const int64_t bags[] = {0,         1,          2,
                                 1000,      65536,      INT64_C(1) << 20,
                                 100000000, 3000000000, INT64_C(1) << 40};
  static const int32_t dims[] = {1, 32, 128, 1000};
  int last = 0;
  for (int i = 0; i < TEST_COUNT(bags); i++)
    for (int d = 0; d < TEST_COUNT(dims); d++) {
      const ts_lookup_plan p =
          ts_lookup_plan_of(TS_F32, dims[d], NULL, bags[i], &h200);
      const int64_t places =
          p.items / p.chunks * p.run * (TS_LOOKUP_THREADS / p.lanes);
      ck_assert(places >= bags[i] && p.items >= 0);
      ck_assert(p.blocks >= 1 && p.blocks <= TS_GRID_X_MAX);
      ck_assert(p.blocks == p.items || p.blocks == TS_GRID_X_MAX || !p.items);
      ck_assert(p.run <= p.lanes);
      if (d != 2) continue;
      ck_assert_int_ge(p.run, last);
      last = p.run;
    }
  ck_assert_int_eq(ts_lookup_plan_of(TS_F32, 128, NULL, 4096, &h200).run, 1);
  ck_assert_int_eq(last, TS_LOOKUP_RUN_MAX);
  ck_assert_int_eq(
      ts_weight_grad_plan_of(TS_F32, 128, NULL, bags[8], &h200).run, 32);
}
END_TEST

/* ---- the kernels --------------------------------------------------------- */

/* One launch for any number of features; more than there is room for are put
 * into device memory first: bags, then bases. */
static void check_launches(const ts_lookup_args *a) {
  const int64_t n = a->n_features, most = 32000 / 8;
  const bool some = n > 0 && a->bag_start[n] > 0;
  int n_puts;
  ck_assert_int_eq(emulated_lookup_launches(&n_puts), some);
  ck_assert_int_eq(n_puts, some && n > TS_LOOKUP_FEATURES
                               ? ts_ceil_div(n + 1, most) + ts_ceil_div(n, most)
                               : 0);
}

/* Long runs in one grid, then runs of a bag, in a grid that is too small. */
static ts_err emulate(const ts_lookup_args *a, const ts_weight_grad_args *g,
                      const cuda_lookup_sizes *s) {
  const ts_lookup_machine few = {0, TS_GRID_X_MAX}, many = {132, 3};
  float *const out = g ? g->out : a->out;
  const size_t bytes = (size_t)s->n_out * sizeof *out;
  float *first = test_alloc(s->n_out, sizeof *first);
  float *start = test_alloc(s->n_out, sizeof *start);
  memcpy(start, out, bytes);
  ck_assert_ok(emulated_lookup(a, g, &few));
  check_launches(a);
  memcpy(first, out, bytes);
  memcpy(out, start, bytes);
  const ts_err err = emulated_lookup(a, g, &many);
  check_launches(a);
  ck_assert_mem_eq(first, out, bytes);
  free(first);
  free(start);
  return err;
}

static Suite *suite(void) {
  const TTest *const tests[] = {plan_of_rows, plan_of_borders, plan_of_bags};
  Suite *s = cuda_lookup_suite("cuda lookup, emulated", emulate);
  TCase *plan = tcase_create("plan");
  for (int i = 0; i < TEST_COUNT(tests); i++) tcase_add_test(plan, tests[i]);
  suite_add_tcase(s, plan);
  return s;
}
TS_TEST_MAIN(suite)
