/* test_device.c - lanes, events and memory: one contract for every device,
 * with serial and parallel lanes; of the device that TESSERA_BACKEND names.
 * ranks: 1  fake: 1  emulated: 1 */
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "tests/support/harness.h"
#include "tests/support/lane_tasks.h"
#include "runtime/arrays.h"
#include "runtime/clock.h"
#include "runtime/device_impl.h"

typedef struct ts_pair {
  ts_device *device;
  ts_lane *lane, *other;
} ts_pair;

static ts_pair p;

static void start(bool serial) {
  ck_assert_ok(ts_test_device(&p.device, serial, 1));
  ck_assert_ok(ts_lane_create(p.device, &p.lane, "one", TS_LANE_COMPUTE));
  ck_assert_ok(ts_lane_create(p.device, &p.other, "other", TS_LANE_DATA));
}

static void stop(void) {
  ts_lane_destroy(p.other);
  ts_lane_destroy(p.lane);
  ts_device_destroy(p.device);
  p = (ts_pair){0};
}

TS_EACH_TEST_BETWEEN(NULL, stop)

TS_TESTS(events_order_lanes, 0, 2) {
  start(_i);
  atomic_store(&n_done, 0);
  for (int i = 0; i < 10; i += 2) {
    int a = i, b = i + 1;
    ck_assert_ok(ts_lane_submit(p.lane, "a", slow_append, &a, sizeof a));
    ck_assert_ok(ts_lane_wait(p.other, ts_lane_record(p.lane)));
    ck_assert_ok(ts_lane_submit(p.other, "b", append, &b, sizeof b));
    ck_assert_ok(ts_lane_wait(p.lane, ts_lane_record(p.other)));
  }
  ck_assert_ok(ts_lane_sync(p.lane));
  ck_assert_ok(ts_lane_sync(p.other));
  ck_assert_int_eq(n_done, 10);
  for (int i = 0; i < 10; i++) ck_assert_int_eq(order[i], i);
}

/* A queue that grows while its head is not at the start of the ring keeps the
 * order; a lane that is destroyed does first what it was given. */
TS_TESTS(long_queues_run_out_in_order, 0, 2) {
  enum { SOME = 40, MANY = 1000 };
  ts_lane *lane;
  start(_i);
  ck_assert_ok(ts_lane_create(p.device, &lane, "long", TS_LANE_DATA));
  atomic_store(&n_done, 0);
  for (int i = 0; i < MANY; i++) {
    ck_assert_ok(ts_lane_submit(
        lane, "append", i == SOME ? slow_append : append, &i, sizeof i));
    if (i == SOME - 1) ck_assert_ok(ts_lane_sync(lane));
  }
  ts_lane_destroy(lane);
  ck_assert_int_eq(n_done, MANY);
  for (int i = 0; i < MANY; i++) ck_assert_int_eq(order[i], i);
}

TS_TESTS(an_error_stops_a_lane_and_who_waits_for_it, 0, 2) {
  int one = 1;
  start(_i);
  atomic_store(&n_done, 0);
  (void)ts_lane_submit(p.lane, "fail", break_down, NULL, 0);
  (void)ts_lane_submit(p.lane, "dropped", append, &one, sizeof one);
  ts_err_clear();
  const ts_event failed = ts_lane_record(p.lane);
  (void)ts_lane_wait(p.other, failed);
  (void)ts_lane_submit(p.other, "dropped", append, &one, sizeof one);
  ts_err_clear();
  ck_assert_int_eq(ts_lane_sync(p.lane), TS_ERR_DATA);
  ck_assert_str_eq(ts_err_message(), "on purpose");
  ts_err_clear();
  ck_assert(ts_event_done(failed));
  ck_assert_int_eq(ts_lane_sync(p.other), TS_ERR_DATA);
  ts_err_clear();
  ck_assert_int_eq(ts_lane_error(p.other), TS_ERR_DATA);
  ck_assert_str_eq(ts_err_message(), "on purpose");
  ts_err_clear();
  ck_assert_int_eq(n_done, 0);
}

TS_TESTS(a_task_has_no_more_than_its_bytes, 0, 2) {
  static char much[TS_TASK_ARG_MAX + 1];
  start(_i);
  ck_assert_int_eq(ts_lane_submit(p.lane, "much", append, much, sizeof much),
                   TS_ERR_INTERNAL);
  ts_err_clear();
  ck_assert_ok(ts_lane_sync(p.lane));
}

/* ---- events -------------------------------------------------------------- */

/* Events that are held for long stay what they were, however many come after
 * them; {0} is complete. */
