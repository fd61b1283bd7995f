/* cache_kernels.cuh - the kernels of the cache (src/sparse/cache_device.h).
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
#ifndef TS_CUDA_CACHE_KERNELS_CUH
#define TS_CUDA_CACHE_KERNELS_CUH

#include <stdint.h>

#include "cuda/grid.h"

extern "C" {
#include "sparse/cache_device.h"
}

enum {
  TS_CACHE_BLOCK = 256,    /* threads of a block */
  TS_CACHE_FEATURES = 128, /* whose bases travel with one launch */
  TS_CACHE_AGING = 32      /* batches after which uses count half */
};
enum { TS_CACHE_FIND = 1, TS_CACHE_TAKE = 2 }; /* what a hold's step does */
static const uint32_t TS_CACHE_FREE = 0xffffffffu; /* a tag */
/* What is moved for a run: nothing; a row in, over nothing; else over the old
 * row of that number, which goes out first. */
static const uint32_t TS_CACHE_STAYS = 0xfffffffeu;
static const uint32_t TS_CACHE_OVER_NONE = 0xffffffffu;

/* Some ids of a hold: sorted, and their runs. */
struct ts_cache_work {
  ts_cache_device c;
  uint32_t now;
  int mode;             /* TS_CACHE_FIND, _TAKE or both */
  uint32_t *slots;      /* of these ids */
  const uint32_t *keys; /* (n) sorted hashes */
  const uint32_t *order;
  const uint32_t *start;  /* (n_runs) */
  const uint32_t *n_runs; /* (1) */
  uint32_t *slot, *old;   /* (n_runs) */
  int64_t n;
};

/* ---- hashes -------------------------------------------------------------- */

