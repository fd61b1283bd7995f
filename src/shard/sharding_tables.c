/* sharding_tables.c - the tables of one sharding type: the views that the model
 * has of them, the pieces in which they travel, and this rank's TBE groups. */
#include <string.h>

#include "base/mem.h"
#include "dense/param_optim.h"
#include "shard/ebc_batch.h"
#include "sparse/index.h"

static const ts_table_config *table_of(const ts_sharding *sharding, int32_t t) {
  return &sharding->ebc->config->tables[t];
}

static const ts_table_plan *plan_of(const ts_sharding *sharding, int32_t t) {
  return &sharding->ebc->plan->tables[t];
}

/* The types that bring rows as they are. */
static ts_err refuse_sequence(const ts_sharding *sharding,
                              const ts_table_config *c) {
  ts_err err = TS_OK;
  ts_str names = {0};
  for (ts_shard_kind k = TS_SHARD_AUTO + 1; k < TS_SHARD_COUNT; k++)
    if (ts_sharding_find(k)->sequence)
      TS_TRY(ts_str_append(&names, "%s%s", names.n_bytes ? ", " : "",
                           ts_shard_kind_name(k)));
  TS_THROW(TS_ERR_DECK,
           "table %s: pooling = \"none\" can't be sharded %s; it takes one of: "
           "%s",
           c->name, sharding->ops->name, names.text);
done:
  ts_str_reset(&names);
  return err;
}

static ts_err find_views(ts_sharding *sharding) {
  const ts_ebc *ebc = sharding->ebc;
  TS_DO(ts_mem_many(sharding->views, ebc->n_features, MISC));
  for (int32_t f = 0; f < ebc->n_features; f++) {
    const int32_t t = ebc->feature_table[f];
    const ts_table_config *c = table_of(sharding, t);
    const bool sequence = c->pooling == TS_POOL_NONE;
    if (ts_sharding_find(plan_of(sharding, t)->kind) != sharding->ops ||
        sequence != sharding->sequence || c->weighted != sharding->weighted)
      continue;
    if (sequence && !sharding->ops->sequence)
      TS_DO(refuse_sequence(sharding, c));
    if (sequence && c->weighted)
      return ts_fail(
          TS_ERR_DECK,
          "table %s: pooling = \"none\" gives rows as they are and takes "
          "no weights",
          c->name);
    sharding->late |= ts_param_is_table(c);
    sharding->views[sharding->n_views++] = (ts_view){
        .feature = f,
        .table = t,
        .dim = c->dim,
        .variable = ebc->variable[f],
        .sequence = sequence,
        .mean = c->pooling == TS_POOL_MEAN && sharding->ops->split_rows,
        .assembled = ebc->variable[f] >= 0 ||
                     plan_of(sharding, t)->shards[0].n_cols < c->dim};
  }
  return TS_OK;
}

/* True for the shards of a table that stand for a piece: the first of each
 * column slice, and of sequences every row shard. */
static bool stands_for_piece(const ts_sharding *sharding,
                             const ts_table_plan *p, int32_t k) {
  if (!sharding->ops->remote) return k == 0;
  if (sharding->sequence && sharding->ops->split_rows) return true;
  for (int32_t i = 0; i < k; i++)
    if (p->shards[i].col0 == p->shards[k].col0) return false;
  return true;
}

static ts_err add_pieces(ts_sharding *sharding, int32_t first, int32_t end) {
  const int32_t t = sharding->views[first].table;
  const ts_table_plan *p = plan_of(sharding, t);
  const int64_t more = (int64_t)p->n_shards * (end - first);
  TS_DO(ts_mem_resize(
      &sharding->pieces, (size_t)sharding->n_pieces * sizeof *sharding->pieces,
      (size_t)(sharding->n_pieces + more) * sizeof *sharding->pieces,
      TS_TAG_MISC));
  for (int32_t k = 0; k < p->n_shards; k++) {
    const ts_shard *s = &p->shards[k];
    const bool split = sharding->sequence && sharding->ops->split_rows;
    for (int32_t i = first; stands_for_piece(sharding, p, k) && i < end; i++)
      sharding->pieces[sharding->n_pieces++] =
          (ts_piece){.view = i,
                     .feature = sharding->views[i].feature,
                     .table = t,
                     .row0 = split ? s->row0 : 0,
                     .n_rows = split ? s->n_rows : table_of(sharding, t)->rows,
                     .part = k,
                     .col0 = s->col0,
                     .n_cols = s->n_cols,
                     .block = sharding->output->block_of
                                  ? sharding->output->block_of(sharding->ebc, s)
                                  : 0};
  }
  return TS_OK;
}

