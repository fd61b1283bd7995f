/* storage.c - memory of a plan, as the parts that hold it allocate it:
 * tables (sparse/tier_*.c), a batch in flight's matrices and inputs
 * (sharding_tables.c, input_*.c), scratch of the backward pass (sparse/tbe*.c),
 * what collectives keep aside (runtime/comm_mpi_ops.c).
 *
 * Buffers that grow with the batch are a quarter larger than what they
 * hold. */
#include <math.h>
#include <string.h>

#include "shard/cost.h"
#include "shard/message.h"
#include "shard/sharding.h"
#include "sparse/cache.h"

static const double growth = TS_STORAGE_GROWTH;

/* Rows of S that N ids of a batch meet, at most. */
static double rows_met(const ts_shard *s, double n) {
  return fmin(growth * n, (double)s->n_rows);
}

/* Scratch of the backward pass.  Sums of rows are kept where they, or their
 * statistics, go to other ranks. */
static double backward_bytes(const ts_cost *c, int32_t table,
                             ts_shard_kind kind, const ts_shard *s, double n,
                             double bags) {
  const bool replica = ts_shard_kind_is_replicated(kind) && c->n_ranks > 1;
  const bool sums = replica || ts_cost_column_rounds(c, table, s);
  const ts_tbe_expected x = {
      .ahead = c->request->discrete,
      .n_ids = (int64_t)(growth * n),
      .n_bags = (int64_t)(growth * bags),
      .n_sums = sums ? (int64_t)rows_met(s, n) : 0,
      .n_all = replica ? (int64_t)rows_met(s, n) * c->n_ranks : 0,
      .weighted = c->tables[table].weighted};
  return (double)ts_tbe_scratch_bytes(&x, s->n_cols);
}

/* Bytes of a row's states that move with it, and of those that stay. */
static void state_bytes(double *moving, double *staying,
                        const ts_table_config *t, const ts_shard *s) {
  *moving = (double)ts_row_state_bytes(t, s->n_cols, false);
  *staying = (double)ts_row_state_bytes(t, s->n_cols, true) - *moving;
}

double ts_storage_line(const ts_cost *c, int32_t table, const ts_shard *s) {
  const ts_table_config *t = &c->request->config->tables[table];
  double moving, staying;
  state_bytes(&moving, &staying, t, s);
  return (double)ts_row_bytes(t->dtype, s->n_cols) + moving +
         TS_CACHE_LINE_BYTES;
}

/* Rows of SHARD in slow memory: lines, their directory, states that stay; and
 * what a batch's rows need on their way: a slot per id in each batch in flight,
 * and the scratch of a pass.  Passes that are still to be chosen are several.
 */
static void tier_bytes(ts_plan_memory *m, const ts_cost *c, int32_t table,
                       const ts_shard *s, double n) {
  const ts_table_config *t = &c->request->config->tables[table];
  const double row = (double)ts_row_bytes(t->dtype, s->n_cols);
  const double rows = (double)s->n_rows;
  double moving, staying;
  state_bytes(&moving, &staying, t, s);
  double *at = c->request->discrete ? &m->pinned : &m->slow;
  if (!strcmp(ts_table_tier(t), "file")) at = &m->disk;
  *at = rows * (row + moving);
  m->weights = 0;
  m->state = rows * (staying + (double)ts_place_id_bytes(t));
  if (!ts_table_is_cached(t)) return;
  const double lines =
      (double)ts_cache_lines_for(s->n_rows, c->tables[table].load_factor);
  m->weights = lines * (row + TS_CACHE_LINE_BYTES) +
               (double)ts_cache_through_bytes(
                   s->n_rows, t->cache.passes ? t->cache.passes : 2);
  m->state += lines * moving;
  m->buffers += growth * 4 * n * (c->request->n_ebc_batches + 1);
  if (t->cache.passes > 0)
    m->buffers += TS_CACHE_SCRATCH_BYTES * n /
                  ts_cache_passes_for(t->cache.passes, c->request->discrete);
}

/* The arrays of the bags of a batch in flight. */
static double input_bytes(const ts_cost *c, int32_t table, double n,
                          double bags) {
  const ts_table_config *t = &c->request->config->tables[table];
  int64_t size[TS_GROUP_BUFFERS];
  const ts_input_shape shape = {
      t->features.n,         (int64_t)(growth * bags),
      (int64_t)(growth * n), c->tables[table].weighted,
      t->max_length > 0,     c->request->discrete};
  return (double)ts_input_sizes(size, &shape);
}

/* Everyone's sums of rows, sent and received: room for a batch without a row
 * met twice. */
static double replica_bytes(const ts_cost *c, const ts_shard *s, double n) {
  return c->request->n_ebc_batches * 2.0 * c->n_ranks * rows_met(s, n) *
         (4 + 4.0 * s->n_cols);
}

/* Statistics of rows that are summed over column shards, as they are sent and
 * received. */
static double column_bytes(const ts_cost *c, int32_t table, const ts_shard *s) {
  const ts_table_config *t = &c->request->config->tables[table];
  const double parts = (double)t->dim / s->n_cols;
  if (!ts_cost_column_rounds(c, table, s)) return 0;
  return (parts - 1) * c->tables[table].distinct * 4 * (growth * 2 + 1);
}

/* N ids of all features that arrive, and their lengths; SPLIT: from bags that
 * are spread over shards, so that positions travel, too. */
