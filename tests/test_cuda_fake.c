/* test_cuda_fake.c - the CUDA backend's lanes, events and memory over a CUDA
 * runtime of threads: the contract of all devices, and what only CUDA has.
 * Kernels are not run here, and what the driver does is not shown. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#define TEST_DEVICE_AND_MORE
#include "cuda_fake.h"
#include "runtime/trace.h"
#include "test_device.c"

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "cuda", 1);
}

/* A launch asks for the last error: nothing that lanes do may leave one. */
static ts_err nothing(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  return cudaGetLastError() == cudaSuccess
             ? TS_OK
             : ts_fail(TS_ERR_INTERNAL, "an error was left");
}

/* A lane and its stream. */
static ts_lane *lane_with(ts_device *d, void **stream) {
  ts_lane *lane;
  ck_assert_ok(ts_lane_create(d, &lane, "held", TS_LANE_DATA));
  *stream = ts_cuda_fake_stream();
  return lane;
}

/* An event that is held while its lane goes on to wait for a lane that stands
 * still is not taken for a later one. */
START_TEST(an_old_event_is_not_a_later_one) {
  ts_pair p;
  void *stream;
  start(&p, false);
  ts_lane *stuck = lane_with(p.device, &stream);
  ts_cuda_fake_hold(stream);
  ck_assert_ok(ts_lane_submit(stuck, "a", nothing, NULL, 0));
  const ts_event never = ts_lane_record(stuck), old = ts_lane_record(p.lane);
  ck_assert_ok(ts_lane_wait(p.lane, never));
  const ts_event next = ts_lane_record(p.lane);
  ts_event last = next;
  for (int i = 0; i < 600; i++) last = ts_lane_record(p.lane);
  ck_assert_ok(ts_lane_wait(p.other, old));
  ck_assert_ok(ts_lane_sync(p.other));
  ck_assert(ts_event_done(old));
  ck_assert(!ts_event_done(never));
  ck_assert(!ts_event_done(next));
  ck_assert(!ts_event_done(last));
  ts_cuda_fake_hold(NULL);
  ck_assert_ok(ts_event_sync(last));
  ck_assert(ts_event_done(never));
  ts_lane_destroy(stuck);
  stop(&p);
}
END_TEST

/* As many events as positions are open, not as there have been. */
START_TEST(events_are_few) {
  ts_pair p;
  start(&p, false);
  for (int i = 0; i < 3000; i++) {
    ck_assert_ok(ts_lane_submit(p.lane, "a", nothing, NULL, 0));
    const ts_event e = ts_lane_record(p.lane);
    if (i % 10 == 9) ck_assert_ok(ts_event_sync(e));
  }
  ck_assert_int_le(ts_cuda_fake_now().events, 30);
  stop(&p);
  ck_assert_int_eq(ts_cuda_fake_now().events, 0);
}
END_TEST

START_TEST(a_wait_has_a_deadline) {
  const ts_device_options o = {.n_threads = 1, .timeout_s = 0.2};
  ts_device *d;
  void *stream;
  ck_assert_ok(ts_device_create(&d, "cuda", &o));
  ts_lane *lane = lane_with(d, &stream);
  ts_cuda_fake_hold(stream);
  ck_assert_ok(ts_lane_submit(lane, "stands still", nothing, NULL, 0));
  ck_assert_int_eq(ts_lane_sync(lane), TS_ERR_COMM);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "lane \"held\""));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "\"stands still\""));
  ts_err_clear();
  ts_cuda_fake_hold(NULL);
  ck_assert_ok(ts_lane_sync(lane));
  ts_lane_destroy(lane);
  ts_device_destroy(d);
}
END_TEST

/* The device fails in the middle of what is queued: who waits gets the lane
 * and its last task, every event is complete, nothing new runs. */
