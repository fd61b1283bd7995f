/* flat.c - the contract of kernels over flat arrays and of the dense
 * optimizers, bit for bit; the oracle of the optimizers against formulas in
 * double.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "dense/optim.h"
#include "tests/support/contract.h"
#include "tests/support/optim_config.h"

typedef enum { PLAIN, POSITIVE, SPECIAL } number_kind;

/* Of SPECIAL 1 of 64 is. */
static float some(number_kind kind) {
  if (kind == SPECIAL && kt_below(64) == 0) return kt_special();
  const float x = kt_number(-16, 8);
  return kind == POSITIVE ? fabsf(x) : x;
}

static void *take_floats(int64_t n, int off, number_kind kind) {
  float *p = kt_array(n, 4, off);
  for (int64_t i = 0; i < n; i++) p[i] = some(kind);
  return p;
}

static double *take_double(double x) {
  return kt_copy(&x, 1, 8);
}
/* On a border of a vector, or not. */
static int some_off(void) {
  return kt_bits() % 4 ? 0 : 4 * kt_below(4);
}

/* ---- rows ---------------------------------------------------------------- */

static ts_err run_half(const ts_kernels *k, const void *arg) {
  ts_half_args a = *(const ts_half_args *)arg;
  KT_AT(a.to);
  KT_AT(a.from);
  return k->half_rows(&a);
}

static const int32_t widths[] = {1, 3, 4, 8, 31, 64, 130, 1000};

KT_CONTRACT("half_rows check_finite copies swap shorten widen squares clip "
            "dense_update dense_stats")

TS_TEST(half_rows) {
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int i = 0; i < 6; i++) {
      const int32_t gap = i % 3 == 2 ? 4 : i % 3;
      ts_half_args a = {.rows = i == 5 ? 0 : 1 + kt_below(70),
                        .n = widths[w],
                        .from_stride = widths[w] + gap,
                        .to_stride = widths[w] + (i < 3 ? 0 : gap)};
      kt_begin();
      a.from = take_floats(a.rows * a.from_stride, some_off(), SPECIAL);
      a.to = kt_array(a.rows * a.to_stride, 2, 2 * kt_below(4) * (i % 2));
      kt_check(run_half, &a);
    }
}

static ts_err run_look(const ts_kernels *k, const void *arg) {
  ts_check_finite_args a = *(const ts_check_finite_args *)arg;
  KT_AT(a.x);
  KT_AT(a.bad);
  return k->check_finite(&a);
}

/* One element is bad, in a row or between two; or none is. */
TS_TEST(check_finite) {
  static const uint32_t bads[] = {0x7f800000, 0xff800000, 0x7f800001};
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int i = 0; i < 12; i++) {
      ts_check_finite_args a = {.rows = 1 + kt_below(50),
                                .n = widths[w],
                                .stride = widths[w] + i % 3};
      kt_begin();
      a.x = take_floats(a.rows * a.stride, some_off(), PLAIN);
      a.bad = kt_zeros(1, 4);
      *a.bad = i % 4 == 3;
      const int64_t at = i < 4 ? (a.rows - 1) * a.stride + a.n - 1
                               : kt_below((int32_t)(a.rows * a.stride));
      if (i % 4) memcpy((float *)(uintptr_t)a.x + at, &bads[i % 3], 4);
      kt_check(run_look, &a);
    }
}

/* ---- arrays -------------------------------------------------------------- */

static ts_err run_copies(const ts_kernels *k, const void *arg) {
  ts_copies_args a = *(const ts_copies_args *)arg;
  for (int32_t i = 0; i < a.n_pieces; i++) {
    KT_AT(a.piece[i].to);
    KT_AT(a.piece[i].from);
  }
  return k->copies(&a);
}

TS_TEST(copies) {
  static const int32_t sizes[] = {0, 1, 3, 4, 100, 4095, 4096, 4097, 9001};
  static ts_copies_args a;
  for (int n = 0; n <= TS_COPY_PIECES; n += n < 3 ? 1 : TS_COPY_PIECES - 3) {
    kt_begin();
    a.n_pieces = n;
    for (int i = 0; i < n; i++) {
      const int64_t m = sizes[(i + n) % 9];
      a.piece[i].to = kt_array(m, 4, some_off());
      a.piece[i].from = take_floats(m, some_off(), SPECIAL);
      a.piece[i].n = m;
    }
    kt_check(run_copies, &a);
  }
}

