/* cuda_graph_cases.c - the same work with a graph and without must leave the
 * same bytes, whatever changes from step to step and wherever it is cut. */
#include <pthread.h>
#include <string.h>

#include "tests/runtime/cuda_kernels.h"
#include "runtime/clock.h"
#include "runtime/graph.h"
#include "runtime/device_impl.h"
#include "runtime/trace.h"
#include "tests/runtime/graph_rig.h"

enum { N = GRAPH_BYTES, STEPS = GRAPH_PINS };

static char *at(const ts_buffer *b, size_t offset) {
  return (char *)b->ptr + offset;
}

/* A step: two lanes by turns, arguments of its own.  B of the step
 * before is part of the result. */
static void work(ts_graph_rig *r, int step) {
  const size_t part = (size_t)(step + 1) * 100;
  ck_assert_ok(ts_lane_copy(r->lane, r->a.ptr, at(&r->pins, step * N), N));
  ck_assert_ok(ts_lane_wait(r->other, ts_lane_record(r->lane)));
  /* side by side */
  ck_assert_ok(ts_lane_copy(r->other, at(&r->b, part), r->a.ptr, N - part));
  ck_assert_ok(ts_lane_copy(r->lane, r->c.ptr, at(&r->a, 64), N - 64));
  ts_graph_fill(r, r->other, at(&r->b, part + 10), 20);
  ck_assert_ok(ts_lane_wait(r->lane, ts_lane_record(r->other)));
  ck_assert_ok(ts_lane_copy(r->lane, at(&r->c, 50), r->b.ptr, part + 64));
  ck_assert_ok(ts_lane_copy(r->lane, r->a.ptr, r->c.ptr, N / 2));
  ck_assert_ok(ts_lane_copy(r->lane, r->out.ptr, r->a.ptr, N));
}

/* The results of all steps; WITH: as graphs. */
static void run(unsigned char (*results)[N], bool with, ts_graph_counts *n) {
  ts_graph_rig r;
  ts_graph *g = NULL;
  ts_graph_rig_start(&r);
  if (with) ck_assert_ok(ts_graph_create(&g, r.lane));
  ck_assert(!with || g);
  for (int s = 0; s < STEPS; s++) {
    ck_assert_ok(ts_graph_begin(g));
    work(&r, s);
    ck_assert_ok(ts_graph_end(g));
    ck_assert_ok(ts_lane_sync(r.lane));
    memcpy(results[s], r.out.ptr, N);
  }
  *n = ts_graph_counts_of(g);
  ts_graph_destroy(g);
  ts_graph_rig_stop(&r);
}

TS_TEST(a_graph_does_the_same) {
  static unsigned char with[STEPS][N], without[STEPS][N];
  ts_graph_counts n;
  run(without, false, &n);
  ck_assert_int_eq(n.n_begun, 0);
  run(with, true, &n);
  for (int s = 0; s < STEPS; s++)
    ck_assert_msg(!memcmp(with[s], without[s], N), "step %d differs", s);
  ck_assert_int_eq(n.n_begun, STEPS);
  ck_assert_int_eq(n.n_cut, 0);
  ck_assert_int_eq(n.n_made, 1);
  ck_assert_int_eq(n.n_replayed + n.n_updated, STEPS - 1);
  ck_assert_int_eq(n.n_nodes, 7);
  ck_assert_str_eq(n.why, "");
}

/* Another sequence of work is another executable; and back. */
TS_TEST(another_sequence_is_made_anew) {
  ts_graph_rig r;
  ts_graph *g;
  ts_graph_rig_start(&r);
  ck_assert_ok(ts_graph_create(&g, r.lane));
  for (int s = 0; s < 4; s++) {
    ck_assert_ok(ts_graph_begin(g));
    ck_assert_ok(ts_lane_copy(r.lane, r.a.ptr, at(&r.pins, s * N), N));
    if (s == 2) ts_graph_fill(&r, r.lane, r.a.ptr, 7);
    ck_assert_ok(ts_lane_copy(r.lane, r.out.ptr, r.a.ptr, N));
    ck_assert_ok(ts_graph_end(g));
    ck_assert_ok(ts_lane_sync(r.lane));
    if (s == 2) memset(at(&r.pins, s * N), 0, 7);
    ck_assert(!memcmp(r.out.ptr, at(&r.pins, s * N), N));
  }
  const ts_graph_counts n = ts_graph_counts_of(g);
  ck_assert_int_eq(n.n_made, 3);
  ck_assert_int_eq(n.n_replayed + n.n_updated, 1);
  ts_graph_destroy(g);
  ts_graph_rig_stop(&r);
}

typedef struct ts_fetch_args {
  ts_graph_rig *rig;
  void *dst;
  const void *src;
} ts_fetch_args;

static ts_err fetch_task(void *arg, ts_lane *lane) {
  const ts_fetch_args *a = arg;
  (void)lane;
  return a->rig->k.fetch(a->dst, a->src, N);
}

