/* dense_update.c - the contract of the dense optimizers: bit for bit but for
 * the host's vector versions, and all of them against formulas in double, of
 * whole parameters and of pieces.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "dense/optim.h"
#include "tests/support/contract.h"
#include "tests/support/optim_config.h"

/* The second sgd and the second rmsprop are with momentum. */
static const char *const kinds[] = {
    "sgd",  "sgd",  "momentum", "adagrad", "adam",    "adamw",
    "lamb", "lars", "nesterov", "rmsprop", "rmsprop", "lion"};
enum { KINDS = 12 };
static const int64_t lengths[] = {0,    1,    2,    15,   16,   17,    1023,
                                  1024, 1025, 4095, 4096, 4097, 50001, 140000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static ts_optim_config settings(int kind, ts_wd_mode mode) {
  ts_optim_config c = test_optim(kinds[kind], 0.03);
  if (kind && !strcmp(kinds[kind], kinds[kind - 1])) c.momentum = 0.6;
  c.weight_decay = 0.02;
  c.weight_decay_mode = mode;
  ck_assert_ok(ts_dense_optim_check(&c, "test"));
  return c;
}

typedef struct update_case {
  ts_dense_update_args a[TS_DENSE_PIECES];
  int32_t n;
  double *stats; /* of dense_stats; 0: dense_update */
} update_case;

static ts_err run_update(const ts_kernels *k, const void *arg) {
  update_case c = *(const update_case *)arg;
  kt_at_all(&c, sizeof c);
  return c.stats ? k->dense_stats(&c.a[0], c.stats) : k->dense_update(c.a, c.n);
}

static void *rounded(void *p) {
  kt_compare(p, KT_NEAR);
  return p;
}

static double *take_stats(double a, double b) {
  const double x[] = {a, b};
  return rounded(kt_copy(x, 2, 8));
}

static void add_piece(update_case *u, const ts_optim_config *c, int64_t n) {
  ts_dense_update_args *a = &u->a[u->n++];
  const int off = kt_off();
  *a = (ts_dense_update_args){.optim = c,
                              .n = n,
                              .lr_factor = 0.7,
                              .grad_factor = 0.5,
                              .step = 1 + kt_below(1000)};
  a->w = rounded(kt_floats(n, off, KT_PLAIN));
  a->grad = kt_floats(n, kt_bits() % 4 ? off : kt_off(), KT_PLAIN);
  for (int s = 0; s < ts_dense_optim_n_states(c); s++)
    a->state[s] = rounded(kt_floats(n, off, KT_POSITIVE));
  if (kt_bits() % 2) a->grad_factor_at = kt_copy(&(double){0.3}, 1, 8);
  a->ema_decay = 0.9;
  if (kt_bits() % 2)
    a->ema = rounded(kt_floats(n, kt_bits() % 4 ? off : kt_off(), KT_PLAIN));
}

KT_CONTRACT("dense_update dense_stats")

/* Each kind with each way of weight decay, alone, clipped or not; lamb and lars
 * by sums of their own or those of others, zeros among them. */
TS_TESTS(updates, 0, 3 * KINDS) {
  const int i = _i / 3;
  ts_optim_config c = settings(i, (ts_wd_mode)(_i % 3));
  for (int n = 0; n < LENGTHS; n++) {
    static update_case u;
    c.clip_value = n % 4 ? 0 : 0.125;
    kt_begin();
    u = (update_case){0};
    add_piece(&u, &c, lengths[n]);
    if (ts_dense_optim_has_norms(&c) && n % 3)
      u.a[0].stats = take_stats(n % 5 ? 7.5 : 0, 0.1);
    kt_check(run_update, &u);
  }
}

/* As many pieces as there may be, of all kinds. */
TS_TEST(update_of_a_bucket) {
  static ts_optim_config c[KINDS];
  for (int k = 0; k < KINDS; k++) {
    c[k] = settings(k, (ts_wd_mode)(k % 3));
    c[k].clip_value = k % 2;
  }
  for (int n = 0; n <= TS_DENSE_PIECES; n += 7) {
    static update_case u;
    kt_begin();
    u = (update_case){0};
    for (int i = 0; i < n; i++)
      add_piece(&u, &c[(i + n) % KINDS], lengths[(3 * i + n) % (LENGTHS - 1)]);
    kt_check(run_update, &u);
  }
}

TS_TEST(stats) {
  for (int i = 0; i < 2 * LENGTHS; i++) {
    static update_case u;
    ts_optim_config c = settings(i % 2 ? 6 : 7, TS_WD_L2);
    c.clip_value = i % 4 / 2;
    kt_begin();
    u = (update_case){0};
    add_piece(&u, &c, lengths[i / 2]);
    u.stats = take_stats(0, i % 3);
    kt_check(run_update, &u);
  }
}

/* ---- formulas ------------------------------------------------------------ */

enum { N = 9001, STEPS = 30 };

typedef struct formula_case {
  ts_dense_update_args a; /* of the whole; gradients of all steps */
  int n_pieces;
  double *sums; /* (STEPS, 2) of all pieces */
  double *w;    /* what the formulas make of it */
  double *ema;  /* and of the average, which begins as 0 */
} formula_case;

/* Piece P of step STEP; without STATS: the update. */
static ts_err run_piece(const ts_kernels *k, const formula_case *c, int step,
                        int p, bool stats) {
  const int from = N * p / c->n_pieces;
  ts_dense_update_args a = c->a;
  a.step = step + 1;
  a.n = N * (p + 1) / c->n_pieces - from;
  a.w += from;
  a.grad += step * N + from;
  if (a.ema) a.ema += from;
  for (int i = 0; i < ts_dense_optim_n_states(a.optim); i++) a.state[i] += from;
  if (c->n_pieces > 1) a.stats = c->sums + (ptrdiff_t)2 * step;
  return stats ? k->dense_stats(&a, c->sums + (ptrdiff_t)2 * step)
               : k->dense_update(&a, 1);
}

static ts_err run_steps(const ts_kernels *k, const void *arg) {
  formula_case c = *(const formula_case *)arg;
  const bool stats = c.n_pieces > 1 && ts_dense_optim_has_norms(c.a.optim);
  kt_at_all(&c, sizeof c);
  for (int i = 0; i < STEPS; i++) {
    for (int p = 0; stats && p < c.n_pieces; p++)
      TS_DO(run_piece(k, &c, i, p, true));
    for (int p = 0; p < c.n_pieces; p++) TS_DO(run_piece(k, &c, i, p, false));
  }
  return TS_OK;
}

static void look_formula(const void *arg) {
  const formula_case *c = arg;
  const float *got = kt_got(c->a.w);
  for (int i = 0; i < N; i++)
    ck_assert_float_eq_tol(got[i], (float)c->w[i], 3e-6f);
  got = kt_got(c->a.ema);
  for (int i = 0; i < N; i++)
    ck_assert_float_eq_tol(got[i], (float)c->ema[i], 3e-6f);
}

/* In double; GRADS of all steps. */
static void formula(const formula_case *c, const float *grads) {
  static double s[2][N], g[N];
  test_step x = {.config = c->a.optim,
                 .lr = c->a.lr_factor * c->a.optim->lr,
                 .w = c->w,
                 .s = {s[0], s[1]},
                 .g = g,
                 .n = N};
  memset(s, 0, sizeof s);
  for (int i = 0; i < N; i++) {
    c->w[i] = c->a.w[i];
    c->ema[i] = 0;
  }
  for (x.pass = 1; x.pass <= STEPS; x.pass++) {
    for (int i = 0; i < N; i++)
      g[i] = c->a.grad_factor * grads[(x.pass - 1) * N + i];
    test_optim_step(&x);
    for (int i = 0; i < N; i++)
      c->ema[i] = c->a.ema_decay * c->ema[i] + (1 - c->a.ema_decay) * c->w[i];
  }
}

/* The whole; pieces whose sums are added outside, clipped; weights of 0, whose
 * norm is none: they move. */
TS_TESTS(formulas, 0, 3 * KINDS) {
  static double w[N], ema[N];
  ts_optim_config config = settings(_i / 3, (ts_wd_mode)(_i % 3));
  for (int how = 0; how < 3; how++) {
    kt_begin();
    config.clip_value = how == 1 ? 0.25 : 0;
    float *grads = kt_array(N * STEPS, 4, 0);
    formula_case c = {.a = {.optim = &config,
                            .w = rounded(kt_zeros(N, 4)),
                            .grad = grads,
                            .lr_factor = 0.8,
                            .grad_factor = 0.6,
                            .ema = rounded(kt_zeros(N, 4)),
                            .ema_decay = 0.8},
                      .n_pieces = how == 1 ? 3 : 1,
                      .sums = rounded(kt_zeros((int64_t)2 * STEPS, 8)),
                      .w = w,
                      .ema = ema};
    for (int k = 0; k < ts_dense_optim_n_states(&config); k++)
      c.a.state[k] = rounded(kt_zeros(N, 4));
    if (how < 2) test_floats(c.a.w, N, 80);
    test_floats(grads, N * STEPS, 81);
    formula(&c, grads);
    kt_look(look_formula);
    kt_check(run_steps, &c);
  }
}

/* Weights after three steps at a rate of 0.1, worked out in double from
 * PyTorch's formulas and the paper's of Lion; the last weight's second gradient
 * is not a number, which no clipping and no sign may hide. */
enum { FIGURES = 5, FIGURE_STEPS = 3 };
static const struct {
  const char *kind;
  double momentum, clip_value, weight_decay;
  float w[FIGURES];
} figures[] = {
    {"nesterov", 0.9, 0, 0, {0.7058f, -2.22185f, 0.5f, -0.1636f}},
    {"nesterov",
     0.9,
     1.5,
     0.1,
     {0.63090615f, -1.9329523f, 0.46044697f, 2.1460909f}},
    {"rmsprop", 0, 0, 0, {-0.42572622f, -1.9514739f, 0.5f, 1.3241506f}},
    {"rmsprop",
     0.5,
     1.5,
     0.1,
     {-1.0085143f, -1.3907107f, 0.19647999f, 0.71741707f}},
    {"lion", NAN, 0, 0, {0.9f, -2.1f, 0.5f, 2.9f}},
    {"lion", NAN, 1.5, 0.1, {0.871289f, -2.041588f, 0.4851495f, 2.813887f}}};

static ts_err run_figures(const ts_kernels *k, const void *arg) {
  ts_dense_update_args a = *(const ts_dense_update_args *)arg;
  kt_at_all(&a, sizeof a);
  for (a.step = 1; a.step <= FIGURE_STEPS; a.step++, a.grad += FIGURES)
    TS_DO(k->dense_update(&a, 1));
  return TS_OK;
}

static const float *figures_want;
static void look_figures(const void *arg) {
  const float *got = kt_got(((const ts_dense_update_args *)arg)->w);
  for (int i = 0; i < FIGURES - 1; i++)
    ck_assert_float_eq_tol(got[i], figures_want[i], 1e-6f);
  ck_assert_float_nan(got[FIGURES - 1]);
}

TS_TESTS(published_figures, 0, sizeof figures / sizeof *figures) {
  const float w[] = {1, -2, 0.5f, 3, 1},
              grads[] = {0.5f, -1,  0, 4,      1, -0.25f, 2, 0,
                         8,    NAN, 1, 0.125f, 0, -2,     1};
  ts_optim_config c = test_optim(figures[_i].kind, 0.1);
  c.momentum = figures[_i].momentum;
  c.clip_value = figures[_i].clip_value;
  c.weight_decay = figures[_i].weight_decay;
  c.weight_decay_mode = TS_WD_L2;
  ck_assert_ok(ts_dense_optim_check(&c, "test"));
  kt_begin();
  ts_dense_update_args a = {.optim = &c,
                            .w = kt_copy(w, FIGURES, 4),
                            .grad = kt_copy(grads, FIGURES * FIGURE_STEPS, 4),
                            .n = FIGURES,
                            .lr_factor = 1,
                            .grad_factor = 1};
  kt_compare(a.w, KT_OWN);
  for (int s = 0; s < ts_dense_optim_n_states(&c); s++)
    kt_compare(a.state[s] = kt_zeros(FIGURES, 4), KT_OWN);
  figures_want = figures[_i].w;
  kt_look(look_figures);
  kt_check(run_figures, &a);
}

/* ---- options ------------------------------------------------------------- */

TS_TEST(defaults_and_refusals) {
  ts_optim_config c = settings(2, TS_WD_L2);
  ck_assert(c.momentum == 0.9 && ts_dense_optim_n_states(&c) == 1);
  c = settings(5, TS_WD_L2);
  ck_assert_int_eq(c.weight_decay_mode, TS_WD_DECOUPLED);
  c = settings(7, TS_WD_L2);
  ck_assert(c.momentum == 0.9 && c.eta == 0.001);
  c.beta1 = 0.5;
  ck_assert_int_eq(ts_dense_optim_check(&c, "x"), TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "lars has no beta1"));
  ts_err_clear();
  c = settings(9, TS_WD_L2);
  ck_assert_int_eq(ts_dense_optim_n_states(&c), 1);
  c = settings(10, TS_WD_L2);
  ck_assert_int_eq(ts_dense_optim_n_states(&c), 2);
  ck_assert_str_eq(ts_dense_optim_state_name(&c, 1), "momentum");
  c = settings(6, TS_WD_L2);
  c.eta = 0.1;
  ck_assert_int_eq(ts_dense_optim_check(&c, "x"), TS_ERR_DECK);
  ts_err_clear();
}
