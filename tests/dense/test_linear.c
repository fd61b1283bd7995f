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

/* Tokens go in pieces; the last one lacks rows, or does not. */
TS_TESTS(tokens, 0, 4) {
  static const int batches[] = {980, 1, 240, 241, 239, 480, 979, 7};
  ts_probe p;
  if (missing("onednn")) return;
  probe_start_tokens(&p, "onednn", (ts_case){7, 7 + _i / 2, 8, _i % 2, true},
                     1 + _i % 3, 980);
  for (size_t k = 0; k < sizeof batches / sizeof *batches; k++)
    probe_pass(&p, batches[k]);
  probe_stop(&p);
}

/* A token has its bits in any company, and some outputs theirs of all. */
TS_TEST(a_token_alone) {
  enum { N = 500, IN = 9, OUT = 12, FIRST = 4, SOME = 8 };
  ts_probe p;
  float y[OUT], some[SOME], *all;
  if (missing("onednn")) return;
  probe_start_tokens(&p, "onednn", (ts_case){IN, IN, OUT, false, false}, 2, N);
  ck_assert_ok(ts_mem_array(&all, N * OUT, 4, TS_TAG_MISC));
  for (int k = 0; k < N * IN; k++) p.x[k] = probe_draw(3, (uint32_t)k);
  /* A device's own engine does not. */
  for (int r = 0; ts_linear_has_some(p.l) && r < N; r += 31) {
    const float *x = p.x + r * IN;
    ck_assert_ok(ts_linear_forward(p.l, all, p.x, N, p.lane));
    ck_assert_ok(ts_linear_forward(p.l, y, x, 1, p.lane));
    ck_assert_ok(ts_linear_forward_some(p.l, some, x, 1, FIRST, SOME, p.lane));
    ck_assert_ok(ts_lane_sync(p.lane));
    ck_assert(!memcmp(y, all + r * OUT, sizeof y));
    for (int k = 0; k < SOME; k++)
      ck_assert_float_eq_tol(some[k], y[FIRST + k], 1e-6f);
  }
  ts_mem_free(all);
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

enum { PART_B = 67, PART_K = 13, PART_N = 7, PART_S = 45, PART_T = 24 };
enum { PART_FIRST = 2, PART_ROWS = 12 };
static float part_x[BATCH_MAX * WIDTH_MAX], part_y[BATCH_MAX * WIDTH_MAX];
static float part_g[BATCH_MAX * WIDTH_MAX], part_dx[BATCH_MAX * WIDTH_MAX];

/* y of a part, and dx; SIDE is beside them. */
static void check_part_rows(const ts_probe *p, float side) {
  const float *w = p->W->w + PART_FIRST * PART_K;
  for (int i = 0; i < PART_B; i++) {
    const float *x = part_x + i * PART_S, *y = part_y + i * PART_T;
    float *g = part_g + i * PART_T;
    for (int o = 0; o < PART_T; o++) {
      double sum = o < PART_N ? (double)p->b->w[PART_FIRST + o] : (double)side;
      for (int k = 0; o < PART_N && k < PART_K; k++)
        sum += probe_seen(p, w[o * PART_K + k]) * probe_seen(p, x[k]);
      if (o < PART_N && p->c.relu && sum < 0) sum = 0;
      ck_assert_double_eq_tol((double)y[o], sum, o < PART_N ? 1e-4 : 1e-30);
      if (p->c.relu && !(y[o] > 0)) g[o] = 0; /* for check_part_sums, too */
    }
    for (int k = 0; k < PART_S; k++) {
      double sum = k < PART_K ? 0 : (double)side;
      for (int o = 0; k < PART_K && o < PART_N; o++)
        sum += probe_seen(p, g[o]) * probe_seen(p, w[o * PART_K + k]);
      ck_assert_double_eq_tol((double)part_dx[i * PART_S + k], sum,
                              k < PART_K ? 1e-4 : 1e-30);
    }
  }
}

/* dW, db of a part over BATCH samples. */
static void check_part_sums(const ts_probe *p, float side, int batch) {
  for (int row = 0; row < PART_ROWS; row++) {
    const int o = row - PART_FIRST;
    const bool own = o >= 0 && o < PART_N;
    for (int k = 0; k <= PART_K; k++) {
      double sum = own ? 0 : (double)side;
      for (int i = 0; own && i < batch; i++) {
        const float g = part_g[i * PART_T + o];
        sum += k < PART_K
                   ? probe_seen(p, g) * probe_seen(p, part_x[i * PART_S + k])
                   : (double)g;
      }
      ck_assert_double_eq_tol(
          (double)(k < PART_K ? p->W->grad[row * PART_K + k] : p->b->grad[row]),
          sum, own ? 1e-4 : 1e-30);
    }
  }
}

/* Columns of wider rows, and rows of a larger W: what is beside them stays. */
TS_TESTS(bf16_parts, 0, 2) {
  static float gw[PART_ROWS * PART_K], gb[PART_ROWS], dy[BATCH_MAX * WIDTH_MAX];
  const float side = 9;
  ts_probe p = {.c = {PART_K, PART_S, PART_ROWS, _i == 1, true}, .half = true};
  if (missing("onednn") || no_bf16()) return;
  probe_start_device(&p, 2);
  probe_add_params(&p);
  p.W->grad = gw;
  p.b->grad = gb;
  for (int i = 0; i < p.W->n; i++) p.W->w[i] = probe_draw(1, (uint32_t)i);
  for (int i = 0; i < p.b->n; i++) p.b->w[i] = probe_draw(2, (uint32_t)i);
  ts_linear_spec spec = {.n_in = PART_K,
                         .n_out = PART_N,
                         .in_stride = PART_S,
                         .out_stride = PART_T,
                         .part = true,
                         .first_row = PART_FIRST,
                         .relu = p.c.relu,
                         .batch_max = PART_B,
                         .need_dx = true,
                         .kernels = &p.k};
  ck_assert_int_eq(ts_linear_create(&p.l, &spec, p.W, p.b, p.lane),
                   TS_ERR_INTERNAL); /* f32 has none */
  ts_err_clear();
  spec.precision = TS_PRECISION_BF16;
  ck_assert_ok(ts_linear_create(&p.l, &spec, p.W, p.b, p.lane));
  for (int batch = PART_B; batch >= 0; batch -= PART_B) {
    for (int i = 0; i < BATCH_MAX * WIDTH_MAX; i++) {
      part_x[i] = probe_draw(3, (uint32_t)i);
      dy[i] = part_g[i] = probe_draw(4, (uint32_t)i);
      part_y[i] = part_dx[i] = side;
    }
    for (int i = 0; i < p.W->n; i++) gw[i] = side;
    for (int i = 0; i < p.b->n; i++) gb[i] = side;
    probe_run(&p, part_x, part_y, dy, part_dx, 4, batch);
    if (batch) check_part_rows(&p, side);
    check_part_sums(&p, side, batch);
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
