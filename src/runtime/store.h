/* store.h - rows in slow memory, and lines of fast memory for some of them,
 * in one range of addresses.
 *
 *     slot   0 .. n_rows - 1           the rows: slow memory
 *            first_line .. + n_lines   lines: fast memory
 *
 * Both have the same width, so a slot is all that a kernel has to know of a
 * row that may lie in either.  Slow memory is host memory, or a file on the
 * node's own disk that is mapped; on the host fast memory is what neither
 * disk nor another machine stands behind.
 *
 * read and write move rows between the two in batches, rows ascending, so
 * that a disk sees them in order: by copies in memory, as long as what is
 * copied is there; else by what the store has for it.  A line may be moved by
 * any thread, by one at a time.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

typedef struct ts_store ts_store;

/* A kind of slow memory: store.c (the host's), store_file.c (a mapped file). */
typedef struct ts_store_ops {
  /* Puts slow memory of BYTES at ADDRESS, zeroed. */
  ts_err (*map)(ts_store *, void *address, int64_t bytes, const char *dir);
  void (*unmap)(ts_store *);
  /* The others are of stores whose rows may be out of memory, and NULL else.
   * Finds out whether rows are in memory: sets cold, or takes it back. */
  void (*look)(ts_store *, const uint32_t *rows, int64_t n);
  /* Says that rows will be moved, while the store is cold. */
  void (*ask)(ts_store *, const uint32_t *rows, int64_t n);
  /* Gives up this process's hold on pages that are elsewhere, too. */
  void (*forget)(ts_store *);
  /* A row while the store is cold. */
  ts_err (*read)(ts_store *, uint32_t row, char *line);
  ts_err (*write)(ts_store *, uint32_t row, const char *line);
} ts_store_ops;

struct ts_store {
  const ts_store_ops *ops;
  char *base; /* of slot 0 */
  int64_t row_bytes, n_rows, first_line, n_lines;
  int64_t range_bytes, slow_bytes;
  ts_tag tag; /* of the lines */
  int fd;     /* of the file */
  int cold;   /* many of the last rows were not in memory */
};

/* Slot of the first line of stores with N_ROWS rows: rows of any width then
 * end with a page. */
int64_t ts_store_first_line(int64_t n_rows);

/* DIR NULL: slow memory is host memory; else a file of its own in DIR, which
 * is there already.  Its room is reserved now (IO error that names DIR where
 * it lacks); it has no name from then on, so nothing is left of it however
 * the program ends.  Zeroed.  Local. */
ts_err ts_store_create(ts_store *, const char *dir, int64_t n_rows,
                       int64_t n_lines, int64_t row_bytes, ts_tag lines);
void ts_store_reset(ts_store *);

static inline char *ts_store_at(const ts_store *s, int64_t slot) {
  return s->base + slot * s->row_bytes;
}

/* After all rows were written or read in place: the pages of a file that is
 * large beside the memory need not stay there. */
void ts_store_forget(ts_store *);
/* Whether the rows, which will be read soon, are in memory; ascending. */
void ts_store_look(ts_store *, const uint32_t *rows, int64_t n);
/* Says that the rows will be read or written soon; ascending. */
void ts_store_ask(ts_store *, const uint32_t *rows, int64_t n);
/* Row rows[i] to and from slot slots[i], on the caller's OpenMP threads. */
ts_err ts_store_read(ts_store *, const uint32_t *rows, const uint32_t *slots,
                     int64_t n);
ts_err ts_store_write(ts_store *, const uint32_t *rows, const uint32_t *slots,
                      int64_t n);
