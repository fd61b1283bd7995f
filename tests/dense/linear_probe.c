/* linear_probe.c - the layer, its arrays, and what they must hold. */
#include "tests/dense/linear_probe.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

float probe_draw(uint32_t a, uint32_t b) {
  uint32_t x[4];
  ts_rng4(x, 9, TS_RNG_TEST, a, b, 0);
  return 2 * ts_rng_unit(x[0]) - 1;
}

bool probe_on_gpu(void) {
  return ts_test_on_gpu();
}

double probe_seen(const ts_probe *p, float x) {
  uint32_t u;
  if (!p->half) return x;
  memcpy(&u, &x, 4);
  u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
  memcpy(&x, &u, 4);
  return x;
}

static double tolerance(const ts_probe *p, int terms) {
  return (p->half ? 2e-5 : 4e-6) * (1 + sqrt(terms)) + 1e-6;
}

/* The error of storing X in bf16. */
static double rounding(const ts_probe *p, double x) {
  return p->arrays_half ? fabs(x) / 256 : 0;
}

static int y_stride(const ts_probe *p) {
  return p->arrays_half ? (p->c.out + 31) / 32 * 32 : p->c.out;
}

static void make_half_arrays(ts_probe *p) {
  uint16_t **arrays[] = {&p->x16, &p->y16, &p->dy16, &p->dx16};
  for (int i = 0; p->arrays_half && i < 4; i++)
    ck_assert_ok(
        ts_mem_array(arrays[i], BATCH_MAX * WIDTH_MAX, 2, TS_TAG_MISC));
}

void probe_start_device(ts_probe *p, int n_threads) {
  ck_assert_ok(ts_test_device(&p->device, false, n_threads));
  ck_assert_ok(ts_test_kernels(&p->k));
  ck_assert_ok(ts_lane_create(p->device, &p->lane, "c", TS_LANE_COMPUTE));
}

void probe_add_params(ts_probe *p) {
  p->ps.deferred = true;
  ck_assert_ok(
      ts_params_add(&p->ps, p->device, &p->W, "W", "W", p->c.out, p->c.in));
  ck_assert_ok(ts_params_add(&p->ps, p->device, &p->b, "b", "b", p->c.out, 0));
  ck_assert_ok(ts_mem_array(&p->W->w, p->W->n, 4, TS_TAG_MISC));
  ck_assert_ok(ts_mem_array(&p->b->w, p->b->n, 4, TS_TAG_MISC));
}

void probe_drop_params(ts_probe *p) {
  ts_mem_free(p->W->w);
  ts_mem_free(p->b->w);
  p->W->w = p->b->w = NULL;
  ts_params_reset(&p->ps);
}

void probe_stop_device(ts_probe *p) {
  ts_lane_destroy(p->lane);
  ts_device_destroy(p->device);
}

static void start(ts_probe *p, const char *engine, ts_case c, ts_halves halves,
                  int n_threads, int batch_max, bool varies) {
  const ts_precision precision =
      halves != FLOATS ? TS_PRECISION_BF16 : TS_PRECISION_F32;
  *p = (ts_probe){.c = c, .arrays_half = halves == ARRAYS};
  make_half_arrays(p);
  float **arrays[] = {&p->x, &p->y, &p->dy, &p->dx, &p->masked};
  probe_start_device(p, n_threads);
  /* A CPU without bf16 is asked for it, too, and multiplies f32 instead. */
  p->half = ts_linear_in_bf16(precision, c.out, engine, &p->k);
  probe_add_params(p);
  for (int i = 0; i < 5; i++)
    ck_assert_ok(
        ts_mem_array(arrays[i], BATCH_MAX * WIDTH_MAX, 4, TS_TAG_MISC));
  ck_assert_ok(ts_mem_array(&p->gW, p->W->n, 4, TS_TAG_MISC));
  ck_assert_ok(ts_mem_array(&p->gb, p->b->n, 4, TS_TAG_MISC));
  p->W->grad = p->gW;
  p->b->grad = p->gb;
  for (int i = 0; i < p->W->n; i++) p->W->w[i] = probe_draw(1, (uint32_t)i);
  for (int i = 0; i < p->b->n; i++) p->b->w[i] = probe_draw(2, (uint32_t)i);
  const ts_linear_spec spec = {.n_in = c.in,
                               .n_out = c.out,
                               .in_stride = c.stride,
                               .relu = c.relu,
                               .precision = precision,
                               .x_half = p->arrays_half,
                               .y_half = p->arrays_half,
                               .out_stride = y_stride(p),
                               .batch_max = batch_max,
                               .varies = varies,
                               .need_dx = c.dx,
                               .engine = engine,
                               .kernels = &p->k};
  ck_assert_ok(ts_linear_create(&p->l, &spec, p->W, p->b, p->lane));
}