START_TEST(a_fault_of_the_device_is_the_lanes) {
  ts_pair p;
  void *stream;
  int one = 1;
  start(&p, _i);
  ts_lane *lane = lane_with(p.device, &stream);
  atomic_store(&n_done, 0);
  ck_assert_ok(ts_lane_submit(lane, "the culprit", nothing, NULL, 0));
  const ts_event early = ts_lane_record(lane);
  ts_cuda_fake_fault(stream);
  ck_assert_int_eq(ts_event_sync(ts_lane_record(lane)), TS_ERR_INTERNAL);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "lane \"held\""));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "\"the culprit\""));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "cudaErrorIllegalAddress"));
  ts_err_clear();
  ck_assert(ts_event_done(early));
  ck_assert(ts_event_done(ts_lane_record(lane)));
  ck_assert_str_eq(ts_err_message(), "");
  ck_assert_int_eq(ts_lane_submit(lane, "dropped", append, &one, sizeof one),
                   TS_ERR_INTERNAL);
  ts_err_clear();
  ck_assert_int_eq(n_done, 0);
  (void)ts_lane_wait(p.other, early);
  ts_err_clear();
  ck_assert_int_eq(ts_lane_sync(p.other), TS_ERR_INTERNAL);
  ts_err_clear();
  ts_lane_destroy(lane);
  ck_assert_str_eq(ts_err_message(), "");
  ts_cuda_fake_heal();
  stop(&p);
}
END_TEST

/* Memory goes back to where it came from, and a message about none says what
 * there is. */
START_TEST(memory_comes_and_goes) {
  ts_pair p;
  ts_buffer b;
  start(&p, false);
  const int64_t before = ts_cuda_fake_now().blocks;
  ck_assert_ok(
      ts_buffer_create(&b, p.device, 100, TS_SPACE_DEVICE, TS_TAG_TABLES));
  ck_assert(!b.late);
  ck_assert(p.device->ops->is_remote(p.device, b.ptr));
  ck_assert(!p.device->ops->is_remote(p.device, &b));
  ck_assert(!p.device->ops->is_remote(p.device, NULL));
  ck_assert_int_eq(ts_cuda_fake_now().blocks, before + 1);
  ck_assert_ok(ts_buffer_reserve(&b, 1000));
  ck_assert(b.late);
  ck_assert(filled(p.lane, &b, 1000, 0));
  ts_buffer_reset(&b);
  /* What is given back in the order of a stream is gone soon. */
  for (int i = 0; i < 1000 && ts_cuda_fake_now().blocks != before; i++)
    ts_pause(1000);
  ck_assert_int_eq(ts_cuda_fake_now().blocks, before);
  ck_assert_int_eq(ts_buffer_create(&b, p.device, (size_t)1 << 50,
                                    TS_SPACE_DEVICE, TS_TAG_TABLES),
                   TS_ERR_NOMEM);
  ck_assert_ptr_nonnull(
      strstr(ts_err_message(),
             "3221225472 of the 4294967296 bytes of GPU 0 (a fake)"));
  ts_err_clear();
  stop(&p);
}
END_TEST

/* ---- the trace ----------------------------------------------------------- */

static double number_after(const char *line, const char *key) {
  const char *at = strstr(line, key);
  return at ? atof(at + strlen(key)) : -1;
}

/* Spans have the stream's times, not those of the launch, and those that are
 * read after the traced steps are in the file. */
