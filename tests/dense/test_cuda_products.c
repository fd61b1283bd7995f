/* test_cuda_products.c - stacks of layers on the GPU's engine, without a GPU:
 * what is fused and what where it can't be, and algorithms that are kept. */
#include <cublasLt.h>
#include <stdlib.h>

#include "base/log.h"
#include "tests/support/emulated/cublas.h"
#include "tests/support/emulated/emulated.h"
#include "tests/dense/test_mlp.c"

#include "dense/linear_impl.h"

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "emulated", 1);
}

/* All layers but the last have masks, and what is above them uses these. */
TS_TEST(masks_and_sums_are_fused) {
  static ts_probe p;
  for (int k = 0; k < N_CASES; k++) {
    const ts_case *c = &cases[k];
    const ts_cublas_fake was = ts_cublas;
    const int64_t masks = ts_emulated_launches("ts_mask_kernel");
    start(&p, c);
    pass(&p, BATCH_MAX, 0);
    stop(&p);
    ck_assert_int_eq(ts_cublas.masks - was.masks, c->n - 1);
    ck_assert_int_eq(ts_cublas.dmasks - was.dmasks, c->n - 1);
    ck_assert_int_eq(ts_cublas.ran - was.ran, 3 * c->n - !c->need_dx);
    /* The last layer's dy comes from elsewhere. */
    ck_assert_int_eq(ts_emulated_launches("ts_mask_kernel") - masks,
                     !c->last_linear || c->precision == TS_PRECISION_BF16);
    /* The last layer's sums, without ReLU, where dy is read as it is. */
    ck_assert_int_eq(ts_cublas.bias_grads - was.bias_grads,
                     c->last_linear && c->precision != TS_PRECISION_BF16);
    ck_assert_int_eq(ts_cublas.descriptors, was.descriptors);
  }
}

/* The products once more, alone: gradients stay what they are. */
TS_TESTS(products_are_repeated, 0, N_CASES) {
  static ts_probe p;
  static float grad[2][WIDTH_MAX * WIDTH_MAX];
  const ts_case *c = &cases[_i];
  const ts_layer_hooks hooks = {make_room, NULL, end_room, &p};
  float *y;
  start(&p, c);
  fill(&p, 37, 0);
  lend_params(&p, true);
  void *x = ts_test_lend(p.device, p.x, sizeof p.x, true);
  void *dx = ts_test_lend(p.device, p.dx, sizeof p.dx, true);
  void *dy = ts_test_lend(p.device, p.dlast, sizeof p.dlast, true);
  ck_assert_ok(ts_mlp_forward(p.mlp, &y, x, 37, &hooks, p.lane));
  ck_assert_ok(
      ts_mlp_backward(p.mlp, c->need_dx ? dx : NULL, dy, 37, &hooks, p.lane));
  for (int i = 0; i < p.params.n; i += 2) {
    const size_t n = (size_t)p.params.item[i]->n * 4;
    ts_linear *l = p.params.item[i]->layer;
    const int ran = ts_cublas.ran;
    ck_assert_ok(ts_lane_sync(p.lane));
    ts_test_get(p.device, grad[0], p.grad_at[i], n);
    ck_assert_ok(ts_linear_repeat(l, TS_FORWARD, p.lane));
    ck_assert_ok(ts_linear_repeat(l, TS_BACKWARD, p.lane));
    ck_assert_ok(ts_lane_sync(p.lane));
    ts_test_get(p.device, grad[1], p.grad_at[i], n);
    ck_assert_int_eq(ts_cublas.ran - ran, 3 - (!i && !c->need_dx));
    ck_assert_mem_eq(grad[0], grad[1], n);
  }
  ts_test_reclaim(p.device, p.x, x, sizeof p.x, false);
  ts_test_reclaim(p.device, p.dx, dx, sizeof p.dx, false);
  ts_test_reclaim(p.device, p.dlast, dy, sizeof p.dlast, false);
  lend_params(&p, false);
  stop(&p);
}