static ts_err find_pieces(ts_sharding *sharding) {
  const ts_ebc *ebc = sharding->ebc;
  sharding->n_blocks =
      sharding->output->n_blocks ? sharding->output->n_blocks(ebc) : 1;
  sharding->own_block = sharding->output->written_by
                            ? sharding->output->written_by(ebc, ebc->rank)
                            : 0;
  TS_DO(ts_mem_many(sharding->block_width, sharding->n_blocks, MISC));
  for (int32_t i = 0, end; i < sharding->n_views; i = end) {
    for (end = i; end < sharding->n_views; end++)
      if (sharding->views[end].table != sharding->views[i].table) break;
    TS_DO(add_pieces(sharding, i, end));
  }
  for (int32_t p = 0; p < sharding->n_pieces; p++) {
    ts_piece *piece = &sharding->pieces[p];
    piece->col = -1;
    if (sharding->views[piece->view].variable >= 0) continue;
    piece->col = sharding->block_width[piece->block];
    sharding->block_width[piece->block] += piece->n_cols;
  }
  return TS_OK;
}

/* True when shard and piece are the same part of the same table. */
static bool same_part(const ts_sharding *sharding, const ts_piece *p,
                      const ts_shard *s) {
  if (s->col0 != p->col0) return false;
  return !(sharding->sequence && sharding->ops->split_rows) ||
         s->row0 == p->row0;
}

const ts_shard *ts_sharding_own_shard(const ts_sharding *sharding,
                                      const ts_piece *p) {
  const ts_table_plan *t = plan_of(sharding, p->table);
  for (int32_t k = 0; k < t->n_shards; k++)
    if (t->shards[k].rank == sharding->ebc->rank &&
        same_part(sharding, p, &t->shards[k]))
      return &t->shards[k];
  return NULL;
}

/* Rows of both may share a tier. */
static bool same_tier(const ts_table_config *a, const ts_table_config *b) {
  const bool slow = ts_table_is_slow(a);
  if (!slow || !ts_table_is_slow(b)) return slow == ts_table_is_slow(b);
  return !strcmp(ts_table_kernel(a), ts_table_kernel(b)) &&
         ts_table_load_factor(a) == ts_table_load_factor(b) &&
         !strcmp(a->cache.policy, b->cache.policy) &&
         a->cache.passes == b->cache.passes &&
         a->cache.min_pass_size == b->cache.min_pass_size &&
         !strcmp(ts_table_tier(a), ts_table_tier(b));
}

/* Pieces whose tables one group can hold together. */
static bool alike(const ts_sharding *sharding, const ts_piece *p,
                  const ts_piece *q) {
  const ts_table_config *a = table_of(sharding, p->table);
  const ts_table_config *b = table_of(sharding, q->table);
  return p->n_cols == q->n_cols &&
         (p->n_cols == a->dim) == (q->n_cols == b->dim) &&
         ts_table_is_dynamic(a) == ts_table_is_dynamic(b) &&
         ts_table_evicts(a) == ts_table_evicts(b) &&
         ts_table_scores(a) == ts_table_scores(b) &&
         (a->grow > 0) == (b->grow > 0) && a->dtype == b->dtype &&
         a->ema == b->ema && a->pooling == b->pooling &&
         a->weighted == b->weighted &&
         (a->max_length > 0) == (b->max_length > 0) &&
         !strcmp(a->optimizer.kind, b->optimizer.kind) && same_tier(a, b) &&
         (a == b || !ts_param_is_table(a));
}

/* Adds piece P, held as SHARD, to the group's specification. */
static void add_slot(const ts_sharding *sharding, ts_sharding_group *g,
                     ts_tbe_spec *spec, int32_t *table, int32_t p,
                     const ts_shard *shard) {
  const ts_piece *piece = &sharding->pieces[p];
  const ts_table_config *config = table_of(sharding, piece->table);
  const ts_tbe_table *last =
      spec->n_tables ? &spec->tables[spec->n_tables - 1] : NULL;
  const ts_table_plan *plan = &sharding->ebc->plan->tables[piece->table];
  const int32_t number = (int32_t)(shard - plan->shards);
  const int32_t part = ts_index_first_part(number, plan->n_shards);
  if (!last || last->table_id != piece->table || last->col0 != shard->col0 ||
      last->first_row != shard->row0)
    spec->tables[spec->n_tables++] = (ts_tbe_table){
        .config = config,
        .table_id = piece->table,
        .first_row = shard->row0,
        .n_rows = ts_tbe_rows_of(config, shard->n_rows),
        .col0 = shard->col0,
        .n_cols = shard->n_cols,
        .first_part = part,
        .n_parts = ts_index_first_part(number + 1, plan->n_shards) - part};
  table[g->n_slots] = spec->n_tables - 1;
  g->piece[g->n_slots++] = p;
}

