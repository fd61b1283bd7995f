/* sheet_impl.h - inside a file of rows; private to sheet*.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include <zlib.h>

#include "base/str.h"
#include "io/columnar_out.h"
#include "io/sheet.h"

struct ts_sheet {
  char path[4096], temp[4096];
  ts_sheet_format format;
  const ts_sheet_column *columns;
  int32_t n_columns;
  int64_t n;
  ts_comm *comm;
  bool first; /* rank 0 */
  bool piped; /* CSV: to standard output */
  int fd;
  int64_t *at; /* (n_columns) HDF5: places in the file */
  gzFile gz;   /* CSV: packed; rank 0's */
  int64_t end; /* CSV: bytes written */
  ts_str text; /* CSV: of this rank */
  char *all;   /* CSV: of all ranks, on rank 0 */
  size_t all_bytes;
  ts_columnar_out *out; /* Parquet: rank 0's */
  char **cells;         /* Parquet: (n_columns) of all ranks, on rank 0 */
  size_t *cells_bytes;  /* (n_columns) */
};

size_t ts_cell_bytes(const ts_sheet_column *);

/* sheet_csv.c, rank 0: the file and its header; its end. */
ts_err ts_sheet_csv_create(ts_sheet *);
ts_err ts_sheet_csv_close(ts_sheet *);
/* The name of the J-th cell of a column, as a column of its own. */
void ts_sheet_cell_name(char name[512], const ts_sheet_column *, int32_t j);
/* Collective. */
ts_err ts_sheet_csv_write(ts_sheet *, int64_t n, const void *const *data);

/* sheet_parquet.c, rank 0: the file and its columns. */
ts_err ts_sheet_parquet_create(ts_sheet *);
/* Collective. */
ts_err ts_sheet_parquet_write(ts_sheet *, int64_t n, const void *const *data);
void ts_sheet_parquet_free(ts_sheet *);
