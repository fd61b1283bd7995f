/* test_param_optim.c - parameters that no optimizer touches, those that have
 * one of their own, and averages, under both strategies. ranks: 1 2 3  fake: 1
 * 2  emulated: 1  seconds: 400 */
#include <math.h>
#include <string.h>

#include "tests/dense/fully_sharded_toy.h"
#include "tests/support/optim_config.h"

enum { N = 1024, STEPS = 5 };
static float was[N], a[N], b[N];
static char sgd[] = "sgd", adam[] = "adam", adamw[] = "adamw", lamb[] = "lamb",
            lars[] = "lars";

/* Elements of parameter P of four layers of 5 x 3, and of the late one. */
static int64_t count(int p) {
  return p == 8 ? 7 : p % 2 ? 5 : 15;
}

static bool is_frozen(int p) {
  return p == 2 || p == 5 || p == 8;
}

static void freeze(ts_params *ps) {
  for (int32_t i = 0; i < ps->n; i++)
    ps->item[i]->frozen = is_frozen(ps->item[i]->index);
}

static toy_spec layers(int fully_sharded, char *kind, bool in_backward) {
  toy_spec s = toy_small(fully_sharded ? "fully_sharded" : "ddp");
  s.late = true;
  s.config.optimizer.base.kind = kind;
  s.config.optimizer.base.weight_decay = 0.1;
  s.config.optimizer.base.weight_decay_mode = TS_WD_L2;
  s.config.optimizer.in_backward = in_backward;
  return s;
}

/* ---- frozen -------------------------------------------------------------- */

/* Frozen ones stay, the others have the bits that they have without. */
static void check_frozen(void) {
  int64_t at = 0;
  for (int p = 0; p < 9; at += count(p++))
    ck_assert_msg(!memcmp(b + at, (is_frozen(p) ? was : a) + at,
                          (size_t)count(p) * sizeof *a),
                  "parameter %d", p);
}

TS_TEST(frozen) {
  static char *const kinds[] = {sgd, adam, adamw, lamb, lars};
  for (int i = 0; i < 20; i++) {
    toy_spec s = layers(i % 2, kinds[i / 4], i / 2 % 2);
    toy_train(&s, 0, was);
    toy_train(&s, STEPS, a);
    s.prepare = freeze;
    toy_train(&s, STEPS, b);
    check_frozen();
  }
}

TS_TEST(frozen_has_no_states) {
  static toy t;
  for (int k = 0; k < 2; k++) {
    toy_spec s = layers(k, adam, true);
    s.prepare = freeze;
    toy_start(&t, &s);
    const uint64_t versions[] = {t.W[1]->version, t.W[0]->version};
    toy_step(&t, 1);
    toy_sync(&t);
    ck_assert_ptr_null(t.W[1]->state[0]);
    ck_assert_ptr_nonnull(t.W[0]->state[0]);
    ck_assert(t.W[1]->version == versions[0]);
    ck_assert(t.W[0]->version == versions[1] + 1);
    toy_stop(&t);
  }
}

/* The norm, of which frozen ones are no part, and what it cuts steps to. */
TS_TEST(frozen_is_no_part_of_the_norm) {
  for (int k = 0; k < 2; k++) {
    toy_spec s = layers(k, sgd, true);
    static toy t;
    double norm = 0, squares = 0, step;
    s.config.optimizer.base.weight_decay_mode = TS_WD_NONE;
    s.config.optimizer.clip_norm = 0.5;
    s.prepare = freeze;
    toy_train(&s, 0, was);
    toy_start(&t, &s);
    toy_forward(&t);
    toy_backward(&t, 1, true, -1, &norm);
    toy_weights(&t, a);
    toy_stop(&t);
    for (int p = 0; p < 9; p++)
      for (int64_t i = 0; i < count(p); i++)
        squares += is_frozen(p) ? 0 : pow(toy_gradient(1, p, i), 2);
    ck_assert_msg(fabs(norm - sqrt(squares)) < 1e-6 * norm, "%g %g", norm,
                  sqrt(squares));
    step = 0.1 * 0.5 / (norm + 1e-6);
    for (int64_t p = 0, at = 0; p < 9; p++)
      for (int64_t i = 0; i < count((int)p); i++, at++) {
        const double g = is_frozen((int)p) ? 0 : toy_gradient(1, (int)p, i);
        ck_assert_float_eq_tol(a[at], (float)(was[at] - step * g), 1e-6f);
      }
  }
}

