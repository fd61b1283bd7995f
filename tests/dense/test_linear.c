/* test_linear.c - linear layers of every engine against sums in double.
 * fake: 1  emulated: 1 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "tests/dense/linear_probe.h"

static const char *const engines[] = {"ref", "onednn", "cblas"};

/* Widths with and without padding, of no vector's multiple, few outputs. */
static const ts_case cases[] = {
    {45, 64, 19, true, true},   {13, 13, 32, true, false},
    {415, 416, 64, true, true}, {64, 64, 64, false, true},
    {100, 100, 1, false, true}, {33, 64, 3, true, true},
    {1, 1, 4, true, true},      {7, 32, 5, false, true},
};

/* Engines that this build has not; those that configure found must be there. */
static bool missing(const char *engine) {
  bool built = !strcmp(engine, "ref");
#ifdef HAVE_ONEDNN
  built |= !strcmp(engine, "onednn");
#endif
#ifdef HAVE_CBLAS
  built |= !strcmp(engine, "cblas");
#endif
  if (probe_on_gpu()) return strcmp(engine, "onednn") != 0;
  ck_assert_str_eq(ts_linear_engine(engine), built ? engine : "none");
  return !built;
}

static bool no_bf16(void) {
  ts_kernels k;
  ck_assert_ok(ts_test_kernels(&k));
  return !ts_linear_in_bf16(TS_PRECISION_BF16, 64, "onednn", &k);
}

TS_TESTS(layers_against_double, 0, 6) {
  ts_probe p;
  const char *engine = engines[_i / 2];
  if (missing(engine)) return;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    probe_start(&p, engine, cases[k], FLOATS, 1 + _i % 2);
    probe_pass(&p, BATCH_MAX);
    probe_pass(&p, 1);
    probe_pass(&p, 0); /* gradients become 0 */
    probe_pass(&p, 37);
    probe_stop(&p);
  }
}

/* More batch sizes than an engine keeps primitives for, back and forth. */
TS_TESTS(many_batch_sizes, 0, 3) {
  ts_probe p;
  if (missing(engines[_i])) return;
  probe_start(&p, engines[_i], cases[0], FLOATS, 1);
  for (int round = 0; round < 2; round++)
    for (int batch = 2; batch < 24; batch += 2) probe_pass(&p, batch);
  probe_stop(&p);
}

/* bf16 is used wherever the CPU has it, else tests of bf16 would test f32. */
TS_TEST(bf16_where_the_cpu_has_it) {
#if defined(__x86_64__)
  const bool lowered = getenv("ONEDNN_MAX_CPU_ISA") != NULL;
  if (!lowered && !probe_on_gpu() && !missing("onednn"))
    ck_assert_int_eq(!no_bf16(), !!__builtin_cpu_supports("avx512bf16"));
#endif
}

TS_TEST(bf16_against_double) {
  ts_probe p;
  if (missing("onednn")) return;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    if (cases[k].out <= 4) continue; /* dot products: in f32 */
    probe_start(&p, "onednn", cases[k], PRODUCTS, 1);
    probe_pass(&p, BATCH_MAX);
    /* New weights under a new version are seen. */
    for (int i = 0; i < p.W->n; i++) p.W->w[i] = probe_draw(7, (uint32_t)i);
    p.W->version++;
    probe_pass(&p, 9);
    probe_stop(&p);
  }
}

/* Rows of bf16 in and out, of no vector's multiple, in odd batches. */
TS_TESTS(bf16_arrays_against_double, 0, 2) {
  ts_probe p;
  if (missing("onednn") || no_bf16()) return;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    if (cases[k].out <= 4 || cases[k].stride % 32) continue;
    probe_start(&p, "onednn", cases[k], ARRAYS, 1 + _i);
    probe_pass(&p, BATCH_MAX);
    probe_pass(&p, 1);
    probe_pass(&p, 0);
    probe_pass(&p, 37);
    probe_stop(&p);
  }
}

