/* lot.c - the tables of one sharding type: the views that the model has of
 * them, the pieces in which they travel, and this rank's TBE groups. */
#include <string.h>

#include "base/mem.h"
#include "dense/param_optim.h"
#include "shard/flight.h"

static const ts_table_config *table_of(const ts_lot *lot, int32_t t) {
  return &lot->ebc->config->tables[t];
}

static const ts_table_plan *plan_of(const ts_lot *lot, int32_t t) {
  return &lot->ebc->plan->tables[t];
}

/* The types that bring rows as they are. */
static ts_err refuse_sequence(const ts_lot *lot, const ts_table_config *c) {
  ts_err err = TS_OK;
  ts_str names = {0};
  for (ts_shard_kind k = TS_SHARD_AUTO + 1; k < TS_SHARD_COUNT; k++)
    if (ts_sharding_find(k)->sequence)
      TS_TRY(ts_str_append(&names, "%s%s", names.n_bytes ? ", " : "",
                           ts_shard_kind_name(k)));
  TS_THROW(TS_ERR_DECK,
           "table %s: pooling = \"none\" can't be sharded %s; it takes one of: "
           "%s",
           c->name, lot->ops->name, names.text);
done:
  ts_str_reset(&names);
  return err;
}

static ts_err find_views(ts_lot *lot) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = lot->ebc;
  TS_TRY(ts_mem_array(&lot->views, ebc->n_features, sizeof *lot->views,
                      TS_TAG_MISC));
  for (int32_t f = 0; f < ebc->n_features; f++) {
    const int32_t t = ebc->feature_table[f];
    const ts_table_config *c = table_of(lot, t);
    const bool sequence = c->pooling == TS_POOL_NONE;
    if (ts_sharding_find(plan_of(lot, t)->kind) != lot->ops ||
        sequence != lot->sequence || c->weighted != lot->weighted)
      continue;
    if (sequence && !lot->ops->sequence) TS_TRY(refuse_sequence(lot, c));
    if (sequence && c->weighted)
      TS_THROW(TS_ERR_DECK,
               "table %s: pooling = \"none\" gives rows as they are and takes "
               "no weights",
               c->name);
    lot->late |= ts_param_is_table(c);
    lot->views[lot->n_views++] =
        (ts_view){.feature = f,
                  .table = t,
                  .dim = c->dim,
                  .variable = ebc->variable[f],
                  .sequence = sequence,
                  .mean = c->pooling == TS_POOL_MEAN && lot->ops->split_rows,
                  .assembled = ebc->variable[f] >= 0 ||
                               plan_of(lot, t)->shards[0].n_cols < c->dim};
  }
done:
  return err;
}

/* True for the shards of a table that stand for a piece: the first of each
 * column slice, and of sequences every row shard. */
static bool stands_for_piece(const ts_lot *lot, const ts_table_plan *p,
                             int32_t k) {
  if (!lot->ops->remote) return k == 0;
  if (lot->sequence && lot->ops->split_rows) return true;
  for (int32_t i = 0; i < k; i++)
    if (p->shards[i].col0 == p->shards[k].col0) return false;
  return true;
}

static ts_err add_pieces(ts_lot *lot, int32_t first, int32_t end) {
  ts_err err = TS_OK;
  const int32_t t = lot->views[first].table;
  const ts_table_plan *p = plan_of(lot, t);
  const int64_t more = (int64_t)p->n_shards * (end - first);
  TS_TRY(ts_mem_resize(
      &lot->pieces, (size_t)lot->n_pieces * sizeof *lot->pieces,
      (size_t)(lot->n_pieces + more) * sizeof *lot->pieces, TS_TAG_MISC));
  for (int32_t k = 0; k < p->n_shards; k++) {
    const ts_shard *s = &p->shards[k];
    const bool split = lot->sequence && lot->ops->split_rows;
    for (int32_t i = first; stands_for_piece(lot, p, k) && i < end; i++)
      lot->pieces[lot->n_pieces++] = (ts_piece){
          .view = i,
          .feature = lot->views[i].feature,
          .table = t,
          .row0 = split ? s->row0 : 0,
          .n_rows = split ? s->n_rows : table_of(lot, t)->rows,
          .part = k,
          .col0 = s->col0,
          .n_cols = s->n_cols,
          .block =
              lot->output->block_of ? lot->output->block_of(lot->ebc, s) : 0};
  }
done:
  return err;
}