static ts_err copy_task(void *arg, ts_lane *lane) {
  const ts_fetch_args *a = arg;
  (void)lane;
  return a->rig->k.copy(a->dst, a->src, N);
}

/* In the middle of a graph the host waits (0), fetches (1), copies from (2)
 * and to (3) pageable memory, gives memory back (4), sets no clock: nothing is
 * lost, and what follows follows. */
TS_TESTS(what_can_t_be_noted_cuts, 0, 5) {
  static const char *const why[] = {"waits for lane", "fetches",
                                    "not page-locked", "not page-locked",
                                    "given back"};
  static char pageable[N];
  ts_graph_rig r;
  ts_graph *g;
  ts_graph_rig_start(&r);
  ck_assert_ok(ts_graph_create(&g, r.lane));
  ts_buffer spare = {0};
  rig_buffer(&r, &spare, N, false);
  for (int s = 0; s < 2; s++) {
    const ts_fetch_args fetch = {&r, pageable, r.a.ptr};
    const char *now = at(&r.pins, s * N);
    ck_assert_ok(ts_graph_begin(g));
    ck_assert_ok(ts_lane_copy(r.lane, spare.ptr, now, N));
    ck_assert_ok(ts_lane_copy(r.lane, r.a.ptr, spare.ptr, N));
    ck_assert_ptr_eq(ts_graph_now(), g);
    switch (_i) {
    case 0:
      ck_assert_ok(ts_lane_sync(r.lane));
      break;
    case 1:
      ck_assert_ok(
          ts_lane_submit(r.lane, "fetch", fetch_task, &fetch, sizeof fetch));
      ck_assert(!memcmp(pageable, now, N));
      break;
    case 2:
      memcpy(pageable, now, N);
      pageable[5] = 42;
      ck_assert_ok(ts_lane_copy(r.lane, r.a.ptr, pageable, N));
      break;
    case 3:
      ck_assert_ok(
          ts_lane_submit(r.lane, "copy", copy_task, &fetch, sizeof fetch));
      break;
    default:
      ts_buffer_reset(&spare);
    }
    ck_assert_ptr_null(ts_graph_now());
    ck_assert_ok(ts_lane_copy(r.lane, r.out.ptr, r.a.ptr, N));
    ck_assert_ok(ts_graph_end(g));
    ck_assert_ok(ts_lane_sync(r.lane));
    if (_i == 2) ck_assert_int_eq(((char *)r.out.ptr)[5], 42);
    if (_i == 2) ((char *)r.out.ptr)[5] = now[5];
    ck_assert(!memcmp(r.out.ptr, now, N));
    if (_i == 4) rig_buffer(&r, &spare, N, false);
  }
  const ts_graph_counts n = ts_graph_counts_of(g);
  ck_assert_int_eq(n.n_begun, 2);
  ck_assert_int_eq(n.n_cut, 2);
  ck_assert_msg(strstr(n.why, why[_i]) != NULL, "%s", n.why);
  ts_buffer_reset(&spare);
  ts_graph_destroy(g);
  ts_graph_rig_stop(&r);
}

/* Scratch of tasks is the lane's own, and the same each time, so that the
 * executable only gets new arguments; taken in a graph and given back after a
 * cut it is free again. */
TS_TEST(scratch_comes_again) {
  ts_graph_rig r;
  ts_graph *g;
  ts_graph_rig_start(&r);
  ck_assert_ok(ts_graph_create(&g, r.lane));
  ts_spin_args a = {.value = r.a.ptr, .n = N / 4};
  int64_t extra = 0;
  for (int s = 0; s < 5; s++) {
    ck_assert_ok(ts_graph_begin(g));
    for (int i = 0; i < 3; i++)
      ck_assert_ok(
          ts_lane_submit(r.lane, "scratch", ts_test_scratch, &a, sizeof a));
    ck_assert_ptr_eq(ts_graph_now(), g);
    ck_assert_ok(ts_lane_copy(r.lane, r.out.ptr, r.a.ptr, N));
    ck_assert_ok(ts_graph_end(g));
    ck_assert_ok(ts_lane_sync(r.lane));
    for (int i = 0; i < N; i++) ck_assert_int_eq(((char *)r.out.ptr)[i], 1);
    const ts_graph_counts n = ts_graph_counts_of(g);
    if (s) ck_assert_int_eq(n.extra_bytes, extra);
    extra = n.extra_bytes;
    memset(r.out.ptr, 0, N);
  }
  ck_assert_int_ge(extra, N);
  ck_assert_int_le(extra, 2 * N);
  const ts_graph_counts n = ts_graph_counts_of(g);
  ck_assert_int_eq(n.n_made, 1);
  ck_assert_int_eq(n.n_replayed, 4);
  ck_assert_int_eq(n.n_cut, 0);
  ts_graph_destroy(g);
  ts_graph_rig_stop(&r);
}

typedef struct ts_waiter {
  ts_graph_rig *rig;
  ts_event event;
  int done;
} ts_waiter;

