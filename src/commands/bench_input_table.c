/* bench_input_table.c - the table of `bench input`: medians of each input, and
 * the medians of the pairs' ratios. */
#include "commands/bench_input.h"

#include <math.h>

#include "base/log.h"
#include "base/mem.h"
#include "commands/bench.h"
#include "commands/bench_table.h"

static const char *const names[TS_INPUTS] = {"kjt", "columns"};

/* Median of X[i] / Y[i]. */
static ts_err median_ratio(double *ratio, const double *x, const double *y,
                           int n) {
  double *q = NULL;
  TS_DO(ts_mem_array(&q, n, sizeof *q, TS_TAG_MISC));
  for (int i = 0; i < n; i++) q[i] = y[i] > 0 ? x[i] / y[i] : NAN;
  *ratio = ts_bench_median(q, n);
  ts_mem_free(q);
  return TS_OK;
}

/* The slowest rank's time of each. */
static ts_err share(ts_input_bench *b, ts_times *x) {
  double *each[] = {x->dist, x->pack, x->exchange, x->unpack};
  for (int i = 0; i < 4; i++)
    TS_DO(ts_comm_max_f64(b->t->control, each[i], b->iters));
  TS_DO(ts_comm_max_f64(b->t->control, x->step, b->rounds * b->steps));
  TS_DO(ts_comm_max_f64(b->t->control, &x->concat, 1));
  return ts_comm_sum_i64(b->t->control, &x->n_sent, 1);
}

static const ts_bench_table inputs = {
    "inputs",
    "{global_batch|%8C|batch}{input| %-8s|input}{dist_ms| %8.3f|dist}"
    "{dist_p90_ms| %8.3f|P90}{million_ids_per_s| %8.1f|M ids/s}"
    "{gb_per_s| %6.2f|GB/s}{concat_ms| %8.3f|concat}{pack_ms| %8.3f|pack}"
    "{exchange_ms| %8.3f|exchange}{unpack_ms| %8.3f|unpack}"
    "{copies| %7.2f|copies}{step_ms| %8.2f|step}{step_p90_ms| %8.2f|P90}"
    "{samples_per_s| %9C|samples/s}"};

static void print_line(const ts_input_bench *b, int input, int k) {
  const ts_times *x = &b->times[input];
  const int n = b->iters, n_steps = b->rounds * b->steps;
  const double ms = ts_bench_median(x->dist, n);
  const double step = ts_bench_median(x->step, n_steps);
  const double ids = (double)x->n_ids / n;
  /* Copies of an id: by the reader, and into messages. */
  const double copies = x->n_copied + (double)x->n_sent / (double)x->n_ids;
  const double batch = (double)(b->global_batch * k);
  ts_bench_print(&inputs, batch, names[input], ms,
                 ts_bench_tenth(x->dist, n, 9), ids / ms / 1e3,
                 (double)x->n_bytes / n / ms / 1e6, x->concat,
                 ts_bench_median(x->pack, n), ts_bench_median(x->exchange, n),
                 ts_bench_median(x->unpack, n), copies, step,
                 ts_bench_tenth(x->step, n_steps, 9), batch / step * 1e3);
}

static const ts_bench_table ratios = {
    "ratios", "{dist|         throughput of columns / kjt: input dist %.3f}"
              "{dist_fastest| (of the fastest tenths %.3f)}{step|, steps %.3f}"
              "{step_fastest| (%.3f)}"};

ts_err ts_input_print(ts_input_bench *b, int k) {
  double dist, step;
  const ts_times *x = &b->times[TS_INPUT_KJT], *y = &b->times[TS_INPUT_COLUMNS];
  for (int input = 0; input < TS_INPUTS; input++)
    TS_DO(share(b, &b->times[input]));
  TS_DO(median_ratio(&dist, x->dist, y->dist, b->iters));
  TS_DO(median_ratio(&step, x->step, y->step, b->rounds * b->steps));
  for (int input = 0; input < TS_INPUTS; input++) {
    print_line(b, input, k);
    TS_DO(ts_bench_copies_print(&b->times[input].copies, true));
  }
  /* print_line has sorted the times. */
  const int i = b->iters / 10, j = b->rounds * b->steps / 10;
  ts_bench_print(&ratios, dist, x->dist[i] / y->dist[i], step,
                 x->step[j] / y->step[j]);
  return TS_OK;
}

void ts_input_print_head(const ts_input_bench *b) {
  ts_info("bench input: %d ranks of %d threads, pipeline %s, %s data; %d "
          "batches, %d blocks of %d steps; medians, ms",
          b->t->n_ranks, b->t->n_threads, b->t->pipeline->name,
          b->source[0]->info.format, b->iters, b->rounds, b->steps);
  ts_bench_heads(&inputs);
}
