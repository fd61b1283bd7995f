/* parquet.h - files of columns in groups of rows, by Apache Arrow's C++
 * library: Parquet, and Arrow's own (IPC, Feather).  parquet.cc is a module,
 * parquet.so, which is loaded with the first file; where it was not built, that
 * is said.
 *
 * A function that fails writes the reason to WHY; none lets an exception
 * through.  One thread at a time reads a file.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/arrow_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TS_PARQUET_WHY = 512 };

typedef struct ts_parquet ts_parquet;

/* The library is there; else open and create fail, and WHY says how to get it.
 */
bool ts_parquet_is_there(char why[TS_PARQUET_WHY]);

/* PATH is Parquet, or Arrow's own, by its first bytes.  Columns of
 * Parquet are read by THREADS of the library, for the whole process; 0: as many
 * as it likes. */
bool ts_parquet_open(ts_parquet **, const char *path, int32_t threads,
                     char why[TS_PARQUET_WHY]);
void ts_parquet_close(ts_parquet *); /* NULL is fine */

/* The columns: children of one struct; the file's. */
const struct ArrowSchema *ts_parquet_schema(const ts_parquet *);
int32_t ts_parquet_n_groups(const ts_parquet *);
int64_t ts_parquet_rows(const ts_parquet *, int32_t group);

/* COLUMNS (n) of GROUP, in *N_PIECES of its rows, which follow each other, of
 * Parquet with at most MOST rows: the library cuts a column at each 2 GiB of
 * its texts, and nothing is copied together. */
bool ts_parquet_read(ts_parquet *, int32_t group, const int32_t *columns,
                     int32_t n, int64_t most, int32_t *n_pieces,
                     char why[TS_PARQUET_WHY]);
/* Piece K of what was read last, once: the columns are children of the struct
 * TO, in that order, which is to be released. */
bool ts_parquet_take(ts_parquet *, int32_t k, struct ArrowArray *to,
                     char why[TS_PARQUET_WHY]);

/* A file to be written. */
typedef struct ts_parquet_out ts_parquet_out;

/* Parquet, or Arrow's own.  Takes SCHEMA, a struct's, and FD, an empty file,
 * over. */
bool ts_parquet_create(ts_parquet_out **, int fd, bool arrow,
                       struct ArrowSchema *schema, char why[TS_PARQUET_WHY]);
/* The struct ROWS, which is taken over, as the next group. */
bool ts_parquet_write(ts_parquet_out *, struct ArrowArray *rows,
                      char why[TS_PARQUET_WHY]);
/* Ends the file, and frees OUT in any case; NULL is fine. */
bool ts_parquet_finish(ts_parquet_out *out, char why[TS_PARQUET_WHY]);

/* Changes with each change of the struct below. */
enum { TS_PARQUET_VERSION = 4 };

/* The module exports this struct as ts_parquet_this.  SIZE and VERSION are
 * first in all versions. */
typedef struct ts_parquet_module {
  uint64_t size, version;
  bool (*open)(ts_parquet **, const char *path, int32_t threads, char *why);
  void (*close)(ts_parquet *);
  const struct ArrowSchema *(*schema)(const ts_parquet *);
  int32_t (*n_groups)(const ts_parquet *);
  int64_t (*rows)(const ts_parquet *, int32_t group);
  bool (*read)(ts_parquet *, int32_t group, const int32_t *columns, int32_t n,
               int64_t most, int32_t *n_pieces, char *why);
  bool (*take)(ts_parquet *, int32_t k, struct ArrowArray *to, char *why);
  bool (*create)(ts_parquet_out **, int fd, bool arrow,
                 struct ArrowSchema *schema, char *why);
  bool (*write)(ts_parquet_out *, struct ArrowArray *rows, char *why);
  bool (*finish)(ts_parquet_out *out, char *why);
} ts_parquet_module;

#ifdef __cplusplus
}
#endif