static void *wait_elsewhere(void *arg) {
  ts_waiter *w = arg;
  if (ts_lane_wait(w->rig->other, w->event) != TS_OK) return NULL;
  if (ts_lane_copy(w->rig->other, w->rig->out.ptr, w->rig->a.ptr, N) != TS_OK)
    return NULL;
  __atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* Another thread's lane that waits for noted work does so from its start. */
TS_TEST(other_threads_wait_for_the_start) {
  ts_graph_rig r;
  ts_graph *g;
  pthread_t thread;
  ts_graph_rig_start(&r);
  ck_assert_ok(ts_graph_create(&g, r.lane));
  ck_assert_ok(ts_graph_begin(g));
  ck_assert_ok(ts_lane_copy(r.lane, r.a.ptr, r.pins.ptr, N));
  ts_waiter w = {.rig = &r, .event = ts_lane_record(r.lane)};
  ck_assert(!ts_event_done(w.event));
  ck_assert_int_eq(pthread_create(&thread, NULL, wait_elsewhere, &w), 0);
  ts_pause(50000);
  ck_assert_int_eq(__atomic_load_n(&w.done, __ATOMIC_ACQUIRE), 0);
  ck_assert_ptr_eq(ts_graph_now(), g);
  ck_assert_ok(ts_graph_end(g));
  pthread_join(thread, NULL);
  ck_assert_int_eq(w.done, 1);
  ck_assert_ok(ts_lane_sync(r.other));
  ck_assert(!memcmp(r.out.ptr, r.pins.ptr, N));
  ts_graph_destroy(g);
  ts_graph_rig_stop(&r);
}

static ts_err fail_task(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  return ts_fail(TS_ERR_DATA, "on purpose");
}

/* A task that fails in a graph: the lane's error as ever, no graph is open
 * afterwards, and none begins on that lane. */
TS_TEST(errors_are_the_lanes) {
  ts_graph_rig r;
  ts_graph *g;
  ts_graph_rig_start(&r);
  ts_lane *lane;
  ck_assert_ok(ts_lane_create(r.device, &lane, "bad", TS_LANE_COMPUTE));
  ck_assert_ok(ts_graph_create(&g, lane));
  ck_assert_ok(ts_graph_begin(g));
  ck_assert_ok(ts_lane_copy(lane, r.out.ptr, r.pins.ptr, N));
  ck_assert_int_eq(ts_lane_submit(lane, "fails", fail_task, NULL, 0),
                   TS_ERR_DATA);
  ts_err_clear();
  const ts_event after = ts_lane_record(lane);
  ck_assert_int_eq(ts_event_sync(after), TS_ERR_DATA);
  ts_err_clear();
  ck_assert(ts_event_done(after));
  ck_assert_ptr_null(ts_graph_now());
  ck_assert(!memcmp(r.out.ptr, r.pins.ptr, N)); /* what came before ran */
  ck_assert_int_eq(ts_graph_begin(g), TS_ERR_DATA);
  ts_err_clear();
  ck_assert_ptr_null(ts_graph_now());
  ts_graph_destroy(g);
  ts_lane_destroy(lane);
  ts_graph_rig_stop(&r);
}

TS_TEST(serial_lanes_and_traces_have_none) {
  ts_device *d;
  ts_lane *lane;
  ts_graph *g;
  ts_graph_rig r;
  ck_assert_ok(ts_test_device(&d, true, 1));
  ck_assert_ok(ts_lane_create(d, &lane, "serial", TS_LANE_COMPUTE));
  ck_assert_ok(ts_graph_create(&g, lane));
  ck_assert_ptr_null(g);
  ck_assert_ok(ts_graph_begin(g));
  ck_assert_ok(ts_graph_end(g));
  ck_assert_int_eq(ts_graph_counts_of(g).n_begun, 0);
  ts_graph_destroy(g);
  ts_lane_destroy(lane);
  ts_device_destroy(d);
  ts_graph_rig_start(&r);
  ck_assert_ok(ts_graph_create(&g, r.lane));
  ck_assert_ok(ts_graph_begin(g));
  ck_assert_int_eq(ts_graph_begin(g), TS_ERR_INTERNAL); /* one at a time */
  ts_err_clear();
  ck_assert_ok(ts_graph_end(g));
  ck_assert_ok(ts_graph_end(g)); /* nothing: it has ended */
  ck_assert_ok(ts_lane_sync(r.lane));
  ck_assert_ok(ts_trace_open("/dev/null", 0, ts_now(), 0, 1));
  ts_trace_train(0);
  ck_assert_ok(ts_graph_begin(g));
  ck_assert_ptr_null(ts_graph_now());
  ck_assert_ok(ts_trace_close());
  ts_clock_phases(true);
  ck_assert_ok(ts_graph_begin(g));
  ck_assert_ptr_null(ts_graph_now());
  ts_clock_phases(false);
  ck_assert_int_eq(ts_graph_counts_of(g).n_begun, 1);
  ts_graph_destroy(g);
  ts_graph_rig_stop(&r);
}
