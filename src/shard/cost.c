/* cost.c - time of the parts of a step, from the topology's figures.
 *
 * With B samples a rank, G = W B in all, a shard of c columns whose rows get
 * n of the global batch's ids, d of them different:
 *
 *   lookup    n (lookup_ns + c e / row rate) + bags (bag_ns + 4 c / stream)
 *   backward  n (update_ns + 4 c / stream) + d (2 c e + state) / write rate
 *   output    bytes sent / link rate, all-to-all or reduce-scatter
 *   gradient  the transpose
 *
 * The row rate lies between the caches' and the memory's by the share of ids
 * that find their row in a cache. */
#include "shard/cost.h"

#include <math.h>

#include "base/mem.h"
#include "runtime/comm.h"
#include "shard/message.h"
#include "shard/sharding.h"
#include "sparse/row_optim.h"

/* ---- figures of tables --------------------------------------------------- */

static void sum_features(ts_cost_table *x, const ts_table_config *t,
                         const ts_plan_stats *stats, const ts_cost *c) {
  const double rows = (double)t->rows;
  *x = (ts_cost_table){.bags = t->features.n,
                       .state_bytes =
                           (double)ts_row_state_bytes(t, t->dim, true),
                       .weighted = t->weighted || t->max_length > 0};
  for (int32_t f = 0; f < t->features.n; f++) {
    const ts_plan_stats *s = &stats[f];
    x->ids += s->pooling;
    x->distinct += ts_plan_stats_distinct(s, s->pooling * c->global, rows);
    x->distinct_own += ts_plan_stats_distinct(s, s->pooling * c->batch, rows);
    x->hot += s->hot * s->pooling;
    x->power += ts_cost_power(s, rows) * s->pooling;
    for (int b = 0; b < TS_STATS_BLOCKS; b++)
      x->block[b] += s->block[b] * s->pooling;
  }
  if (t->pooling == TS_POOL_NONE) x->bags = x->ids;
  if (x->ids > 0) x->power /= x->ids;
  x->distinct = fmin(x->distinct, rows);
  x->distinct_own = fmin(x->distinct_own, rows);
  for (int b = 0; b < TS_STATS_BLOCKS && x->ids > 0; b++) x->block[b] /= x->ids;
  if (x->ids > 0) x->hot /= x->ids;
  x->even = true; /* as keys are, of dynamic tables */
  for (int b = 1; !ts_table_is_dynamic(t) && b < TS_STATS_BLOCKS; b++)
    x->even = x->even && fabs(x->block[b] - x->block[0]) < 1e-9;
}

ts_err ts_cost_create(ts_cost *c, const ts_plan_request *r) {
  const ts_plan_stats *stats = r->stats;
  ts_codec forward, backward;
  TS_DO(ts_codec_find(&forward, r->config->sharding.comm_dtype_forward,
                      "sharding.comm_dtype_forward"));
  TS_DO(ts_codec_find(&backward, r->config->sharding.comm_dtype_backward,
                      "sharding.comm_dtype_backward"));
  *c = (ts_cost){.request = r,
                 .n_ranks = r->nodes->n_ranks,
                 .n_nodes = r->nodes->n_nodes,
                 .per_node = (double)r->nodes->n_ranks / r->nodes->n_nodes,
                 .batch = r->batch,
                 .forward_bytes = (double)ts_codec_bytes(forward, 64) / 64,
                 .backward_bytes = (double)ts_codec_bytes(backward, 64) / 64,
                 .global = (double)r->batch * r->nodes->n_ranks};
  TS_DO(ts_mem_many(c->tables, r->config->n_tables, MISC));
  for (int32_t t = 0; t < r->config->n_tables; t++) {
    const ts_table_config *table = &r->config->tables[t];
    sum_features(&c->tables[t], table, stats, c);
    stats += table->features.n;
    c->tables[t].load_factor =
        r->load_factor ? r->load_factor[t] : ts_table_load_factor(table);
    const ts_row_optim *o = ts_row_optim_find(table->optimizer.kind);
    if (o && o->n_rounds > c->n_rounds) c->n_rounds = o->n_rounds;
  }
  return ts_cost_features_create(c);
}

