/* test_dense.c - interaction against sums in double, loss, optimizers and
 * schedules against plain formulas. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "dense/optim.h"
#include "tests/support/harness.h"
#include "runtime/kernels.h"

static float draw(uint32_t a, uint32_t b) {
  uint32_t x[4];
  ts_rng4(x, 9, TS_RNG_TEST, a, b, 0);
  return 2 * ts_rng_unit(x[0]) - 1;
}

static const char *const isas[] = {"ref", "avx2", "avx512", "avx512_bf16"};

/* ---- interaction --------------------------------------------------------- */

enum { F_MAX = 40, IB = 9 };

static void interaction_case(const ts_kernels *k, int F, int dim, bool bottom) {
  static float store[F_MAX + 1][IB * 128], grads[F_MAX + 1][IB * 128];
  static float out[IB * 1024], g[IB * 1024];
  const float *emb[F_MAX];
  float *gemb[F_MAX];
  int64_t stride[F_MAX];
  const int n = F + bottom, width = (bottom ? dim : 0) + n * (n - 1) / 2;
  const int padded = (width + 31) / 32 * 32;
  for (int i = 0; i <= F; i++)
    for (int j = 0; j < IB * dim; j++)
      store[i][j] = draw(10 + (uint32_t)i, (uint32_t)j);
  for (int i = 0; i < F; i++) {
    emb[i] = store[i + 1];
    gemb[i] = grads[i + 1];
    stride[i] = dim;
  }
  for (int j = 0; j < IB * padded; j++) g[j] = draw(30, (uint32_t)j);
  const ts_interact_args a = {.out = out,
                              .grad = g,
                              .out_stride = padded,
                              .bottom = bottom ? store[0] : NULL,
                              .grad_bottom = grads[0],
                              .emb = emb,
                              .grad_emb = gemb,
                              .emb_stride = stride,
                              .n_features = F,
                              .dim = dim,
                              .batch = IB};
  ck_assert_ok(k->interact_forward(&a));
  ck_assert_ok(k->interact_backward(&a));
  for (int b = 0; b < IB; b++) {
    const float *x[F_MAX + 1];
    double want[F_MAX + 1][128] = {{0}};
    for (int i = 0; i < n; i++) x[i] = store[i + !bottom] + b * dim;
    int at = bottom ? dim : 0;
    for (int d = 0; bottom && d < dim; d++) {
      ck_assert_float_eq(out[b * padded + d], x[0][d]);
      want[0][d] = g[b * padded + d];
    }
    for (int i = 0; i < n; i++)
      for (int j = i + 1; j < n; j++, at++) {
        double dot = 0;
        for (int d = 0; d < dim; d++) {
          dot += (double)x[i][d] * x[j][d];
          want[i][d] += (double)g[b * padded + at] * x[j][d];
          want[j][d] += (double)g[b * padded + at] * x[i][d];
        }
        ck_assert_float_eq_tol(out[b * padded + at], (float)dot, 1e-4f);
      }
    for (; at < padded; at++) ck_assert_float_eq(out[b * padded + at], 0);
    for (int i = 0; i < n; i++)
      for (int d = 0; d < dim; d++)
        ck_assert_float_eq_tol(grads[i + !bottom][b * dim + d],
                               (float)want[i][d], 1e-4f);
  }
}

static void bf16_close(const uint16_t *x, const float *want, int n) {
  for (int i = 0; i < n; i++)
    ck_assert_float_le(fabsf(ts_bf16_to_f32(x[i]) - want[i]),
                       fabsf(want[i]) / 128 + 1e-5F);
}

/* With out and its gradient in bf16: f32's results to bf16's last bit, and the
 * gradients of what the rounded ones say.  Kernels that multiply in bf16 sum
 * in another order; of numbers that bf16 has they lose nothing else. */
