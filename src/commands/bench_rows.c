/* bench_rows.c - `tessera bench rows [key=value]...`: lookups in rows of few
 * bits, as a served model has them, beside plain reads of the same rows and of
 * memory one after the other. */
#include <math.h>
#include <omp.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "commands/bench.h"
#include "commands/bench_table.h"
#include "runtime/topology.h"
#include "runtime/trace.h"
#include "serve/rows.h"

enum { ITERS_MAX = 1000, BATCHES = 8, PATTERN = 64, PAGE = 4096 };

typedef struct ts_rows_case {
  double n_rows, alpha;
  int dim, pool, bags, threads, iters, weighted, small_pages;
  int64_t rows, n;        /* of the table; ids of all batches */
  char *table;            /* room for rows of f32 */
  float *pattern;         /* (PATTERN, dim) which the table repeats */
  int64_t *offsets, *ids; /* of a batch; (n) */
  int32_t *short_ids;
  float *weights, *out;
} ts_rows_case;

/* ---- a table and batches ------------------------------------------------- */

static ts_err allocate(ts_rows_case *c) {
  const int64_t bytes = c->rows * ts_rows_bytes(TS_ROWS_F32, c->dim);
  TS_DO(ts_mem_array(&c->table, bytes, 1, TS_TAG_TABLES));
  /* As those of a file are. */
  if (c->small_pages && bytes >= PAGE) {
    char *page = (char *)(((uintptr_t)c->table + PAGE - 1) / PAGE * PAGE);
    madvise(page, (size_t)(c->table + bytes - page) / PAGE * PAGE,
            MADV_NOHUGEPAGE);
  }
  TS_DO(ts_mem_many(c->pattern, (int64_t)PATTERN * c->dim, MISC));
  TS_DO(ts_mem_many(c->offsets, c->bags + 1, INPUT));
  TS_DO(ts_mem_many(c->ids, c->n, INPUT));
  TS_DO(ts_mem_many(c->short_ids, c->n, INPUT));
  TS_DO(ts_mem_many(c->weights, c->n, INPUT));
  TS_DO(ts_mem_many(c->out, (int64_t)c->bags * c->dim, ACTIVATIONS));
  for (int64_t i = 0; i < (int64_t)PATTERN * c->dim; i++)
    c->pattern[i] = (float)((i * 7919 % 2001) - 1000) * 1e-4f;
  for (int64_t b = 0; b <= c->bags; b++) c->offsets[b] = b * c->pool;
  for (int64_t i = 0; i < c->n; i++)
    c->weights[i] = (float)(i * 7919 % 1000 + 1) * 1e-3f;
  return TS_OK;
}

static void fill_table(ts_rows_case *c, ts_rows_kind kind) {
  const int64_t bytes = ts_rows_bytes(kind, c->dim);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < c->rows; r += PATTERN) {
    const int64_t n = c->rows - r < PATTERN ? c->rows - r : PATTERN;
    ts_rows_pack(kind, c->table + r * bytes, c->pattern, n, c->dim);
  }
}

static void draw_ids(ts_rows_case *c, int k) {
  for (int64_t i = 0; i < c->n; i++)
    c->ids[i] = c->short_ids[i] =
        ts_bench_draw(i, (uint32_t)k, c->rows, c->alpha);
}

/* ---- measuring ----------------------------------------------------------- */

/* Part P of N of batch K. */
static void look_up(const ts_rows_case *c, ts_rows_kind kind, int k, int64_t p,
                    int64_t n) {
  const int64_t from = c->bags * p / n, to = c->bags * (p + 1) / n;
  const int64_t first = k * c->n / BATCHES;
  const ts_rows_lookup l = {.table = c->table,
                            .kind = kind,
                            .dim = c->dim,
                            .rows = c->ids + first,
                            .weights = c->weighted ? c->weights + first : NULL,
                            .offsets = c->offsets + from,
                            .n = to - from,
                            .out = c->out + from * c->dim,
                            .stride = c->dim};
  ts_rows_look_up(&l, NULL);
}

/* Seconds of all batches, one after the other. */
static double look_up_all(const ts_rows_case *c, ts_rows_kind kind) {
  const double start = ts_now();
#pragma omp parallel
  for (int k = 0; k < BATCHES; k++)
    look_up(c, kind, k, omp_get_thread_num(), omp_get_num_threads());
  return ts_now() - start;
}

static double read_plain(const ts_rows_case *c, ts_rows_kind kind) {
  const ts_bench_rows r = {.first = c->table,
                           .row_bytes = ts_rows_bytes(kind, c->dim),
                           .rows_per_table = c->rows,
                           .ids = c->short_ids,
                           .n_ids = c->n,
                           .ids_per_table = c->n};
  return ts_bench_read_rows(&r);
}

