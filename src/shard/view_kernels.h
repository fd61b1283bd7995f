/* view_kernels.h - arguments of the kernels between lookup, output dist and
 * the model: rows that are gathered, added and scaled, coded for the wire,
 * and weights by position.
 *
 * Each takes many pieces at once, under the rules of runtime/row_pieces.h,
 * where those of copy_rows and sum_rows are. */
#pragma once

#include <stdbool.h>

#include "runtime/row_pieces.h"
#include "shard/codec.h"

enum { TS_SCALE_PIECES = 120, TS_CODE_PIECES = 120, TS_POSITION_SLOTS = 64 };

/* scale_rows: x[i * step + d] *= by[i] */
typedef struct ts_scale_piece {
  float *x;
  const float *by; /* (n) */
  int64_t step;
  int32_t n, n_cols;
} ts_scale_piece;

typedef struct ts_scale_args {
  int32_t n_pieces;
  ts_scale_piece piece[TS_SCALE_PIECES];
} ts_scale_args;

/* code_rows: N rows, STEP floats apart, each coded alone (shard/codec.h; not
 * f32, which is copied), one after the other at WIRE.  Decoding sums N_PARTS
 * that lie PART_BYTES apart, in their order, in f32; the first one sets. */
typedef struct ts_code_piece {
  float *x;
  char *wire;
  int32_t n, step, n_cols;
} ts_code_piece;

typedef struct ts_code_args {
  ts_codec codec;
  bool encode;
  int32_t n_parts; /* encoding: 1 */
  int64_t part_bytes;
  int32_t n_pieces;
  ts_code_piece piece[TS_CODE_PIECES];
} ts_code_args;

/* Ids of a feature in one group, from bag to bag.  An id's place is its
 * position, or N - 1 where that is less.
 *   weigh_positions  value[i] = weight[place]
 *   sum_positions    sum[place] += value[i], ascending, in double.  In a bag
 *                    no two ids have the same position but 65535.  Slots with
 *                    the same sum follow each other, and add in this order. */
typedef struct ts_position_slot {
  const int64_t *offsets; /* (n_bags + 1) into positions and value */
  int64_t n_bags;
  const uint16_t *positions;
  float *value;
  const float *weight; /* (n) */
  double *sum;         /* (n) */
  int32_t n;           /* 1 to 65536 */
} ts_position_slot;

typedef struct ts_position_args {
  int64_t most_ids; /* that a slot may have */
  int32_t n_slots;
  ts_position_slot slot[TS_POSITION_SLOTS];
} ts_position_args;
