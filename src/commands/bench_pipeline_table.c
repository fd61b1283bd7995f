/* bench_pipeline_table.c - the table of `tessera bench pipeline`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "commands/bench_pipeline.h"
#include "commands/bench_table.h"

/* The figures of a row of the table. */
typedef struct ts_line {
  double median, p90, fastest; /* ms; fastest: of the fastest tenth */
  double rate;                 /* samples/s */
  double exposed;              /* % of the time */
  double input_hidden;         /* % of input dist's messages */
  /* NAN without their row: */
  double of_base, of_sparse_dist; /* step times over theirs */
  double fastest_of;              /* fastest tenth over sparse_dist's */
  int same;                       /* losses are base's; -1: not known */
} ts_line;

/* The median of one round. */
static double of_round(const ts_pipeline_bench *b, const ts_pipeline_case *x,
                       int round) {
  double ms[b->steps];
  memcpy(ms, x->ms + (int64_t)round * b->steps, sizeof ms);
  return ts_bench_median(ms, b->steps);
}

/* The median of the rounds' ratios, since a round's turns were neighbours in
 * time.  NAN without Y. */
static double ratio(const ts_pipeline_bench *b, const ts_pipeline_case *x,
                    const ts_pipeline_case *y) {
  double q[b->rounds];
  if (!y) return NAN;
  for (int r = 0; r < b->rounds; r++)
    q[r] = of_round(b, x, r) / of_round(b, y, r);
  return ts_bench_median(q, b->rounds);
}

/* KIND's row with the same in_backward as X's, or NULL. */
static const ts_pipeline_case *row_of(const ts_pipeline_bench *b,
                                      const ts_pipeline_case *x,
                                      const char *kind) {
  for (int i = 0; i < b->n_cases; i++)
    if (!strcmp(b->cases[i].kind, kind) &&
        b->cases[i].in_backward == x->in_backward)
      return &b->cases[i];
  return NULL;
}

/* Time of the fastest tenth: what the machine does when left alone. */
static double fastest(const ts_pipeline_bench *b, const ts_pipeline_case *x) {
  const int n = b->rounds * b->steps;
  double ms[n];
  memcpy(ms, x->ms, sizeof ms);
  (void)ts_bench_median(ms, n); /* sorts */
  return ts_bench_tenth(ms, n, 1);
}

/* Median of Y over the quarter of steps that took least: one that the machine
 * held up says nothing of how messages are hidden. */
static double quiet_median(const ts_pipeline_bench *b,
                           const ts_pipeline_case *x, const double *y) {
  const int n = b->rounds * b->steps;
  double ms[n], kept[n];
  int n_kept = 0;
  memcpy(ms, x->ms, sizeof ms);
  (void)ts_bench_median(ms, n); /* sorts */
  for (int i = 0; i < n; i++)
    if (x->ms[i] <= ms[n / 4]) kept[n_kept++] = y[i];
  return ts_bench_median(kept, n_kept);
}

static ts_line make_row(const ts_pipeline_bench *b, const ts_pipeline_case *x) {
  const int n = b->rounds * b->steps;
  const ts_pipeline_case *base = row_of(b, x, "base");
  const ts_pipeline_case *sparse_dist = row_of(b, x, "sparse_dist");
  const double input = quiet_median(b, x, x->input);
  double ms[n];
  memcpy(ms, x->ms, sizeof ms);
  ts_line row = {.median = ts_bench_median(ms, n), /* sorts */
                 .of_base = ratio(b, x, base),
                 .of_sparse_dist = ratio(b, x, sparse_dist),
                 .same = base ? x->losses == base->losses : -1};
  row.p90 = ts_bench_tenth(ms, n, 9);
  row.fastest = ts_bench_tenth(ms, n, 1);
  row.fastest_of = sparse_dist ? row.fastest / fastest(b, sparse_dist) : NAN;
  row.rate = (double)b->global_batch / row.median * 1e3;
  row.exposed =
      100 * quiet_median(b, x, x->exposed) / quiet_median(b, x, x->ms);
  if (input > 0)
    row.input_hidden = 100 * (1 - quiet_median(b, x, x->input_exposed) / input);
  return row;
}

