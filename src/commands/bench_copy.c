/* bench_copy.c - the copies of batches to a discrete device, by its own clocks.
 *
 * A batch's copy costs only its part after the end of the batch before: until
 * then the device has other work. */
#include "commands/bench_copy.h"

#include <math.h>

#include "commands/bench_table.h"

ts_err ts_bench_copies_start(ts_bench_copies *b, ts_trainer *t, int n_steps) {
  *b = (ts_bench_copies){.t = t, .n_steps = n_steps};
  if (!t->uploads) return TS_OK;
  TS_DO(ts_uploads_time(t->uploads, n_steps + 2));
  return ts_clock_create(&b->compute, t->compute, n_steps + 1);
}

void ts_bench_copies_reset(ts_bench_copies *b) {
  ts_clock_destroy(b->compute);
  *b = (ts_bench_copies){0};
}

ts_err ts_bench_copies_begin(ts_bench_copies *b) {
  if (!b->compute) return TS_OK;
  b->n_done = 0;
  b->before = ts_upload_stat_of(b->t->uploads);
  /* The start is before all copies. */
  TS_DO(ts_clock_mark(b->compute, 0));
  return ts_lane_sync(b->t->compute);
}

ts_err ts_bench_copies_step(ts_bench_copies *b) {
  if (!b->compute || b->n_done == b->n_steps) return TS_OK;
  return ts_clock_mark(b->compute, ++b->n_done);
}

/* Batch K of the block, which was copied as number I of all. */
static ts_err add(ts_bench_copies *b, int k, int64_t i) {
  double from, to, before;
  TS_DO(ts_upload_times(b->t->uploads, i, b->compute, 0, &from, &to));
  b->n_copies++;
  b->seconds += to - from;
  if (k < 1 || k > b->n_done) return TS_OK;
  TS_DO(ts_clock_between(b->compute, 0, k, &before));
  b->hideable += to - from;
  b->hidden += fmin(fmax(before - from, 0), to - from);
  return TS_OK;
}

ts_err ts_bench_copies_end(ts_bench_copies *b) {
  if (!b->compute) return TS_OK;
  TS_DO(ts_lane_sync(b->t->compute));
  TS_DO(ts_lane_sync(ts_uploads_lane(b->t->uploads)));
  const ts_upload_stat now = ts_upload_stat_of(b->t->uploads);
  for (int64_t i = b->before.n_copies; i < now.n_copies; i++)
    TS_DO(add(b, (int)(i - b->before.n_copies), i));
  b->bytes += (double)(now.n_bytes - b->before.n_bytes);
  return TS_OK;
}

static const ts_bench_table copies = {
    "copies",
    "{memory|  batch to device, %s}{ms|: %.3f ms a copy}{mb| of %.2f MB}"
    "{gb_per_s|, %.1f GB/s}"
    "{hidden_percent|; %.1f %% of it before the end of the batch before}"};

ts_err ts_bench_copies_print(ts_bench_copies *b, bool ahead) {
  double x[] = {(double)b->n_copies, b->bytes, b->seconds, b->hideable,
                b->hidden};
  if (!b->compute) return TS_OK;
  TS_DO(ts_comm_sum_f64(b->t->control, x, 5));
  ts_bench_print(&copies,
                 b->t->config->data.pin_memory ? "page-locked" : "pageable",
                 1e3 * x[2] / x[0], 1e-6 * x[1] / x[0], 1e-9 * x[1] / x[2],
                 ahead && x[3] > 0 ? 100 * x[4] / x[3] : NAN);
  b->n_copies = 0;
  b->bytes = b->seconds = b->hideable = b->hidden = 0;
  return TS_OK;
}