TS_TESTS(events_may_be_held, 0, 2) {
  enum { MANY = 1000 };
  static ts_event held[MANY];
  start(_i);
  ck_assert(ts_event_done((ts_event){0}));
  ck_assert_ok(ts_event_sync((ts_event){0}));
  ck_assert_ok(ts_lane_wait(p.lane, (ts_event){0}));
  atomic_store(&n_done, 0);
  for (int i = 0; i < MANY; i++) {
    ck_assert_ok(ts_lane_submit(p.lane, "a", append, &i, sizeof i));
    held[i] = ts_lane_record(p.lane);
  }
  ck_assert_ok(ts_event_sync(held[MANY - 1]));
  for (int i = 0; i < MANY; i++) {
    ck_assert(ts_event_done(held[i]));
    ck_assert_ok(ts_lane_wait(p.other, held[i]));
  }
  ck_assert_ok(ts_lane_sync(p.other));
}

/* Two lanes pass a block of memory to and fro, and the host waits only at the
 * end. */
TS_TESTS(copies_follow_events, 0, 2) {
  enum { N = 1 << 18, ROUNDS = 20 };
  const size_t bytes = N * sizeof(int);
  ts_buffer host, a, b;
  start(_i);
  ck_assert_ok(ts_buffer_create(&host, p.device, bytes * (ROUNDS + 1),
                                TS_SPACE_PINNED, TS_TAG_MISC));
  ck_assert_ok(
      ts_buffer_create(&a, p.device, bytes, TS_SPACE_DEVICE, TS_TAG_MISC));
  ck_assert_ok(
      ts_buffer_create(&b, p.device, bytes, TS_SPACE_DEVICE, TS_TAG_MISC));
  int *x = host.ptr;
  for (int i = 0; i < N; i++) x[i] = i;
  for (int k = 0; k < ROUNDS; k++) {
    int *from = x + (size_t)k * N, *to = from + N;
    ck_assert_ok(ts_lane_copy(p.lane, a.ptr, from, bytes));
    ck_assert_ok(ts_lane_wait(p.other, ts_lane_record(p.lane)));
    ck_assert_ok(ts_lane_copy(p.other, b.ptr, a.ptr, bytes));
    ck_assert_ok(ts_lane_copy(p.other, to, b.ptr, bytes));
    ck_assert_ok(ts_lane_wait(p.lane, ts_lane_record(p.other)));
  }
  ck_assert_ok(ts_lane_copy(p.lane, NULL, NULL, 0));
  ck_assert_ok(ts_lane_sync(p.lane));
  for (int i = 0; i < N; i++) ck_assert_int_eq(x[(size_t)ROUNDS * N + i], i);
  ts_buffer_reset(&host);
  ts_buffer_reset(&a);
  ts_buffer_reset(&b);
}

/* Lanes of other devices wait, too: those of the host for these, these for
 * the host's. */
TS_TESTS(lanes_wait_for_other_devices, 0, 2) {
  const ts_device_options o = {.serial = _i, .n_threads = 1, .timeout_s = 60};
  ts_device *host;
  ts_lane *lane;
  int first = 1, second = 2, third = 3;
  start(_i);
  ck_assert_ok(ts_device_create(&host, "host", &o));
  ck_assert_ok(ts_lane_create(host, &lane, "host", TS_LANE_DATA));
  atomic_store(&n_done, 0);
  ck_assert_ok(ts_lane_submit(lane, "1", slow_append, &first, sizeof first));
  ck_assert_ok(ts_lane_wait(p.lane, ts_lane_record(lane)));
  ck_assert_ok(ts_lane_submit(p.lane, "2", append, &second, sizeof second));
  ck_assert_ok(ts_lane_wait(lane, ts_lane_record(p.lane)));
  ck_assert_ok(ts_lane_submit(lane, "3", append, &third, sizeof third));
  ck_assert_ok(ts_lane_sync(lane));
  for (int i = 0; i < 3; i++) ck_assert_int_eq(order[i], i + 1);
  (void)ts_lane_submit(lane, "fail", break_down, NULL, 0);
  ts_err_clear();
  (void)ts_lane_wait(p.lane, ts_lane_record(lane));
  ts_err_clear();
  ck_assert_int_eq(ts_lane_sync(p.lane), TS_ERR_DATA);
  ts_err_clear();
  ts_lane_destroy(lane);
  ts_device_destroy(host);
}

static ts_err nap(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  ts_pause(20000);
  return TS_OK;
}