void ts_cost_reset(ts_cost *c) {
  ts_mem_free_all(c->tables, c->features);
  *c = (ts_cost){0};
}

/* Share of the ids whose rows are in [row0, row0 + n_rows). */
static double share(const ts_cost_table *x, double rows, double row0,
                    double n_rows) {
  double sum = 0;
  const double width = rows / TS_STATS_BLOCKS;
  for (int b = 0; b < TS_STATS_BLOCKS; b++) {
    const double from = fmax(row0, b * width);
    const double to = fmin(row0 + n_rows, (b + 1) * width);
    if (to > from) sum += x->block[b] * (to - from) / width;
  }
  return sum;
}

double ts_cost_share(const ts_cost *c, int32_t table, const ts_shard *s) {
  const double rows = (double)c->request->config->tables[table].rows;
  if (c->tables[table].even) return (double)s->n_rows / rows;
  if (s->row0 == 0 && (double)s->n_rows >= rows) return 1.0;
  return share(&c->tables[table], rows, (double)s->row0, (double)s->n_rows);
}

double ts_cost_samples(const ts_cost *c, ts_shard_kind kind) {
  return ts_shard_kind_is_replicated(kind) ? c->batch : c->global;
}

double ts_cost_ids(const ts_cost *c, int32_t table, ts_shard_kind kind,
                   const ts_shard *s) {
  return ts_cost_samples(c, kind) * c->tables[table].ids *
         ts_cost_share(c, table, s);
}

double ts_cost_distinct(const ts_cost *c, int32_t table, ts_shard_kind kind,
                        const ts_shard *s) {
  const ts_cost_table *x = &c->tables[table];
  const double all =
      ts_shard_kind_is_replicated(kind) ? x->distinct_own : x->distinct;
  const double rows = (double)c->request->config->tables[table].rows;
  return fmin(all * (double)s->n_rows / rows, (double)s->n_rows);
}

/* ---- time ---------------------------------------------------------------- */

enum { NS = 1000000, GB = TS_COST_GB }; /* ns, bytes at 1 GB/s in a ms */

/* Bytes per ns that rows of shard S come at. */
static double row_rate(const ts_cost *c, int32_t table, double row_bytes,
                       const ts_shard *s) {
  const ts_topology *t = c->request->topology;
  const double cache = t->cache_mib * (1 << 20);
  const double bytes = row_bytes * (double)s->n_rows;
  if (bytes <= cache) return t->cache_gbytes_per_s;
  double hit = cache / bytes;
  if (0.01 * bytes <= cache) hit = fmax(hit, c->tables[table].hot);
  return 1 / (hit / t->cache_gbytes_per_s + (1 - hit) / t->read_gbytes_per_s);
}

double ts_cost_link_ms(const ts_cost *c, ts_link_use use, double node_bytes,
                       double cross_bytes) {
  const ts_topology *t = c->request->topology;
  return node_bytes / GB / t->link[TS_REACH_NODE][use].gbytes_per_s +
         cross_bytes / GB / t->link[TS_REACH_CROSS][use].gbytes_per_s;
}

double ts_cost_latency_ms(const ts_cost *c, ts_link_use use) {
  const ts_topology *t = c->request->topology;
  if (c->n_ranks == 1) return 0;
  return 1e-3 *
         (t->call_us +
          (c->per_node - 1) * t->link[TS_REACH_NODE][use].latency_us +
          (c->n_ranks - c->per_node) * t->link[TS_REACH_CROSS][use].latency_us);
}

/* The part of BYTES, spread evenly over all ranks, that goes to other ranks of
 * the node; the next one: to other nodes. */
static double node_part(const ts_cost *c, double bytes) {
  return bytes * (c->per_node - 1) / c->n_ranks;
}
static double cross_part(const ts_cost *c, double bytes) {
  return bytes * (c->n_ranks - c->per_node) / c->n_ranks;
}

