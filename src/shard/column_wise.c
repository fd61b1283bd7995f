/* column_wise.c - each table cut by columns over any ranks.
 *
 * Each shard is looked up as a narrower table: its ids are those of the
 * whole table, its pooled columns travel by all-to-all, and the pieces of a
 * row are put side by side where they arrive. */
#include "base/mem.h"
#include "shard/sharding.h"

ts_err ts_place_slices(ts_table_plan *p, const ts_table_config *t,
                       const int *member, int n_members,
                       const ts_placement *at) {
  ts_err err = TS_OK;
  int *ranks = NULL;
  int32_t n_cols;
  TS_TRY(ts_place_columns(&n_cols, t, at));
  const int n = t->dim / n_cols;
  TS_TRY(ts_mem_many(ranks, n, MISC));
  if (t->ranks.n)
    for (int k = 0; k < n; k++) ranks[k] = (int)t->ranks.item[k];
  else
    TS_TRY(ts_place_pick(ranks, n, member, n_members, at));
  for (int k = 0; k < n; k++)
    TS_TRY(ts_place_rows(p, t, &ranks[k], 1, k * n_cols, n_cols));
done:
  ts_mem_free(ranks);
  return err;
}

static ts_err place(ts_table_plan *p, const ts_table_config *t,
                    const ts_placement *at) {
  return ts_place_slices(p, t, at->nodes->member, at->nodes->n_ranks, at);
}

extern const ts_sharding_ops ts_sharding_column_wise;
const ts_sharding_ops ts_sharding_column_wise = {
    .name = "column_wise",
    .remote = true,
    .split_columns = true,
    .by_size = 2,
    .output = &ts_output_all_to_all,
    .sequence = &ts_output_all_to_all,
    .place = place,
};
