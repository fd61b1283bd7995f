/* columnar_cells.h - cells of a column as Arrow has them, as numbers and as
 * text; the columns are read-only and stay the caller's.
 * All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "io/arrow_abi.h"

typedef enum {
  TS_CELLS_NONE, /* all are missing */
  TS_CELLS_BOOL,
  TS_CELLS_WHOLE,   /* (n) of WIDTH bytes, IS_SIGNED or not */
  TS_CELLS_FLOAT,   /* (n) of WIDTH bytes, 2 to 8 */
  TS_CELLS_DECIMAL, /* (n) of WIDTH bytes, 4 to 16, times 10^-SCALE */
  TS_CELLS_TIME,    /* (n) whole numbers, PER_SECOND to a second since 1970; 0:
                       days */
  TS_CELLS_TEXT,    /* offsets (n + 1) of WIDTH bytes, and bytes */
  TS_CELLS_FIXED,   /* (n) texts of WIDTH bytes */
  TS_CELLS_LIST,    /* offsets (n + 1) of WIDTH bytes; 0: SCALE items each */
  TS_CELLS_WORDS    /* numbers (n), as WHOLE, of the cells of ITEMS */
} ts_cells_kind;

/* Cell I is at place OFFSET + i of the buffers. */
typedef struct ts_cells {
  ts_cells_kind kind;
  int32_t width, scale;
  int64_t per_second, n, offset;
  bool is_signed, is_date;
  const uint8_t *valid; /* bits; NULL: none is missing */
  const void *data, *offsets;
  struct ts_cells *items;    /* of lists, words; owned */
  struct ts_cells *weights;  /* of lists of pairs, or maps; owned; or NULL */
  const uint8_t *pair_valid; /* bits of pairs, from PAIR_OFFSET on, or NULL */
  int64_t pair_offset;
} ts_cells;

/* Room for what ts_cells_text makes of a number. */
enum { TS_CELLS_TEXT_MAX = 64 };

/* Cells of SCHEMA, of no rows yet; *WHY (static): what it has is
 * not known here, and stays NULL otherwise. */
ts_err ts_cells_create(ts_cells **, const struct ArrowSchema *schema,
                       const char **why);
/* The rows of ARRAY, of that schema. */
void ts_cells_set(ts_cells *, const struct ArrowArray *array);
void ts_cells_destroy(ts_cells *);

static inline bool ts_cells_is_missing(const ts_cells *c, int64_t i) {
  const int64_t at = c->offset + i;
  if (c->kind == TS_CELLS_NONE) return true;
  return c->valid && !(c->valid[at / 8] >> (at % 8) & 1);
}

/* Item I of a list's cells is a pair that is missing, whatever is in it. */
static inline bool ts_cells_lacks_pair(const ts_cells *list, int64_t i) {
  const int64_t at = list->pair_offset + i;
  return list->pair_valid && !(list->pair_valid[at / 8] >> (at % 8) & 1);
}

/* The cells that cell *I is in, *I being its place there: for words, those of
 * the dictionary; NULL: it is missing, as is a float that is no number. */
const ts_cells *ts_cells_of(const ts_cells *, int64_t *i);
/* The number of the word that cell I is, of cells that are words; -1: it is
 * missing. */
int64_t ts_cells_word(const ts_cells *, int64_t i);
/* Is text, once its dictionary is looked up. */
bool ts_cells_is_text(const ts_cells *);

/* The next three take a cell that is there, of cells that are neither lists
 * nor words. */
/* Its text, made in ROOM unless it is one. */
const char *ts_cells_text(const ts_cells *, int64_t i, size_t *n_bytes,
                          char room[TS_CELLS_TEXT_MAX]);
/* Numbers; times in seconds.  False: it is text. */
bool ts_cells_number(const ts_cells *, int64_t i, double *x);
/* Whole ones, times rounded down; false: it is none, or has over 64 bits. */
bool ts_cells_whole(const ts_cells *, int64_t i, int64_t *x);
/* columnar_gather.c: cells ROWS (n), row R being cell R - FIRST. */
/* Numbers, NAN where they are missing; false: some are text. */
bool ts_cells_numbers(const ts_cells *, double *to, const int64_t *rows,
                      int64_t first, int32_t n);
/* N whole numbers from cell FROM on; false: some are missing, or none. */
bool ts_cells_wholes(const ts_cells *, int64_t *to, int64_t from, int64_t n);
/* The same, of cells ROWS (n). */
bool ts_cells_wholes_of(const ts_cells *, int64_t *to, const int64_t *rows,
                        int64_t first, int32_t n);
/* ts_cells_word. */
void ts_cells_words(const ts_cells *, int64_t *to, const int64_t *rows,
                    int64_t first, int32_t n);
/* List I has the items [*from, *end). */
void ts_cells_items(const ts_cells *, int64_t i, int64_t *from, int64_t *end);
