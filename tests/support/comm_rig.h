/* comm_rig.h - a world on a device whose memory the host may not touch, in
 * variants: what the tests of its collectives share.  A fake device ends the
 * program where the host does touch it. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/support/fake_device.h"
#include "tests/support/harness.h"

enum { RANKS = 4 };

/* Bits of a variant. */
enum { SERIAL = 1, SUMS = 2, ASKED = 4, WIRED = 8, LIBRARY = 16, NODES = 32 };

typedef struct rig {
  ts_device *device;
  ts_world *world;
  ts_comm *comm;
  ts_lane *lane;
  int rank, size, variant;
} rig;

static rig r;

/* With TESSERA_BACKEND = cuda all of this is about a GPU, and its library where
 * each rank has one for itself. */
static inline bool is_fake(void) {
  return !strcmp(ts_test_backend(), "host");
}

static inline bool is_wired(void) {
  return strncmp(ts_world_backend(r.world), "mpi", 3) != 0;
}

static inline ts_err create_device(int variant) {
  ts_fake_options f = {.serial = variant & SERIAL,
                       .asked = variant & ASKED,
                       .slow_us = 300,
                       .timeout_s = 300};
  snprintf(f.id, sizeof f.id, "fake %d", ts_mpi_rank());
  return is_fake() ? ts_fake_create(&r.device, &f)
                   : ts_test_device(&r.device, variant & SERIAL, 1);
}

static inline ts_err rig_create(int variant, double timeout_s) {
  const int per_node = (variant & NODES) && ts_mpi_size() % 2 == 0 ? 2 : 0;
  const ts_comm_backend wired = is_fake() ? TS_COMM_NCCL : TS_COMM_AUTO;
  const ts_world_options o = {.ordered = !(variant & LIBRARY),
                              .sums = variant & SUMS,
                              .timeout_s = timeout_s,
                              .ranks_per_node = per_node,
                              .backend = variant & WIRED ? wired : TS_COMM_MPI,
                              .wire = is_fake() ? &ts_fake_wire : NULL};
  memset(&r, 0, sizeof r);
  r.variant = variant;
  TS_DO(create_device(variant));
  TS_DO(ts_world_create(&r.world, r.device, &o));
  TS_DO(ts_comm_create(r.world, &r.comm, TS_GROUP_WORLD, "test"));
  r.rank = ts_world_rank(r.world);
  r.size = ts_world_size(r.world);
  return ts_lane_create(r.device, &r.lane, "compute", TS_LANE_COMPUTE);
}

static inline void rig_start(int variant, double timeout_s) {
  ck_assert_ok(rig_create(variant, timeout_s));
}

static inline void rig_destroy(void) {
  ts_lane_destroy(r.lane);
  ts_comm_destroy(r.comm);
  ts_world_destroy(r.world);
  ts_device_destroy(r.device);
}

static inline void rig_stop(void) {
  rig_destroy();
  ck_assert_all(ts_fake_n_blocks() == 0);
  ck_assert_all(ts_fake.n_bad == 0);
}

/* BYTES of the device's memory, with what HOST has. */
static inline ts_buffer put(const void *host, int64_t bytes) {
  ts_buffer b;
  ck_assert_ok(ts_buffer_create(&b, r.device, (size_t)bytes, TS_SPACE_DEVICE,
                                TS_TAG_MISC));
  if (bytes && host)
    ck_assert_ok(ts_lane_copy(r.lane, b.ptr, host, (size_t)bytes));
  return b;
}

/* Whether B has WANT once LANE's work is done. */
static inline bool has(const ts_buffer *b, const void *want, int64_t bytes) {
  char *got;
  ck_assert_ok(ts_mem_alloc(&got, (size_t)bytes, TS_TAG_MISC));
  if (bytes) ck_assert_ok(ts_lane_copy(r.lane, got, b->ptr, (size_t)bytes));
  ck_assert_ok(ts_lane_sync(r.lane));
  const bool same = !bytes || !memcmp(got, want, (size_t)bytes);
  ts_mem_free(got);
  return same;
}

/* The library's carriers: around all tests. */
static inline void rig_wire_start(void) {
  ts_fake_wire_start(ts_mpi_size() % 2 == 0 ? 2 : 0);
}