static void half_interaction_case(const ts_kernels *k, int F, int dim) {
  static float x[F_MAX + 1][IB * 128], dx[2][F_MAX + 1][IB * 128];
  static float out[IB * 1024], g[IB * 1024];
  static uint16_t out16[IB * 1024], g16[IB * 1024];
  const float *emb[F_MAX];
  float *demb[2][F_MAX];
  int64_t stride[F_MAX];
  const int width = dim + (F + 1) * F / 2, padded = (width + 31) / 32 * 32;
  for (int i = 0; i <= F; i++)
    for (int j = 0; j < IB * dim; j++)
      x[i][j] =
          ts_bf16_to_f32(ts_f32_to_bf16(draw(40 + (uint32_t)i, (uint32_t)j)));
  for (int i = 0; i < F; i++) {
    emb[i] = x[i + 1];
    demb[0][i] = dx[0][i + 1];
    demb[1][i] = dx[1][i + 1];
    stride[i] = dim;
  }
  for (int j = 0; j < IB * padded; j++) {
    g16[j] = ts_f32_to_bf16(draw(39, (uint32_t)j));
    g[j] = ts_bf16_to_f32(g16[j]);
  }
  for (int half = 0; half < 2; half++) {
    const ts_interact_args a = {.out = half ? (void *)out16 : out,
                                .grad = half ? (void *)g16 : g,
                                .half = half,
                                .out_stride = padded,
                                .bottom = x[0],
                                .grad_bottom = dx[half][0],
                                .emb = emb,
                                .grad_emb = demb[half],
                                .emb_stride = stride,
                                .n_features = F,
                                .dim = dim,
                                .batch = IB};
    ck_assert_ok((half ? k->interact_forward_half : k->interact_forward)(&a));
    ck_assert_ok((half ? k->interact_backward_half : k->interact_backward)(&a));
  }
  if (!strcmp(k->isa, "avx512_bf16")) {
    bf16_close(out16, out, IB * padded);
    for (int i = 0; i <= F; i++)
      for (int j = 0; j < IB * dim; j++)
        ck_assert_float_eq_tol(dx[0][i][j], dx[1][i][j], 2e-5F);
    return;
  }
  for (int j = 0; j < IB * padded; j++)
    ck_assert_uint_eq(out16[j], ts_f32_to_bf16(out[j]));
  for (int i = 0; i <= F; i++)
    ck_assert_mem_eq(dx[0][i], dx[1][i], (size_t)(IB * dim) * 4);
}

START_TEST(interaction_against_double) {
  ts_kernels k;
  if (ts_kernels_fill(&k, "host", isas[_i]) != TS_OK) {
    ts_err_clear(); /* not on this CPU */
    return;
  }
  const int dims[] = {8, 16, 20, 64, 128};
  for (int i = 0; i < 5; i++) {
    for (int bottom = 0; bottom < 2; bottom++) {
      interaction_case(&k, 1, dims[i], bottom);
      interaction_case(&k, 5, dims[i], bottom);
      interaction_case(&k, 16, dims[i], bottom);
      interaction_case(&k, 26, dims[i], bottom);
    }
    half_interaction_case(&k, 3, dims[i]);
    half_interaction_case(&k, 26, dims[i]);
    half_interaction_case(&k, 40, dims[i]);
  }
}
END_TEST

/* ---- loss, optimizers, schedules ----------------------------------------- */

/* Samples of 1 task and of 3, which do not end with the kernel's blocks. */
START_TEST(bce_against_formula) {
  const int n = _i ? 3 : 1;
  const double task_weights[] = {1, 0.5, 4};
  ts_kernels k;
  ck_assert_ok(ts_kernels_fill(&k, "host", NULL));
  float z[3000], y[3000], w[3000], g[3000], p[3000];
  double sum, want = 0;
  for (int i = 0; i < 3000; i++) {
    z[i] = 40 * draw(70, (uint32_t)i);
    y[i] = (float)(i % 2);
    w[i] = 1 + draw(71, (uint32_t)i);
    const double q = 1 / (1 + exp(-(double)z[i]));
    const double weight = w[i / n] * task_weights[i % n];
    want += weight * (fmax(z[i], 0) - (double)z[i] * y[i] +
                      log1p(exp(-fabs((double)z[i]))));
    g[i] = (float)(weight * (q - y[i]) * 0.5);
  }
  float got[3000];
  const ts_bce_args a = {.loss_sum = &sum,
                         .grad = got,
                         .prediction = p,
                         .logits = z,
                         .labels = y,
                         .weights = w,
                         .task_weights = _i ? task_weights : NULL,
                         .scale = 0.5,
                         .batch = 3000 / n,
                         .n_tasks = n};
  ck_assert_ok(k.bce(&a));
  ck_assert_double_eq_tol(sum, want, 1e-9 * want);
  for (int i = 0; i < 3000; i++) ck_assert_float_eq_tol(got[i], g[i], 1e-6f);
}
END_TEST

/* Of the schedule and of clipping. */
static const double lr_factor = 0.8, grad_factor = 0.6;

static double plain_step(const ts_optim_config *c, double *w, double *s,
                         double g, int k) {
  const double lr = lr_factor * c->lr;
  g *= grad_factor;
  const bool decoupled = c->weight_decay_mode == TS_WD_DECOUPLED;
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
  return *w;
}

