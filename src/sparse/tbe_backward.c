/* tbe_backward.c - fused backward: ids sorted by row, gradients of a row
 * summed in the order of the global batch, one update per row. */
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/trace.h"
#include "sparse/sort.h"
#include "sparse/tbe_impl.h"

/* Kernels run one after the other: the sort's scratch is the update's.  Those
 * of other devices have their own. */
static size_t work_bytes(const ts_tbe *t, int64_t n) {
  const int own = ts_device_options_of(t->device)->n_threads;
  const int here = omp_get_max_threads();
  const int n_threads = own > here ? own : here;
  const size_t sort = ts_sort_work_bytes(n_threads);
  const size_t update = ts_row_update_work_bytes(n, t->dim, n_threads);
  return sort > update ? sort : update;
}

/* Scratch that grows with the ids. */
enum {
  KEYS,
  KEYS_TWO,
  ORDER,
  ORDER_TWO,
  GRAD_AT,
  BAG_SCALE,
  BAG_OF,
  SUMS,
  SUM_KEYS,
  MESSAGE,
  STATS,
  AHEAD_KEYS,
  AHEAD_ORDER,
  SCRATCH
};

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static void sizes_of(int64_t *size, const ts_tbe_expected *x, int32_t dim) {
  const int64_t n = larger(x->ahead ? 0 : x->n_ids, x->n_all);
  const int64_t bags = larger(x->ahead ? 0 : x->n_bags, x->n_all);
  memset(size, 0, SCRATCH * sizeof *size);
  size[KEYS] = size[KEYS_TWO] = size[ORDER] = size[ORDER_TWO] = 4 * (n + 1);
  size[GRAD_AT] = 8 * (bags + 1);
  if (x->ahead) size[AHEAD_KEYS] = size[AHEAD_ORDER] = 4 * (x->n_ids + 1);
  size[BAG_SCALE] = 4 * (bags + 1);
  if (x->weighted && !x->ahead) size[BAG_OF] = 4 * (x->n_ids + 1);
  if (!x->n_sums) return;
  size[SUMS] = 4 * dim * x->n_ids;
  size[SUM_KEYS] = 4 * x->n_ids;
  if (x->n_all)
    size[MESSAGE] = 4 * x->n_sums * (dim + 1) + 4;
  else
    size[STATS] = 4 * x->n_sums * TS_ROW_STATS_MAX + 4;
}

int64_t ts_tbe_scratch_bytes(const ts_tbe_expected *x, int32_t dim) {
  int64_t size[SCRATCH], bytes = 0;
  sizes_of(size, x, dim);
  for (int i = 0; i < SCRATCH; i++) bytes += size[i];
  return bytes;
}

/* POOL: what the buffers join first, or NULL. */
static ts_err reserve(ts_tbe *t, ts_pool *pool, const ts_tbe_expected *x) {
  ts_buffer *const all[SCRATCH] = {
      [KEYS] = &t->keys[0],        [KEYS_TWO] = &t->keys[1],
      [ORDER] = &t->order[0],      [ORDER_TWO] = &t->order[1],
      [GRAD_AT] = &t->grad_at,     [BAG_SCALE] = &t->bag_scale,
      [BAG_OF] = &t->bag_of,       [SUMS] = &t->sums,
      [SUM_KEYS] = &t->sum_keys,   [MESSAGE] = &t->message,
      [STATS] = &t->stats,         [AHEAD_KEYS] = &t->ahead[0],
      [AHEAD_ORDER] = &t->ahead[1]};
  const size_t work =
      t->discrete ? 0 : work_bytes(t, larger(x->n_ids, x->n_all));
  int64_t size[SCRATCH];
  sizes_of(size, x, t->dim);
  if (pool) TS_DO(ts_pool_add(pool, &t->work));
  TS_DO(ts_buffer_reserve(&t->work, work));
  for (int i = 0; i < SCRATCH; i++) {
    if (pool) TS_DO(ts_pool_add(pool, all[i]));
    if (size[i]) TS_DO(ts_buffer_reserve(all[i], (size_t)size[i]));
  }
  return TS_OK;
}

ts_err ts_tbe_reserve(ts_tbe *t, int64_t n, int64_t n_bags) {
  const ts_tbe_expected x = {.n_ids = n, .n_bags = n_bags};
  return reserve(t, NULL, &x);
}

ts_err ts_tbe_expect(ts_tbe *t, ts_pool *pool, const ts_tbe_expected *x) {
  return reserve(t, pool, x);
}

