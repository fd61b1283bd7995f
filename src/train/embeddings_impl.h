/* embeddings_impl.h - inside of who writes rows of tables out of a checkpoint;
 * private to embeddings*.c. */
#pragma once

#include "io/vocabulary.h"
#include "train/trainer.h"

/* A feature's part of the file: words, or the rows' numbers, of a dynamic table
 * ids, by ascending key; vectors. */
typedef struct ts_embedding {
  const char *feature;
  const ts_table_config *table;
  int32_t number;  /* of the feature in the deck */
  char group[512]; /* in HDF5 */
  ts_words words;
  bool has_words;
  int64_t n;
  int32_t width; /* of the longest word */
} ts_embedding;

/* This rank's part of a block: cells of rows [first, first + n). */
typedef struct ts_embedding_part {
  int64_t first, n;
  char *names;  /* words of e->width bytes, or numbers */
  int64_t *ids; /* of a dynamic table, or NULL */
  float *vectors;
  float *mean, *pass; /* of tables with `ema` (sparse/row_optim.h), or NULL */
} ts_embedding_part;

/* P's vectors, and of a dynamic table its ids, as checkpoint PATH has them; AT:
 * its pass, at whose end means are.  Collective. */
ts_err ts_embedding_read(const ts_trainer *, const ts_embedding *,
                         ts_embedding_part *p, const char *path, int64_t at);
