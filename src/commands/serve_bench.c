/* serve_bench.c - `tessera serve-bench FILE`: how long libtessera_serve takes
 * for a batch, by threads that score by themselves and by one call's threads.
 */
#include "commands/serve_bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "commands/bench.h"
#include "commands/bench_table.h"
#include "runtime/topology.h"
#include "runtime/trace.h"

/* Calls that are kept of a line, at most: later ones take their places. */
enum { KEPT = 1 << 18, WARM = 50, THREADS_MAX = 256, LEAST_CALLS = 100 };

/* They begin at once, when all are warm; GO below 0: not at all. */
typedef struct ts_start {
  atomic_int warm, go;
} ts_start;

/* One thread of a line. */
typedef struct ts_caller {
  const ts_serve_inputs *in;
  tserve_scorer *scorer;
  ts_start *start;
  double seconds, took; /* to call for; all of the calls */
  double *call;         /* (KEPT) */
  float *out;
  int64_t n;
  int code;
  ts_err_record fault;
} ts_caller;

/* ---- calls --------------------------------------------------------------- */

static int call(ts_caller *c, int64_t k) {
  return tserve_score(c->scorer, &c->in->batch[k % TS_SERVE_BATCHES], c->out);
}

static void *call_all(void *arg) {
  ts_caller *c = arg;
  for (int64_t k = 0; k < WARM && !c->code; k++) c->code = call(c, k);
  atomic_fetch_add(&c->start->warm, 1);
  while (!atomic_load(&c->start->go)) sched_yield();
  if (atomic_load(&c->start->go) < 0) return NULL;
  const double begun = ts_now();
  double before = begun;
  while (!c->code && (c->n < LEAST_CALLS || before - begun < c->seconds)) {
    c->code = call(c, c->n);
    const double now = ts_now();
    c->call[c->n++ % KEPT] = now - before;
    before = now;
  }
  c->took = before - begun;
  (void)ts_serve_told(c->code);
  ts_err_take(&c->fault);
  return NULL;
}

static ts_err open_caller(ts_caller *c, int32_t n_threads) {
  const int64_t n = (int64_t)c->in->n * tserve_n_outputs(c->in->model);
  TS_DO(ts_mem_many(c->call, KEPT, MISC));
  TS_DO(ts_mem_many(c->out, n, MISC));
  return ts_serve_told(
      tserve_scorer_open(&c->scorer, c->in->model, c->in->n, n_threads));
}

/* N callers at once; the first fault of theirs. */
static ts_err run_callers(ts_caller *c, int n) {
  pthread_t thread[THREADS_MAX];
  ts_start start = {0};
  int begun = 0;
  ts_err err = TS_OK;
  for (; begun < n; begun++) {
    c[begun].start = &start;
    if (pthread_create(&thread[begun], NULL, call_all, &c[begun]) != 0) break;
  }
  while (begun == n && atomic_load(&start.warm) < n) sched_yield();
  atomic_store(&start.go, begun == n ? 1 : -1);
  for (int i = 0; i < begun; i++) pthread_join(thread[i], NULL);
  if (begun < n)
    return ts_fail(TS_ERR_NOMEM, "no thread for scorer %d of %d", begun + 1, n);
  for (int i = 0; i < n && err == TS_OK; i++)
    if (c[i].code) ts_err_put(&c[i].fault), err = c[i].fault.code;
  return err;
}

/* ---- a line -------------------------------------------------------------- */

static const ts_bench_table lines = {
    "serve",
    "{batch|%7.0f|batch}{scorers| %8.0f|scorers}{threads| %8.0f|threads\neach}"
    "{p50_us| %10.1f|P50\nus}{p99_us| %10.1f|P99\nus}{calls| %9C|calls}"
    "{samples_per_s| %12C|samples/s}"};

static ts_err print_line(const ts_caller *c, int n, int32_t n_threads) {
  double *all, rate = 0;
  int64_t kept = 0, calls = 0;
  TS_DO(ts_mem_many(all, (int64_t)n * KEPT, MISC));
  for (int i = 0; i < n; i++) {
    const int64_t own = c[i].n < KEPT ? c[i].n : KEPT;
    memcpy(all + kept, c[i].call, (size_t)own * sizeof *all);
    kept += own;
    calls += c[i].n;
    rate += (double)(c[i].n * c[i].in->n) / c[i].took;
  }
  const double median = ts_bench_median(all, (int)kept); /* sorts them */
  ts_bench_print(&lines, (double)c->in->n, (double)n, (double)n_threads,
                 1e6 * median, 1e6 * all[kept - 1 - kept / 100], (double)calls,
                 rate);
  ts_mem_free(all);
  return TS_OK;
}

