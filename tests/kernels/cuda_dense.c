/* cuda_dense.c - the memory of cases, and cases of the dot interaction.
 *
 * All memory of a case is one block; host and target get copies of it, and
 * what they leave behind has to be the same bytes, gaps included.  Products of
 * bf16 have another order than the host's: those are compared with sums in
 * double, and then forgiven. */
#include "tests/kernels/cuda_dense.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cuda_numbers.h"

static const dense_target *target;
ts_kernels dense_host, dense_tested;

/* ---- memory -------------------------------------------------------------- */

enum { BYTES_MAX = 16 << 20 };
static char *was, *of_host, *of_target, *before;
static size_t used;
static float some(void) {
  static const float rare[] = {0, -0.0f, 0x1p-140f, -0x1p-149f, 1, -1};
  if (bits() % 16 == 0) return rare[bits() % 6];
  return (float)((int32_t)bits()) * 0x1p-31f;
}

void dense_begin(void) {
  used = 0;
}

const char *dense_was(void) {
  return was;
}
char *dense_of_host(void) {
  return of_host;
}
char *dense_of_target(void) {
  return of_target;
}

size_t dense_take(int64_t bytes, int off) {
  const size_t at = (used + 32 + 255) / 256 * 256 + (size_t)off;
  for (size_t i = used; i < at + (size_t)bytes; i++) was[i] = (char)bits();
  used = at + (size_t)bytes;
  ck_assert(used + 512 <= BYTES_MAX);
  return at;
}

size_t dense_take_floats(int64_t n, int off) {
  const size_t at = dense_take(n * 4, off);
  for (int64_t i = 0; i < n; i++) {
    const float x = some();
    memcpy(was + at + 4 * i, &x, 4);
  }
  return at;
}

size_t dense_take_halves(int64_t n, int off) {
  const size_t at = dense_take(n * 2, off);
  for (int64_t i = 0; i < n; i++) {
    const uint16_t x = ts_f32_to_bf16(some());
    memcpy(was + at + 2 * i, &x, 2);
  }
  return at;
}

typedef struct one_run {
  dense_task *task;
  char *base;
  const void *arg;
} one_run;

static ts_err by_target(void *p) {
  const one_run *r = p;
  return r->task(&dense_tested, r->base, r->arg);
}

void dense_run(dense_task *task, const void *arg) {
  const size_t bytes = used + 256;
  for (size_t i = used; i < bytes; i++) was[i] = (char)bits();
  memcpy(of_host, was, bytes);
  ck_assert_ok(task(&dense_host, of_host, arg));
  for (int m = 0; m < target->n_machines; m++) {
    if (target->set_machine) target->set_machine(m);
    one_run r = {task, target->send(was, bytes), arg};
    ck_assert_ok(target->run(by_target, &r));
    target->fetch(of_target, r.base, bytes);
    target->drop(r.base);
    if (m) ck_assert_msg(!memcmp(before, of_target, bytes), "machine %d", m);
    memcpy(before, of_target, bytes);
  }
}

void dense_forgive(size_t at, size_t bytes) {
  memcpy(of_target + at, of_host + at, bytes);
}

void dense_same(const char *what) {
  for (size_t i = 0; i < used + 256; i++)
    ck_assert_msg(of_host[i] == of_target[i], "%s: byte %zu is another", what,
                  i);
}

/* ---- interaction --------------------------------------------------------- */

enum { F_MAX = 320 };

typedef struct interact_case {
  int F, dim, batch;
  bool bottom, half, over; /* over: gradients lie over embeddings */
  int odd;                 /* arrays lie so many bytes off a border of 256 */
  int64_t out_stride, stride[F_MAX];
  size_t out, grad, x0, dx0, emb[F_MAX], demb[F_MAX];
} interact_case;

