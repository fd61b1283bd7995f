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