/* A lane's own time: nothing passes that is not between two marks. */
TS_TESTS(clocks_tell_a_lanes_time, 0, 2) {
  ts_clock *c;
  double whole, part;
  start(_i);
  ck_assert_ok(ts_clock_create(&c, p.lane, 4)); /* the last is never set */
  ck_assert_ok(ts_clock_mark(c, 0));            /* and again below */
  for (int i = 0; i < 3; i++) {
    ck_assert_ok(ts_clock_mark(c, i));
    ck_assert_ok(ts_lane_submit(p.lane, "nap", nap, NULL, 0));
  }
  ck_assert_ok(ts_lane_sync(p.lane));
  ck_assert_ok(ts_clock_between(c, 0, 2, &whole));
  ck_assert_ok(ts_clock_between(c, 0, 1, &part));
  ck_assert(part >= 0.019 && whole >= part + 0.019);
  ts_clock_destroy(c);
}

/* ---- memory -------------------------------------------------------------- */

/* Whether all N bytes of B are VALUE. */
static bool filled(ts_lane *lane, const ts_buffer *b, size_t n, int value) {
  char *x;
  bool same = true;
  ck_assert_ok(ts_mem_alloc(&x, n, TS_TAG_MISC));
  memset(x, value + 1, n);
  ck_assert_ok(ts_lane_copy(lane, x, b->ptr, n));
  ck_assert_ok(ts_lane_sync(lane));
  for (size_t i = 0; i < n; i++) same &= x[i] == (char)value;
  ts_mem_free(x);
  return same;
}

static void fill(ts_lane *lane, ts_buffer *b, size_t n, int value) {
  char *x;
  ck_assert_ok(ts_mem_alloc(&x, n, TS_TAG_MISC));
  memset(x, value, n);
  ck_assert_ok(ts_lane_copy(lane, b->ptr, x, n));
  ck_assert_ok(ts_lane_sync(lane));
  ts_mem_free(x);
}

/* Never less than asked for, no growth without need, zeroed when new. */
TS_TESTS(buffers_grow, 0, 4) {
  ts_buffer b;
  start(_i % 2);
  const ts_space space = _i < 2 ? TS_SPACE_DEVICE : TS_SPACE_PINNED;
  ck_assert_ok(ts_buffer_create(&b, p.device, 64, space, TS_TAG_MISC));
  void *first = b.ptr;
  ck_assert_ok(ts_buffer_reserve(&b, 64));
  ck_assert_ptr_eq(b.ptr, first);
  ck_assert_uint_eq(b.bytes, 64);
  ck_assert(filled(p.lane, &b, 64, 0));
  for (size_t n = 65; n < 1000000; n += n / 3) {
    const size_t before = b.bytes;
    ck_assert_ok(ts_buffer_reserve(&b, n));
    ck_assert_uint_ge(b.bytes, n);
    if (b.bytes != before) ck_assert(filled(p.lane, &b, b.bytes, 0));
    fill(p.lane, &b, n, 7);
    ck_assert(filled(p.lane, &b, n, 7));
  }
  ts_buffer_reset(&b);
  ck_assert_ptr_null(b.ptr);
}

static int64_t held(ts_tag tag) {
  int64_t bytes = 0;
  for (int s = 0; s < TS_SPACE_COUNT; s++)
    bytes += ts_mem_stat_of(tag, (ts_space)s).now_bytes;
  return bytes;
}

/* Memory is counted: a pool's, a buffer's own, and when it is given back. */
TS_TESTS(pools_and_counts, 0, 2) {
  ts_pool pool = {0};
  ts_buffer b[2];
  start(_i);
  const int64_t before = held(TS_TAG_SPARSE);
  for (int i = 0; i < 2; i++) {
    b[i] = (ts_buffer){.space = i ? TS_SPACE_PINNED : TS_SPACE_DEVICE,
                       .tag = TS_TAG_SPARSE,
                       .owned = true,
                       .device = p.device};
    ck_assert_ok(ts_pool_add(&pool, &b[i]));
    ck_assert_ok(ts_buffer_reserve(&b[i], 1000));
    ck_assert_ptr_null(b[i].ptr);
  }
  ck_assert_ok(ts_pool_start(&pool));
  ck_assert_int_eq(held(TS_TAG_SPARSE) - before, 2 * 1024);
  for (int i = 0; i < 2; i++) {
    ck_assert_ok(ts_buffer_reserve(&b[i], 900));
    ck_assert(filled(p.lane, &b[i], 900, 0));
    ck_assert_ok(ts_buffer_reserve(&b[i], 5000));
    fill(p.lane, &b[i], 5000, 3);
    ck_assert(filled(p.lane, &b[i], 5000, 3));
  }
  ck_assert_int_ge(held(TS_TAG_SPARSE) - before, 2 * (1024 + 5000));
  for (int i = 0; i < 2; i++) ts_buffer_reset(&b[i]);
  ts_pool_reset(&pool);
  ck_assert_int_eq(held(TS_TAG_SPARSE), before);
}