static void make_interact(interact_case *c) {
  const int n = c->F + c->bottom;
  const int64_t width = (c->bottom ? c->dim : 0) + n * (n - 1) / 2;
  c->out_stride = c->odd ? width + 3 : (width + 31) / 32 * 32;
  dense_begin();
  const int64_t all = c->batch * c->out_stride, rows = c->batch * c->dim;
  c->out = dense_take(all * (c->half ? 2 : 4), c->odd);
  c->grad =
      c->half ? dense_take_halves(all, c->odd) : dense_take_floats(all, c->odd);
  c->x0 = dense_take_floats(rows, c->odd);
  c->dx0 = dense_take_floats(rows, c->odd);
  for (int f = 0; f < c->F; f++) {
    c->stride[f] = c->dim + (c->odd ? f % 3 : 4 * (f % 2));
    c->emb[f] = dense_take_floats(c->batch * c->stride[f], c->odd);
    c->demb[f] = c->over ? c->emb[f]
                         : dense_take_floats(c->batch * c->stride[f], c->odd);
  }
}

static ts_err interact_task(const ts_kernels *k, char *base, const void *arg) {
  const interact_case *c = arg;
  ts_err err = TS_OK;
  const float *emb[F_MAX];
  float *demb[F_MAX];
  for (int f = 0; f < c->F; f++) {
    emb[f] = (const float *)(const void *)(base + c->emb[f]);
    demb[f] = (float *)(void *)(base + c->demb[f]);
  }
  const ts_interact_args a = {
      .out = base + c->out,
      .grad = base + c->grad,
      .half = c->half,
      .out_stride = c->out_stride,
      .bottom = c->bottom ? (float *)(void *)(base + c->x0) : NULL,
      .grad_bottom = c->bottom ? (float *)(void *)(base + c->dx0) : NULL,
      .emb = emb,
      .grad_emb = demb,
      .emb_stride = c->stride,
      .n_features = c->F,
      .dim = c->dim,
      .batch = c->batch};
  TS_TRY((c->half ? k->interact_forward_half : k->interact_forward)(&a));
  TS_TRY((c->half ? k->interact_backward_half : k->interact_backward)(&a));
done:
  return err;
}

static double half_of(const char *p) {
  uint16_t h;
  memcpy(&h, p, 2);
  return ts_bf16_to_f32(h);
}

static double float_at(const char *p) {
  float f;
  memcpy(&f, p, 4);
  return f;
}

/* Number K of out or grad. */
static double number(const interact_case *c, const char *p, int64_t k) {
  return c->half ? half_of(p + 2 * k) : float_at(p + 4 * k);
}

/* Column D of vector I of sample B: as products take it. */
static double factor(const interact_case *c, int i, int b, int d) {
  const int f = i - c->bottom;
  const size_t at = f < 0 ? c->x0 + 4 * (size_t)(b * c->dim + d)
                          : c->emb[f] + 4 * (size_t)(b * c->stride[f] + d);
  const double x = float_at(dense_was() + at);
  return c->half ? ts_bf16_to_f32(ts_f32_to_bf16((float)x)) : x;
}

static void near_to(const interact_case *c, double x, double want, double of,
                    bool rounded, const char *what) {
  const double allowed = 1e-5 * of + (rounded ? fabs(want) / 256 : 0) + 1e-37;
  ck_assert_msg(fabs(x - want) <= allowed,
                "%s of %d vectors of %d%s: %.9g, not %.9g", what,
                c->F + c->bottom, c->dim, c->half ? " in bf16" : "", x, want);
}

static void check_forward(const interact_case *c, int b) {
  const int n = c->F + c->bottom;
  const char *row = dense_of_target() + c->out;
  int64_t at = b * c->out_stride;
  for (int d = 0; c->bottom && d < c->dim; d++)
    ck_assert(number(c, row, at++) == factor(c, 0, b, d));
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) {
      double dot = 0, of = 0;
      for (int d = 0; d < c->dim; d++) {
        const double x = factor(c, i, b, d) * factor(c, j, b, d);
        dot += x;
        of += fabs(x);
      }
      near_to(c, number(c, row, at++), dot, of, c->half, "a product");
    }
  for (; at < (b + 1) * c->out_stride; at++) ck_assert(number(c, row, at) == 0);
}

