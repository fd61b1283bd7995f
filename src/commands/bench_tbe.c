/* bench_tbe.c - `tessera bench tbe [key=value]...`: lookup and fused backward
 * of one group, beside simple loops over the same memory in the same
 * program. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "commands/bench.h"
#include "runtime/topology.h"
#include "runtime/trace.h"
#include "sparse/tbe.h"

enum { N_INPUTS = 4, ITERS_MAX = 1000 };

/* The command line's, with defaults. */
typedef struct ts_tbe_options {
  double tables, rows, dim, batch, pool, threads, iters, zipf;
  int dtype, mean, weighted;
  const char *optimizer;
} ts_tbe_options;

typedef struct ts_case {
  int tables, dim, batch, pool, threads, iters;
  bool mean;
  int64_t rows, n, row_bytes;
  double alpha;
  ts_table_config *config;
  ts_device *device;
  ts_lane *lane;
  ts_tbe *tbe;
  int64_t *offsets, *starts, *at;
  int32_t *ids[N_INPUTS]; /* (n) */
  uint32_t *touched;      /* (n_touched) distinct rows, ascending */
  int64_t n_touched;
  float *weights;    /* (n) or NULL */
  float *out, *grad; /* (batch, tables * dim) */
} ts_case;

/* Medians in ms. */
typedef struct ts_times {
  double stream, plain, rewrite, forward, backward, sort;
} ts_times;

/* ---- input --------------------------------------------------------------- */

/* A row in [1, R] by a bounded power law. */
static double power_law(double u, double R, double alpha) {
  if (fabs(alpha - 1) < 1e-9) return pow(R, u);
  return pow((pow(R, 1 - alpha) - 1) * u + 1, 1 / (1 - alpha));
}

/* The same ids as the peers' benchmarks: bounded power law, scattered. */
static void draw(ts_case *c, double alpha) {
  const double R = (double)c->rows;
  for (int k = 0; k < N_INPUTS; k++)
    for (int64_t i = 0; i < c->n; i++) {
      uint32_t x[4];
      ts_rng4(x, 1, TS_RNG_TEST, (uint64_t)i, (uint32_t)k, 0);
      const double u = ts_rng_unit64(x[0], x[1]);
      uint64_t id = (uint64_t)(u * R);
      if (alpha > 0) {
        id = (uint64_t)fmin(fmax(power_law(u, R, alpha), 1), R) - 1;
        id = id * UINT64_C(2654435761) % (uint64_t)c->rows;
      }
      c->ids[k][i] = (int32_t)id;
    }
}

