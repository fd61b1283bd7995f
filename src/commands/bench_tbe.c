/* bench_tbe.c - `tessera bench tbe [key=value]...`: lookup and fused backward
 * of one group, beside simple loops over the same memory in the same
 * program; on other devices than the host bench_tbe_device.c. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "commands/bench_table.h"
#include "commands/bench_tbe.h"
#include "runtime/topology.h"
#include "runtime/trace.h"

enum { ITERS_MAX = 1000, COOL = 64 << 20 };

/* The command line's, with defaults. */
typedef struct ts_tbe_options {
  double rows, load;
  int dtype, mean, weighted, sweep, dynamic;
  const char *optimizer, *backend;
} ts_tbe_options;

/* Medians in ms. */
typedef struct ts_times {
  double stream, plain, pool, rewrite, forward, backward, sort;
} ts_times;

/* ---- measuring ----------------------------------------------------------- */

/* As many bytes as the ids' rows, or all that there are; each time others. */
static double stream(ts_tbe_case *c, const char *w, int i) {
  const int64_t all = c->tables * c->rows * c->row_bytes;
  const int64_t some = c->n * c->row_bytes, used = some < all ? some : all;
  const int64_t n_parts = all / used, at = i % n_parts * used;
  return ts_bench_read_stream(w + at, used) * (double)some / (double)used;
}

static ts_bench_rows rows_of(ts_tbe_case *c, int i) {
  return (ts_bench_rows){
      .first = ts_tbe_rows(c->tbe, 0, -1, &(int32_t){0}, &(ts_dtype){0}),
      .row_bytes = c->row_bytes,
      .rows_per_table = c->rows,
      .ids = c->ids[i % TS_TBE_INPUTS],
      .n_ids = c->n,
      .ids_per_table = (int64_t)c->batch * c->pool};
}

static void measure_memory(ts_tbe_case *c, ts_times *t) {
  double rows[ITERS_MAX], streams[ITERS_MAX];
  char *w = ts_tbe_rows(c->tbe, 0, -1, &(int32_t){0}, &(ts_dtype){0});
  for (int i = 0; i < c->iters; i++) {
    const ts_bench_rows r = rows_of(c, i);
    rows[i] = 1e3 * ts_bench_read_rows(&r);
    streams[i] = 1e3 * stream(c, w, i);
  }
  t->plain = ts_bench_median(rows, c->iters);
  t->stream = ts_bench_median(streams, c->iters);
}

void ts_tbe_case_cool(ts_tbe_case *c, int i) {
  const ts_bench_rows r = rows_of(c, i);
  const int64_t all = c->tables * c->rows * c->row_bytes;
  const int64_t used = all < COOL ? all : COOL;
  (void)ts_bench_read_stream((const char *)r.first + i % (all / used) * used,
                             used);
}

ts_err ts_tbe_case_passes(ts_tbe_case *c, int i, const ts_tbe_input *in,
                          float *out, const float *grad, double *f, double *b) {
  const double t0 = ts_now();
  TS_DO(ts_tbe_forward(c->tbe, out, in, c->lane));
  TS_DO(ts_lane_sync(c->lane));
  const double t1 = ts_now();
  TS_DO(ts_tbe_backward(c->tbe, grad, in, 1.0, i + 1, c->lane));
  TS_DO(ts_lane_sync(c->lane));
  *f = 1e3 * (t1 - t0);
  *b = 1e3 * (ts_now() - t1);
  return TS_OK;
}

ts_err ts_tbe_case_time(ts_tbe_case *c, int i, double *f, double *b) {
  const ts_tbe_input in = ts_tbe_case_input(c, i);
  return ts_tbe_case_passes(c, i, &in, c->out, c->grad, f, b);
}

/* The bare loops over the same memory, in the same order. */
static void time_loops(ts_tbe_case *c, int i, double *pool, double *rewrite) {
  const ts_bench_rows r = rows_of(c, i);
  const ts_bench_bags bags = {&r, c->at, c->out, c->pool, c->dim};
  ts_bench_rewrite u = {.entries = c->entries,
                        .n = c->n,
                        .dim = c->dim,
                        .row_bytes = c->row_bytes,
                        .at = c->at,
                        .grad = c->grad,
                        .first = (char *)r.first,
                        .n_states = ts_tbe_optim(c->tbe)->n_states};
  for (int k = 0; k < u.n_states; k++)
    u.state[k] = ts_tbe_rows(c->tbe, 0, k, &u.cols[k], &(ts_dtype){0});
  ts_tbe_case_touch(c, i % TS_TBE_INPUTS);
  ts_tbe_case_cool(c, 2 * i + 1);
  *pool = 1e3 * ts_bench_pool_rows(&bags);
  *rewrite = 1e3 * ts_bench_rewrite_rows(&u);
}

