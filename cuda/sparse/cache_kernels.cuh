/* cache_kernels.cuh - the kernels of the cache (src/sparse/cache.h).
 *
 * A set has as many ways as a warp has lanes.  Ids are sorted by the hash of
 * their row, whose high part is the set: so ids of one row lie side by side
 * ("run"), and so do the runs of one set.  One warp has all of a set's runs,
 * with way l in lane l's registers: first it locks what is there, then it
 * gives lines to what is missing, one row after the other.  Nobody else has
 * that set, so no race decides anything, and there are no atomics but for
 * counts.
 *
 * Then rows are moved, a warp for each: the line's old row to slow memory
 * where it was written, the new one in, each lane with bytes of its own. */
#pragma once

#include "cuda/sparse/cache_hold.cuh"
#include "cuda/sparse/cache_sets.cuh"

/* ---- moving rows --------------------------------------------------------- */

/* N pieces of one row for a warp: what is in the line to OUT, unless NULL, and
 * IN to the line.  All that a lane moves at a time is on its way before it
 * writes. */
template <class T>
__device__ inline void ts_cache_move_part(T *line, T *out, const T *in,
                                          int64_t n) {
  enum { AHEAD = 4 };
  const int64_t lane = threadIdx.x % 32;
  for (int64_t at = lane; at < n; at += 32 * AHEAD) {
    T fresh[AHEAD] = {}, kept[AHEAD] = {};
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      if (at + 32 * k < n) {
        if (in) fresh[k] = in[at + 32 * k];
        if (out) kept[k] = line[at + 32 * k];
      }
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      if (at + 32 * k < n) {
        if (out) out[at + 32 * k] = kept[k];
        if (in) line[at + 32 * k] = fresh[k];
      }
  }
}

/* Row OUT goes from LINE to slow memory, then row IN comes to it; < 0: none. */
__device__ inline void ts_cache_move_row(const ts_cache &c, int64_t line,
                                         int64_t out, int64_t in) {
  for (int k = 0; k < c.n_parts; k++) {
    const ts_cache_part &p = c.part[k];
    char *at = p.lines + line * p.bytes;
    char *to = out < 0 ? nullptr : p.rows + out * p.bytes;
    const char *from = in < 0 ? nullptr : p.rows + in * p.bytes;
    if (p.bytes % 16 == 0)
      ts_cache_move_part((uint4 *)at, (uint4 *)to, (const uint4 *)from,
                         p.bytes / 16);
    else if (p.bytes % 4 == 0)
      ts_cache_move_part((uint32_t *)at, (uint32_t *)to, (const uint32_t *)from,
                         p.bytes / 4);
    else
      ts_cache_move_part((uint16_t *)at, (uint16_t *)to, (const uint16_t *)from,
                         p.bytes / 2);
  }
}

/* Moves the rows of all runs that were given a line. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_move_kernel(ts_cache_work w) {
  const uint32_t n_runs = *w.n_runs;
  const int64_t stride = (int64_t)gridDim.x * (TS_CACHE_BLOCK / 32);
  int64_t r = ((int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x) / 32;
  for (; r < n_runs; r += stride) {
    const uint32_t old = w.old[r];
    if (old == TS_CACHE_STAYS) continue;
    const int64_t out = old == TS_CACHE_OVER_NONE ? -1 : (int64_t)old;
    ts_cache_move_row(w.c, (int64_t)w.slot[r] - w.c.first_line, out,
                      ts_cache_row(w.keys[w.start[r]]));
  }
}

/* All lines: OUT moves written rows out, else those in use back in. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_all_kernel(ts_cache c, bool out) {
  const int64_t stride = (int64_t)gridDim.x * (TS_CACHE_BLOCK / 32);
  int64_t i = ((int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x) / 32;
  for (; i < 32 * c.n_sets; i += stride) {
    const ts_cache_line line = c.line[i];
    const uint32_t tag =
        !out && !ts_cache_is_locked(line) ? TS_CACHE_NONE : c.tag[i];
    __syncwarp(); /* all lanes have read */
    if (threadIdx.x % 32 == 0) {
      c.tag[i] = tag;
      c.line[i].state = line.state & ~TS_CACHE_DIRTY;
    }
    if (tag == TS_CACHE_NONE || (out && !(line.state & TS_CACHE_DIRTY)))
      continue;
    ts_cache_move_row(c, i, out ? (int64_t)tag : -1, out ? -1 : (int64_t)tag);
  }
}

