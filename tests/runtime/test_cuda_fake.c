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
  /* As ts_cuda_words_prepare sets it; the GPU is chosen once in a process. */
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
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
  *stream = ts_emulated_stream();
  return lane;
}

/* An event that is held while its lane goes on to wait for a lane that stands
 * still is not taken for a later one. */
TS_TEST(an_old_event_is_not_a_later_one) {
  ts_pair p;
  void *stream;
  start(&p, false);
  ts_lane *stuck = lane_with(p.device, &stream);
  ts_emulated_hold(stream);
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
  ts_emulated_hold(NULL);
  ck_assert_ok(ts_event_sync(last));
  ck_assert(ts_event_done(never));
  ts_lane_destroy(stuck);
  stop(&p);
}

/* As many events as positions are open, not as there have been. */
TS_TEST(events_are_few) {
  ts_pair p;
  start(&p, false);
  for (int i = 0; i < 3000; i++) {
    ck_assert_ok(ts_lane_submit(p.lane, "a", nothing, NULL, 0));
    const ts_event e = ts_lane_record(p.lane);
    if (i % 10 == 9) ck_assert_ok(ts_event_sync(e));
  }
  ck_assert_int_le(ts_emulated_now().events, 30);
  stop(&p);
  ck_assert_int_eq(ts_emulated_now().events, 0);
}

TS_TEST(a_wait_has_a_deadline) {
  const ts_device_options o = {.n_threads = 1, .timeout_s = 0.2};
  ts_device *d;
  void *stream;
  ck_assert_ok(ts_device_create(&d, "emulated", &o));
  ts_lane *lane = lane_with(d, &stream);
  ts_emulated_hold(stream);
  ck_assert_ok(ts_lane_submit(lane, "stands still", nothing, NULL, 0));
  ck_assert_int_eq(ts_lane_sync(lane), TS_ERR_COMM);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "lane \"held\""));
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
  ts_pair p;
  void *stream;
  int one = 1;
  start(&p, _i);
  ts_lane *lane = lane_with(p.device, &stream);
  atomic_store(&n_done, 0);
  ck_assert_ok(ts_lane_submit(lane, "the culprit", nothing, NULL, 0));
  const ts_event early = ts_lane_record(lane);
  ts_emulated_fault(stream);
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
  ts_emulated_heal();
  stop(&p);
}

/* Memory goes back to where it came from, and a message about none says what
 * there is. */
TS_TEST(memory_comes_and_goes) {
  ts_pair p;
  ts_buffer b;
  start(&p, false);
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
  /* What is given back in the order of a stream is gone soon. */
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
  stop(&p);
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
  ts_emulated_hold(stream);
  for (int i = 0; i < N; i++)
    ck_assert_ok(ts_lane_submit(lane, "traced", nothing, NULL, 0));
  ts_trace_batch_set(-1, "");
  ts_pause(100000);
  const double released = 1e6 * (ts_now() - origin);
  ts_trace_train(4);
  ts_emulated_hold(NULL);
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
  ck_assert_int_eq(ts_emulated_now().events, 0);
}

static void find_phase(const char *phase, double seconds, int64_t calls,
                       void *arg) {
  if (strcmp(phase, "booked") != 0) return;
  ((double *)arg)[0] += seconds;
  ((double *)arg)[1] += (double)calls;
}

