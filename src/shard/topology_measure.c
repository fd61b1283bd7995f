/* topology_measure.c - a machine's figures, from the program's own kernels
 * and collectives.
 *
 * All ranks measure at once, since that is how they will run: what they share
 * (memory, caches, cores, wires) is shared here, too.  Each figure is the
 * better quarter of a few passes; kernels' costs per id and per byte are told
 * apart by rows of two widths.  What kernels and collectives of a step find in
 * the device's memory lies there here, too, and is larger on a GPU. */
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
  N_BAGS = 2048,
  PER_BAG = 8,
  NARROW = 16,
  WIDE = 128,
  LARGE_BYTES = 48 << 20, /* beyond the caches */
  SMALL_BYTES = 1 << 20,  /* within them */
  STREAM_BYTES = 4 << 20,
  GPUS = 16,       /* times as many bags and bytes */
  PACK_BYTES = 140 /* that input dist moves for an id on a GPU */
};

int ts_topology_times(const ts_topology_bench *b) {
  ts_device_info info = {.bytes = 0};
  (void)ts_device_describe(b->device, &info);
  return info.bytes >= 16e9 ? GPUS : 1;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double middle(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_value);
  return x[n / 2];
}

double ts_topology_quick(double *x, int n) {
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

/* The arrays of a probe: its input and output, in the device's memory. */
enum { OFFSETS, AT, ROWS, OUT, N_ARRAYS };

typedef struct ts_probe {
  const ts_topology_bench *bench;
  ts_table_config table;
  ts_tbe *tbe;
  int32_t n_bags, per_bag;
  ts_buffer array[N_ARRAYS];
} ts_probe;

/* N numbers of SIZE bytes; FROM NULL: zeroes. */
static ts_err put(ts_probe *p, int which, const void *from, int64_t n,
                  size_t size) {
  const size_t bytes = (size_t)n * size;
  TS_DO(ts_buffer_create(&p->array[which], p->bench->device, bytes,
                         TS_SPACE_DEVICE, TS_TAG_MISC));
  if (!from) return TS_OK;
  TS_DO(ts_lane_copy(p->bench->compute, p->array[which].ptr, from, bytes));
  return ts_lane_sync(p->bench->compute);
}

static ts_err fill_probe(ts_probe *p) {
  ts_err err = TS_OK;
  const int64_t n_bags = p->n_bags, n = n_bags * p->per_bag;
  int64_t *offsets = NULL, *at = NULL;
  int32_t *rows = NULL;
  uint64_t x = 88172645463325252u;
  TS_TRY(ts_mem_many(offsets, n_bags + 1, MISC));
  TS_TRY(ts_mem_many(at, n_bags, MISC));
  TS_TRY(ts_mem_many(rows, n, MISC));
  for (int64_t b = 0; b <= n_bags; b++) offsets[b] = b * p->per_bag;
  for (int64_t b = 0; b < n_bags; b++) at[b] = b * p->table.dim;
  for (int64_t i = 0; i < n; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    rows[i] = (int32_t)(x % (uint64_t)p->table.rows);
  }
  TS_TRY(put(p, OFFSETS, offsets, n_bags + 1, sizeof *offsets));
  TS_TRY(put(p, AT, at, n_bags, sizeof *at));
  TS_TRY(put(p, ROWS, rows, n, sizeof *rows));
  TS_TRY(put(p, OUT, NULL, n_bags * p->table.dim, sizeof(float)));
done:
  ts_mem_free(offsets);
  ts_mem_free(at);
  ts_mem_free(rows);
  return err;
}

static ts_err run_probe(ts_probe *p, ts_topology_pass *times) {
  const ts_topology_bench *b = p->bench;
  const int64_t bag_start[] = {0, p->n_bags};
  float *out = p->array[OUT].ptr;
  const ts_tbe_input in = {.bag_start = bag_start,
                           .offsets = p->array[OFFSETS].ptr,
                           .at = p->array[AT].ptr,
                           .rows = p->array[ROWS].ptr,
                           .n_ids = (int64_t)p->n_bags * p->per_bag};
  double forward[PASSES], backward[PASSES];
  for (int i = -1; i < PASSES; i++) { /* pass -1 touches the memory */
    const double t0 = ts_now();
    TS_DO(ts_tbe_forward(p->tbe, out, &in, b->compute));
    TS_DO(ts_lane_sync(b->compute));
    const double t1 = ts_now();
    TS_DO(ts_tbe_backward(p->tbe, out, &in, 1.0, i + 2, b->compute));
    TS_DO(ts_lane_sync(b->compute));
    if (i < 0) continue;
    forward[i] = t1 - t0;
    backward[i] = ts_now() - t1;
  }
  *times = (ts_topology_pass){ts_topology_quick(forward, PASSES),
                              ts_topology_quick(backward, PASSES)};
  return TS_OK;
}

/* Of ROWS_BYTES of rows. */
static ts_err probe(ts_topology_pass *times, const ts_topology_bench *b,
                    int32_t dim, int64_t rows_bytes, int32_t per_bag) {
  static char name[] = "probe", sgd[] = "rowwise_adagrad";
  ts_err err = TS_OK;
  ts_probe p = {
      .bench = b, .per_bag = per_bag, .n_bags = N_BAGS * ts_topology_times(b)};
  p.table = (ts_table_config){
      .name = name,
      .rows = rows_bytes / (4 * dim),
      .dim = dim,
      .optimizer = {sgd, 0, NAN, NAN, NAN, NAN, NAN, NAN, 0, TS_WD_NONE}};
  TS_TRY(ts_row_optim_check(&p.table.optimizer, name));
  ts_tbe_table table = {
      .config = &p.table, .n_rows = p.table.rows, .n_cols = dim};
  const int32_t zero = 0;
  const ts_tbe_spec spec = {
      .tables = &table, .n_tables = 1, .feature_table = &zero, .n_features = 1};
  TS_TRY(ts_tbe_create(&p.tbe, b->device, b->kernels, &spec));
  TS_TRY(fill_probe(&p));
  TS_TRY(run_probe(&p, times));
done:
  ts_tbe_destroy(p.tbe);
  for (int i = 0; i < N_ARRAYS; i++) ts_buffer_reset(&p.array[i]);
  return err;
}

double ts_topology_at_least(double x, double least) {
  return isfinite(x) && x > least ? x : least;
}

void ts_topology_of_passes(ts_topology *t, const ts_topology_passes *x) {
  const double n = (double)x->n_bags * PER_BAG;
  const double narrow_bytes = 4.0 * NARROW, wide_bytes = 4.0 * WIDE;
  /* Time per id a + b bytes, from two widths. */
  const double slope =
      ts_topology_at_least((x->wide.forward - x->narrow.forward) / n, 1e-12) /
      (wide_bytes - narrow_bytes);
  t->read_gbytes_per_s = 1e-9 / slope;
  t->lookup_ns = ts_topology_at_least(
      1e9 * (x->narrow.forward / n - slope * narrow_bytes), 0.5);
  t->cache_gbytes_per_s =
      1e-9 * wide_bytes /
      ts_topology_at_least(x->cached.forward / n - 1e-9 * t->lookup_ns,
                           wide_bytes / 200e9);
  t->bag_ns =
      ts_topology_at_least(1e9 * x->single.forward / x->n_bags - t->lookup_ns -
                               1e9 * slope * narrow_bytes,
                           1.0);
  /* A row is read and written; its gradient is read. */
  const double back =
      ts_topology_at_least((x->wide.backward - x->narrow.backward) / n, 1e-12) /
      (2 * (wide_bytes - narrow_bytes));
  t->write_gbytes_per_s = 1e-9 / back;
  t->update_ns = ts_topology_at_least(
      1e9 * (x->narrow.backward / n - 2 * back * narrow_bytes), 1.0);
}

static ts_err measure_tables(ts_topology *t, const ts_topology_bench *b) {
  ts_topology_passes x = {.n_bags = N_BAGS * ts_topology_times(b)};
  const int64_t large = (int64_t)LARGE_BYTES * ts_topology_times(b);
  const int64_t small = (int64_t)SMALL_BYTES * ts_topology_times(b);
  TS_DO(probe(&x.narrow, b, NARROW, large, PER_BAG));
  TS_DO(probe(&x.wide, b, WIDE, large, PER_BAG));
  TS_DO(probe(&x.cached, b, WIDE, small, PER_BAG));
  TS_DO(probe(&x.single, b, NARROW, large, 1));
  ts_topology_of_passes(t, &x);
  return TS_OK;
}

/* ---- memory and input ---------------------------------------------------- */

static ts_err copy_once(const ts_topology_bench *b, char *to, const char *from,
                        size_t bytes) {
  if (!ts_device_is_discrete(b->device)) {
    memcpy(to, from, bytes);
    return TS_OK;
  }
  TS_DO(ts_lane_copy(b->compute, to, from, bytes));
  return ts_lane_sync(b->compute);
}

static ts_err measure_stream(ts_topology *t, const ts_topology_bench *b) {
  ts_err err = TS_OK;
  const size_t n = (size_t)STREAM_BYTES * (size_t)ts_topology_times(b);
  ts_buffer from = {0}, to = {0};
  double s[PASSES];
  TS_TRY(ts_buffer_create(&from, b->device, n, TS_SPACE_DEVICE, TS_TAG_MISC));
  TS_TRY(ts_buffer_create(&to, b->device, n, TS_SPACE_DEVICE, TS_TAG_MISC));
  for (int i = 0; i < PASSES; i++) {
    const double t0 = ts_now();
    TS_TRY(copy_once(b, to.ptr, from.ptr, n));
    s[i] = ts_now() - t0;
  }
  t->stream_gbytes_per_s =
      1e-9 * (double)n /
      ts_topology_at_least(ts_topology_quick(s, PASSES), 1e-9);
done:
  ts_buffer_reset(&from);
  ts_buffer_reset(&to);
  return err;
}

/* Times input dist's work for an id: count, narrow, unpack, number the bags.
 * A GPU's kernels for that are as fast as its memory. */
static ts_err measure_pack(ts_topology *t, const ts_topology_bench *b) {
  ts_err err = TS_OK;
  enum { N = 1 << 16 };
  int64_t *ids = NULL, *offsets = NULL;
  int32_t *rows = NULL, *copy = NULL;
  double s[PASSES];
  if (ts_device_is_discrete(b->device)) {
    t->pack_ns = PACK_BYTES / t->stream_gbytes_per_s;
    return TS_OK;
  }
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
  t->pack_ns =
      ts_topology_at_least(1e9 * ts_topology_quick(s, PASSES) / N, 0.5);
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
  t->cache_mib = ts_topology_at_least(fmax(own, shared) / (1 << 20), 0.25);
}

/* All figures that a rank measures without the others. */
static ts_err measure_own(ts_topology *t, const ts_topology_bench *b) {
  TS_DO(measure_tables(t, b));
  TS_DO(measure_stream(t, b));
  return measure_pack(t, b);
}

ts_err ts_topology_measure(ts_topology *t, const ts_topology_bench *b) {
  ts_topology_default(t);
  t->ranks = ts_world_size(b->world);
  t->ranks_per_node = ts_world_node_size(b->world);
  find_memory(t, b);
  TS_DO(ts_comm_barrier(b->control));
  TS_DO(ts_agree(b->control, measure_own(t, b)));
  TS_DO(ts_topology_links(t, b));
  TS_DO(ts_topology_tiers(t, b->tier_dir));
  for (int i = 0; i < ts_topology_n_figures(); i++) {
    double *figure = ts_topology_figure(t, i);
    if (figure != &t->dense_gflops)
      TS_DO(ts_topology_middle(figure, b->control));
  }
  return TS_OK;
}
