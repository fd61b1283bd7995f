/* tbe.c - making groups, forward. */
#include "sparse/tbe.h"

#include <string.h>

#include "base/mem.h"
#include "sparse/tbe_impl.h"

static ts_err copy_tables(ts_tbe *t, const ts_tbe_spec *s) {
  const int32_t n = s->n_tables;
  t->n_tables = n;
  TS_DO(ts_mem_many(t->tables, n, MISC));
  TS_DO(ts_mem_many(t->row_base, n + 1, MISC));
  TS_DO(ts_mem_many(t->table_id, n, MISC));
  TS_DO(ts_mem_many(t->first_row, n, MISC));
  TS_DO(ts_mem_many(t->first_col, n, MISC));
  TS_DO(ts_mem_many(t->row_dim, n, MISC));
  TS_DO(ts_mem_many(t->hyper, n, MISC));
  for (int32_t i = 0; i < n; i++) {
    t->tables[i] = s->tables[i];
    t->table_id[i] = s->tables[i].table_id;
    t->first_row[i] = s->tables[i].first_row;
    t->first_col[i] = s->tables[i].col0;
    t->row_dim[i] = s->tables[i].config->dim;
    t->row_base[i + 1] = t->row_base[i] + s->tables[i].n_rows;
  }
  if (t->row_base[n] > UINT32_MAX)
    return ts_fail(
        TS_ERR_DECK,
        "table %s and %d more of its kind have %lld rows on one rank; "
        "a group takes 4294967295: use more ranks or row_wise",
        s->tables[0].config->name, n - 1, (long long)t->row_base[n]);
  while (t->key_bits < 32 && t->row_base[n] >> t->key_bits) t->key_bits++;
  for (int32_t i = 0; i < n; i++)
    while (t->table_bits < 32 && s->tables[i].n_rows >> t->table_bits)
      t->table_bits++;
  return TS_OK;
}

static ts_err copy_features(ts_tbe *t, const ts_tbe_spec *s) {
  const int32_t n = s->n_features;
  t->n_features = n;
  TS_DO(ts_mem_many(t->feature_base, n, MISC));
  TS_DO(ts_mem_many(t->zero, n, MISC));
  TS_DO(ts_mem_many(t->feature_table, n, MISC));
  for (int32_t f = 0; f < n; f++) t->feature_table[f] = s->feature_table[f];
  for (int32_t f = 0; f < n; f++)
    t->feature_base[f] = t->row_base[s->feature_table[f]];
  return TS_OK;
}

/* Features in the order of their tables let each table's ids be sorted
 * alone. */
static ts_err find_segments(ts_tbe *t, const ts_tbe_spec *s) {
  for (int32_t f = 1; f < s->n_features; f++)
    if (s->feature_table[f] < s->feature_table[f - 1]) return TS_OK;
  TS_DO(ts_mem_many(t->segment, t->n_tables + 1, MISC));
  TS_DO(ts_mem_many(t->table_start, t->n_tables + 1, MISC));
  for (int32_t f = 0; f < s->n_features; f++)
    t->table_start[s->feature_table[f] + 1] = f + 1;
  for (int32_t i = 0; i < t->n_tables; i++) /* tables that no feature uses */
    if (t->table_start[i + 1] < t->table_start[i])
      t->table_start[i + 1] = t->table_start[i];
  return TS_OK;
}

static ts_err create_tier(ts_tbe *t, const ts_tbe_spec *s) {
  const ts_table_config *c = s->tables[0].config;
  ts_tier_spec spec = {
      .n_rows = t->row_base[t->n_tables],
      .grows = c->grow > 0,
      .dim = t->dim,
      .dtype = t->dtype,
      .n_states = t->optim->n_states,
      .kernels = t->kernels,
      .row_base = t->row_base,
      .n_tables = t->n_tables,
      .dir = !strcmp(ts_table_tier(c), "file") ? s->tier_dir : NULL,
      .load_factor = ts_table_load_factor(c),
      .lfu = c->cache.policy && !strcmp(c->cache.policy, "lfu"),
      .passes = c->cache.passes ? c->cache.passes : c->cache.auto_passes,
      .min_pass = c->cache.min_pass_size};
  if (spec.passes < 1) spec.passes = 1;
  for (int k = 0; k < spec.n_states; k++) {
    spec.state_per_row[k] = t->optim->state[k].per_row;
    spec.state_cols[k] = spec.state_per_row[k] ? 1 : t->dim;
  }
  const ts_tier_ops *ops = ts_tier_find(ts_table_kernel(c));
  if (!ops) ops = ts_tier_default();
  return ops->create(&t->tier, t->device, &spec);
}

