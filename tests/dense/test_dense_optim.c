/* test_dense_optim.c - dense optimizers on whole parameters and on pieces of
 * them, against formulas in double.
 * ranks: 1  fake: 1 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "dense/optim.h"
#include "tests/support/harness.h"
#include "tests/support/optim_config.h"
#include "kernel_table.h"

enum { N = 9001, STEPS = 12 };

static const double lr_factor = 0.7, grad_factor = 0.5;

static float draw(uint32_t kind, uint32_t i) {
  uint32_t x[4];
  ts_rng4(x, 5, 90, kind, i, 0);
  return 2 * ts_rng_unit(x[0]) - 1;
}

static ts_optim_config settings(char *kind, ts_wd_mode mode) {
  ts_optim_config c = test_optim(kind, 0.03);
  c.weight_decay = 0.02;
  c.weight_decay_mode = mode;
  ck_assert_ok(ts_dense_optim_check(&c, "test"));
  return c;
}

/* ---- the reference ------------------------------------------------------- */

static double rw[N], rs[2][N];

static double norm(const double *x) {
  double sum = 0;
  for (int i = 0; i < N; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

static void refer_sgd(const ts_optim_config *c, const float *g, double lr) {
  const bool decoupled = c->weight_decay_mode == TS_WD_DECOUPLED;
  for (int i = 0; i < N; i++) {
    const double l2 =
        c->weight_decay_mode == TS_WD_L2 ? c->weight_decay * rw[i] : 0;
    if (decoupled) rw[i] *= 1 - lr * c->weight_decay;
    rs[0][i] = 0.9 * rs[0][i] + grad_factor * g[i] + l2;
    rw[i] -= lr * rs[0][i];
  }
}

static void refer_adam(const ts_optim_config *c, const float *g, double lr,
                       int k, bool lamb) {
  static double r[N];
  const double wd = c->weight_decay_mode == TS_WD_NONE ? 0 : c->weight_decay;
  for (int i = 0; i < N; i++) {
    const double x = grad_factor * g[i];
    rs[0][i] = 0.9 * rs[0][i] + 0.1 * x;
    rs[1][i] = 0.999 * rs[1][i] + 0.001 * x * x;
    r[i] = rs[0][i] / (1 - pow(0.9, k)) /
               (sqrt(rs[1][i] / (1 - pow(0.999, k))) + 1e-8) +
           wd * rw[i];
  }
  const double ww = norm(rw), rr = norm(r);
  if (lamb && ww > 0 && rr > 0) lr *= ww / rr;
  for (int i = 0; i < N; i++) rw[i] -= lr * r[i];
}

static void refer_lars(const ts_optim_config *c, const float *g, double lr) {
  static double x[N];
  const double wd = c->weight_decay_mode == TS_WD_NONE ? 0 : c->weight_decay;
  for (int i = 0; i < N; i++) x[i] = grad_factor * g[i];
  const double ww = norm(rw), below = norm(x) + wd * ww;
  const double a = ww > 0 && below > 0 ? lr * 0.001 * ww / below : lr;
  for (int i = 0; i < N; i++) {
    rs[0][i] = 0.9 * rs[0][i] + a * (x[i] + wd * rw[i]);
    rw[i] -= rs[0][i];
  }
}

static void refer(const ts_optim_config *c, const float *g, int k) {
  const double lr = c->lr * lr_factor;
  if (!strcmp(c->kind, "momentum")) refer_sgd(c, g, lr);
  if (!strcmp(c->kind, "adamw")) refer_adam(c, g, lr, k, false);
  if (!strcmp(c->kind, "lamb")) refer_adam(c, g, lr, k, true);
  if (!strcmp(c->kind, "lars")) refer_lars(c, g, lr);
}

/* ---- a run --------------------------------------------------------------- */

static float w[N], g[N], s[2][N];
/* The same where kernels see them. */
static float *kw, *kg, *ks[2];
static ts_device *device;

static void lend(void) {
  kw = ts_test_lend(device, w, sizeof w, true);
  kg = ts_test_lend(device, g, sizeof g, false);
  for (int i = 0; i < 2; i++)
    ks[i] = ts_test_lend(device, s[i], sizeof s[i], true);
}

static void reclaim(void) {
  ts_test_reclaim(device, w, kw, sizeof w, true);
  ts_test_reclaim(device, g, kg, sizeof g, false);
  for (int i = 0; i < 2; i++)
    ts_test_reclaim(device, s[i], ks[i], sizeof s[i], false);
}

/* The whole, or pieces whose sums are added outside. */
static void update(const ts_kernels *k, const ts_optim_config *c, int step,
                   int n_pieces) {
  const double zeros[2] = {0};
  double *sums = ts_test_lend(device, zeros, sizeof zeros, true), own[2] = {0};
  if (sums == zeros) sums = own;
  ts_dense_update_args a = {.optim = c,
                            .lr_factor = lr_factor,
                            .grad_factor = grad_factor,
                            .step = step};
  for (int pass = 0; pass < 2; pass++)
    for (int p = 0; p < n_pieces; p++) {
      const int from = N * p / n_pieces;
      a.n = N * (p + 1) / n_pieces - from;
      a.w = kw + from;
      a.grad = kg + from;
      for (int i = 0; i < ts_dense_optim_n_states(c); i++)
        a.state[i] = ks[i] + from;
      a.stats = n_pieces > 1 ? sums : NULL;
      if (pass) {
        ck_assert_ok(k->dense_update(&a, 1));
      } else if (n_pieces > 1 && ts_dense_optim_has_norms(c)) {
        ck_assert_ok(k->dense_stats(&a, sums));
      }
    }
  if (sums != own) ts_test_reclaim(device, zeros, sums, sizeof zeros, false);
}

static void run(const ts_kernels *k, const ts_optim_config *c, int n_pieces,
                double first, bool check) {
  memset(s, 0, sizeof s);
  memset(rs, 0, sizeof rs);
  for (int i = 0; i < N; i++)
    rw[i] = w[i] = (float)first * draw(1, (uint32_t)i);
  lend();
  for (int step = 1; step <= STEPS; step++) {
    for (int i = 0; i < N; i++) g[i] = draw(2, (uint32_t)(step * N + i));
    if (check) refer(c, g, step);
    if (kg != g) ts_test_put(device, kg, g, sizeof g);
    update(k, c, step, n_pieces);
  }
  reclaim();
  for (int i = 0; check && i < N; i++)
    ck_assert_float_eq_tol(w[i], (float)rw[i], 3e-6f);
}

static char kinds[][9] = {"momentum", "adamw", "lamb", "lars"};
static const char *const isas[] = {"ref", "avx2", "avx512"};

static void start(void) {
  ck_assert_ok(ts_test_device(&device, true, 1));
}

static void stop(void) {
  ts_device_destroy(device);
}

TS_TESTS_BETWEEN(start, stop)

TS_TESTS(against_formulas, 0, 3) {
  ts_kernels k;
  const bool own = strcmp(ts_test_backend(), "host") == 0;
  if (!own && _i) return; /* it has no others */
  if (own && ts_kernels_fill(&k, "host", isas[_i]) != TS_OK) {
    ts_err_clear();
    return;
  }
  if (!own) ck_assert_ok(ts_test_kernels(&k));
  for (int o = 0; o < 4; o++)
    for (int mode = TS_WD_NONE; mode <= TS_WD_DECOUPLED; mode++) {
      ts_optim_config c = settings(kinds[o], (ts_wd_mode)mode);
      run(&k, &c, 1, 1.0, true);
      run(&k, &c, 3, 1.0, true);
      run(&k, &c, 1, 0.0, true); /* a norm of zero: they move */
    }
}

TS_TEST(threads_change_nothing) {
  static float one[N];
  ts_kernels k;
  ck_assert_ok(ts_test_kernels(&k));
  for (int o = 0; o < 4; o++) {
    ts_optim_config c = settings(kinds[o], TS_WD_L2);
    omp_set_num_threads(1);
    run(&k, &c, 1, 1.0, false);
    memcpy(one, w, sizeof one);
    omp_set_num_threads(3);
    run(&k, &c, 1, 1.0, false);
    ck_assert(memcmp(one, w, sizeof one) == 0);
  }
  omp_set_num_threads(1);
}

TS_TEST(defaults_and_refusals) {
  ts_optim_config c = settings(kinds[0], TS_WD_L2);
  ck_assert(c.momentum == 0.9 && ts_dense_optim_n_states(&c) == 1);
  c = settings(kinds[1], TS_WD_L2);
  ck_assert_int_eq(c.weight_decay_mode, TS_WD_DECOUPLED);
  c = settings(kinds[3], TS_WD_L2);
  ck_assert(c.momentum == 0.9 && c.eta == 0.001);
  c.beta1 = 0.5;
  ck_assert_int_eq(ts_dense_optim_check(&c, "x"), TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "lars has no beta1"));
  ts_err_clear();
  c = settings(kinds[2], TS_WD_L2);
  c.eta = 0.1;
  ck_assert_int_eq(ts_dense_optim_check(&c, "x"), TS_ERR_DECK);
  ts_err_clear();
}
