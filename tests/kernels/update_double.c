/* update_double.c - the oracle of row updates against sums and formulas in
 * double: what update.c compares its kernels with is right. */
#include <stddef.h>

#include "base/kinds.h"
#include "tests/kernels/update.h"
#include "tests/support/optim_config.h"

KT_CONTRACT("row_update row_stage fetch put")

static const int32_t dims[] = {1, 3, 4, 15, 16, 24, 64, 128, 200, 520};

/* ---- sums ---------------------------------------------------------------- */

/* Some rows without entries, most with few, two with very many. */
static const int runs[] = {1, 2, 257, 3, 4, 5, 9001, 6, 1, 4500, 2, 3};

/* The sum of element D over all entries of ROW. */
static double sum_of(const ts_row_update_args *a, uint32_t row, int32_t d) {
  double sum = 0;
  for (int64_t j = 0; j < a->n; j++) {
    if (a->keys[j] != row) continue;
    const uint32_t i = a->order[j], bag = a->bag_of ? a->bag_of[i] : i;
    sum += (a->weights ? a->weights[i] : 1.0) *
           (a->bag_scale ? a->bag_scale[bag] : 1.0) *
           a->grad[a->grad_at[bag] + d];
  }
  return sum;
}

static void check_updated(const update_case *c, const double *sum) {
  const ts_row_update_args *a = &c->a;
  const float *was = a->weight, *w = kt_ref(a->weight);
  for (int t = 0; t < TABLES; t++)
    for (int64_t i = a->row_base[t] * a->dim; i < a->row_base[t + 1] * a->dim;
         i++)
      ck_assert_double_eq(w[i], was[i] - c->hyper[t].lr * sum[i]);
}

/* Kept sums: keys ascending, one sum each; rows stay. */
static void check_kept(const update_case *c, const double *sum) {
  const ts_row_update_args *a = &c->a;
  const float *out = kt_ref(a->sum_out);
  const uint32_t *keys = kt_ref(a->key_out);
  int64_t r = 0;
  ck_assert_mem_eq(kt_ref(a->weight), a->weight, (size_t)a->dim * ROWS * 4);
  for (int64_t j = 0; j < a->n; j++) {
    if (j && a->keys[j] == a->keys[j - 1]) continue;
    ck_assert_uint_eq(keys[r], a->keys[j]);
    for (int32_t d = 0; d < a->dim; d++)
      ck_assert_double_eq(out[r * a->dim + d], sum[keys[r] * a->dim + d]);
    r++;
  }
  ck_assert_int_eq(*(int64_t *)kt_ref(a->n_out), r);
}

/* Small integers over powers of two, so that sums in float are exact in any
 * order. */
TS_TEST(sums_of_duplicates) {
  for (int i = 0; i < TEST_COUNT(dims); i++)
    for (int mode = 0; mode < (dims[i] > 100 ? 2 : 8); mode++) {
      update_case c;
      update_make(&c, &(spec){.kind = "sgd",
                              .dim = dims[i],
                              .lengths = runs,
                              .n_runs = TEST_COUNT(runs),
                              .keep = mode & 1,
                              .weighted = mode & 2,
                              .mean = mode & 4,
                              .exact = true});
      double *sum = test_alloc(ROWS * dims[i], sizeof *sum);
      for (uint32_t r = 0; r < ROWS; r++)
        for (int32_t d = 0; d < dims[i]; d++)
          sum[r * dims[i] + d] = sum_of(&c.a, r, d);
      kt_check(update_run, &c);
      (mode & 1 ? check_kept : check_updated)(&c, sum);
      free(sum);
    }
}

/* Entries [FROM, TO) in order within pieces of 256, then the pieces. */
static float sum_in_order(const ts_row_update_args *a, int64_t from, int64_t to,
                          int32_t d) {
  float total = 0;
  while (from < to) {
    float piece = 0;
    for (int64_t end = from + 256; from < end && from < to; from++)
      piece += a->grad[a->grad_at[a->order[from]] + d];
    total += piece;
  }
  return total;
}

/* The order of float sums is the documented one. */
TS_TEST(order_of_sums) {
  update_case c;
  update_make(&c, &(spec){.kind = "sgd",
                          .dim = 17,
                          .lengths = runs,
                          .n_runs = TEST_COUNT(runs)});
  const ts_row_update_args *a = &c.a;
  memset(a->weight, 0, (size_t)PLACES * 17 * 4);
  for (int t = 0; t < TABLES; t++) c.hyper[t].lr = -1;
  kt_check(update_run, &c);
  const float *w = kt_ref(a->weight);
  for (int64_t from = 0, to; from < a->n; from = to) {
    for (to = from; to < a->n && a->keys[to] == a->keys[from]; to++) continue;
    for (int32_t d = 0; d < 17; d++)
      ck_assert_float_eq(w[a->keys[from] * 17 + (uint32_t)d],
                         sum_in_order(a, from, to, d));
  }
}

