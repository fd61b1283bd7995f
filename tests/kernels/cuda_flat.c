/* cuda_flat.c - cases of flat arrays and dense optimizers, by the host's
 * kernels and by a target's. */
#include "tests/kernels/cuda_flat.h"

#include <math.h>
#include <string.h>

#include "dense/optim.h"
#include "tests/kernels/cuda_numbers.h"
#include "tests/support/optim_config.h"

/* ---- numbers ------------------------------------------------------------- */

typedef enum { PLAIN, POSITIVE, SPECIAL } number_kind;

/* Of SPECIAL 1 of 64 is. */
static float some(number_kind kind) {
  if (kind == SPECIAL && below(64) == 0) return special();
  const float x = ldexpf(1 + (float)(bits() >> 9) * 0x1p-23f, below(24) - 16);
  return kind == POSITIVE || bits() & 1 ? x : -x;
}

/* ---- a case's memory ----------------------------------------------------- */

static void *take_floats(int64_t n, int off, number_kind kind) {
  void *p = block_take(n * 4, off);
  for (int64_t i = 0; i < n; i++) {
    const float x = some(kind);
    memcpy((char *)block_here(p) + 4 * i, &x, 4);
  }
  return p;
}

static void *take_double(double x) {
  void *p = block_take(8, 0);
  memcpy(block_here(p), &x, 8);
  return p;
}

/* On a border of a vector, or not. */
static int some_off(void) {
  return bits() % 4 ? 0 : 4 * below(4);
}

/* ---- rows ---------------------------------------------------------------- */

static ts_err run_half(const ts_kernels *k, char *base, const void *arg) {
  ts_half_args a = *(const ts_half_args *)arg;
  a.to = AT(a.to);
  a.from = AT(a.from);
  return k->half_rows(&a);
}

static const int32_t widths[] = {1, 3, 4, 8, 31, 64, 130, 1000};

START_TEST(half_rows) {
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int i = 0; i < 6; i++) {
      const int32_t gap = i % 3 == 2 ? 4 : i % 3;
      ts_half_args a = {.rows = i == 5 ? 0 : 1 + below(70),
                        .n = widths[w],
                        .from_stride = widths[w] + gap,
                        .to_stride = widths[w] + (i < 3 ? 0 : gap)};
      block_clear();
      a.from = take_floats(a.rows * a.from_stride, some_off(), SPECIAL);
      a.to = block_take(a.rows * a.to_stride * 2, 2 * below(4) * (i % 2));
      block_check(run_half, &a, false);
    }
}
END_TEST

static ts_err run_look(const ts_kernels *k, char *base, const void *arg) {
  ts_look_args a = *(const ts_look_args *)arg;
  a.x = AT(a.x);
  a.bad = AT(a.bad);
  return k->look(&a);
}

/* One element is bad, in a row or between two; or none is. */
START_TEST(look) {
  static const uint32_t bads[] = {0x7f800000, 0xff800000, 0x7f800001};
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int i = 0; i < 12; i++) {
      ts_look_args a = {
          .rows = 1 + below(50), .n = widths[w], .stride = widths[w] + i % 3};
      block_clear();
      a.x = take_floats(a.rows * a.stride, some_off(), PLAIN);
      a.bad = block_take(4, 0);
      memset(block_here(a.bad), 0, 4);
      if (i % 4 == 3) *(int32_t *)block_here(a.bad) = 1;
      const int64_t at = i < 4 ? (a.rows - 1) * a.stride + a.n - 1
                               : below((int32_t)(a.rows * a.stride));
      if (i % 4) memcpy(block_here(a.x + at), &bads[i % 3], 4);
      block_check(run_look, &a, false);
    }
}
END_TEST

/* ---- arrays -------------------------------------------------------------- */

static ts_err run_copies(const ts_kernels *k, char *base, const void *arg) {
  ts_copies_args a = *(const ts_copies_args *)arg;
  for (int32_t i = 0; i < a.n_pieces; i++) {
    a.piece[i].to = AT(a.piece[i].to);
    a.piece[i].from = AT(a.piece[i].from);
  }
  return k->copies(&a);
}

