/* test_cuda_fake.c - the CUDA backend's lanes, events and memory over a CUDA
 * runtime of threads: the contract of all devices, and what only CUDA has.
 * Kernels are not run here, and what the driver does is not shown. */
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "tests/support/emulated/emulated.h"
#include "runtime/trace.h"
#include "sparse/hold_clock.h"
#include "tests/runtime/test_device.c"

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "emulated", 1);
}

/* A launch asks for the last error: nothing that lanes do may leave one. */
static ts_err nothing(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  return cudaGetLastError() == cudaSuccess
             ? TS_OK
             : ts_fail(TS_ERR_INTERNAL, "an error was left");
}

/* A lane whose stream is known. */
static ts_lane *third;
static void *stream;

static void begin_with(bool serial) {
  start(serial);
  ck_assert_ok(ts_lane_create(p.device, &third, "held", TS_LANE_DATA));
  stream = ts_emulated_stream();
}

static void begin(void) {
  begin_with(false);
}

static void end(void) {
  ts_lane_destroy(third);
  ck_assert_str_eq(ts_err_message(), "");
  stop();
  ck_assert_int_eq(ts_emulated_now().events, 0);
}
TS_EACH_TEST_BETWEEN(begin, end)

/* An event that is held while its lane goes on to wait for a lane that stands
 * still is not taken for a later one. */
TS_TEST(an_old_event_is_not_a_later_one) {
  ts_emulated_hold(stream);
  ck_assert_ok(ts_lane_submit(third, "a", nothing, NULL, 0));
  const ts_event never = ts_lane_record(third), old = ts_lane_record(p.lane);
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
  ts_emulated_hold(NULL);
  ck_assert_ok(ts_event_sync(last));
  ck_assert(ts_event_done(never));
}

/* As many events as positions are open, not as there have been. */
TS_TEST(events_are_few) {
  for (int i = 0; i < 3000; i++) {
    ck_assert_ok(ts_lane_submit(p.lane, "a", nothing, NULL, 0));
    const ts_event e = ts_lane_record(p.lane);
    if (i % 10 == 9) ck_assert_ok(ts_event_sync(e));
  }
  ck_assert_int_le(ts_emulated_now().events, 30);
}

TS_TEST(a_wait_has_a_deadline) {
  const ts_device_options o = {.n_threads = 1, .timeout_s = 0.2};
  ts_device *d;
  ts_lane *lane;
  ck_assert_ok(ts_device_create(&d, "emulated", &o));
  ck_assert_ok(ts_lane_create(d, &lane, "late", TS_LANE_DATA));
  ts_emulated_hold(ts_emulated_stream());
  ck_assert_ok(ts_lane_submit(lane, "stands still", nothing, NULL, 0));
  ck_assert_int_eq(ts_lane_sync(lane), TS_ERR_COMM);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "lane \"late\""));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "\"stands still\""));
  ts_err_clear();
  ts_emulated_hold(NULL);
  ck_assert_ok(ts_lane_sync(lane));
  ts_lane_destroy(lane);
  ts_device_destroy(d);
}

/* The device fails in the middle of what is queued: who waits gets the lane
 * and its last task, every event is complete, nothing new runs. */
TS_TESTS(a_fault_of_the_device_is_the_lanes, 0, 2) {
  int one = 1;
  if (_i) {
    end();
    begin_with(true);
  }
  atomic_store(&n_done, 0);
  ck_assert_ok(ts_lane_submit(third, "the culprit", nothing, NULL, 0));
  const ts_event early = ts_lane_record(third);
  ts_emulated_fault(stream);
  ck_assert_int_eq(ts_event_sync(ts_lane_record(third)), TS_ERR_INTERNAL);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "lane \"held\""));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "\"the culprit\""));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "cudaErrorIllegalAddress"));
  ts_err_clear();
  ck_assert(ts_event_done(early));
  ck_assert(ts_event_done(ts_lane_record(third)));
  ck_assert_str_eq(ts_err_message(), "");
  ck_assert_int_eq(ts_lane_submit(third, "dropped", append, &one, sizeof one),
                   TS_ERR_INTERNAL);
  ts_err_clear();
  ck_assert_int_eq(n_done, 0);
  (void)ts_lane_wait(p.other, early);
  ts_err_clear();
  ck_assert_int_eq(ts_lane_sync(p.other), TS_ERR_INTERNAL);
  ts_err_clear();
  ts_lane_destroy(third);
  third = NULL;
  ck_assert_str_eq(ts_err_message(), "");
  ts_emulated_heal();
}

/* Memory goes back to where it came from, and a message about none says what
 * there is. */
TS_TEST(memory_comes_and_goes) {
  ts_buffer b;
  const int64_t before = ts_emulated_now().blocks;
  ck_assert_ok(
      ts_buffer_create(&b, p.device, 100, TS_SPACE_DEVICE, TS_TAG_TABLES));
  ck_assert(!b.late);
  ck_assert(p.device->ops->is_remote(p.device, b.ptr));
  ck_assert(!p.device->ops->is_remote(p.device, &b));
  ck_assert(!p.device->ops->is_remote(p.device, NULL));
  ck_assert_int_eq(ts_emulated_now().blocks, before + 1);
  ck_assert_ok(ts_buffer_reserve(&b, 1000));
  ck_assert(b.late);
  ck_assert(filled(p.lane, &b, 1000, 0));
  ts_buffer_reset(&b);
  /* Memory given back in the order of a stream is gone soon. */
  for (int i = 0; i < 1000 && ts_emulated_now().blocks != before; i++)
    ts_pause(1000);
  ck_assert_int_eq(ts_emulated_now().blocks, before);
  ck_assert_int_eq(ts_buffer_create(&b, p.device, (size_t)1 << 50,
                                    TS_SPACE_DEVICE, TS_TAG_TABLES),
                   TS_ERR_NOMEM);
  ck_assert_ptr_nonnull(
      strstr(ts_err_message(),
             "3221225472 of the 4294967296 bytes of GPU 0 (an emulated GPU)"));
  ts_err_clear();
}

