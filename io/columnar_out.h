/* columnar_out.h - writing Parquet and Arrow's own files, row by row; groups of
 * rows are written as they become large. All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum {
  TS_OUT_I64,
  TS_OUT_F64,
  TS_OUT_F32,
  TS_OUT_TEXT,
  TS_OUT_IDS,     /* a list of I64 */
  TS_OUT_WEIGHTED /* a list of pairs: id (I64), weight (F32) */
} ts_out_kind;

typedef struct ts_columnar_out ts_columnar_out;

/* PATH, which is made anew, with room for N_COLUMNS; Parquet, or ARROW's own.
 */
ts_err ts_columnar_out_create(ts_columnar_out **, const char *path, bool arrow,
                              int32_t n_columns);
/* The next column, of those that are there before the first row. */
ts_err ts_columnar_out_column(ts_columnar_out *, const char *name, ts_out_kind);
/* The row's cell of column K, as its kind has it; a text's N_BYTES. */
ts_err ts_columnar_out_cell(ts_columnar_out *, int32_t k, const void *cell,
                            size_t n_bytes);
/* The row's list of N in column K. */
ts_err ts_columnar_out_list(ts_columnar_out *, int32_t k, const int64_t *ids,
                            const float *weights, int64_t n);
/* All columns have their cells of the row. */
ts_err ts_columnar_out_row(ts_columnar_out *);
/* OK: ends the file, which then is on the disk.  Frees OUT (NULL is fine);
 * ERR, or what fails. */
ts_err ts_columnar_out_finish(ts_columnar_out *out, ts_err err);
