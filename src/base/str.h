/* str.h - growing strings and arrays of strings, file helpers.
 * All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A growing, NUL-terminated string; {0} is the empty one. */
typedef struct ts_str {
  char *text; /* NULL while empty */
  size_t n_bytes, capacity;
} ts_str;

ts_err ts_str_append(ts_str *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
ts_err ts_str_append_bytes(ts_str *s, const void *data, size_t n_bytes);
void ts_str_reset(ts_str *s); /* frees */

/* *X and a sign of the whole number that the N_BYTES at TEXT are, digits and no
 * more; false where they are none, or it has over 64 bits. */
bool ts_str_whole(const char *text, size_t n_bytes, bool *minus, uint64_t *x);

bool ts_str_ends(const char *s, const char *end); /* S ends with END */

/* Levenshtein distance with swaps of neighbours, for "did you mean". */
int ts_str_distance(const char *a, const char *b);

/* "1.5 GiB", "12,345,678": into BUF, which is returned. */
const char *ts_str_bytes(char buf[32], int64_t n_bytes);
const char *ts_str_count(char buf[32], int64_t n);
const char *ts_str_seconds(char buf[32], double seconds); /* hh:mm:ss */

/* Whole small file as a string (NUL added). */
ts_err ts_file_read(ts_str *s, const char *path);
/* The same, where the deck names it: a DECK error says that KEY can't be read.
 */
ts_err ts_file_read_of_deck(ts_str *s, const char *path, const char *key);
/* mkdir -p. */
ts_err ts_mkdirs(const char *path);
