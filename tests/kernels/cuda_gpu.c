/* cuda_gpu.c - the device, one lane, and some arrays on the device. */
#include "tests/kernels/cuda_gpu.h"

#include <stdio.h>

enum { BUFFERS = 64 };

static const ts_device_options options = {.n_threads = 1, .timeout_s = 60};
static ts_device *device;
static ts_lane *lane;
static ts_buffer buffers[BUFFERS];

void cuda_gpu_start(void) {
  ck_assert_ok(ts_device_create(&device, "cuda", &options));
  ck_assert_ok(ts_lane_create(device, &lane, "kernels", TS_LANE_COMPUTE));
}

void cuda_gpu_stop(void) {
  ts_lane_destroy(lane);
  ts_device_destroy(device);
}

ts_device *cuda_gpu_device(void) {
  return device;
}

/* ---- kernels in tasks of a lane ------------------------------------------ */

typedef struct gpu_task {
  ts_err (*task)(void *);
  void *arg;
} gpu_task;

static ts_err in_lane(void *p, ts_lane *l) {
  const gpu_task *t = p;
  (void)l;
  return t->task(t->arg);
}

ts_err cuda_gpu_run(ts_err (*task)(void *), void *arg) {
  const gpu_task t = {task, arg};
  const ts_err err = ts_lane_submit(lane, "kernel", in_lane, &t, sizeof t);
  return err == TS_OK ? ts_lane_sync(lane) : err;
}

/* ---- memory -------------------------------------------------------------- */

void cuda_gpu_copy(void *to, const void *from, size_t bytes) {
  if (bytes) ck_assert_ok(ts_lane_copy(lane, to, from, bytes));
  ck_assert_ok(ts_lane_sync(lane));
}

void *cuda_gpu_send(const void *p, size_t bytes) {
  for (int i = 0; i < BUFFERS; i++) {
    ts_buffer *b = &buffers[i];
    if (b->ptr) continue;
    ck_assert_ok(
        ts_buffer_create(b, device, bytes + 1, TS_SPACE_DEVICE, TS_TAG_MISC));
    cuda_gpu_copy(b->ptr, p, bytes);
    return b->ptr;
  }
  ck_abort_msg("more than %d arrays", BUFFERS);
  return NULL;
}

void cuda_gpu_drop(void *sent) {
  for (int i = 0; i < BUFFERS; i++)
    if (buffers[i].ptr == sent) ts_buffer_reset(&buffers[i]);
}

/* ---- main ---------------------------------------------------------------- */

int cuda_gpu_main(int argc, char **argv, Suite *(*suite)(void)) {
  if (ts_device_create(&device, "cuda", &options) != TS_OK) {
    printf("skipped: %s\n", ts_err_message());
    return 77;
  }
  ts_device_destroy(device);
  return ts_test_main(argc, argv, suite);
}
