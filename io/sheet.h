/* sheet.h - a file of rows, written by all ranks: scores and keys of samples,
 * embeddings and their words.  By the end of its name it is HDF5, a dataset
 * for each column, to which each rank writes its own by pwrite; or CSV, whose
 * text goes to rank 0, as where a row begins is known only then; or Parquet
 * or Arrow's own, which have CSV's columns, and whose cells go to rank 0. */
#pragma once

#include "runtime/comm.h"

typedef enum {
  TS_SHEET_NONE,
  TS_SHEET_CSV,
  TS_SHEET_HDF5,
  TS_SHEET_PARQUET /* and Arrow's own */
} ts_sheet_format;

/* What a file of this name is; "-" is CSV on standard output.  NONE: no end
 * that is known.  Local. */
ts_sheet_format ts_sheet_format_of(const char *path);

typedef enum {
  TS_SHEET_TEXT,
  TS_SHEET_I64,
  TS_SHEET_F64,
  TS_SHEET_F32
} ts_cell;

/* N_CELLS of a row: the dataset NAME of shape (N), or (N, N_CELLS). */
typedef struct ts_sheet_column {
  const char *name;
  const char *group;  /* in HDF5, before the name; NULL: none */
  const char *head;   /* in CSV and Parquet, numbered where there are several
                         cells; NULL:   NAME */
  char *const *heads; /* (n_cells) behind HEAD instead of numbers, or NULL */
  int64_t n;          /* rows of it, 0: as many as the file has */
  ts_cell kind;
  int32_t digits;  /* F32 in CSV; 0: 6 */
  int32_t width;   /* TEXT: bytes of a cell, NULs after its text */
  int32_t n_cells; /* 1, or more */
  bool hdf5_only;
} ts_sheet_column;

typedef struct ts_sheet ts_sheet;

/* N rows, under a temporary name until finish; COLUMNS stay the caller's and
 * must live as long.  Collective. */
ts_err ts_sheet_create(ts_sheet **, const char *path, int64_t n,
                       const ts_sheet_column *columns, int32_t n_columns,
                       ts_comm *);
/* Rows [first, first + n), DATA[k] being column k's cells (NULL, HDF5 alone:
 * not now).  The ranks' parts follow each other, and the calls, too.  Errors
 * are agreed.  Collective. */
ts_err ts_sheet_write(ts_sheet *, int64_t first, int64_t n,
                      const void *const *data);
/* OK: gives the file its name, unless any rank has an ERR.  Collective. */
ts_err ts_sheet_finish(ts_sheet *, ts_err err);
