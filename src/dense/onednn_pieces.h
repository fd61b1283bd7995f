/* onednn_pieces.h - a matrix product of rows whose number goes from pass to
 * pass, in pieces of so many, a thread each; private to linear_onednn.c.
 *
 * One primitive does for all numbers, where each would take 0.2 ms to make one
 * of its own; and a row has its bits wherever it lies, in any company.  All of
 * it is Local. */
#pragma once

#include "dense/onednn_product.h"

enum {
  TS_PIECE_ROWS = 240, /* whole blocks of 48: with AVX2 the rows of others have
                          bits of their own */
  TS_PIECE_WEIGHTS = 1 << 16 /* with more a piece alone would take long */
};

typedef struct ts_pieces {
  ts_onednn_stream *stream; /* (n) */
  ts_product *product;      /* (n) of a thread each */
  int n;
  float *a, *c; /* of the last piece, where rows are missing in it */
  int64_t a_stride, c_stride, cols; /* of c */
  struct ts_piece_run {             /* the last one */
    const float *a, *b, *bias;
    float *c;
    int32_t rows;
  } last;
} ts_pieces;

/* As ts_product_matmul; A and C have rows at their strides, which A.rows and
 * C.rows don't count. */
ts_err ts_pieces_make(ts_pieces *, ts_matrix a, ts_matrix b, ts_matrix c,
                      bool bias, bool relu);
void ts_pieces_reset(ts_pieces *);
/* All threads of the one that made them. */
ts_err ts_pieces_run(ts_pieces *, const struct ts_piece_run *);
ts_err ts_pieces_again(ts_pieces *); /* the last run */