typedef struct pair_case {
  float *a, *b;
  int64_t n;
} pair_case;

static ts_err run_swap(const ts_kernels *k, const void *arg) {
  const pair_case *p = arg;
  return k->swap(kt_at(p->a), kt_at(p->b), p->n);
}

static const int64_t lengths[] = {0,    1,    2,    15,   16,   17,    1023,
                                  1024, 1025, 4095, 4096, 4097, 50001, 140000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

TS_TEST(swap) {
  for (int i = 0; i < 2 * LENGTHS; i++) {
    pair_case p = {.n = lengths[i / 2]};
    kt_begin();
    p.a = take_floats(p.n, 0, SPECIAL);
    p.b = take_floats(p.n, i % 2 ? 8 : 0, SPECIAL);
    kt_check(run_swap, &p);
  }
}

typedef struct wire_case {
  float *x;
  int64_t n;
  ts_dtype dtype;
  bool widen;
} wire_case;

static ts_err run_wire(const ts_kernels *k, const void *arg) {
  const wire_case *w = arg;
  return (w->widen ? k->widen : k->shorten)(kt_at(w->x), w->n, w->dtype);
}

/* Any bits are an f16 or a bf16. */
TS_TEST(short_and_wide) {
  for (int i = 0; i < 4 * LENGTHS; i++) {
    wire_case w = {.n = lengths[i / 4],
                   .dtype = i % 2 ? TS_F16 : TS_BF16,
                   .widen = i / 2 % 2};
    kt_begin();
    w.x = w.widen ? kt_array(w.n, 4, some_off())
                  : take_floats(w.n, some_off(), SPECIAL);
    kt_check(run_wire, &w);
  }
}

/* ---- sums ---------------------------------------------------------------- */

typedef struct sum_case {
  const float *x;
  int64_t n;
  double *sum;
} sum_case;

static ts_err run_squares(const ts_kernels *k, const void *arg) {
  const sum_case *s = arg;
  return k->squares(kt_at(s->x), s->n, kt_at(s->sum));
}

TS_TEST(squares) {
  for (int i = 0; i < LENGTHS; i++) {
    sum_case s = {.n = i == 1 ? 1200007 : lengths[i]};
    kt_begin();
    s.x = take_floats(s.n, some_off(), PLAIN);
    s.sum = take_double(i % 2 ? 0.3 : 0);
    kt_check(run_squares, &s);
  }
}

typedef struct clip_case {
  double *norm, *factor, most;
} clip_case;

static ts_err run_clip(const ts_kernels *k, const void *arg) {
  const clip_case *c = arg;
  return k->clip(kt_at(c->norm), kt_at(c->factor), c->most);
}

TS_TEST(clip) {
  static const double norms[] = {0, 1e-300, 0.25, 3, 1e300, INFINITY};
  for (int i = 0; i < 12; i++) {
    clip_case c = {.most = i % 2 ? 0.7 : 1e4};
    kt_begin();
    c.norm = take_double(norms[i / 2]);
    c.factor = take_double(-1);
    kt_check(run_clip, &c);
  }
}

/* ---- optimizers ---------------------------------------------------------- */

static char kinds[][9] = {"sgd",  "sgd",   "momentum", "adagrad",
                          "adam", "adamw", "lamb",     "lars"};
enum { KINDS = 8 };

static ts_optim_config settings(int kind, ts_wd_mode mode) {
  ts_optim_config c = test_optim(kinds[kind], 0.03);
  if (kind == 1) c.momentum = 0.6;
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
  for (int32_t i = 0; i < c.n; i++) {
    ts_dense_update_args *a = &c.a[i];
    KT_AT(a->w);
    KT_AT(a->grad);
    for (int s = 0; s < TS_PARAM_STATES_MAX; s++)
      if (a->state[s]) KT_AT(a->state[s]);
    if (a->grad_factor_at) KT_AT(a->grad_factor_at);
    if (a->stats) KT_AT(a->stats);
  }
  return c.stats ? k->dense_stats(&c.a[0], kt_at(c.stats))
                 : k->dense_update(c.a, c.n);
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
  const int off = some_off();
  *a = (ts_dense_update_args){.optim = c,
                              .n = n,
                              .lr_factor = 0.7,
                              .grad_factor = 0.5,
                              .step = 1 + kt_below(1000)};
  a->w = rounded(take_floats(n, off, PLAIN));
  a->grad = take_floats(n, kt_bits() % 4 ? off : some_off(), PLAIN);
  for (int s = 0; s < ts_dense_optim_n_states(c); s++)
    a->state[s] = rounded(take_floats(n, off, POSITIVE));
  if (kt_bits() % 2) a->grad_factor_at = take_double(0.3);
}

/* Each kind with each way of weight decay, alone; lamb and lars by sums of
 * their own or those of others, zeros among them. */
TS_TESTS(updates, 0, 3 * KINDS) {
  const int i = _i / 3;
  const ts_optim_config c = settings(i, (ts_wd_mode)(_i % 3));
  for (int n = 0; n < LENGTHS; n++) {
    static update_case u;
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
  for (int k = 0; k < KINDS; k++) c[k] = settings(k, (ts_wd_mode)(k % 3));
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
    const ts_optim_config c = settings(i % 2 ? 6 : 7, TS_WD_L2);
    kt_begin();
    u = (update_case){0};
    add_piece(&u, &c, lengths[i / 2]);
    u.stats = take_stats(0, i % 3);
    kt_check(run_update, &u);
  }
}

/* ---- formulas ------------------------------------------------------------ */

enum { FORMULA = 100, FORMULA_STEPS = 30 };
/* Of the schedule and of clipping. */
static const double lr_factor = 0.8, grad_factor = 0.6;

static void plain_step(const ts_optim_config *c, double *w, double *s, double g,
                       int k) {
  const double lr = lr_factor * c->lr;
  const bool decoupled = c->weight_decay_mode == TS_WD_DECOUPLED;
  g *= grad_factor;
  if (!decoupled) g += c->weight_decay * *w;
  if (decoupled) *w *= 1 - lr * c->weight_decay;
  if (!strcmp(c->kind, "sgd")) {
    s[0] = c->momentum * s[0] + g;
    *w -= lr * s[0];
  } else if (!strcmp(c->kind, "adagrad")) {
    s[0] += g * g;
    *w -= lr * g / (sqrt(s[0]) + c->eps);
  } else {
    s[0] = c->beta1 * s[0] + (1 - c->beta1) * g;
    s[1] = c->beta2 * s[1] + (1 - c->beta2) * g * g;
    const double m = s[0] / (1 - pow(c->beta1, k));
    const double v = s[1] / (1 - pow(c->beta2, k));
    *w -= lr * m / (sqrt(v) + c->eps);
  }
}

/* Steps from 1 on, each with its own gradient. */
static ts_err run_steps(const ts_kernels *k, const void *arg) {
  update_case c = *(const update_case *)arg;
  ts_err err = TS_OK;
  for (int i = 0; i < FORMULA_STEPS && err == TS_OK; i++) {
    c.a[0].step = i + 1;
    err = run_update(k, &c);
    c.a[0].grad += FORMULA;
  }
  return err;
}

static const double *formula_w;

static void look_formula(const void *arg) {
  const update_case *c = arg;
  for (int i = 0; i < FORMULA; i++)
    ck_assert_float_eq_tol(*(float *)kt_got(c->a[0].w + i), (float)formula_w[i],
                           2e-5f);
}

TS_TESTS(formulas, 0, 8) {
  static const int of[] = {0, 1, 3, 4}; /* of kinds */
  static update_case u;
  ts_optim_config c = settings(of[_i % 4], _i < 4 ? TS_WD_L2 : TS_WD_DECOUPLED);
  double s[FORMULA][2] = {{0}}, w[FORMULA];
  u = (update_case){.n = 1};
  ts_dense_update_args *a = &u.a[0];
  *a = (ts_dense_update_args){.optim = &c,
                              .n = FORMULA,
                              .lr_factor = lr_factor,
                              .grad_factor = grad_factor};
  a->w = rounded(kt_array(FORMULA, 4, 0));
  float *g = kt_array(FORMULA * FORMULA_STEPS, 4, 0);
  for (int k = 0; k < ts_dense_optim_n_states(&c); k++)
    a->state[k] = rounded(kt_zeros(FORMULA, 4));
  test_floats(a->w, FORMULA, 80);
  test_floats(g, FORMULA * FORMULA_STEPS, 81);
  a->grad = g;
  for (int i = 0; i < FORMULA; i++) {
    w[i] = a->w[i];
    for (int k = 1; k <= FORMULA_STEPS; k++)
      plain_step(&c, &w[i], s[i], g[(k - 1) * FORMULA + i], k);
  }
  formula_w = w;
  kt_look(look_formula);
  kt_check(run_steps, &u);
}
