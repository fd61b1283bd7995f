/* update_score.c - scores of rows: norms of sums, in double; nothing else
 * changes by them. */
#include "tests/kernels/update.h"

KT_CONTRACT("row_update fetch put")

static const int runs[] = {1, 2, 257, 1, 1, 33, 700, 6, 1, 1, 5000, 3};

/* SUMS (ROWS, dim) of what is added to each row. */
static void add_up(const ts_row_update_args *a, double *sums) {
  for (int64_t j = 0; j < a->n; j++) {
    const uint32_t i = a->order[j], bag = a->bag_of ? a->bag_of[i] : i;
    const double scale = (a->weights ? (double)a->weights[i] : 1.0) *
                         (a->bag_scale ? (double)a->bag_scale[bag] : 1.0);
    for (int32_t d = 0; d < a->dim; d++)
      sums[(int64_t)a->keys[j] * a->dim + d] +=
          scale * (double)a->grad[a->grad_at[bag] + d];
  }
}

static void check_scores(const spec *s) {
  update_case c, plain;
  spec without = *s;
  without.scores = false;
  update_make(&plain, &without);
  kt_check(update_run, &plain);
  const size_t bytes = (size_t)PLACES * (size_t)ts_row_bytes(s->dtype, s->dim);
  char *rows = test_alloc((int64_t)bytes, 1);
  memcpy(rows, kt_ref(plain.a.weight), bytes);
  update_make(&c, s);
  c.a.row_id = NULL; /* drawn for each case */
  kt_check(update_run, &c);
  if (!plain.a.row_id) ck_assert_mem_eq(kt_ref(c.a.weight), rows, bytes);
  free(rows);
  const float *was = c.a.score, *got = kt_ref(c.a.score);
  double *sums = test_alloc(ROWS * s->dim, sizeof *sums);
  add_up(&c.a, sums);
  for (uint32_t r = 0; r < ROWS; r++) {
    double norm = 0;
    for (int32_t d = 0; d < s->dim; d++)
      norm += sums[r * (uint32_t)s->dim + (uint32_t)d] *
              sums[r * (uint32_t)s->dim + (uint32_t)d];
    norm = sqrt(norm);
    ck_assert_double_eq_tol(got[r], (double)was[r] + norm,
                            1e-5 * (fabs((double)was[r]) + norm));
  }
  free(sums);
}

TS_TESTS(norms_add_up, 0, UPDATE_KINDS) {
  static const int32_t dims[] = {1, 3, 4, 24, 64, 100, 260};
  static const ts_dtype dtypes[] = {TS_F32, TS_BF16, TS_F16, TS_INT8, TS_INT4};
  for (int d = 0; d < TEST_COUNT(dims); d++)
    check_scores(&(spec){.kind = update_kinds[_i],
                         .dtype = dtypes[(_i + d) % TEST_COUNT(dtypes)],
                         .decay = (ts_wd_mode)(d % 3),
                         .dim = dims[d],
                         .lengths = runs,
                         .n_runs = TEST_COUNT(runs),
                         .weighted = d & 1,
                         .mean = d & 2,
                         .placed = (_i + d) & 4,
                         .caps = d % 3 == 2,
                         .means = _i % 2,
                         .scores = true});
}
