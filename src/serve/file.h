/* file.h - the file that is served (doc/formats.md, "To serve"): a head, parts
 * one behind the other on borders of 64 bytes, an index of them, and their
 * names.  It is mapped and nothing in it is trusted: whoever reads a part asks
 * for it with the shape that it must have.
 *
 * Numbers are little endian.  Functions are Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "serve/rows.h"

enum { TS_SERVE_VERSION = 1, TS_SERVE_HEAD = 64, TS_SERVE_ALIGN = 64 };
#define TS_SERVE_MAGIC "tsserve"

/* The head, at byte 0. */
typedef struct ts_serve_head {
  char magic[8]; /* with its NUL */
  uint32_t version;
  uint32_t n_parts;
  int64_t bytes;  /* of the file */
  int64_t step;   /* of training */
  int64_t index;  /* where it is: n_parts ts_serve_entry, then names */
  uint64_t seal;  /* ts_serve_seal of all parts: of a delta, of those that there
                     are with it */
  uint64_t base;  /* the seal of the file that a delta is over; 0: no delta */
  uint32_t names; /* bytes of them */
  uint32_t index_crc; /* CRC32C of index and names */
} ts_serve_head;

/* The kinds of numbers: rows (ts_rows_kind), and besides: */
enum { TS_PART_BYTES = TS_ROWS_KINDS, TS_PART_I64, TS_PART_KINDS };

typedef struct ts_serve_entry {
  int64_t at, bytes;  /* in the file */
  int64_t rows, cols; /* (rows, cols); a vector has cols 0 */
  uint32_t kind;
  uint32_t name; /* where it begins among the names; a NUL ends it */
  uint32_t crc;  /* CRC32C of its bytes */
  uint32_t zero;
} ts_serve_entry;

/* Parts by name, in the order of strcmp.  A delta has those that differ from
 * the other file's:
 *   deck          the deck in force, text
 *   format        the training data's, text: what ids and words mean
 *   scales        what was learnt of numbers, text (io/scales.h)
 *   negatives     the share of the negatives that was trained on, text
 *   words/F       feature F's words, F being its number from 0: where each
 *                 begins, I64 (n), and
 *   text/F        all of them, sorted, a NUL behind each
 *   ids/TABLE     of a dynamic table: its ids' keys (sparse/index.h), I64 that
 *                 ascend as unsigned ones, in the order of its rows
 *   model/NAME    a table's rows, or a parameter; of a dynamic table one row
 *                 more, of zeros, which unknown ids read
 *   rows/NAME     of a delta: which rows of a table it has, I64, ascending;
 *                 model/NAME has these alone, one behind the other.  Where it
 *                 has ids/TABLE these are places among those, the other ids
 *                 have rows in the other file, and zeros are in neither */

/* A seal is made of names, shapes, kinds and sums of the parts, in their order,
 * as they are without a delta: goes on from SEAL (TS_FNV_START). */
uint64_t ts_serve_seal(uint64_t seal, const char *name, const ts_serve_entry *);

/* ---- read ---------------------------------------------------------------- */

typedef struct ts_serve_file {
  char *path;
  int fd;
  char *data; /* mapped, private: rows of a delta may be written over it */
  ts_serve_head head;
  const ts_serve_entry *index;
  const char *names;
} ts_serve_file;

/* Maps PATH.  CKPT errors where it is none, cut, or its index is not whole:
 * then every part lies in the file, has as many bytes as its shape says, and a
 * name that ends. */
ts_err ts_serve_open(ts_serve_file *, const char *path);
/* The same file anew, as it is on the disk. */
ts_err ts_serve_open_again(ts_serve_file *, const ts_serve_file *of);
void ts_serve_close(ts_serve_file *); /* fd -1: nothing is open */
/* NULL where there is no part HEAD NAME. */
const ts_serve_entry *ts_serve_find(const ts_serve_file *, const char *head,
                                    const char *name);
static inline void *ts_serve_at(const ts_serve_file *f,
                                const ts_serve_entry *e) {
  return f->data + e->at;
}
/* That text ends where the part ends; *TEXT "" where there is no such part, and
 * its bytes are those that were written. */
ts_err ts_serve_text(const ts_serve_file *, const char *name,
                     const char **text);
/* CKPT error where E's bytes are not those that were written. */
ts_err ts_serve_check(const ts_serve_file *, const ts_serve_entry *e);
/* Bytes of ROWS rows of COLS numbers of KIND; -1: there is no such part. */
int64_t ts_serve_bytes(uint32_t kind, int64_t rows, int64_t cols);
