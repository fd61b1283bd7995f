/* state.h - what is served at a time: a file, a delta over it or none, and what
 * is made of its deck.  It does not change; whoever scores holds it.
 * Functions are Local. */
#pragma once

#include "io/datetime.h"
#include "io/scales.h"
#include "serve/file.h"
#include "serve/keys.h"
#include "serve/rows.h"

/* Whose rules ids and words go by: io/csv_cells.c, io/criteo.c,
 * io/dataset_columns.c. */
typedef enum { TS_SERVE_CSV, TS_SERVE_CRITEO, TS_SERVE_NUMBERS } ts_serve_rules;
/* Of the training data's FORMAT; false where there is none of that name. */
bool ts_serve_rules_of(ts_serve_rules *, const char *format);
/* The transform of dense columns that the deck gives none: of ts_scales_create.
 */
const char *ts_serve_transform(ts_serve_rules);

typedef enum {
  TS_SERVE_PLAIN,
  TS_SERVE_HASH,
  TS_SERVE_MODULO,
  TS_SERVE_WORDS,
  TS_SERVE_BUCKET
} ts_serve_encoding;

typedef struct ts_serve_feature {
  const char *name;
  const ts_table_config *table;
  int32_t given; /* its number among those that a batch has: of a table's parts
                    the first one's */
  const void *rows;          /* the table's */
  const ts_serve_keys *keys; /* of a dynamic table; NULL: ids are rows */
  ts_rows_kind kind;
  ts_serve_encoding encoding;
  uint64_t start; /* of the hash */
  int32_t input;  /* of a bucket, in the scales */
  int64_t max_length;
  int64_t mask;      /* an id that comes behind the others (io/masks.h); -1 */
  bool newest;       /* the last so many */
  bool is_times;     /* its ids are times, and no rows */
  bool missing_word; /* CSV: a missing one is a word, too .. */
  bool missing_none; /* .. or no id: of lists, weights and numbers */
  bool is_list, crosses;
  ts_time_part part;
  const int64_t *at; /* (n_words) where words begin in text */
  const char *text;
  int64_t n_words;
  const float *position; /* (max_length) weights by position; NULL */
} ts_serve_feature;

/* How a dynamic table's rows are found; empty for other tables. */
typedef struct ts_serve_dynamic {
  ts_serve_keys keys;
  char *rows; /* made of a file and a delta that has other ids; or NULL */
} ts_serve_dynamic;

typedef struct ts_serve_state {
  int refs; /* atomic */
  ts_serve_file file, delta;
  ts_config *config;
  ts_serve_rules rules;
  ts_scales *scales; /* NULL: numbers go by the rules alone */
  ts_serve_feature *feature;
  int32_t n_features, n_given, n_outputs, dense_width;
  int32_t *vector_dim; /* (n_tasks) of those over items; else 0 */
  int64_t step;
  ts_serve_dynamic *dynamic; /* (n_tables) */
  double negatives;          /* share that was trained on, over 0 up to 1 */
} ts_serve_state;

/* With one reference.  BASE: a state of the file that PATH may be a delta over;
 * NULL: PATH is a whole file. */
ts_err ts_serve_state_open(ts_serve_state **, const char *path,
                           const ts_serve_state *base);
ts_serve_state *ts_serve_state_hold(ts_serve_state *);
void ts_serve_state_release(ts_serve_state *); /* NULL is fine */
/* The part model/NAME, of shape (rows, cols), as f32 to TO (rows * cols, or
 * rows where cols is 0). */
ts_err ts_serve_take(const ts_serve_state *, const char *name, int64_t rows,
                     int64_t cols, float *to);