/* One to one, so the order of hashes is one of rows. */
__device__ inline uint32_t ts_cache_hash(uint32_t row) {
  uint32_t h = row;
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

__device__ inline uint32_t ts_cache_row(uint32_t hash) {
  uint32_t h = hash ^ hash >> 16;
  h *= 0x7ed1b41du; /* times the other factor: 1 */
  h = (h ^ h >> 13 ^ h >> 26) * 0xa5cb9243u;
  return h ^ h >> 16;
}

/* Ascending with the hash. */
__device__ inline int64_t ts_cache_set(const ts_cache_device &c,
                                       uint32_t hash) {
  return (int64_t)((uint64_t)hash * (uint64_t)c.n_sets >> 32);
}

/* ---- finding ------------------------------------------------------------- */

/* The line of each lane's ROW, -1: it has none, or the lane is not ACTIVE.  The
 * warp looks into four sets at a time, each lane at one way. */
__device__ inline int64_t ts_cache_find(const ts_cache_device &c, uint32_t row,
                                        bool active) {
  const int lane = (int)threadIdx.x % 32;
  uint32_t left = __ballot_sync(0xffffffffu, active);
  const int64_t first = 32 * ts_cache_set(c, ts_cache_hash(row));
  int64_t line = -1;
  while (left) {
    uint32_t tag[4], wanted[4];
    int64_t at[4];
    int who[4];
    for (int k = 0; k < 4; k++) {
      who[k] = left ? __ffs((int)left) - 1 : -1;
      left &= left - 1;
      at[k] = __shfl_sync(0xffffffffu, (long long)first,
                          who[k] < 0 ? who[0] : who[k]);
      wanted[k] = __shfl_sync(0xffffffffu, row, who[k] < 0 ? who[0] : who[k]);
      tag[k] = c.tag[at[k] + lane];
    }
    for (int k = 0; k < 4; k++) {
      const uint32_t way = __ballot_sync(0xffffffffu, tag[k] == wanted[k]);
      if (lane == who[k] && way) line = at[k] + __ffs((int)way) - 1;
    }
  }
  return line;
}

/* ---- counts -------------------------------------------------------------- */

__device__ inline void ts_cache_add(uint64_t *to, uint64_t n) {
  atomicAdd((unsigned long long *)to, (unsigned long long)n);
}

/* Counts of the table at hand, which go to memory when another one's turn
 * comes: all lanes have the same, the first one adds. */
struct ts_cache_tally {
  const ts_cache_device &c;
  int64_t from, to; /* rows of the table */
  int table;
  uint32_t n[TS_CACHE_COUNTS];

  __device__ explicit ts_cache_tally(const ts_cache_device &cache)
      : c(cache), from(0), to(0), table(0), n() {
  }
  __device__ ~ts_cache_tally() {
    send();
  }
  __device__ void send() {
    uint64_t *counts = c.counts + (int64_t)table * TS_CACHE_COUNTS;
    for (int k = 0; k < TS_CACHE_COUNTS; k++) {
      if (n[k] && threadIdx.x % 32 == 0) ts_cache_add(counts + k, n[k]);
      n[k] = 0;
    }
  }
  __device__ void go_to(uint32_t row) {
    if ((int64_t)row >= from && (int64_t)row < to) return;
    send();
    int low = 0, high = c.n_tables - 1;
    while (low < high) {
      const int mid = (low + high + 1) / 2;
      if (c.row_base[mid] <= (int64_t)row)
        low = mid;
      else
        high = mid - 1;
    }
    table = low;
    from = c.row_base[low];
    to = c.row_base[low + 1];
  }
};

/* ---- a set --------------------------------------------------------------- */

/* Way l of the set that the warp has, in lane l. */
struct ts_cache_way {
  int64_t line;
  uint32_t tag, stamp, count, state;

  __device__ ts_cache_way(const ts_cache_device &c, int64_t set)
      : line(32 * set + threadIdx.x % 32), tag(c.tag[line]),
        stamp(c.stamp[line]), count(c.count[line]), state(c.state[line]) {
  }
  __device__ void store(const ts_cache_device &c) const {
    c.tag[line] = tag;
    c.stamp[line] = stamp;
    c.count[line] = count;
    c.state[line] = state;
  }
  __device__ uint32_t aged(uint32_t now) const {
    const uint32_t halvings = (now - stamp) / TS_CACHE_AGING;
    return halvings < 32 ? count >> halvings : 0;
  }
  __device__ void count_uses(uint32_t n) {
    count = count > 0xffffffffu - n ? 0xffffffffu : count + n;
  }
  /* N more uses; true where the first of the batch is among them. */
  __device__ bool use(bool lfu, uint32_t now, uint32_t n) {
    const bool first = stamp != now;
    if (lfu && first) count = aged(now);
    count_uses(n);
    stamp = now;
    state += first;
    return first;
  }
  /* The least goes; free ones first, locked ones never. */
  __device__ uint64_t worth(bool lfu, uint32_t now) const {
    const uint32_t recent = 0xffffffffu - (now - stamp);
    if (tag == TS_CACHE_FREE) return 0;
    if (state & ~TS_CACHE_DIRTY) return ~(uint64_t)0;
    return 1 + ((uint64_t)(lfu ? aged(now) : 0) << 32 | recent);
  }
};

/* The lane with the least X, the first of such; -1: all are the most. */
__device__ inline int ts_cache_least(uint64_t x) {
  uint64_t least = x;
  for (int by = 16; by > 0; by /= 2) {
    const uint64_t other =
        __shfl_xor_sync(0xffffffffu, (unsigned long long)least, by);
    least = other < least ? other : least;
  }
  const uint32_t who = __ballot_sync(0xffffffffu, x == least);
  return ~least ? __ffs((int)who) - 1 : -1;
}

__device__ inline bool ts_cache_is_through(const ts_cache_device &c,
                                           uint32_t row) {
  return c.through && c.through[row / 32] >> row % 32 & 1;
}

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
    const bool mine = r < n_runs && ts_cache_set(w.c, key) == set;
    const int n = __popc(__ballot_sync(0xffffffffu, mine));
    const uint32_t row = ts_cache_row(key);
    for (int k = 0; k < n; k++)
      body(ts_cache_run{base + (uint32_t)k, __shfl_sync(0xffffffffu, row, k),
                        __shfl_sync(0xffffffffu, to - from, k)});
    if (n < 32) return;
  }
}