static void time_tables(ts_load *l, const ts_cost *c, int32_t table,
                        ts_shard_kind kind, const ts_shard *s) {
  const ts_topology *t = c->request->topology;
  const ts_cost_table *x = &c->tables[table];
  const ts_table_config *config = &c->request->config->tables[table];
  const double n = ts_cost_ids(c, table, kind, s);
  const double bags = ts_cost_samples(c, kind) * x->bags;
  const double width = s->n_cols,
               row = (double)ts_row_bytes(config->dtype, s->n_cols);
  const double state = x->state_bytes * width / config->dim;
  const double d = ts_cost_distinct(c, table, kind, s);
  const double rate = row_rate(c, table, row, s);
  const double update =
      fmax(t->write_gbytes_per_s,
           rate * t->write_gbytes_per_s / t->read_gbytes_per_s);
  l->time.lookup = (n * (t->lookup_ns + row / rate) +
                    bags * (t->bag_ns + 4 * width / t->stream_gbytes_per_s)) /
                   NS;
  l->time.backward = (n * (t->update_ns + 4 * width / t->stream_gbytes_per_s) +
                      d * (2 * row + 2 * state) / update) /
                     NS;
  if (x->weighted) l->time.lookup *= 1.1, l->time.backward *= 1.1;
  if (ts_table_is_slow(config)) ts_cost_tier(l, c, table, kind, s);
}

void ts_cost_exchange(ts_load *l, const ts_cost *c, double floats,
                      ts_link_use forward, ts_link_use backward) {
  const double there = floats * c->forward_bytes;
  const double back = floats * c->backward_bytes;
  l->time.output =
      ts_cost_link_ms(c, forward, node_part(c, there), cross_part(c, there));
  l->time.gradient =
      ts_cost_link_ms(c, backward, node_part(c, back), cross_part(c, back));
  l->sent.output = node_part(c, there) + cross_part(c, there);
  l->sent.gradient = node_part(c, back) + cross_part(c, back);
  l->sent.cross = cross_part(c, there) + cross_part(c, back);
}

int ts_cost_column_rounds(const ts_cost *c, int32_t table, const ts_shard *s) {
  const ts_table_config *t = &c->request->config->tables[table];
  const ts_row_optim *o = ts_row_optim_find(t->optimizer.kind);
  return s->n_cols < t->dim && o ? o->n_rounds : 0;
}

/* Sums of the rows' gradients are written and read again; a number per row
 * and round goes to the shards of the other columns. */
static void time_columns(ts_load *l, const ts_cost *c, int32_t table,
                         ts_shard_kind kind, const ts_shard *s) {
  const ts_topology *t = c->request->topology;
  const int rounds = ts_cost_column_rounds(c, table, s);
  const double parts =
      (double)c->request->config->tables[table].dim / s->n_cols;
  const double d = ts_cost_distinct(c, table, kind, s);
  const double bytes = rounds * d * 4 * (parts - 1);
  if (!rounds) return;
  /* Rows are gone through again for each round and for the update. */
  l->time.backward +=
      d *
      (2 * (rounds + 1) * t->update_ns +
       4 * (2 * s->n_cols + rounds * parts) / t->stream_gbytes_per_s) /
      NS;
  if (c->n_ranks == 1) return;
  l->time.backward += ts_cost_link_ms(
      c, TS_LINK_ALL_TO_ALL, node_part(c, bytes), cross_part(c, bytes));
  l->sent.gradient += node_part(c, bytes) + cross_part(c, bytes);
  l->sent.cross += cross_part(c, bytes);
}

