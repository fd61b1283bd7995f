/* write_impl.h - inside of who writes the file that is served; private to
 * write.c and write_list.c.  Local. */
#pragma once

#include "serve/write.h"

/* A part that is to be written: of text, or of a tensor. */
typedef struct ts_part {
  char *name;
  const void *data;            /* of text and numbers */
  const ts_tensor_out *tensor; /* NULL: DATA is it */
  bool is_table;
  ts_serve_entry entry;
} ts_part;

typedef struct ts_serve_writer {
  ts_serve_out *out;
  const char *path;
  ts_str part; /* the name while it is written */
  int fd;
  ts_part *item; /* (n) */
  int32_t n, room;
  ts_str deck, names;
  char negatives[32];
  ts_serve_entry *index; /* (n_written) */
  int32_t n_written;
  ts_serve_file base; /* fd -1: none */
  int64_t at;         /* end of what is written */
  uint64_t seal;
  /* of a block */
  float *x;
  char *packed;
  int64_t *changed; /* rows of a table that differ */
  int64_t n_changed, changed_room;
  uint32_t changed_crc; /* of their bytes */
  bool differs;         /* a parameter does */
} ts_serve_writer;

/* write_list.c: all parts there are to be, by name. */
ts_err ts_serve_list(ts_serve_writer *);
