/* topology_measure.c - a machine's figures, from the program's own kernels
 * and collectives.
 *
 * All ranks measure at once, since that is how they will run: what they share
 * (memory, caches, cores, wires) is shared here, too.  Each figure is the
 * better quarter of a few passes; kernels' costs per id and per byte are told
 * apart by rows of two widths. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/trace.h"
#include "shard/topology.h"
#include "sparse/tbe.h"

enum {
  PASSES = 5,
  LINK_PASSES = 20, /* short, and easily disturbed */
  N_BAGS = 2048,
  PER_BAG = 8,
  NARROW = 16,
  WIDE = 128,
  LARGE_BYTES = 48 << 20, /* beyond the caches */
  SMALL_BYTES = 1 << 20,  /* within them */
  MESSAGE_BYTES = 1 << 20 /* of a collective, per rank */
};

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double middle(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_value);
  return x[n / 2];
}

/* The better quarter of N passes: others on the machine only ever slow one
 * down. */
static double quick(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_value);
  return x[n / 4];
}

ts_err ts_topology_middle(double *x, ts_comm *comm) {
  ts_err err = TS_OK;
  const int w = ts_comm_size(comm);
  double *all = NULL;
  TS_TRY(ts_mem_many(all, w, MISC));
  TS_TRY(ts_comm_gather_all(comm, all, x, sizeof *x));
  *x = middle(all, w);
done:
  ts_mem_free(all);
  return err;
}

/* ---- tables -------------------------------------------------------------- */

typedef struct ts_probe {
  const ts_topology_bench *bench;
  ts_table_config table;
  ts_tbe *tbe;
  int32_t per_bag;
  int64_t *offsets, *at;
  int32_t *rows;
  float *out;
} ts_probe;

static ts_err fill_probe(ts_probe *p) {
  const int64_t n = (int64_t)N_BAGS * p->per_bag;
  uint64_t x = 88172645463325252u;
  TS_DO(ts_mem_many(p->offsets, N_BAGS + 1, MISC));
  TS_DO(ts_mem_many(p->at, N_BAGS, MISC));
  TS_DO(ts_mem_many(p->rows, n, MISC));
  TS_DO(ts_mem_many(p->out, (int64_t)N_BAGS * p->table.dim, MISC));
  for (int b = 0; b <= N_BAGS; b++) p->offsets[b] = (int64_t)b * p->per_bag;
  for (int b = 0; b < N_BAGS; b++) p->at[b] = (int64_t)b * p->table.dim;
  for (int64_t i = 0; i < n; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    p->rows[i] = (int32_t)(x % (uint64_t)p->table.rows);
  }
  return TS_OK;
}

static ts_err run_probe(ts_probe *p, ts_topology_pass *times) {
  const ts_topology_bench *b = p->bench;
  const int64_t bag_start[] = {0, N_BAGS};
  const ts_tbe_input in = {.bag_start = bag_start,
                           .offsets = p->offsets,
                           .at = p->at,
                           .rows = p->rows,
                           .n_ids = p->offsets[N_BAGS]};
  double forward[PASSES], backward[PASSES];
  for (int i = -1; i < PASSES; i++) { /* pass -1 touches the memory */
    const double t0 = ts_now();
    TS_DO(ts_tbe_forward(p->tbe, p->out, &in, b->compute));
    TS_DO(ts_lane_sync(b->compute));
    const double t1 = ts_now();
    TS_DO(ts_tbe_backward(p->tbe, p->out, &in, 1.0, i + 2, b->compute));
    TS_DO(ts_lane_sync(b->compute));
    if (i < 0) continue;
    forward[i] = t1 - t0;
    backward[i] = ts_now() - t1;
  }
  *times = (ts_topology_pass){quick(forward, PASSES), quick(backward, PASSES)};
  return TS_OK;
}

