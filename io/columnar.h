/* columnar.h - files of columns (io/parquet.h) as numbered rows, read from any
 * place: groups of rows are decoded whole, the wanted columns only, and the one
 * that is likely to be next by a thread of its own.
 *
 * Columns are those of the first file, found by their names in the others, and
 * behind them keys of folders: data/day=3/x.parquet has the column day, a text.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/config.h"
#include "io/columnar_cells.h"
#include "runtime/comm.h"

typedef struct ts_columnar ts_columnar;

/* Columns are decoded by THREADS; 0: as many as are free.  Collective over
 * COMM: agrees on errors. */
ts_err ts_columnar_open(ts_columnar **, const ts_strings *paths,
                        int32_t threads, ts_comm *);
void ts_columnar_close(ts_columnar *); /* NULL is fine */
int64_t ts_columnar_n_rows(const ts_columnar *);
int64_t ts_columnar_bytes(const ts_columnar *); /* of the files */
int32_t ts_columnar_n_columns(const ts_columnar *);
const char *ts_columnar_name(const ts_columnar *, int32_t column);
/* The first rows of the groups, and behind them the end of the last (*n + 1).
 */
const int64_t *ts_columnar_groups(const ts_columnar *, int64_t *n);

/* The end of ROW's group. */
int64_t ts_columnar_end(const ts_columnar *, int64_t row);

/* COLUMN is asked for; before rows are read.  An error where a file lacks it,
 * or has it of a type that is not known. */
ts_err ts_columnar_want(ts_columnar *, int32_t column);
/* Whether wanted COLUMN has lists, in any file, and of pairs or maps. */
bool ts_columnar_is_list(const ts_columnar *, int32_t column, bool *weighted);
/* Groups stay once they are decoded: rows are taken from anywhere. */
void ts_columnar_keep(ts_columnar *);

/* The N ROWS may be turned to without more reading; row AHEAD is likely to be
 * wanted soon; -1: not known. */
ts_err ts_columnar_hold(ts_columnar *, const int64_t *rows, int64_t n,
                        int64_t ahead);
/* Turns to ROW, whose group is held. */
void ts_columnar_turn(ts_columnar *, int64_t row);
/* The cells that wanted COLUMN of the row at hand is in, at *I; NULL: it is
 * missing (ts_cells_of). */
const ts_cells *ts_columnar_cell(const ts_columnar *, int32_t column,
                                 int64_t *i);
/* How many of the N ROWS, from the first on, are in one piece of a group
 * (nearly always all of it), to which it turns. */
int32_t ts_columnar_run(ts_columnar *, const int64_t *rows, int32_t n);
/* All cells of wanted COLUMN of the piece at hand, row R's at R - *first, as
 * they are; NULL: it is a key of folders. */
const ts_cells *ts_columnar_column(const ts_columnar *, int32_t column,
                                   int64_t *first);
/* For who makes numbers of words: N of them, -1 at first and whenever OF is
 * another, that stay with the piece at hand; K < n is theirs alone. */
void ts_columnar_memos(ts_columnar *, int32_t n);
ts_err ts_columnar_memo(ts_columnar *, int64_t **, int32_t k, int64_t n,
                        int64_t of);
/* The file of the row at hand, and its number there, from 0. */
const char *ts_columnar_place(const ts_columnar *, int64_t *row);
