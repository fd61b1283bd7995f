/* rows.h - rows of embedding tables in few bits, each with a scale and a bias
 * of its own, and the lookup that reads them.
 *
 * A row of DIM numbers: f32 and bf16 are the numbers, padded with zeros to a
 * multiple of 4 bytes; int8 and int4 as base/few_bits.h has them, q the
 * nearest.
 *
 * Functions are Local; memory is the host's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef enum {
  TS_ROWS_F32,
  TS_ROWS_BF16,
  TS_ROWS_INT8,
  TS_ROWS_INT4,
  TS_ROWS_KINDS
} ts_rows_kind;

/* "f32", "bf16", "int8", "int4"; the other way false where there is none. */
const char *ts_rows_kind_name(ts_rows_kind);
bool ts_rows_kind_find(ts_rows_kind *, const char *name);
/* Bytes of a row with padding; DIM from 1 to 2^20. */
int64_t ts_rows_bytes(ts_rows_kind, int32_t dim);
/* TO (n, ts_rows_bytes) from X (n, dim), finite numbers; the same bytes on any
 * CPU. */
void ts_rows_pack(ts_rows_kind, void *to, const float *x, int64_t n,
                  int32_t dim);
/* X (n, dim) from rows. */
void ts_rows_unpack(ts_rows_kind, float *x, const void *from, int64_t n,
                    int32_t dim);

/* X (n, dim): rows become as long as one. */
void ts_rows_normalise(float *x, int64_t n, int32_t dim);

/* Bags of rows: out[b] = sum of w x[rows[k]] over the bag's ids k, in their
 * order, with w = weights[k] (NULL: 1), of MEAN divided by the number of ids;
 * zeros of an empty bag.  All rows are below the table's number: the caller has
 * looked. */
typedef struct ts_rows_lookup {
  const void *table; /* (rows, ts_rows_bytes), any alignment of 4 */
  ts_rows_kind kind;
  int32_t dim;
  bool mean;
  const int64_t *rows;    /* (n_ids) */
  const float *weights;   /* (n_ids) or NULL */
  const int64_t *offsets; /* (n + 1); NULL: one id a bag */
  int64_t n;              /* bags */
  float *out;             /* (n, stride) */
  int64_t stride;         /* floats, >= dim */
} ts_rows_lookup;

/* With the fastest code that this CPU has (ISA NULL), or "ref", "avx2",
 * "avx512" (false where the CPU lacks it); sums are f32 and fused
 * multiply-adds, so that they differ in the last bits between them. */
bool ts_rows_look_up(const ts_rows_lookup *, const char *isa);
