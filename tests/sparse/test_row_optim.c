/* test_row_optim.c - every row optimizer over many passes against formulas in
 * double on dense arrays; options that an optimizer lacks are refused.
 * ranks: 1
 * seconds: 400 */
#include <omp.h>

#include "base/kinds.h"
#include "sparse/row_optim.h"
#include "tests/support/optim_config.h"
#include "tests/support/sparse_util.h"

enum { ROWS = 12, PASSES = 36 };

static ts_optim_config settings(const char *kind) {
  return test_optim(kind, NAN);
}

/* ---- the oracle: one row, in double -------------------------------------- */

typedef struct {
  double *w, *s[2]; /* (dim) each; a state of one per row is in [0] */
  int dim;
  double lr, eps, b1, b2, momentum, eta, wd;
  bool l2, decoupled;
} row;

static double norm(const double *x, int n) {
  double sum = 0;
  for (int d = 0; d < n; d++) sum += x[d] * x[d];
  return sqrt(sum);
}

static void step_sgd(row *r, const double *g) {
  for (int d = 0; d < r->dim; d++) {
    const double x = r->l2 ? g[d] + r->wd * r->w[d] : g[d];
    if (r->decoupled) r->w[d] -= r->lr * r->wd * r->w[d];
    r->w[d] -= r->lr * x;
  }
}

static void step_adagrad(row *r, const double *g, bool per_row) {
  double x[r->dim], mean = 0;
  for (int d = 0; d < r->dim; d++) {
    x[d] = r->l2 ? g[d] + r->wd * r->w[d] : g[d];
    mean += x[d] * x[d] / r->dim;
  }
  if (per_row) r->s[0][0] += mean;
  for (int d = 0; d < r->dim; d++) {
    if (!per_row) r->s[0][d] += x[d] * x[d];
    const double m = r->s[0][per_row ? 0 : d];
    if (r->decoupled) r->w[d] *= 1 - r->lr * r->wd;
    r->w[d] -= r->lr * x[d] / (sqrt(m) + r->eps);
  }
}

/* Adam's direction (without decay) into X; states move. */
static void moments(row *r, const double *g, bool per_row, int k, double *x) {
  double mean = 0;
  for (int d = 0; d < r->dim; d++) mean += g[d] * g[d] / r->dim;
  if (per_row) r->s[1][0] = r->b2 * r->s[1][0] + (1 - r->b2) * mean;
  for (int d = 0; d < r->dim; d++) {
    r->s[0][d] = r->b1 * r->s[0][d] + (1 - r->b1) * g[d];
    if (!per_row) r->s[1][d] = r->b2 * r->s[1][d] + (1 - r->b2) * g[d] * g[d];
    const double m = r->s[0][d] / (1 - pow(r->b1, k));
    const double v = r->s[1][per_row ? 0 : d] / (1 - pow(r->b2, k));
    x[d] = m / (sqrt(v) + r->eps);
  }
}

static void step_adam(row *r, const double *g, bool per_row, int k) {
  double x[r->dim], y[r->dim];
  for (int d = 0; d < r->dim; d++) y[d] = r->l2 ? g[d] + r->wd * r->w[d] : g[d];
  moments(r, y, per_row, k, x);
  for (int d = 0; d < r->dim; d++)
    r->w[d] -= r->lr * (x[d] + (r->decoupled ? r->wd * r->w[d] : 0));
}

static void step_lamb(row *r, const double *g, bool per_row, int k) {
  double x[r->dim];
  moments(r, g, per_row, k, x);
  for (int d = 0; d < r->dim; d++) x[d] += (r->decoupled ? r->wd : 0) * r->w[d];
  const double a = norm(r->w, r->dim), b = norm(x, r->dim);
  for (int d = 0; d < r->dim; d++)
    r->w[d] -= r->lr * (a > 0 && b > 0 ? a / b : 1) * x[d];
}

static void step_lars(row *r, const double *g) {
  const double a = norm(r->w, r->dim), b = norm(g, r->dim);
  const double wd = r->l2 ? r->wd : 0;
  const double rate =
      a > 0 && b > 0 ? r->lr * r->eta * a / (b + wd * a) : r->lr;
  for (int d = 0; d < r->dim; d++) {
    r->s[0][d] = r->momentum * r->s[0][d] + rate * (g[d] + wd * r->w[d]);
    r->w[d] -= r->s[0][d];
  }
}

static void step(const char *kind, row *r, const double *g, int k) {
  const bool per_row = strstr(kind, "rowwise") != NULL;
  if (!strcmp(kind, "sgd"))
    step_sgd(r, g);
  else if (strstr(kind, "adagrad"))
    step_adagrad(r, g, per_row);
  else if (strstr(kind, "adam"))
    step_adam(r, g, per_row, k);
  else if (strstr(kind, "lamb"))
    step_lamb(r, g, per_row, k);
  else if (!strcmp(kind, "lars_sgd"))
    step_lars(r, g);
  else
    ck_abort_msg("no oracle for %s", kind);
}

