/* graph_rig.h - two lanes and arrays for graphs of lanes (runtime/graph.h), on
 * the device that TESSERA_BACKEND names. */
#pragma once

#include <string.h>

#include "kernel_table.h"
#include "tests/support/harness.h"

enum { GRAPH_BYTES = 4096, GRAPH_PINS = 6 };
typedef struct ts_graph_rig {
  ts_device *device;
  ts_lane *lane, *other;
  ts_kernels k;
  ts_buffer a, b, c;   /* of the device */
  ts_buffer out, pins; /* page-locked; PINS: steps' input */
} ts_graph_rig;

static inline void rig_buffer(ts_graph_rig *r, ts_buffer *b, size_t bytes,
                              bool pinned) {
  ck_assert_ok(ts_buffer_create(b, r->device, bytes,
                                pinned ? TS_SPACE_PINNED : TS_SPACE_DEVICE,
                                TS_TAG_MISC));
}

static inline void ts_graph_rig_start(ts_graph_rig *r) {
  memset(r, 0, sizeof *r);
  ck_assert_ok(ts_test_device(&r->device, false, 1));
  ck_assert_ok(ts_test_kernels(&r->k));
  ck_assert_ok(ts_lane_create(r->device, &r->lane, "one", TS_LANE_COMPUTE));
  ck_assert_ok(ts_lane_create(r->device, &r->other, "other", TS_LANE_DATA));
  rig_buffer(r, &r->a, GRAPH_BYTES, false);
  rig_buffer(r, &r->b, GRAPH_BYTES, false);
  rig_buffer(r, &r->c, GRAPH_BYTES, false);
  rig_buffer(r, &r->out, GRAPH_BYTES, true);
  rig_buffer(r, &r->pins, (size_t)GRAPH_PINS * GRAPH_BYTES, true);
  for (int i = 0; i < GRAPH_PINS * GRAPH_BYTES; i++)
    ((unsigned char *)r->pins.ptr)[i] =
        (unsigned char)(i * 31 + i / GRAPH_BYTES * 7);
}

static inline void ts_graph_rig_stop(ts_graph_rig *r) {
  ts_buffer *const all[] = {&r->a, &r->b, &r->c, &r->out, &r->pins};
  ck_assert_ok(ts_lane_sync(r->lane));
  ck_assert_ok(ts_lane_sync(r->other));
  for (int i = 0; i < 5; i++) ts_buffer_reset(all[i]);
  ts_lane_destroy(r->other);
  ts_lane_destroy(r->lane);
  ts_device_destroy(r->device);
}

typedef struct ts_zero_args {
  ts_graph_rig *rig;
  void *dst;
  size_t bytes;
} ts_zero_args;

static inline ts_err rig_zero(void *arg, ts_lane *lane) {
  const ts_zero_args *a = arg;
  (void)lane;
  return a->rig->k.zero(a->dst, a->bytes);
}

/* BYTES at DST = 0, in a task of LANE. */
static inline void ts_graph_fill(ts_graph_rig *r, ts_lane *lane, void *dst,
                                 size_t bytes) {
  const ts_zero_args a = {r, dst, bytes};
  ck_assert_ok(ts_lane_submit(lane, "zero", rig_zero, &a, sizeof a));
}