/* ---- the trace ----------------------------------------------------------- */

static double number_after(const char *line, const char *key) {
  const char *at = strstr(line, key);
  return at ? atof(at + strlen(key)) : -1;
}

/* Spans have the stream's times, not those of the launch, and those that are
 * read after the traced steps are in the file. */
TS_TEST(spans_have_the_devices_times) {
  enum { N = 50 };
  char path[] = "/tmp/test_cuda_fakeXXXXXX", line[1024];
  int n = 0;
  double last = 0;
  close(mkstemp(path));
  const double origin = ts_now();
  ck_assert_ok(ts_trace_open(path, 0, origin, 3, 4));
  ts_trace_train(2);
  ck_assert_ok(ts_lane_submit(third, "before", nothing, NULL, 0));
  ts_trace_train(3);
  ts_trace_batch_set(3, "forward");
  ts_emulated_hold(stream);
  for (int i = 0; i < N; i++)
    ck_assert_ok(ts_lane_submit(third, "traced", nothing, NULL, 0));
  ts_trace_batch_set(-1, "");
  ts_pause(100000);
  const double released = 1e6 * (ts_now() - origin);
  ts_trace_train(4);
  ts_emulated_hold(NULL);
  ck_assert_ok(ts_lane_submit(third, "after", nothing, NULL, 0));
  ck_assert_ok(ts_lane_sync(third));
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
    ck_assert_double_ge(t, last - 10);
    last = t + number_after(line, "\"dur\":");
    ck_assert_double_le(last, all + 3000);
    n++;
  }
  fclose(f);
  unlink(path);
  ck_assert_int_eq(n, N);
}

static void find_phase(const char *phase, double seconds, int64_t calls,
                       void *arg) {
  if (strcmp(phase, "booked") != 0) return;
  ((double *)arg)[0] += seconds;
  ((double *)arg)[1] += (double)calls;
}

/* While phases are wanted tasks are booked with the stream's times. */
TS_TEST(phases_have_the_devices_times) {
  double found[2] = {0};
  ts_timers_reset();
  ck_assert_ok(ts_lane_submit(third, "booked", nothing, NULL, 0));
  ts_clock_phases(true);
  for (int i = 0; i < 5; i++)
    ck_assert_ok(ts_lane_submit(third, "booked", nothing, NULL, 0));
  ts_clock_phases(false);
  ck_assert_ok(ts_lane_submit(third, "booked", nothing, NULL, 0));
  ck_assert_ok(ts_lane_sync(third));
  ts_timers_each(find_phase, found);
  ck_assert_double_eq(found[1], 5);
  ck_assert(found[0] >= 0 && found[0] < 60);
  ts_timers_reset();
}

TS_TEST(an_old_gpu_has_a_note) {
  ts_device_info info;
  char id[TS_DEVICE_ID];
  end();
  ts_emulated_set_gpu(&(ts_emulated_gpu){.capability = 75});
  begin();
  ck_assert(ts_device_describe(p.device, &info));
  ck_assert_ptr_nonnull(strstr(info.text, "an emulated GPU, 4.0 GiB"));
  const char *driver = strstr(info.text, "driver for CUDA ");
  const char *runtime = strstr(info.text, ", runtime ");
  ck_assert(driver && runtime && atoi(driver + 16) >= 12);
  ck_assert_int_eq(atoi(runtime + 10), atoi(driver + 16));
  ck_assert_ok(p.device->ops->identify(p.device, id));
  ck_assert(*id && !memcmp(id, info.id, sizeof id));
  ck_assert_ptr_nonnull(strstr(info.note, "compute capability 7.5"));
  ts_emulated_set_gpu(NULL);
}

/* ---- how long holds take ------------------------------------------------- */

static ts_hold_clock holds;

/* A hold that enqueues something; the stream is held from where it begins. */
static ts_err hold_task(void *arg, ts_lane *lane) {
  TS_DO(ts_hold_begin(&holds, lane));
  if (*(void **)arg) ts_emulated_hold(*(void **)arg);
  return ts_hold_end(&holds);
}

/* Holds take the stream's time, not the host's for launches; more of them than
 * there are marks, and another lane, lose none. */
TS_TEST(holds_have_the_devices_times) {
  void *none = NULL;
  holds = (ts_hold_clock){0};
  ck_assert_ok(
      ts_lane_submit(third, "hold", hold_task, &stream, sizeof stream));
  ts_pause(50000);
  ts_emulated_hold(NULL);
  ck_assert_ok(ts_lane_sync(third));
  ck_assert_double_ge(ts_hold_seconds(&holds), 0.045);
  const double one = ts_hold_seconds(&holds);
  for (int i = 0; i < 200; i++) {
    ck_assert_ok(ts_lane_submit(third, "hold", hold_task, &none, sizeof none));
    if (i % 20 == 19) ck_assert_ok(ts_lane_sync(third));
  }
  ck_assert_ok(ts_lane_submit(p.other, "hold", hold_task, &none, sizeof none));
  ck_assert_ok(ts_lane_sync(p.other));
  ck_assert_double_ge(ts_hold_seconds(&holds), one);
  ck_assert_double_le(ts_hold_seconds(&holds), one + 1);
  ck_assert_str_eq(ts_err_message(), "");
  ts_hold_clock_reset(&holds);
}