/* N scorers, each in a thread of its own with N_THREADS to a call. */
static ts_err measure(const ts_serve_inputs *in, int n, int32_t n_threads,
                      double seconds) {
  ts_err err = TS_OK;
  ts_caller *c = NULL;
  TS_TRY(ts_mem_many(c, n, MISC));
  for (int i = 0; i < n; i++) {
    c[i] = (ts_caller){.in = in, .seconds = seconds};
    TS_TRY(open_caller(&c[i], n_threads));
  }
  TS_TRY(run_callers(c, n));
  TS_TRY(print_line(c, n, n_threads));
done:
  for (int i = 0; c && i < n; i++) {
    tserve_scorer_close(c[i].scorer);
    ts_mem_free_all(c[i].call, c[i].out);
  }
  ts_mem_free(c);
  return err;
}

/* ---- the command --------------------------------------------------------- */

typedef struct ts_serve_bench {
  int32_t threads, batch, ids; /* 0: the usual ones */
  double alpha, seconds;
  const char *dump;
} ts_serve_bench;

static ts_err take_number(const char *option, const char *text, double most,
                          double *x) {
  char *end;
  if (!text) return TS_OK;
  *x = strtod(text, &end);
  if (end != text && !*end && *x >= 0 && *x <= most) return TS_OK;
  return ts_fail(TS_ERR_USAGE, "%s %s is no number in 0 to %g", option, text,
                 most);
}

static ts_err take_options(ts_serve_bench *b, const ts_args *a) {
  *b = (ts_serve_bench){.alpha = 1.05, .seconds = 2, .dump = a->dump};
  if (!a->target)
    return ts_fail(TS_ERR_USAGE, "usage: tessera serve-bench FILE");
  TS_DO(
      ts_args_number("--threads", a->threads, 0, 1, THREADS_MAX, &b->threads));
  TS_DO(ts_args_number("--batch", a->batch, 0, 1, 1 << 20, &b->batch));
  TS_DO(ts_args_number("--ids", a->ids, 1, 0, 10000, &b->ids));
  TS_DO(take_number("--zipf", a->zipf, 10, &b->alpha));
  return take_number("--seconds", a->seconds, 3600, &b->seconds);
}

static ts_err run_batch(tserve_model *m, const ts_serve_bench *b, int32_t n) {
  ts_err err = TS_OK;
  const int32_t threads = b->threads ? b->threads : 2;
  ts_serve_inputs in = {.model = m, .n = n, .n_ids = b->ids, .alpha = b->alpha};
  TS_TRY(ts_serve_inputs_draw(&in));
  if (b->dump) TS_TRY(ts_serve_inputs_dump(&in, b->dump));
  if (!b->threads || threads == 1) TS_TRY(measure(&in, 1, 1, b->seconds));
  if (threads > 1) TS_TRY(measure(&in, 1, threads, b->seconds));
  if (threads > 1) TS_TRY(measure(&in, threads, 1, b->seconds));
done:
  ts_serve_inputs_free(&in);
  return err;
}

static const ts_bench_table model_line = {
    "model", "{file|%s}{bytes|: %B}{step|, step %.0f}{open_ms|, opened in %.2f "
             "ms}{features|, %.0f features}{ids|, %.0f ids each}{zipf|, zipf "
             "%g}{machine|; %s}"};

static ts_err run_all(const ts_args *a, const ts_serve_bench *b) {
  static const int32_t usual[] = {1, 64, 1024};
  ts_err err = TS_OK;
  struct stat st = {0};
  tserve_model *m = NULL;
  const double before = ts_now();
  TS_TRY(ts_serve_told(tserve_open(&m, a->target)));
  const double opened = ts_now() - before;
  (void)stat(a->target, &st);
  ts_bench_print(&model_line, a->target, (double)st.st_size,
                 (double)tserve_step(m), 1e3 * opened,
                 (double)tserve_n_features(m), (double)b->ids, b->alpha,
                 ts_cpu_info()->model);
  ts_bench_heads(&lines);
  for (int k = 0; k < 3 && (!b->batch || !k); k++)
    TS_TRY(run_batch(m, b, b->batch ? b->batch : usual[k]));
done:
  tserve_close(m);
  return err;
}

ts_err ts_cmd_serve_bench(const ts_args *a) {
  ts_serve_bench b;
  TS_DO(take_options(&b, a));
  ts_err err = ts_bench_open(a);
  if (err == TS_OK) err = run_all(a, &b);
  const ts_err closed = ts_bench_close();
  return err == TS_OK ? closed : err;
}
