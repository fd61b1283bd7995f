/* vectors.h - words and their vectors as text, as word2vec and GloVe write
 * them: a word and DIM numbers a line, between blanks or tabs; the first line
 * may be "n dim".  Words may have blanks: the last DIM fields are the numbers.
 * Errors are of code CKPT and name file and line.
 * All of it is Local. */
#pragma once

#include <stdint.h>

#include "base/err.h"

typedef struct ts_vectors ts_vectors;

/* An error where the first line has another number of fields. */
ts_err ts_vectors_open(ts_vectors **, const char *path, int32_t dim);
void ts_vectors_close(ts_vectors *);
/* *WORD: the next line's, NULL: there is none.  Until the next call. */
ts_err ts_vectors_next(ts_vectors *, const char **word);
/* The numbers of that line into X (dim): finite ones, or an error. */
ts_err ts_vectors_numbers(const ts_vectors *, float *x);