/* For sums: without the settings of a step, which T may hold. */
static ts_row_update_args group_args(ts_tbe *t) {
  ts_row_update_args a = {.optim = t->optim,
                          .weight = t->tier->ops->weights(t->tier),
                          .dtype = t->dtype,
                          .dim = t->dim,
                          .row_base = t->row_base,
                          .n_tables = t->n_tables,
                          .row_dim = t->row_dim,
                          .table_id = t->table_id,
                          .first_row = t->first_row,
                          .first_col = t->first_col,
                          .row_id = t->mirror ? ts_mirror_ids(t) : t->row_id,
                          .seed = t->seed};
  for (int k = 0; k < t->optim->n_states; k++)
    a.state[k] = t->tier->ops->state(t->tier, k);
  if (!t->tier->ops->lines) return a;
  a.first_line = t->tier->ops->first_line(t->tier);
  a.lines = t->tier->ops->lines(t->tier, -1);
  for (int k = 0; k < t->optim->n_states; k++)
    a.line_state[k] = t->tier->ops->lines(t->tier, k);
  return a;
}

ts_row_update_args ts_tbe_update_args(ts_tbe *t, double lr_factor,
                                      int64_t pass) {
  ts_row_update_args a = group_args(t);
  for (int32_t i = 0; i < t->n_tables; i++) {
    const ts_table_config *c = t->tables[i].config;
    t->hyper[i] = ts_row_hyper_at(&c->optimizer, lr_factor, pass);
    t->hyper[i].max_norm = (float)c->max_norm;
    t->hyper[i].ema = t->ema;
  }
  a.hyper = t->hyper;
  a.step = pass;
  a.score = ts_mirror_score(t);
  return a;
}

/* keys: group rows; order: the bag, or with weights the entry itself, whose
 * bag goes to bag_of; each bag's share where bags are means. */
static ts_err fill_entries(ts_tbe *t, const ts_tbe_sorted *s,
                           const ts_tbe_input *in) {
  const ts_entries_args a = {.keys = s->keys,
                             .order = s->order,
                             .bag_of = in->weights ? s->bag_of : NULL,
                             .bag_scale = t->mean ? s->bag_scale : NULL,
                             .offsets = in->offsets,
                             .rows = in->rows,
                             .bag_start = in->bag_start,
                             .row_base = t->feature_base,
                             .n_features = t->n_features};
  return t->kernels->entries(&a);
}

/* The ids of each table, where they follow each other; sorts of other devices
 * don't want to know. */
static void cut_segments(ts_tbe *t, ts_sort_args *sort,
                         const ts_tbe_input *in) {
  if (!t->table_start || t->discrete) return;
  for (int32_t i = 0; i <= t->n_tables; i++)
    t->segment[i] = in->offsets[in->bag_start[t->table_start[i]]];
  sort->n_segments = t->n_tables;
  sort->segment = t->segment;
  sort->segment_base = t->row_base;
  sort->segment_bits = t->table_bits;
}

static ts_tbe_sorted own_scratch(const ts_tbe *t) {
  return (ts_tbe_sorted){.keys = t->keys[0].ptr,
                         .order = t->order[0].ptr,
                         .bag_of = t->bag_of.ptr,
                         .bag_scale = t->bag_scale.ptr};
}

static ts_sort_args sort_args(ts_tbe *t, const ts_tbe_sorted *s,
                              const ts_buffer *scratch_keys,
                              const ts_buffer *scratch_order, int64_t n) {
  return (ts_sort_args){.keys = s->keys,
                        .keys_scratch = scratch_keys->ptr,
                        .values = s->order,
                        .values_scratch = scratch_order->ptr,
                        .runs = s->runs,
                        .n = n,
                        .n_bits = t->key_bits,
                        .work = t->work.ptr};
}

ts_err ts_tbe_sort_ahead(ts_tbe *t, const ts_tbe_input *in) {
  const size_t bytes = (size_t)(in->n_ids + 1) * 4;
  if (!in->n_ids) return TS_OK;
  TS_DO(ts_buffer_reserve(&t->ahead[0], bytes));
  TS_DO(ts_buffer_reserve(&t->ahead[1], bytes));
  TS_DO(fill_entries(t, in->sorted, in));
  const ts_sort_args sort =
      sort_args(t, in->sorted, &t->ahead[0], &t->ahead[1], in->n_ids);
  return t->kernels->sort(&sort);
}

static ts_err sort_now(ts_tbe *t, ts_tbe_sorted *s, const ts_tbe_input *in) {
  const double t0 = ts_now();
  TS_DO(ts_tbe_reserve(t, in->n_ids, in->bag_start[t->n_features]));
  if (in->weights)
    TS_DO(ts_buffer_reserve(&t->bag_of, (size_t)(in->n_ids + 1) * 4));
  *s = own_scratch(t);
  TS_DO(fill_entries(t, s, in));
  ts_sort_args sort = sort_args(t, s, &t->keys[1], &t->order[1], in->n_ids);
  cut_segments(t, &sort, in);
  TS_DO(t->kernels->sort(&sort));
  /* A discrete device has only been told to. */
  if (!t->discrete) ts_timer_part("  of it sort", ts_now() - t0);
  return TS_OK;
}