static const ts_bench_table head = {
    "case",
    "{deck|bench pipeline: %s}{scale|, scale %g}{ranks|, %.0f ranks}"
    "{threads| of %.0f threads}{global_batch|, batch %.0f}"
    "{rounds|; %.0f rounds}{steps| of %.0f steps}{warm| after %.0f}{ids|; %s}"
    "{delay_us|}{delay_gbytes_per_s|}"};

void ts_pipeline_bench_head(const ts_pipeline_bench *b) {
  ts_info(" ");
  ts_bench_print(&head, b->deck, b->scale, (double)b->n_ranks,
                 (double)b->n_threads, (double)b->global_batch,
                 (double)b->rounds, (double)b->steps, (double)b->warm, b->ids,
                 b->delay_us, b->delay_gbytes_per_s);
  if (b->delay_us > 0 || b->delay_gbytes_per_s > 0)
    ts_info("a network of %g us and %g GB/s (comm.delay)", b->delay_us,
            b->delay_gbytes_per_s);
}

static const ts_bench_table pipelines = {
    "pipelines",
    "{|%-36s|pipeline}{pipeline|s}{stash_gradients|}{lookup|s}{lane|s}"
    "{plain|}{in_backward|}{median_ms| %9.2f|step\nms}{p90_ms| %9.2f|P90\nms}"
    "{fastest_ms| %9.2f|fastest\n10%}{samples_per_s| %9C|samples/s}"
    "{alloc_bytes| %10B|alloc}{reserved_bytes| %10B|reserved}"
    "{exposed_comm_percent| %7.1f|exposed\ncomm %}"
    "{input_hidden_percent| %7.1f|input\nhidden%}{of_base| %7.3f|of\nbase}"
    "{of_sparse_dist| %7.3f|of s.\ndist}"
    "{fastest_of_sparse_dist| %7.3f|of its\nfastest}{losses|  %s|losses}"};

static void print_row(const ts_pipeline_case *x, const ts_line *row) {
  const ts_pipeline_variant *v = &x->variant;
  char name[64];
  snprintf(name, sizeof name, "%s%s%s%s%s%s%s", x->kind,
           x->plain ? ", no graph" : "", v->stash ? ", stash" : "",
           v->lookup ? ", " : "", v->lookup ? v->lookup : "",
           v->lookup ? ", " : "", v->lookup ? v->lane : "");
  ts_bench_print(&pipelines, name, x->kind, (double)v->stash, v->lookup,
                 v->lookup ? v->lane : NULL, (double)x->plain,
                 (double)x->in_backward, row->median, row->p90, row->fastest,
                 row->rate, (double)x->alloc, (double)x->reserved, row->exposed,
                 row->input_hidden, row->of_base, row->of_sparse_dist,
                 row->fastest_of,
                 row->same < 0 ? NULL
                 : row->same   ? "base's"
                               : "its own");
}

static const ts_bench_table fetched = {
    "rows", "{pipeline|  %s fetches rows}{fetch_ms| for %.2f ms a step}"
            "{exposed_ms|, %.2f of it exposed}{scratch_bytes|; scratch %B}"};

void ts_pipeline_bench_print(const ts_pipeline_bench *b) {
  for (int i = 0; i < b->n_cases; i++) {
    const ts_pipeline_case *x = &b->cases[i];
    const ts_line row = make_row(b, x);
    if (!i || x->in_backward != b->cases[i - 1].in_backward) {
      ts_info(" ");
      ts_info("in_backward = %s", x->in_backward ? "true" : "false");
      ts_bench_heads(&pipelines);
    }
    print_row(x, &row);
    if (x->scratch)
      ts_bench_print(&fetched, x->kind, x->fetch, x->waited,
                     (double)x->scratch);
  }
}