/* ---- the rest ------------------------------------------------------------ */

/* True for one of a line's ids, the first to come; it doesn't matter which. */
__device__ inline bool ts_cache_once(const ts_cache &c, int64_t line,
                                     uint32_t round) {
  return atomicExch(&c.line[line].round, round) != round;
}

/* Adds BY for each lane with YES; all of the warp are here. */
__device__ inline void ts_cache_add_locks(const ts_cache &c, bool yes,
                                          int64_t by) {
  const int n = __popc(__ballot_sync(0xffffffffu, yes));
  if (n && threadIdx.x % 32 == 0) ts_cache_add(c.locks, (uint64_t)(n * by));
}

/* Calls body(i) for the ids [0, N), a warp's threads together: at the last ids
 * i may be N or more. */
template <class Body>
__device__ inline void ts_cache_each_warp(int64_t n, Body body) {
  const int64_t stride = (int64_t)gridDim.x * TS_CACHE_BLOCK;
  const int64_t first = (int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x;
  for (int64_t base = first - threadIdx.x % 32; base < n; base += stride)
    body(base + threadIdx.x % 32);
}

static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_release_kernel(ts_cache c, uint32_t round,
                            const uint32_t *slots, int64_t n) {
  ts_cache_each_warp(n, [&](int64_t i) {
    const uint32_t slot = i < n ? slots[i] : 0;
    const int64_t line = (int64_t)slot - c.first_line;
    const bool mine = slot >= c.first_line &&
                      ts_cache_is_locked(c.line[line]) &&
                      ts_cache_once(c, line, round);
    if (mine) atomicSub(&c.line[line].state, 1u);
    ts_cache_add_locks(c, mine, -1);
  });
}

static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_refresh_kernel(ts_cache c, uint32_t round, uint32_t *slots,
                            int64_t n) {
  ts_cache_each_warp(n, [&](int64_t i) {
    const uint32_t slot = i < n ? slots[i] : c.first_line;
    const int64_t line = ts_cache_find(c, slot, slot < c.first_line);
    const bool mine = line >= 0 && ts_cache_once(c, line, round);
    if (line >= 0) slots[i] = c.first_line + (uint32_t)line;
    if (mine) atomicAdd(&c.line[line].state, 1u);
    ts_cache_add_locks(c, mine, 1);
  });
}

/* The lane of the first of equal keys looks for the row and marks its line. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_locate_kernel(ts_cache c, uint32_t *slots,
                           const uint32_t *keys, int64_t n) {
  ts_cache_each_warp(n, [&](int64_t i) {
    const uint32_t key = i < n ? keys[i] : 0;
    const bool head = i < n && (i == 0 || key != keys[i - 1]);
    const int64_t line = ts_cache_find(c, key, head);
    if (head) slots[i] = line < 0 ? key : c.first_line + (uint32_t)line;
    if (line >= 0) atomicOr(&c.line[line].state, TS_CACHE_DIRTY);
  });
}

/* Bits of rows that found no line, where there are any. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_clear_kernel(ts_cache c, const uint32_t *slots, int64_t n) {
  if (c.locks[1] == 0) return;
  ts_each<TS_CACHE_BLOCK>(n, [&](int64_t i) {
    if (slots[i] < c.first_line)
      atomicAnd(c.through + slots[i] / 32, ~(1u << slots[i] % 32));
  });
}

/* Features' ids, which follow each other. */
struct ts_cache_features {
  int64_t bag[TS_CACHE_FEATURES + 1], base[TS_CACHE_FEATURES];
};

/* PER blocks for each feature. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_rows_kernel(ts_cache_features f, unsigned per,
                         const int64_t *offsets, const int32_t *rows,
                         uint32_t *out) {
  const unsigned feature = blockIdx.x / per, part = blockIdx.x % per;
  const int64_t stride = (int64_t)per * TS_CACHE_BLOCK;
  const int64_t from = offsets[f.bag[feature]];
  const int64_t to = offsets[f.bag[feature + 1]];
  int64_t i = from + (int64_t)part * TS_CACHE_BLOCK + threadIdx.x;
  for (; i < to; i += stride)
    out[i] = (uint32_t)(f.base[feature] + rows[i]);
}
