/* inputs.h - a batch as it is given becomes rows of tables and dense rows, by
 * the rules of the training data.  All of it is Local. */
#pragma once

#include "serve/ids.h"
#include "serve/tessera_serve.h"

/* Bags of a feature: of N samples, or one where it is every sample's. */
typedef struct ts_serve_bags {
  int64_t *rows;    /* (n_ids) below the table's rows; of times as they are */
  float *weights;   /* (n_ids), or NULL: 1 */
  int64_t *offsets; /* (n + 1) from 0 */
  int64_t n, n_ids;
  bool ones;      /* one id in each */
  size_t room[3]; /* bytes of the arrays, which grow */
  ts_str scratch;
} ts_serve_bags;

void ts_serve_bags_reset(ts_serve_bags *);
/* Samples [first, first + n) of what is given for feature F; DATA errors. */
ts_err ts_serve_bags_take(ts_serve_bags *, const ts_serve_state *, int32_t f,
                          const tserve_bags *, int64_t first, int64_t n);
/* The same of dense numbers: OUT (n, dense_width). */
ts_err ts_serve_dense_take(float *out, const ts_serve_state *,
                           const tserve_batch *, int64_t first, int64_t n);