/* ---- passes ---------------------------------------------------------------
 */

/* Rows that pass K touches: each about two times in three, row 0 never; row
 * 1 starts as zeros, row 2 gets zero gradients. */
static bool touched(int r, int k) {
  return r > 0 && (r * 7 + k * 5) % 3 != 0;
}

static void gradient(float *g, int32_t dim, int r, int k) {
  test_floats(g, dim, (uint64_t)(r * 1000 + k));
  for (int32_t d = 0; d < dim; d++) g[d] = r == 2 ? 0 : g[d] * 0.5f;
}

typedef struct {
  const ts_row_optim *optim;
  ts_optim_config config;
  int32_t dim;
  float *start, *w, *state[2], *g; /* (ROWS, dim) */
} optim_case;

static ts_err run(const optim_case *c, const ts_kernels *k) {
  const size_t bytes = (size_t)(ROWS * c->dim) * 4;
  memcpy(c->w, c->start, bytes);
  for (int s = 0; s < 2; s++) memset(c->state[s], 0, bytes);
  for (int pass = 1; pass <= PASSES; pass++) {
    const ts_row_hyper h =
        ts_row_hyper_at(&c->config, pass > 20 ? 0.5 : 1.0, pass);
    uint32_t keys[ROWS], order[ROWS];
    int64_t at[ROWS], n = 0, base[2] = {0, ROWS}, first[1] = {0};
    int32_t id[1] = {0};
    for (int r = 0; r < ROWS; r++) {
      at[r] = (int64_t)r * c->dim;
      gradient(c->g + at[r], c->dim, r, pass);
      if (touched(r, pass)) keys[n] = order[n] = (uint32_t)r, n++;
    }
    const ts_row_update_args a = {.optim = c->optim,
                                  .hyper = &h,
                                  .weight = c->w,
                                  .dtype = TS_F32,
                                  .dim = c->dim,
                                  .state = {c->state[0], c->state[1]},
                                  .keys = keys,
                                  .order = order,
                                  .n = n,
                                  .grad = c->g,
                                  .grad_at = at,
                                  .row_base = base,
                                  .n_tables = 1,
                                  .table_id = id,
                                  .first_row = first,
                                  .first_col = (const int32_t[]){0},
                                  .row_dim = &c->dim,
                                  .step = pass};
    const ts_err err = k->row_update(&a);
    if (err != TS_OK) return err;
  }
  return TS_OK;
}

/* ROW r of the case by the oracle, compared with what the kernels left. */
static void compare(const optim_case *c, int r) {
  const ts_optim_config *o = &c->config;
  double w[c->dim], s0[c->dim], s1[c->dim], wide[c->dim];
  float g[c->dim];
  row x = {.w = w,
           .s = {s0, s1},
           .dim = c->dim,
           .eps = o->eps,
           .b1 = o->beta1,
           .b2 = o->beta2,
           .momentum = o->momentum,
           .eta = o->eta,
           .wd = o->weight_decay,
           .l2 = o->weight_decay_mode == TS_WD_L2,
           .decoupled = o->weight_decay_mode == TS_WD_DECOUPLED};
  for (int32_t d = 0; d < c->dim; d++) {
    w[d] = c->start[r * c->dim + d];
    s0[d] = s1[d] = 0;
  }
  for (int pass = 1; pass <= PASSES; pass++) {
    if (!touched(r, pass)) continue;
    gradient(g, c->dim, r, pass);
    for (int32_t d = 0; d < c->dim; d++) wide[d] = g[d];
    x.lr = o->lr * (pass > 20 ? 0.5 : 1.0);
    step(o->kind, &x, wide, pass);
  }
  for (int32_t d = 0; d < c->dim; d++) {
    const double got = c->w[r * c->dim + d];
    if (!(fabs(got - w[d]) <= 3e-5 * (1 + fabs(w[d]))))
      ck_abort_msg(
          "%s, decay mode %d, dim %d, row %d column %d: %.8g, not %.8g",
          o->kind, (int)o->weight_decay_mode, c->dim, r, d, got, w[d]);
  }
  for (int k = 0; k < c->optim->n_states; k++) {
    const int32_t cols = c->optim->state[k].per_row ? 1 : c->dim;
    for (int32_t d = 0; d < cols; d++)
      ck_assert_double_eq_tol(c->state[k][r * cols + d], x.s[k][d],
                              3e-5 * (1 + fabs(x.s[k][d])));
  }
}