/* ---- 16-bit rows --------------------------------------------------------- */

/* One update of rows w = 1 of one entry each by a quarter of the distance to
 * the next value: the mean is right, values are one of the two neighbours. */
static void check_mean(ts_dtype t, int64_t step) {
  enum { N = 512, DIM = 40 };
  const int64_t base[] = {0, N}, first[] = {0};
  const int32_t id[] = {2}, col[] = {0}, width[] = {DIM};
  const float gap = t == TS_BF16 ? 0.0078125f : 0.0009765625f, one = 1;
  const ts_row_hyper h = {.lr = 1};
  uint32_t *keys = kt_array(N, 4, 0);
  float *grad = kt_array(DIM, 4, 0);
  uint16_t *w = kt_array(N * DIM, 2, 0);
  for (uint32_t i = 0; i < N; i++) keys[i] = i;
  for (int d = 0; d < DIM; d++) grad[d] = -0.25f * gap;
  for (int i = 0; i < N * DIM; i++) ts_from_f32(&w[i], &one, t, 1);
  const update_case c = {.a = {.optim = ts_row_optim_find("sgd"),
                               .hyper = &h,
                               .weight = w,
                               .dtype = t,
                               .dim = DIM,
                               .keys = keys,
                               .order = kt_zeros(N, 4),
                               .n = N,
                               .grad = grad,
                               .grad_at = kt_zeros(1, 8),
                               .row_base = base,
                               .n_tables = 1,
                               .table_id = id,
                               .first_row = first,
                               .first_col = col,
                               .row_dim = width,
                               .seed = 77,
                               .step = step}};
  kt_check(update_run, &c);
  int up = 0;
  for (int i = 0; i < N * DIM; i++) {
    const double x = (test_get(kt_ref(w), t, i) - 1) / gap;
    ck_assert(x == 0 || x == 1);
    up += x == 1;
  }
  /* 5 standard deviations of the binomial */
  const double sigma = sqrt(N * DIM * 0.25 * 0.75);
  ck_assert_double_eq_tol(up, N * DIM * 0.25, 5 * sigma);
}

TS_TEST(rounding_is_unbiased) {
  for (int64_t step = 1; step < 4; step++)
    for (ts_dtype t = TS_BF16; t <= TS_F16; t++) {
      kt_begin();
      check_mean(t, step);
    }
}

/* Rounding depends on seed, step, table, global row and column only. */
TS_TEST(rounding_is_keyed) {
  enum { DIM = 24, BYTES = ROWS * DIM * 2 };
  char first[BYTES];
  for (int variant = 0; variant < 5; variant++) {
    update_case c;
    update_make(&c, &(spec){.kind = "sgd",
                            .dtype = TS_BF16,
                            .dim = DIM,
                            .lengths = runs,
                            .n_runs = TEST_COUNT(runs)});
    if (variant == 1) c.a.seed++;
    if (variant == 2) c.a.step++;
    if (variant == 3) c.id[0]++;
    if (variant == 4) c.first_row[0]++;
    kt_check(update_run, &c);
    if (variant == 0) memcpy(first, kt_ref(c.a.weight), BYTES);
    if (variant) ck_assert_mem_ne(first, kt_ref(c.a.weight), BYTES);
  }
}

/* ---- optimizers ---------------------------------------------------------- */

enum { MANY = 12, PASSES = 36 };

/* PASSES passes over MANY rows of one table. */
typedef struct passes {
  update_case u; /* of the first pass, of at most MANY entries */
  ts_optim_config config;
  float *mean; /* (MANY, dim) at the end; NULL: rows have none */
  int64_t n[PASSES];
} passes;

static double factor(int pass) {
  return pass > 20 ? 0.5 : 1.0;
}

/* Rows that pass K touches: each about two times in three, row 0 never; row
 * 1 starts as zeros, row 2 gets zero gradients. */
static bool touched(int r, int k) {
  return r > 0 && (r * 7 + k * 5) % 3 != 0;
}

enum { DECAY_PERCENT = 80 }; /* of means */

static ts_err read_means(const ts_kernels *k, const passes *p) {
  const ts_row_update_args u = update_args(&p->u);
  const int last = p->u.own.n_states - 1;
  const ts_average_rows_args a = {.out = kt_at(p->mean),
                                  .weight = u.weight,
                                  .ema = u.state[last - 1],
                                  .ema_pass = u.state[last],
                                  .n = MANY,
                                  .dim = u.dim,
                                  .decay = 0.01 * DECAY_PERCENT,
                                  .pass = PASSES};
  return k->average_rows(&a);
}

