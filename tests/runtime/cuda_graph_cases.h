/* cuda_graph_cases.h - graphs of lanes (runtime/graph.h) on the device that
 * TESSERA_BACKEND names: test_cuda_graph runs them over a CUDA runtime of
 * threads, test_cuda_graph_gpu on a GPU. */
#ifndef TS_TESTS_CUDA_GRAPH_CASES_H
#define TS_TESTS_CUDA_GRAPH_CASES_H

#include "tests/support/harness.h"

/* A device, two lanes, arrays. */
enum { GRAPH_BYTES = 4096 };
typedef struct ts_graph_rig {
  ts_device *device;
  ts_lane *lane, *other;
  ts_kernels k;
  ts_buffer a, b, c;   /* of the device */
  ts_buffer out, pins; /* page-locked; PINS: steps' input */
} ts_graph_rig;
void ts_graph_rig_start(ts_graph_rig *);
void ts_graph_rig_stop(ts_graph_rig *);
/* BYTES at DST = byte VALUE, in a task of LANE. */
void ts_graph_fill(ts_graph_rig *, ts_lane *, void *dst, size_t bytes);

#endif
