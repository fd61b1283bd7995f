/* plan.h - which rank holds which part of which table.
 *
 * Made once, the same on all ranks; kept as text in the checkpoint's
 * /meta/plan.  A resumed run with the same deck and ranks reuses it. */
#ifndef TS_SHARD_PLAN_H
#define TS_SHARD_PLAN_H

#include "base/config.h"
#include "base/err.h"
#include "base/str.h"

/* Rows [row0, row0 + n_rows) and columns [col0, col0 + n_cols) on RANK. */
typedef struct ts_shard {
  int32_t rank;
  int64_t row0, n_rows;
  int32_t col0, n_cols;
} ts_shard;

typedef struct ts_table_plan {
  ts_shard_kind kind;
  ts_shard *shards; /* data_parallel: one per rank, each the whole table */
  int32_t n_shards;
} ts_table_plan;

typedef struct ts_plan {
  ts_table_plan *tables; /* (n_tables), the deck's order */
  int32_t n_tables, n_ranks;
} ts_plan;

/* The plan of the deck for W ranks: manual placement where the deck says so;
 * auto: small tables data_parallel, tables larger than a rank's fair share
 * row_wise, the rest table_wise on the rank with the least bytes so far,
 * largest first.  DECK errors name the table.  Local, deterministic. */
ts_err ts_plan_make(ts_plan **, const ts_config *, int n_ranks);
void ts_plan_destroy(ts_plan *);

/* One line a table: NAME KIND rank:row0+n_rows,col0+n_cols ... */
ts_err ts_plan_print(ts_str *, const ts_plan *, const ts_config *);
ts_err ts_plan_parse(ts_plan **, const char *text, const ts_config *);

const char *ts_shard_kind_name(ts_shard_kind);

#endif