static ts_err group_create(ts_sharding *sharding, ts_sharding_group *g,
                           int32_t first, bool *taken) {
  ts_err err = TS_OK;
  const ts_ebc *ebc = sharding->ebc;
  const ts_piece *like = &sharding->pieces[first];
  const ts_table_config *c = table_of(sharding, like->table);
  int32_t *table = NULL;
  ts_tbe_table *tables = NULL;
  TS_TRY(ts_mem_many(table, sharding->n_pieces, MISC));
  TS_TRY(ts_mem_many(tables, sharding->n_pieces, MISC));
  TS_TRY(ts_mem_many(g->piece, sharding->n_pieces, MISC));
  TS_TRY(ts_mem_many(g->route, sharding->n_pieces, MISC));
  ts_tbe_spec spec = {.tables = tables,
                      .feature_table = table,
                      .seed = (uint64_t)ebc->config->run.seed,
                      .ema = ebc->config->optimizer.ema,
                      .tier_dir = ebc->config->run.tier_dir,
                      /* Where shards hold parts of a bag the division comes
                       * after the sum. */
                      .mean = c->pooling == TS_POOL_MEAN &&
                              !sharding->ops->split_rows};
  for (int32_t p = first; p < sharding->n_pieces; p++) {
    const ts_shard *shard =
        ts_sharding_own_shard(sharding, &sharding->pieces[p]);
    if (taken[p] || !shard || !alike(sharding, like, &sharding->pieces[p]))
      continue;
    taken[p] = true;
    add_slot(sharding, g, &spec, table, p, shard);
  }
  spec.n_features = g->n_slots;
  if (ts_param_is_table(c)) {
    TS_TRY(ts_dense_rows_create(&g->dense, sharding->ebc, like->table,
                                !sharding->ops->remote));
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

static ts_err make_groups(ts_sharding *sharding) {
  ts_err err = TS_OK;
  bool *taken = NULL;
  TS_TRY(ts_mem_many(taken, sharding->n_pieces, MISC));
  TS_TRY(ts_mem_many(sharding->groups, sharding->n_pieces, MISC));
  for (int32_t p = 0; p < sharding->n_pieces; p++) {
    if (!ts_sharding_own_shard(sharding, &sharding->pieces[p])) {
      sharding->holes |= sharding->pieces[p].block == sharding->own_block;
      continue;
    }
    if (!taken[p])
      TS_TRY(group_create(sharding, &sharding->groups[sharding->n_groups++], p,
                          taken));
  }
done:
  ts_mem_free(taken);
  return err;
}

ts_err ts_sharding_create(ts_sharding *sharding, ts_ebc *ebc,
                          const ts_sharding_ops *ops, bool sequence,
                          bool weighted) {
  sharding->ops = ops;
  sharding->ebc = ebc;
  sharding->sequence = sequence;
  sharding->weighted = weighted;
  sharding->travels = ops->remote && ebc->n_ranks > 1;
  sharding->output = ebc->n_ranks == 1 ? &ts_output_local
                     : sequence        ? ops->sequence
                                       : ops->output;
  TS_DO(find_views(sharding));
  if (!sharding->n_views) return TS_OK;
  TS_DO(find_pieces(sharding));
  /* A file of rows is one rank's own, and so is what is wrong with its disk:
   * the others hear of it here, before they wait for it in what follows. */
  TS_DO(ts_agree(ebc->input_comm, make_groups(sharding)));
  if (sharding->output->create) TS_DO(sharding->output->create(sharding));
  if (!ops->remote && ebc->n_ranks > 1)
    TS_DO(
        ts_comm_create(ebc->world, &sharding->comm, TS_GROUP_WORLD, ops->name));
  if (sharding->comm) {
    ts_comm_set_stage(sharding->comm,
                      ops->remote ? "output dist" : "row reduce");
    TS_DO(ts_rooms_create(&sharding->rooms, ebc->n_ranks));
  }
  if (sharding->comm && ops->remote) {
    TS_DO(ts_comm_create(ebc->world, &sharding->back_comm, TS_GROUP_WORLD,
                         "gradients"));
    ts_comm_set_stage(sharding->back_comm, "output dist");
  }
  return ts_columns_create(sharding);
}

void ts_sharding_reset(ts_sharding *sharding) {
  for (int32_t g = 0; g < sharding->n_groups; g++) {
    ts_tbe_destroy(sharding->groups[g].tbe);
    ts_dense_rows_destroy(sharding->groups[g].dense);
    ts_mem_free(sharding->groups[g].piece);
    ts_mem_free(sharding->groups[g].route);
  }
  ts_columns_destroy(sharding);
  ts_mem_free(sharding->groups);
  ts_mem_free(sharding->views);
  ts_mem_free(sharding->pieces);
  ts_mem_free(sharding->block_width);
  ts_comm_destroy(sharding->comm);
  ts_comm_destroy(sharding->back_comm);
  ts_comm_destroy(sharding->node_comm);
  ts_rooms_reset(&sharding->rooms);
  *sharding = (ts_sharding){0};
}