void probe_start(ts_probe *p, const char *engine, ts_case c, ts_halves halves,
                 int n_threads) {
  start(p, engine, c, halves, n_threads, BATCH_MAX, false);
}

void probe_start_tokens(ts_probe *p, const char *engine, ts_case c,
                        int n_threads, int batch_max) {
  start(p, engine, c, FLOATS, n_threads, batch_max, true);
}

void probe_stop(ts_probe *p) {
  float *arrays[] = {p->x, p->y, p->dy, p->dx, p->masked, p->gW, p->gb};
  ts_linear_destroy(p->l);
  uint16_t *halves[] = {p->x16, p->y16, p->dy16, p->dx16};
  for (int i = 0; i < 7; i++) ts_mem_free(arrays[i]);
  for (int i = 0; i < 4; i++) ts_mem_free(halves[i]);
  probe_drop_params(p);
  probe_stop_device(p);
}

static void check_forward(const ts_probe *p, int batch) {
  const ts_case c = p->c;
  for (int i = 0; i < batch; i++)
    for (int o = 0; o < c.out; o++) {
      double sum = p->b->w[o];
      for (int k = 0; k < c.in; k++)
        sum += probe_seen(p, p->W->w[o * c.in + k]) *
               probe_seen(p, p->x[i * c.stride + k]);
      const double total = sum;
      if (c.relu && sum < 0) sum = 0;
      ck_assert_double_eq_tol(
          (double)p->y[i * c.out + o], sum,
          tolerance(p, c.in) + rounding(p, sum) +
              /* On a GPU the bias is of bf16, too, and so may be what it is
               * added to. */
              (probe_on_gpu()
                   ? rounding(p, p->b->w[o]) + rounding(p, total - p->b->w[o])
                   : 0));
    }
}

static void check_backward(const ts_probe *p, int batch) {
  const ts_case c = p->c;
  for (int o = 0; o < c.out; o++)
    for (int k = 0; k <= c.in; k++) {
      double sum = 0;
      for (int i = 0; i < batch; i++)
        sum += k < c.in ? probe_seen(p, p->masked[i * c.out + o]) *
                              probe_seen(p, p->x[i * c.stride + k])
                        : (double)p->masked[i * c.out + o];
      ck_assert_double_eq_tol(
          (double)(k < c.in ? p->gW[o * c.in + k] : p->gb[o]), sum,
          tolerance(p, batch));
    }
  for (int i = 0; c.dx && i < batch; i++)
    for (int k = 0; k < c.stride; k++) {
      double sum = 0;
      for (int o = 0; k < c.in && o < c.out; o++)
        sum += probe_seen(p, p->masked[i * c.out + o]) *
               probe_seen(p, p->W->w[o * c.in + k]);
      ck_assert_double_eq_tol((double)p->dx[i * c.stride + k], sum,
                              tolerance(p, c.out) + rounding(p, sum));
    }
}

