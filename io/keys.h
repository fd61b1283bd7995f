/* keys.h - columns of the input as they are there, to stand beside the scores
 * of its samples.  They are read apart from the source, whose samples another
 * thread reads ahead. */
#pragma once

#include "io/sheet.h"
#include "io/source.h"

struct ts_keys {
  /* Cells [first, first + n) of all columns into DATA. */
  ts_err (*read)(ts_keys *, int64_t first, int64_t n);
  void (*close)(ts_keys *);
  int64_t n_samples;        /* cells of each */
  int32_t n;                /* columns */
  ts_sheet_column *columns; /* (n) */
  void **data;              /* (n) cells of the samples that were read last */
  size_t *capacity;         /* (n) bytes */
};

/* Columns NAMES of the files that SPLIT reads.  Collective. */
ts_err ts_keys_open(ts_keys **, const ts_config *, ts_split,
                    const ts_strings *names, ts_comm *);
/* ERR of open or read, whose message names WHO, which asks for the columns,
 * instead of --keys.  Local. */
ts_err ts_keys_asked_by(const char *who, ts_err err);
/* Samples [first, first + n).  Local. */
ts_err ts_keys_read(ts_keys *, int64_t first, int64_t n);
/* Frees the columns, too.  Local. */
void ts_keys_close(ts_keys *);

/* For those who make them: the columns, by NAMES, which live longer.  Local. */
ts_err ts_keys_columns(ts_keys *, const ts_strings *names);

/* keys_text.c: of lines of fields, with a header or (criteo_tsv) without.
 * Collective. */
ts_err ts_keys_of_csv(ts_keys **, const ts_config *, const ts_strings *paths,
                      const ts_strings *names, ts_comm *);
ts_err ts_keys_of_criteo(ts_keys **, const ts_config *, const ts_strings *paths,
                         const ts_strings *names, ts_comm *);
/* keys_columnar.c: of Parquet and Arrow's own files.  Collective. */
ts_err ts_keys_of_columnar(ts_keys **, const ts_config *,
                           const ts_strings *paths, const ts_strings *names,
                           ts_comm *);
/* keys_dataset.c: of HDF5, and of NumPy's arrays.  Collective. */
ts_err ts_keys_of_dataset(ts_keys **, const ts_config *,
                          const ts_strings *paths, const ts_strings *names,
                          ts_comm *);
ts_err ts_keys_of_npy(ts_keys **, const ts_config *, const ts_strings *paths,
                      const ts_strings *names, ts_comm *);
