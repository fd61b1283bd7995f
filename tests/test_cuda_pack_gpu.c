/* test_cuda_pack_gpu.c - the GPU's kernels of input dist's sending side on a
 * GPU; skipped where there is none.
 * ranks: 1
 * seconds: 600 */
#include <stdio.h>

#include "cuda/pack.h"
#include "cuda_pack.h"
#include "harness.h"

static ts_device *device;
static ts_lane *lane;

/* Entries in tasks of a lane. */
#define ENTRY(name, type)                                                      \
  static ts_err name##_task(void *arg, ts_lane *l) {                           \
    (void)l;                                                                   \
    return ts_cuda_##name(*(const type **)arg);                                \
  }                                                                            \
  static ts_err name(const type *a) {                                          \
    const ts_err err = ts_lane_submit(lane, #name, name##_task, &a, sizeof a); \
    return err == TS_OK ? ts_lane_sync(lane) : err;                            \
  }
ENTRY(bags_check, ts_bags_args)
ENTRY(bags_offsets, ts_bags_args)
ENTRY(bags_distinct, ts_distinct_args)
ENTRY(pack_measure, ts_pack_args)
ENTRY(pack_write, ts_pack_args)

enum { BUFFERS = 4 };
static ts_buffer buffers[BUFFERS];

static void *send(const void *p, size_t bytes) {
  for (int i = 0; i < BUFFERS; i++) {
    ts_buffer *b = &buffers[i];
    if (b->ptr) continue;
    ck_assert_ok(
        ts_buffer_create(b, device, bytes + 1, TS_SPACE_DEVICE, TS_TAG_INPUT));
    ck_assert_ok(ts_lane_copy(lane, b->ptr, p, bytes));
    ck_assert_ok(ts_lane_sync(lane));
    return b->ptr;
  }
  ck_abort_msg("more than %d arrays", BUFFERS);
  return NULL;
}

static void fetch(void *to, const void *sent, size_t bytes) {
  ck_assert_ok(ts_lane_copy(lane, to, sent, bytes));
  ck_assert_ok(ts_lane_sync(lane));
}

static void drop(void *sent) {
  for (int i = 0; i < BUFFERS; i++)
    if (buffers[i].ptr == sent) ts_buffer_reset(&buffers[i]);
}

static const ts_device_options options = {.n_threads = 1};

static void start(void) {
  ck_assert_ok(ts_device_create(&device, "cuda", &options));
  ck_assert_ok(ts_lane_create(device, &lane, "kernels", TS_LANE_COMPUTE));
}

static void stop(void) {
  ts_lane_destroy(lane);
  ts_device_destroy(device);
}

static Suite *suite(void) {
  static const pack_target gpu = {
      bags_check, bags_offsets, bags_distinct, pack_measure, pack_write,
      send,       fetch,        drop,          start,        stop};
  return cuda_pack_suite("cuda_pack_gpu", &gpu);
}

int main(int argc, char **argv) {
  if (ts_device_create(&device, "cuda", &options) != TS_OK) {
    printf("skipped: %s\n", ts_err_message());
    return 77;
  }
  ts_device_destroy(device);
  return ts_test_main(argc, argv, suite);
}
