/* row_few_bits.cuh - a group's row in few bits (base/few_bits.h): read, its
 * range, written. */
#pragma once

#include "cuda/sparse/few_bits.cuh"
#include "cuda/sparse/row_quads.cuh"

__device__ inline char *ts_few_row(const ts_row_place &r, const ts_row_id &id) {
  char *row =
      (char *)r.weight + (uint64_t)id.at * (4 * ts_few_pitch(r.dtype, r.dim));
  return id.at >= r.first_line ? row + r.shift[0] : row;
}

/* Bytes of COLUMNS of them. */
__device__ inline uint32_t ts_few_bytes(const ts_row_place &r, int columns) {
  return r.dtype == TS_INT8 ? columns : (columns + 1) / 2;
}

/* As ts_row_load. */
__device__ inline ts_quad
ts_few_load(const ts_row_place &r, const ts_row_id &id, const ts_columns &c) {
  const char *row = ts_few_row(r, id);
  const bool wide = r.dtype == TS_INT8;
  const char *at = row + ts_few_bytes(r, c.at);
  const uint32_t v = wide ? *(const uint32_t *)at : *(const uint16_t *)at;
  const ts_few_tail tail =
      ts_few_tail_of((const uint32_t *)row, ts_few_bytes(r, r.dim));
  ts_quad q;
#pragma unroll
  for (int k = 0; k < 4; k++)
    q.x[k].x =
        fmaf(tail.scale,
             wide ? ts_few_number<TS_INT8>(v, k) : ts_few_number<TS_INT4>(v, k),
             tail.bias);
  return q;
}

/* The least and the last number of a row, of which each lane has some. */
struct ts_few_range {
  int32_t least = INT32_MAX, last = INT32_MIN;

  __device__ void add(const ts_quad &q, int n) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int32_t x = ts_few_bits_order(q.x[k].x);
      if (k < n && x < least) least = x;
      if (k < n && x > last) last = x;
    }
  }
  /* In every lane. */
  template <int W> __device__ void share() {
#pragma unroll
    for (int half = W / 2; half > 0; half /= 2) {
      const int32_t x = __shfl_xor_sync(0xffffffffu, least, half);
      const int32_t y = __shfl_xor_sync(0xffffffffu, last, half);
      least = x < least ? x : least;
      last = y > last ? y : last;
    }
  }
  template <int W> __device__ ts_few_bits code(const ts_row_place &r) {
    share<W>();
    return ts_few_bits_of(least, last, ts_few_bits_most(r.dtype));
  }
};

/* As ts_row_store, without scale and bias. */
__device__ inline void ts_few_store(const ts_row_place &r, const ts_row_id &id,
                                    const ts_columns &c, const ts_row_table &t,
                                    const ts_quad &w, const ts_few_bits &f) {
  uint32_t words[4], all = 0;
  const bool wide = r.dtype == TS_INT8;
  const int64_t row =
      r.row_id ? r.row_id[id.key] : t.first_row + id.key - t.base;
  ts_philox_words(words, (uint64_t)row, r.step,
                  t.first_quad + (uint32_t)c.at / 4, t.rounding_key);
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const uint32_t q = (uint32_t)ts_few_bits_round(
        w.x[k].x, f, ts_few_bits_most(r.dtype), words[k]);
    if (k < c.n) all |= q << (wide ? 8 : 4) * k;
  }
  char *to = ts_few_row(r, id) + ts_few_bytes(r, c.at);
  if (c.n == 4 && wide) {
    *(uint32_t *)to = all;
  } else if (c.n == 4) {
    *(uint16_t *)to = (uint16_t)all;
  } else {
#pragma unroll
    for (uint32_t k = 0; k < 3; k++)
      if (k < ts_few_bytes(r, c.n)) to[k] = (char)(all >> 8 * k);
  }
}

template <int W>
__device__ inline void
ts_few_store_tail(const ts_row_place &r, const ts_row_id &id,
                  const ts_few_bits &f, const ts_group<W> &group) {
  if (!id.active || group.lane > 1) return;
  const uint32_t x = ts_bits_of(group.lane ? f.bias : f.scale);
  uint8_t *to =
      (uint8_t *)ts_few_row(r, id) + ts_few_bytes(r, r.dim) + 4 * group.lane;
  for (int k = 0; k < 4; k++) to[k] = (uint8_t)(x >> 8 * k);
}

/* A row that its lanes hold. */
template <int W>
__device__ inline void ts_few_finish(const ts_row_place &r, const ts_row_id &id,
                                     const ts_columns &c, const ts_row_table &t,
                                     const ts_quad &w, const ts_few_bits &f,
                                     const ts_group<W> &group) {
  if (id.active && c.n > 0) ts_few_store(r, id, c, t, w, f);
  ts_few_store_tail(r, id, f, group);
}
