/* text.h - text files as numbered lines, read from any place.
 *
 * Plain files are mapped; where lines begin is found once, each rank scanning
 * its share, and kept for every 32nd line, so that single ones are found soon;
 * of more than 2^27 lines for fewer, so that 32 MiB are enough.  .gz files are
 * streamed: each rank unpacks up to its lines, and from the start again when it
 * goes back.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/config.h"
#include "base/str.h"
#include "runtime/comm.h"

typedef struct ts_text ts_text;

/* SEPARATOR: each file's first line is none of the data, and the same in all of
 * them; fields between separators may be in quotes, which hide line ends: a
 * line is then a record of several.  '\0': lines as they are.  A byte order
 * mark at a file's start is none of the first line.  Where the lines of large
 * files are is kept in FOLDER, and not looked for again as long as the file
 * stays; NULL: nowhere.  Collective. */
ts_err ts_text_open(ts_text **, const ts_strings *paths, char separator,
                    const char *folder, ts_comm *);
void ts_text_close(ts_text *);
int64_t ts_text_n_lines(const ts_text *);    /* of data, over all files */
int64_t ts_text_bytes(const ts_text *);      /* of the plain files */
const char *ts_text_packed(const ts_text *); /* a packed one; NULL: none */
/* An error where the first LINE of PATH is not that of a CSV that is read here.
 */
ts_err ts_text_check(const char *path, const ts_str *line);
/* First line of the first file, where there is a header. */
const char *ts_text_header(const ts_text *);

/* Lines [first, first + *n) of the data as one text; *N is lowered where the
 * file ends.  QUOTED: the file has quotes, so that a line end may be none.
 * NUMBER: that (from 1) of the file's line at COUNTED.  Valid until the next
 * call.  One thread. */
typedef struct ts_lines {
  const char *begin, *end;
  const char *path;
  const char *counted;
  int64_t number;
  bool quoted;
} ts_lines;
ts_err ts_text_lines(ts_text *, ts_lines *, int64_t first, int32_t *n);
/* Number in the file of the line at P, for messages: counts line ends. */
int64_t ts_lines_number(const ts_lines *, const char *p);
