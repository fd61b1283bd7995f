/* trace_check.c - what must overlap in a trace, and whose data each span is.
 *
 *     trace_check batches FILE BYTES    numbers of batches; bytes of output
 *                                       dist, of all ranks for a batch
 *     trace_check PIPELINE FILE         what PIPELINE hides
 *     trace_check each_lookup FILE      the same of fused_sparse_dist by
 *                                       default, with two sharding types
 *
 * Times are compared with each other only, and of many batches the middle
 * one counts: a machine with other work stretches some of them.  Without
 * arguments: tests of the reader.  ranks: 1 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "commands/trace.h"
#include "tests/support/harness.h"

enum { RANKS_MAX = 8, BATCHES_MAX = 200 };

static ts_trace trace;
static int64_t first, last; /* batches whose steps are wholly recorded */
static int n_failed;

static void expect(bool ok, const char *what, double got) {
  printf("%-6s %s: %.3f\n", ok ? "ok" : "FAILED", what, got);
  n_failed += !ok;
}

/* NAME (and PHASE, where not NULL) of BATCH on RANK. */
static bool is(const ts_read_span *s, int rank, const char *name,
               const char *phase, int64_t batch) {
  return s->batch == batch && trace.lanes[s->lane].rank == rank &&
         !strcmp(s->name, name) && (!phase || !strcmp(s->phase, phase));
}

static bool is_stepped(const ts_read_span *s) {
  return s->kind != TS_SPAN_WAIT &&
         strcmp(trace.lanes[s->lane].name, "control") != 0;
}

/* First start (or last end) of a stage; NAN where there is none. */
static double start_of(int rank, const char *name, const char *phase,
                       int64_t batch) {
  for (int64_t i = 0; i < trace.n_spans; i++) /* by start */
    if (is(&trace.spans[i], rank, name, phase, batch)) return trace.spans[i].t0;
  return NAN;
}

static double end_of(int rank, const char *name, const char *phase,
                     int64_t batch) {
  double end = NAN;
  for (int64_t i = 0; i < trace.n_spans; i++)
    if (is(&trace.spans[i], rank, name, phase, batch))
      end = fmax(end, trace.spans[i].t1);
  return end;
}

static void find_batches(void) {
  first = INT64_MAX;
  last = -1;
  for (int64_t i = 0; i < trace.n_spans; i++) {
    const ts_read_span *s = &trace.spans[i];
    if (strcmp(s->name, "loss") != 0) continue;
    if (s->batch < first) first = s->batch;
    if (s->batch > last) last = s->batch;
  }
  first += 2; /* begun before the first recorded step */
  last -= 2;
  expect(last - first >= 8 && last - first < BATCHES_MAX, "batches recorded",
         (double)(last - first + 1));
}

/* ---- whose data ---------------------------------------------------------- */

/* Stages of one batch that follow each other whatever the pipeline: with a
 * wrong number on one of them some batch breaks the order. */
static const struct {
  const char *name, *phase, *then, *then_phase;
} orders[] = {
    {"read", "input", "input pack", "input"},
    {"input pack", "input", "input dist", "input"},
    {"input dist", "input", "input unpack", "input"},
    {"input unpack", "input", "lookup", "forward"},
    {"lookup", "forward", "output dist", "forward"},
    {"output dist", "forward", "interaction", "forward"},
    {"dense forward", "forward", "loss", "forward"},
    {"loss", "forward", "dense backward", "backward"},
    {"interaction backward", "backward", "output dist", "backward"},
    {"output dist", "backward", "fused backward", "backward"},
    {"dense reduce", "backward", "dense optimizer", "optimizer"},
    {"fused backward", "backward", "dense optimizer", "optimizer"},
};

static void check_orders(int rank) {
  int n_wrong = 0, n_missing = 0;
  for (size_t k = 0; k < sizeof orders / sizeof *orders; k++)
    for (int64_t b = first; b <= last; b++) {
      const double end = end_of(rank, orders[k].name, orders[k].phase, b);
      const double start =
          start_of(rank, orders[k].then, orders[k].then_phase, b);
      /* Reading is ahead of what is recorded first. */
      n_missing += isnan(start) || (isnan(end) && k > 0);
      n_wrong += end > start + 0.01;
    }
  /* The host has heard of a batch's ids before it packs the next one's. */
  for (int64_t b = first; b < last; b++)
    n_wrong += end_of(rank, "input dist", "input", b) >
               start_of(rank, "input pack", "input", b + 1) + 0.01;
  expect(n_missing == 0, "stages missing", n_missing);
  expect(n_wrong == 0, "stages of a batch out of order", n_wrong);
}