START_TEST(copies) {
  static const int32_t sizes[] = {0, 1, 3, 4, 100, 4095, 4096, 4097, 9001};
  static ts_copies_args a;
  for (int n = 0; n <= TS_COPY_PIECES; n += n < 3 ? 1 : TS_COPY_PIECES - 3) {
    block_clear();
    a.n_pieces = n;
    for (int i = 0; i < n; i++) {
      const int64_t m = sizes[(i + n) % 9];
      a.piece[i].to = block_take(m * 4, some_off());
      a.piece[i].from = take_floats(m, some_off(), SPECIAL);
      a.piece[i].n = m;
    }
    block_check(run_copies, &a, false);
  }
}
END_TEST

typedef struct pair_case {
  float *a, *b;
  int64_t n;
} pair_case;

static ts_err run_swap(const ts_kernels *k, char *base, const void *arg) {
  const pair_case *p = arg;
  return k->swap(AT(p->a), AT(p->b), p->n);
}

static const int64_t lengths[] = {0,    1,    2,    15,   16,   17,    1023,
                                  1024, 1025, 4095, 4096, 4097, 50001, 140000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

START_TEST(swap) {
  for (int i = 0; i < 2 * LENGTHS; i++) {
    pair_case p = {.n = lengths[i / 2]};
    block_clear();
    p.a = take_floats(p.n, 0, SPECIAL);
    p.b = take_floats(p.n, i % 2 ? 8 : 0, SPECIAL);
    block_check(run_swap, &p, false);
  }
}
END_TEST

typedef struct wire_case {
  float *x;
  int64_t n;
  ts_dtype dtype;
  bool widen;
} wire_case;

static ts_err run_wire(const ts_kernels *k, char *base, const void *arg) {
  const wire_case *w = arg;
  return (w->widen ? k->widen : k->shorten)(AT(w->x), w->n, w->dtype);
}

/* Any bits are an f16 or a bf16. */
START_TEST(short_and_wide) {
  for (int i = 0; i < 4 * LENGTHS; i++) {
    wire_case w = {.n = lengths[i / 4],
                   .dtype = i % 2 ? TS_F16 : TS_BF16,
                   .widen = i / 2 % 2};
    block_clear();
    w.x = w.widen ? block_take(w.n * 4, some_off())
                  : take_floats(w.n, some_off(), SPECIAL);
    block_check(run_wire, &w, false);
  }
}
END_TEST

/* ---- sums ---------------------------------------------------------------- */

typedef struct sum_case {
  const float *x;
  int64_t n;
  double *sum;
} sum_case;

static ts_err run_squares(const ts_kernels *k, char *base, const void *arg) {
  const sum_case *s = arg;
  return k->squares(AT(s->x), s->n, AT(s->sum));
}

START_TEST(squares) {
  for (int i = 0; i < LENGTHS; i++) {
    sum_case s = {.n = i == 1 ? 1200007 : lengths[i]};
    block_clear();
    s.x = take_floats(s.n, some_off(), PLAIN);
    s.sum = take_double(i % 2 ? 0.3 : 0);
    block_check(run_squares, &s, false);
  }
}
END_TEST

typedef struct clip_case {
  double *norm, *factor;
  double most;
} clip_case;

static ts_err run_clip(const ts_kernels *k, char *base, const void *arg) {
  const clip_case *c = arg;
  return k->clip(AT(c->norm), AT(c->factor), c->most);
}

START_TEST(clip) {
  static const double norms[] = {0, 1e-300, 0.25, 3, 1e300, INFINITY};
  for (int i = 0; i < 12; i++) {
    clip_case c = {.most = i % 2 ? 0.7 : 1e4};
    block_clear();
    c.norm = take_double(norms[i / 2]);
    c.factor = take_double(-1);
    block_check(run_clip, &c, false);
  }
}
END_TEST

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

static ts_err run_update(const ts_kernels *k, char *base, const void *arg) {
  update_case c = *(const update_case *)arg;
  for (int32_t i = 0; i < c.n; i++) {
    ts_dense_update_args *a = &c.a[i];
    a->w = AT(a->w);
    a->grad = AT(a->grad);
    for (int s = 0; s < TS_PARAM_STATES_MAX; s++)
      if (a->state[s]) a->state[s] = AT(a->state[s]);
    if (a->grad_factor_at) a->grad_factor_at = AT(a->grad_factor_at);
    if (a->stats) a->stats = AT(a->stats);
  }
  return c.stats ? k->dense_stats(&c.a[0], AT(c.stats))
                 : k->dense_update(c.a, c.n);
}

static void *take_stats(double a, double b) {
  const double x[] = {a, b};
  void *p = block_take(sizeof x, 0);
  memcpy(block_here(p), x, sizeof x);
  return p;
}

static void add_piece(update_case *u, const ts_optim_config *c, int64_t n) {
  ts_dense_update_args *a = &u->a[u->n++];
  const int off = some_off();
  *a = (ts_dense_update_args){.optim = c,
                              .n = n,
                              .lr_factor = 0.7,
                              .grad_factor = 0.5,
                              .step = 1 + below(1000)};
  a->w = take_floats(n, off, PLAIN);
  a->grad = take_floats(n, bits() % 4 ? off : some_off(), PLAIN);
  for (int s = 0; s < ts_dense_optim_n_states(c); s++)
    a->state[s] = take_floats(n, off, POSITIVE);
  if (bits() % 2) a->grad_factor_at = take_double(0.3);
}

/* Each kind with each way of weight decay, alone; lamb and lars by sums of
 * their own or those of others, zeros among them. */
START_TEST(updates) {
  const int i = _i / 3;
  const ts_optim_config c = settings(i, (ts_wd_mode)(_i % 3));
  for (int n = 0; n < LENGTHS; n++) {
    static update_case u;
    block_clear();
    u = (update_case){0};
    add_piece(&u, &c, lengths[n]);
    if (ts_dense_optim_has_norms(&c) && n % 3)
      u.a[0].stats = take_stats(n % 5 ? 7.5 : 0, 0.1);
    block_check(run_update, &u, false);
  }
}
END_TEST

/* As many pieces as there may be, of all kinds. */
START_TEST(update_of_a_bucket) {
  static ts_optim_config c[KINDS];
  for (int k = 0; k < KINDS; k++) c[k] = settings(k, (ts_wd_mode)(k % 3));
  for (int n = 0; n <= TS_DENSE_PIECES; n += 7) {
    static update_case u;
    block_clear();
    u = (update_case){0};
    for (int i = 0; i < n; i++)
      add_piece(&u, &c[(i + n) % KINDS], lengths[(3 * i + n) % (LENGTHS - 1)]);
    block_check(run_update, &u, false);
  }
}
END_TEST

START_TEST(stats) {
  for (int i = 0; i < 2 * LENGTHS; i++) {
    static update_case u;
    const ts_optim_config c = settings(i % 2 ? 6 : 7, TS_WD_L2);
    block_clear();
    u = (update_case){0};
    add_piece(&u, &c, lengths[i / 2]);
    u.stats = take_stats(0, i % 3);
    block_check(run_update, &u, false);
  }
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static const block_target *target;
static void start(void) {
  block_start(target, 8 << 20);
}

Suite *cuda_flat_suite(const char *name, const block_target *t) {
  Suite *s = suite_create(name);
  TCase *c = tcase_create(name);
  target = t;
  tcase_set_timeout(c, 0);
  tcase_add_unchecked_fixture(c, start, block_stop);
  tcase_add_test(c, half_rows);
  tcase_add_test(c, look);
  tcase_add_test(c, copies);
  tcase_add_test(c, swap);
  tcase_add_test(c, short_and_wide);
  tcase_add_test(c, squares);
  tcase_add_test(c, clip);
  tcase_add_loop_test(c, updates, 0, 3 * KINDS);
  tcase_add_test(c, update_of_a_bucket);
  tcase_add_test(c, stats);
  suite_add_tcase(s, c);
  return s;
}
