/* tbe_columns.c - the backward pass of groups that hold some columns of each
 * row: in stages, so that statistics of whole rows can be summed over the
 * shards in between. */
#include "base/mem.h"
#include "sparse/tbe_impl.h"

typedef struct ts_gather_arg {
  ts_tbe *tbe;
  const float *grad;
  ts_tbe_input input;
} ts_gather_arg;

static ts_err gather_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_gather_arg *arg = p;
  ts_tbe *t = arg->tbe;
  TS_DO(ts_tbe_sum(t, arg->grad, &arg->input));
  const size_t bytes = (size_t)t->n_sums * TS_ROW_STATS_MAX * sizeof(float);
  TS_DO(ts_buffer_reserve(&t->stats, bytes + 4));
  return t->kernels->zero(t->stats.ptr, bytes);
}

ts_err ts_tbe_gather(ts_tbe *t, const float *grad, const ts_tbe_input *input,
                     ts_lane *lane) {
  ts_gather_arg arg = {t, grad, *input};
  return ts_lane_run(lane, "sum rows", gather_task, arg);
}

typedef struct ts_stage_arg {
  ts_tbe *tbe;
  int round;
  double lr_factor;
  int64_t pass;
} ts_stage_arg;

static ts_err stage_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_stage_arg *arg = p;
  ts_tbe *t = arg->tbe;
  const uint32_t *place;
  if (!t->n_sums) return TS_OK;
  TS_DO(ts_tbe_locate(t, &place, t->sum_keys.ptr, t->n_sums));
  if (arg->round < 0) TS_DO(ts_tbe_mark(t, t->sum_keys.ptr, t->n_sums));
  ts_row_update_args a = ts_tbe_update_args(t, arg->lr_factor, arg->pass);
  a.work = t->work.ptr;
  const ts_row_stage_args stage = {.update = &a,
                                   .keys = t->sum_keys.ptr,
                                   .place = place,
                                   .sums = t->sums.ptr,
                                   .n = t->n_sums,
                                   .stats = t->stats.ptr,
                                   .round = arg->round};
  return t->kernels->row_stage(&stage);
}

ts_err ts_tbe_stage(ts_tbe *t, int round, double lr_factor, int64_t pass,
                    ts_lane *lane) {
  ts_stage_arg arg = {t, round, lr_factor, pass};
  return ts_lane_run(lane, "row statistics", stage_task, arg);
}

ts_err ts_tbe_finish(ts_tbe *t, double lr_factor, int64_t pass, ts_lane *lane) {
  ts_stage_arg arg = {t, -1, lr_factor, pass};
  return ts_lane_run(lane, "fused backward", stage_task, arg);
}

float *ts_tbe_stats(ts_tbe *t) {
  return t->stats.ptr;
}

int64_t ts_tbe_key(const ts_tbe *t, int32_t table, int64_t row) {
  return t->row_base[table] + row - t->first_row[table];
}

ts_err ts_tbe_find(ts_tbe *t, const int64_t *keys, int64_t *at, int32_t n) {
  const ts_find_args a = {
      .keys = t->sum_keys.ptr, .n = t->n_sums, .row = keys, .at = at, .m = n};
  return t->kernels->find(&a);
}