/* A step that the library can't fuse is done beside it. */
TS_TESTS(what_is_refused_is_done_apart, 0, 6) {
  const int refused[] = {CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
                         CUBLASLT_EPILOGUE_DRELU_BGRAD,
                         CUBLASLT_EPILOGUE_BGRADB};
  /* As it is asked for, or only where it is to be run. */
  *(_i < 3 ? &ts_cublas.refused : &ts_cublas.unrun) = refused[_i % 3];
  for (int k = 0; k < N_CASES; k++) all_batches(&cases[k]);
  ts_cublas.refused = ts_cublas.unrun = 0;
}

static void has_unfused(const ts_probe *p, const char *want) {
  ts_str text = {0};
  ck_assert_ok(ts_linear_unfused(&p->k, &text));
  if (!want)
    ck_assert_ptr_null(text.text);
  else
    ck_assert_msg(text.text && strstr(text.text, want), "%s", text.text);
  ts_str_reset(&text);
}

/* At the end it is said of those that were used: not of what comes from a
 * checkpoint alone. */
TS_TESTS(what_is_refused_is_said, 0, 4) {
  static const struct {
    int epilogue;
    const char *want;
  } refused[] = {
      {0, NULL},
      {CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
       "algorithm: y with bias, ReLU and its mask ("},
      {CUBLASLT_EPILOGUE_DRELU_BGRAD,
       "algorithm: dx with ReLU's mask and a bias' gradient ("},
      {CUBLASLT_EPILOGUE_BGRADB, "algorithm: dW with the bias' gradient ("}};
  static ts_probe p;
  ts_str text = {0};
  ts_cublas.refused = refused[_i].epilogue;
  start(&p, &cases[1]);
  has_unfused(&p, NULL);
  pass(&p, BATCH_MAX, 0);
  has_unfused(&p, refused[_i].want);
  ck_assert_ok(p.k.engine->save(&text));
  stop(&p);
  start(&p, &cases[1]);
  ck_assert_ok(p.k.engine->restore(text.text));
  has_unfused(&p, NULL);
  pass(&p, BATCH_MAX, 0);
  has_unfused(&p, refused[_i].want);
  stop(&p);
  ts_str_reset(&text);
  ts_cublas.refused = 0;
}

/* Without any algorithm there is a message. */
TS_TEST(no_algorithm_is_an_error) {
  static ts_probe p;
  float *y;
  start(&p, &cases[2]);
  fill(&p, 3, 0);
  lend_params(&p, true);
  ts_cublas.refused = CUBLASLT_EPILOGUE_RELU_BIAS;
  ck_assert_int_eq(ts_mlp_forward(p.mlp, &y, p.x, 3, NULL, p.lane),
                   TS_ERR_INTERNAL);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "no product of 5 x 3 x 7"));
  ts_err_clear();
  ts_cublas.refused = 0;
  lend_params(&p, false);
  stop(&p);
}

/* ---- long sums ----------------------------------------------------------- */

enum { LONG = 2048, THIN_IN = 13, THIN_OUT = 8 };

/* dW of a thin layer in as many parts as the library takes; FROM as in live. */
static void long_sum(const char *from, ts_str *text, int parts_most) {
  static const ts_case thin = {THIN_IN, THIN_IN, {THIN_OUT}, 1,
                               true,    false,   false,      TS_PRECISION_F32};
  static ts_probe p;
  static float x[LONG * THIN_IN], dy[LONG * THIN_OUT];
  const ts_layer_hooks hooks = {make_room, NULL, end_room, &p};
  float *y, dW[THIN_IN * THIN_OUT];
  const int was = ts_cublas.cut;
  batch_max = LONG;
  ts_cublas.parts_most = parts_most;
  start(&p, &thin);
  if (from) ck_assert_ok(p.k.engine->restore(from));
  fill(&p, 1, 0);
  for (int i = 0; i < LONG * THIN_IN; i++) x[i] = draw(1, (uint32_t)i);
  for (int i = 0; i < LONG * THIN_OUT; i++) dy[i] = draw(2, (uint32_t)i);
  lend_params(&p, true);
  void *x_at = ts_test_lend(p.device, x, sizeof x, true);
  void *dy_at = ts_test_lend(p.device, dy, sizeof dy, true);
  ck_assert_ok(ts_mlp_forward(p.mlp, &y, x_at, LONG, &hooks, p.lane));
  ck_assert_ok(ts_mlp_backward(p.mlp, NULL, dy_at, LONG, &hooks, p.lane));
  ck_assert_ok(ts_lane_sync(p.lane));
  ts_test_get(p.device, dW, p.grad_at[0], sizeof dW);
  for (int o = 0; o < THIN_OUT; o++)
    for (int k = 0; k < THIN_IN; k++) {
      double sum = 0;
      for (int i = 0; i < LONG; i++)
        sum += (double)dy[i * THIN_OUT + o] * (double)x[i * THIN_IN + k];
      ck_assert_double_eq_tol((double)dW[o * THIN_IN + k], sum, 1e-3);
    }
  ck_assert_int_eq(ts_cublas.cut - was, parts_most > 1); /* dW's alone */
  if (text) ck_assert_ok(p.k.engine->save(text));
  ts_test_reclaim(p.device, x, x_at, sizeof x, false);
  ts_test_reclaim(p.device, dy, dy_at, sizeof dy, false);
  lend_params(&p, false);
  stop(&p);
  batch_max = BATCH_MAX;
  ts_cublas.parts_most = 0;
}

