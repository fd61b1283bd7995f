/* view.h - arrays in memory whose elements are of another type than what they
 * are read as, at any address, or not side by side.
 * All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum {
  TS_VIEW_I8,
  TS_VIEW_I16,
  TS_VIEW_I32,
  TS_VIEW_I64,
  TS_VIEW_U8,
  TS_VIEW_U16,
  TS_VIEW_U32,
  TS_VIEW_U64,
  TS_VIEW_F16,
  TS_VIEW_F32,
  TS_VIEW_F64,
  TS_VIEW_STEPS /* no data: the row's number times row_bytes */
} ts_view_type;

/* What elements become. */
typedef enum { TS_VIEW_TO_F32, TS_VIEW_TO_I64, TS_VIEW_TO_F64 } ts_view_to;

typedef struct ts_array_view {
  const char *data;
  ts_view_type type;
  int64_t row_bytes; /* from a row to the next */
  int64_t cols;      /* of each row, side by side */
} ts_array_view;

/* The type of KIND (i, u, f, b) with elements of SIZE bytes; false: none. */
bool ts_view_type_of(ts_view_type *, char kind, int size);
/* Rows [first, first + n) to TO, where a row is STRIDE elements behind the one
 * before. */
void ts_view_read(const ts_array_view *, ts_view_to, void *to, int64_t stride,
                  int64_t first, int64_t n);
/* The first element of ROW, of type I32. */
static inline int32_t ts_view_i32(const ts_array_view *v, int64_t row) {
  int32_t x;
  memcpy(&x, v->data + row * v->row_bytes, sizeof x);
  return x;
}
