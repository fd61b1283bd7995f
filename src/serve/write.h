/* write.h - writes the file that is served (serve/file.h): the program's side.
 */
#pragma once

#include "base/config.h"
#include "io/tensors_write.h"
#include "io/vocabulary.h"
#include "serve/file.h"

typedef struct ts_serve_out {
  const ts_config *config;
  ts_rows_kind tables; /* what tables' rows become */
  ts_rows_kind dense;  /* F32, or BF16: matrices of dense layers */
  const char *base;    /* a delta over this file is written; NULL: all */
  const char *format;  /* the training data's */
  const char *scales;  /* text of ts_scales_save, "" none */
  const ts_vocabularies *words; /* or NULL */
  double negatives; /* the share of the negatives that was trained on */
  /* Weights, each of F32; its read gives them. */
  const ts_tensors_out *model;
  /* What was written. */
  int64_t bytes, n_rows, n_changed; /* rows of tables, and of them in it */
} ts_serve_out;

/* Writes PATH, under another name until it is whole.  Weights that are not
 * finite are CKPT errors, a base that is of another model USAGE errors. Memory:
 * 20 MiB, the index, 8 bytes for each id of dynamic tables, whose tensors
 * dynamic/TABLE/ids MODEL has (I64, by ascending key), and of a delta 8 for
 * each row that differs.  Local. */
ts_err ts_serve_write(ts_serve_out *, const char *path);
