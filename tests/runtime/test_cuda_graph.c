/* test_cuda_graph.c - graphs of lanes over a CUDA runtime of threads, which
 * holds to CUDA's rules of captures (support/emulated/graphs.c), and what only
 * that runtime can show: that work is noted down, and what a launch waits for.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated/emulated.h"
#include "tests/runtime/cuda_graph_cases.c"
#include "runtime/graph.h"
#include "runtime/device_impl.h"

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "emulated", 1);
}

static ts_lane *lane_with(ts_device *d, void **stream) {
  ts_lane *lane;
  ck_assert_ok(ts_lane_create(d, &lane, "held", TS_LANE_DATA));
  *stream = ts_emulated_stream();
  return lane;
}

TS_TEST(nothing_runs_before_the_end) {
  const int before = ts_emulated_now().graphs;
  ts_graph_rig r;
  ts_graph *g;
  ts_graph_rig_start(&r);
  ck_assert_ok(ts_graph_create(&g, r.lane));
  ck_assert_ok(ts_graph_begin(g));
  ck_assert_ok(ts_lane_copy(r.lane, r.out.ptr, r.pins.ptr, N));
  const ts_event e = ts_lane_record(r.lane);
  ts_pause(20000);
  ck_assert(memcmp(r.out.ptr, r.pins.ptr, N));
  ck_assert(!ts_event_done(e));
  ck_assert_int_eq(ts_emulated_now().graphs, before);
  ck_assert_ok(ts_graph_end(g));
  ck_assert_ok(ts_event_sync(e));
  ck_assert(ts_event_done(e));
  ck_assert(!memcmp(r.out.ptr, r.pins.ptr, N));
  ck_assert_int_eq(ts_emulated_now().graphs, before + 1);
  ts_graph_destroy(g);
  ts_graph_rig_stop(&r);
}

/* What a lane of the graph waits for outside, and what was queued on a lane
 * before it joined, comes before the graph; what is queued on it afterwards
 * comes behind. */
TS_TESTS(lanes_keep_their_order, 0, 2) {
  const int n_before = ts_emulated_now().graphs;
  ts_graph_rig r;
  ts_graph *g;
  void *stream;
  ts_graph_rig_start(&r);
  ts_lane *held = lane_with(r.device, &stream);
  ck_assert_ok(ts_graph_create(&g, r.lane));
  ts_emulated_hold(stream);
  ck_assert_ok(ts_lane_copy(held, r.a.ptr, r.pins.ptr, N));
  const ts_event before = ts_lane_record(held);
  ck_assert_ok(ts_graph_begin(g));
  if (_i) { /* it joins */
    ck_assert_ok(ts_lane_wait(held, ts_lane_record(r.lane)));
    ck_assert_ok(ts_lane_copy(held, r.b.ptr, r.pins.ptr, N));
  } else {
    ck_assert_ok(ts_lane_wait(r.lane, before));
  }
  ck_assert_ok(ts_lane_copy(r.lane, r.out.ptr, r.a.ptr, N));
  ck_assert_ok(ts_graph_end(g));
  if (_i) ck_assert_ok(ts_lane_copy(held, r.a.ptr, (char *)r.pins.ptr + N, N));
  const ts_event e = ts_lane_record(r.lane);
  ts_pause(20000);
  ck_assert(!ts_event_done(e));
  ck_assert_int_eq(ts_emulated_now().graphs, n_before);
  ts_emulated_hold(NULL);
  ck_assert_ok(ts_event_sync(e));
  ck_assert(!memcmp(r.out.ptr, r.pins.ptr, N));
  ck_assert_int_eq(ts_graph_counts_of(g).n_cut, 0);
  ck_assert_ok(ts_lane_sync(held));
  ts_graph_destroy(g);
  ts_lane_destroy(held);
  ts_graph_rig_stop(&r);
}

/* The device breaks while a graph is on its way: as without one. */
TS_TEST(a_fault_is_found) {
  ts_graph_rig r;
  ts_graph *g;
  void *stream;
  ts_graph_rig_start(&r);
  ts_lane *lane = lane_with(r.device, &stream);
  ck_assert_ok(ts_graph_create(&g, lane));
  ts_emulated_fault(stream);
  (void)ts_graph_begin(g);
  (void)ts_lane_copy(lane, r.out.ptr, r.pins.ptr, N);
  (void)ts_graph_end(g);
  ts_err_clear();
  ck_assert_int_eq(ts_lane_sync(lane), TS_ERR_INTERNAL);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "cudaErrorIllegalAddress"));
  ts_err_clear();
  ck_assert_ptr_null(ts_graph_now());
  ts_emulated_heal();
  ts_emulated_drain(stream);
  ts_graph_destroy(g);
  ts_lane_destroy(lane);
  ts_graph_rig_stop(&r);
}

/* All that graphs took is given back. */
TS_TEST(memory_comes_back) {
  const ts_emulated_counts before = ts_emulated_now();
  ts_graph_rig r;
  ts_graph *g;
  ts_graph_rig_start(&r);
  ck_assert_ok(ts_graph_create(&g, r.lane));
  ck_assert_ok(ts_graph_begin(g));
  ck_assert_ok(ts_lane_wait(r.other, ts_lane_record(r.lane)));
  ck_assert_ok(ts_lane_copy(r.other, r.out.ptr, r.pins.ptr, N));
  ck_assert_ok(ts_graph_end(g));
  ck_assert_ok(ts_lane_sync(r.lane));
  ts_graph_destroy(g);
  ts_graph_rig_stop(&r);
  ck_assert_int_eq(ts_emulated_now().blocks, before.blocks);
  ck_assert_int_eq(ts_emulated_now().events, before.events);
}

/* Destroying an open graph runs the work that it noted down, and another may
 * begin; destroying one that has ended doesn't touch the open one. */
TS_TEST(open_ones_may_be_destroyed) {
  ts_graph_rig r;
  ts_graph *g, *h;
  ts_graph_rig_start(&r);
  ck_assert_ok(ts_graph_create(&g, r.lane));
  ck_assert_ok(ts_graph_create(&h, r.lane));
  ck_assert_ok(ts_graph_begin(g));
  ck_assert_ok(ts_lane_copy(r.lane, r.out.ptr, r.pins.ptr, N));
  ts_graph_destroy(h);
  ck_assert_ptr_eq(ts_graph_now(), g);
  ts_graph_destroy(g);
  ck_assert_ptr_null(ts_graph_now());
  ck_assert_ok(ts_lane_sync(r.lane));
  ck_assert_mem_eq(r.out.ptr, r.pins.ptr, N);
  ck_assert_ok(ts_graph_create(&g, r.lane));
  ck_assert_ok(ts_graph_begin(g));
  ck_assert_ok(ts_graph_end(g));
  ck_assert_ok(ts_lane_sync(r.lane));
  ts_graph_destroy(g);
  ts_graph_rig_stop(&r);
}
