/* sharding.c - the table of sharding types.  To add one: one file, one line.
 */
#include "shard/sharding.h"

extern const ts_sharding_ops ts_sharding_data_parallel;
extern const ts_sharding_ops ts_sharding_table_wise;
extern const ts_sharding_ops ts_sharding_row_wise;
extern const ts_sharding_ops ts_sharding_column_wise;
extern const ts_sharding_ops ts_sharding_table_row_wise;
extern const ts_sharding_ops ts_sharding_table_column_wise;
extern const ts_sharding_ops ts_sharding_grid;

static const ts_sharding_ops *const table[] = {
    &ts_sharding_data_parallel,  &ts_sharding_table_wise,
    &ts_sharding_row_wise,       &ts_sharding_column_wise,
    &ts_sharding_table_row_wise, &ts_sharding_table_column_wise,
    &ts_sharding_grid,
};

const ts_sharding_ops *ts_sharding_find(ts_shard_kind kind) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i]->kind == kind) return table[i];
  return NULL;
}

const char *ts_shard_kind_name(ts_shard_kind kind) {
  static const char *const names[TS_SHARD_COUNT] = {
      "auto",        "data_parallel",  "table_wise",        "row_wise",
      "column_wise", "table_row_wise", "table_column_wise", "grid"};
  return kind >= 0 && kind < TS_SHARD_COUNT ? names[kind] : "?";
}