/* Rows' sums of every rank to every rank, then the update of all of them. */
static void time_replicas(ts_load *l, const ts_cost *c, int32_t table,
                          const ts_shard *s) {
  const ts_topology *t = c->request->topology;
  const ts_cost_table *x = &c->tables[table];
  const double message = x->distinct_own * (4 + 4.0 * s->n_cols);
  const double node = message * (c->per_node - 1);
  const double cross = message * (c->n_ranks - c->per_node);
  const double all = x->distinct_own * c->n_ranks;
  if (c->n_ranks == 1) return;
  l->time.gradient = ts_cost_link_ms(c, TS_LINK_ALL_TO_ALL, node, cross) +
                     c->n_ranks * message / t->stream_gbytes_per_s / GB;
  l->time.backward +=
      all * (t->update_ns + 4.0 * s->n_cols / t->stream_gbytes_per_s) / NS;
  l->sent.gradient = node + cross;
  l->sent.cross = cross;
}

void ts_cost_shard(ts_load *l, const ts_cost *c, int32_t table,
                   ts_shard_kind kind, const ts_shard *s) {
  const ts_sharding_ops *ops = ts_sharding_find(kind);
  *l = (ts_load){0};
  time_tables(l, c, table, kind, s);
  if (ops->output->cost && c->n_ranks > 1)
    ops->output->cost(l, c, c->global * s->n_cols * c->tables[table].bags);
  time_columns(l, c, table, kind, s);
  if (!ops->remote)
    time_replicas(l, c, table, s);
  else /* ids that arrive are unpacked */
    l->time.input = 0.5 * ts_cost_ids(c, table, kind, s) *
                    c->request->topology->pack_ns / NS;
  ts_storage_shard(&l->memory, c, table, kind, s);
}

/* Slices of columns: each gets all ids. */
static double n_slices(const ts_table_plan *p, int32_t dim) {
  return p->n_shards ? (double)dim / p->shards[0].n_cols : 0;
}

/* Ids and bags of a sample, in PARTS of rows and SLICES of columns. */
static void time_input(ts_load *l, const ts_cost *c, int32_t table,
                       ts_cost_sent sent, double parts, double slices,
                       int64_t n_rows) {
  const ts_topology *t = c->request->topology;
  const ts_cost_table *x = &c->tables[table];
  const double ids = c->batch * sent.ids * slices;
  const ts_route r = {
      .n_rows = n_rows,
      .dynamic = ts_table_is_dynamic(&c->request->config->tables[table])};
  const double lengths =
      x->ids > x->bags || parts > 1 ? c->batch * sent.bags * slices * parts : 0;
  const double bytes =
      ids * (ts_route_id_bytes(&r) + (x->weighted ? 4 : 0)) + lengths;
  const double node = node_part(c, bytes), cross = cross_part(c, bytes);
  /* Every part that an id may go to looks at it twice, to count and to
   * take. */
  l->time.input = (0.5 * ids * t->pack_ns * parts + lengths * t->bag_ns) / NS +
                  ts_cost_link_ms(c, TS_LINK_ALL_TO_ALL, node, cross);
  l->sent.input = node + cross;
  l->sent.cross = cross;
}

double ts_cost_ids_ms(const ts_cost *c, int32_t table) {
  const ts_cost_table *x = &c->tables[table];
  ts_load l;
  time_input(&l, c, table, (ts_cost_sent){x->ids, x->bags}, 1, 1,
             c->request->config->tables[table].rows);
  return l.time.input;
}

void ts_cost_everywhere(ts_load *l, const ts_cost *c, int32_t table,
                        const ts_plan *plan, int32_t n) {
  const ts_table_plan *p = &plan->tables[table];
  const ts_topology *t = c->request->topology;
  const ts_cost_table *x = &c->tables[table];
  const ts_table_config *config = &c->request->config->tables[table];
  *l = (ts_load){0};
  ts_storage_everywhere(&l->memory, c, table, p);
  if (ts_shard_kind_is_replicated(p->kind)) {
    l->time.input = c->batch * x->ids * t->pack_ns / NS;
    return;
  }
  const double slices = n_slices(p, config->dim);
  ts_cost_sent sent = ts_cost_brought(c, plan, table, n);
  sent = (ts_cost_sent){x->ids - sent.ids, x->bags - sent.bags};
  time_input(l, c, table, sent, p->n_shards / slices, slices,
             p->shards[0].n_rows);
  if (slices > 1) /* columns are put side by side, and taken apart */
    l->time.output = l->time.gradient =
        4 * c->batch * x->bags * config->dim / t->stream_gbytes_per_s / GB;
}

