/* bench_tbe.c - `tessera bench tbe [key=value]...`: lookup and fused backward
 * of one group beside the memory's limit, which is measured in the same
 * program: a plain loop that reads the same random rows with prefetch. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "commands/bench.h"
#include "runtime/topology.h"
#include "runtime/trace.h"
#include "sparse/tbe.h"

enum { N_INPUTS = 4 };

typedef struct ts_case {
  int tables, dim, batch, pool, threads, iters;
  int64_t rows, n;
  ts_table_config *config;
  ts_device *device;
  ts_lane *lane;
  ts_tbe *tbe;
  int64_t *offsets;
  int32_t *ids[N_INPUTS]; /* (n) */
  float *out, *grad;      /* (batch, tables * dim) */
} ts_case;

/* The same ids as the peers' benchmarks: bounded power law, scattered. */
static void draw(ts_case *c, double alpha) {
  const double R = (double)c->rows;
  for (int k = 0; k < N_INPUTS; k++)
    for (int64_t i = 0; i < c->n; i++) {
      uint32_t x[4];
      ts_rng4(x, 1, TS_RNG_TEST, (uint64_t)i, (uint32_t)k, 0);
      const double u = ts_rng_unit64(x[0], x[1]);
      double id = u * R;
      if (alpha > 0) {
        id = pow((pow(R, 1 - alpha) - 1) * u + 1, 1 / (1 - alpha));
        const uint64_t scattered =
            ((uint64_t)fmin(fmax(id, 1), R) - 1) * UINT64_C(2654435761);
        id = (double)(scattered % (uint64_t)c->rows);
      }
      c->ids[k][i] = (int32_t)id;
    }
}

/* Reads the rows of each id once, with prefetch; the sum keeps it honest.
 * Built for the widest vectors, so that only memory can limit it. */
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static double
plain_part(const ts_case *c, const float *weight, const int32_t *ids,
           int64_t from, int64_t to) {
  const int dim = c->dim, per = c->batch * c->pool;
  float sum[64] = {0};
  for (int64_t i = from; i < to; i++) {
    if (i + 16 < to) {
      const float *next =
          weight + ((i + 16) / per * c->rows + ids[i + 16]) * dim;
      for (int d = 0; d < dim; d += 16) __builtin_prefetch(next + d);
    }
    const float *row = weight + (i / per * c->rows + ids[i]) * dim;
    int d = 0;
    for (; d + 64 <= dim; d += 64)
      for (int v = 0; v < 64; v++) sum[v] += row[d + v];
    for (; d < dim; d++) sum[d % 64] += row[d];
  }
  double total = 0;
  for (int v = 0; v < 64; v++) total += sum[v];
  return total;
}

static double plain_loop(const ts_case *c, const float *weight,
                         const int32_t *ids) {
  double total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (int part = 0; part < 64; part++)
    total +=
        plain_part(c, weight, ids, c->n * part / 64, c->n * (part + 1) / 64);
  return total;
}

static double median_limit(ts_case *c) {
  double ms[64];
  const float *w = ts_tbe_rows(c->tbe, 0, -1, &(int32_t){0}, &(ts_dtype){0});
  volatile double sink = 0;
  for (int i = 0; i < c->iters; i++) {
    const double t0 = ts_now();
    sink += plain_loop(c, w, c->ids[i % N_INPUTS]);
    ms[i] = 1e3 * (ts_now() - t0);
  }
  return ts_bench_median(ms, c->iters);
}

static ts_tbe_input input_of(const ts_case *c, int i) {
  return (ts_tbe_input){.batch = c->batch,
                        .offsets = c->offsets,
                        .rows = c->ids[i % N_INPUTS],
                        .n_ids = c->n};
}

static ts_err run(ts_case *c, double *forward, double *backward) {
  ts_err err = TS_OK;
  double f[64], b[64];
  const int64_t stride = (int64_t)c->tables * c->dim;
  for (int i = 0; i < c->iters; i++) {
    const ts_tbe_input in = input_of(c, i);
    const double t0 = ts_now();
    TS_TRY(ts_tbe_forward(c->tbe, c->out, stride, &in, c->lane));
    TS_TRY(ts_lane_sync(c->lane));
    const double t1 = ts_now();
    TS_TRY(ts_tbe_backward(c->tbe, c->grad, stride, &in, 1.0, i + 1, c->lane));
    TS_TRY(ts_lane_sync(c->lane));
    f[i] = 1e3 * (t1 - t0);
    b[i] = 1e3 * (ts_now() - t1);
  }
  *forward = ts_bench_median(f + 2, c->iters - 2);
  *backward = ts_bench_median(b + 2, c->iters - 2);
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
  double forward, backward, sort = 0;
  draw(c, alpha);
  const double limit = median_limit(c);
  ts_timers_reset();
  TS_TRY(run(c, &forward, &backward));
  ts_timers_each(take_sort, &sort);
  const double bytes = (double)c->n * c->dim * 4;
  printf("%-7s %-9s %8.2f %8.1f %8.2f %8.1f %7.0f%% %9.2f %8.2f %8.2fx\n", isa,
         alpha > 0 ? "zipf" : "uniform", limit, bytes / limit / 1e6, forward,
         bytes / forward / 1e6, 100 * limit / forward, backward, sort,
         backward / forward);
done:
  return err;
}

