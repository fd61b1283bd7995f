/* row_pieces.h - arguments of copy_rows and sum_rows: rows that are gathered
 * or added, many pieces in a call.
 *
 * So many that a GPU's launch can have them by value (4 KB of parameters):
 * callers fill the struct on their stack and call again for the rest.  What
 * pieces point to is device memory.  In a call no piece writes what another
 * reads or writes. */
#pragma once

#include <stdint.h>

enum { TS_ROW_PIECES = 60 };

/* Row i < N of one side has the number index[i] (i without an index); the
 * other side has the rows with numbers FIRST to FIRST + COUNT - 1.
 *   copy_rows  to[i] = from[number - FIRST], where that is there
 *   sum_rows   to[j] = 0 + all from[i] with number FIRST + j, ascending; j <
 *              COUNT.  Discrete devices read member, not index: row j's are
 *              member[k], member_start[FIRST + j] <= k < the next one's */
typedef struct ts_row_piece {
  float *to;
  const float *from;
  const int32_t *index;        /* (n) or NULL */
  const int32_t *member_start; /* of sum_rows */
  const int32_t *member;       /* the same */
  int32_t to_step, from_step;  /* floats from row to row */
  int32_t n, first, count;
  int32_t n_cols;
} ts_row_piece;

typedef struct ts_row_args {
  int32_t n_pieces;
  ts_row_piece piece[TS_ROW_PIECES];
} ts_row_args;