/* Whoever goes on with kept choices has the same parts. */
TS_TEST(long_sums_are_cut) {
  ts_str text = {0}, again = {0};
  long_sum(NULL, NULL, 0);
  long_sum(NULL, NULL, 2);
  long_sum(NULL, &text, 4);
  const int asked = ts_cublas.asked;
  long_sum(text.text, &again, 64);
  ck_assert_int_eq(ts_cublas.asked, asked);
  ck_assert_str_eq(text.text, again.text);
  ts_str_reset(&text);
  ts_str_reset(&again);
}

/* ---- algorithms ---------------------------------------------------------- */

/* A stack's life: *TEXT, unless NULL, is what came of its choices; FROM: those
 * that it begins with.  How many it asked the library for. */
static int live(const ts_case *c, const char *from, ts_str *text) {
  static ts_probe p;
  ts_cublas.stale++; /* proposals differ from those of other lives */
  const int asked = ts_cublas.asked;
  start(&p, c);
  pass(&p, BATCH_MAX, 0); /* before it knows */
  if (from) ck_assert_ok(p.k.engine->restore(from));
  const int before = from ? ts_cublas.asked : asked;
  pass(&p, BATCH_MAX, 2);
  pass(&p, 37, 4);
  if (text) ck_assert_ok(p.k.engine->save(text));
  stop(&p);
  return ts_cublas.asked - before;
}

TS_TESTS(algorithms_are_kept, 0, N_CASES) {
  ts_str text = {0}, again = {0};
  const ts_case *c = &cases[_i];
  if (missing(c)) return;
  const int asked = live(c, NULL, &text), n = 3 * c->n - !c->need_dx;
  ck_assert_int_ge(asked, n); /* the same ones may serve two layers */
  const int taken = ts_cublas.taken;
  ck_assert_int_eq(live(c, text.text, &again), 0);
  ck_assert_int_eq(ts_cublas.taken - taken, 2 * n);
  ck_assert_str_eq(text.text, again.text);
  ts_str_reset(&text);
  ts_str_reset(&again);
}

/* A choice of another library or GPU, or a damaged one, is made anew.  One word
 * of a line that isn't what the library gave it is found when it is used. */
TS_TEST(algorithms_of_others_are_not_taken) {
  ts_str text = {0}, none = {0};
  const ts_case *c = &cases[1];
  (void)live(c, NULL, &text);
  char *t = text.text, *word = strchr(t, '|') + 1;
  const int fresh = live(c, "cuBLASLt 120000, another\n", NULL);
  ck_assert_int_gt(fresh, 0); /* those of 37 samples */
  word[3] = word[3] == '1' ? '2' : '1';
  const int taken = ts_cublas.taken;
  (void)live(c, t, NULL);
  ck_assert_int_gt(ts_cublas.taken, taken);
  word[3] = 'x';
  ck_assert_int_eq(live(c, t, NULL), fresh);
  t[strlen(t) - 2] = 0;
  ck_assert_int_eq(live(c, t, NULL), fresh);
  *strchr(t, '\n') = 0;
  ck_assert_int_eq(live(c, t, NULL), fresh);
  ck_assert_int_eq(live(c, "", NULL), fresh);
  ts_str_reset(&text);
  ts_str_reset(&none);
}
