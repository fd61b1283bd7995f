/* cache_hold.cuh - the steps of a hold (cuda/sparse/cache_kernels.cuh): sort
 * keys, finding rows, lines for those that are missing, slots. */
#pragma once

#include "cuda/sparse/cache_sets.cuh"

/* ---- runs of a set ------------------------------------------------------- */

/* A run, the same in all lanes. */
struct ts_cache_run {
  uint32_t number, row, length;
};

/* Calls body(run) for all runs of SET, the first of which is FIRST; the warp
 * reads 32 of them at a time. */
template <class Body>
__device__ inline void ts_cache_for_runs(const ts_cache_work &w, int64_t set,
                                         uint32_t first, Body body) {
  const uint32_t lane = threadIdx.x % 32, n_runs = *w.n_runs;
  for (uint32_t base = first;; base += 32) {
    const uint32_t r = base + lane;
    uint32_t from = 0, to = 0, key = 0;
    if (r < n_runs) {
      from = w.start[r];
      to = r + 1 < n_runs ? w.start[r + 1] : (uint32_t)w.n;
      key = w.keys[from];
    }
    const bool mine = r < n_runs && ts_cache_set(key, w.c.n_sets) == set;
    const int n = __popc(__ballot_sync(0xffffffffu, mine));
    const uint32_t row = ts_cache_row(key);
    for (int k = 0; k < n; k++)
      body(ts_cache_run{base + (uint32_t)k, __shfl_sync(0xffffffffu, row, k),
                        __shfl_sync(0xffffffffu, to - from, k)});
    if (n < 32) return;
  }
}

/* Locks a row that is there; the slot of one that is not is the row. */
__device__ inline uint32_t ts_cache_look(const ts_cache_work &w,
                                         ts_cache_way &way,
                                         ts_cache_tally &tally,
                                         const ts_cache_run &run) {
  const uint32_t found = __ballot_sync(0xffffffffu, way.tag == run.row);
  const int lane = __ffs((int)found) - 1;
  bool first = false;
  if ((int)(threadIdx.x % 32) == lane)
    first = ts_cache_use(&way.line, w.c.lfu, w.now, run.length);
  const bool hit = __ballot_sync(0xffffffffu, first) != 0;
  tally.go_to(run.row);
  tally.n[TS_CACHE_IDS] += run.length;
  tally.n[TS_CACHE_HITS] += hit;
  if (threadIdx.x % 32 == 0) {
    w.slot[run.number] = found ? w.c.first_line + (uint32_t)way.at + lane
                               : run.row;
    w.old[run.number] = TS_CACHE_STAYS;
  }
  return hit;
}

/* The lane of RUN's line in the set, -1: it has none.  *OLD: what is moved. */
__device__ inline int ts_cache_place(const ts_cache_work &w, ts_cache_way &way,
                                     ts_cache_tally &tally,
                                     ts_cache_tally &losers,
                                     const ts_cache_run &run, uint32_t *old) {
  *old = TS_CACHE_STAYS;
  if (ts_cache_is_through(w.c, run.row)) return -1;
  const int lane = ts_cache_least(
      ts_cache_worth(way.tag, way.line, w.c.lfu, w.now));
  tally.go_to(run.row);
  tally.n[TS_CACHE_MISSES]++;
  tally.n[TS_CACHE_CONFLICTS] += lane < 0;
  if (lane < 0) {
    if (threadIdx.x % 32 == 0 && w.c.through) {
      atomicOr(w.c.through + run.row / 32, 1u << run.row % 32);
      ts_cache_add(w.c.locks + 1, 1);
    }
    return -1;
  }
  const uint32_t loser = __shfl_sync(0xffffffffu, way.tag, lane);
  const bool dirty =
      (__shfl_sync(0xffffffffu, way.line.state, lane) & TS_CACHE_DIRTY) != 0;
  *old = TS_CACHE_OVER_NONE;
  if (loser != TS_CACHE_NONE) {
    losers.go_to(loser);
    losers.n[TS_CACHE_EVICTED]++;
    losers.n[TS_CACHE_WRITTEN] += dirty;
    if (dirty) *old = loser;
  }
  if ((int)(threadIdx.x % 32) == lane) {
    way.tag = run.row;
    way.line = ts_cache_given(w.now, run.length);
  }
  return lane;
}

/* A line for a row that has none.  Where the run's slot is known it was looked
 * for before; a row that is found now came with an earlier pass. */
