/* topology.h - what the planner knows of a machine: rates of one rank while
 * all ranks work, and of the links between them.
 *
 * Plain data.  It is measured at start (sharding.topology = "measure"), read
 * from a file of `tessera plan --measure`, or these defaults: round numbers
 * of a CPU node, so that plans are the same everywhere unless somebody asks
 * for the machine's own.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/str.h"
#include "runtime/comm.h"
#include "kernel_table.h"

typedef enum {
  TS_LINK_ALL_TO_ALL,
  TS_LINK_REDUCE_SCATTER,
  TS_LINK_ALL_GATHER,
  TS_LINK_COUNT
} ts_link_use;
typedef enum { TS_REACH_NODE, TS_REACH_CROSS, TS_REACH_COUNT } ts_reach;

/* A collective of one rank with N others takes
 * N latency_us + (bytes that it sends) / gbytes_per_s. */
typedef struct ts_link {
  double latency_us, gbytes_per_s;
} ts_link;

typedef struct ts_topology {
  int32_t ranks, ranks_per_node; /* where it was measured, 0: nowhere */
  double read_gbytes_per_s;      /* rows of tables beyond the caches */
  double cache_gbytes_per_s;     /* rows of tables within them */
  double write_gbytes_per_s;     /* rows updated: bytes read plus written */
  double stream_gbytes_per_s;    /* arrays in order */
  double cache_mib;              /* of the caches, per rank */
  double lookup_ns;              /* per id */
  double bag_ns;                 /* per bag */
  double update_ns;              /* per id of a backward pass: sort, sum */
  double pack_ns;                /* per id of input dist, both sides */
  double call_us;                /* per collective operation, or task */
  double dense_gflops;           /* dense layers, forward and backward */
  double slow_gbytes_per_s;      /* rows from slow memory to lines */
  double disk_gbytes_per_s;      /* and from files */
  double memory_gib;             /* per rank */
  ts_link link[TS_REACH_COUNT][TS_LINK_COUNT];
} ts_topology;

/* All figures, in the order of their file. */
int ts_topology_n_figures(void);
double *ts_topology_figure(ts_topology *, int i);
void ts_topology_default(ts_topology *);
/* "key = value" lines after a head comment; input/topology_example has them. */
ts_err ts_topology_print(ts_str *, const ts_topology *);
/* Keys that are not there keep the defaults.  NAME (a file) is for messages:
 * DECK errors give its line. */
ts_err ts_topology_parse(ts_topology *, const char *text, const char *name);
ts_err ts_topology_read(ts_topology *, const char *path);

/* The parts that a measurement uses; the lanes are idle. */
typedef struct ts_topology_bench {
  ts_world *world;
  ts_comm *control;
  ts_device *device;
  const ts_kernels *kernels;
  ts_lane *compute;
  const char *tier_dir; /* NULL: files are not measured */
} ts_topology_bench;

/* All but dense_gflops, which is the caller's to know.  All ranks measure at
 * the same time; the middle of their figures counts, so all get the same.
 * Under a second.  Collective. */
ts_err ts_topology_measure(ts_topology *, const ts_topology_bench *);
/* Figures of tables from the seconds of passes over them: N_BAGS bags of 8
 * ids, of 16 columns and of 128, of 128 within the caches, of 16 and one id.
 * Local. */
typedef struct ts_topology_pass {
  double forward, backward;
} ts_topology_pass;
typedef struct ts_topology_passes {
  ts_topology_pass narrow, wide, cached, single;
  int n_bags;
} ts_topology_passes;
void ts_topology_of_passes(ts_topology *, const ts_topology_passes *);
/* A link's figures, from seconds of a small collective and one of PIECE bytes
 * to each of the OTHERS; its part of *CALL_US is added.  Local. */
void ts_topology_of_link(ts_link *, double *call_us, int others, int64_t piece,
                         double small, double large);
/* So many times as much is measured as on a CPU: on GPUs that have the memory
 * for it.  Local. */
int ts_topology_times(const ts_topology_bench *);
/* topology_links.c: messages within nodes and across.  Collective. */
ts_err ts_topology_links(ts_topology *, const ts_topology_bench *);
/* topology_tiers.c: slow memory, and files in DIR (NULL: not measured), whose
 * pages are forgotten first.  Local. */
ts_err ts_topology_tiers(ts_topology *, const char *dir);
/* Memory of this machine, or what its control group allows of it, for each of
 * N_RANKS ranks on it.  Local. */
double ts_topology_memory_gib(int n_ranks);
/* X, or LEAST where X is less or no finite number.  Local. */
double ts_topology_at_least(double x, double least);
/* The better quarter of N passes, which it sorts: others on the machine only
 * ever slow one down.  Local. */
double ts_topology_quick(double *x, int n);
/* The middle of the ranks' values of X.  Collective. */
ts_err ts_topology_middle(double *x, ts_comm *);