static ts_err probe(ts_topology_pass *times, const ts_topology_bench *b,
                    int32_t dim, int64_t bytes, int32_t per_bag) {
  static char name[] = "probe", sgd[] = "rowwise_adagrad";
  ts_err err = TS_OK;
  ts_probe p = {.bench = b, .per_bag = per_bag};
  p.table = (ts_table_config){
      .name = name,
      .rows = bytes / (4 * dim),
      .dim = dim,
      .optimizer = {sgd, 0, NAN, NAN, NAN, NAN, NAN, NAN, 0, TS_WD_NONE}};
  TS_TRY(ts_row_optim_check(&p.table.optimizer, name));
  ts_tbe_table table = {&p.table, 0, 0, p.table.rows, 0, dim};
  const int32_t zero = 0;
  const ts_tbe_spec spec = {
      .tables = &table, .n_tables = 1, .feature_table = &zero, .n_features = 1};
  TS_TRY(ts_tbe_create(&p.tbe, b->device, b->kernels, &spec));
  TS_TRY(fill_probe(&p));
  TS_TRY(run_probe(&p, times));
done:
  ts_tbe_destroy(p.tbe);
  ts_mem_free(p.offsets);
  ts_mem_free(p.at);
  ts_mem_free(p.rows);
  ts_mem_free(p.out);
  return err;
}

static double at_least(double x, double least) {
  return isfinite(x) && x > least ? x : least;
}

void ts_topology_of_passes(ts_topology *t, const ts_topology_passes *x) {
  const double n = (double)N_BAGS * PER_BAG;
  const double narrow_bytes = 4.0 * NARROW, wide_bytes = 4.0 * WIDE;
  /* Time per id a + b bytes, from two widths. */
  const double slope =
      at_least((x->wide.forward - x->narrow.forward) / n, 1e-12) /
      (wide_bytes - narrow_bytes);
  t->read_gbytes_per_s = 1e-9 / slope;
  t->lookup_ns =
      at_least(1e9 * (x->narrow.forward / n - slope * narrow_bytes), 0.5);
  t->cache_gbytes_per_s =
      1e-9 * wide_bytes /
      at_least(x->cached.forward / n - 1e-9 * t->lookup_ns, wide_bytes / 200e9);
  t->bag_ns = at_least(1e9 * x->single.forward / N_BAGS - t->lookup_ns -
                           1e9 * slope * narrow_bytes,
                       1.0);
  /* A row is read and written; its gradient is read. */
  const double back =
      at_least((x->wide.backward - x->narrow.backward) / n, 1e-12) /
      (2 * (wide_bytes - narrow_bytes));
  t->write_gbytes_per_s = 1e-9 / back;
  t->update_ns =
      at_least(1e9 * (x->narrow.backward / n - 2 * back * narrow_bytes), 1.0);
}

static ts_err measure_tables(ts_topology *t, const ts_topology_bench *b) {
  ts_topology_passes x;
  TS_DO(probe(&x.narrow, b, NARROW, LARGE_BYTES, PER_BAG));
  TS_DO(probe(&x.wide, b, WIDE, LARGE_BYTES, PER_BAG));
  TS_DO(probe(&x.cached, b, WIDE, SMALL_BYTES, PER_BAG));
  TS_DO(probe(&x.single, b, NARROW, LARGE_BYTES, 1));
  ts_topology_of_passes(t, &x);
  return TS_OK;
}

/* ---- memory and input ---------------------------------------------------- */

static ts_err measure_stream(ts_topology *t) {
  ts_err err = TS_OK;
  enum { N = 4 << 20 };
  char *from = NULL, *to = NULL;
  double s[PASSES];
  TS_TRY(ts_mem_alloc(&from, N, TS_TAG_MISC));
  TS_TRY(ts_mem_alloc(&to, N, TS_TAG_MISC));
  for (int i = 0; i < PASSES; i++) {
    const double t0 = ts_now();
    memcpy(to, from, N);
    s[i] = ts_now() - t0;
    from[i] = to[i + 1] + 1;
  }
  t->stream_gbytes_per_s = 1e-9 * N / at_least(quick(s, PASSES), 1e-9);
done:
  ts_mem_free(from);
  ts_mem_free(to);
  return err;
}

