/* tbe_average.c - lookups of rows' running means (row_optim.h), for evaluations
 * in training, and rows that become their means where nobody trains. */
#include "sparse/tbe_impl.h"

void ts_tbe_look_at_averages(ts_tbe *t, int64_t at) {
  t->average_at = t->optim->averages ? at : 0;
}

static ts_average_rows_args group_args(const ts_tbe *t, int64_t at) {
  const ts_tier_ops *ops = t->tier->ops;
  const int last = t->optim->n_states - 1;
  ts_average_rows_args a = {.weight = ops->weights(t->tier),
                            .ema = ops->state(t->tier, last - 1),
                            .ema_pass = ops->state(t->tier, last),
                            .dtype = t->dtype,
                            .dim = t->dim,
                            .decay = t->ema,
                            .pass = at};
  if (!ops->lines) return a;
  a.first_line = ops->first_line(t->tier);
  a.lines = ops->lines(t->tier, -1);
  a.ema_lines = ops->lines(t->tier, last - 1);
  return a;
}

ts_err ts_tbe_average(ts_tbe *t, ts_lookup_args *bags, const ts_tbe_input *in,
                      int64_t at) {
  const int64_t n = in->n_ids;
  const size_t row = (size_t)ts_row_bytes(t->dtype, t->dim);
  TS_DO(ts_tbe_reserve(t, n, 0));
  TS_DO(ts_buffer_reserve(&t->sums, (size_t)n * row));
  const ts_entries_args entries = {.keys = t->keys[0].ptr,
                                   .order = t->order[0].ptr,
                                   .offsets = in->offsets,
                                   .rows = in->rows,
                                   .bag_start = in->bag_start,
                                   .row_base = t->feature_base,
                                   .n_features = t->n_features};
  ts_average_rows_args a = group_args(t, at);
  a.out = t->sums.ptr;
  a.index = t->order[0].ptr;
  a.keys = t->keys[0].ptr;
  a.place = in->hold ? in->hold->slots.ptr : NULL;
  a.n = n;
  bags->weight = t->sums.ptr;
  bags->rows = t->order[0].ptr;
  bags->row_base = t->zero;
  bags->lines = NULL;
  bags->first_line = 0;
  TS_DO(t->kernels->entries(&entries));
  return t->kernels->average_rows(&a);
}

typedef struct ts_take_arg {
  ts_tbe *tbe;
  int64_t at;
} ts_take_arg;

/* The rows of table I that have memory. */
static ts_err take_table(ts_tbe *t, int32_t i, ts_average_rows_args a) {
  const size_t base = (size_t)t->row_base[i], dim = (size_t)t->dim;
  char *rows = t->tier->ops->weights(t->tier);
  rows += base * (size_t)ts_row_bytes(t->dtype, t->dim);
  a.out = rows;
  a.weight = rows;
  a.ema += base * dim;
  a.ema_pass += base;
  a.n = ts_tbe_given(t, i);
  return t->kernels->average_rows(&a);
}

static ts_err take_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_take_arg *arg = p;
  ts_tbe *t = arg->tbe;
  for (int32_t i = 0; i < t->n_tables; i++)
    TS_DO(take_table(t, i, group_args(t, arg->at)));
  return TS_OK;
}

ts_err ts_tbe_take_averages(ts_tbe *t, int64_t at, ts_lane *lane) {
  const ts_take_arg arg = {t, at};
  if (!t->optim->averages || at <= 0) return TS_OK;
  return ts_lane_run(lane, "averages", take_task, arg);
}