static ts_err find_pieces(ts_lot *lot) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = lot->ebc;
  lot->n_blocks = lot->output->n_blocks ? lot->output->n_blocks(ebc) : 1;
  lot->own_block =
      lot->output->written_by ? lot->output->written_by(ebc, ebc->rank) : 0;
  TS_TRY(ts_mem_array(&lot->block_width, lot->n_blocks,
                      sizeof *lot->block_width, TS_TAG_MISC));
  for (int32_t i = 0, end; i < lot->n_views; i = end) {
    for (end = i; end < lot->n_views; end++)
      if (lot->views[end].table != lot->views[i].table) break;
    TS_TRY(add_pieces(lot, i, end));
  }
  for (int32_t p = 0; p < lot->n_pieces; p++) {
    ts_piece *piece = &lot->pieces[p];
    piece->col = -1;
    if (lot->views[piece->view].variable >= 0) continue;
    piece->col = lot->block_width[piece->block];
    lot->block_width[piece->block] += piece->n_cols;
  }
done:
  return err;
}

bool ts_lot_same(const ts_lot *lot, const ts_piece *p, const ts_shard *s) {
  if (s->col0 != p->col0) return false;
  return !(lot->sequence && lot->ops->split_rows) || s->row0 == p->row0;
}

const ts_shard *ts_lot_own_shard(const ts_lot *lot, const ts_piece *p) {
  const ts_table_plan *t = plan_of(lot, p->table);
  for (int32_t k = 0; k < t->n_shards; k++)
    if (t->shards[k].rank == lot->ebc->rank &&
        ts_lot_same(lot, p, &t->shards[k]))
      return &t->shards[k];
  return NULL;
}

/* Rows of both may share a tier. */
static bool same_tier(const ts_table_config *a, const ts_table_config *b) {
  const bool slow = ts_table_is_slow(a);
  if (!slow || !ts_table_is_slow(b)) return slow == ts_table_is_slow(b);
  return !strcmp(a->kernel, b->kernel) &&
         ts_table_load_factor(a) == ts_table_load_factor(b) &&
         !strcmp(a->cache.policy, b->cache.policy) &&
         a->cache.passes == b->cache.passes &&
         a->cache.min_pass_size == b->cache.min_pass_size &&
         !strcmp(a->cache.tier, b->cache.tier);
}

/* Pieces whose tables one group can hold together. */
static bool alike(const ts_lot *lot, const ts_piece *p, const ts_piece *q) {
  const ts_table_config *a = table_of(lot, p->table);
  const ts_table_config *b = table_of(lot, q->table);
  return p->n_cols == q->n_cols &&
         (p->n_cols == a->dim) == (q->n_cols == b->dim) &&
         a->dtype == b->dtype && a->pooling == b->pooling &&
         a->weighted == b->weighted &&
         (a->max_length > 0) == (b->max_length > 0) &&
         !strcmp(a->optimizer.kind, b->optimizer.kind) && same_tier(a, b) &&
         (a == b || !ts_param_is_table(a));
}

/* Adds piece P, held as SHARD, to the group's specification. */
static void add_slot(const ts_lot *lot, ts_lot_group *g, ts_tbe_spec *spec,
                     int32_t *table, int32_t p, const ts_shard *shard) {
  const ts_piece *piece = &lot->pieces[p];
  const ts_tbe_table *last =
      spec->n_tables ? &spec->tables[spec->n_tables - 1] : NULL;
  if (!last || last->table_id != piece->table || last->col0 != shard->col0 ||
      last->first_row != shard->row0)
    spec->tables[spec->n_tables++] = (ts_tbe_table){table_of(lot, piece->table),
                                                    piece->table,
                                                    shard->row0,
                                                    shard->n_rows,
                                                    shard->col0,
                                                    shard->n_cols};
  table[g->n_slots] = spec->n_tables - 1;
  g->piece[g->n_slots++] = p;
}