static ts_err run_passes(const ts_kernels *k, const void *arg) {
  const passes *p = arg;
  ts_err err = TS_OK;
  for (int i = 0; i < PASSES && err == TS_OK; i++) {
    ts_row_hyper h = ts_row_hyper_at(&p->config, factor(i + 1), i + 1);
    h.ema = 0.01 * DECAY_PERCENT;
    ts_row_update_args a = update_args(&p->u);
    a.hyper = &h;
    a.n = p->n[i];
    a.keys += i * MANY;
    a.order = a.keys;
    a.grad += (int64_t)i * MANY * a.dim;
    a.step = i + 1;
    err = k->row_update(&a);
  }
  if (err == TS_OK && p->mean) err = read_means(k, p);
  return err;
}

/* After each pass of all rows E moves to W, which moved or did not. */
static void move_mean(double *e, const double *w, int32_t n) {
  for (int32_t d = 0; d < n; d++)
    e[d] = 0.01 * DECAY_PERCENT * e[d] + (1 - 0.01 * DECAY_PERCENT) * w[d];
}

/* Row R by formulas in double, compared with what the oracle left. */
static void check_row(const passes *p, int r) {
  const ts_row_update_args *a = &p->u.a;
  const int32_t dim = a->dim;
  double w[dim], s0[dim], s1[dim], g[dim], e[dim];
  test_step x = {.config = &p->config, .w = w, .s = {s0, s1}, .g = g, .n = dim};
  for (int32_t d = 0; d < dim; d++) {
    w[d] = e[d] = ((const float *)a->weight)[r * dim + d];
    s0[d] = s1[d] = 0;
  }
  for (x.pass = 1; x.pass <= PASSES; x.pass++, move_mean(e, w, dim)) {
    if (!touched(r, x.pass)) continue;
    for (int32_t d = 0; d < dim; d++)
      g[d] = a->grad[((x.pass - 1) * MANY + r) * dim + d];
    x.lr = p->config.lr * factor(x.pass);
    test_optim_step(&x);
  }
  const float *got = (float *)kt_ref(a->weight) + r * dim;
  for (int32_t d = 0; d < dim; d++)
    ck_assert_msg(fabs(got[d] - w[d]) <= 3e-5 * (1 + fabs(w[d])),
                  "%s, decay mode %d, dim %d, row %d column %d: %.8g, not %.8g",
                  p->config.kind, (int)p->config.weight_decay_mode, dim, r, d,
                  (double)got[d], w[d]);
  for (int32_t d = 0; p->mean && d < dim; d++)
    ck_assert_double_eq_tol(((float *)kt_ref(p->mean))[r * dim + d], e[d],
                            3e-5 * (1 + fabs(e[d])));
  for (int k = 0; k < a->optim->n_states - (p->mean ? 2 : 0); k++) {
    const int32_t cols = a->optim->state[k].per_row ? 1 : dim;
    const float *state = (float *)kt_ref(a->state[k]) + r * cols;
    for (int32_t d = 0; d < cols; d++)
      ck_assert_double_eq_tol(state[d], x.s[k][d],
                              3e-5 * (1 + fabs(x.s[k][d])));
  }
}

static void fill_passes(passes *p, uint32_t *keys, float *w, float *grad) {
  const int32_t dim = p->u.a.dim;
  test_floats(w, MANY * dim, 99);
  memset(w + dim, 0, (size_t)dim * 4);
  for (int i = 0; i < PASSES; i++)
    for (int r = 0; r < MANY; r++) {
      float *g = grad + (i * MANY + r) * dim;
      test_floats(g, dim, (uint64_t)(r * 1000 + i + 1));
      for (int32_t d = 0; d < dim; d++) g[d] = r == 2 ? 0 : g[d] * 0.5f;
      if (touched(r, i + 1)) keys[i * MANY + p->n[i]++] = (uint32_t)r;
    }
}

