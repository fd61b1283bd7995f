/* few_bits.cuh - rows in few bits (base/few_bits.h) in a lane's registers.
 *
 * Rows lie at multiples of 4 bytes and end with 8 of scale and bias, so that a
 * lane may load a word of numbers wherever a column is, the last one, too. */
#pragma once

#include "cuda/runtime/grid.h"

extern "C" {
#include "base/few_bits.h"
}

/* Words of 4 bytes of a row. */
TS_CUDA_BOTH inline uint32_t ts_few_pitch(ts_dtype t, int32_t dim) {
  return (uint32_t)((t == TS_INT8 ? dim : (dim + 1) / 2) + 11) / 4;
}

/* Number I of the word V. */
template <ts_dtype T>
static __device__ __forceinline__ float ts_few_number(uint32_t v, int i) {
  return T == TS_INT8 ? (float)(v >> 8 * i & 255) : (float)(v >> 4 * i & 15);
}

struct ts_few_tail {
  float scale, bias;
};

/* Scale and bias of ROW, which has COLUMNS bytes of numbers before them. */
static __device__ __forceinline__ ts_few_tail
ts_few_tail_of(const uint32_t *row, uint32_t columns) {
  const uint32_t *at = row + columns / 4, by = columns % 4 * 8;
  uint32_t x = at[0], y = at[1];
  if (by) {
    x = x >> by | y << (32 - by);
    y = y >> by | at[2] << (32 - by);
  }
  return {__uint_as_float(x), __uint_as_float(y)};
}
