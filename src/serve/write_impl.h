/* write_impl.h - inside of who writes the file that is served; private to
 * write.c and write_list.c.  Local. */
#pragma once

#include <string.h>

#include "serve/write.h"

/* A part that is to be written: of text, or of a tensor. */
typedef struct ts_part {
  char *name;
  const void *data;            /* of text and numbers */
  const ts_tensor_out *tensor; /* NULL: DATA is it */
  bool is_table;
  const uint64_t *key; /* of a dynamic table's rows, but the last */
  ts_serve_entry entry;
} ts_part;

/* The keys of a table's rows, ascending; NULL: it is not dynamic. */
typedef struct ts_part_keys {
  uint64_t *key;
  int64_t n;
} ts_part_keys;

typedef struct ts_serve_writer {
  ts_serve_out *out;
  const char *path;
  ts_str part; /* the name while it is written */
  int fd;
  ts_part *item; /* (n) */
  int32_t n, room;
  ts_str deck, names;
  char negatives[32];
  ts_part_keys *keys;    /* (n_tables) */
  ts_serve_entry *index; /* (n_written) */
  int32_t n_written;
  ts_serve_file base; /* fd -1: none */
  int64_t at;         /* end of what is written */
  uint64_t seal;
  int64_t in_base; /* next place among the base's keys */
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
ts_err ts_serve_list_data(ts_serve_writer *, const char *head, const char *name,
                          uint32_t kind, const void *data, int64_t n);
/* write_keys.c: the ids of dynamic tables, which the model's tensors
 * dynamic/TABLE/ids are, become parts. */
ts_err ts_serve_list_keys(ts_serve_writer *);
static inline bool ts_serve_is_ids(const ts_tensor_out *t) {
  return !strncmp(t->name, "dynamic/", 8);
}
/* The base has P's rows as part B, and its ids. */
bool ts_serve_base_goes(const ts_serve_writer *, const ts_part *p,
                        const ts_serve_entry *b);
/* The base's row that is ROW's of P; -1: it has none.  Rows are asked for in
 * their order, from 0 on. */
int64_t ts_serve_row_in_base(ts_serve_writer *, const ts_part *p, int64_t row);
