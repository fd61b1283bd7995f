/* topk_rows.h - the best items of each sample, as columns of a file: `tessera
 * topk`.
 * Functions are Collective unless they say Local. */
#pragma once

#include "io/sheet.h"
#include "io/source.h"
#include "train/layer_values.h"
#include "train/topk.h"

/* Zero: none. */
typedef struct ts_topk_rows {
  ts_trainer *t;
  ts_topk *topk;
  ts_layer_values query;
  ts_words words; /* of items; n 0: they are numbers */
  int32_t width;  /* of the longest word */
  char *text;     /* (batch_max, k, width) */
} ts_topk_rows;

enum { TS_TOPK_COLUMNS = 2 };

/* Whether CONFIG has items to rank; USAGE errors.  Local. */
ts_err ts_topk_rows_check(const ts_config *, int64_t k);
/* The K best by the weights that T has; words are SOURCE's, which outlives the
 * rows. */
ts_err ts_topk_rows_open(ts_topk_rows *, ts_trainer *t, const ts_source *source,
                         int64_t k);
void ts_topk_rows_close(ts_topk_rows *); /* Local */
/* Items and scores.  Local. */
void ts_topk_rows_columns(const ts_topk_rows *,
                          ts_sheet_column to[TS_TOPK_COLUMNS]);
/* Their cells of the batch that has just been finished, until the next one. */
ts_err ts_topk_rows_take(ts_topk_rows *, const ts_batch *,
                         const void *data[TS_TOPK_COLUMNS]);
