/* lookup_plan.h - how a lookup, or its gradient by the ids' weights, is cut
 * into groups of lanes, runs of bags and blocks.  Plain C and pure, so that it
 * is tested without a GPU.
 *
 * Memory is random and far away: what counts is how many bytes each
 * multiprocessor has asked for at any time.  At 4.3 TB/s and 0.8 us under load
 * an H200's 132 need 26 KB each for a perfect stream, and about 64 KiB with the
 * gaps of real ones.  A lane asks for 8 rows' worth of 16 bytes before it sums:
 * 32 registers, with all the rest 72 to 80, so that 768 threads or more are
 * resident: 768 * 8 * 16 B = 96 KiB at the peak.  (For 64 registers, 1024
 * threads, the compiler keeps 30 of them in memory.) A group goes over the ids
 * of a run of bags as over one stream: it asks across the borders of bags, and
 * waits for offsets and first ids once a run.  With 16 bags of 20 ids it waits
 * 42 times, for 320 rows: 7.6 of 8 are under way on the average, 91 KiB; with
 * 16 bags of one id 4 times: 48 KiB, beside what is written.  All of it is
 * Local. */
#pragma once

#include "base/dtype.h"
#include "cuda/runtime/grid.h"

enum {
  TS_LOOKUP_THREADS = 128,     /* of a block */
  TS_LOOKUP_RESIDENT = 768,    /* threads of a multiprocessor */
  TS_LOOKUP_FEATURES = 240,    /* by value: kernel parameters of 4 KB */
  TS_LOOKUP_RUN_MAX = 16,      /* bags of a run: a lane of the group each */
  TS_WEIGHT_GRAD_RUN_MAX = 32, /* a lane of the warp each */
  TS_LOOKUP_WAVES = 4          /* runs grow while so many groups are left for
                                * each that is resident */
};

/* The machine: its multiprocessors (0: runs are as long as they can be) and
 * how many blocks a grid may have. */
typedef struct ts_lookup_machine {
  int n_sms;
  int64_t most_blocks;
} ts_lookup_machine;

typedef struct ts_lookup_plan {
  int vector;      /* elements that a lane loads at once */
  int lanes;       /* of a group: 4, 8, 16 or 32 */
  int32_t chunks;  /* parts of a row, of vector * lanes columns */
  int run;         /* bags that a group goes over */
  int64_t items;   /* works of a block: chunks for each of its runs */
  unsigned blocks; /* of the grid, which goes over the items */
} ts_lookup_plan;

/* 16 bytes where rows lie on such borders, half of them for 16-bit rows of
 * 4 (2 k + 1) columns, else one element; of rows in few bits a word. */
static inline int ts_lookup_vector(ts_dtype t, int32_t dim,
                                   const void *weight) {
  const uintptr_t at = (uintptr_t)weight;
  if (ts_dtype_has_scale(t)) return t == TS_INT8 ? 4 : 8;
  if (t == TS_F32) return dim % 4 == 0 && at % 16 == 0 ? 4 : 1;
  if (dim % 8 == 0 && at % 16 == 0) return 8;
  return dim % 4 == 0 && at % 8 == 0 ? 4 : 1;
}

/* Just enough for a row, up to a warp; the narrow vectors have two sizes. */
static inline int ts_lookup_lanes(ts_dtype t, int vector, int32_t dim) {
  const int64_t n = ts_ceil_div(dim, vector);
  if (ts_dtype_has_scale(t)) return n <= 8 ? 8 : n <= 16 ? 16 : 32;
  if (vector == 1) return n <= 4 ? 4 : 32;
  if (vector == 4 && t != TS_F32) return n <= 8 ? 8 : 32;
  return n <= 4 ? 4 : n <= 8 ? 8 : n <= 16 ? 16 : 32;
}

/* Bags of a run: as many as leave every multiprocessor enough groups. */
static inline int ts_lookup_run(int64_t n_bags, int lanes, int most,
                                int n_sms) {
  const int64_t groups = (int64_t)n_sms * (TS_LOOKUP_RESIDENT / lanes);
  int run = most;
  while (run > 1 && n_bags / run < TS_LOOKUP_WAVES * groups) run /= 2;
  return run;
}

static inline void ts_lookup_cut(ts_lookup_plan *p, int64_t n_bags,
                                 const ts_lookup_machine *m) {
  const int64_t bags = (int64_t)p->run * (TS_LOOKUP_THREADS / p->lanes);
  p->items = ts_ceil_div(n_bags, bags) * p->chunks;
  p->blocks = ts_grid(p->items, 1, m->most_blocks);
}

static inline ts_lookup_plan ts_lookup_plan_of(ts_dtype t, int32_t dim,
                                               const void *weight,
                                               int64_t n_bags,
                                               const ts_lookup_machine *m) {
  ts_lookup_plan p;
  p.vector = ts_lookup_vector(t, dim, weight);
  p.lanes = ts_lookup_lanes(t, p.vector, dim);
  p.chunks = (int32_t)ts_ceil_div(dim, p.vector * p.lanes);
  p.run = ts_lookup_run(
      n_bags, p.lanes,
      p.lanes < TS_LOOKUP_RUN_MAX ? p.lanes : TS_LOOKUP_RUN_MAX, m->n_sms);
  ts_lookup_cut(&p, n_bags, m);
  return p;
}

/* A warp for each run; 16 / vector of its lanes for each id. */
static inline ts_lookup_plan
ts_weight_grad_plan_of(ts_dtype t, int32_t dim, const void *weight,
                       int64_t n_bags, const ts_lookup_machine *m) {
  ts_lookup_plan p;
  p.vector = ts_lookup_vector(t, dim, weight);
  p.lanes = 32;
  p.chunks = 1;
  p.run = ts_lookup_run(n_bags, 32, TS_WEIGHT_GRAD_RUN_MAX, m->n_sms);
  ts_lookup_cut(&p, n_bags, m);
  return p;
}