START_TEST(dense_optimizers_against_formula) {
  static const char *const kinds[] = {"sgd", "sgd", "adagrad", "adam"};
  for (size_t isa = 0; isa < 3; isa++) {
    ts_kernels k;
    if (ts_kernels_fill(&k, "host", isas[isa]) != TS_OK) {
      ts_err_clear();
      continue;
    }
    for (int o = 0; o < 8; o++) {
      char kind[16];
      strcpy(kind, kinds[o % 4]);
      ts_optim_config c = {.kind = kind,
                           .lr = 0.03,
                           .eps = NAN,
                           .beta1 = NAN,
                           .beta2 = NAN,
                           .momentum = o % 4 == 1 ? 0.9 : NAN,
                           .eta = NAN,
                           .weight_decay = 0.01,
                           .weight_decay_mode =
                               o < 4 ? TS_WD_L2 : TS_WD_DECOUPLED};
      ck_assert_ok(ts_dense_optim_check(&c, "test"));
      float w[100], g[100], s0[100] = {0}, s1[100] = {0};
      double dw[100], ds[100][2] = {{0}};
      for (int i = 0; i < 100; i++) dw[i] = w[i] = draw(80, (uint32_t)i);
      for (int step = 1; step <= 30; step++) {
        for (int i = 0; i < 100; i++) {
          g[i] = draw(81, (uint32_t)(step * 100 + i));
          (void)plain_step(&c, &dw[i], ds[i], g[i], step);
        }
        ts_dense_update_args a = {.optim = &c,
                                  .w = w,
                                  .grad = g,
                                  .n = 100,
                                  .lr_factor = lr_factor,
                                  .grad_factor = grad_factor,
                                  .step = step};
        if (ts_dense_optim_n_states(&c) > 0) a.state[0] = s0;
        if (ts_dense_optim_n_states(&c) > 1) a.state[1] = s1;
        ck_assert_ok(k.dense_update(&a, 1));
      }
      for (int i = 0; i < 100; i++)
        ck_assert_float_eq_tol(w[i], (float)dw[i], 2e-5f);
    }
  }
}
END_TEST

START_TEST(options_that_do_not_exist_are_refused) {
  char kind[] = "adagrad";
  ts_optim_config c = {.kind = kind,
                       .lr = 0.1,
                       .eps = NAN,
                       .beta1 = NAN,
                       .beta2 = NAN,
                       .momentum = 0.9,
                       .weight_decay = NAN};
  ck_assert_int_eq(ts_dense_optim_check(&c, "x"), TS_ERR_DECK);
  ts_err_clear();
}
END_TEST

START_TEST(schedules) {
  ts_config c = {0};
  char kinds[][16] = {"constant",     "linear",     "cosine",
                      "inverse_sqrt", "polynomial", "step"};
  c.optimizer.warmup = 10;
  c.optimizer.schedule_steps = 110;
  c.optimizer.power = 2;
  const double want60[] = {1, 0.5, 0.5, sqrt(10.0 / 60.0), 0.25, 1};
  for (int i = 0; i < 6; i++) {
    c.optimizer.schedule = kinds[i];
    if (i == 5) c.optimizer.power = 0.5;
    ck_assert_double_eq_tol(ts_schedule_factor(&c, 5), 0.5, 1e-12);
    ck_assert_double_eq_tol(ts_schedule_factor(&c, 60), want60[i], 1e-12);
  }
  ck_assert_double_eq_tol(ts_schedule_factor(&c, 10 + 110), 0.5, 1e-12);
  c.optimizer.schedule = kinds[1];
  c.optimizer.floor = 0.1;
  ck_assert_double_eq_tol(ts_schedule_factor(&c, 500), 0.1, 1e-12);
}
END_TEST

START_TEST(a_decay_without_its_length_is_refused) {
  char kinds[][16] = {"linear", "cosine", "polynomial", "step"};
  ts_config c = {0};
  for (int i = 0; i < 4; i++) {
    c.optimizer.schedule = kinds[i];
    c.optimizer.schedule_steps = 0;
    ck_assert_int_eq(ts_schedule_check(&c), TS_ERR_DECK);
    ts_err_clear();
    c.optimizer.schedule_steps = 100;
    ck_assert_ok(ts_schedule_check(&c));
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("dense");
  TCase *t = tcase_create("dense");
  tcase_add_loop_test(t, interaction_against_double, 0, 4);
  tcase_add_loop_test(t, bce_against_formula, 0, 2);
  tcase_add_test(t, dense_optimizers_against_formula);
  tcase_add_test(t, options_that_do_not_exist_are_refused);
  tcase_add_test(t, schedules);
  tcase_add_test(t, a_decay_without_its_length_is_refused);
  suite_add_tcase(s, t);
  return s;
}

TS_TEST_MAIN(suite)