static ts_err group_create(ts_lot *lot, ts_lot_group *g, int32_t first,
                           bool *taken) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = lot->ebc;
  const ts_piece *like = &lot->pieces[first];
  const ts_table_config *c = table_of(lot, like->table);
  int32_t *table = NULL;
  ts_tbe_table *tables = NULL;
  TS_TRY(ts_mem_array(&table, lot->n_pieces, sizeof *table, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&tables, lot->n_pieces, sizeof *tables, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&g->piece, lot->n_pieces, sizeof *g->piece, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&g->route, lot->n_pieces, sizeof *g->route, TS_TAG_MISC));
  ts_tbe_spec spec = {.tables = tables,
                      .feature_table = table,
                      .seed = (uint64_t)ebc->config->run.seed,
                      .tier_dir = ebc->config->run.tier_dir,
                      /* Where shards hold parts of a bag the division comes
                       * after the sum. */
                      .mean =
                          c->pooling == TS_POOL_MEAN && !lot->ops->split_rows};
  for (int32_t p = first; p < lot->n_pieces; p++) {
    const ts_shard *shard = ts_lot_own_shard(lot, &lot->pieces[p]);
    if (taken[p] || !shard || !alike(lot, like, &lot->pieces[p])) continue;
    taken[p] = true;
    add_slot(lot, g, &spec, table, p, shard);
  }
  spec.n_features = g->n_slots;
  if (ts_param_is_table(c)) {
    TS_TRY(ts_dense_rows_create(&g->dense, lot->ebc, like->table,
                                !lot->ops->remote));
    spec.optim = ts_dense_rows_optim(g->dense);
  }
  g->weighted = c->weighted;
  g->positions = c->max_length > 0;
  g->columns = like->n_cols < c->dim;
  TS_TRY(ts_tbe_create(&g->tbe, ebc->device, ebc->kernels, &spec));
  if (g->dense) ts_dense_rows_attach(g->dense, g->tbe);
done:
  ts_mem_free(table);
  ts_mem_free(tables);
  return err;
}

static ts_err make_groups(ts_lot *lot) {
  ts_err err = TS_OK;
  bool *taken = NULL;
  TS_TRY(ts_mem_array(&taken, lot->n_pieces, sizeof *taken, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&lot->groups, lot->n_pieces, sizeof *lot->groups,
                      TS_TAG_MISC));
  for (int32_t p = 0; p < lot->n_pieces; p++) {
    if (!ts_lot_own_shard(lot, &lot->pieces[p])) {
      lot->holes |= lot->pieces[p].block == lot->own_block;
      continue;
    }
    if (!taken[p])
      TS_TRY(group_create(lot, &lot->groups[lot->n_groups++], p, taken));
  }
done:
  ts_mem_free(taken);
  return err;
}

ts_err ts_lot_create(ts_lot *lot, ts_ebc *ebc, const ts_sharding_ops *ops,
                     bool sequence, bool weighted) {
  ts_err err = TS_OK;
  lot->ops = ops;
  lot->ebc = ebc;
  lot->sequence = sequence;
  lot->weighted = weighted;
  lot->travels = ops->remote && ebc->n_ranks > 1;
  lot->output = ebc->n_ranks == 1 ? &ts_output_local
                : sequence        ? ops->sequence
                                  : ops->output;
  TS_TRY(find_views(lot));
  if (!lot->n_views) goto done;
  TS_TRY(find_pieces(lot));
  /* A file of rows is one rank's own, and so is what is wrong with its disk:
   * the others hear of it here, before they wait for it in what follows. */
  TS_TRY(ts_agree(ebc->input_comm, make_groups(lot)));
  if (lot->output->create) TS_TRY(lot->output->create(lot));
  if (!ops->remote && ebc->n_ranks > 1)
    TS_TRY(ts_comm_create(ebc->world, &lot->comm, TS_GROUP_WORLD, ops->name));
  if (lot->comm) {
    ts_comm_set_stage(lot->comm, ops->remote ? "output dist" : "row reduce");
    TS_TRY(ts_rooms_create(&lot->rooms, ebc->n_ranks));
  }
  if (lot->comm && ops->remote) {
    TS_TRY(ts_comm_create(ebc->world, &lot->back_comm, TS_GROUP_WORLD,
                          "gradients"));
    ts_comm_set_stage(lot->back_comm, "output dist");
  }
  TS_TRY(ts_columns_create(lot));
done:
  return err;
}

void ts_lot_reset(ts_lot *lot) {
  for (int32_t g = 0; g < lot->n_groups; g++) {
    ts_tbe_destroy(lot->groups[g].tbe);
    ts_dense_rows_destroy(lot->groups[g].dense);
    ts_mem_free(lot->groups[g].piece);
    ts_mem_free(lot->groups[g].route);
  }
  ts_columns_destroy(lot);
  ts_mem_free(lot->groups);
  ts_mem_free(lot->views);
  ts_mem_free(lot->pieces);
  ts_mem_free(lot->block_width);
  ts_comm_destroy(lot->comm);
  ts_comm_destroy(lot->back_comm);
  ts_comm_destroy(lot->node_comm);
  ts_rooms_reset(&lot->rooms);
  *lot = (ts_lot){0};
}
