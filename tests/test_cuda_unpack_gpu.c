/* test_cuda_unpack_gpu.c - the kernels of input dist on a GPU; skipped
 * where there is none.
 * ranks: 1
 * seconds: 600 */
#include <stdio.h>

#include "cuda_unpack.h"
#include "harness.h"

static ts_device *device;
static ts_lane *lane;

/* ---- kernels in tasks of a lane ------------------------------------------ */

static ts_kernels kernels;

static ts_err unpack_task(void *arg, ts_lane *l) {
  (void)l;
  return kernels.unpack(*(const ts_unpack_args **)arg);
}
static ts_err means_task(void *arg, ts_lane *l) {
  (void)l;
  return kernels.bag_means(*(const ts_bag_means_args **)arg);
}

static ts_err run(const char *span, ts_task task, const void *args) {
  const ts_err err = ts_lane_submit(lane, span, task, &args, sizeof args);
  return err == TS_OK ? ts_lane_sync(lane) : err;
}

static ts_err unpack(const ts_unpack_args *a) {
  return run("unpack", unpack_task, a);
}
static ts_err bag_means(const ts_bag_means_args *a) {
  return run("means", means_task, a);
}

/* ---- memory -------------------------------------------------------------- */

enum { BUFFERS = 64 };
static ts_buffer buffers[BUFFERS];

static void *send(const void *p, size_t bytes) {
  for (int i = 0; i < BUFFERS; i++) {
    ts_buffer *b = &buffers[i];
    if (b->ptr) continue;
    ck_assert_ok(
        ts_buffer_create(b, device, bytes + 1, TS_SPACE_DEVICE, TS_TAG_SPARSE));
    if (bytes) ck_assert_ok(ts_lane_copy(lane, b->ptr, p, bytes));
    ck_assert_ok(ts_lane_sync(lane));
    return b->ptr;
  }
  ck_abort_msg("more than %d arrays", BUFFERS);
  return NULL;
}

static void fetch(void *to, const void *sent, size_t bytes) {
  if (bytes) ck_assert_ok(ts_lane_copy(lane, to, sent, bytes));
  ck_assert_ok(ts_lane_sync(lane));
}

static void drop(void *sent) {
  for (int i = 0; i < BUFFERS; i++)
    if (buffers[i].ptr == sent) ts_buffer_reset(&buffers[i]);
}

/* ---- the device ---------------------------------------------------------- */

static const ts_device_options options = {.n_threads = 1};

static void start(void) {
  ck_assert_ok(ts_device_create(&device, "cuda", &options));
  ck_assert_ok(ts_kernels_fill_sparse(&kernels, "cuda", NULL));
  ck_assert_ok(ts_lane_create(device, &lane, "kernels", TS_LANE_COMPUTE));
}

static void stop(void) {
  ts_lane_destroy(lane);
  ts_device_destroy(device);
}

static Suite *suite(void) {
  static const unpack_target gpu = {unpack, bag_means, send,  fetch,
                                    drop,   NULL,      start, stop};
  return cuda_unpack_suite("cuda_unpack_gpu", &gpu);
}

int main(int argc, char **argv) {
  if (ts_device_create(&device, "cuda", &options) != TS_OK) {
    printf("skipped: %s\n", ts_err_message());
    return 77;
  }
  ts_device_destroy(device);
  return ts_test_main(argc, argv, suite);
}