/* ---- of their own -------------------------------------------------------- */

static ts_optim_config own[2];

/* Layer 1's weight has the first, of which the rate is said alone; layer 2's
 * the second and decay beside it; layer 3's decay alone. */
static void give(ts_params *ps) {
  for (int32_t i = 0; i < ps->n; i++) {
    ts_param *p = ps->item[i];
    if (p->index == 0) p->optimizer = &own[0];
    if (p->index == 2) p->optimizer = &own[1];
    if (p->index == 2 || p->index == 4) p->l2 = 0.25;
  }
}

static void set_own(void) {
  own[0] = test_optim(NULL, 0.01);
  own[1] = test_optim(adam, NAN);
  own[1].weight_decay = 0.5;
  own[1].weight_decay_mode = TS_WD_L2;
}

/* WAS becomes what C makes of it, in double; the first weight of parameter P
 * is at AT. */
static void by_hand(ts_optim_config c, int p, int64_t at) {
  enum { MOST = 15 };
  double w[MOST], s[2][MOST] = {{0}}, g[MOST];
  ck_assert_ok(ts_dense_optim_check(&c, "by hand"));
  test_step x = {&c, c.lr, w, {s[0], s[1]}, g, count(p), 0};
  for (int64_t i = 0; i < x.n; i++) w[i] = was[at + i];
  for (x.pass = 1; x.pass <= STEPS; x.pass++) {
    for (int64_t i = 0; i < x.n; i++) g[i] = toy_gradient(x.pass, p, i);
    test_optim_step(&x);
  }
  for (int64_t i = 0; i < x.n; i++)
    ck_assert_msg(fabs(a[at + i] - w[i]) < 3e-6, "%d %d: %g %g", p, (int)i,
                  (double)a[at + i], w[i]);
}

static ts_optim_config plain(char *kind, double lr, double decay) {
  ts_optim_config c = test_optim(kind, lr);
  c.weight_decay = decay;
  c.weight_decay_mode = decay > 0 ? TS_WD_L2 : TS_WD_NONE;
  return c;
}

/* OF: settings of layers 1 to 3's weights; the others have the deck's. */
static void check_own(const toy_spec *s, const ts_optim_config *of) {
  int64_t at = 0;
  toy_train(s, 0, was);
  toy_train(s, STEPS, a);
  for (int p = 0; p < 9; at += count(p++))
    by_hand(p % 2 == 0 && p < 6 ? of[p / 2] : s->config.optimizer.base, p, at);
}

TS_TEST(optimizers_of_their_own) {
  set_own();
  for (int k = 0; k < 4; k++) {
    toy_spec s = layers(k % 2, sgd, k / 2);
    s.prepare = give;
    s.config.optimizer.base.momentum = 0.5;
    s.config.optimizer.base.weight_decay = NAN;
    s.config.optimizer.base.weight_decay_mode = TS_WD_NONE;
    ts_optim_config of[] = {plain(sgd, 0.01, 0), plain(adam, 0.1, 0.75),
                            plain(sgd, 0.1, 0.25)};
    of[0].momentum = of[2].momentum = 0.5;
    check_own(&s, of);
  }
}

/* What the deck says of a name wins, and takes from the parameter what it does
 * not say. */
