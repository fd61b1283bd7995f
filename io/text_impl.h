/* text_impl.h - inside numbered lines of text; private to the text files.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include <zlib.h>

#include "base/str.h"
#include "io/text.h"

typedef struct ts_text_file {
  char *path;
  const char *map;        /* NULL: packed */
  int64_t bytes, mapped;  /* without and with blank lines at the end */
  int64_t n_lines, first; /* of data; first in the whole */
  int64_t every,
      *index;  /* byte of each line that EVERY divides; NULL: packed */
  bool quoted; /* it has quotes: line ends may be none */
  gzFile gz;
  int64_t gz_line;   /* next line of the file */
  int64_t gz_number; /* line ends before it, those in quotes, too */
  char *piece;       /* unpacked, of it [at, filled) unread */
  int32_t at, filled;
} ts_text_file;

struct ts_text {
  ts_text_file *files;
  int32_t n_files;
  int header;     /* 0 or 1 lines */
  char separator; /* '\0': no quotes */
  ts_str first_line;
  ts_str lines; /* unpacked */
};

/* Of a byte order mark at the text's start. */
int ts_text_mark_bytes(const char *p, int64_t n);

/* ---- text_packed.c ------------------------------------------------------- */

ts_err ts_text_packed_open(ts_text_file *);
/* Counts its lines, on rank 0.  Collective. */
ts_err ts_text_packed_count(const ts_text *, ts_text_file *, ts_comm *);
/* The first line with its end, appended to S. */
ts_err ts_text_packed_header(const ts_text *, ts_text_file *, ts_str *s);
/* As ts_text_lines. */
ts_err ts_text_packed_lines(ts_text *, ts_text_file *, int64_t line, int32_t n,
                            ts_lines *);

/* ---- text_known.c: what an earlier run has found ------------------------- */

/* Where the lines of F are, as a file in FOLDER says; *KNOWN: it does, and F is
 * still that file.  Collective. */
ts_err ts_text_known_take(bool *known, const ts_text *, ts_text_file *f,
                          const char *folder, ts_comm *);
/* For those that come later.  What can't be written costs them time, no more,
 * and nothing is said. */
void ts_text_known_keep(const ts_text *, const ts_text_file *,
                        const char *folder);