static ts_err measure_group(ts_tbe_case *c, ts_times *t) {
  double f[ITERS_MAX], b[ITERS_MAX], pool[ITERS_MAX], rewrite[ITERS_MAX];
  for (int i = 0; i < c->iters; i++) {
    ts_tbe_case_cool(c, 2 * i);
    TS_DO(ts_tbe_case_time(c, i, &f[i], &b[i]));
    time_loops(c, i, &pool[i], &rewrite[i]);
  }
  t->forward = ts_bench_median(f + 2, c->iters - 2);
  t->backward = ts_bench_median(b + 2, c->iters - 2);
  t->pool = ts_bench_median(pool + 2, c->iters - 2);
  t->rewrite = ts_bench_median(rewrite + 2, c->iters - 2);
  return TS_OK;
}

static void take_sort(const char *phase, double seconds, int64_t calls,
                      void *arg) {
  if (!strcmp(phase, "  of it sort"))
    *(double *)arg = 1e3 * seconds / (double)calls;
}

static const ts_bench_table lines = {
    "kernels",
    "{kernels|%-7s|kernels}{ids| %-7s|ids}"
    "{stream_gb_per_s| %8.1f|stream\nGB/s}{plain_ms| %8.2f|plain\nms}"
    "{plain_gb_per_s| %7.1f|GB/s}{pool_ms| %7.2f|bare\nms}"
    "{forward_ms| %8.2f|forward\nms}{forward_gb_per_s| %7.1f|GB/s}"
    "{of_plain_percent| %8.0f%%|of\nplain}{of_pool_percent| %6.0f%%|of\nbare}"
    "{rewrite_ms| %8.2f|rewrite\nms}"
    "{backward_ms| %8.2f|backward\nms}{sort_ms| %8.2f|sort\nms}"
    "{of_rewrite_percent| %7.0f%%|of\nrewrite}"
    "{backward_of_forward| %7.2f|bwd/\nfwd}"};

static ts_err measure(ts_tbe_case *c, const char *isa, double alpha) {
  ts_times t = {0};
  ts_tbe_case_draw(c, alpha);
  measure_memory(c, &t);
  ts_timers_reset();
  TS_DO(measure_group(c, &t));
  ts_timers_each(take_sort, &t.sort);
  const double mb = (double)c->n * (double)c->row_bytes / 1e6;
  ts_bench_print(&lines, isa, alpha > 0 ? "zipf" : "uniform", mb / t.stream,
                 t.plain, mb / t.plain, t.pool, t.forward, mb / t.forward,
                 100 * t.plain / t.forward, 100 * t.pool / t.forward, t.rewrite,
                 t.backward, t.sort, 100 * t.rewrite / (t.backward - t.sort),
                 t.backward / t.forward);
  return TS_OK;
}

static ts_err run_isa(ts_tbe_case *c, const char *isa) {
  ts_err err = TS_OK;
  ts_kernels k;
  TS_TRY(ts_kernels_fill(&k, "host", isa));
  TS_TRY(ts_tbe_case_group(c, &k));
  TS_TRY(measure(c, isa, 0));
  if (c->alpha > 0) TS_TRY(measure(c, isa, c->alpha));
done:
  ts_tbe_destroy(c->tbe);
  c->tbe = NULL;
  return err;
}

/* ---- report -------------------------------------------------------------- */

static int64_t peak_of(ts_tag tag) {
  return ts_mem_stat_of(tag, TS_SPACE_HOST).peak_bytes;
}

static void print_memory(const ts_tbe_case *c) {
  static const ts_tag parts[] = {TS_TAG_ACTIVATIONS, TS_TAG_INPUT,
                                 TS_TAG_SPARSE};
  static const char *const names[] = {"output and gradient", "input",
                                      "lookup and backward"};
  static const ts_bench_table table = {
      "memory", "{of|  %-20s}{bytes| %12B}{of_output| %6.2f x}"};
  const double out = 4.0 * c->tables * c->batch * c->dim;
  const double beyond =
      (double)(ts_mem_total(TS_SPACE_HOST).peak_bytes - peak_of(TS_TAG_TABLES) -
               peak_of(TS_TAG_ROW_STATE));
  ts_info("peak memory, and how often the output's:");
  ts_bench_print(&table, "beyond the tables", beyond, beyond / out);
  for (int i = 0; i < 3; i++) {
    const double bytes = (double)peak_of(parts[i]);
    ts_bench_print(&table, names[i], bytes, bytes / out);
  }
}

/* ---- the command --------------------------------------------------------- */