/* Times input dist's work for an id: count, narrow, unpack, number the bags. */
static ts_err measure_pack(ts_topology *t) {
  ts_err err = TS_OK;
  enum { N = 1 << 16 };
  int64_t *ids = NULL, *offsets = NULL;
  int32_t *rows = NULL, *copy = NULL;
  double s[PASSES];
  TS_TRY(ts_mem_many(ids, N, MISC));
  TS_TRY(ts_mem_many(offsets, N + 1, MISC));
  TS_TRY(ts_mem_many(rows, N, MISC));
  TS_TRY(ts_mem_many(copy, N, MISC));
  for (int i = 0; i < PASSES; i++) {
    const double t0 = ts_now();
    int64_t n = 0;
    for (int k = 0; k < N; k++) n += (uint64_t)(ids[k] - i) < (uint64_t)N;
    for (int k = 0; k < N; k++) {
      const int64_t row = ids[k] + i;
      if ((uint64_t)row < (uint64_t)N) rows[k] = (int32_t)row;
    }
    memcpy(copy, rows, sizeof *rows * N);
    for (int k = 0; k < N; k++) offsets[k + 1] = offsets[k] + (copy[k] >= n);
    s[i] = ts_now() - t0;
    ids[i] = offsets[N];
  }
  t->pack_ns = at_least(1e9 * quick(s, PASSES) / N, 0.5);
done:
  ts_mem_free(ids);
  ts_mem_free(offsets);
  ts_mem_free(rows);
  ts_mem_free(copy);
  return err;
}

double ts_topology_memory_gib(int n_ranks) {
  const double pages = (double)sysconf(_SC_PHYS_PAGES);
  double bytes = pages * (double)sysconf(_SC_PAGESIZE), limit;
  FILE *f = fopen("/sys/fs/cgroup/memory.max", "r");
  if (f && fscanf(f, "%lf", &limit) == 1 && limit < bytes) bytes = limit;
  if (f) fclose(f);
  return bytes / (1 << 30) / n_ranks;
}

/* A core's own second-level caches, or its share of the last one. */
static void find_memory(ts_topology *t, const ts_topology_bench *b) {
  const int n = ts_world_node_size(b->world);
  const double own = (double)sysconf(_SC_LEVEL2_CACHE_SIZE) *
                     ts_device_options_of(b->device)->n_threads;
  const double shared = (double)sysconf(_SC_LEVEL3_CACHE_SIZE) / n / 4;
  t->memory_gib = ts_topology_memory_gib(n);
  t->cache_mib = at_least(fmax(own, shared) / (1 << 20), 0.25);
}

/* ---- links --------------------------------------------------------------- */

typedef struct ts_wire {
  ts_comm *comm;
  int64_t *counts; /* (W) */
  char *send, *recv;
} ts_wire;

static ts_err use_link(ts_wire *x, ts_link_use use, int64_t bytes) {
  ts_token token;
  const int w = ts_comm_size(x->comm);
  for (int r = 0; r < w; r++)
    x->counts[r] = use == TS_LINK_REDUCE_SCATTER ? bytes / 4 : bytes;
  if (use == TS_LINK_ALL_TO_ALL)
    TS_DO(ts_comm_all_to_all_v(x->comm, &token, x->recv, x->counts, x->send,
                               x->counts, NULL));
  else if (use == TS_LINK_REDUCE_SCATTER)
    TS_DO(ts_comm_reduce_scatter_v(x->comm, &token, x->recv, x->send, x->counts,
                                   TS_F32, NULL));
  else
    TS_DO(ts_comm_all_gather_v(x->comm, &token, x->recv, x->send, x->counts,
                               NULL));
  return ts_comm_wait(&token);
}

static ts_err time_link(ts_wire *x, ts_link_use use, int64_t bytes,
                        double *seconds) {
  double s[LINK_PASSES];
  for (int i = -1; i < LINK_PASSES; i++) {
    TS_DO(ts_comm_barrier(x->comm));
    const double t0 = ts_now();
    TS_DO(use_link(x, use, bytes));
    if (i >= 0) s[i] = ts_now() - t0;
  }
  *seconds = quick(s, LINK_PASSES);
  return TS_OK;
}

