/* cuda_kernels.h - tasks that launch kernels for
 * tests/runtime/test_cuda_streams.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_spin_args {
  double seconds;  /* that the device is kept busy */
  uint32_t *value; /* (n) device memory: then multiplied by 3 and 1 added */
  int64_t n;
} ts_spin_args;
ts_err ts_test_spin(void *arg, ts_lane *);

/* Writes where nothing is; of no arguments. */
ts_err ts_test_bad_write(void *arg, ts_lane *);
/* More threads in a block than there may be: fails at the launch. */
ts_err ts_test_bad_launch(void *arg, ts_lane *);
/* Scratch is taken, filled, copied to VALUE and given back; twice. */
ts_err ts_test_scratch(void *arg, ts_lane *);
/* N bytes at P, with V: a launch that adds V to each, or multiplies it by
 * 2 * V + 1; a call of a library that is two pieces of work, all N are V. */
typedef struct ts_piece_args {
  void *p;
  uint64_t n;
  int32_t v;
  unsigned blocks; /* of the launch */
  bool times;
} ts_piece_args;
ts_err ts_test_launch(void *arg, ts_lane *);
ts_err ts_test_call(void *arg, ts_lane *);
ts_err ts_test_set(void *arg, ts_lane *);
/* Whether the current lane is LANE, for a task. */
ts_err ts_test_is_now(void *arg, ts_lane *);

#ifdef __cplusplus
}
#endif