/* Communicators of a kind: one there and one back; one more within the node
 * where output dist has two stages; replicas have one in all. */
static int n_comms(const ts_sharding_ops *ops) {
  return !ops->remote ? 1 : ops->output == &ts_output_two_stage ? 3 : 2;
}

void ts_cost_kind(ts_load *l, const ts_cost *c, ts_shard_kind kind) {
  const ts_sharding_ops *ops = ts_sharding_find(kind);
  *l = (ts_load){0};
  if (c->n_ranks == 1) return;
  l->memory.buffers = c->request->comm_bytes * n_comms(ops);
  if (!ops->remote) /* sizes, then the rows */
    l->time.gradient = 2 * ts_cost_latency_ms(c, TS_LINK_ALL_TO_ALL);
  if (ops->output->cost_once) ops->output->cost_once(l, c);
  /* Each round of statistics: sizes, then the numbers. */
  if (ops->split_columns)
    l->time.backward +=
        2 * c->n_rounds * ts_cost_latency_ms(c, TS_LINK_ALL_TO_ALL);
}

/* What a rank sends to reduce the gradients, to its node and to others, and the
 * same again to tell the sums: parts to everyone, or from node to node. */
static void dense_parts(const ts_cost *c, double *node, double *cross) {
  const ts_plan_dense *d = &c->request->dense;
  *node = node_part(c, d->reduce_bytes);
  *cross = cross_part(c, d->reduce_bytes);
  if (floor(c->per_node) != c->per_node || /* nodes differ */
      !ts_sum_goes_by_node((int64_t)(d->sum_bytes / 4), TS_F32, (int)c->n_ranks,
                           (int)c->per_node))
    return;
  *node = d->reduce_bytes * (c->per_node - 1) / c->per_node;
  *cross = d->reduce_bytes / c->per_node;
}

void ts_cost_always(ts_load *l, const ts_cost *c) {
  const ts_plan_dense *d = &c->request->dense;
  double node, cross;
  *l = (ts_load){0};
  l->time.input = 2 * ts_cost_latency_ms(c, TS_LINK_ALL_TO_ALL);
  l->memory.dense = d->param_bytes + d->other_bytes;
  if (c->n_ranks > 1) /* ids have a communicator, too */
    l->memory.buffers =
        d->bucket_bytes + c->request->comm_bytes * (1 + d->n_comms);
  dense_parts(c, &node, &cross);
  l->sent.dense = 2 * (node + cross);
  l->sent.cross = 2 * cross;
}

double ts_cost_dense_ms(const ts_cost *c) {
  const ts_plan_dense *d = &c->request->dense;
  const ts_topology *t = c->request->topology;
  const double flops = d->flops * c->batch;
  double node, cross;
  dense_parts(c, &node, &cross);
  const double reduce =
      ts_cost_latency_ms(c, TS_LINK_REDUCE_SCATTER) +
      ts_cost_latency_ms(c, TS_LINK_ALL_GATHER) +
      ts_cost_link_ms(c, TS_LINK_REDUCE_SCATTER, node, cross) +
      ts_cost_link_ms(c, TS_LINK_ALL_GATHER, node, cross);
  /* The optimizer goes over parameters, gradients and state once. */
  return flops / t->dense_gflops / NS + reduce +
         d->param_bytes / t->stream_gbytes_per_s / GB;
}

void ts_load_add(ts_load *to, const ts_load *x, double times) {
  double *a = (double *)to;
  const double *b = (const double *)x;
  for (size_t i = 0; i < sizeof *to / sizeof(double); i++) a[i] += times * b[i];
}
