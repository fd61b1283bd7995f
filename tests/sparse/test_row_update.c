/* test_row_update.c - the fused update's sums: duplicates in any number,
 * weights, means, sums kept for others, rounding of 16-bit rows.
 * ranks: 1
 * seconds: 400 */
#include <omp.h>

#include "base/rng.h"
#include "sparse/row_optim.h"
#include "tests/support/sparse_util.h"

enum { ROWS = 40, BAGS = 3000 };

/* Two tables of one group, 25 and 15 rows; gradients and weights are small
 * integers over powers of two, so that sums in float are exact in any order
 * and the expected rows can be compared exactly. */
typedef struct {
  ts_row_update_args a;
  ts_row_hyper hyper[2];
  int64_t n, base[3], first[2];
  int32_t id[2], col[2], width[2];
  uint32_t *keys, *order, *bag_of;
  float *grad, *weights, *scale, *w, *start;
  int64_t *at;
} update_case;

/* Run lengths by row: some rows none, most short, two very long. */
static int64_t run_length(int row) {
  return row == 3       ? 257
         : row == 7     ? 9001
         : row == 30    ? 4500
         : row % 4 == 1 ? 0
                        : row % 6 + 1;
}

static void make(update_case *c, int32_t dim, bool weighted, bool scaled) {
  uint64_t seed = 11;
  memset(c, 0, sizeof *c);
  for (int r = 0; r < ROWS; r++) c->n += run_length(r);
  c->keys = test_alloc(c->n, 4);
  c->order = test_alloc(c->n, 4);
  c->bag_of = test_alloc(c->n, 4);
  c->weights = test_alloc(c->n, 4);
  c->scale = test_alloc(BAGS, 4);
  c->at = test_alloc(BAGS, 8);
  c->grad = test_alloc((int64_t)BAGS * dim, 4);
  c->w = test_alloc(ROWS * dim, 4);
  c->start = test_alloc(ROWS * dim, 4);
  for (int64_t i = 0, r = 0, left = run_length(0); i < c->n; i++, left--) {
    while (left == 0) left = run_length((int)++r);
    c->keys[i] = (uint32_t)r;
    c->order[i] =
        weighted ? (uint32_t)((i * 7919) % c->n) : test_random(&seed) % BAGS;
  }
  for (int64_t i = 0; i < c->n; i++) {
    c->bag_of[i] = test_random(&seed) % BAGS;
    c->weights[i] = (float)(test_random(&seed) % 5) * 0.5f - 1;
  }
  for (int b = 0; b < BAGS; b++) {
    c->at[b] = (int64_t)(BAGS - 1 - b) * dim;
    c->scale[b] = 1.0f / (float)(1 << b % 3);
  }
  for (int64_t i = 0; i < (int64_t)BAGS * dim; i++)
    c->grad[i] = (float)(test_random(&seed) % 9) - 4;
  for (int64_t i = 0; i < ROWS * dim; i++)
    c->start[i] = c->w[i] = (float)(test_random(&seed) % 64) / 8;
  c->base[1] = 25, c->base[2] = ROWS;
  c->hyper[0].lr = 0.25f, c->hyper[1].lr = 0.5f;
  c->col[0] = c->col[1] = 0, c->width[0] = c->width[1] = dim;
  c->id[0] = 4, c->id[1] = 9, c->first[1] = 100;
  c->a = (ts_row_update_args){.optim = ts_row_optim_find("sgd"),
                              .hyper = c->hyper,
                              .weight = c->w,
                              .dtype = TS_F32,
                              .dim = dim,
                              .keys = c->keys,
                              .order = c->order,
                              .n = c->n,
                              .grad = c->grad,
                              .grad_at = c->at,
                              .bag_of = weighted ? c->bag_of : NULL,
                              .weights = weighted ? c->weights : NULL,
                              .bag_scale = scaled ? c->scale : NULL,
                              .row_base = c->base,
                              .n_tables = 2,
                              .table_id = c->id,
                              .first_row = c->first,
                              .first_col = c->col,
                              .row_dim = c->width,
                              .seed = 5,
                              .step = 1};
}

static void drop(update_case *c) {
  void *all[] = {c->keys,  c->order, c->bag_of, c->grad, c->weights,
                 c->scale, c->w,     c->start,  c->at};
  for (int i = 0; i < TEST_COUNT(all); i++) free(all[i]);
}

