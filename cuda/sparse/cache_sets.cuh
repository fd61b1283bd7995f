/* cache_sets.cuh - the cache's directory as a warp of cache_kernels.cuh sees
 * it: a set in its lanes' registers, counts of tables. */
#pragma once

#include <stdint.h>

#include "cuda/runtime/each.cuh"
#include "cuda/runtime/grid.h"

extern "C" {
#include "sparse/cache.h"
}

enum {
  TS_CACHE_BLOCK = 256,   /* threads of a block */
  TS_CACHE_FEATURES = 128 /* whose bases travel with one launch */
};
enum { TS_CACHE_FIND = 1, TS_CACHE_TAKE = 2 }; /* what a hold's step does */
/* Moves for a run: none; its row in, over nothing; any other number is that of
 * the old row, which goes out first. */
static const uint32_t TS_CACHE_STAYS = 0xfffffffeu;
static const uint32_t TS_CACHE_OVER_NONE = 0xffffffffu;

/* Some ids of a hold: sorted, and their runs. */
struct ts_cache_work {
  ts_cache c;
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

/* ---- finding ------------------------------------------------------------- */

/* The line of each lane's ROW, -1: it has none, or the lane is not ACTIVE.  The
 * warp looks into four sets at a time, each lane at one way. */
__device__ inline int64_t ts_cache_find(const ts_cache &c, uint32_t row,
                                        bool active) {
  const int lane = (int)threadIdx.x % 32;
  uint32_t left = __ballot_sync(0xffffffffu, active);
  const int64_t first = 32 * ts_cache_set(ts_cache_hash(row), c.n_sets);
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
  const ts_cache &c;
  int64_t from, to; /* rows of the table */
  int table;
  uint32_t n[TS_CACHE_COUNTS];

  __device__ explicit ts_cache_tally(const ts_cache &cache)
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
    table = ts_last_at((int)c.n_tables, (int64_t)row,
                       [this](int t) { return c.row_base[t]; });
    from = c.row_base[table];
    to = c.row_base[table + 1];
  }
};

/* ---- a set --------------------------------------------------------------- */

/* Way l of the set that the warp has, in lane l. */
struct ts_cache_way {
  int64_t at;
  uint32_t tag;
  ts_cache_line line;

  __device__ ts_cache_way(const ts_cache &c, int64_t set)
      : at(32 * set + threadIdx.x % 32), tag(c.tag[at]), line(c.line[at]) {
  }
  __device__ void store(const ts_cache &c) const {
    c.tag[at] = tag;
    c.line[at] = line;
  }
};

/* The lane with the least worth, the first of such; -1: all are locked. */
__device__ inline int ts_cache_least(uint64_t worth) {
  uint64_t least = worth;
  for (int by = 16; by > 0; by /= 2) {
    const uint64_t other =
        __shfl_xor_sync(0xffffffffu, (unsigned long long)least, by);
    least = other < least ? other : least;
  }
  const uint32_t who = __ballot_sync(0xffffffffu, worth == least);
  return least != TS_CACHE_LOCKED ? __ffs((int)who) - 1 : -1;
}

__device__ inline bool ts_cache_is_through(const ts_cache &c,
                                           uint32_t row) {
  return c.through && c.through[row / 32] >> row % 32 & 1;
}
