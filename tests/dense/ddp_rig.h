/* ddp_rig.h - data parallel over the ranks of a test: one of it at a time. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "dense/parallel.h"
#include "tests/support/harness.h"
#include "tests/support/optim_config.h"

static ts_fixture f;
static ts_kernels k;
static ts_params ps;
static ts_parallel *d;
static ts_config c;
static ts_layer_hooks h;

/* A deck whose optimizer is KIND; the rest is the test's to change. */
static inline void deck(const char *kind, double lr) {
  static char constant[] = "constant", ddp[] = "ddp", f32[] = "f32";
  c = (ts_config){0};
  c.optimizer.base = test_optim(kind, lr);
  c.optimizer.in_backward = true;
  c.optimizer.schedule = constant;
  c.dense.bucket_mb = 25;
  c.dense.parallel = ddp;
  c.dense.comm_dtype = f32;
  c.run.accumulate = 1;
}

static inline void rig_start(bool serial) {
  ts_fixture_start_device(&f, serial, 1);
  ck_assert_ok(ts_test_kernels(&k));
}

static inline void rig_stop(void) {
  ts_fixture_stop(&f);
}

/* Parameter layer.NN.weight. */
static inline ts_param *add_layer(int number, int rows, int cols) {
  char name[32];
  ts_param *q;
  snprintf(name, sizeof name, "layer.%02d.weight", number);
  ck_assert_ok(ts_params_add(&ps, f.device, &q, name, name, rows, cols));
  return q;
}

static inline ts_err create(void) {
  const ts_parallel_spec spec = {.params = &ps,
                                 .config = &c,
                                 .device = f.device,
                                 .world = f.world,
                                 .kernels = &k,
                                 .training = true};
  return ts_parallel_create(&d, &spec);
}

/* Starts on the parameters that were added; stop gives them back, too. */
static inline void start(void) {
  ck_assert_ok(create());
  h = ts_parallel_hooks(d);
}

static inline void stop(void) {
  ts_parallel_destroy(d);
  d = NULL;
  ts_params_reset(&ps);
  ps = (ts_params){0};
}
