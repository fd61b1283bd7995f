/* test_cuda_views_gpu.c - the GPU's kernels of views, wires and positions on a
 * GPU; skipped where there is none.
 * ranks: 1
 * seconds: 600 */
#include <stdio.h>

#include "cuda_views.h"
#include "harness.h"
#include "runtime/backends.h"

static ts_device *device;
static ts_lane *lane;
static ts_buffer buffer;
static const ts_device_options options = {.n_threads = 1, .timeout_s = 60};

static void kernels(ts_kernels *k) {
  ck_assert_ok(ts_backend_find("cuda")->kernels_fill(k, NULL));
}

typedef struct gpu_task {
  ts_err (*task)(void *);
  void *arg;
} gpu_task;

static ts_err in_lane(void *p, ts_lane *l) {
  const gpu_task *t = p;
  (void)l;
  return t->task(t->arg);
}

static ts_err run(ts_err (*task)(void *), void *arg) {
  const gpu_task t = {task, arg};
  const ts_err err = ts_lane_submit(lane, "views", in_lane, &t, sizeof t);
  return err == TS_OK ? ts_lane_sync(lane) : err;
}

static void *send(const void *p, size_t bytes) {
  ck_assert_ok(
      ts_buffer_create(&buffer, device, bytes, TS_SPACE_DEVICE, TS_TAG_MISC));
  ck_assert_ok(ts_lane_copy(lane, buffer.ptr, p, bytes));
  ck_assert_ok(ts_lane_sync(lane));
  return buffer.ptr;
}

static void fetch(void *to, const void *sent, size_t bytes) {
  ck_assert_ok(ts_lane_copy(lane, to, sent, bytes));
  ck_assert_ok(ts_lane_sync(lane));
}

static void drop(void *sent) {
  (void)sent;
  ts_buffer_reset(&buffer);
}

static void start(void) {
  ck_assert_ok(ts_device_create(&device, "cuda", &options));
  ck_assert_ok(ts_lane_create(device, &lane, "kernels", TS_LANE_COMPUTE));
}

static void stop(void) {
  ts_lane_destroy(lane);
  ts_device_destroy(device);
}

static Suite *suite(void) {
  static const views_target gpu = {kernels, run,  send,  fetch,
                                   drop,    NULL, start, stop};
  return cuda_views_suite("cuda_views_gpu", &gpu);
}

int main(int argc, char **argv) {
  if (ts_device_create(&device, "cuda", &options) != TS_OK) {
    printf("skipped: %s\n", ts_err_message());
    return 77;
  }
  ts_device_destroy(device);
  return ts_test_main(argc, argv, suite);
}