/* As many spans of each stage for every batch. */
static void check_counts(int rank) {
  int n_wrong = 0;
  for (size_t k = 1; k < sizeof orders / sizeof *orders; k++) {
    int counts[BATCHES_MAX] = {0};
    for (int64_t i = 0; i < trace.n_spans; i++) {
      const int64_t b = trace.spans[i].batch;
      if (b >= first && b <= last &&
          is(&trace.spans[i], rank, orders[k].name, orders[k].phase, b))
        counts[b - first]++;
    }
    for (int64_t b = first; b <= last; b++)
      n_wrong += counts[b - first] != counts[0];
  }
  expect(n_wrong == 0, "batches with another number of spans", n_wrong);
}

static void check_numbers(void) {
  int n_without = 0;
  for (int64_t i = 0; i < trace.n_spans; i++)
    n_without += is_stepped(&trace.spans[i]) && trace.spans[i].batch < 0;
  expect(n_without == 0, "spans without a batch", n_without);
}

/* No rank has everyone's ids before each has begun to send: on one clock. */
static void check_clock(void) {
  int n_wrong = 0;
  for (int64_t b = first; b <= last; b++)
    for (int r = 0; r < trace.n_ranks; r++)
      for (int k = 0; k < trace.n_ranks; k++)
        n_wrong += end_of(r, "input dist", "input", b) <
                   start_of(k, "input dist", "input", b);
  expect(n_wrong == 0, "ids that came before they went", n_wrong);
}

static void check_bytes(int64_t bytes) {
  int n_wrong = 0;
  for (int64_t b = first; b <= last; b++) {
    int64_t sum[2] = {0, 0}, input = 0;
    for (int64_t i = 0; i < trace.n_spans; i++)
      for (int r = 0; r < trace.n_ranks; r++) {
        const ts_read_span *s = &trace.spans[i];
        if (is(s, r, "output dist", "forward", b)) sum[0] += s->bytes;
        if (is(s, r, "output dist", "backward", b)) sum[1] += s->bytes;
        if (is(s, r, "input dist", "input", b)) input += s->bytes;
      }
    n_wrong += sum[0] != bytes || sum[1] != bytes || input <= 0;
  }
  expect(n_wrong == 0, "batches whose bytes are wrong", n_wrong);
}

static void check_batches(int64_t bytes) {
  check_numbers();
  for (int r = 0; r < trace.n_ranks; r++) {
    check_orders(r);
    check_counts(r);
  }
  check_clock();
  check_bytes(bytes);
}

/* ---- what is hidden ------------------------------------------------------ */

/* Compute of a batch, of one phase or of all. */
typedef struct ts_under {
  int64_t batch;
  const char *phase;
} ts_under;

