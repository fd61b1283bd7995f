/* test_cuda_streams.c - lanes of a GPU: the contract of all devices, and with
 * kernels what only a GPU shows; skipped where there is none.  The fault of the
 * device comes last: nothing works in the process after it. */
#include <stdlib.h>

#include "tests/runtime/cuda_kernels.h"
#include "runtime/trace.h"
#include "tests/runtime/test_device.c"

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "cuda", 1);
}

enum { N = 1 << 20 };
static const double A_WHILE = 0.05; /* seconds */

static void numbers(ts_buffer *b) {
  ck_assert_ok(
      ts_buffer_create(b, p.device, 4 * N, TS_SPACE_DEVICE, TS_TAG_MISC));
}

/* All of B are VALUE. */
static bool all(ts_lane *lane, const ts_buffer *b, uint32_t value) {
  uint32_t *x;
  bool same = true;
  ck_assert_ok(ts_mem_alloc(&x, 4 * N, TS_TAG_MISC));
  ck_assert_ok(ts_lane_copy(lane, x, b->ptr, 4 * N));
  ck_assert_ok(ts_lane_sync(lane));
  for (int i = 0; i < N; i++) same &= x[i] == value;
  ts_mem_free(x);
  return same;
}

/* The host does not wait for what it enqueues; serial lanes wait. */
TS_TESTS(submit_does_not_wait, 0, 2) {
  ts_buffer b;
  start(_i);
  numbers(&b);
  ts_spin_args a = {0, b.ptr, N};
  /* The first launch loads the code. */
  ck_assert_ok(ts_lane_submit(p.lane, "spin", ts_test_spin, &a, sizeof a));
  ck_assert_ok(ts_lane_sync(p.lane));
  a.seconds = A_WHILE;
  const double t0 = ts_now();
  ck_assert_ok(ts_lane_submit(p.lane, "spin", ts_test_spin, &a, sizeof a));
  const ts_event e = ts_lane_record(p.lane);
  const bool done = ts_event_done(e);
  const double t1 = ts_now();
  ck_assert_ok(ts_event_sync(e));
  ck_assert_double_ge(ts_now() - t0, 0.9 * A_WHILE);
  ck_assert_int_eq(done, _i);
  if (!_i) ck_assert_double_le(t1 - t0, 0.5 * A_WHILE);
  ck_assert(all(p.lane, &b, 4)); /* 0, 1, 4 */
  ts_buffer_reset(&b);
}

/* Slow kernels on two lanes, each a step of one chain: only events keep the
 * order. */
TS_TESTS(kernels_follow_events, 0, 2) {
  ts_buffer b;
  uint32_t want = 0;
  start(_i);
  numbers(&b);
  const ts_spin_args slow = {A_WHILE / 10, b.ptr, N};
  for (int k = 0; k < 10; k++) {
    ts_lane *lane = k % 2 ? p.other : p.lane, *next = k % 2 ? p.lane : p.other;
    ck_assert_ok(
        ts_lane_submit(lane, "spin", ts_test_spin, &slow, sizeof slow));
    ck_assert_ok(ts_lane_wait(next, ts_lane_record(lane)));
    want = 3 * want + 1;
  }
  ck_assert(all(p.lane, &b, want));
  ts_buffer_reset(&b);
}

TS_TESTS(tasks_know_their_lane, 0, 2) {
  start(_i);
  ck_assert_ok(ts_lane_submit(p.lane, "now", ts_test_is_now, NULL, 0));
  ck_assert_ok(ts_lane_submit(p.other, "now", ts_test_is_now, NULL, 0));
}

TS_TESTS(scratch_is_in_order_and_counted, 0, 2) {
  ts_buffer b;
  start(_i);
  numbers(&b);
  const ts_spin_args a = {0, b.ptr, N};
  const int64_t before =
      ts_mem_stat_of(TS_TAG_SPARSE, TS_SPACE_DEVICE).now_bytes;
  for (int k = 0; k < 20; k++)
    ck_assert_ok(
        ts_lane_submit(p.lane, "scratch", ts_test_scratch, &a, sizeof a));
  ck_assert(all(p.lane, &b, 0x01010101));
  ck_assert_int_eq(ts_mem_stat_of(TS_TAG_SPARSE, TS_SPACE_DEVICE).now_bytes,
                   before);
  ck_assert_int_ge(ts_mem_stat_of(TS_TAG_SPARSE, TS_SPACE_DEVICE).peak_bytes,
                   before + 4 * N);
  ts_buffer_reset(&b);
}

/* A launch that can't be is found at once, named, and stays the lane's. */
TS_TESTS(a_bad_launch_is_named, 0, 2) {
  start(_i);
  ck_assert_int_eq(
      ts_lane_submit(p.lane, "too many", ts_test_bad_launch, NULL, 0),
      TS_ERR_INTERNAL);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "spin"));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "\"too many\""));
  ts_err_clear();
  ck_assert_int_eq(ts_lane_sync(p.lane), TS_ERR_INTERNAL);
  ts_err_clear();
  ck_assert_ok(ts_lane_sync(p.other));
}

/* Last. */
TS_TEST(a_fault_of_the_device_is_named) {
  start(false);
  ck_assert_ok(
      ts_lane_submit(p.lane, "the culprit", ts_test_bad_write, NULL, 0));
  const ts_event e = ts_lane_record(p.lane);
  ck_assert_int_eq(ts_event_sync(e), TS_ERR_INTERNAL);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "lane \"one\""));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "\"the culprit\""));
  ts_err_clear();
  ck_assert(ts_event_done(e));
  ck_assert_int_ne(ts_lane_sync(p.other), TS_OK);
  ts_err_clear();
}
