/* row_quads.cuh - how a group of lanes holds a row.
 *
 * A row belongs to W neighbouring lanes of a warp, each with four columns at a
 * time ("quad": lane l has the columns 4 l .. 4 l + 3 of each sweep of 4 W).
 * Groups of a warp go on together, with work or without, so that all lanes
 * meet in every exchange.  Sums over a row are the host's (sparse/isa.h): a
 * tree over quads, of which a lane has one of each sweep. */
#pragma once

#include "cuda/runtime/store.cuh"
#include "cuda/sparse/rounding.cuh"
#include "cuda/sparse/row_work.cuh"

/* ---- quads --------------------------------------------------------------- */

struct ts_quad {
  ts_real x[4];
};
struct alignas(16) ts_quad_32 {
  float x[4];
};
struct alignas(8) ts_quad_16 {
  uint16_t x[4];
};

/* N of four floats from P; WIDE: all four, 16-byte aligned. */
__device__ inline ts_quad ts_quad_load(const float *p, int n, bool wide) {
  ts_quad q = {};
  if (wide) {
    const ts_quad_32 v = *(const ts_quad_32 *)p;
    for (int k = 0; k < 4; k++) q.x[k].x = v.x[k];
  } else {
    for (int k = 0; k < 4; k++)
      if (k < n) q.x[k].x = p[k];
  }
  return q;
}

__device__ inline void ts_quad_store(float *p, ts_quad q, int n, bool wide) {
  if (wide) {
    ts_store((float4 *)p, make_float4(q.x[0].x, q.x[1].x, q.x[2].x, q.x[3].x));
  } else {
    for (int k = 0; k < 4; k++)
      if (k < n) p[k] = q.x[k].x;
  }
}

/* The four columns from AT (elements) of the rows, widened. */
__device__ inline ts_quad ts_row_load(const ts_row_place &r, int64_t at,
                                      int n) {
  if (r.dtype == TS_F32)
    return ts_quad_load((const float *)r.weight + at, n, r.wide_loads);
  const uint16_t *p = (const uint16_t *)r.weight + at;
  ts_quad_16 v = {};
  ts_quad q;
  if (r.wide_loads)
    v = *(const ts_quad_16 *)p;
  else
    for (int k = 0; k < 4; k++)
      if (k < n) v.x[k] = p[k];
  for (int k = 0; k < 4; k++)
    q.x[k].x = r.dtype == TS_BF16 ? ts_wide_bf16(v.x[k]) : ts_wide_f16(v.x[k]);
  return q;
}

/* And back: 16-bit rows rounded by seed, step, table, row and column. */
__device__ inline void ts_row_store(const ts_row_place &r, int64_t at,
                                    ts_quad q, int n, const ts_row_table &t,
                                    uint32_t key, uint32_t column) {
  if (r.dtype == TS_F32) {
    ts_quad_store((float *)r.weight + at, q, n, r.wide_loads);
    return;
  }
  uint32_t words[4];
  ts_quad_16 v;
  int64_t row = t.first_row + key - t.base;
  if (r.row_id) row = r.row_id[key];
  ts_philox_words(words, (uint64_t)row, r.step, t.first_quad + column / 4,
                  t.rounding_key);
  for (int k = 0; k < 4; k++)
    v.x[k] = r.dtype == TS_BF16 ? ts_round_bf16(q.x[k].x, words[k])
                                : ts_round_f16(q.x[k].x, words[k]);
  uint16_t *p = (uint16_t *)r.weight + at;
  if (r.wide_loads)
    *(ts_quad_16 *)p = v;
  else
    for (int k = 0; k < 4; k++)
      if (k < n) p[k] = v.x[k];
}

__device__ inline void ts_prefetch(const void *p) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
  (void)p;
#endif
}

/* ---- groups -------------------------------------------------------------- */

/* A lane's place in its group of W. */
template <int W> struct ts_group {
  int lane;
  __device__ ts_group() : lane((int)(threadIdx.x % W)) {
  }
};

/* The largest X of the warp's groups; X is one for a group. */
template <int W> __device__ inline int ts_warp_max(int x) {
  for (int m = W; m < 32; m *= 2) {
    const int y = __shfl_xor_sync(0xffffffffu, x, m);
    x = x > y ? x : y;
  }
  return x;
}

/* A sum over a row: each lane has its quads', in order. */
template <int W> struct ts_parts {
  ts_real part = {};

  /* Adds Q, whose first N columns are there. */
  __device__ void add(ts_quad q, int n) {
    if (n > 0 && n < 4)
      for (int k = 1; k < 4; k++)
        if (k >= n) q.x[k].x = 0;
    ts_real sum = (q.x[0] + q.x[1]) + (q.x[2] + q.x[3]);
    if (n <= 0) sum.x = 0;
    part = part + sum;
  }
  /* In every lane. */
  __device__ ts_real total() const {
    ts_real p = part;
#pragma unroll
    for (int half = W / 2; half > 0; half /= 2)
      p = p + ts_real{__shfl_xor_sync(0xffffffffu, p.x, half)};
    return p;
  }
};

/* ---- rows ---------------------------------------------------------------- */

/* Number of the table that holds group row KEY. */
__device__ inline int ts_row_table_of(const ts_row_place &r, uint32_t key) {
  int low = 0, high = r.n_tables - 1;
  while (low < high) {
    const int mid = (low + high + 1) / 2;
    if (r.table[mid].base <= (int64_t)key)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

/* A group's row: KEY, which lies at AT; ACTIVE false: none, and nothing is
 * read or written. */
struct ts_row_id {
  uint32_t key, at;
  bool active;
};

/* Element COLUMN of ID's row, in weights (k = -1) or state k. */
__device__ inline int64_t ts_row_at(const ts_row_place &r, const ts_row_id &id,
                                    int column, int k) {
  const int64_t at = (int64_t)id.at * r.dim + column;
  return id.at >= r.first_line ? at + r.shift[1 + k] : at;
}

/* The columns of one lane in one sweep. */
struct ts_columns {
  int at, n; /* n <= 0: none */
  __device__ ts_columns(int32_t dim, int sweep, int width, int lane)
      : at(4 * (sweep * width + lane)), n(dim - at < 4 ? dim - at : 4) {
  }
};