void ts_topology_of_link(ts_link *link, double *call_us, int others,
                         int64_t piece, double small, double large) {
  /* Half of a small operation is begun and waited for, however many ranks
   * take part; the rest grows with them. */
  *call_us += 1e6 * small / 2 / TS_LINK_COUNT;
  link->latency_us = at_least(1e6 * small / 2 / others, 0.1);
  link->gbytes_per_s =
      1e-9 * (double)(piece * others) / at_least(large - small, 1e-7);
}

static ts_err measure_link(ts_link *link, double *call_us, ts_wire *x,
                           ts_link_use use) {
  const int others = ts_comm_size(x->comm) - 1;
  const int64_t piece = MESSAGE_BYTES / (others + 1) / 64 * 64;
  double small, large;
  TS_DO(time_link(x, use, 64, &small));
  TS_DO(time_link(x, use, piece, &large));
  TS_DO(ts_topology_middle(&small, x->comm));
  TS_DO(ts_topology_middle(&large, x->comm));
  ts_topology_of_link(link, call_us, others, piece, small, large);
  return TS_OK;
}

static ts_err measure_reach(ts_topology *t, const ts_topology_bench *b,
                            ts_reach reach, bool *measured) {
  ts_err err = TS_OK;
  ts_wire x = {0};
  TS_TRY(ts_comm_create(b->world, &x.comm,
                        reach == TS_REACH_NODE ? TS_GROUP_NODE : TS_GROUP_CROSS,
                        "probe"));
  const int w = ts_comm_size(x.comm);
  *measured = w > 1;
  if (w == 1) goto done;
  t->call_us = 0;
  TS_TRY(ts_mem_many(x.counts, w, COMM));
  TS_TRY(ts_mem_alloc(&x.send, MESSAGE_BYTES, TS_TAG_COMM));
  TS_TRY(ts_mem_alloc(&x.recv, MESSAGE_BYTES, TS_TAG_COMM));
  for (int use = 0; use < TS_LINK_COUNT; use++)
    TS_TRY(
        measure_link(&t->link[reach][use], &t->call_us, &x, (ts_link_use)use));
done:
  ts_comm_destroy(x.comm);
  ts_mem_free(x.counts);
  ts_mem_free(x.send);
  ts_mem_free(x.recv);
  return err;
}

static ts_err measure_links(ts_topology *t, const ts_topology_bench *b) {
  bool node, cross;
  TS_DO(measure_reach(t, b, TS_REACH_NODE, &node));
  TS_DO(measure_reach(t, b, TS_REACH_CROSS, &cross));
  /* The reach that no rank has here is taken to be like the other. */
  int64_t has[2] = {node, cross};
  TS_DO(ts_comm_max_i64(b->control, has, 2));
  if (has[0] && !has[1])
    memcpy(t->link[TS_REACH_CROSS], t->link[TS_REACH_NODE],
           sizeof t->link[TS_REACH_NODE]);
  if (has[1] && !has[0])
    memcpy(t->link[TS_REACH_NODE], t->link[TS_REACH_CROSS],
           sizeof t->link[TS_REACH_NODE]);
  return TS_OK;
}

ts_err ts_topology_measure(ts_topology *t, const ts_topology_bench *b) {
  ts_topology_default(t);
  t->ranks = ts_world_size(b->world);
  t->ranks_per_node = ts_world_node_size(b->world);
  find_memory(t, b);
  TS_DO(ts_comm_barrier(b->control));
  TS_DO(measure_tables(t, b));
  TS_DO(measure_stream(t));
  TS_DO(measure_pack(t));
  TS_DO(measure_links(t, b));
  TS_DO(ts_topology_tiers(t, b->tier_dir));
  for (int i = 0; i < ts_topology_n_figures(); i++) {
    double *figure = ts_topology_figure(t, i);
    if (figure != &t->dense_gflops)
      TS_DO(ts_topology_middle(figure, b->control));
  }
  return TS_OK;
}
