/* bench_limits.c - a copy and a product as fast as the device does them alone:
 * what phases of a step are measured by. */
#include "commands/bench_limits.h"

#include "base/mem.h"
#include "commands/bench.h"
#include "dense/half.h"
#include "runtime/clock.h"

enum { WARM = 2, COPIES = 12, PRODUCTS = 8 };

/* The median of the times between neighbours of N + 1 marks, those that warm
 * up left out. */
static ts_err median(double *seconds, const ts_clock *clock, int n) {
  double x[n];
  for (int i = WARM; i < n; i++)
    TS_DO(ts_clock_between(clock, i, i + 1, &x[i - WARM]));
  *seconds = ts_bench_median(x, n - WARM);
  return TS_OK;
}

ts_err ts_bench_copy_rate(double *rate, ts_device *d, ts_lane *lane,
                          int64_t bytes) {
  ts_err err = TS_OK;
  ts_clock *clock = NULL;
  ts_buffer from = {0}, to = {0};
  double seconds = 0;
  const size_t n = (size_t)bytes;
  TS_TRY(ts_clock_create(&clock, lane, COPIES + 1));
  TS_TRY(ts_buffer_create(&from, d, n, TS_SPACE_DEVICE, TS_TAG_MISC));
  TS_TRY(ts_buffer_create(&to, d, n, TS_SPACE_DEVICE, TS_TAG_MISC));
  for (int i = 0; i < COPIES; i++) {
    TS_TRY(ts_clock_mark(clock, i));
    TS_TRY(ts_lane_copy(lane, to.ptr, from.ptr, n));
  }
  TS_TRY(ts_clock_mark(clock, COPIES));
  TS_TRY(ts_lane_sync(lane));
  TS_TRY(median(&seconds, clock, COPIES));
  *rate = 2 * (double)bytes / seconds;
done:
  ts_clock_destroy(clock);
  ts_buffer_reset(&from);
  ts_buffer_reset(&to);
  return err;
}

/* ---- the product --------------------------------------------------------- */

/* A layer of N inputs, outputs and samples. */
typedef struct ts_square {
  int32_t n;
  ts_params params;
  ts_param *W;
  ts_linear *layer;
  bool half; /* x and y are of bf16, as between the layers of a model */
  ts_buffer x, y;
} ts_square;

/* Numbers of both signs: zeros would cost a GPU less power. */
static ts_err fill(ts_square *s, ts_lane *lane) {
  ts_err err = TS_OK;
  const int64_t n = (int64_t)s->n * s->n;
  float *x = NULL;
  uint16_t *x16 = NULL;
  uint32_t r = 1;
  TS_TRY(ts_mem_array(&x, n, sizeof *x, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&x16, n, sizeof *x16, TS_TAG_MISC));
  for (int64_t i = 0; i < n; i++) {
    r = r * 1664525u + 1013904223u;
    x[i] = (float)(int32_t)r * 0x1p-31f;
    x16[i] = ts_half_of(x[i]);
  }
  if (s->half)
    TS_TRY(ts_lane_copy(lane, s->x.ptr, x16, (size_t)n * sizeof *x16));
  else
    TS_TRY(ts_lane_copy(lane, s->x.ptr, x, (size_t)n * sizeof *x));
  TS_TRY(ts_lane_copy(lane, s->W->w, x, (size_t)n * sizeof *x));
  TS_TRY(ts_lane_sync(lane));
done:
  ts_mem_free_all(x, x16);
  return err;
}

static ts_err create(ts_square *s, ts_trainer *t) {
  const ts_precision precision =
      ts_linear_precision(t->config->run.precision, &t->kernels);
  s->half = ts_linear_in_bf16(precision, s->n, NULL, &t->kernels);
  const size_t bytes = (size_t)s->n * (size_t)s->n * (s->half ? 2 : 4);
  const ts_linear_spec spec = {.n_in = s->n,
                               .n_out = s->n,
                               .in_stride = s->n,
                               .batch_max = s->n,
                               .out_stride = s->n,
                               .x_half = s->half,
                               .y_half = s->half,
                               .precision = precision,
                               .kernels = &t->kernels};
  TS_DO(ts_params_add(&s->params, t->device, &s->W, "W", "W", s->n, s->n));
  TS_DO(
      ts_buffer_create(&s->x, t->device, bytes, TS_SPACE_DEVICE, TS_TAG_MISC));
  TS_DO(
      ts_buffer_create(&s->y, t->device, bytes, TS_SPACE_DEVICE, TS_TAG_MISC));
  TS_DO(fill(s, t->compute));
  return ts_linear_create(&s->layer, &spec, s->W, NULL, t->compute);
}

ts_err ts_bench_product_rate(double *rate, ts_trainer *t) {
  ts_err err = TS_OK;
  ts_clock *clock = NULL;
  ts_square s = {.n = ts_device_is_discrete(t->device) ? 8192 : 1024};
  double seconds = 0;
  TS_TRY(create(&s, t));
  TS_TRY(ts_clock_create(&clock, t->compute, PRODUCTS + 1));
  for (int i = 0; i < PRODUCTS; i++) {
    TS_TRY(ts_clock_mark(clock, i));
    TS_TRY(ts_linear_forward(s.layer, s.y.ptr, s.x.ptr, s.n, t->compute));
  }
  TS_TRY(ts_clock_mark(clock, PRODUCTS));
  TS_TRY(ts_lane_sync(t->compute));
  TS_TRY(median(&seconds, clock, PRODUCTS));
  *rate = 2 * (double)s.n * (double)s.n * (double)s.n / seconds;
done:
  ts_clock_destroy(clock);
  ts_linear_destroy(s.layer);
  ts_buffer_reset(&s.x);
  ts_buffer_reset(&s.y);
  ts_params_reset(&s.params);
  return err;
}