static ts_err read_options(ts_tbe_options *o, ts_tbe_case *c,
                           const ts_args *a) {
  const ts_bench_key keys[] = {
      TS_BENCH_WHOLE("tables", &c->tables, 1, 1000, "number of tables"),
      TS_BENCH_NUMBER("rows", &o->rows, 1, 2e9, "of each"),
      TS_BENCH_WHOLE("dim", &c->dim, 1, 8192, "width of a row"),
      TS_BENCH_WHOLE("batch", &c->batch, 1, 1e6, "samples"),
      TS_BENCH_WHOLE("pool", &c->pool, 1, 1e4, "ids in a bag"),
      TS_BENCH_WHOLE("threads", &c->threads, 0, 1024, "0: all"),
      TS_BENCH_WHOLE("iters", &c->iters, 4, ITERS_MAX, "lookups and backwards"),
      TS_BENCH_NUMBER("zipf", &c->alpha, 0, 10,
                      "exponent of the ids; 0: uniform ids only"),
      TS_BENCH_CHOICE("dtype", &o->dtype, "f32|bf16|f16|int8|int4", "of rows"),
      TS_BENCH_CHOICE("pooling", &o->mean, "sum|mean", "of a bag's rows"),
      TS_BENCH_CHOICE("weighted", &o->weighted, "0|1", "ids have weights"),
      TS_BENCH_CHOICE("sweep", &o->sweep, "0|1",
                      "1: dims 32 to 256, pooling 1 to 100, two types"),
      TS_BENCH_CHOICE("dynamic", &o->dynamic, "0|1",
                      "1: tables of any id beside plain ones"),
      TS_BENCH_NUMBER("load", &o->load, .01, 1,
                      "of dynamic=1: ids that there are by the capacity"),
      TS_BENCH_WORD("backend", &o->backend, "whose memory and kernels"),
      TS_BENCH_WORD("optimizer", &o->optimizer, "of the rows")};
  return ts_bench_keys(a, 0, keys, (int)(sizeof keys / sizeof *keys));
}

static ts_err fill(ts_tbe_case *c, const ts_tbe_options *o) {
  static const ts_dtype dtypes[] = {TS_F32, TS_BF16, TS_F16, TS_INT8, TS_INT4};
  bool widened;
  c->rows = (int64_t)o->rows;
  c->mean = o->mean, c->weighted = o->weighted;
  c->threads = ts_bind(c->threads, 0, 1, &widened);
  c->config->dtype = dtypes[o->dtype];
  TS_DO(ts_tbe_case_size(c));
  return ts_row_optim_check(&c->config->optimizer, "bench");
}

static ts_err run_all(ts_tbe_case *c) {
  const ts_cpu *cpu = ts_cpu_info();
  TS_DO(ts_tbe_case_allocate(c));
  ts_tbe_case_print(c, c->threads, cpu->model);
  ts_bench_heads(&lines);
  TS_DO(run_isa(c, "ref"));
  if (cpu->avx2) TS_DO(run_isa(c, "avx2"));
  if (cpu->avx512) TS_DO(run_isa(c, "avx512"));
  print_memory(c);
  return TS_OK;
}

/* On a device with a clock of its own. */
static ts_err run_device(ts_tbe_case *c, const ts_tbe_options *o) {
  ts_kernels k;
  TS_DO(ts_kernels_fill(&k, o->backend, NULL));
  return ts_bench_tbe_device(c, &k, o->sweep);
}

static ts_err run_dynamic(ts_tbe_case *c, const ts_tbe_options *o) {
  ts_kernels k;
  TS_DO(ts_kernels_fill(&k, o->backend, NULL));
  TS_DO(ts_tbe_case_allocate(c));
  ts_tbe_case_print(c, c->threads, ts_cpu_info()->model);
  return ts_bench_tbe_dynamic(c, &k, o->load);
}

static void reset(ts_tbe_case *c) {
  ts_tbe_case_free(c);
  ts_lane_destroy(c->lane);
  ts_device_destroy(c->device);
  ts_mem_free(c->config->optimizer.kind);
}

ts_err ts_bench_tbe(const ts_args *a) {
  ts_err err = TS_OK;
  char name[] = "bench", uniform[] = "uniform";
  ts_tbe_options o = {.rows = 500000,
                      .load = .75,
                      .optimizer = "rowwise_adagrad",
                      .backend = a->backend ? a->backend : "host"};
  ts_table_config config = {.name = name,
                            .init_kind = uniform,
                            .optimizer = {.lr = NAN,
                                          .eps = NAN,
                                          .beta1 = NAN,
                                          .beta2 = NAN,
                                          .momentum = NAN,
                                          .eta = NAN,
                                          .weight_decay = NAN}};
  ts_tbe_case c = {.tables = 8,
                   .dim = 128,
                   .batch = 2048,
                   .pool = 20,
                   .iters = 19,
                   .alpha = 1.05,
                   .config = &config};
  TS_TRY(read_options(&o, &c, a));
  TS_TRY(ts_mem_strdup(&config.optimizer.kind, o.optimizer));
  TS_TRY(fill(&c, &o));
  const bool host = !strcmp(o.backend, "host");
  const ts_device_options options = {.serial = host, .n_threads = c.threads};
  if (o.dynamic && o.sweep)
    TS_THROW(TS_ERR_USAGE, "bench tbe: dynamic = 1 is without sweep");
  TS_TRY(ts_device_create(&c.device, o.backend, &options));
  TS_TRY(ts_lane_create(c.device, &c.lane, "compute", TS_LANE_COMPUTE));
  TS_TRY(o.dynamic          ? run_dynamic(&c, &o)
         : host && !o.sweep ? run_all(&c)
                            : run_device(&c, &o));
done:
  reset(&c);
  return err;
}
