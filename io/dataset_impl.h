/* dataset_impl.h - data sets that are open, in HDF5 or of NumPy's arrays;
 * private to dataset*.c.
 * All of it is Local. */
#pragma once

#include "io/batch_store.h"
#include "io/dataset_array.h"
#include "io/source.h"

typedef struct ts_dataset_feature {
  ts_array values, offsets, weights;
  int64_t rows; /* that its ids need, by what the file says; 0: nothing */
} ts_dataset_feature;

typedef struct ts_dataset_file {
  ts_array_file in;
  int64_t first, n; /* samples */
  ts_array labels, dense, sample_weights;
  ts_array *where; /* (n_tasks) which samples count; set -1: all */
  ts_dataset_feature *features;
  int32_t n_dense; /* that are wanted of each row of DENSE */
  int32_t *pick;   /* their columns, with scales those of all inputs; NULL: all,
                      as they are */
  float *wide;     /* whole rows, of which some are picked */
  size_t wide_bytes;
} ts_dataset_file;

/* How a feature's ids become rows. */
typedef struct ts_dataset_ids {
  bool hash, modulo, words;
  uint64_t start;     /* of the hash */
  int64_t max_length; /* 0: none */
  bool newest;        /* the last so many */
  int32_t input;      /* of a bucket: io/scales.h; -1 */
} ts_dataset_ids;

typedef struct ts_dataset ts_dataset;
struct ts_dataset {
  ts_source base;
  /* Opens PATH as F.in, and says how many samples it has. */
  ts_err (*start)(ts_dataset *, ts_dataset_file *f, const char *path);
  ts_dataset_file *files;
  int32_t n_files, n_features;
  ts_dataset_ids *ids;      /* (n_features) */
  struct ts_wanted *wanted; /* (n_wanted) of gather */
  int64_t n_wanted;
  float *where; /* scratch: of some samples, for one task */
  size_t where_bytes;
};

/* dataset.c: ts_source_ops.open of a format OPS whose files START opens; close,
 * learn, read.  Open and learn are Collective. */
ts_err ts_dataset_open(ts_source **, const ts_source_ops *ops,
                       ts_err (*start)(ts_dataset *, ts_dataset_file *,
                                       const char *),
                       const ts_config *, ts_split, const char *state,
                       const ts_strings *paths, ts_comm *);
void ts_dataset_close(ts_source *);
ts_err ts_dataset_learn(ts_source *, const uint64_t *kept, ts_comm *);
ts_err ts_dataset_read(ts_source *, ts_batch_store *, int64_t first, int32_t n);
/* dataset_file.c: ts_dataset.start of HDF5. */
ts_err ts_dataset_start(ts_dataset *, ts_dataset_file *f, const char *path);
/* dataset_npy.c: feature I, labels and dense numbers of NumPy's arrays, and
 * what the columns of the latter are called; no names: they are not. */
ts_err ts_dataset_npy_feature(ts_dataset *, ts_dataset_file *f, int32_t i);
ts_err ts_dataset_npy_labels(ts_dataset *, ts_dataset_file *f);
ts_err ts_dataset_npy_dense(ts_dataset *, ts_dataset_file *f);
ts_err ts_dataset_npy_names(const ts_dataset *, const ts_dataset_file *f,
                            ts_strings *names);

/* The file that holds SAMPLE. */
ts_dataset_file *ts_dataset_file_of(ts_dataset *, int64_t sample);
/* An error where A, which is NAME, has other than ROWS rows. */
ts_err ts_dataset_check_rows(const ts_dataset_file *, const ts_array *a,
                             const char *name, int64_t rows);
/* Whether a file has other bags than of one id in feature I. */
bool ts_dataset_is_ragged(const ts_dataset *, int32_t i);
/* Feature I's ids, as they are in the file, are to be copied from those of the
 * first of its column. */
bool ts_dataset_copies(const ts_batch_store *, int32_t i);
/* N samples from PLACE of the batch on have no dense numbers: 0, and no bucket
 * of one. */
void ts_dataset_no_dense(const ts_dataset *, ts_batch_store *, int64_t place,
                         int32_t n);
/* X (n, cols), dense features of samples from ROW of F on: an error where one
 * is not a number. */
ts_err ts_dataset_check_dense(const ts_dataset_file *f, const float *x,
                              int64_t row, int32_t n, int32_t cols);
/* dataset_columns.c: opens F's labels, and what says which of them count. */
ts_err ts_dataset_open_labels(ts_dataset *, ts_dataset_file *f);
/* Those of N samples from ROW of F on: an error where they are not what the
 * deck says; NAN where they don't count. */
ts_err ts_dataset_check_labels(ts_dataset *, const ts_dataset_file *f, float *y,
                               int64_t row, int32_t n);
ts_err ts_dataset_check_weights(const ts_dataset_file *f, const float *x,
                                int64_t row, int32_t n);
/* dataset_columns.c: which dense columns of F the deck wants. */
ts_err ts_dataset_dense_columns(const ts_dataset *, ts_dataset_file *f);
/* Where N rows of F's dense numbers are read to: *TO stays where all are
 * wanted; else ts_dataset_pick takes the one at FROM there, F's ROW, to PLACE
 * of the batch, or learns from it. */
ts_err ts_dataset_dense_room(ts_dataset_file *f, int32_t n, float **to);
ts_err ts_dataset_pick(const ts_dataset *, const ts_dataset_file *f,
                       ts_batch_store *, int64_t from, int64_t row,
                       int64_t place);
/* Begins a batch of N samples: features that are made of numbers have their
 * room, which ts_dataset_pick fills. */
ts_err ts_dataset_begin(ts_dataset *, ts_batch_store *, int32_t n);
/* What the deck says of feature I's ids; and those of a batch that was read. */
void ts_dataset_ids_of(const ts_dataset *, int32_t i, ts_dataset_ids *);
ts_err ts_dataset_encode(const ts_dataset *, ts_batch_store *, int32_t i);
/* ts_source_ops.gather. */
ts_err ts_dataset_gather(ts_source *, ts_batch_store *, const int64_t *samples,
                         int32_t n);
/* ts_source_ops.lengths. */
ts_err ts_dataset_lengths(ts_source *, int32_t *n_ids, const int32_t *features,
                          int32_t n_features, const int64_t *samples,
                          int32_t n);

/* dataset_rows.c: takes what the group NAME, a feature's, says of its ids; and
 * the source's needs (io/source.h). */
void ts_dataset_read_max(const ts_dataset_file *, ts_dataset_feature *,
                         const char *name);
ts_err ts_dataset_needs(ts_source *, ts_need *, bool sample);
