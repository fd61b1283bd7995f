/* interact.c - the contract of the dot interaction: in f32 bit for bit, but
 * for the host's vector versions, which sum in another order; products of bf16
 * and all of these against sums in double.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 600 */
#include "tests/support/contract.h"

enum { F_MAX = 320 };
enum { BOTTOM = 1, HALF = 2, OVER = 4, ODD = 8, EXACT = 16 };

typedef struct interact_case {
  ts_interact_args a;
  int how, n;      /* OVER: gradients lie over embeddings; ODD: arrays off
                      borders; EXACT: embeddings that bf16 has.  N: vectors */
  const float *x0; /* also without bottom */
  float *emb[F_MAX], *demb[F_MAX];
  int64_t stride[F_MAX];
} interact_case;

/* ---- making -------------------------------------------------------------- */

static float some(bool exact) {
  const float x = kt_some(KT_UNIT);
  return exact ? ts_bf16_to_f32(ts_f32_to_bf16(x)) : x;
}

static float *take(const interact_case *c, int64_t n) {
  float *x = kt_array(n, 4, c->how & ODD ? 4 : 0);
  for (int64_t i = 0; i < n; i++) x[i] = some(c->how & EXACT);
  return x;
}

/* Results, whose bits depend on the order of sums. */
static void result(const interact_case *c, const void *p) {
  kt_compare(p, c->how & HALF ? KT_OWN : KT_NEAR);
}

static void make(interact_case *c, int F, int dim, int batch, int how) {
  memset(c, 0, sizeof *c);
  c->how = how;
  const bool bottom = how & BOTTOM || F == 1, half = how & HALF;
  const int n = c->n = F + bottom, off = how & ODD ? 4 : 0;
  const int64_t width = (bottom ? dim : 0) + n * (n - 1) / 2;
  const int64_t stride = off ? width + 3 : (width + 31) / 32 * 32;
  void *out = half ? kt_array(batch * stride, 2, off) : take(c, batch * stride);
  void *grad = kt_array(batch * stride, half ? 2 : 4, off);
  for (int64_t i = 0; i < batch * stride; i++)
    if (half)
      ((uint16_t *)grad)[i] = ts_f32_to_bf16(some(false));
    else
      ((float *)grad)[i] = some(false);
  c->x0 = take(c, (int64_t)batch * dim);
  float *dx0 = take(c, (int64_t)batch * dim);
  for (int f = 0; f < F; f++) {
    c->stride[f] = dim + (off ? f % 3 : 4 * (f % 2));
    c->emb[f] = take(c, batch * c->stride[f]);
    c->demb[f] = how & OVER ? c->emb[f] : take(c, batch * c->stride[f]);
    result(c, c->demb[f]);
  }
  result(c, out);
  result(c, dx0);
  c->a = (ts_interact_args){.out = out,
                            .grad = grad,
                            .half = half,
                            .out_stride = stride,
                            .bottom = bottom ? c->x0 : NULL,
                            .grad_bottom = bottom ? dx0 : NULL,
                            .emb_stride = c->stride,
                            .n_features = F,
                            .dim = dim,
                            .batch = batch};
}

/* ---- runs ---------------------------------------------------------------- */

static ts_err run(const ts_kernels *k, const void *arg) {
  interact_case c = *(const interact_case *)arg;
  ts_interact_args a;
  kt_at_all(&c, sizeof c);
  a = c.a;
  a.emb = (const float *const *)c.emb;
  a.grad_emb = c.demb;
  TS_DO((a.half ? k->interact_forward_half : k->interact_forward)(&a));
  return (a.half ? k->interact_backward_half : k->interact_backward)(&a);
}

/* Who is tested multiplies in bf16, or may. */
static bool multiplies_bf16(void) {
  ts_kernels best;
  if (!strcmp(ts_test_backend(), "host")) return kt_is("avx512_bf16");
  if (strcmp(ts_test_backend(), "fake") != 0) return true;
  ck_assert_ok(ts_kernels_fill(&best, "host", NULL));
  return !strcmp(best.isa, "avx512_bf16");
}
static bool on_host, in_bf16;

