/* bench_cache.c - `tessera bench cache [key=value]...`: a cached group beside
 * the same group in fast memory, by load factor, policy and skew of the ids;
 * the rows it moves beside a plain copy of as many; and passes. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "commands/bench_table.h"
#include "commands/bench_tbe.h"
#include "runtime/store.h"
#include "runtime/topology.h"
#include "runtime/trace.h"

enum { ITERS_MAX = 1000 };

typedef struct ts_cache_case {
  double tables, rows, dim, batch, pool, threads, warm, iters, zipf, load;
  int policy;
  const char *dir, *backend;
  ts_table_config config;
  ts_kernels kernels;
  ts_tbe_case group; /* and its batches, but for their ids */
  ts_tbe_lent lent;
  ts_lane *ahead;
  ts_tbe_hold hold[2];
  ts_buffer *ids; /* (steps_of + 1) of (group.n) i32, the device's */
} ts_cache_case;

/* Times of one step in ms; rows and bytes per step. */
typedef struct ts_cache_times {
  double step, hold, exposed, hit_rate, misses, conflicts, bytes;
  int64_t scratch, fast;
} ts_cache_times;

/* Those that fill the cache, and those that are measured. */
static int steps_of(const ts_cache_case *c) {
  return (int)(c->warm + c->iters);
}

/* ---- input --------------------------------------------------------------- */

static ts_err draw(ts_cache_case *c, double alpha) {
  int32_t *ids = c->group.ids[0];
  for (int k = 0; k <= steps_of(c); k++) {
#pragma omp parallel for
    for (int64_t i = 0; i < c->group.n; i++)
      ids[i] = ts_bench_draw(i, (uint32_t)k, c->group.rows, alpha);
    TS_DO(ts_lane_copy(c->group.lane, c->ids[k].ptr, ids,
                       (size_t)c->group.n * 4));
    TS_DO(ts_lane_sync(c->group.lane));
  }
  return TS_OK;
}

static ts_err allocate(ts_cache_case *c) {
  TS_DO(ts_tbe_case_allocate(&c->group));
  TS_DO(ts_tbe_case_lend(&c->lent, &c->group));
  TS_DO(ts_mem_array(&c->ids, steps_of(c) + 1, sizeof *c->ids, TS_TAG_INPUT));
  for (int k = 0; k <= steps_of(c); k++)
    TS_DO(ts_buffer_create(&c->ids[k], c->group.device, (size_t)c->group.n * 4,
                           TS_SPACE_DEVICE, TS_TAG_INPUT));
  return TS_OK;
}

static ts_tbe_input input_of(ts_cache_case *c, int i) {
  ts_tbe_input in =
      ts_tbe_lent_input(&c->lent, ts_tbe_case_input(&c->group, i), &c->ids[i]);
  in.hold = ts_tbe_is_cached(c->group.tbe) ? &c->hold[i % 2] : NULL;
  return in;
}

/* ---- a group ------------------------------------------------------------- */

static ts_err create(ts_cache_case *c, double load_factor, bool lfu,
                     int passes) {
  static char fused[] = "fused", cached[] = "cached", lru[] = "lru",
              lfu_name[] = "lfu", host[] = "host", file[] = "file";
  c->config.kernel = load_factor > 0 ? cached : fused;
  c->config.cache.load_factor = load_factor;
  c->config.cache.policy = lfu ? lfu_name : lru;
  c->config.cache.passes = passes;
  c->config.cache.tier = c->dir ? file : host;
  return ts_tbe_case_group(&c->group, &c->kernels);
}

static ts_tier_count counts(const ts_tbe *t, ts_tier_figures *f) {
  ts_tier_count sum = {0};
  *f = (ts_tier_figures){0};
  if (!ts_tbe_figures(t, f)) return sum;
  for (int32_t i = 0; i < ts_tbe_n_tables(t); i++) {
    sum.n_unique += f->count[i].n_unique;
    sum.n_hits += f->count[i].n_hits;
    sum.n_misses += f->count[i].n_misses;
    sum.n_conflicts += f->count[i].n_conflicts;
    sum.bytes_in += f->count[i].bytes_in;
    sum.bytes_out += f->count[i].bytes_out;
  }
  return sum;
}

