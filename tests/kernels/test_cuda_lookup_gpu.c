/* test_cuda_lookup_gpu.c - the CUDA lookup on a GPU against the reference in
 * plain C; skipped (77) where none is visible.
 * ranks: 1
 * seconds: 400 */
#include <stdio.h>

#include "tests/kernels/cuda_lookup_cases.h"
#include "runtime/backends.h"

static ts_device *device;
static ts_lane *lane;
static ts_kernels kernels;

typedef struct gpu_arg {
  const ts_lookup_args *bags; /* host memory: read before submit returns */
  const ts_weight_grad_args *grads;
} gpu_arg;

static ts_err launch(void *p, ts_lane *l) {
  const gpu_arg *a = p;
  (void)l;
  return a->grads ? kernels.weight_grad(a->grads) : kernels.lookup(a->bags);
}

/* Buffers of one run, in the order in which they were asked for. */
typedef struct gpu_copies {
  ts_buffer b[8];
  int n;
} gpu_copies;

/* N bytes of X on the GPU. */
static void *on_gpu(gpu_copies *c, const void *x, int64_t n) {
  ts_buffer *b = &c->b[c->n++];
  if (!x) return NULL;
  ck_assert_ok(ts_buffer_create(b, device, (size_t)n + 16, TS_SPACE_DEVICE,
                                TS_TAG_MISC));
  ck_assert_ok(ts_lane_copy(lane, b->ptr, x, (size_t)n));
  return b->ptr;
}

/* Rows of A keep their place between borders of 16 bytes. */
static void *rows_on_gpu(gpu_copies *c, const ts_lookup_args *a,
                         const void *rows, int64_t n_rows) {
  const size_t off = (uintptr_t)rows % 16;
  const int64_t n = n_rows * a->dim * (int64_t)ts_dtype_bytes(a->dtype);
  if (!rows) return NULL;
  char *p = on_gpu(c, (const char *)rows - off, n + (int64_t)off);
  return p + off;
}

static ts_err run_on_gpu(const ts_lookup_args *host,
                         const ts_weight_grad_args *g,
                         const cuda_lookup_sizes *s) {
  gpu_copies c = {.n = 0};
  ts_lookup_args a = *host;
  const int64_t bags = host->n_features ? host->bag_start[host->n_features] : 0;
  const int64_t ids = host->offsets[bags];
  float *out = g ? g->out : host->out;
  a.out = on_gpu(&c, out, 4 * s->n_out);
  a.at = on_gpu(&c, host->at, 8 * bags);
  a.offsets = on_gpu(&c, host->offsets, 8 * (bags + 1));
  a.rows = on_gpu(&c, host->rows, 4 * ids);
  a.weights = on_gpu(&c, host->weights, 4 * ids);
  a.weight = rows_on_gpu(&c, host, host->weight, s->n_rows);
  a.lines = rows_on_gpu(&c, host, host->lines, s->n_lines);
  ts_weight_grad_args grads = {&a, a.out, NULL};
  if (g) grads.grad = on_gpu(&c, g->grad, 4 * s->n_grad);
  const gpu_arg arg = {&a, g ? &grads : NULL};
  const ts_err err = ts_lane_submit(lane, "lookup", launch, &arg, sizeof arg);
  ck_assert_ok(ts_lane_copy(lane, out, a.out, (size_t)(4 * s->n_out)));
  ck_assert_ok(ts_lane_sync(lane));
  for (int i = 0; i < c.n; i++) ts_buffer_reset(&c.b[i]);
  return err;
}

static Suite *suite(void) {
  const ts_device_options o = {.n_threads = 1, .timeout_s = 60};
  const ts_backend *cuda = ts_backend_find("cuda");
  if (!cuda || ts_device_create(&device, "cuda", &o) != TS_OK) {
    printf("skipped: %s\n", ts_err_message());
    exit(77);
  }
  if (cuda->kernels_fill(&kernels, NULL) != TS_OK || !kernels.lookup ||
      ts_lane_create(device, &lane, "compute", TS_LANE_COMPUTE) != TS_OK)
    exit(EXIT_FAILURE);
  return cuda_lookup_suite("cuda lookup, on a GPU", run_on_gpu);
}

/* The lane and the device go before the harness counts memory. */
START_TEST(stop) {
  ts_lane_destroy(lane);
  ts_device_destroy(device);
}
END_TEST

static Suite *suite_and_stop(void) {
  Suite *s = suite();
  TCase *last = tcase_create("stop");
  tcase_add_test(last, stop);
  suite_add_tcase(s, last);
  return s;
}
TS_TEST_MAIN(suite_and_stop)