/* Number I of out or grad. */
static double number(const interact_case *c, const void *p, int64_t i) {
  return test_get(p, c->a.half ? TS_BF16 : TS_F32, i);
}

/* Column D of vector I of sample B, as products take it. */
static double factor(const interact_case *c, int i, int b, int d) {
  const int f = i - (c->a.bottom != NULL);
  const float x =
      f < 0 ? c->x0[b * c->a.dim + d] : c->emb[f][b * c->stride[f] + d];
  return c->a.half && in_bf16 ? ts_bf16_to_f32(ts_f32_to_bf16(x)) : x;
}

/* Some of the host's kernels round embeddings, others don't. */
static void near_to(const interact_case *c, double x, double want, double of,
                    bool rounded, const char *what) {
  const bool loose = c->a.half && on_host && in_bf16 && !(c->how & EXACT);
  const double allowed = (loose ? 1.0 / 120 : 1e-5) * of +
                         (rounded ? fabs(want) / 256 : 0) + 1e-37;
  ck_assert_msg(fabs(x - want) <= allowed,
                "%s: %s of %d vectors of %d%s: %.9g, not %.9g", kt_who(), what,
                c->n, c->a.dim, c->a.half ? " in bf16" : "", x, want);
}

static void look_forward(const interact_case *c, int b) {
  const void *out = kt_got(c->a.out);
  int64_t at = b * c->a.out_stride;
  for (int d = 0; c->a.bottom && d < c->a.dim; d++)
    near_to(c, number(c, out, at++), factor(c, 0, b, d), 0, c->a.half,
            "bottom");
  for (int i = 0; i < c->n; i++)
    for (int j = i + 1; j < c->n; j++) {
      double dot = 0, of = 0;
      for (int d = 0; d < c->a.dim; d++) {
        const double x = factor(c, i, b, d) * factor(c, j, b, d);
        dot += x;
        of += fabs(x);
      }
      near_to(c, number(c, out, at++), dot, of, c->a.half, "a product");
    }
  for (; at < (b + 1) * c->a.out_stride; at++)
    ck_assert(number(c, out, at) == 0);
}

static void look_backward(const interact_case *c, int b) {
  const int head = c->a.bottom ? c->a.dim : 0, n = c->n;
  const int64_t row = b * c->a.out_stride;
  for (int i = 0; i < n; i++)
    for (int d = 0; d < c->a.dim; d++) {
      const int f = i - (c->a.bottom != NULL);
      double want = f < 0 ? number(c, c->a.grad, row + d) : 0, of = fabs(want);
      for (int j = 0; j < n; j++) {
        const int low = i < j ? i : j, high = i < j ? j : i;
        if (i == j) continue;
        const double x =
            factor(c, j, b, d) *
            number(c, c->a.grad,
                   row + head + low * (2 * n - low - 1) / 2 + high - low - 1);
        want += x;
        of += fabs(x);
      }
      const float *got = f < 0 ? kt_got(c->a.grad_bottom + b * c->a.dim + d)
                               : kt_got(c->demb[f] + b * c->stride[f] + d);
      near_to(c, (double)*got, want, of, false, "a gradient");
    }
}

/* The gaps between rows stay as they were. */
static void look_gaps(const interact_case *c, int b) {
  for (int f = 0; f < c->a.n_features; f++) {
    const float *end = c->demb[f] + b * c->stride[f] + c->a.dim;
    const size_t gap = (size_t)(c->stride[f] - c->a.dim) * 4;
    if (gap) ck_assert_mem_eq(kt_got(end), end, gap);
  }
}

static void look(const void *arg) {
  const interact_case *c = arg;
  on_host = strcmp(ts_test_backend(), "emulated") != 0 &&
            strcmp(ts_test_backend(), "cuda") != 0;
  in_bf16 = multiplies_bf16();
  for (int b = 0; b < c->a.batch; b++) {
    look_forward(c, b);
    look_backward(c, b);
    look_gaps(c, b);
  }
}

/* ---- cases --------------------------------------------------------------- */

static void check(int F, int dim, int batch, int how) {
  static interact_case c;
  kt_begin();
  make(&c, F, dim, batch, how);
  /* Vectors that the tiny GPU has no room for. */
  if (F > 100) kt_least_shared(24 << 10);
  kt_look(look);
  kt_check(run, &c);
}

