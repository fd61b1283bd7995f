/* bench_tbe_case.c - the group and the batches of `tessera bench tbe`: the
 * same ids as the peers' benchmarks. */
#include <math.h>
#include <stdlib.h>

#include "commands/bench_tbe.h"
#include "commands/bench_table.h"

void ts_tbe_case_draw(ts_tbe_case *c, double alpha) {
  for (int k = 0; k < TS_TBE_INPUTS; k++)
    for (int64_t i = 0; i < c->n; i++)
      c->ids[k][i] = ts_bench_draw(i, (uint32_t)k, c->rows, alpha);
}

static int by_number(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

void ts_tbe_case_touch(ts_tbe_case *c, int k) {
  const int64_t per_table = (int64_t)c->batch * c->pool;
  uint64_t *e = c->entries;
  for (int64_t i = 0; i < c->n; i++)
    e[i] = (uint64_t)(i / per_table * c->rows + c->ids[k][i]) << 32 |
           (uint64_t)(i / c->pool);
  qsort(e, (size_t)c->n, sizeof *e, by_number);
  c->n_touched = 0;
  for (int64_t i = 0; i < c->n; i++)
    if (i == 0 || e[i] >> 32 != e[i - 1] >> 32)
      c->touched[c->n_touched++] = (uint32_t)(e[i] >> 32);
}

ts_err ts_tbe_case_size(ts_tbe_case *c) {
  c->n = (int64_t)c->tables * c->batch * c->pool;
  c->row_bytes = ts_row_bytes(c->config->dtype, c->dim);
  c->config->rows = c->rows;
  c->config->dim = c->dim;
  if (c->n > UINT32_MAX || c->tables * c->rows > UINT32_MAX)
    return ts_fail(TS_ERR_USAGE, "bench: tables x batch x pool and tables x "
                                 "rows have to be below 2^32");
  return TS_OK;
}

ts_err ts_tbe_case_allocate(ts_tbe_case *c) {
  const int64_t bags = (int64_t)c->tables * c->batch;
  TS_DO(ts_mem_array(&c->offsets, bags + 1, 8, TS_TAG_INPUT));
  TS_DO(ts_mem_array(&c->starts, c->tables + 1, 8, TS_TAG_INPUT));
  TS_DO(ts_mem_array(&c->at, bags, 8, TS_TAG_INPUT));
  for (int64_t i = 0; i <= bags; i++) c->offsets[i] = i * c->pool;
  for (int t = 0; t <= c->tables; t++) c->starts[t] = (int64_t)t * c->batch;
  for (int64_t i = 0; i < bags; i++)
    c->at[i] = (i % c->batch * c->tables + i / c->batch) * c->dim;
  for (int k = 0; k < TS_TBE_INPUTS; k++)
    TS_DO(ts_mem_array(&c->ids[k], c->n, 4, TS_TAG_INPUT));
  TS_DO(ts_mem_array(&c->touched, c->n, 4, TS_TAG_INPUT));
  TS_DO(ts_mem_array(&c->entries, c->n, 8, TS_TAG_INPUT));
  if (c->weighted) TS_DO(ts_mem_array(&c->weights, c->n, 4, TS_TAG_INPUT));
  for (int64_t i = 0; c->weighted && i < c->n; i++)
    c->weights[i] = (float)(i * 7919 % 1000 + 1) * 1e-3f;
  TS_DO(ts_mem_array(&c->out, bags * c->dim, 4, TS_TAG_ACTIVATIONS));
  TS_DO(ts_mem_array(&c->grad, bags * c->dim, 4, TS_TAG_ACTIVATIONS));
  for (int64_t i = 0; i < bags * c->dim; i++)
    c->grad[i] = (float)((i * 7919 % 2001) - 1000) * 1e-6f;
  return TS_OK;
}

static const ts_bench_table shape = {
    "case",
    "{tables|%.0f tables}{rows| x %.0f}{dim| x %.0f}{dtype| %s}"
    "{batch|, batch %.0f}{pooling|, pooling %.0f}{mean|, %s}{weighted|, %s}"
    "{threads|, %.0f threads}{optimizer|, %s}{machine|; %s}"};

void ts_tbe_case_print(const ts_tbe_case *c, double threads,
                       const char *machine) {
  const bool host = !isnan(threads); /* devices measure several shapes */
  ts_bench_print(&shape, (double)c->tables, (double)c->rows,
                 host ? c->dim : NAN,
                 host ? ts_dtype_name(c->config->dtype) : NULL,
                 (double)c->batch, host ? c->pool : NAN,
                 c->mean ? "mean" : NULL, c->weighted ? "weighted" : NULL,
                 threads, c->config->optimizer.kind, machine);
}

void ts_tbe_case_free(ts_tbe_case *c) {
  ts_mem_free_all(c->offsets, c->starts, c->at, c->touched, c->entries,
                  c->weights, c->out, c->grad);
  c->offsets = c->starts = c->at = NULL;
  c->entries = NULL;
  c->touched = NULL;
  c->weights = c->out = c->grad = NULL;
  for (int k = 0; k < TS_TBE_INPUTS; k++) {
    ts_mem_free(c->ids[k]);
    c->ids[k] = NULL;
  }
}

ts_tbe_input ts_tbe_case_input(const ts_tbe_case *c, int i) {
  return (ts_tbe_input){.bag_start = c->starts,
                        .offsets = c->offsets,
                        .at = c->at,
                        .rows = c->ids[i % TS_TBE_INPUTS],
                        .weights = c->weights,
                        .n_ids = c->n};
}

ts_err ts_tbe_case_copy(ts_buffer *b, const ts_tbe_case *c, const void *x,
                        int64_t bytes, ts_tag tag) {
  TS_DO(ts_buffer_create(b, c->device, (size_t)bytes, TS_SPACE_DEVICE, tag));
  TS_DO(ts_lane_copy(c->lane, b->ptr, x, (size_t)bytes));
  return ts_lane_sync(c->lane);
}

ts_err ts_tbe_case_lend(ts_tbe_lent *l, const ts_tbe_case *c) {
  const int64_t bags = (int64_t)c->tables * c->batch;
  const int64_t bytes = bags * c->dim * 4;
  TS_DO(ts_tbe_case_copy(&l->offsets, c, c->offsets, (bags + 1) * 8,
                         TS_TAG_INPUT));
  TS_DO(ts_tbe_case_copy(&l->at, c, c->at, bags * 8, TS_TAG_INPUT));
  if (c->weights)
    TS_DO(ts_tbe_case_copy(&l->weights, c, c->weights, c->n * 4, TS_TAG_INPUT));
  TS_DO(ts_buffer_create(&l->out, c->device, (size_t)bytes, TS_SPACE_DEVICE,
                         TS_TAG_ACTIVATIONS));
  return ts_tbe_case_copy(&l->grad, c, c->grad, bytes, TS_TAG_ACTIVATIONS);
}

ts_tbe_input ts_tbe_lent_input(const ts_tbe_lent *l, ts_tbe_input in,
                               const ts_buffer *rows) {
  in.offsets = l->offsets.ptr;
  in.at = l->at.ptr;
  in.rows = rows->ptr;
  in.weights = l->weights.ptr;
  return in;
}

void ts_tbe_lent_reset(ts_tbe_lent *l) {
  ts_buffer *const all[] = {&l->offsets, &l->at, &l->weights, &l->out,
                            &l->grad};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) ts_buffer_reset(all[i]);
}

ts_err ts_tbe_case_group(ts_tbe_case *c, const ts_kernels *k) {
  ts_tbe_table tables[c->tables];
  int32_t table[c->tables];
  for (int t = 0; t < c->tables; t++) {
    tables[t] = (ts_tbe_table){.config = c->config,
                               .table_id = t,
                               .n_rows = c->rows,
                               .n_cols = c->dim};
    table[t] = t;
  }
  const ts_tbe_spec spec = {.tables = tables,
                            .n_tables = c->tables,
                            .feature_table = table,
                            .n_features = c->tables,
                            .mean = c->mean,
                            .seed = 1,
                            .tier_dir = c->tier_dir};
  TS_DO(ts_tbe_create(&c->tbe, c->device, k, &spec));
  return ts_tbe_init(c->tbe);
}