/* While phases are wanted tasks are booked with the stream's times. */
TS_TEST(phases_have_the_devices_times) {
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

TS_TEST(an_old_gpu_has_a_note) {
  ts_pair p;
  ts_device_info info;
  ts_emulated_set_gpu(&(ts_emulated_gpu){.capability = 75});
  start(&p, false);
  ck_assert(ts_device_describe(p.device, &info));
  ck_assert_ptr_nonnull(strstr(info.text, "an emulated GPU, 4.0 GiB"));
  ck_assert_ptr_nonnull(strstr(info.note, "compute capability 7.5"));
  stop(&p);
  ts_emulated_set_gpu(NULL);
}

/* ---- how long holds take ------------------------------------------------- */

static ts_hold_clock holds;

/* A hold that enqueues something; the stream is held from where it begins. */
static ts_err hold_task(void *arg, ts_lane *lane) {
  ts_err err = TS_OK;
  TS_TRY(ts_hold_begin(&holds, lane));
  if (*(void **)arg) ts_emulated_hold(*(void **)arg);
  TS_TRY(ts_hold_end(&holds));
done:
  return err;
}

/* Holds take the stream's time, not the host's for launches; more of them than
 * there are marks, and another lane, lose none. */
TS_TEST(holds_have_the_devices_times) {
  ts_pair p;
  void *stream, *none = NULL;
  start(&p, false);
  ts_lane *lane = lane_with(p.device, &stream);
  holds = (ts_hold_clock){0};
  ck_assert_ok(ts_lane_submit(lane, "hold", hold_task, &stream, sizeof stream));
  ts_pause(50000);
  ts_emulated_hold(NULL);
  ck_assert_ok(ts_lane_sync(lane));
  ck_assert_double_ge(ts_hold_seconds(&holds), 0.045);
  const double one = ts_hold_seconds(&holds);
  for (int i = 0; i < 200; i++) {
    ck_assert_ok(ts_lane_submit(lane, "hold", hold_task, &none, sizeof none));
    if (i % 20 == 19) ck_assert_ok(ts_lane_sync(lane));
  }
  ck_assert_ok(ts_lane_submit(p.other, "hold", hold_task, &none, sizeof none));
  ck_assert_ok(ts_lane_sync(p.other));
  ck_assert_double_ge(ts_hold_seconds(&holds), one);
  ck_assert_double_le(ts_hold_seconds(&holds), one + 1);
  ck_assert_str_eq(ts_err_message(), "");
  ts_hold_clock_reset(&holds);
  ts_lane_destroy(lane);
  stop(&p);
}

/* ---- words --------------------------------------------------------------- */

typedef struct word_rig {
  ts_pair p;
  ts_buffer word, from, to; /* pinned */
  int waits;                /* of streams, before */
} word_rig;

/* A device whose streams may wait for words, unless NAME is set to VALUE. */
static void start_words(word_rig *r, bool serial, double timeout_s) {
  const ts_device_options o = {
      .serial = serial, .n_threads = 1, .timeout_s = timeout_s};
  ts_buffer *const all[] = {&r->word, &r->from, &r->to};
  setenv("TESSERA_STREAM_WAITS", "1", 1);
  ck_assert_ok(ts_device_create(&r->p.device, "emulated", &o));
  unsetenv("TESSERA_STREAM_WAITS");
  ck_assert_ok(
      ts_lane_create(r->p.device, &r->p.lane, "waits", TS_LANE_COMPUTE));
  ck_assert_ok(ts_lane_create(r->p.device, &r->p.other, "other", TS_LANE_DATA));
  for (int i = 0; i < 3; i++)
    ck_assert_ok(ts_buffer_create(all[i], r->p.device, 64, TS_SPACE_PINNED,
                                  TS_TAG_MISC));
  r->waits = ts_emulated_now().word_waits;
}

static void stop_words(word_rig *r) {
  ts_buffer *const all[] = {&r->word, &r->from, &r->to};
  for (int i = 0; i < 3; i++) ts_buffer_reset(all[i]);
  stop(&r->p);
}

static ts_err wait_word(word_rig *r, uint64_t least) {
  return r->p.device->ops->wait_word(r->p.lane, r->word.ptr, least);
}

static void set_word(const word_rig *r, uint64_t value) {
  __atomic_store_n((uint64_t *)r->word.ptr, value, __ATOMIC_RELEASE);
}

/* The host goes on at once; what follows the wait sees what was written before
 * the word, and other lanes are not held up. */
TS_TEST(a_stream_waits_for_a_word) {
  word_rig r;
  start_words(&r, false, 60);
  ck_assert_ptr_nonnull(r.p.device->ops->wait_word);
  set_word(&r, 4);
  ck_assert_ok(wait_word(&r, 4)); /* has come */
  ck_assert_ok(ts_lane_sync(r.p.lane));
  ck_assert_ok(wait_word(&r, 6));
  ck_assert_int_eq(ts_emulated_now().word_waits, r.waits + 2);
  ck_assert_ok(ts_lane_copy(r.p.lane, r.to.ptr, r.from.ptr, 8));
  const ts_event copied = ts_lane_record(r.p.lane);
  ck_assert_ok(ts_lane_submit(r.p.other, "a", nothing, NULL, 0));
  ck_assert_ok(ts_lane_sync(r.p.other));
  set_word(&r, 5);
  ts_pause(20000);
  ck_assert(!ts_event_done(copied));
  memcpy(r.from.ptr, "arrived", 8);
  set_word(&r, 7);
  ck_assert_ok(ts_event_sync(copied));
  ck_assert_str_eq(r.to.ptr, "arrived");
  stop_words(&r);
}

static void *set_later(void *rig) {
  ts_pause(50000);
  set_word(rig, 9);
  return NULL;
}

/* Serial lanes, and more lanes than there are connections: the host waits. */
TS_TESTS(the_host_waits_for_a_word, 0, 2) {
  word_rig r;
  ts_lane *more[30];
  pthread_t thread;
  start_words(&r, _i == 0, 60);
  for (int i = 0; i < 30 && _i; i++)
    ck_assert_ok(ts_lane_create(r.p.device, &more[i], "more", TS_LANE_DATA));
  ck_assert_int_eq(pthread_create(&thread, NULL, set_later, &r), 0);
  ck_assert_ok(wait_word(&r, 9));
  ck_assert_uint_eq(*(uint64_t *)r.word.ptr, 9);
  ck_assert_int_eq(ts_emulated_now().word_waits, r.waits);
  pthread_join(thread, NULL);
  for (int i = 0; i < 30 && _i; i++) ts_lane_destroy(more[i]);
  ck_assert_ok(wait_word(&r, 8));
  ck_assert_int_eq(ts_emulated_now().word_waits, r.waits + (_i == 1));
  stop_words(&r);
}

/* A word that doesn't come is the lane's deadline, and no end of the program:
 * the stream goes on with the word of who gives up. */
TS_TEST(a_word_that_does_not_come) {
  word_rig r;
  start_words(&r, false, 0.1);
  ck_assert_ok(wait_word(&r, 3));
  ck_assert_ok(ts_lane_submit(r.p.lane, "stands still", nothing, NULL, 0));
  ck_assert_int_eq(ts_lane_sync(r.p.lane), TS_ERR_COMM);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "\"stands still\""));
  ts_err_clear();
  set_word(&r, INT64_MAX);
  ck_assert_ok(ts_lane_sync(r.p.lane));
  stop_words(&r);
}

