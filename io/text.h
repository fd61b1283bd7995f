/* text.h - text files as numbered lines, read from any place.
 *
 * Plain files are mapped; where lines begin is found once, each rank scanning
 * its share, and kept for every 1024th line.  .gz files are streamed: each
 * rank unpacks up to its lines, and from the start again when it goes back.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/config.h"
#include "runtime/comm.h"

typedef struct ts_text ts_text;

/* HEADER: each file's first line is none of the data, and the same in all of
 * them.  Collective. */
ts_err ts_text_open(ts_text **, const ts_strings *paths, bool header,
                    ts_comm *);
void ts_text_close(ts_text *);
int64_t ts_text_n_lines(const ts_text *); /* of data, over all files */
/* First line of the first file, where there is a header. */
const char *ts_text_header(const ts_text *);

/* Lines [first, first + *n) of the data as one text; *N is lowered where the
 * file ends.  PATH and NUMBER: file and number there (from 1) of the first of
 * them.  Valid until the next call.  One thread. */
typedef struct ts_lines {
  const char *begin, *end;
  const char *path;
  int64_t number;
} ts_lines;
ts_err ts_text_lines(ts_text *, ts_lines *, int64_t first, int32_t *n);