static const ts_bench_table lines = {
    "rows",
    "{rows|%-5s|rows}{row_bytes| %6.0f|bytes}"
    "{million_rows_per_s| %8.1f|M\nrows/s}{of_f32| %6.2f|x\nf32}"
    "{lines_gb_per_s| %8.1f|lines\nGB/s}{plain_million_per_s| %8.1f|plain\nM/s}"
    "{of_plain_percent| %6.0f%%|of\nplain}"
    "{stream_gb_per_s| %8.1f|stream\nGB/s}{of_stream_percent| %7.0f%%|of\n"
    "stream}"};

/* *F32: rows a second of f32, once it is measured. */
static void measure(ts_rows_case *c, ts_rows_kind kind, double *f32) {
  double looked[ITERS_MAX], plain[ITERS_MAX], stream[ITERS_MAX];
  const int64_t bytes = ts_rows_bytes(kind, c->dim);
  fill_table(c, kind);
  /* One kind of read after the other: what a table's pages are is in the caches
   * then, as where nothing but lookups runs, and a stream would drive it out.
   */
  for (int i = 0; i < c->iters; i++) {
    draw_ids(c, i);
    looked[i] = look_up_all(c, kind);
  }
  for (int i = 0; i < c->iters; i++) {
    draw_ids(c, c->iters + i);
    plain[i] = read_plain(c, kind);
  }
  for (int i = 0; i < c->iters; i++)
    stream[i] = ts_bench_read_stream(c->table, c->rows * bytes);
  const double rate = (double)c->n / ts_bench_median(looked, c->iters);
  const double read = (double)c->n / ts_bench_median(plain, c->iters);
  const double all =
      (double)(c->rows * bytes) / ts_bench_median(stream, c->iters);
  const double moved = rate * (double)((bytes + 63) / 64 * 64);
  if (kind == TS_ROWS_F32) *f32 = rate;
  ts_bench_print(&lines, ts_rows_kind_name(kind), (double)bytes, rate / 1e6,
                 rate / *f32, moved / 1e9, read / 1e6, 100 * rate / read,
                 all / 1e9, 100 * moved / all);
}

/* ---- the command --------------------------------------------------------- */

static ts_err read_options(ts_rows_case *c, const ts_args *a) {
  const ts_bench_key keys[] = {
      TS_BENCH_NUMBER("rows", &c->n_rows, 1, 2e9, "of the table"),
      TS_BENCH_WHOLE("dim", &c->dim, 1, 8192, "width of a row"),
      TS_BENCH_WHOLE("batch", &c->bags, 1, 1e6, "bags of a lookup"),
      TS_BENCH_WHOLE("pool", &c->pool, 1, 1e4, "ids in a bag"),
      TS_BENCH_WHOLE("threads", &c->threads, 0, 1024, "0: all"),
      TS_BENCH_WHOLE("iters", &c->iters, 1, ITERS_MAX, "lookups of each"),
      TS_BENCH_NUMBER("zipf", &c->alpha, 0, 10,
                      "exponent of the ids; 0: uniform"),
      TS_BENCH_CHOICE("weighted", &c->weighted, "0|1", "ids have weights"),
      TS_BENCH_CHOICE("pages", &c->small_pages, "huge|small",
                      "of memory; small: as a file's")};
  return ts_bench_keys(a, 0, keys, (int)(sizeof keys / sizeof *keys));
}

static const ts_bench_table shape = {
    "case",
    "{table_rows|rows of tables: %.0f}{dim| x %.0f}{batch|, batch %.0f}"
    "{pooling|, pooling %.0f}{zipf|, zipf %g}{weighted|, %s}{pages|, %s}"
    "{threads|, %.0f threads}{machine|; %s}"};

ts_err ts_bench_rows_run(const ts_args *a) {
  ts_err err = TS_OK;
  bool widened;
  double f32 = NAN;
  ts_rows_case c = {
      .n_rows = 4e6, .dim = 128, .bags = 1024, .pool = 20, .iters = 19};
  TS_TRY(read_options(&c, a));
  c.threads = ts_bind(c.threads, 0, 1, &widened);
  omp_set_num_threads(c.threads);
  c.rows = (int64_t)c.n_rows;
  c.n = (int64_t)BATCHES * c.bags * c.pool;
  TS_TRY(allocate(&c));
  ts_bench_print(&shape, (double)c.rows, (double)c.dim, (double)c.bags,
                 (double)c.pool, c.alpha, c.weighted ? "weighted" : NULL,
                 c.small_pages ? "small pages" : "huge pages",
                 (double)c.threads, ts_cpu_info()->model);
  ts_bench_heads(&lines);
  for (int k = 0; k < TS_ROWS_KINDS; k++) measure(&c, (ts_rows_kind)k, &f32);
done:
  ts_mem_free_all(c.table, c.pattern, c.offsets, c.ids, c.short_ids, c.weights,
                  c.out);
  return err;
}
