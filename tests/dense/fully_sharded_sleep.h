/* fully_sharded_sleep.h - layers and collectives that sleep, in units of some
 * ms: the more of them, the less a busy machine matters. */
#pragma once

#include <math.h>
#include <stdio.h>

#include "tests/dense/fully_sharded_toy.h"

/* Work of a layer and a collective in units of UNIT ms, as in all times
 * below. */
static const double C = 25, M = 10, UNIT = 3;

static inline toy_spec sleeping(int n_layers) {
  return (toy_spec){.n_layers = n_layers,
                    .rows = 4,
                    .cols = 4,
                    .comm_ms = M * UNIT,
                    .forward_ms = C * UNIT,
                    .backward_ms = 2 * C * UNIT,
                    .config = toy_config("fully_sharded")};
}

/* The slowest rank's. */
static inline double over_ranks(double x) {
  static ts_device *device;
  static ts_world *world;
  static ts_comm *comm;
  const ts_device_options d = {.serial = true, .n_threads = 1};
  const ts_world_options w = {.ordered = true};
  ck_assert_ok(ts_device_create(&device, "host", &d));
  ck_assert_ok(ts_world_create(&world, device, &w));
  ck_assert_ok(ts_comm_create(world, &comm, TS_GROUP_WORLD, "times"));
  ck_assert_ok(ts_comm_max_f64(comm, &x, 1));
  ts_comm_destroy(comm);
  ts_world_destroy(world);
  ts_device_destroy(device);
  return x;
}

static inline void say(const char *what, double x, const char *other,
                       double y) {
  if (ts_mpi_rank() == 0)
    printf("%s: %.1f units; %s: %.1f\n", what, x, other, y);
}