/* What is there is locked; the others' slot is the row. */
__device__ inline uint32_t ts_cache_look(const ts_cache_work &w,
                                         ts_cache_way &way,
                                         ts_cache_tally &tally,
                                         const ts_cache_run &run) {
  const uint32_t found = __ballot_sync(0xffffffffu, way.tag == run.row);
  const int lane = __ffs((int)found) - 1;
  bool first = false;
  if ((int)(threadIdx.x % 32) == lane)
    first = way.use(w.c.lfu, w.now, run.length);
  const bool hit = __ballot_sync(0xffffffffu, first) != 0;
  tally.go_to(run.row);
  tally.n[TS_CACHE_IDS] += run.length;
  tally.n[TS_CACHE_HITS] += hit;
  if (threadIdx.x % 32 == 0) {
    w.slot[run.number] = found ? w.c.first_line + (uint32_t)way.line + lane
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
  const int lane = ts_cache_least(way.worth(w.c.lfu, w.now));
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
      (__shfl_sync(0xffffffffu, way.state, lane) & TS_CACHE_DIRTY) != 0;
  *old = TS_CACHE_OVER_NONE;
  if (loser != TS_CACHE_FREE) {
    losers.go_to(loser);
    losers.n[TS_CACHE_EVICTED]++;
    losers.n[TS_CACHE_WRITTEN] += dirty;
    if (dirty) *old = loser;
  }
  if ((int)(threadIdx.x % 32) == lane) {
    way.tag = run.row;
    way.stamp = w.now;
    way.count = run.length;
    way.state = 1;
    w.c.round[way.line] = 0;
  }
  return lane;
}

/* A line for what has none.  A run whose slot is known was looked for before
 * this; one that is found came with an earlier pass. */
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
    way.count_uses(run.length);
  if (!found) lane = ts_cache_place(w, way, tally, losers, run, &old);
  __syncwarp(); /* all lanes have read what the first one writes */
  if (threadIdx.x % 32 == 0) {
    w.slot[run.number] =
        lane < 0 ? run.row : w.c.first_line + (uint32_t)way.line + lane;
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
    if (r < n_runs) set = ts_cache_set(w.c, w.keys[w.start[r]]);
    if (r < n_runs && r > 0)
      before = ts_cache_set(w.c, w.keys[w.start[r - 1]]);
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
    ts_cache_keys_kernel(ts_cache_device c, const uint32_t *slots, int64_t n,
                         uint32_t *keys, uint32_t *order) {
  const int64_t stride = (int64_t)gridDim.x * TS_CACHE_BLOCK;
  int64_t i = (int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x;
  for (; i < n; i += stride) {
    const uint32_t slot = slots[i];
    keys[i] =
        ts_cache_hash(slot < c.first_line ? slot : c.tag[slot - c.first_line]);
    order[i] = (uint32_t)i;
  }
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
    uint32_t low = 0, high = n_runs - 1;
    while (low < high) { /* the last run that starts by BASE */
      const uint32_t mid = low + (high - low + 1) / 2;
      if ((int64_t)w.start[mid] <= base)
        low = mid;
      else
        high = mid - 1;
    }
    const bool starts =
        lane > 0 && j < w.n && w.keys[j] != w.keys[j - 1];
    const uint32_t heads = __ballot_sync(0xffffffffu, starts);
    const uint32_t upto = 0xffffffffu >> (31 - lane);
    if (j < w.n) w.slots[w.order[j]] = w.slot[low + __popc(heads & upto)];
  }
}

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
__device__ inline void ts_cache_move_row(const ts_cache_device &c, int64_t line,
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

/* Of all runs that were given a line. */
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

/* Of all lines: OUT, those that were written; else back in, those in use. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_all_kernel(ts_cache_device c, bool out) {
  const int64_t stride = (int64_t)gridDim.x * (TS_CACHE_BLOCK / 32);
  int64_t i = ((int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x) / 32;
  for (; i < 32 * c.n_sets; i += stride) {
    const uint32_t state = c.state[i];
    const bool used = (state & ~TS_CACHE_DIRTY) != 0;
    const uint32_t tag = !out && !used ? TS_CACHE_FREE : c.tag[i];
    __syncwarp(); /* all lanes have read */
    if (threadIdx.x % 32 == 0) {
      c.tag[i] = tag;
      c.state[i] = state & ~TS_CACHE_DIRTY;
    }
    if (tag == TS_CACHE_FREE || (out && !(state & TS_CACHE_DIRTY))) continue;
    ts_cache_move_row(c, i, out ? (int64_t)tag : -1, out ? -1 : (int64_t)tag);
  }
}

/* ---- the rest ------------------------------------------------------------ */

/* Of several ids of a line the first to come does it: which one is all the
 * same. */
__device__ inline bool ts_cache_once(const ts_cache_device &c, int64_t line,
                                     uint32_t round) {
  return atomicExch(c.round + line, round) != round;
}

/* Adds BY for each lane with YES; all of the warp are here. */
__device__ inline void ts_cache_add_locks(const ts_cache_device &c, bool yes,
                                          int64_t by) {
  const int n = __popc(__ballot_sync(0xffffffffu, yes));
  if (n && threadIdx.x % 32 == 0) ts_cache_add(c.locks, (uint64_t)(n * by));
}

static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_release_kernel(ts_cache_device c, uint32_t round,
                            const uint32_t *slots, int64_t n) {
  const int64_t stride = (int64_t)gridDim.x * TS_CACHE_BLOCK;
  const int64_t first = (int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x;
  for (int64_t base = first - threadIdx.x % 32; base < n; base += stride) {
    const int64_t i = base + threadIdx.x % 32;
    const uint32_t slot = i < n ? slots[i] : 0;
    const int64_t line = (int64_t)slot - c.first_line;
    const bool mine = slot >= c.first_line &&
                      (c.state[line] & ~TS_CACHE_DIRTY) != 0 &&
                      ts_cache_once(c, line, round);
    if (mine) atomicSub(c.state + line, 1u);
    ts_cache_add_locks(c, mine, -1);
  }
}

static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_refresh_kernel(ts_cache_device c, uint32_t round, uint32_t *slots,
                            int64_t n) {
  const int64_t stride = (int64_t)gridDim.x * TS_CACHE_BLOCK;
  const int64_t first = (int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x;
  for (int64_t base = first - threadIdx.x % 32; base < n; base += stride) {
    const int64_t i = base + threadIdx.x % 32;
    const uint32_t slot = i < n ? slots[i] : c.first_line;
    const int64_t line = ts_cache_find(c, slot, slot < c.first_line);
    const bool mine = line >= 0 && ts_cache_once(c, line, round);
    if (line >= 0) slots[i] = c.first_line + (uint32_t)line;
    if (mine) atomicAdd(c.state + line, 1u);
    ts_cache_add_locks(c, mine, 1);
  }
}

/* At the first of equal keys.  A row's line is marked by that one lane. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_locate_kernel(ts_cache_device c, uint32_t *slots,
                           const uint32_t *keys, int64_t n) {
  const int64_t stride = (int64_t)gridDim.x * TS_CACHE_BLOCK;
  const int64_t first = (int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x;
  for (int64_t base = first - threadIdx.x % 32; base < n; base += stride) {
    const int64_t i = base + threadIdx.x % 32;
    const uint32_t key = i < n ? keys[i] : 0;
    const bool head = i < n && (i == 0 || key != keys[i - 1]);
    const int64_t line = ts_cache_find(c, key, head);
    if (head) slots[i] = line < 0 ? key : c.first_line + (uint32_t)line;
    if (line >= 0) atomicOr(c.state + line, TS_CACHE_DIRTY);
  }
}

/* Bits of rows that found no line, where there are any. */
static __global__ void __launch_bounds__(TS_CACHE_BLOCK)
    ts_cache_clear_kernel(ts_cache_device c, const uint32_t *slots, int64_t n) {
  const int64_t stride = (int64_t)gridDim.x * TS_CACHE_BLOCK;
  int64_t i = (int64_t)blockIdx.x * TS_CACHE_BLOCK + threadIdx.x;
  if (c.locks[1] == 0) return;
  for (; i < n; i += stride)
    if (slots[i] < c.first_line)
      atomicAnd(c.through + slots[i] / 32, ~(1u << slots[i] % 32));
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

#endif
