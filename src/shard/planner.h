/* planner.h - plans by estimated time and memory.
 *
 * A request holds all that an estimate goes by, as plain data: the deck, the
 * machine (topology.h), what is known of the ids, and what the dense part of
 * the model takes.  Everything here is local and deterministic: the same
 * request gives the same plan on every rank and every machine. */
#pragma once

#include "base/json.h"
#include "shard/plan.h"
#include "shard/topology.h"

enum { TS_STATS_BLOCKS = 16 };

/* Statistics of one feature's ids, as far as they are known. */
typedef struct ts_plan_stats {
  double pooling;  /* ids per sample */
  double n_sample; /* ids that were looked at ... */
  double distinct; /* ... so many different ones among them, */
  double growth;   /* which grow with the ids to this power, 0 to 1 */
  double hot;      /* share of the ids that go to 1% of the rows, the most
                      frequent ones */
  bool by_law;     /* hot is exact; of a sample smaller than the rows it is
                      too much */
  /* Share of the ids by sixteenths of the rows, in order; sums to 1. */
  double block[TS_STATS_BLOCKS];
} ts_plan_stats;

/* Ids spread evenly (zipf 0) or by a bounded Zipf law over ROWS. */
ts_plan_stats ts_plan_stats_law(int64_t rows, double zipf, double pooling);
/* Counted from a sample of N_BAGS bags that hold these ids. */
ts_err ts_plan_stats_count(ts_plan_stats *, int64_t rows, const int64_t *ids,
                           int64_t n_ids, int64_t n_bags);
/* Different ids among N. */
double ts_plan_stats_distinct(const ts_plan_stats *, double n, double rows);

/* Costs of a step, and memory of a rank, beside the tables. */
typedef struct ts_plan_dense {
  double param_bytes;  /* dense parameters, gradients, optimizer state, as far
                          as a rank has them */
  double other_bytes;  /* activations, batches read ahead, metrics, ... */
  double reduce_bytes; /* of the gradients that are reduced in a step, as they
                          travel; where parameters are gathered, half of what
                          those take each time */
  double bucket_bytes; /* the largest of its pieces; layers that are whole */
  double sum_bytes;    /* of a piece that is summed in rank order, of f32, in
                          one collective; 0: none */
  double flops;        /* of a sample, forward and backward */
  double n_comms;      /* communicators of NCCL */
} ts_plan_dense;

typedef struct ts_plan_request {
  const ts_config *config;
  const ts_nodes *nodes;
  const ts_topology *topology;
  const ts_plan_stats *stats; /* (features, the deck's order) */
  ts_plan_dense dense;
  int32_t batch;         /* samples of a rank */
  int32_t n_ebc_batches; /* batches under way in the pipeline */
  bool hides_input;      /* input dist runs under the step before */
  bool hides_rows;       /* rows of slow memory come under it, too */
  bool discrete;         /* the device has memory of its own */
  double memory_bytes;   /* limit of a rank */
  double comm_bytes;     /* of the device's memory, that a communicator takes */
  double host_bytes;     /* of the host's memory beside a discrete device that
                            a rank may lock; 0: not known */
  /* (tables) lines per row in place of the deck's; NULL: the deck's. */
  const double *load_factor;
} ts_plan_request;

/* ms of one rank and step. */
typedef struct ts_plan_time {
  double input;    /* input dist */
  double lookup;   /* forward */
  double output;   /* output dist */
  double gradient; /* its transpose */
  double backward; /* fused backward */
} ts_plan_time;

static inline double ts_plan_time_sum(const ts_plan_time *t) {
  return t->input + t->lookup + t->output + t->gradient + t->backward;
}

/* Bytes of one rank. */
typedef struct ts_plan_memory {
  double weights, state; /* in fast memory */
  double slow;    /* of tables in the host's memory, which is the device's */
  double buffers; /* input and output dist, lookup, backward, messages */
  double dense;   /* parameters, activations, batches, metrics */
  double disk;    /* of tables in files: no memory */
  double pinned;  /* page-locked, beside a discrete device: of
                     buffers, and of tables in slow memory */
} ts_plan_memory;

