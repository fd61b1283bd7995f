/* rows.h - how many rows of each table the data need, and whether it has them;
 * of tables with rows = "auto" that becomes their number. */
#pragma once

#include "io/source.h"

/* Some table's rows are still "auto".  Local. */
bool ts_rows_are_open(const ts_config *);

/* An error of the deck where it leaves rows open to data of OPS, whose ids fit
 * any number of them.  Local. */
ts_err ts_rows_refuse(const ts_config *, const ts_source_ops *ops);

/* Adds what each table (n_tables) needs for the ids of SOURCE (NULL: nothing);
 * by what it knows, and with SAMPLE by some of the ids, too.  Local. */
ts_err ts_rows_needed(ts_need *, ts_source *source, bool sample);

/* Rows that are "auto" become NEEDS (n_tables), and all tables that have too
 * few are said in one error: with STRICT also where the reader would meet the
 * ids one by one (data.on_bad_id).  Local. */
ts_err ts_rows_take(const ts_config *, const ts_need *, bool strict);

/* A line for each table: rows in the deck, and rows needed.  Local. */
void ts_rows_print(const ts_config *, const ts_need *);

/* Rank 0's rows to all.  Collective. */
ts_err ts_rows_share(const ts_config *, ts_comm *);

/* needed and take for a source that has just been opened, and where its ids
 * are plain for those of data.valid and data.eval, too.  Collective. */
ts_err ts_rows_settle(ts_source *, ts_comm *);