/* Dense sums in double: (ROWS, dim). */
static double *dense(const update_case *c) {
  const ts_row_update_args *a = &c->a;
  double *sum = test_alloc(ROWS * a->dim, sizeof *sum);
  for (int64_t j = 0; j < a->n; j++) {
    const uint32_t i = a->order[j], bag = a->bag_of ? a->bag_of[i] : i;
    const double s = (a->weights ? a->weights[i] : 1.0) *
                     (a->bag_scale ? a->bag_scale[bag] : 1.0);
    for (int32_t d = 0; d < a->dim; d++)
      sum[a->keys[j] * a->dim + (uint32_t)d] +=
          s * a->grad[a->grad_at[bag] + d];
  }
  return sum;
}

static void check_update(update_case *c, const ts_kernels *k,
                         const double *sum) {
  const int32_t dim = c->a.dim;
  memcpy(c->w, c->start, (size_t)(ROWS * dim) * 4);
  ck_assert_int_eq(k->row_update(&c->a), TS_OK);
  for (int r = 0; r < ROWS; r++)
    for (int32_t d = 0; d < dim; d++) {
      const double lr = r < 25 ? 0.25 : 0.5;
      ck_assert_double_eq(c->w[r * dim + d],
                          c->start[r * dim + d] - lr * sum[r * dim + d]);
    }
}

TS_TEST(sums_of_duplicates) {
  static const int32_t dims[] = {1, 3, 4, 15, 16, 24, 64, 128, 200, 520};
  ts_kernels k;
  for (int threads = 1; threads <= 3; threads++) {
    omp_set_num_threads(threads);
    for (int i = 0; i < TEST_COUNT(dims); i++)
      for (int mode = 0; mode < (dims[i] > 100 ? 1 : 4); mode++) {
        update_case c;
        make(&c, dims[i], mode & 1, mode & 2);
        double *sum = dense(&c);
        for (int isa = 0; test_kernels(&k, isa); isa++)
          check_update(&c, &k, sum);
        free(sum);
        drop(&c);
      }
  }
}

/* Sums kept instead of applied: keys ascending, one sum each. */
TS_TEST(sums_kept) {
  ts_kernels k;
  update_case c;
  make(&c, 20, true, true);
  double *sum = dense(&c);
  float *out = test_alloc(ROWS * 20, 4);
  uint32_t *keys = test_alloc(ROWS, 4);
  int64_t n = 0;
  c.a.sum_out = out;
  c.a.key_out = keys;
  c.a.n_out = &n;
  for (int threads = 1; threads <= 3; threads++) {
    omp_set_num_threads(threads);
    for (int isa = 0; test_kernels(&k, isa); isa++) {
      memset(out, 0, ROWS * 20 * 4);
      ck_assert_int_eq(k.row_update(&c.a), TS_OK);
      ck_assert_mem_eq(c.w, c.start, ROWS * 20 * 4);
      int64_t r = 0;
      for (int row = 0; row < ROWS; row++) {
        if (!run_length(row)) continue;
        ck_assert_uint_eq(keys[r], (unsigned)row);
        for (int d = 0; d < 20; d++)
          ck_assert_double_eq(out[r * 20 + d], sum[row * 20 + d]);
        r++;
      }
      ck_assert_int_eq(n, r);
    }
  }
  free(out);
  free(keys);
  free(sum);
  drop(&c);
}

static float sum_in_order(const update_case *c, int64_t from, int64_t to,
                          int32_t d) {
  float total = 0;
  while (from < to) {
    float piece = 0;
    for (int64_t end = from + 256; from < end && from < to; from++)
      piece += c->grad[c->at[c->order[from]] + d];
    total += piece;
  }
  return total;
}

static void check_order(const update_case *c) {
  for (int64_t from = 0, to; from < c->n; from = to) {
    for (to = from; to < c->n && c->keys[to] == c->keys[from]; to++) continue;
    for (int32_t d = 0; d < c->a.dim; d++)
      ck_assert_float_eq(c->w[c->keys[from] * (uint32_t)c->a.dim + (uint32_t)d],
                         sum_in_order(c, from, to, d));
  }
}

/* The order of float sums is the documented one: entries in order within
 * pieces of 256 from the run's start, then the pieces in order. */