static inline double ts_plan_memory_sum(const ts_plan_memory *m) {
  return m->weights + m->state + m->slow + m->buffers + m->dense;
}

/* Bytes that one rank sends in a step, by what they are. */
typedef struct ts_plan_traffic {
  double input, output, gradient, dense;
  double cross; /* of all these, to other nodes */
} ts_plan_traffic;

/* A load on a rank. */
typedef struct ts_load {
  ts_plan_time time;
  ts_plan_memory memory;
  ts_plan_traffic sent;
} ts_load;

typedef struct ts_plan_rank {
  ts_load load;
  int32_t n_shards;
} ts_plan_rank;

typedef struct ts_plan_table {
  ts_load load;        /* summed over ranks */
  double memory_bytes; /* weights and state, over ranks */
  double slowest_ms;   /* on the rank where it takes longest */
} ts_plan_table;

typedef struct ts_plan_report {
  ts_plan_rank *ranks;   /* (n_ranks) */
  ts_plan_table *tables; /* (n_tables) */
  int32_t n_ranks, n_tables;
  double dense_ms;            /* dense layers and their reduction */
  double sparse_ms;           /* the slowest rank's */
  double step_ms;             /* as predicted */
  double hidden_ms;           /* that the pipeline overlaps */
  double imbalance;           /* slowest / mean of sparse_ms */
  int32_t slowest, fullest;   /* ranks */
  double memory_bytes, limit; /* of the fullest rank; what it may have */
  int64_t n_tried;            /* placements that the search looked at */
} ts_plan_report;

/* The best plan that the search finds; *REPORT (may be NULL) says what is
 * expected of it.  DECK error where no plan fits the memory: it ranks what
 * would help. */
ts_err ts_plan_search(ts_plan **, ts_plan_report **report,
                      const ts_plan_request *);
/* Kernels for PLAN's tables that the deck leaves open: as they are, as far as
 * memory suffices, else "cached", else "host", until no rank lacks memory or
 * no table is left that may change; none in slow memory where there is no such
 * memory.  ts_plan_search has done that. */
ts_err ts_plan_kernels(ts_plan *, const ts_plan_request *);
/* Bytes of the fullest RANK if the tables whose kernel the planner chose were
 * all in fast memory. */
ts_err ts_plan_fused_bytes(double *bytes, int32_t *rank, const ts_plan *,
                           const ts_plan_request *);
/* LOAD_FACTOR (tables) for PLAN: the deck's where it has one; the others
 * start at next to nothing, and the memory that the plan leaves goes step by
 * step to the tables where a byte of lines saves most time of fetching, until
 * a rank is full or all rows have lines.  Room for one pass of tables with
 * cache.prefetch_passes = "auto" is kept.  Tables that can share a cache get
 * the same. */
ts_err ts_plan_lines(double *load_factor, const ts_plan *,
                     const ts_plan_request *);
/* Passes of tables with cache.prefetch_passes = "auto": the fewest whose
 * scratch fits what REPORT leaves of the fullest rank's memory. */
ts_err ts_plan_passes(int32_t *passes, const ts_plan *, const ts_plan_report *,
                      const ts_plan_request *);
/* Estimates PLAN, whoever made it. */
ts_err ts_plan_estimate(ts_plan_report **, const ts_plan *,
                        const ts_plan_request *);
void ts_plan_report_destroy(ts_plan_report *);

/* Tables of ranks (all, or the slowest and fullest ROWS where that is over 0)
 * and of tables, imbalance, memory left. */
ts_err ts_plan_report_print(ts_str *, const ts_plan_report *, const ts_plan *,
                            const ts_plan_request *, int32_t rows);
/* The same as one JSON object, the caller's. */
json_t *ts_plan_report_json(const ts_plan_report *, const ts_plan *,
                            const ts_plan_request *);