/* A step as the prefetch pipeline has it: rows of the next batch come beside
 * the lookup; the update waits for them, *EXPOSED ms. */
static ts_err step(ts_cache_case *c, int i, double *exposed) {
  const ts_tbe_input in = input_of(c, i), next = input_of(c, i + 1);
  TS_DO(ts_tbe_forward(c->group.tbe, c->lent.out.ptr, &in, c->group.lane));
  TS_DO(ts_tbe_prefetch(c->group.tbe, &next, c->ahead));
  TS_DO(ts_lane_sync(c->group.lane));
  const double t0 = ts_now();
  TS_DO(ts_lane_sync(c->ahead));
  *exposed = 1e3 * (ts_now() - t0);
  TS_DO(ts_tbe_backward(c->group.tbe, c->lent.grad.ptr, &in, 1.0, i + 1,
                        c->group.lane));
  TS_DO(ts_tbe_release(c->group.tbe, &in, c->group.lane));
  return ts_lane_sync(c->group.lane);
}

/* Tables in fast memory have no cache to fill: they skip the warm-up. */
static ts_err measure(ts_cache_case *c, ts_cache_times *x) {
  const int first_step = ts_tbe_is_cached(c->group.tbe) ? 0 : (int)c->warm;
  const int warm = (int)c->warm, n = steps_of(c);
  double ms[ITERS_MAX], exposed[ITERS_MAX], of_step;
  ts_tier_figures before, after;
  ts_tier_count from = {0}, to;
  const ts_tbe_input first = input_of(c, first_step);
  *x = (ts_cache_times){0};
  before.hold_s = 0;
  TS_DO(ts_tbe_prefetch(c->group.tbe, &first, c->ahead));
  TS_DO(ts_lane_sync(c->ahead));
  for (int i = first_step; i < n; i++) {
    if (i == warm) from = counts(c->group.tbe, &before);
    const double t0 = ts_now();
    TS_DO(step(c, i, &of_step));
    if (i < warm) continue;
    ms[i - warm] = 1e3 * (ts_now() - t0);
    exposed[i - warm] = of_step;
  }
  to = counts(c->group.tbe, &after);
  const double steps = n - warm;
  const ts_tbe_input last = input_of(c, n);
  TS_DO(ts_tbe_release(c->group.tbe, &last, c->group.lane));
  TS_DO(ts_lane_sync(c->group.lane));
  x->step = ts_bench_median(ms, n - warm);
  x->hold = 1e3 * (after.hold_s - before.hold_s) / steps;
  x->exposed = ts_bench_median(exposed, n - warm);
  x->misses = (double)(to.n_misses - from.n_misses) / steps;
  x->conflicts = (double)(to.n_conflicts - from.n_conflicts) / steps;
  x->bytes =
      (double)(to.bytes_in + to.bytes_out - from.bytes_in - from.bytes_out) /
      steps;
  if (to.n_unique > from.n_unique)
    x->hit_rate = (double)(to.n_hits - from.n_hits) /
                  (double)(to.n_unique - from.n_unique);
  x->scratch = after.scratch_bytes;
  x->fast = after.fast_bytes;
  return TS_OK;
}

static ts_err run(ts_cache_case *c, ts_cache_times *x, double load_factor,
                  bool lfu, int passes) {
  ts_err err = TS_OK;
  for (int k = 0; k < 2; k++)
    c->hold[k] = (ts_tbe_hold){.slots = {.space = TS_SPACE_DEVICE,
                                         .tag = TS_TAG_SPARSE,
                                         .owned = true,
                                         .device = c->group.device}};
  TS_TRY(create(c, load_factor, lfu, passes));
  TS_TRY(measure(c, x));
done:
  ts_tbe_destroy(c->group.tbe);
  c->group.tbe = NULL;
  for (int k = 0; k < 2; k++) ts_buffer_reset(&c->hold[k].slots);
  return err;
}

/* ---- tables -------------------------------------------------------------- */

static const ts_bench_table loads = {
    "loads", "{zipf|%-5.3g|zipf}{policy| %-6s|policy}{load| %6.3g|load}"
             "{hits_percent| %7.2f%%|hits}{misses| %9.0f|misses}"
             "{conflicts| %9.0f|conflicts}{fetch_ms| %8.2f|fetch ms}"
             "{exposed_ms| %8.2f|exposed}{step_ms| %8.2f|step ms}"
             "{of_twin_percent| %8.0f%%|of twin's}"};

