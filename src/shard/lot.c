/* lot.c - the tables of one sharding type: their TBE groups on this rank,
 * their output matrix, and what a batch of them needs. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "shard/sharding.h"

static ts_err find_features(ts_lot *lot) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = lot->ebc;
  TS_TRY(ts_mem_array(&lot->features, ebc->n_features, sizeof *lot->features,
                      TS_TAG_MISC));
  for (int32_t f = 0; f < ebc->n_features; f++) {
    int32_t t = ebc->feature_table[f];
    const ts_table_config *c = &ebc->config->tables[t];
    if (ebc->plan->tables[t].kind != lot->ops->kind) continue;
    lot->features[lot->n_features++] = (ts_lot_feature){
        .feature = f,
        .table = t,
        .dim = c->dim,
        .mean = c->pooling == TS_POOL_MEAN,
    };
  }
done:
  return err;
}

/* This rank's shard of table T, NULL where it has none. */
static const ts_shard *own_shard(const ts_ebc *ebc, int32_t t) {
  const ts_table_plan *p = &ebc->plan->tables[t];
  for (int32_t k = 0; k < p->n_shards; k++)
    if (p->shards[k].rank == ebc->rank) return &p->shards[k];
  return NULL;
}

/* Tables that one group can hold together. */
static bool alike(const ts_table_config *a, const ts_table_config *b) {
  return a->dim == b->dim && a->dtype == b->dtype && a->pooling == b->pooling &&
         a->weighted == b->weighted &&
         !strcmp(a->optimizer.kind, b->optimizer.kind);
}

static ts_err group_create(ts_lot *lot, ts_lot_group *g, int32_t first,
                           bool *taken) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = lot->ebc;
  const ts_table_config *c = ebc->config->tables;
  const ts_table_config *like = &c[lot->features[first].table];
  int32_t *table = NULL, *col = NULL;
  ts_tbe_table *tables = NULL;
  ts_tbe_spec spec = {.seed = (uint64_t)ebc->config->run.seed};
  TS_TRY(ts_mem_array(&table, lot->n_features, sizeof *table, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&col, lot->n_features, sizeof *col, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&tables, lot->n_features, sizeof *tables, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&g->lot_feature, lot->n_features, sizeof *g->lot_feature,
                      TS_TAG_MISC));
  TS_TRY(
      ts_mem_array(&g->route, lot->n_features, sizeof *g->route, TS_TAG_MISC));
  for (int32_t i = first; i < lot->n_features; i++) {
    const ts_lot_feature *f = &lot->features[i];
    const ts_shard *shard = own_shard(ebc, f->table);
    if (taken[i] || !shard || !alike(like, &c[f->table])) continue;
    taken[i] = true;
    if (!spec.n_tables || tables[spec.n_tables - 1].table_id != f->table)
      tables[spec.n_tables++] =
          (ts_tbe_table){&c[f->table], f->table, shard->row0, shard->n_rows};
    table[g->n_features] = spec.n_tables - 1;
    col[g->n_features] = f->col;
    g->lot_feature[g->n_features++] = i;
  }
  spec.tables = tables;
  spec.feature_table = table;
  spec.feature_col = col;
  spec.n_features = g->n_features;
  /* Where shards hold parts of a bag the division comes after the sum. */
  spec.mean = like->pooling == TS_POOL_MEAN && !lot->ops->bucketize;
  g->weighted = like->weighted;
  TS_TRY(ts_tbe_create(&g->tbe, ebc->device, ebc->kernels, &spec));
done:
  ts_mem_free(table);
  ts_mem_free(col);
  ts_mem_free(tables);
  return err;
}

static ts_err make_groups(ts_lot *lot) {
  ts_err err = TS_OK;
  bool *taken = NULL;
  TS_TRY(ts_mem_array(&taken, lot->n_features, sizeof *taken, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&lot->groups, lot->n_features, sizeof *lot->groups,
                      TS_TAG_MISC));
  for (int32_t i = 0; i < lot->n_features; i++) {
    if (taken[i] || !own_shard(lot->ebc, lot->features[i].table)) continue;
    TS_TRY(group_create(lot, &lot->groups[lot->n_groups++], i, taken));
  }
done:
  ts_mem_free(taken);
  return err;
}

ts_err ts_lot_create(ts_lot *lot, ts_ebc *ebc, const ts_sharding_ops *ops) {
  ts_err err = TS_OK;
  lot->ops = ops;
  lot->ebc = ebc;
  TS_TRY(find_features(lot));
  if (!lot->n_features) goto done;
  TS_TRY(ops->layout(lot));
  TS_TRY(make_groups(lot));
  if (ebc->n_ranks > 1)
    TS_TRY(ts_comm_create(ebc->world, &lot->comm, TS_GROUP_WORLD, ops->name));
done:
  return err;
}