static ts_err create(ts_case *c, const ts_kernels *k) {
  ts_err err = TS_OK;
  ts_tbe_table tables[c->tables];
  int32_t table[c->tables], col[c->tables];
  for (int t = 0; t < c->tables; t++) {
    tables[t] = (ts_tbe_table){c->config, t, 0, c->rows};
    table[t] = t;
    col[t] = t * c->dim;
  }
  const ts_tbe_spec spec = {.tables = tables,
                            .n_tables = c->tables,
                            .feature_table = table,
                            .feature_col = col,
                            .n_features = c->tables,
                            .seed = 1};
  TS_TRY(ts_tbe_create(&c->tbe, c->device, k, &spec));
  TS_TRY(ts_tbe_init(c->tbe));
done:
  return err;
}

static ts_err allocate(ts_case *c) {
  ts_err err = TS_OK;
  const int64_t bags = (int64_t)c->tables * c->batch;
  c->n = bags * c->pool;
  TS_TRY(ts_mem_array(&c->offsets, bags + 1, 8, TS_TAG_INPUT));
  for (int64_t i = 0; i <= bags; i++) c->offsets[i] = i * c->pool;
  for (int k = 0; k < N_INPUTS; k++)
    TS_TRY(ts_mem_array(&c->ids[k], c->n, 4, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&c->out, bags * c->dim, 4, TS_TAG_ACTIVATIONS));
  TS_TRY(ts_mem_array(&c->grad, bags * c->dim, 4, TS_TAG_ACTIVATIONS));
  for (int64_t i = 0; i < bags * c->dim; i++)
    c->grad[i] = (float)((i * 7919 % 2001) - 1000) * 1e-6f;
done:
  return err;
}

static void reset(ts_case *c) {
  ts_tbe_destroy(c->tbe);
  ts_lane_destroy(c->lane);
  ts_device_destroy(c->device);
  ts_mem_free(c->offsets);
  for (int k = 0; k < N_INPUTS; k++) ts_mem_free(c->ids[k]);
  ts_mem_free(c->out);
  ts_mem_free(c->grad);
}

static ts_err run_isa(ts_case *c, const char *isa, double alpha) {
  ts_err err = TS_OK;
  ts_kernels k;
  TS_TRY(ts_kernels_fill(&k, "host", isa));
  TS_TRY(create(c, &k));
  TS_TRY(measure(c, isa, 0));
  TS_TRY(measure(c, isa, alpha));
done:
  ts_tbe_destroy(c->tbe);
  c->tbe = NULL;
  return err;
}

ts_err ts_bench_tbe(const ts_args *a) {
  ts_err err = TS_OK;
  bool widened;
  char optim[] = "rowwise_adagrad", uniform[] = "uniform";
  ts_table_config config = {
      .name = optim, .init_kind = uniform, .dtype = TS_F32};
  ts_case c = {.tables = (int)ts_bench_number(a, "tables", 8),
               .dim = (int)ts_bench_number(a, "dim", 128),
               .batch = (int)ts_bench_number(a, "batch", 2048),
               .pool = (int)ts_bench_number(a, "pool", 20),
               .threads = (int)ts_bench_number(a, "threads", 0),
               .iters = (int)ts_bench_number(a, "iters", 19),
               .rows = (int64_t)ts_bench_number(a, "rows", 500000),
               .config = &config};
  const double alpha = ts_bench_number(a, "zipf", 1.05);
  const ts_cpu *cpu = ts_cpu_info();
  if (c.iters > 64) c.iters = 64;
  if (c.iters < 4) c.iters = 4;
  c.threads = ts_bind(c.threads, 0, 1, &widened);
  config.rows = c.rows;
  config.dim = c.dim;
  config.optimizer = (ts_optim_config){.kind = optim,
                                       .lr = NAN,
                                       .eps = NAN,
                                       .beta1 = NAN,
                                       .beta2 = NAN,
                                       .momentum = NAN,
                                       .eta = NAN,
                                       .weight_decay = NAN};
  const ts_device_options options = {.serial = true, .n_threads = c.threads};
  TS_TRY(ts_row_optim_check(&config.optimizer, "bench"));
  TS_TRY(ts_device_create(&c.device, "host", &options));
  TS_TRY(ts_lane_create(c.device, &c.lane, "compute", TS_LANE_COMPUTE));
  TS_TRY(allocate(&c));
  printf("%d tables x %lld x %d f32, batch %d, pooling %d, %d threads, "
         "row-wise Adagrad; %s\n",
         c.tables, (long long)c.rows, c.dim, c.batch, c.pool, c.threads,
         cpu->model);
  printf("%-7s %-9s %8s %8s %8s %8s %8s %9s %8s %9s\n", "kernels", "ids",
         "limit ms", "GB/s", "fwd ms", "GB/s", "of limit", "bwd ms", "sort ms",
         "bwd/fwd");
  TS_TRY(run_isa(&c, "ref", alpha));
  if (cpu->avx2) TS_TRY(run_isa(&c, "avx2", alpha));
  if (cpu->avx512) TS_TRY(run_isa(&c, "avx512", alpha));
done:
  reset(&c);
  return err;
}