static void own_scratch(ts_tbe *t) {
  ts_buffer *all[] = {&t->keys[0],  &t->keys[1],   &t->order[0],  &t->order[1],
                      &t->bag_of,   &t->grad_at,   &t->bag_scale, &t->sums,
                      &t->sum_keys, &t->stats,     &t->message,   &t->place,
                      &t->work,     &t->kept_sums, &t->kept_keys, &t->ahead[0],
                      &t->ahead[1]};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    *all[i] = (ts_buffer){.space = TS_SPACE_DEVICE,
                          .tag = TS_TAG_SPARSE,
                          .owned = true,
                          .device = t->device};
}

ts_err ts_tbe_create(ts_tbe **out, ts_device *device, const ts_kernels *k,
                     const ts_tbe_spec *s) {
  ts_err err = TS_OK;
  ts_tbe *t = NULL;
  TS_TRY(ts_mem_alloc(&t, sizeof *t, TS_TAG_MISC));
  t->device = device;
  t->discrete = ts_device_is_discrete(device);
  t->n_known = -1;
  t->kernels = k;
  t->own = ts_row_optim_of(s->tables[0].config);
  t->optim = s->optim ? s->optim : &t->own;
  t->ema = s->ema;
  t->dim = s->tables[0].n_cols;
  t->dtype = s->tables[0].config->dtype;
  t->mean = s->mean;
  t->seed = s->seed;
  own_scratch(t);
  if (!t->optim->kind)
    TS_THROW(TS_ERR_DECK, "table %s: no optimizer \"%s\"",
             s->tables[0].config->name, s->tables[0].config->optimizer.kind);
  TS_TRY(copy_tables(t, s));
  TS_TRY(copy_features(t, s));
  TS_TRY(find_segments(t, s));
  TS_TRY(create_tier(t, s));
  TS_TRY(ts_tbe_index_create(t));
  *out = t;
  t = NULL;
done:
  ts_tbe_destroy(t);
  return err;
}

void ts_tbe_destroy(ts_tbe *t) {
  if (!t) return;
  if (t->tier) t->tier->ops->destroy(t->tier);
  ts_tbe_index_destroy(t);
  ts_buffer *buffers[] = {
      &t->keys[0],  &t->keys[1],   &t->order[0], &t->order[1],  &t->bag_of,
      &t->grad_at,  &t->bag_scale, &t->sums,     &t->sum_keys,  &t->stats,
      &t->message,  &t->place,     &t->work,     &t->kept_sums, &t->kept_keys,
      &t->ahead[0], &t->ahead[1],  &t->touched};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    ts_buffer_reset(buffers[i]);
  void *arrays[] = {t->tables,    t->row_base, t->feature_base,
                    t->first_col, t->row_dim,  t->table_id,
                    t->first_row, t->hyper,    t->table_start,
                    t->segment,   t->zero,     t->feature_table};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    ts_mem_free(arrays[i]);
  ts_mem_free(t);
}

/* ---- forward ------------------------------------------------------------- */

typedef struct ts_forward_arg {
  ts_tbe *tbe;
  float *out;
  ts_tbe_input input;
  int64_t average_at;
} ts_forward_arg;