static bool is_under(const ts_trace *t, const ts_read_span *s,
                     const void *arg) {
  const ts_under *u = arg;
  (void)t;
  return s->batch == u->batch && (!u->phase || !strcmp(s->phase, u->phase));
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The part of stage NAMES (up to NULL; PHASE) of batch b + 1 that lies under
 * the compute of batch b: the middle over batches and ranks. */
static double hidden(const char *const *names, const char *phase,
                     const char *under) {
  static double part[RANKS_MAX * BATCHES_MAX];
  int n = 0;
  for (int r = 0; r < trace.n_ranks; r++)
    for (int64_t b = first; b < last; b++) {
      const ts_under u = {b, under};
      double time = 0, covered = 0;
      ts_cover cover;
      if (ts_cover_make(&cover, &trace, r, is_under, &u) != TS_OK) return NAN;
      for (int64_t i = 0; i < trace.n_spans; i++)
        for (int k = 0; names[k]; k++)
          if (is(&trace.spans[i], r, names[k], phase, b + 1)) {
            const ts_read_span *s = &trace.spans[i];
            time += s->t1 - s->t0;
            covered += ts_cover_overlap(&cover, s->t0, s->t1);
          }
      ts_cover_reset(&cover);
      part[n++] = time > 0 ? covered / time : 0;
    }
  if (!n) return 0;
  qsort(part, (size_t)n, sizeof *part, by_value);
  printf("       of %d: quarters %.3f %.3f %.3f\n", n, part[n / 4], part[n / 2],
         part[3 * n / 4]);
  return part[n / 2];
}

static void check_input(void) {
  static const char *const names[] = {"input pack", "input dist",
                                      "input unpack", NULL};
  const double x = hidden(names, NULL, NULL);
  expect(x >= 0.8, "input dist of the next batch under this one's compute", x);
}

/* The next batch's lookup: after the tables' updates, and before the dense
 * optimizer is done. */
static void check_lookup(void) {
  int n_early = 0, n_late = 0;
  for (int r = 0; r < trace.n_ranks; r++)
    for (int64_t b = first; b < last; b++) {
      const double at = start_of(r, "lookup", NULL, b + 1);
      n_early += !(at >= end_of(r, "fused backward", NULL, b));
      n_late += !(at < end_of(r, "dense optimizer", NULL, b));
    }
  expect(n_early == 0, "lookups before the tables' update", n_early);
  const double part =
      n_late / (double)(trace.n_ranks * (last > first ? last - first : 1));
  expect(part <= 0.2, "lookups behind the dense optimizer, part", part);
}

/* The span of a stage that began as number K (from 0), or NULL. */
static const ts_read_span *nth(int rank, const char *name, const char *phase,
                               int64_t batch, int k) {
  for (int64_t i = 0; i < trace.n_spans; i++) /* by start */
    if (is(&trace.spans[i], rank, name, phase, batch) && !k--)
      return &trace.spans[i];
  return NULL;
}

/* Two sharding types: the next batch's lookup in each is behind its own
 * tables' update, its output dist behind that; the first has begun both while
 * the second's tables are still being updated. */
static void check_each_lookup(void) {
  int n = 0, n_early = 0, n_late = 0, n_wrong = 0;
  for (int r = 0; r < trace.n_ranks; r++)
    for (int64_t b = first; b < last; b++, n++) {
      const ts_read_span *update[3], *lookup[3], *output[3];
      for (int k = 0; k < 3; k++) {
        update[k] = nth(r, "fused backward", NULL, b, k);
        lookup[k] = nth(r, "lookup", NULL, b + 1, k);
        output[k] = nth(r, "output dist", "forward", b + 1, k);
      }
      n_wrong += !output[1] || output[2] || !lookup[1] || lookup[2] ||
                 !update[1] || update[2];
      for (int k = 0; k < 2 && !n_wrong; k++)
        n_early +=
            lookup[k]->t0 < update[k]->t1 || output[k]->t0 < lookup[k]->t1;
      n_late += !n_wrong && !(output[0]->t0 < update[1]->t1);
    }
  expect(n_wrong == 0, "batches without two updates and lookups", n_wrong);
  expect(n_early == 0, "lookups before their own tables' update", n_early);
  expect(n_late <= n / 2, "embeddings that leave behind all updates", n_late);
}

/* Rows of the next batch come under this one's compute; tables are updated
 * behind them, and they are there before they are looked up. */
static void check_prefetch(void) {
  static const char *const names[] = {"prefetch", NULL};
  const double x = hidden(names, NULL, NULL);
  int n_wrong = 0;
  for (int r = 0; r < trace.n_ranks; r++)
    for (int64_t b = first; b < last; b++) {
      const double there = end_of(r, "prefetch", NULL, b + 1);
      n_wrong += !(there <= start_of(r, "fused backward", NULL, b));
      n_wrong += !(there <= start_of(r, "lookup", NULL, b + 1));
    }
  expect(x >= 0.5, "rows of the next batch under this one's compute", x);
  expect(n_wrong == 0, "updates and lookups before those rows", n_wrong);
}

static void check_output(void) {
  static const char *const names[] = {"output dist", NULL};
  const double x = hidden(names, "forward", "backward");
  expect(x >= 0.8, "output dist of the next batch under this one's backward",
         x);
}

/* Dense gradients are on their way before the backward pass is over; with
 * UPDATED, an optimizer has run before its last layer begins. */
static void check_dense(bool updated) {
  const char *name = updated ? "dense optimizer" : "dense reduce";
  int n = 0, n_late = 0;
  for (int r = 0; r < trace.n_ranks; r++)
    for (int64_t b = first; b < last; b++, n++) {
      double begin = NAN, done = INFINITY;
      for (int64_t i = 0; i < trace.n_spans; i++) {
        const ts_read_span *s = &trace.spans[i];
        if (is(s, r, "dense backward", NULL, b)) begin = s->t0;
        if (is(s, r, name, NULL, b)) done = fmin(done, updated ? s->t1 : s->t0);
      }
      const double limit =
          updated ? begin : end_of(r, "dense backward", NULL, b);
      n_late += !(done < limit);
    }
  expect(n > 0 && n_late <= n / 5,
         updated ? "first updates behind the start of the last backward"
                 : "first reductions behind the end of the backward pass",
         n_late);
}

static int check_file(int argc, char **argv) {
  if (ts_trace_read(&trace, argv[2]) != TS_OK) {
    printf("FAILED: %s\n", ts_err_message());
    return 1;
  }
  if (trace.n_ranks > RANKS_MAX) return 1;
  find_batches();
  if (!strcmp(argv[1], "batches"))
    check_batches(argc > 3 ? atoll(argv[3]) : 0);
  else if (!strcmp(argv[1], "sparse_dist"))
    check_input();
  else if (!strcmp(argv[1], "fused_sparse_dist"))
    check_lookup();
  else if (!strcmp(argv[1], "each_lookup"))
    check_each_lookup();
  else if (!strcmp(argv[1], "prefetch"))
    check_prefetch();
  else if (!strcmp(argv[1], "semi_sync"))
    check_output();
  else if (!strcmp(argv[1], "ddp"))
    check_dense(false);
  else if (!strcmp(argv[1], "in_backward"))
    check_dense(true);
  else
    n_failed++;
  ts_trace_reset(&trace);
  return n_failed > 0;
}

int main(int argc, char **argv) {
  return argc > 2 ? check_file(argc, argv) : ts_test_main(argc, argv);
}