void ts_lot_reset(ts_lot *lot) {
  for (int32_t g = 0; g < lot->n_groups; g++) {
    ts_tbe_destroy(lot->groups[g].tbe);
    ts_mem_free(lot->groups[g].lot_feature);
    ts_mem_free(lot->groups[g].route);
  }
  ts_mem_free(lot->groups);
  ts_mem_free(lot->features);
  ts_mem_free(lot->block_width);
  ts_comm_destroy(lot->comm);
  *lot = (ts_lot){0};
}

/* ---- a lot's part of a flight -------------------------------------------- */

static ts_err create_inputs(ts_lot_flight *lf) {
  ts_err err = TS_OK;
  ts_device *device = lf->lot->ebc->device;
  const int32_t n = lf->lot->n_groups;
  TS_TRY(ts_mem_array(&lf->inputs, n, sizeof *lf->inputs, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&lf->offsets, n, sizeof *lf->offsets, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&lf->rows, n, sizeof *lf->rows, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&lf->weights, n, sizeof *lf->weights, TS_TAG_MISC));
  for (int32_t g = 0; g < n; g++) {
    ts_buffer empty = {.space = TS_SPACE_DEVICE,
                       .tag = TS_TAG_SPARSE,
                       .owned = true,
                       .device = device};
    lf->offsets[g] = lf->rows[g] = lf->weights[g] = empty;
  }
done:
  return err;
}

static ts_err create_matrices(ts_lot_flight *lf, int64_t n, int64_t n_global) {
  ts_err err = TS_OK;
  const ts_lot *lot = lf->lot;
  ts_device *device = lot->ebc->device;
  const bool local = !lot->comm || !lot->ops->remote;
  const size_t own =
      (size_t)((local ? n : n_global) * lot->own_width) * sizeof(float);
  const size_t all = (size_t)(n * lot->width) * sizeof(float);
  TS_TRY(ts_buffer_create(&lf->out, device, own, TS_SPACE_DEVICE,
                          TS_TAG_ACTIVATIONS));
  TS_TRY(ts_buffer_create(&lf->grad_out, device, own, TS_SPACE_DEVICE,
                          TS_TAG_ACTIVATIONS));
  if (local) { /* what the groups write is what the model reads */
    lf->emb = ts_buffer_wrap(lf->out.ptr, own, TS_SPACE_DEVICE);
    lf->grad = ts_buffer_wrap(lf->grad_out.ptr, own, TS_SPACE_DEVICE);
    goto done;
  }
  TS_TRY(ts_buffer_create(&lf->emb, device, all, TS_SPACE_DEVICE,
                          TS_TAG_ACTIVATIONS));
  TS_TRY(ts_buffer_create(&lf->grad, device, all, TS_SPACE_DEVICE,
                          TS_TAG_ACTIVATIONS));
done:
  return err;
}

static ts_err create_messages(ts_lot_flight *lf) {
  ts_err err = TS_OK;
  ts_device *device = lf->lot->ebc->device;
  const int32_t n = lf->lot->n_groups;
  const int n_ranks = lf->lot->ebc->n_ranks;
  const ts_buffer empty = {.space = TS_SPACE_PINNED,
                           .tag = TS_TAG_COMM,
                           .owned = true,
                           .device = device};
  lf->bundle = lf->exchange.recv = empty;
  TS_TRY(ts_mem_array(&lf->message, n, sizeof *lf->message, TS_TAG_COMM));
  TS_TRY(ts_mem_array(&lf->message_bytes, n, sizeof(int64_t), TS_TAG_COMM));
  TS_TRY(
      ts_mem_array(&lf->bundle_bytes, n_ranks, sizeof(int64_t), TS_TAG_COMM));
  TS_TRY(ts_mem_array(&lf->exchange.recv_bytes, n_ranks, sizeof(int64_t),
                      TS_TAG_COMM));
  TS_TRY(ts_mem_array(&lf->arrived, (int64_t)n * n_ranks, sizeof *lf->arrived,
                      TS_TAG_COMM));
  TS_TRY(ts_mem_array(&lf->arrived_bytes, (int64_t)n * n_ranks, sizeof(int64_t),
                      TS_TAG_COMM));
done:
  return err;
}