/* Held ids have slots in place of rows. */
static ts_lookup_args lookup_args(const ts_tbe *t, const ts_tbe_input *in) {
  const bool held = in->hold && in->n_ids;
  const ts_tier_ops *tier = t->tier->ops;
  return (ts_lookup_args){
      .at = in->at,
      .weight = tier->weights(t->tier),
      .dtype = t->dtype,
      .dim = t->dim,
      .row_base = held ? t->zero : t->feature_base,
      .bag_start = in->bag_start,
      .offsets = in->offsets,
      .rows = held ? in->hold->slots.ptr : in->rows,
      .weights = in->weights,
      .mean = t->mean,
      .n_features = t->n_features,
      .lines = tier->lines ? tier->lines(t->tier, -1) : NULL,
      .first_line = tier->lines ? tier->first_line(t->tier) : 0};
}

static ts_err forward_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_forward_arg *a = p;
  ts_tbe *t = a->tbe;
  ts_lookup_args args = lookup_args(t, &a->input);
  args.out = a->out;
  if (a->average_at && a->input.n_ids)
    TS_DO(ts_tbe_average(t, &args, &a->input, a->average_at));
  return args.bag_start[t->n_features] ? t->kernels->lookup(&args) : TS_OK;
}

ts_err ts_tbe_forward(ts_tbe *t, float *out, const ts_tbe_input *input,
                      ts_lane *lane) {
  ts_forward_arg arg = {t, out, *input, t->average_at};
  const ts_err err = ts_tbe_prefetch(t, input, lane);
  return err != TS_OK ? err : ts_lane_run(lane, "lookup", forward_task, arg);
}

typedef struct ts_weight_grad_arg {
  ts_tbe *tbe;
  float *out;
  const float *grad;
  ts_tbe_input input;
} ts_weight_grad_arg;

static ts_err weight_grad_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_weight_grad_arg *a = p;
  const ts_lookup_args bags = lookup_args(a->tbe, &a->input);
  const ts_weight_grad_args args = {&bags, a->out, a->grad};
  return a->input.n_ids ? a->tbe->kernels->weight_grad(&args) : TS_OK;
}

ts_err ts_tbe_weight_grad(ts_tbe *t, float *out, const float *grad,
                          const ts_tbe_input *input, ts_lane *lane) {
  ts_weight_grad_arg arg = {t, out, grad, *input};
  return ts_lane_run(lane, "weight gradients", weight_grad_task, arg);
}

/* ---- reports ------------------------------------------------------------- */

int32_t ts_tbe_n_tables(const ts_tbe *t) {
  return t->n_tables;
}
const ts_tbe_table *ts_tbe_table_of(const ts_tbe *t, int32_t i) {
  return &t->tables[i];
}
const ts_row_optim *ts_tbe_optim(const ts_tbe *t) {
  return t->optim;
}

void *ts_tbe_rows(ts_tbe *t, int32_t i, int state, int32_t *cols,
                  ts_dtype *dtype) {
  const ts_tier_ops *tier = t->tier->ops;
  if (state < 0) {
    *cols = t->dim;
    *dtype = t->dtype;
    return (char *)tier->rows(t->tier, -1) +
           t->row_base[i] * ts_row_bytes(t->dtype, t->dim);
  }
  *cols = t->optim->state[state].per_row ? 1 : t->dim;
  *dtype = TS_F32;
  return (float *)tier->rows(t->tier, state) + t->row_base[i] * *cols;
}

ts_err ts_tbe_flush(ts_tbe *t) {
  return t->tier->ops->flush(t->tier);
}

ts_err ts_tbe_reload(ts_tbe *t) {
  return t->tier->ops->reload(t->tier);
}

bool ts_tbe_is_cached(const ts_tbe *t) {
  return t->tier->ops->cached;
}

bool ts_tbe_figures(const ts_tbe *t, ts_tier_figures *f) {
  if (!t->tier->ops->figures) return false;
  *f = t->tier->ops->figures(t->tier);
  return true;
}

int64_t ts_tbe_bytes(const ts_tbe *t) {
  int64_t row = ts_row_bytes(t->dtype, t->dim);
  for (int k = 0; k < t->optim->n_states; k++)
    row += 4 * (int64_t)(t->optim->state[k].per_row ? 1 : t->dim);
  return row * t->row_base[t->n_tables];
}