static const int dims[] = {4, 16, 20, 64, 128, 7, 8};

KT_CONTRACT("interact_forward interact_backward interact_forward_half "
            "interact_backward_half")

TS_TESTS(interactions, 0, TEST_COUNT(dims)) {
  static const int F[] = {1, 2, 3, 5, 15, 16, 17, 26, 60};
  for (int f = 0; f < TEST_COUNT(F); f++) {
    const int batch = F[f] < 10 ? 5 : F[f] < 60 ? 3 : 1;
    for (int how = 0; how < 4; how++)
      check(F[f], dims[_i], batch, how | kt_below(4) << 2);
    check(F[f], dims[_i], batch, BOTTOM | HALF | EXACT);
  }
}

/* More samples than blocks have at once, none, one. */
TS_TEST(batches) {
  for (int how = 0; how < 16; how++) {
    check(3, 8, how % 4 ? 37 : 301, how);
    check(6, 20, 1, how);
    check(6, 16, 0, how);
  }
}

/* More vectors than go by value, and gradients that shared memory has no room
 * for. */
TS_TEST(many_vectors) {
  for (int how = 0; how < 4; how++) {
    check(170, 8, 2, how);
    check(300, 7, 1, how | OVER);
    check(161, 36, 1, how | ODD);
  }
}

/* ---- bf16 beside f32 ----------------------------------------------------- */

static ts_err run_pair(const ts_kernels *k, const void *arg) {
  const interact_case *c = arg;
  const ts_err err = run(k, &c[0]);
  return err == TS_OK ? run(k, &c[1]) : err;
}

static void same(bool bits, float x, float y, float tolerance) {
  if (bits)
    ck_assert(x == y);
  else
    ck_assert_float_le(fabsf(x - y), tolerance);
}

/* Results in bf16 are f32's, rounded, since bf16 has the inputs; but kernels
 * that multiply in bf16 sum in another order. */
static void look_pair(const void *arg) {
  const interact_case *c = arg, *h = c + 1;
  const bool bits = !multiplies_bf16();
  const float *out = kt_got(c->a.out);
  for (int64_t i = 0; i < c->a.batch * c->a.out_stride; i++) {
    const float want = bits ? ts_bf16_to_f32(ts_f32_to_bf16(out[i])) : out[i];
    same(bits, (float)number(h, kt_got(h->a.out), i), want,
         fabsf(want) / 128 + 1e-5F);
  }
  for (int f = -1; f < c->a.n_features; f++) {
    const float *x = kt_got(f < 0 ? c->a.grad_bottom : c->demb[f]);
    const float *y = kt_got(f < 0 ? h->a.grad_bottom : h->demb[f]);
    const int64_t stride = f < 0 ? c->a.dim : c->stride[f];
    for (int64_t i = 0; i < c->a.batch * stride; i++)
      if (i % stride < c->a.dim) same(bits, x[i], y[i], 2e-5F);
  }
}

TS_TESTS(half_as_plain, 0, TEST_COUNT(dims)) {
  static const int F[] = {3, 26, 40};
  const int batch = strcmp(ts_test_backend(), "host") ? 2 : 9;
  static interact_case c[2];
  const int dim = dims[_i];
  for (int i = 0; i < TEST_COUNT(F); i++) {
    kt_begin();
    make(&c[0], F[i], dim, batch, BOTTOM | EXACT);
    make(&c[1], F[i], dim, batch, BOTTOM | EXACT | HALF);
    memcpy((void *)(uintptr_t)c[1].x0, c[0].x0, (size_t)(batch * dim) * 4);
    for (int f = 0; f < F[i]; f++)
      memcpy(c[1].emb[f], c[0].emb[f], (size_t)(batch * c[0].stride[f]) * 4);
    for (int64_t j = 0; j < batch * c[0].a.out_stride; j++)
      ((float *)(uintptr_t)c[0].a.grad)[j] =
          (float)number(&c[1], c[1].a.grad, j);
    kt_look(look_pair);
    kt_check(run_pair, c);
  }
}