__device__ inline bool ts_cache_take(const ts_cache_work &w, ts_cache_way &way,
                                     ts_cache_tally &tally,
                                     ts_cache_tally &losers,
                                     const ts_cache_run &run) {
  const uint32_t known = w.mode & TS_CACHE_FIND
                             ? w.slot[run.number]
                             : w.slots[w.order[w.start[run.number]]];
  const uint32_t found = __ballot_sync(0xffffffffu, way.tag == run.row);
  int lane = __ffs((int)found) - 1;
  uint32_t old = TS_CACHE_STAYS;
  if (known < w.c.first_line && found && (int)(threadIdx.x % 32) == lane)
    ts_cache_use(&way.line, w.c.lfu, w.now, run.length);
  if (!found) lane = ts_cache_place(w, way, tally, losers, run, &old);
  __syncwarp(); /* all lanes have read what the first one writes */
  if (threadIdx.x % 32 == 0) {
    w.slot[run.number] =
        lane < 0 ? run.row : w.c.first_line + (uint32_t)way.at + lane;
    w.old[run.number] = old;
  }
  return !found && lane >= 0;
}

/* One step of a hold: the warp that meets the first run of a set does all of
 * the set. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_hold_kernel(ts_cache_work w) {
  const uint32_t lane = threadIdx.x % 32, n_runs = *w.n_runs;
  const int64_t warp =
      ((int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x) / 32;
  const int64_t warps = (int64_t)gridDim.x * (TS_CACHE_BLOCK / 32);
  ts_cache_tally tally(w.c), losers(w.c);
  uint64_t locked = 0;
  for (int64_t base = 32 * warp; base < n_runs; base += 32 * warps) {
    const uint32_t r = (uint32_t)base + lane;
    int64_t set = -1, before = -1;
    if (r < n_runs) set = ts_cache_set(w.keys[w.start[r]], w.c.n_sets);
    if (r < n_runs && r > 0)
      before = ts_cache_set(w.keys[w.start[r - 1]], w.c.n_sets);
    uint32_t heads = __ballot_sync(0xffffffffu, set != before);
    for (; heads; heads &= heads - 1) {
      const int head = __ffs((int)heads) - 1;
      const int64_t at = __shfl_sync(0xffffffffu, (long long)set, head);
      const uint32_t first = (uint32_t)base + (uint32_t)head;
      ts_cache_way way(w.c, at);
      if (w.mode & TS_CACHE_FIND)
        ts_cache_for_runs(w, at, first, [&](const ts_cache_run &run) {
          locked += ts_cache_look(w, way, tally, run);
        });
      __syncwarp(); /* slots that the first lane wrote */
      if (w.mode & TS_CACHE_TAKE)
        ts_cache_for_runs(w, at, first, [&](const ts_cache_run &run) {
          locked += ts_cache_take(w, way, tally, losers, run);
        });
      way.store(w.c);
    }
  }
  if (lane == 0 && locked) ts_cache_add(w.c.locks, locked);
}

/* Sort keys of the ids: hashes of their rows, also of those that have slots. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_keys_kernel(ts_cache c, const uint32_t *slots, int64_t n,
                         uint32_t *keys, uint32_t *order) {
  ts_each<TS_CACHE_BLOCK>(n, [&](int64_t i) {
    const uint32_t slot = slots[i];
    keys[i] =
        ts_cache_hash(slot < c.first_line ? slot : c.tag[slot - c.first_line]);
    order[i] = (uint32_t)i;
  });
}

/* The slot of each id: its run's.  A warp has 32 sorted entries, and looks for
 * the run of the first. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_slots_kernel(ts_cache_work w) {
  const uint32_t lane = threadIdx.x % 32, n_runs = *w.n_runs;
  const int64_t stride = (int64_t)gridDim.x * TS_CACHE_BLOCK;
  const int64_t first = (int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x;
  for (int64_t base = first - lane; base < w.n; base += stride) {
    const int64_t j = base + lane;
    const uint32_t run = ts_last_at(
        n_runs, base, [&](uint32_t k) { return (int64_t)w.start[k]; });
    const bool starts =
        lane > 0 && j < w.n && w.keys[j] != w.keys[j - 1];
    const uint32_t heads = __ballot_sync(0xffffffffu, starts);
    const uint32_t upto = 0xffffffffu >> (31 - lane);
    if (j < w.n) w.slots[w.order[j]] = w.slot[run + __popc(heads & upto)];
  }
}