static void check_backward(const interact_case *c, int b) {
  const int n = c->F + c->bottom, head = c->bottom ? c->dim : 0;
  const char *grad = dense_was() + c->grad, *now = dense_of_target();
  const int64_t row = b * c->out_stride;
  for (int i = 0; i < n; i++)
    for (int d = 0; d < c->dim; d++) {
      const int f = i - c->bottom;
      double want = f < 0 ? number(c, grad, row + d) : 0, of = fabs(want);
      for (int j = 0; j < n; j++) {
        const int low = i < j ? i : j, high = i < j ? j : i;
        if (i == j) continue;
        const double x =
            factor(c, j, b, d) *
            number(c, grad,
                   row + head + low * (2 * n - low - 1) / 2 + high - low - 1);
        want += x;
        of += fabs(x);
      }
      const size_t at = f < 0 ? c->dx0 + 4 * (size_t)(b * c->dim + d)
                              : c->demb[f] + 4 * (size_t)(b * c->stride[f] + d);
      near_to(c, float_at(now + at), want, of, false, "a gradient");
    }
}

/* Sums in bf16 have been looked at. */
static void forgive(const interact_case *c) {
  dense_forgive(c->out, (size_t)(c->batch * c->out_stride) * 2);
  for (int b = 0; b < c->batch; b++) {
    if (c->bottom)
      dense_forgive(c->dx0 + 4 * (size_t)(b * c->dim), 4 * (size_t)c->dim);
    for (int f = 0; f < c->F; f++)
      dense_forgive(c->demb[f] + 4 * (size_t)(b * c->stride[f]),
                    4 * (size_t)c->dim);
  }
}

static void interact(int F, int dim, int batch, int how) {
  static interact_case c;
  c = (interact_case){.F = F,
                      .dim = dim,
                      .batch = batch,
                      .bottom = how & 1 || F == 1,
                      .half = how & 2,
                      .over = how & 4,
                      .odd = how & 8 ? 4 : 0};
  make_interact(&c);
  dense_run(interact_task, &c);
  for (int b = 0; b < batch; b++) {
    check_forward(&c, b);
    check_backward(&c, b);
  }
  if (c.half) forgive(&c);
  dense_same("interaction");
}

static const int dims[] = {4, 16, 20, 64, 128, 7};

START_TEST(interactions) {
  static const int F[] = {1, 2, 3, 5, 15, 16, 17, 26, 60};
  for (int f = 0; f < (int)(sizeof F / sizeof *F); f++)
    for (int how = 0; how < 4; how++)
      interact(F[f], dims[_i],
               F[f] < 10   ? 5
               : F[f] < 60 ? 3
                           : 1,
               how | below(4) << 2);
}
END_TEST

/* Of more samples than blocks have at once, none, one. */
START_TEST(batches) {
  for (int how = 0; how < 16; how++) {
    interact(3, 8, how % 4 ? 37 : 301, how);
    interact(6, 20, 1, how);
    interact(6, 16, 0, how);
  }
}
END_TEST

/* More vectors than go by value, and gradients that shared memory has no room
 * for. */
START_TEST(many_vectors) {
  for (int how = 0; how < 4; how++) {
    interact(170, 8, 2, how);
    interact(300, 7, 1, how | 4);
    interact(161, 36, 1, how | 8);
  }
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static void setup(void) {
  if (target->start) target->start();
  target->kernels(&dense_tested);
  ck_assert_ok(ts_kernels_fill(&dense_host, "host", "ref"));
  char **all[] = {&was, &of_host, &of_target, &before};
  for (int i = 0; i < 4; i++) {
    *all[i] = aligned_alloc(256, BYTES_MAX);
    ck_assert_ptr_nonnull(*all[i]);
  }
}

static void teardown(void) {
  free(was), free(of_host), free(of_target), free(before);
  if (target->stop) target->stop();
}

Suite *cuda_dense_suite(const char *name, const dense_target *t) {
  Suite *s = suite_create(name);
  TCase *c = tcase_create("interaction"), *rows = cuda_dense_rows();
  target = t;
  tcase_add_unchecked_fixture(c, setup, teardown);
  tcase_add_unchecked_fixture(rows, setup, teardown);
  tcase_add_loop_test(c, interactions, 0, sizeof dims / sizeof *dims);
  tcase_add_test(c, batches);
  tcase_add_test(c, many_vectors);
  suite_add_tcase(s, c);
  suite_add_tcase(s, rows);
  return s;
}
