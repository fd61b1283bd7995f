/* sharding.c - the table of sharding types: those of base/kinds.h. */
#include "shard/sharding.h"

#define DECLARE(id, name) extern const ts_sharding_ops ts_sharding_##name;
TS_SHARDINGS(DECLARE)

#define ENTRY(id, name) [TS_SHARD_##id] = &ts_sharding_##name,
static const ts_sharding_ops *const table[] = {TS_SHARDINGS(ENTRY)};

const ts_sharding_ops *ts_sharding_find(ts_shard_kind kind) {
  return kind > TS_SHARD_AUTO && kind < TS_SHARD_COUNT ? table[kind] : NULL;
}

const char *ts_shard_kind_name(ts_shard_kind kind) {
  const ts_sharding_ops *ops = ts_sharding_find(kind);
  return ops ? ops->name : kind == TS_SHARD_AUTO ? "auto" : "?";
}

bool ts_shard_kind_is_replicated(ts_shard_kind kind) {
  const ts_sharding_ops *ops = ts_sharding_find(kind);
  return ops && !ops->remote;
}

bool ts_sharding_same_parts(const ts_table_plan *x, const ts_table_plan *y) {
  const bool split = ts_sharding_find(x->kind)->split_rows;
  if (split != ts_sharding_find(y->kind)->split_rows) return false;
  if (split && x->n_shards != y->n_shards) return false;
  for (int32_t k = 0; split && k < x->n_shards; k++)
    if (x->shards[k].rank != y->shards[k].rank ||
        x->shards[k].row0 != y->shards[k].row0 ||
        x->shards[k].n_rows != y->shards[k].n_rows)
      return false;
  return true;
}

bool ts_ids_alike(const ts_table_config *x, const ts_table_config *y) {
  return ts_table_same_ids(x, y) && (x->max_length > 0) == (y->max_length > 0);
}