TS_TEST(overrides_win) {
  char first[] = "layer.1.weight", second[] = "layer.2.*", third[] = "*.3.w*";
  set_own();
  for (int k = 0; k < 2; k++) {
    toy_spec s = layers(k, sgd, true);
    ts_optim_override overrides[] = {{first, test_optim(NULL, 0.2)},
                                     {second, test_optim(NULL, 0.05)},
                                     {third, test_optim(adamw, 0.05)}};
    overrides[1].optimizer.weight_decay_mode = TS_WD_L2;
    overrides[2].optimizer.weight_decay = 0.125;
    overrides[2].optimizer.weight_decay_mode = TS_WD_DECOUPLED;
    s.prepare = give;
    s.config.optimizer.base.weight_decay = NAN;
    s.config.optimizer.base.weight_decay_mode = TS_WD_NONE;
    s.config.optimizer.overrides = overrides;
    s.config.optimizer.n_overrides = 3;
    ts_optim_config of[] = {plain(sgd, 0.2, 0), plain(adam, 0.05, 0.75),
                            plain(adamw, 0.05, 0.125)};
    int64_t at = 0;
    of[2].weight_decay_mode = TS_WD_DECOUPLED;
    toy_train(&s, 0, was);
    toy_train(&s, STEPS, a);
    for (int p = 0; p < 6; at += count(p++))
      if (p % 2 == 0) by_hand(of[p / 2], p, at);
  }
}

TS_TEST(options_refused) {
  static toy t;
  set_own();
  own[0].beta2 = 0.5;
  for (int k = 0; k < 2; k++) {
    toy_spec s = layers(k, sgd, true);
    s.prepare = give;
    ck_assert_int_eq(toy_try(&t, &s), TS_ERR_DECK);
    ck_assert_ptr_nonnull(strstr(
        ts_err_message(), "layer.1.weight: dense optimizer sgd has no beta2"));
    ts_err_clear();
    toy_stop(&t);
  }
}

/* ---- averages ------------------------------------------------------------ */

/* Whole averages of T, by changing places, and the weights, which are back. */
static void take(toy *t, float *averages, float *weights) {
  toy_sync(t);
  ck_assert_ok(ts_parallel_swap_averages(t->parallel, t->lane));
  toy_weights(t, averages);
  ck_assert_ok(ts_parallel_swap_averages(t->parallel, t->lane));
  toy_weights(t, weights);
}

/* e = d e + (1 - d) w after each step, from the weights as they were; what is
 * frozen stays; the weights are those that there are without averages. */
static void check_averages(const toy_spec *s, int n_micro) {
  static toy t;
  static float without[N], averages[N], w[N];
  double e[N];
  const double d = s->config.optimizer.ema;
  toy_spec none = *s;
  none.config.optimizer.ema = 0;
  toy_start(&t, s);
  ck_assert_ok(ts_parallel_start_averages(t.parallel, NULL, t.lane));
  const int64_t n = toy_weights(&t, w);
  for (int64_t i = 0; i < n; i++) e[i] = w[i];
  for (int step = 1; step <= STEPS; step++) {
    for (int m = 0; m < n_micro; m++) {
      toy_forward(&t);
      toy_backward(&t, step, m == n_micro - 1, n_micro > 1 ? m : -1, NULL);
    }
    take(&t, averages, w);
    for (int64_t i = 0; i < n; i++) {
      e[i] = d * e[i] + (1 - d) * w[i];
      ck_assert_msg(fabs(averages[i] - e[i]) < 2e-6, "step %d, %d: %g, not %g",
                    step, (int)i, (double)averages[i], e[i]);
    }
  }
  ck_assert_ptr_null(t.W[1]->ema); /* it is frozen */
  toy_stop(&t);
  if (n_micro > 1) return;
  toy_train(&none, STEPS, without);
  ck_assert(toy_same(s, w, without));
}

TS_TEST(averages) {
  static char *const kinds[] = {adam, sgd, lamb, lars};
  for (int i = 0; i < 8; i++) {
    toy_spec s = layers(i % 2, kinds[i / 2], i / 2 % 2);
    s.config.optimizer.ema = 0.75;
    s.prepare = freeze;
    check_averages(&s, 1);
    s.config.run.accumulate = 2;
    if (i < 4) check_averages(&s, 2);
  }
}