/* What is missing is said, and the host waits as without being asked. */
TS_TESTS(words_that_may_not_be_used, 0, 4) {
  static const char *const bad[][3] = {
      {"CUDA_DEVICE_MAX_CONNECTIONS", "8", "there are 8 connections"},
      {"CUDA_DEVICE_MAX_COPY_CONNECTIONS", "2", "there are 2 connections"},
      {"CUDA_MODULE_LOADING", "LAZY", "CUDA_MODULE_LOADING is \"LAZY\""},
      {"TESSERA_FAKE_NO_WORDS", "1", "no 64-bit waits"}};
  word_rig r;
  ts_device_info info;
  char before[64] = "";
  const char *const *b = bad[_i];
  if (getenv(b[0])) (void)snprintf(before, sizeof before, "%s", getenv(b[0]));
  setenv(b[0], b[1], 1);
  start_words(&r, false, 60);
  ck_assert_ptr_null(r.p.device->ops->wait_word);
  ck_assert(ts_device_describe(r.p.device, &info));
  ck_assert_ptr_nonnull(strstr(info.text, "the host waits for messages"));
  ck_assert_ptr_nonnull(strstr(info.text, b[2]));
  stop_words(&r);
  if (*before)
    setenv(b[0], before, 1);
  else
    unsetenv(b[0]);
}

/* Nobody asks: nothing is new. */
TS_TEST(words_are_asked_for) {
  ts_pair p;
  ts_device_info info;
  start(&p, false);
  ck_assert_ptr_null(p.device->ops->wait_word);
  ck_assert(ts_device_describe(p.device, &info));
  ck_assert_ptr_null(strstr(info.text, "messages"));
  stop(&p);
}
