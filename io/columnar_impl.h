/* columnar_impl.h - inside files of columns; private to columnar*.c.
 * All of it is Local. */
#pragma once

#include <pthread.h>

#include "io/columnar.h"
#include "io/columnar_keys.h"
#include "io/parquet.h"

typedef struct ts_columnar_file {
  ts_parquet *in;
  char *path;
  int32_t *index; /* (n_own) of wanted columns in this file */
  int64_t bytes, first;
  ts_strings keys; /* (columns - n_own) values of the folders' keys */
} ts_columnar_file;

typedef struct ts_columnar_group {
  int32_t file, group;
} ts_columnar_group;

/* Rows [FROM, END), of all, of a group that is decoded. */
typedef struct ts_piece {
  int64_t group, from, end;
  struct ArrowArray data;
  ts_cells **cells; /* (n_columns) those of wanted columns */
  int64_t **memos;  /* (n_memos) */
  int64_t *memo_of; /* (n_memos) */
} ts_piece;

/* A group that is decoded, or about to be. */
typedef struct ts_slot {
  int64_t group; /* -1: none */
  bool held, failed;
  ts_piece *pieces; /* (n_pieces) nearly always one */
  int32_t n_pieces;
} ts_slot;

struct ts_columnar {
  ts_columnar_file *files;
  ts_columnar_group *groups;
  int64_t *starts;                      /* (n_groups + 1) */
  int64_t n_groups, most;               /* most: rows of a piece */
  int32_t n_files, n_columns, n_own;    /* columns of the files themselves */
  char **names;                         /* (n_columns) */
  bool *wanted, *is_list, *is_weighted; /* (n_columns) */
  int32_t *read, n_read;                /* own columns that are wanted */
  ts_slot **slots;
  int32_t n_slots, n_memos;
  ts_piece *now;   /* of the row at hand */
  ts_slot *coming; /* of the thread */
  int64_t row;
  bool keep;
  pthread_t thread;
};

/* columnar_groups.c: nothing is decoded any more. */
void ts_columnar_forget(ts_columnar *);