void probe_run(ts_probe *p, void *x, void *y, void *dy, void *dx, int size,
               int batch) {
  const size_t n = (size_t)(BATCH_MAX * WIDTH_MAX * size);
  const size_t w = (size_t)p->W->n * 4, b = (size_t)p->b->n * 4;
  void *own[8] = {x, y, dy, dx, p->W->w, p->b->w, p->W->grad, p->b->grad};
  const size_t bytes[8] = {n, n, n, n, w, b, w, b};
  void *at[8];
  for (int i = 0; i < 8; i++)
    at[i] = ts_test_lend(p->device, own[i], bytes[i], true);
  p->W->w = at[4];
  p->b->w = at[5];
  p->W->grad = at[6];
  p->b->grad = at[7];
  ck_assert_ok(ts_linear_forward(p->l, at[1], at[0], batch, p->lane));
  ck_assert_ok(ts_linear_backward(p->l, p->c.dx ? at[3] : NULL, at[2], at[0],
                                  at[1], batch, p->lane));
  ck_assert_ok(ts_lane_sync(p->lane));
  for (int i = 0; i < 8; i++)
    ts_test_reclaim(p->device, own[i], at[i], bytes[i], true);
  p->W->w = own[4];
  p->b->w = own[5];
  p->W->grad = own[6];
  p->b->grad = own[7];
}

/* The same through arrays of bf16; what is beside a row's elements stays. */
static void run_half(ts_probe *p, int batch) {
  const int n_in = p->c.in, n_out = p->c.out, ys = y_stride(p);
  const int xs = p->c.stride;
  for (int i = 0; i < batch * xs; i++) p->x16[i] = ts_f32_to_bf16(p->x[i]);
  for (int i = 0; i < batch * xs; i++)
    p->dx16[i] = i % xs < n_in ? 0x7fc0 : 0x1234;
  for (int i = 0; i < batch * ys; i++) {
    const int k = i % ys, at = i / ys * n_out + k;
    p->y16[i] = k < n_out ? 0x7fc0 : 0x1234;
    p->dy16[i] = k < n_out ? ts_f32_to_bf16(p->dy[at]) : 0;
    if (k < n_out) p->masked[at] = ts_bf16_to_f32(p->dy16[i]);
  }
  probe_run(p, p->x16, p->y16, p->dy16, p->dx16, 2, batch);
  for (int i = 0; i < batch * ys; i++)
    if (i % ys < n_out)
      p->y[i / ys * n_out + i % ys] = ts_bf16_to_f32(p->y16[i]);
    else
      ck_assert_uint_eq(p->y16[i], 0x1234);
  for (int i = 0; i < batch * xs; i++) {
    if (i % xs >= n_in) ck_assert_uint_eq(p->dx16[i], 0x1234);
    p->dx[i] = i % xs < n_in ? ts_bf16_to_f32(p->dx16[i]) : 0;
  }
}

void probe_pass(ts_probe *p, int batch) {
  const ts_case c = p->c;
  for (int i = 0; i < batch; i++)
    for (int k = 0; k < c.stride; k++)
      p->x[i * c.stride + k] =
          k < c.in ? probe_draw(3, (uint32_t)(batch * 10007 + i * c.in + k))
                   : 0;
  for (int i = 0; i < batch * c.out; i++) p->dy[i] = probe_draw(4, (uint32_t)i);
  for (int i = 0; i < p->W->n; i++) p->gW[i] = NAN;
  for (int i = 0; i < p->b->n; i++) p->gb[i] = NAN;
  for (int i = 0; i < batch * c.stride; i++) p->dx[i] = NAN;
  memcpy(p->masked, p->dy, (size_t)(batch * c.out) * sizeof(float));
  if (p->arrays_half)
    run_half(p, batch);
  else
    probe_run(p, p->x, p->y, p->dy, p->dx, 4, batch);
  for (int i = 0; c.relu && i < batch * c.out; i++)
    if (!(p->y[i] > 0)) p->masked[i] = 0;
  check_forward(p, batch);
  check_backward(p, batch);
}