static ts_err by_load_factor(ts_cache_case *c) {
  static const double all[] = {0.01, 0.05, 0.1, 0.2, 0.5, 1.0};
  const double *factors = c->load > 0 ? &c->load : all;
  const int n_factors = c->load > 0 ? 1 : (int)(sizeof all / sizeof *all);
  const double skews[] = {0, c->zipf};
  ts_cache_times fast, x;
  ts_bench_heads(&loads);
  for (int s = 0; s < 2; s++) {
    TS_DO(draw(c, skews[s]));
    TS_DO(run(c, &fast, 0, false, 1));
    ts_bench_print(&loads, skews[s], "(twin)", NAN, NAN, NAN, NAN, NAN, NAN,
                   fast.step, NAN);
    for (int k = 0; k < n_factors; k++)
      for (int lfu = 0; lfu < 2; lfu++) {
        TS_DO(run(c, &x, factors[k], lfu, 1));
        ts_bench_print(&loads, skews[s], lfu ? "lfu" : "lru", factors[k],
                       100 * x.hit_rate, x.misses, x.conflicts, x.hold,
                       x.exposed, x.step, 100 * x.step / fast.step);
      }
  }
  return TS_OK;
}

/* GB/s of the same rows, copied from slow memory to lines and nothing else. */
static ts_err plain_copy(double *rate, ts_cache_case *c) {
  ts_err err = TS_OK;
  ts_store s = {.fd = -1};
  uint32_t *rows = NULL, *lines = NULL;
  const int64_t all = (int64_t)(c->tables * c->rows),
                bytes = (int64_t)c->dim * 4;
  const int64_t n = c->group.n < all ? c->group.n : all;
  TS_TRY(ts_store_create(&s, c->dir, all, n, bytes, TS_TAG_TABLES));
  TS_TRY(ts_mem_array(&rows, n, 4, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&lines, n, 4, TS_TAG_MISC));
  for (int64_t i = 0; i < n; i++) {
    rows[i] = (uint32_t)(i * all / n);
    lines[i] = (uint32_t)(s.first_line + i * 7919 % n);
  }
  for (int64_t at = 0; at < all * bytes; at += 4096) s.base[at] = 1;
  ts_store_look(&s, rows, n);
  TS_TRY(ts_store_read(&s, rows, lines, n));
  const double t0 = ts_now();
  TS_TRY(ts_store_read(&s, rows, lines, n));
  *rate = 1e-9 * (double)(n * bytes) / (ts_now() - t0);
done:
  ts_store_reset(&s);
  ts_mem_free_all(rows, lines);
  return err;
}

static const ts_bench_table by_pass = {
    "passes",
    "{passes|%6.0f|passes}{misses| %9.0f|misses}{fetch_ms| %8.2f|fetch ms}"
    "{exposed_ms| %8.2f|exposed}{step_ms| %8.2f|step ms}"
    "{scratch_bytes| %12B|scratch}{of_ids| %8.2f x|of ids}"
    "{gb_per_s| %8.2f|GB/s}"};

static ts_err by_passes(ts_cache_case *c) {
  static const int passes[] = {1, 2, 4, 8, 12};
  ts_cache_times x;
  double copy;
  ts_info(" ");
  if (!ts_device_is_discrete(c->group.device)) {
    TS_DO(plain_copy(&copy, c));
    ts_info("rows moved by a plain copy: %.2f GB/s", copy);
  }
  ts_bench_heads(&by_pass);
  TS_DO(draw(c, c->zipf));
  for (size_t k = 0; k < sizeof passes / sizeof *passes; k++) {
    TS_DO(run(c, &x, 0.2, c->policy, passes[k]));
    ts_bench_print(&by_pass, (double)passes[k], x.misses, x.hold, x.exposed,
                   x.step, (double)x.scratch,
                   (double)x.scratch / (4.0 * (double)c->group.n),
                   1e-6 * x.bytes / x.hold);
  }
  return TS_OK;
}

/* ---- the command --------------------------------------------------------- */