static double message_bytes(const ts_cost *c, int32_t table, bool split,
                            double n, double bags, const ts_shard *s) {
  const ts_table_config *t = &c->request->config->tables[table];
  const ts_cost_table *x = &c->tables[table];
  const ts_route r = {.n_rows = s->n_rows,
                      .dynamic = ts_table_is_dynamic(t),
                      .weighted = t->weighted,
                      .positions = split && t->max_length > 0};
  return (double)ts_section_bytes(
      &r, (int64_t)n, x->ids > x->bags ? TS_FORM_BYTES : TS_FORM_ONE,
      (int64_t)bags);
}

/* Whether ids travel to the shards of a table. */
static bool travels(const ts_cost *c, ts_shard_kind kind) {
  return !ts_shard_kind_is_replicated(kind) && c->n_ranks > 1;
}

/* A discrete device has the list of what has come, and so has the host: a part
 * for each rank's bags of a feature, and for each 1024 of them. */
static void list_bytes(ts_plan_memory *m, const ts_cost *c,
                       const ts_cost_table *x, double bags, double senders) {
  const double parts = senders * x->bags + bags / TS_UNPACK_BAGS;
  const double bytes =
      c->request->n_ebc_batches * parts * (double)sizeof(ts_unpack_part);
  if (!c->request->discrete) return;
  m->buffers += 2 * bytes;
  m->pinned += bytes;
}

static void remote_bytes(ts_plan_memory *m, const ts_cost *c, int32_t table,
                         ts_shard_kind kind, const ts_shard *s, double n,
                         double bags) {
  const ts_plan_request *r = c->request;
  const double ebc_batches = r->n_ebc_batches, width = s->n_cols;
  const ts_cost_table *x = &c->tables[table];
  m->buffers += 48 * x->bags * c->n_ranks;
  const ts_sharding_ops *ops = ts_sharding_find(kind);
  m->buffers += ebc_batches * growth *
                message_bytes(c, table, ops->split_rows, n, bags, s);
  list_bytes(m, c, x, bags, c->n_ranks);
  if (ops->output->storage) ops->output->storage(m, c, bags * width);
  const double wire = c->forward_bytes < 4 || c->backward_bytes < 4
                          ? fmax(c->forward_bytes, c->backward_bytes)
                          : 0;
  m->buffers += ebc_batches * growth * 2 * wire * bags * width;
}

void ts_storage_shard(ts_plan_memory *m, const ts_cost *c, int32_t table,
                      ts_shard_kind kind, const ts_shard *s) {
  const ts_plan_request *r = c->request;
  const ts_cost_table *x = &c->tables[table];
  const ts_table_config *t = &r->config->tables[table];
  const bool replica = ts_shard_kind_is_replicated(kind);
  const double ebc_batches = r->n_ebc_batches;
  const double samples = ts_cost_samples(c, kind);
  const double n = ts_cost_ids(c, table, kind, s);
  const double bags = samples * x->bags, width = s->n_cols;
  *m = (ts_plan_memory){0};
  m->weights = (double)s->n_rows * (double)ts_row_bytes(t->dtype, s->n_cols);
  m->state = (double)ts_shard_bytes(t, s) - m->weights;
  m->buffers = backward_bytes(c, table, kind, s, n, bags) +
               ebc_batches * input_bytes(c, table, n, bags) +
               column_bytes(c, table, s);
  if (ts_table_is_slow(t)) tier_bytes(m, c, table, s, n);
  /* A bit for each row that has changed (sparse/tbe_touched.c). */
  if (r->config->checkpoint.dir && r->config->checkpoint.delta_every)
    m->state += (double)s->n_rows / 8;
  m->buffers += ebc_batches * 4 * bags * width; /* out, then its gradient */
  if (travels(c, kind))
    remote_bytes(m, c, table, kind, s, n, bags);
  else
    list_bytes(m, c, x, bags, 1);
  if (replica && c->n_ranks > 1) m->buffers += replica_bytes(c, s, n);
}

void ts_storage_everywhere(ts_plan_memory *m, const ts_cost *c, int32_t table,
                           const ts_table_plan *p) {
  const ts_plan_request *r = c->request;
  const ts_cost_table *x = &c->tables[table];
  const ts_table_config *t = &r->config->tables[table];
  const double ebc_batches = r->n_ebc_batches;
  const double bags = c->batch * x->bags;
  *m = (ts_plan_memory){0};
  if (!p->n_shards) return;
  const double slices = (double)t->dim / p->shards[0].n_cols;
  const double routes = p->n_shards * x->bags;
  /* Routes, pieces, and where each rank's part of a piece lies. */
  m->buffers =
      routes * 56 + slices * x->bags * (48 + ebc_batches * 12 * c->n_ranks);
  if (r->discrete) /* where the batch's own bags begin */
    m->buffers += ebc_batches * 8 * bags;
  if (ts_shard_kind_is_replicated(p->kind)) return;
  if (slices > 1) /* columns side by side */
    m->buffers += ebc_batches * 4 * bags * t->dim;
  if (c->n_ranks == 1) return;
  /* Own samples' embeddings; what is sent of their ids. */
  const double rows = p->n_shards / slices; /* shards that cut rows */
  const double sent =
      slices *
      message_bytes(c, table, rows > 1, c->batch * x->ids, bags, &p->shards[0]);
  m->buffers += ebc_batches * 4 * bags * t->dim;
  m->buffers += ebc_batches * growth * sent;
  if (rows > 1) { /* lengths go to every part */
    m->buffers += ebc_batches * growth * slices * rows * bags;
    m->buffers += ebc_batches * 4 * bags;
  }
  if (rows > 1 && r->discrete) /* a counter for each bag and part */
    m->buffers += ebc_batches * 4 * bags * slices * rows;
}