static void check_kind(const char *kind, ts_wd_mode mode, int32_t dim,
                       bool means) {
  static const int64_t base[] = {0, MANY}, first[] = {0};
  static const int32_t id[] = {0}, col[] = {0};
  passes p = {.config = test_optim(kind, 0.05)};
  ts_row_update_args *a = &p.u.a;
  p.config.weight_decay_mode = mode;
  if (mode != TS_WD_NONE) p.config.weight_decay = 0.1;
  if (!strcmp(kind, "lars_sgd")) p.config.eta = 0.5;
  ck_assert_ok(ts_row_optim_check(&p.config, "t"));
  kt_begin();
  uint32_t *keys = kt_zeros(MANY * PASSES, 4);
  float *w = kt_array(MANY * dim, 4, 0);
  float *grad = kt_array(MANY * dim * PASSES, 4, 0);
  int64_t *at = kt_array(MANY, 8, 0);
  for (int r = 0; r < MANY; r++) at[r] = (int64_t)r * dim;
  p.u.own = update_optim(kind, means);
  p.mean = means ? kt_zeros(MANY * dim, 4) : NULL;
  *a = (ts_row_update_args){.optim = &p.u.own,
                            .weight = w,
                            .dim = dim,
                            .keys = keys,
                            .grad = grad,
                            .grad_at = at,
                            .row_base = base,
                            .n_tables = 1,
                            .table_id = id,
                            .first_row = first,
                            .first_col = col,
                            .row_dim = &a->dim};
  for (int k = 0; k < a->optim->n_states; k++)
    a->state[k] = kt_zeros(MANY * (a->optim->state[k].per_row ? 1 : dim), 4);
  fill_passes(&p, keys, w, grad);
  kt_check(run_passes, &p);
  for (int r = 0; r < MANY; r++) check_row(&p, r);
  ck_assert_mem_eq(kt_ref(w), w, (size_t)dim * 4); /* row 0: lazy */
}

TS_TESTS(against_double, 0, UPDATE_KINDS) {
  const int options = ts_row_optim_find(update_kinds[_i])->options;
  for (int d = 0; d < TEST_COUNT(dims); d++) {
    check_kind(update_kinds[_i], TS_WD_NONE, dims[d], false);
    check_kind(update_kinds[_i], TS_WD_NONE, dims[d], true);
    if (options & TS_OPT_WD_L2)
      check_kind(update_kinds[_i], TS_WD_L2, dims[d], d % 2);
    if (options & TS_OPT_WD_DECOUPLED)
      check_kind(update_kinds[_i], TS_WD_DECOUPLED, dims[d], true);
  }
}

/* ---- options ------------------------------------------------------------- */

TS_TEST(options_refused) {
#define OPTION(name) offsetof(ts_optim_config, name)
  static const struct {
    const char *kind;
    size_t option;
    double value;
    ts_wd_mode mode;
    const char *words;
  } cases[] = {
      {"sgd", OPTION(momentum), 0.9, TS_WD_NONE, "momentum"},
      {"sgd", OPTION(eps), 1e-8, TS_WD_NONE, "eps"},
      {"rowwise_adagrad", OPTION(beta2), 0.9, TS_WD_NONE, "beta2"},
      {"adam", OPTION(eta), 1, TS_WD_NONE, "eta"},
      /* mode "none" would ignore it */
      {"adagrad", OPTION(weight_decay), 0.1, TS_WD_NONE, "weight_decay_mode"},
      {"lamb", OPTION(lr), NAN, TS_WD_L2, "l2"},
      {"lars_sgd", OPTION(lr), NAN, TS_WD_DECOUPLED, "decoupled"},
      {"adamax", OPTION(lr), NAN, TS_WD_NONE, "partial_rowwise_adam"}};
  for (int i = 0; i < TEST_COUNT(cases); i++) {
    ts_optim_config c = test_optim(cases[i].kind, NAN);
    memcpy((char *)&c + cases[i].option, &cases[i].value, sizeof(double));
    c.weight_decay_mode = cases[i].mode;
    ck_assert_int_eq(ts_row_optim_check(&c, "items"), TS_ERR_DECK);
    ck_assert_ptr_nonnull(strstr(ts_err_message(), cases[i].words));
    ck_assert_ptr_nonnull(strstr(ts_err_message(), "items"));
    ts_err_clear();
  }
}

TS_TEST(defaults) {
  for (int i = 0; i < UPDATE_KINDS; i++) {
    ts_optim_config c = test_optim(update_kinds[i], NAN);
    ck_assert_ptr_nonnull(strstr(TS_LISTED(TS_ROW_OPTIMS), update_kinds[i]));
    ck_assert_ok(ts_row_optim_check(&c, "items"));
    ck_assert_double_eq(c.lr, 0.01);
    ck_assert_double_eq(c.weight_decay, 0);
  }
  ts_optim_config c = test_optim("adam", NAN);
  ck_assert_ok(ts_row_optim_check(&c, "items"));
  ck_assert_double_eq(c.eps, 1e-8);
  ck_assert_double_eq(c.beta1, 0.9);
  ck_assert_double_eq(c.beta2, 0.999);
  const ts_row_hyper h = ts_row_hyper_at(&c, 0.5, 2);
  ck_assert_double_eq_tol(h.lr, 0.005, 1e-9);
  ck_assert_double_eq_tol(h.correction1, 1 / (1 - 0.81), 1e-5);
  ck_assert_double_eq_tol(h.correction2, 1 / (1 - 0.999 * 0.999), 1e-2);
}