TS_TEST(order_of_sums) {
  ts_kernels k;
  update_case c;
  make(&c, 17, false, false);
  test_floats(c.grad, (int64_t)BAGS * 17, 3);
  memset(c.start, 0, ROWS * 17 * 4);
  c.hyper[0].lr = c.hyper[1].lr = -1;
  for (int threads = 1; threads <= 3; threads++) {
    omp_set_num_threads(threads);
    for (int isa = 0; test_kernels(&k, isa); isa++) {
      memcpy(c.w, c.start, ROWS * 17 * 4);
      ck_assert_int_eq(k.row_update(&c.a), TS_OK);
      check_order(&c);
    }
  }
  drop(&c);
}

/* ---- 16-bit rows ----------------------------------------------------------
 */

/* One update of N one-entry rows w = 1 by a quarter of the distance to the
 * next value: the mean is right, values are one of the two neighbours. */
static void check_mean(const ts_kernels *k, ts_dtype t, int64_t step) {
  enum { N = 512, DIM = 40 };
  uint16_t w[N * DIM];
  uint32_t keys[N], order[N];
  int64_t at[1] = {0}, base[2] = {0, N}, first[1] = {0};
  float g[DIM];
  const float gap = t == TS_BF16 ? 0.0078125f : 0.0009765625f;
  ts_row_hyper h = {.lr = 1};
  int32_t id[1] = {2};
  for (int i = 0; i < N; i++) keys[i] = (uint32_t)i, order[i] = 0;
  for (int d = 0; d < DIM; d++) g[d] = -0.25f * gap;
  for (int i = 0; i < N * DIM; i++)
    w[i] = t == TS_BF16 ? ts_f32_to_bf16(1) : ts_f32_to_f16(1);
  const ts_row_update_args a = {.optim = ts_row_optim_find("sgd"),
                                .hyper = &h,
                                .weight = w,
                                .dtype = t,
                                .dim = DIM,
                                .keys = keys,
                                .order = order,
                                .n = N,
                                .grad = g,
                                .grad_at = at,
                                .row_base = base,
                                .n_tables = 1,
                                .table_id = id,
                                .first_row = first,
                                .first_col = (const int32_t[]){0},
                                .row_dim = (const int32_t[]){DIM},
                                .seed = 77,
                                .step = step};
  ck_assert_int_eq(k->row_update(&a), TS_OK);
  int up = 0;
  for (int i = 0; i < N * DIM; i++) {
    const double x = (test_get(w, t, i) - 1) / gap;
    ck_assert(x == 0 || x == 1);
    up += x == 1;
  }
  /* 5 standard deviations of the binomial */
  const double sigma = sqrt(N * DIM * 0.25 * 0.75);
  ck_assert_double_eq_tol(up, N * DIM * 0.25, 5 * sigma);
}

TS_TEST(rounding_is_unbiased) {
  ts_kernels k;
  for (int isa = 0; test_kernels(&k, isa); isa++)
    for (int64_t step = 1; step < 4; step++) {
      check_mean(&k, TS_BF16, step);
      check_mean(&k, TS_F16, step);
    }
}

/* Rounding depends on seed, step, table, global row and column only. */
TS_TEST(rounding_is_keyed) {
  ts_kernels k;
  const size_t bytes = ROWS * 24 * 2;
  uint16_t first[ROWS * 24], half[ROWS * 24];

  for (int threads = 1; threads <= 3; threads++) {
    omp_set_num_threads(threads);
    for (int isa = 0; test_kernels(&k, isa); isa++)
      for (int variant = 0; variant < 5; variant++) {
        update_case c;
        make(&c, 24, false, false);
        test_floats(c.grad, (int64_t)BAGS * 24, 3);
        c.a.weight = half;
        c.a.dtype = TS_BF16;
        if (variant == 1) c.a.seed++;
        if (variant == 2) c.a.step++;
        if (variant == 3) c.id[0]++;
        if (variant == 4) c.first[0]++;
        ts_from_f32(half, c.start, TS_BF16, ROWS * 24);
        ck_assert_int_eq(k.row_update(&c.a), TS_OK);
        if (variant == 0 && isa == 0 && threads == 1)
          memcpy(first, half, bytes);
        if (variant == 0) ck_assert_mem_eq(first, half, bytes);
        if (variant) ck_assert_mem_ne(first, half, bytes);

        drop(&c);
      }
  }
}