START_TEST(spans_have_the_devices_times) {
  enum { N = 50 };
  ts_pair p;
  void *stream;
  char path[] = "/tmp/test_cuda_fakeXXXXXX", line[1024];
  int n = 0;
  double end = 0;
  start(&p, false);
  ts_lane *lane = lane_with(p.device, &stream);
  close(mkstemp(path));
  const double origin = ts_now();
  ck_assert_ok(ts_trace_open(path, 0, origin, 3, 4));
  ts_trace_train(2);
  ck_assert_ok(ts_lane_submit(lane, "before", nothing, NULL, 0));
  ts_trace_train(3);
  ts_trace_batch_set(3, "forward");
  ts_cuda_fake_hold(stream);
  for (int i = 0; i < N; i++)
    ck_assert_ok(ts_lane_submit(lane, "traced", nothing, NULL, 0));
  ts_trace_batch_set(-1, "");
  ts_pause(100000);
  const double released = 1e6 * (ts_now() - origin);
  ts_trace_train(4);
  ts_cuda_fake_hold(NULL);
  ck_assert_ok(ts_lane_submit(lane, "after", nothing, NULL, 0));
  ck_assert_ok(ts_lane_sync(lane));
  const double all = 1e6 * (ts_now() - origin);
  ck_assert_ok(ts_trace_close());
  FILE *f = fopen(path, "r");
  while (fgets(line, sizeof line, f)) {
    if (!strstr(line, "\"ph\":\"X\"")) continue;
    ck_assert_ptr_nonnull(strstr(line, "\"name\":\"traced\""));
    ck_assert_ptr_nonnull(strstr(line, "\"batch\":3"));
    const double t = number_after(line, "\"ts\":");
    /* Anchors and floats may be off by the time between two looks. */
    ck_assert_double_ge(t, released - 3000);
    ck_assert_double_ge(t, end - 10);
    end = t + number_after(line, "\"dur\":");
    ck_assert_double_le(end, all + 3000);
    n++;
  }
  fclose(f);
  unlink(path);
  ck_assert_int_eq(n, N);
  ts_lane_destroy(lane);
  stop(&p);
  ck_assert_int_eq(ts_cuda_fake_now().events, 0);
}
END_TEST

static void find_phase(const char *phase, double seconds, int64_t calls,
                       void *arg) {
  if (strcmp(phase, "booked") != 0) return;
  ((double *)arg)[0] += seconds;
  ((double *)arg)[1] += (double)calls;
}

/* While phases are wanted tasks are booked with the stream's times. */
START_TEST(phases_have_the_devices_times) {
  ts_pair p;
  void *stream;
  double found[2] = {0};
  start(&p, false);
  ts_lane *lane = lane_with(p.device, &stream);
  ts_timers_reset();
  ck_assert_ok(ts_lane_submit(lane, "booked", nothing, NULL, 0));
  ts_clock_phases(true);
  for (int i = 0; i < 5; i++)
    ck_assert_ok(ts_lane_submit(lane, "booked", nothing, NULL, 0));
  ts_clock_phases(false);
  ck_assert_ok(ts_lane_submit(lane, "booked", nothing, NULL, 0));
  ck_assert_ok(ts_lane_sync(lane));
  ts_timers_each(find_phase, found);
  ck_assert_double_eq(found[1], 5);
  ck_assert(found[0] >= 0 && found[0] < 60);
  ts_timers_reset();
  ts_lane_destroy(lane);
  stop(&p);
}
END_TEST

START_TEST(an_old_gpu_has_a_note) {
  ts_pair p;
  ts_device_info info;
  start(&p, false);
  ck_assert(ts_device_describe(p.device, &info));
  ck_assert_ptr_nonnull(strstr(info.text, "a fake, 4.0 GiB"));
  ck_assert_ptr_nonnull(strstr(info.note, "compute capability 7.5"));
  stop(&p);
}
END_TEST

static Suite *suite(void) {
  Suite *s = device_suite();
  TCase *t = tcase_create("cuda");
  tcase_add_test(t, an_old_event_is_not_a_later_one);
  tcase_add_test(t, events_are_few);
  tcase_add_test(t, a_wait_has_a_deadline);
  tcase_add_loop_test(t, a_fault_of_the_device_is_the_lanes, 0, 2);
  tcase_add_test(t, memory_comes_and_goes);
  tcase_add_test(t, spans_have_the_devices_times);
  tcase_add_test(t, phases_have_the_devices_times);
  tcase_add_test(t, an_old_gpu_has_a_note);
  suite_add_tcase(s, t);
  return s;
}

TS_TEST_MAIN(suite)
