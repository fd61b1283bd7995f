/* compress.h - tables with fewer numbers than rows times dim.
 *
 * A table with the key compress is trained as several tables, its parts, each
 * smaller, which have its features: an id is a row of each part, or of none.
 * Lookups, updates, sharding and checkpoints know the parts alone; ids become
 * their rows when a batch is read (io/batch_ids.c, serve/inputs.c), and
 * layers that the graph adds make the table's row of the parts' rows
 * (model/graph_parts.c).  So a kind is a file in compress/ and a line in
 * compress.c.  All of it is Local. */
#pragma once

#include "base/table_config.h"

/* How the table's row is made of the parts' rows. */
typedef enum {
  TS_COMBINE_ADD,      /* their sum */
  TS_COMBINE_MULTIPLY, /* their product, number by number */
  TS_COMBINE_CONCAT    /* one behind the other */
} ts_combine;

enum { TS_PART_SUFFIX = 24 };

typedef struct ts_part_shape {
  char suffix[TS_PART_SUFFIX]; /* of its name */
  int32_t dim;      /* where it isn't that of the combined row, a matrix of
                       weights without bias projects it */
  bool begins_as_1; /* its rows do: as factors */
} ts_part_shape;

/* T is the table as the deck says it, K a part's number. */
typedef struct ts_compress_ops {
  const char *kind;
  /* What T's keys lack, as a message's end; NULL: nothing. */
  const char *(*lacks)(const ts_table_config *t);
  int32_t (*n_parts)(const ts_table_config *t);
  ts_combine (*combine)(const ts_table_config *t); /* NULL: the sum */
  void (*shape)(const ts_table_config *t, int32_t k, ts_part_shape *);
  int64_t (*rows)(const ts_table_config *t, int32_t k);
  /* IDS (n), in [0, T's rows), become rows of the part; -1: it has none. */
  void (*map)(const ts_table_config *t, int32_t k, int64_t *ids, int64_t n);
  bool leaves_out; /* map gives -1 */
} ts_compress_ops;

/* T's compress.kind, whether T is a part or not; NULL: "none". */
const ts_compress_ops *ts_compress_of(const ts_table_config *t);

/* map: IDS (n) become rows of part T, -1 where it has none; a table that is no
 * part leaves them as they are.  ids_are: the table's ids are in [0, IDS), from
 * which part T takes its number of rows; a table that is no part has IDS. */
void ts_part_map(const ts_table_config *t, int64_t *ids, int64_t n);
void ts_table_ids_are(ts_table_config *t, int64_t ids);
/* Bags of part T have one id at most: rows' sums can't be multiplied. */
bool ts_part_wants_ones(const ts_table_config *t);