/* Addresses get memory in pieces, which are zeroed, counted, and stay. */
TS_TESTS(ranges_grow, 0, 2) {
  enum { ALL = 16 << 20, LEAST = 5000, PIECE = 4 << 20 };
  ts_buffer b;
  start(_i);
  const int64_t before = held(TS_TAG_SPARSE);
  ck_assert_ok(ts_buffer_create_range(&b, p.device, ALL, TS_TAG_SPARSE));
  ck_assert_uint_eq(b.bytes, ALL);
  for (size_t from = 0, to = LEAST; from < ALL; from = to, to = 2 * to) {
    if (to > ALL) to = ALL;
    ck_assert_ok(ts_buffer_give(&b, from, to));
    ts_buffer part =
        ts_buffer_wrap((char *)b.ptr + from, to - from, TS_SPACE_DEVICE);
    ck_assert(filled(p.lane, &part, to - from, 0));
    fill(p.lane, &part, to - from, 7);
    ck_assert_int_ge(held(TS_TAG_SPARSE) - before, (int64_t)to);
    if (b.range)
      ck_assert_int_le(held(TS_TAG_SPARSE) - before, (int64_t)to + PIECE);
  }
  ck_assert(filled(p.lane, &b, ALL, 7));
  ts_buffer_reset(&b);
  ck_assert_int_eq(held(TS_TAG_SPARSE), before);
}

TS_TEST(too_much_memory_is_one_message) {
  ts_buffer b;
  if (!strcmp(ts_test_backend(), "host")) return; /* sanitizers stop there */
  start(0);
  const size_t much = (size_t)1 << 60;
  ck_assert_int_eq(
      ts_buffer_create(&b, p.device, much, TS_SPACE_DEVICE, TS_TAG_TABLES),
      TS_ERR_NOMEM);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "1152921504606846976 bytes"));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "embedding tables"));
  ck_assert_ptr_null(b.ptr);
  ts_err_clear();
  ck_assert_ok(ts_lane_sync(p.lane));
}

/* A size that would wrap round to a few bytes. */
TS_TEST(arrays_are_no_larger_than_memory) {
  ts_arrays all = {0};
  float *at;
  start(0);
  ck_assert_int_eq(ts_arrays_take(&all, p.device, &at, (INT64_C(1) << 61) + 1,
                                  8, TS_TAG_MISC),
                   TS_ERR_NOMEM);
  ck_assert_ptr_null(at);
  ts_err_clear();
  ts_arrays_reset(&all);
}

#ifdef TS_FAULTS
static ts_err wait_for_flag(void *arg, ts_lane *lane) {
  (void)lane;
  while (!atomic_load(*(atomic_bool **)arg)) ts_pause(100);
  return TS_OK;
}

/* A lane that gets no memory for a longer queue says so, and goes on. */
TS_TEST(a_queue_that_cannot_grow) {
  static atomic_bool flag;
  atomic_bool *at = &flag;
  ts_err err = TS_OK;
  int n = 0, i = 0;
  if (strcmp(ts_test_backend(), "host") != 0) return;
  start(false);
  atomic_store(&flag, false);
  atomic_store(&n_done, 0);
  ck_assert_ok(ts_lane_submit(p.lane, "wait", wait_for_flag, &at, sizeof at));
  ck_assert_ok(ts_fault_set("alloc:0:1", 0));
  for (; n < 900 && err == TS_OK; n++)
    err = ts_lane_submit(p.lane, "append", append, &i, sizeof i);
  ck_assert_ok(ts_fault_set(NULL, 0));
  ck_assert_int_eq(err, TS_ERR_NOMEM);
  ts_err_clear();
  atomic_store(&flag, true);
  ck_assert_ok(ts_lane_sync(p.lane));
  ck_assert_int_eq(n_done, n - 1);
}
#endif

TS_TEST(devices_say_what_they_are) {
  ts_device_info info;
  start(0);
  ck_assert_str_eq(ts_device_name(p.device), ts_test_backend());
  if (ts_device_describe(p.device, &info))
    ck_assert_str_ne(info.text, "");
  else
    ck_assert_str_eq(ts_test_backend(), "host");
}