ts_err ts_tbe_sort(ts_tbe *t, ts_row_update_args *a, const float *grad,
                   const ts_tbe_input *in) {
  ts_tbe_sorted own;
  const ts_tbe_sorted *s = in->sorted ? in->sorted : &own;
  if (!in->sorted) TS_DO(sort_now(t, &own, in));
  a->keys = s->keys;
  a->order = s->order;
  a->runs = s->runs;
  a->n = in->n_ids;
  a->work = t->work.ptr;
  a->grad = grad;
  a->grad_at = in->at;
  a->bag_of = in->weights ? s->bag_of : NULL;
  a->weights = in->weights;
  a->bag_scale = t->mean ? s->bag_scale : NULL;
  return TS_OK;
}

ts_err ts_tbe_sort_sums(ts_tbe *t, ts_row_update_args *a, const float *grad,
                        int64_t n) {
  const ts_tbe_sorted own = own_scratch(t);
  const ts_sort_args sort = sort_args(t, &own, &t->keys[1], &t->order[1], n);
  TS_DO(t->kernels->sort(&sort));
  a->keys = sort.keys;
  a->order = sort.values;
  a->n = n;
  a->work = t->work.ptr;
  a->grad = grad;
  a->grad_at = t->grad_at.ptr;
  return TS_OK;
}

/* Sums of A's runs. */
static ts_err sum_runs(ts_tbe *t, ts_row_update_args *a) {
  TS_DO(ts_buffer_reserve(&t->sums, (size_t)(a->n * t->dim) * 4));
  TS_DO(ts_buffer_reserve(&t->sum_keys, (size_t)a->n * 4));
  a->sum_out = t->sums.ptr;
  a->key_out = t->sum_keys.ptr;
  a->n_out = t->n_known < 0 ? &t->n_sums : NULL;
  if (t->n_known >= 0) t->n_sums = t->n_known;
  return t->kernels->row_update(a);
}

ts_err ts_tbe_sum_batch(ts_tbe *t, const float *grad, const ts_tbe_input *in) {
  t->n_sums = 0;
  if (!in->n_ids) return TS_OK;
  ts_row_update_args a = group_args(t);
  TS_DO(ts_tbe_sort(t, &a, grad, in));
  return sum_runs(t, &a);
}

ts_err ts_tbe_sum(ts_tbe *t, const float *grad, const ts_tbe_input *in) {
  if (!t->n_kept) return ts_tbe_sum_batch(t, grad, in);
  ts_row_update_args a = group_args(t);
  TS_DO(ts_tbe_entries(t, &a, grad, in));
  t->n_sums = 0;
  return sum_runs(t, &a);
}

ts_err ts_tbe_locate(ts_tbe *t, const uint32_t **place, const uint32_t *keys,
                     int64_t n) {
  *place = NULL;
  if (!t->tier->ops->cached) return TS_OK;
  TS_DO(ts_buffer_reserve(&t->place, (size_t)n * 4 + 4));
  TS_DO(t->tier->ops->locate(t->tier, t->place.ptr, keys, n));
  *place = t->place.ptr;
  return TS_OK;
}

typedef struct ts_backward_arg {
  ts_tbe *tbe;
  const float *grad;
  ts_tbe_input input;
  double lr_factor;
  int64_t pass;
} ts_backward_arg;

static ts_err backward_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_backward_arg *arg = p;
  ts_tbe *t = arg->tbe;
  if (!arg->input.n_ids && !t->n_kept) return TS_OK;
  ts_row_update_args a = ts_tbe_update_args(t, arg->lr_factor, arg->pass);
  TS_DO(ts_tbe_entries(t, &a, arg->grad, &arg->input));
  TS_DO(ts_tbe_locate(t, &a.place, a.keys, a.n));
  TS_DO(ts_tbe_mark(t, a.keys, a.n));
  TS_DO(ts_tbe_meet(t, a.keys, a.n, arg->pass));
  TS_DO(t->kernels->row_update(&a));
  return ts_tbe_met(t);
}

ts_err ts_tbe_backward(ts_tbe *t, const float *grad, const ts_tbe_input *input,
                       double lr_factor, int64_t pass, ts_lane *lane) {
  ts_backward_arg arg = {t, grad, *input, lr_factor, pass};
  return ts_lane_run(lane, "fused backward", backward_task, arg);
}
