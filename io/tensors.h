/* tensors.h - arrays in files of other programs: safetensors, each by its name,
 * in one file or in those that an index beside them names, and .npy, which has
 * one.
 *
 * A file is looked at as a whole before anything of it is read: every tensor
 * lies in the file, has the bytes that type and shape take, and shares none
 * with another.  Errors are of code CKPT and name file and tensor.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/dtype.h"
#include "base/str.h"

struct json_t; /* Jansson's */

enum { TS_TENSOR_DIMS_MAX = 8 };

typedef struct ts_tensor {
  char *name;     /* owned; of .npy "" */
  char type[16];  /* as the file says it */
  ts_dtype dtype; /* TS_DTYPE_COUNT: it can't be read as floats */
  int n_dims;
  int64_t dims[TS_TENSOR_DIMS_MAX]; /* row-major */
  const struct ts_tensors *of;      /* the file that it is in */
  int64_t at, n_bytes;              /* there */
  bool taken;                       /* for the caller: somebody's */
} ts_tensor;

typedef struct ts_tensors {
  char *path; /* owned */
  int fd;
  int64_t size;    /* bytes of the file */
  ts_tensor *item; /* owned; of safetensors by place */
  int32_t n;
  int64_t step;             /* of training, as __metadata__ has it; -1: none */
  struct ts_tensors **part; /* owned; an index's files */
  int32_t n_parts;
} ts_tensors;

/* The end of an index's name, which says which file has which tensor. */
#define TS_TENSORS_INDEX ".safetensors.index.json"

/* PATH ends in ".safetensors" or as an index; in that or in ".npy". */
static inline bool ts_path_is_safetensors(const char *path) {
  return ts_str_ends(path, ".safetensors") ||
         ts_str_ends(path, TS_TENSORS_INDEX);
}
bool ts_path_is_array(const char *path);

/* By the path's end. */
ts_err ts_tensors_open(ts_tensors **, const char *path);
void ts_tensors_close(ts_tensors *);
/* PATH = FOLDER/STEM.safetensors or that index, whichever is there; unset where
 * neither is. */
ts_err ts_tensors_in(ts_str *path, const char *folder, const char *stem);

/* The tensor of parameter NAME (as in checkpoints, without "model/"): that of
 * the same name; with ALIKE one that nobody has taken, and whose name is NAME
 * but for "model." or "module." in front of either; of a table TABLE also
 * embedding_bags.TABLE.weight, embeddings.TABLE.weight or TABLE.weight, in this
 * order.  NULL: none. */
ts_tensor *ts_tensors_find(const ts_tensors *, const char *name, bool alike);
/* Rows for a table: (rows, dim) of .npy; of safetensors the tensor "weight", or
 * the only one.  Other shapes and types are errors. */
ts_err ts_tensors_rows(const ts_tensors *, const ts_tensor **);
/* An error unless it holds floats. */
ts_err ts_tensor_check(const ts_tensors *, const ts_tensor *);

/* "(3, 4)" */
const char *ts_tensor_shape(char buf[256], const ts_tensor *);

/* safetensors.c, tensors_index.c, tensors_npy.c: what the opened file F holds.
 * read_json: the JSON in N_BYTES from byte AT on, to be freed by json_decref.
 */
ts_err ts_safetensors_read(ts_tensors *f);
ts_err ts_tensors_read_json(const ts_tensors *f, struct json_t **, int64_t at,
                            int64_t n_bytes);
ts_err ts_tensors_read_index(ts_tensors *f);
ts_err ts_npy_read(ts_tensors *f);
