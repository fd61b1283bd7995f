/* columnar_gather.c - many cells of a column at once, from places far apart:
 * the kind of the cells is looked at once, and the next places are fetched
 * ahead. */
#include <math.h>
#include <string.h>

#include "io/columnar_cells.h"

enum { AHEAD = 12 };

/* TO[i] = MAKE(the cell of type T at rows[i]), MISSING where there is none. */
#define GATHER(T, MAKE, MISSING)                                               \
  do {                                                                         \
    const char *p = (const char *)c->data + c->offset * (int64_t)sizeof(T);    \
    for (int32_t i = 0; i < n; i++) {                                          \
      const int64_t at = rows[i] - first, size = (int64_t)sizeof(T);           \
      if (i + AHEAD < n)                                                       \
        __builtin_prefetch(p + (rows[i + AHEAD] - first) * size);              \
      T v;                                                                     \
      memcpy(&v, p + at * size, sizeof v);                                     \
      to[i] = MAKE(v);                                                         \
      if (c->valid && ts_cells_is_missing(c, at)) to[i] = MISSING;             \
    }                                                                          \
  } while (0)

#define AS_WHOLE(v) (int64_t)(v)
#define AS_DOUBLE(v) (double)(v)
#define AS_WORD(v)                                                             \
  ((int64_t)(v) >= 0 && (int64_t)(v) < words ? (int64_t)(v) : -1)

static bool gather_whole(const ts_cells *c, double *to, const int64_t *rows,
                         int64_t first, int32_t n) {
  switch (c->width * 2 + c->is_signed) {
  case 3:
    GATHER(int8_t, AS_DOUBLE, NAN);
    return true;
  case 2:
    GATHER(uint8_t, AS_DOUBLE, NAN);
    return true;
  case 5:
    GATHER(int16_t, AS_DOUBLE, NAN);
    return true;
  case 9:
    GATHER(int32_t, AS_DOUBLE, NAN);
    return true;
  case 17:
    GATHER(int64_t, AS_DOUBLE, NAN);
    return true;
  default:
    return false;
  }
}

bool ts_cells_numbers(const ts_cells *c, double *to, const int64_t *rows,
                      int64_t first, int32_t n) {
  if (c->kind == TS_CELLS_WHOLE && gather_whole(c, to, rows, first, n))
    return true;
  if (c->kind == TS_CELLS_FLOAT && c->width == 4) {
    GATHER(float, AS_DOUBLE, NAN);
    return true;
  }
  if (c->kind == TS_CELLS_FLOAT && c->width == 8) {
    GATHER(double, AS_DOUBLE, NAN);
    return true;
  }
  for (int32_t i = 0; i < n; i++) {
    int64_t at = rows[i] - first;
    const ts_cells *cell = ts_cells_of(c, &at);
    to[i] = NAN;
    if (cell && !ts_cells_number(cell, at, &to[i])) return false;
  }
  return true;
}

void ts_cells_words(const ts_cells *c, int64_t *to, const int64_t *rows,
                    int64_t first, int32_t n) {
  const int64_t words = c->items->n;
  if (c->width == 4 && c->is_signed) {
    GATHER(int32_t, AS_WORD, -1);
    return;
  }
  for (int32_t i = 0; i < n; i++) to[i] = ts_cells_word(c, rows[i] - first);
}

bool ts_cells_wholes(const ts_cells *c, int64_t *to, int64_t from, int64_t n) {
  const int64_t at = c->offset + from;
  if (c->kind != TS_CELLS_WHOLE) return false;
  if (!c->valid && c->width == 8 && c->is_signed) {
    if (n) memcpy(to, (const char *)c->data + at * 8, (size_t)n * 8);
    return true;
  }
  if (!c->valid && c->width == 4 && c->is_signed) {
    for (int64_t i = 0; i < n; i++) {
      int32_t v;
      memcpy(&v, (const char *)c->data + (at + i) * 4, sizeof v);
      to[i] = v;
    }
    return true;
  }
  for (int64_t i = 0; i < n; i++)
    if (ts_cells_is_missing(c, from + i) ||
        !ts_cells_whole(c, from + i, &to[i]))
      return false;
  return true;
}

bool ts_cells_wholes_of(const ts_cells *c, int64_t *to, const int64_t *rows,
                        int64_t first, int32_t n) {
  if (c->kind != TS_CELLS_WHOLE) return false;
  if (c->is_signed && !c->valid && c->width == 8) {
    GATHER(int64_t, AS_WHOLE, 0);
    return true;
  }
  if (c->is_signed && !c->valid && c->width == 4) {
    GATHER(int32_t, AS_WHOLE, 0);
    return true;
  }
  for (int32_t i = 0; i < n; i++)
    if (!ts_cells_wholes(c, to + i, rows[i] - first, 1)) return false;
  return true;
}