static int by_number(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* The rows of input K. */
static void touch(ts_case *c, int k) {
  const int64_t per_table = (int64_t)c->batch * c->pool;
  for (int64_t i = 0; i < c->n; i++)
    c->touched[i] = (uint32_t)(i / per_table * c->rows + c->ids[k][i]);
  qsort(c->touched, (size_t)c->n, sizeof *c->touched, by_number);
  c->n_touched = 0;
  for (int64_t i = 0; i < c->n; i++)
    if (i == 0 || c->touched[i] != c->touched[c->n_touched - 1])
      c->touched[c->n_touched++] = c->touched[i];
}

static ts_err allocate(ts_case *c, bool weighted) {
  ts_err err = TS_OK;
  const int64_t bags = (int64_t)c->tables * c->batch;
  TS_TRY(ts_mem_array(&c->offsets, bags + 1, 8, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&c->starts, c->tables + 1, 8, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&c->at, bags, 8, TS_TAG_INPUT));
  for (int64_t i = 0; i <= bags; i++) c->offsets[i] = i * c->pool;
  for (int t = 0; t <= c->tables; t++) c->starts[t] = (int64_t)t * c->batch;
  for (int64_t i = 0; i < bags; i++)
    c->at[i] = (i % c->batch * c->tables + i / c->batch) * c->dim;
  for (int k = 0; k < N_INPUTS; k++)
    TS_TRY(ts_mem_array(&c->ids[k], c->n, 4, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&c->touched, c->n, 4, TS_TAG_INPUT));
  if (weighted) TS_TRY(ts_mem_array(&c->weights, c->n, 4, TS_TAG_INPUT));
  for (int64_t i = 0; weighted && i < c->n; i++)
    c->weights[i] = (float)(i * 7919 % 1000 + 1) * 1e-3f;
  TS_TRY(ts_mem_array(&c->out, bags * c->dim, 4, TS_TAG_ACTIVATIONS));
  TS_TRY(ts_mem_array(&c->grad, bags * c->dim, 4, TS_TAG_ACTIVATIONS));
  for (int64_t i = 0; i < bags * c->dim; i++)
    c->grad[i] = (float)((i * 7919 % 2001) - 1000) * 1e-6f;
done:
  return err;
}

static ts_tbe_input input_of(const ts_case *c, int i) {
  return (ts_tbe_input){.bag_start = c->starts,
                        .offsets = c->offsets,
                        .at = c->at,
                        .rows = c->ids[i % N_INPUTS],
                        .weights = c->weights,
                        .n_ids = c->n};
}

/* ---- measuring ----------------------------------------------------------- */

/* As many bytes as the ids' rows, or all that there are; each time others. */
static double stream(ts_case *c, const char *w, int i) {
  const int64_t all = c->tables * c->rows * c->row_bytes;
  const int64_t some = c->n * c->row_bytes, used = some < all ? some : all;
  const int64_t n_parts = all / used, at = i % n_parts * used;
  return ts_bench_read_stream(w + at, used) * (double)some / (double)used;
}

static void measure_memory(ts_case *c, ts_times *t) {
  double rows[ITERS_MAX], streams[ITERS_MAX], rewrites[ITERS_MAX];
  char *w = ts_tbe_rows(c->tbe, 0, -1, &(int32_t){0}, &(ts_dtype){0});
  for (int i = 0; i < c->iters; i++) {
    const ts_bench_rows r = {.first = w,
                             .row_bytes = c->row_bytes,
                             .rows_per_table = c->rows,
                             .ids = c->ids[i % N_INPUTS],
                             .n_ids = c->n,
                             .ids_per_table = (int64_t)c->batch * c->pool};
    rows[i] = 1e3 * ts_bench_read_rows(&r);
    streams[i] = 1e3 * stream(c, w, i);
    if (i < N_INPUTS) touch(c, i);
    rewrites[i] =
        1e3 * ts_bench_rewrite_rows(w, c->row_bytes, c->touched, c->n_touched);
  }
  t->plain = ts_bench_median(rows, c->iters);
  t->stream = ts_bench_median(streams, c->iters);
  t->rewrite = ts_bench_median(rewrites, c->iters);
}

static ts_err measure_group(ts_case *c, ts_times *t) {
  ts_err err = TS_OK;
  double f[ITERS_MAX], b[ITERS_MAX];
  for (int i = 0; i < c->iters; i++) {
    const ts_tbe_input in = input_of(c, i);
    const double t0 = ts_now();
    TS_TRY(ts_tbe_forward(c->tbe, c->out, &in, c->lane));
    TS_TRY(ts_lane_sync(c->lane));
    const double t1 = ts_now();
    TS_TRY(ts_tbe_backward(c->tbe, c->grad, &in, 1.0, i + 1, c->lane));
    TS_TRY(ts_lane_sync(c->lane));
    f[i] = 1e3 * (t1 - t0);
    b[i] = 1e3 * (ts_now() - t1);
  }
  t->forward = ts_bench_median(f + 2, c->iters - 2);
  t->backward = ts_bench_median(b + 2, c->iters - 2);
done:
  return err;
}

static void take_sort(const char *phase, double seconds, int64_t calls,
                      void *arg) {
  if (!strcmp(phase, "  of it sort"))
    *(double *)arg = 1e3 * seconds / (double)calls;
}

static ts_err measure(ts_case *c, const char *isa, double alpha) {
  ts_err err = TS_OK;
  ts_times t = {0};
  draw(c, alpha);
  measure_memory(c, &t);
  ts_timers_reset();
  TS_TRY(measure_group(c, &t));
  ts_timers_each(take_sort, &t.sort);
  const double mb = (double)c->n * (double)c->row_bytes / 1e6;
  printf("%-7s %-7s %8.1f %8.2f %7.1f %8.2f %7.1f %8.0f%% %8.2f %8.2f %8.2f "
         "%7.0f%% %7.2f\n",
         isa, alpha > 0 ? "zipf" : "uniform", mb / t.stream, t.plain,
         mb / t.plain, t.forward, mb / t.forward, 100 * t.plain / t.forward,
         t.rewrite, t.backward, t.sort, 100 * t.rewrite / (t.backward - t.sort),
         t.backward / t.forward);
done:
  return err;
}

static ts_err create(ts_case *c, const ts_kernels *k) {
  ts_err err = TS_OK;
  ts_tbe_table tables[c->tables];
  int32_t table[c->tables];
  for (int t = 0; t < c->tables; t++) {
    tables[t] = (ts_tbe_table){c->config, t, 0, c->rows, 0, c->dim};
    table[t] = t;
  }
  const ts_tbe_spec spec = {.tables = tables,
                            .n_tables = c->tables,
                            .feature_table = table,
                            .n_features = c->tables,
                            .mean = c->mean,
                            .seed = 1};
  TS_TRY(ts_tbe_create(&c->tbe, c->device, k, &spec));
  TS_TRY(ts_tbe_init(c->tbe));
done:
  return err;
}

static ts_err run_isa(ts_case *c, const char *isa) {
  ts_err err = TS_OK;
  ts_kernels k;
  TS_TRY(ts_kernels_fill(&k, "host", isa));
  TS_TRY(create(c, &k));
  TS_TRY(measure(c, isa, 0));
  if (c->alpha > 0) TS_TRY(measure(c, isa, c->alpha));
done:
  ts_tbe_destroy(c->tbe);
  c->tbe = NULL;
  return err;
}

/* ---- report -------------------------------------------------------------- */

static void print_header(const ts_case *c) {
  printf("%d tables x %lld x %d %s, batch %d, pooling %d%s%s, %d threads, %s; "
         "%s\n",
         c->tables, (long long)c->rows, c->dim, ts_dtype_name(c->config->dtype),
         c->batch, c->pool, c->mean ? ", mean" : "",
         c->weights ? ", weighted" : "", c->threads, c->config->optimizer.kind,
         ts_cpu_info()->model);
  printf("%-7s %-7s %8s %8s %7s %8s %7s %9s %8s %8s %8s %8s %7s\n", "", "",
         "stream", "plain", "", "forward", "", "of", "rewrite", "backward",
         "sort", "of", "bwd/");
  printf("%-7s %-7s %8s %8s %7s %8s %7s %9s %8s %8s %8s %8s %7s\n", "kernels",
         "ids", "GB/s", "ms", "GB/s", "ms", "GB/s", "plain", "ms", "ms", "ms",
         "rewrite", "fwd");
}

static int64_t peak_of(ts_tag tag) {
  return ts_mem_stat_of(tag, TS_SPACE_HOST).peak_bytes;
}

static void print_memory(const ts_case *c) {
  static const ts_tag parts[] = {TS_TAG_ACTIVATIONS, TS_TAG_INPUT,
                                 TS_TAG_SPARSE};
  static const char *const names[] = {"output and gradient", "input",
                                      "lookup and backward"};
  char text[32];
  const int64_t out = (int64_t)c->tables * c->batch * c->dim * 4;
  const int64_t beyond = ts_mem_total(TS_SPACE_HOST).peak_bytes -
                         peak_of(TS_TAG_TABLES) - peak_of(TS_TAG_ROW_STATE);
  printf("peak memory beyond tables and row state: %s",
         ts_str_bytes(text, beyond));
  printf(", %.2f x the output's %s\n", (double)beyond / (double)out,
         ts_str_bytes(text, out));
  for (int i = 0; i < 3; i++)
    printf("  %-20s %12s %6.2f x\n", names[i],
           ts_str_bytes(text, peak_of(parts[i])),
           (double)peak_of(parts[i]) / (double)out);
}

/* ---- the command --------------------------------------------------------- */

static ts_err read_options(ts_tbe_options *o, const ts_args *a) {
  const ts_bench_key keys[] = {
      {.name = "tables", .number = &o->tables, .least = 1, .most = 1000},
      {.name = "rows", .number = &o->rows, .least = 1, .most = 2e9},
      {.name = "dim", .number = &o->dim, .least = 1, .most = 8192},
      {.name = "batch", .number = &o->batch, .least = 1, .most = 1e6},
      {.name = "pool", .number = &o->pool, .least = 1, .most = 1e4},
      {.name = "threads", .number = &o->threads, .least = 0, .most = 1024},
      {.name = "iters", .number = &o->iters, .least = 4, .most = ITERS_MAX},
      {.name = "zipf", .number = &o->zipf, .least = 0, .most = 10},
      {.name = "dtype", .choice = &o->dtype, .choices = "f32|bf16|f16"},
      {.name = "pooling", .choice = &o->mean, .choices = "sum|mean"},
      {.name = "weighted", .choice = &o->weighted, .choices = "0|1"},
      {.name = "optimizer", .word = &o->optimizer}};
  if (a->n_sets)
    return ts_fail(TS_ERR_USAGE, "bench tbe has no deck for --set; its keys "
                                 "are words of their own, as in rows=1000");
  return ts_bench_keys(a, 0, keys, (int)(sizeof keys / sizeof *keys));
}

static ts_err fill(ts_case *c, const ts_tbe_options *o) {
  static const ts_dtype dtypes[] = {TS_F32, TS_BF16, TS_F16};
  bool widened;
  c->tables = (int)o->tables, c->dim = (int)o->dim;
  c->batch = (int)o->batch, c->pool = (int)o->pool;
  c->iters = (int)o->iters, c->rows = (int64_t)o->rows;
  c->mean = o->mean, c->alpha = o->zipf;
  c->n = (int64_t)c->tables * c->batch * c->pool;
  c->threads = ts_bind((int)o->threads, 0, 1, &widened);
  if (c->n > UINT32_MAX || c->tables * c->rows > UINT32_MAX)
    return ts_fail(TS_ERR_USAGE, "bench: tables x batch x pool and tables x "
                                 "rows have to be below 2^32");
  ts_table_config *t = c->config;
  t->dtype = dtypes[o->dtype];
  t->rows = c->rows;
  t->dim = c->dim;
  c->row_bytes = c->dim * (int64_t)ts_dtype_bytes(t->dtype);
  return ts_row_optim_check(&t->optimizer, "bench");
}

static ts_err run_all(ts_case *c) {
  ts_err err = TS_OK;
  const ts_cpu *cpu = ts_cpu_info();
  print_header(c);
  TS_TRY(run_isa(c, "ref"));
  if (cpu->avx2) TS_TRY(run_isa(c, "avx2"));
  if (cpu->avx512) TS_TRY(run_isa(c, "avx512"));
  print_memory(c);
done:
  return err;
}

static void reset(ts_case *c) {
  ts_lane_destroy(c->lane);
  ts_device_destroy(c->device);
  ts_mem_free(c->offsets);
  ts_mem_free(c->starts);
  ts_mem_free(c->at);
  for (int k = 0; k < N_INPUTS; k++) ts_mem_free(c->ids[k]);
  ts_mem_free(c->touched);
  ts_mem_free(c->weights);
  ts_mem_free(c->out);
  ts_mem_free(c->grad);
  ts_mem_free(c->config->optimizer.kind);
}

ts_err ts_bench_tbe(const ts_args *a) {
  ts_err err = TS_OK;
  char name[] = "bench", uniform[] = "uniform";
  ts_tbe_options o = {.tables = 8,
                      .rows = 500000,
                      .dim = 128,
                      .batch = 2048,
                      .pool = 20,
                      .iters = 19,
                      .zipf = 1.05,
                      .optimizer = "rowwise_adagrad"};
  ts_table_config config = {.name = name,
                            .init_kind = uniform,
                            .optimizer = {.lr = NAN,
                                          .eps = NAN,
                                          .beta1 = NAN,
                                          .beta2 = NAN,
                                          .momentum = NAN,
                                          .eta = NAN,
                                          .weight_decay = NAN}};
  ts_case c = {.config = &config};
  TS_TRY(read_options(&o, a));
  TS_TRY(ts_mem_strdup(&config.optimizer.kind, o.optimizer));
  TS_TRY(fill(&c, &o));
  const ts_device_options options = {.serial = true, .n_threads = c.threads};
  TS_TRY(ts_device_create(&c.device, "host", &options));
  TS_TRY(ts_lane_create(c.device, &c.lane, "compute", TS_LANE_COMPUTE));
  TS_TRY(allocate(&c, o.weighted));
  TS_TRY(run_all(&c));
done:
  reset(&c);
  return err;
}
