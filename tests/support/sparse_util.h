/* sparse_util.h - what the tests of the tables share: random numbers, exact
 * 16-bit values in double, the kernels of every instruction set that the CPU
 * has, and a suite out of an array of tests. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/few_bits.h"
#include "tests/support/harness.h"
#include "kernel_table.h"
#include "runtime/topology.h"
#include "sparse/tbe.h"

#define TEST_COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static inline uint32_t test_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  const uint64_t x = *state ^ *state >> 29;
  return (uint32_t)(x * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

/* [-1, 1) */
static inline float test_float(uint64_t *state) {
  return (float)test_random(state) / 2147483648.0f - 1.0f;
}

static inline void test_floats(float *x, int64_t n, uint64_t seed) {
  for (int64_t i = 0; i < n; i++) x[i] = test_float(&seed);
}

static inline void *test_alloc(int64_t n, size_t size) {
  void *p = calloc((size_t)(n + 16), size);
  ck_assert_ptr_nonnull(p);
  return p;
}

/* Element I of an array of T, in double. */
static inline double test_get(const void *p, ts_dtype t, int64_t i) {
  if (t == TS_F32) return ((const float *)p)[i];
  const uint16_t h = ((const uint16_t *)p)[i];
  return t == TS_BF16 ? ts_bf16_to_f32(h) : ts_f16_to_f32(h);
}

/* Number D of row I of rows (n, DIM) of T, in double: as few_bits.h says. */
static inline double test_number(const void *p, ts_dtype t, int64_t i,
                                 int32_t dim, int32_t d) {
  const uint8_t *row = (const uint8_t *)p + i * ts_row_bytes(t, dim);
  float tail[2];
  if (!ts_dtype_has_scale(t)) return test_get(p, t, i * dim + d);
  memcpy(tail, row + (t == TS_INT8 ? dim : (dim + 1) / 2), sizeof tail);
  const int q = t == TS_INT8 ? row[d] : row[d / 2] >> 4 * (d % 2) & 15;
  return (double)fmaf((float)q, tail[0], tail[1]);
}

/* The kernels of number I (0: reference), or false where there are none. */
static inline bool test_kernels(ts_kernels *k, int i) {
  static const char *const names[] = {"ref", "avx2", "avx512"};
  const ts_cpu *cpu = ts_cpu_info();
  if (i > 2 || (i == 1 && !cpu->avx2) || (i == 2 && !cpu->avx512)) return false;
  memset(k, 0, sizeof *k);
  ck_assert_int_eq(ts_kernels_fill(k, "host", names[i]), TS_OK);
  return true;
}

/* A batch as its kernels want it: the arrays of HOST, those of a group's bags,
 * where they can touch them.  reclaim before the device goes. */
static inline ts_tbe_input
test_lend_input(ts_device *d, const ts_tbe_input *host, int n_features) {
  ts_tbe_input in = *host;
  const size_t n = (size_t)in.n_ids, bags = (size_t)in.bag_start[n_features];
  in.offsets = ts_test_lend(d, host->offsets, (bags + 1) * 8, true);
  in.at = ts_test_lend(d, host->at, bags * 8, true);
  in.rows = ts_test_lend(d, host->rows, n * 4, true);
  if (in.weights) in.weights = ts_test_lend(d, host->weights, n * 4, true);
  return in;
}

static inline void test_reclaim_input(ts_device *d, const ts_tbe_input *in,
                                      const ts_tbe_input *host,
                                      int n_features) {
  const size_t n = (size_t)in->n_ids, bags = (size_t)in->bag_start[n_features];
  ts_test_reclaim(d, host->offsets, in->offsets, (bags + 1) * 8, false);
  ts_test_reclaim(d, host->at, in->at, bags * 8, false);
  ts_test_reclaim(d, host->rows, in->rows, n * 4, false);
  if (in->weights) ts_test_reclaim(d, host->weights, in->weights, n * 4, false);
}