/* A layer of a few outputs that reads bf16: x and dx, y stays f32. */
TS_TEST(narrow_layers_read_bf16) {
  enum { B = 67, K = 100, S = 128, N = 3 };
  ts_probe p = {.c = {K, S, N, false, true}, .half = probe_on_gpu()};
  static float y[BATCH_MAX * WIDTH_MAX * 2], g[BATCH_MAX * WIDTH_MAX * 2];
  static float gw[N * K], gb[N];
  static uint16_t x[BATCH_MAX * WIDTH_MAX * 2], dx[BATCH_MAX * WIDTH_MAX * 2];
  if (missing("onednn") || no_bf16()) return;
  probe_start_device(&p, 2);
  probe_add_params(&p);
  p.W->grad = gw;
  p.b->grad = gb;
  for (int i = 0; i < N * K; i++) p.W->w[i] = probe_draw(1, (uint32_t)i);
  for (int i = 0; i < B * S; i++)
    x[i] = i % S < K ? ts_f32_to_bf16(probe_draw(2, (uint32_t)i)) : 0;
  for (int i = 0; i < B * N; i++) g[i] = probe_draw(3, (uint32_t)i);
  const ts_linear_spec spec = {.n_in = K,
                               .n_out = N,
                               .in_stride = S,
                               .precision = TS_PRECISION_BF16,
                               .x_half = true,
                               .batch_max = B,
                               .need_dx = true,
                               .kernels = &p.k};
  ck_assert_ok(ts_linear_create(&p.l, &spec, p.W, p.b, p.lane));
  probe_run(&p, x, y, g, dx, 4, B);
  const float *w = p.W->w;
  for (int i = 0; i < B; i++)
    for (int o = 0; o < N; o++) {
      double sum = 0;
      for (int k = 0; k < K; k++)
        sum +=
            (double)ts_bf16_to_f32(x[i * S + k]) * probe_seen(&p, w[o * K + k]);
      ck_assert_double_eq_tol((double)y[i * N + o], sum, 2e-5);
    }
  for (int o = 0; o < N; o++)
    for (int k = 0; k < K; k++) {
      double sum = 0;
      for (int i = 0; i < B; i++)
        sum +=
            (double)ts_bf16_to_f32(x[i * S + k]) * probe_seen(&p, g[i * N + o]);
      ck_assert_double_eq_tol((double)gw[o * K + k], sum, 2e-5);
    }
  for (int i = 0; i < B; i++)
    for (int k = 0; k < K; k++) {
      double sum = 0;
      for (int o = 0; o < N; o++)
        sum += probe_seen(&p, g[i * N + o]) * probe_seen(&p, w[o * K + k]);
      ck_assert_double_eq_tol((double)ts_bf16_to_f32(dx[i * S + k]), sum,
                              fabs(sum) / 256 + 1e-6);
    }
  ts_linear_destroy(p.l);
  probe_drop_params(&p);
  probe_stop_device(&p);
}

TS_TEST(bf16_needs_onednn) {
  ts_fixture f;
  ts_params ps = {0};
  ts_param *W, *b;
  ts_linear *l = NULL;
  ts_fixture_start(&f, true, 1);
  ck_assert_ok(ts_params_add(&ps, f.device, &W, "W", "W", 8, 8));
  ck_assert_ok(ts_params_add(&ps, f.device, &b, "b", "b", 8, 0));
  const ts_linear_spec spec = {.n_in = 8,
                               .n_out = 8,
                               .in_stride = 8,
                               .precision = TS_PRECISION_BF16,
                               .batch_max = 4,
                               .engine = "ref"};
  ck_assert_int_eq(ts_linear_create(&l, &spec, W, b, f.lane), TS_ERR_DECK);
  ts_err_clear();
  ts_params_reset(&ps);
  ts_fixture_stop(&f);
}