ts_err ts_lot_flight_create(ts_lot_flight *lf, ts_lot *lot, ts_flight *fl) {
  ts_err err = TS_OK;
  const int n_ranks = lot->ebc->n_ranks;
  lf->lot = lot;
  lf->flight = fl;
  TS_TRY(create_inputs(lf));
  TS_TRY(create_matrices(lf, fl->batch_max, (int64_t)fl->batch_max * n_ranks));
  TS_TRY(create_messages(lf));
  TS_TRY(ts_mem_array(&lf->emb_ptr, lot->n_features, sizeof *lf->emb_ptr,
                      TS_TAG_MISC));
  TS_TRY(ts_mem_array(&lf->grad_ptr, lot->n_features, sizeof *lf->grad_ptr,
                      TS_TAG_MISC));
  TS_TRY(ts_mem_array(&lf->send, n_ranks, sizeof *lf->send, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&lf->recv, n_ranks, sizeof *lf->recv, TS_TAG_MISC));
  if (lot->ops->bucketize)
    TS_TRY(ts_mem_array(&lf->inverse, (int64_t)lot->n_features * fl->batch_max,
                        sizeof *lf->inverse, TS_TAG_SPARSE));
done:
  return err;
}

void ts_lot_flight_reset(ts_lot_flight *lf) {
  for (int32_t g = 0; lf->weights && g < lf->lot->n_groups; g++) {
    ts_buffer_reset(&lf->offsets[g]);
    ts_buffer_reset(&lf->rows[g]);
    ts_buffer_reset(&lf->weights[g]);
  }
  ts_buffer_reset(&lf->emb);
  ts_buffer_reset(&lf->grad);
  ts_buffer_reset(&lf->out);
  ts_buffer_reset(&lf->grad_out);
  ts_buffer_reset(&lf->bundle);
  ts_buffer_reset(&lf->exchange.recv);
  void *arrays[] = {lf->inputs,  lf->offsets,       lf->rows,
                    lf->weights, lf->emb_ptr,       lf->grad_ptr,
                    lf->send,    lf->recv,          lf->inverse,
                    lf->message, lf->message_bytes, lf->bundle_bytes,
                    lf->arrived, lf->arrived_bytes, lf->exchange.recv_bytes};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    ts_mem_free(arrays[i]);
  *lf = (ts_lot_flight){0};
}

void ts_lot_point(ts_lot_flight *lf, int32_t batch) {
  const ts_lot *lot = lf->lot;
  for (int32_t i = 0; i < lot->n_features; i++) {
    const ts_lot_feature *f = &lot->features[i];
    int64_t start = 0;
    for (int32_t k = 0; k < f->block; k++)
      start += (int64_t)batch * lot->block_width[k];
    lf->emb_ptr[i] = (float *)lf->emb.ptr + start + f->col;
    lf->grad_ptr[i] = (float *)lf->grad.ptr + start + f->col;
  }
}

ts_err ts_lot_forward(ts_lot_flight *lf, ts_lane *lane) {
  ts_err err = TS_OK;
  const ts_lot *lot = lf->lot;
  for (int32_t g = 0; g < lot->n_groups; g++)
    TS_TRY(ts_tbe_forward(lot->groups[g].tbe, lf->out.ptr, lot->own_width,
                          &lf->inputs[g], lane));
done:
  return err;
}

ts_err ts_lot_backward(ts_lot_flight *lf, double lr_factor, int64_t pass,
                       ts_lane *lane) {
  ts_err err = TS_OK;
  const ts_lot *lot = lf->lot;
  for (int32_t g = 0; g < lot->n_groups; g++)
    TS_TRY(ts_tbe_backward(lot->groups[g].tbe, lf->grad_out.ptr, lot->own_width,
                           &lf->inputs[g], lr_factor, pass, lane));
done:
  return err;
}

ts_err ts_lot_layout_whole(ts_lot *lot) {
  ts_err err = TS_OK;
  lot->n_blocks = 1;
  TS_TRY(ts_mem_array(&lot->block_width, 1, sizeof *lot->block_width,
                      TS_TAG_MISC));
  for (int32_t i = 0; i < lot->n_features; i++) {
    lot->features[i].col = lot->width;
    lot->width += lot->features[i].dim;
  }
  lot->block_width[0] = lot->own_width = lot->width;
done:
  return err;
}

ts_err ts_lot_backward_end(ts_lot_flight *lf, double lr_factor, int64_t pass,
                           ts_lane *lane) {
  ts_err err = TS_OK;
  if (lf->lot->comm) TS_TRY(ts_comm_end(&lf->token, lane));
  TS_TRY(ts_lot_backward(lf, lr_factor, pass, lane));
done:
  return err;
}