static void check_case(const optim_case *c) {
  const size_t bytes = (size_t)(ROWS * c->dim) * 4;
  float *first = test_alloc(ROWS * c->dim, 4);
  ts_kernels k;
  for (int isa = 0; test_kernels(&k, isa); isa++) {
    ck_assert_int_eq(run(c, &k), TS_OK);
    for (int r = 0; r < ROWS; r++) compare(c, r);
    if (isa == 0) memcpy(first, c->w, bytes);
    ck_assert_mem_eq(first, c->w, bytes);
  }
  ck_assert_mem_eq(first, c->start, (size_t)c->dim * 4); /* row 0: lazy */
  free(first);
}

static void check_kind(const char *kind, ts_wd_mode mode, int32_t dim) {
  optim_case c = {
      .optim = ts_row_optim_find(kind), .config = settings(kind), .dim = dim};
  c.config.weight_decay_mode = mode;
  c.config.lr = 0.05;
  if (mode != TS_WD_NONE) c.config.weight_decay = 0.1;
  if (!strcmp(kind, "lars_sgd")) c.config.eta = 0.5;
  ck_assert_int_eq(ts_row_optim_check(&c.config, "t"), TS_OK);
  c.start = test_alloc(ROWS * dim, 4);
  c.w = test_alloc(ROWS * dim, 4);
  c.g = test_alloc(ROWS * dim, 4);
  c.state[0] = test_alloc(ROWS * dim, 4);
  c.state[1] = test_alloc(ROWS * dim, 4);
  test_floats(c.start, ROWS * dim, 99);
  memset(c.start + dim, 0, (size_t)dim * 4);
  check_case(&c);
  free(c.start);
  free(c.w);
  free(c.g);
  free(c.state[0]);
  free(c.state[1]);
}

static const char *const kinds[] = {"sgd",
                                    "adagrad",
                                    "rowwise_adagrad",
                                    "adam",
                                    "partial_rowwise_adam",
                                    "lamb",
                                    "partial_rowwise_lamb",
                                    "lars_sgd"};

TS_TEST(against_double) {
  static const int32_t dims[] = {1, 3, 4, 15, 16, 24, 64, 128, 200, 520};
  omp_set_num_threads(2);
  for (int i = 0; i < TEST_COUNT(kinds); i++) {
    const int options = ts_row_optim_find(kinds[i])->options;
    for (int d = 0; d < TEST_COUNT(dims); d++) {
      check_kind(kinds[i], TS_WD_NONE, dims[d]);
      if (options & TS_OPT_WD_L2) check_kind(kinds[i], TS_WD_L2, dims[d]);
      if (options & TS_OPT_WD_DECOUPLED)
        check_kind(kinds[i], TS_WD_DECOUPLED, dims[d]);
    }
  }
}

/* ---- options --------------------------------------------------------------
 */

static void refused(ts_optim_config c, const char *words) {
  ts_err_record record;
  ck_assert_int_eq(ts_row_optim_check(&c, "items"), TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), words));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "items"));
  ts_err_take(&record);
}

TS_TEST(options_refused) {
  ts_optim_config c = settings("sgd");
  c.momentum = 0.9;
  refused(c, "momentum");
  c = settings("sgd");
  c.eps = 1e-8;
  refused(c, "eps");
  c = settings("rowwise_adagrad");
  c.beta2 = 0.9;
  refused(c, "beta2");
  c = settings("adam");
  c.eta = 1;
  refused(c, "eta");
  c = settings("adagrad");
  c.weight_decay = 0.1; /* mode "none" would ignore it */
  refused(c, "weight_decay_mode");
  c = settings("lamb");
  c.weight_decay_mode = TS_WD_L2;
  refused(c, "l2");
  c = settings("lars_sgd");
  c.weight_decay_mode = TS_WD_DECOUPLED;
  refused(c, "decoupled");
  refused(settings("adamax"), "partial_rowwise_adam");
}

TS_TEST(defaults) {
  for (int i = 0; i < TEST_COUNT(kinds); i++) {
    ts_optim_config c = settings(kinds[i]);
    ck_assert_ptr_nonnull(strstr(TS_LISTED(TS_ROW_OPTIMS), kinds[i]));
    ck_assert_int_eq(ts_row_optim_check(&c, "items"), TS_OK);
    ck_assert_double_eq(c.lr, 0.01);
    ck_assert_double_eq(c.weight_decay, 0);
  }
  ts_optim_config c = settings("adam");
  ck_assert_int_eq(ts_row_optim_check(&c, "items"), TS_OK);
  ck_assert_double_eq(c.eps, 1e-8);
  ck_assert_double_eq(c.beta1, 0.9);
  ck_assert_double_eq(c.beta2, 0.999);
  const ts_row_hyper h = ts_row_hyper_at(&c, 0.5, 2);
  ck_assert_double_eq_tol(h.lr, 0.005, 1e-9);
  ck_assert_double_eq_tol(h.correction1, 1 / (1 - 0.81), 1e-5);
  ck_assert_double_eq_tol(h.correction2, 1 / (1 - 0.999 * 0.999), 1e-2);
}