static ts_err read_options(ts_cache_case *c, const ts_args *a) {
  const ts_bench_key keys[] = {
      TS_BENCH_NUMBER("tables", &c->tables, 1, 1000, "number of tables"),
      TS_BENCH_NUMBER("rows", &c->rows, 32, 2e9, "of each"),
      TS_BENCH_NUMBER("dim", &c->dim, 1, 8192, "width of a row"),
      TS_BENCH_NUMBER("batch", &c->batch, 1, 1e6, "samples"),
      TS_BENCH_NUMBER("pool", &c->pool, 1, 1e4, "ids in a bag"),
      TS_BENCH_NUMBER("threads", &c->threads, 0, 1024, "0: all"),
      TS_BENCH_NUMBER("warm", &c->warm, 2, ITERS_MAX,
                      "steps before those that count"),
      TS_BENCH_NUMBER("iters", &c->iters, 2, ITERS_MAX, "steps that count"),
      TS_BENCH_NUMBER("load", &c->load, 0, 1, "load factor; 0: several"),
      TS_BENCH_NUMBER("zipf", &c->zipf, 0, 10,
                      "exponent of the ids, beside uniform ones"),
      TS_BENCH_CHOICE("policy", &c->policy, "lru|lfu", "of the passes"),
      TS_BENCH_WORD("backend", &c->backend, "whose memory and kernels"),
      TS_BENCH_WORD("tier_dir", &c->dir,
                    "a folder: slow memory is a file there, not the host's")};
  return ts_bench_keys(a, 0, keys, (int)(sizeof keys / sizeof *keys));
}

static ts_err start(ts_cache_case *c) {
  static char name[] = "bench", uniform[] = "uniform", kind[] = "sgd";
  bool widened;
  const int threads = ts_bind((int)c->threads, 0, 1, &widened);
  const ts_device_options o = {.n_threads = threads};
  c->config = (ts_table_config){
      .name = name,
      .rows = (int64_t)c->rows,
      .dim = (int32_t)c->dim,
      .init_kind = uniform,
      .optimizer = {kind, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0, TS_WD_NONE}};
  c->group = (ts_tbe_case){.tables = (int)c->tables,
                           .dim = (int)c->dim,
                           .batch = (int)c->batch,
                           .pool = (int)c->pool,
                           .rows = (int64_t)c->rows,
                           .n = (int64_t)(c->tables * c->batch * c->pool),
                           .config = &c->config,
                           .tier_dir = c->dir};
  TS_DO(ts_row_optim_check(&c->config.optimizer, "bench"));
  TS_DO(ts_kernels_fill(&c->kernels, c->backend, NULL));
  TS_DO(ts_device_create(&c->group.device, c->backend, &o));
  TS_DO(ts_lane_create(c->group.device, &c->group.lane, "compute",
                       TS_LANE_COMPUTE));
  TS_DO(ts_lane_create(c->group.device, &c->ahead, "ahead", TS_LANE_COMPUTE));
  TS_DO(allocate(c));
  ts_info(
      "%.0f tables x %.0f x %.0f f32, batch %.0f, pooling %.0f, %d threads, "
      "sgd, backend %s, slow memory: %s; %s",
      c->tables, c->rows, c->dim, c->batch, c->pool, threads, c->backend,
      c->dir ? c->dir : "the host's", ts_cpu_info()->model);
  return TS_OK;
}

static void reset(ts_cache_case *c) {
  for (int k = 0; c->ids && k <= steps_of(c); k++) ts_buffer_reset(&c->ids[k]);
  ts_mem_free(c->ids);
  ts_tbe_lent_reset(&c->lent);
  ts_lane_destroy(c->group.lane);
  ts_lane_destroy(c->ahead);
  ts_device_destroy(c->group.device);
  ts_tbe_case_free(&c->group);
}

ts_err ts_bench_cache(const ts_args *a) {
  ts_err err = TS_OK;
  ts_cache_case c = {.tables = 8,
                     .rows = 500000,
                     .dim = 64,
                     .batch = 2048,
                     .pool = 4,
                     .warm = 80,
                     .iters = 20,
                     .zipf = 1.05,
                     .backend = a->backend ? a->backend : "host"};
  TS_TRY(read_options(&c, a));
  TS_TRY(start(&c));
  TS_TRY(by_load_factor(&c));
  TS_TRY(by_passes(&c));
done:
  reset(&c);
  return err;
}
