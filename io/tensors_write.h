/* tensors_write.h - safetensors, written: a folder with STEM.safetensors, or
 * where that would be too large STEM-00001-of-0000N.safetensors and what is
 * where, STEM.safetensors.index.json (layout: doc/formats).
 *
 * The folder is made under another name, OUT.part, and gets its own once all
 * that is in it is on the disk.  Errors are of code IO unless they come from
 * who reads.  All of it is Local. */
#pragma once

#include "base/dtype.h"
#include "base/str.h"

typedef struct ts_tensor_out {
  char *name;   /* owned; UTF-8 */
  char *source; /* owned; what its rows are read by */
  ts_dtype dtype;
  int64_t rows, cols; /* (rows, cols) row-major; a vector has cols 0 */
  int32_t file;       /* set by write: which file, from 0, and where there */
  int64_t at;
} ts_tensor_out;

typedef struct ts_tensors_out {
  ts_tensor_out *item; /* owned; write sorts them */
  int32_t n;
  int64_t step; /* of training: in the files' __metadata__ */
  /* Rows [row0, row0 + n_rows) of a tensor to TO; they are asked for in their
   * order, 8 MiB at a time or one row. */
  ts_err (*read)(void *arg, const ts_tensor_out *, int64_t row0, int64_t n_rows,
                 void *to);
  void *arg;
} ts_tensors_out;

ts_err ts_tensors_out_add(ts_tensors_out *, const ts_tensor_out *like);
void ts_tensors_out_reset(ts_tensors_out *);
int64_t ts_tensor_out_bytes(const ts_tensor_out *);

/* Writes the tensors into the folder, each whole in one of *N_FILES files of at
 * most MAX_BYTES of data; only one tensor may be more. */
ts_err ts_tensors_write(const char *folder, const char *stem, ts_tensors_out *,
                        int64_t max_bytes, int32_t *n_files);
