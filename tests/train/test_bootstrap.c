/* test_bootstrap.c - two models' figures and the interval of their difference,
 * beside plain loops over pairs of samples: ties, weights, soft labels; the
 * same bits on any ranks and threads.
 * ranks: 1 2 4 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/harness.h"
#include "train/metrics_bootstrap.h"

enum { N = 151, KINDS = TS_PAIRED_KINDS, MOST = 300, SEED = 7 };

static ts_fixture f;

static void start(void) {
  ts_fixture_start(&f, false, 1);
}
static void stop(void) {
  ts_fixture_stop(&f);
}
TS_EACH_TEST_BETWEEN(start, stop)

static float p[2][N], y[N], w[N];

/* Eleven values of a prediction, so that most are tied; the second model knows
 * SHARE of the label.  Weights are 0 to 3. */
static ts_paired_samples make(float share) {
  for (int i = 0; i < N; i++) {
    uint32_t x[4];
    ts_rng4(x, 3, TS_RNG_TEST, (uint64_t)i, 0, 0);
    y[i] = i % 10 ? (float)(x[0] % 3 == 0) : 0.25f;
    w[i] = (float)(x[1] % 4);
    p[0][i] = (float)(1 + x[2] % 11) / 12;
    p[1][i] = (1 - share) * (float)(1 + x[3] % 11) / 12 + share * y[i];
  }
  return (ts_paired_samples){{p[0], p[1]}, y, w, N};
}

/* ---- plainly ------------------------------------------------------------- */

static double copies_of(int i, int r) {
  uint32_t x[4];
  double share = exp(-1), sum = share;
  int k = 0;
  ts_rng4(x, SEED, TS_RNG_BOOTSTRAP, (uint64_t)i / 4, (uint32_t)r, 0);
  for (; (double)x[i % 4] >= sum * 0x1p32; sum += share) share /= ++k;
  return k;
}

/* R < 0: the samples as they are. */
static void plain_figures(double to[KINDS], const float *of, int r) {
  double v[N], area = 0, pairs = 0, loss = 0, all = 0, pos = 0;
  for (int i = 0; i < N; i++)
    v[i] = (double)w[i] * (r < 0 ? 1 : copies_of(i, r));
  for (int i = 0; i < N; i++) {
    const double yi = (double)y[i],
                 q = fmin(fmax((double)of[i], 1e-12), 1 - 1e-12);
    for (int j = 0; j < N; j++) {
      const double one = v[i] * yi * v[j] * (1 - (double)y[j]);
      pairs += one;
      area += of[i] > of[j] ? one : of[i] == of[j] ? one / 2 : 0;
    }
    all += v[i];
    pos += v[i] * yi;
    loss -= v[i] * (yi * log(q) + (1 - yi) * log(1 - q));
  }
  const double b = pos / all;
  to[0] = area / pairs;
  to[1] = loss / all;
  to[2] = to[1] / -(b * log(b) + (1 - b) * log(1 - b));
}

static int by_value(const void *a, const void *b) {
  const double d = *(const double *)a - *(const double *)b;
  return (d > 0) - (d < 0);
}

static double plain_quantile(double *x, int n, double share) {
  qsort(x, (size_t)n, sizeof *x, by_value);
  const double at = share * (n - 1), low = floor(at);
  return x[(int)low] * (1 - (at - low)) + x[(int)ceil(at)] * (at - low);
}

/* ---- and as it is -------------------------------------------------------- */

static void near(double got, double want) {
  ck_assert_double_eq_tol(got, want, 1e-9);
}

TS_TESTS(figures_and_interval_are_the_plain_ones, 0, 2) {
  const int n = _i ? MOST : 101;
  const ts_paired_samples s = make(0.2f);
  double a[KINDS], b[KINDS];
  static double apart[KINDS][MOST];
  ts_paired got[KINDS];
  ck_assert_ok(
      ts_metrics_bootstrap(got, &s, &(ts_bootstrap){n, SEED, 2, "it"}, f.comm));
  for (int r = 0; r < n; r++) {
    plain_figures(a, p[0], r);
    plain_figures(b, p[1], r);
    for (int k = 0; k < KINDS; k++) apart[k][r] = b[k] - a[k];
  }
  plain_figures(a, p[0], -1);
  plain_figures(b, p[1], -1);
  for (int k = 0; k < KINDS; k++) {
    near(got[k].of[0], a[k]);
    near(got[k].of[1], b[k]);
    near(got[k].low, plain_quantile(apart[k], n, 0.025));
    near(got[k].high, plain_quantile(apart[k], n, 0.975));
    ck_assert_double_lt(got[k].low, got[k].high);
  }
}

/* The same samples over and over: enough that threads run beside each other. */
TS_TEST(ranks_and_threads_change_no_bit) {
  enum { MANY = 100 * N };
  static float many[4][MANY];
  const ts_paired_samples few = make(0.2f);
  const ts_paired_samples s = {{many[0], many[1]}, many[2], many[3], MANY};
  ts_bootstrap o = {100, SEED, 3, "it"};
  ts_paired all[KINDS], alone[KINDS];
  ts_comm *own;
  for (int i = 0; i < MANY; i++) {
    for (int m = 0; m < 2; m++) many[m][i] = few.prediction[m][i % N];
    many[2][i] = y[i % N];
    many[3][i] = w[i % N];
  }
  ck_assert_ok(ts_comm_create_block(f.world, &own, 1, "own"));
  ck_assert_ok(ts_metrics_bootstrap(all, &s, &o, f.comm));
  o.n_threads = 1;
  ck_assert_ok(ts_metrics_bootstrap(alone, &s, &o, own));
  ck_assert_mem_eq(all, alone, sizeof all);
  o.seed++;
  ck_assert_ok(ts_metrics_bootstrap(alone, &s, &o, own));
  ck_assert(memcmp(all, alone, sizeof all) != 0);
  ts_comm_destroy(own);
}

/* Words follow what is better: more AUC, less loss; the same model is not. */
TS_TEST(which_is_better) {
  ts_paired_samples s = make(0.9f);
  const ts_bootstrap o = {200, SEED, 1, "it"};
  ts_paired got[KINDS];
  for (int turned = 0; turned < 2; turned++) {
    s.prediction[0] = p[turned], s.prediction[1] = p[!turned];
    ck_assert_ok(ts_metrics_bootstrap(got, &s, &o, f.comm));
    for (int k = 0; k < KINDS; k++)
      ck_assert_int_eq(ts_paired_better(&got[k], k), turned ? -1 : 1);
  }
  s.prediction[1] = s.prediction[0];
  ck_assert_ok(ts_metrics_bootstrap(got, &s, &o, f.comm));
  for (int k = 0; k < KINDS; k++) {
    ck_assert_double_eq(got[k].of[0], got[k].of[1]);
    ck_assert(got[k].low == 0 && got[k].high == 0);
    ck_assert_int_eq(ts_paired_better(&got[k], k), 0);
  }
}

/* Of one class alone no order is known. */
TS_TEST(a_class_is_missing) {
  ts_paired_samples s = make(0.2f);
  ts_paired got[KINDS];
  for (int i = 0; i < N; i++) y[i] = 1;
  ck_assert_ok(ts_metrics_bootstrap(
      got, &s, &(ts_bootstrap){100, SEED, 1, "it"}, f.comm));
  ck_assert(got[0].of[0] == 0.5 && got[0].of[1] == 0.5);
  ck_assert(got[0].low == 0 && got[0].high == 0);
  ck_assert(isfinite(got[1].low) && isfinite(got[2].high));
}
