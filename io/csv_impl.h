/* csv_impl.h - inside the CSV source; private to the csv files.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/batch_store.h"
#include "io/columnar.h"
#include "io/csv_names.h"
#include "io/datetime.h"
#include "io/source.h"
#include "io/text.h"

/* How a word becomes a row. */
typedef enum {
  TS_CSV_HASH,
  TS_CSV_VOCABULARY,
  TS_CSV_MODULO,
  TS_CSV_NUMBER, /* it is the row's */
  TS_CSV_BUCKET  /* the number's bucket */
} ts_csv_encoding;

/* What a label may be: what data.columns says, by the position of its word. */
typedef enum {
  TS_CSV_BINARY,
  TS_CSV_SOFT,
  TS_CSV_COUNT,
  TS_CSV_REAL,
  TS_CSV_CLASS
} ts_csv_label_kind;

/* What a feature's words are made of. */
typedef struct ts_csv_ids {
  ts_csv_encoding encoding;
  uint64_t start; /* of the hash */
  int *cross;     /* (n_cross) columns that are one word together */
  int32_t n_cross;
  int32_t input; /* of a bucket: io/scales.h; -1 */
  ts_time_part part;
  bool missing_word; /* a missing field is a word, too */
  ts_str text;       /* scratch: of a cross */
  char number[32];   /* scratch: of a part */
} ts_csv_ids;

static inline bool ts_csv_is_number(const ts_csv_ids *x) {
  return x->encoding == TS_CSV_MODULO || x->encoding == TS_CSV_NUMBER;
}

/* A batch's bags of a feature that has lists, weights or numbers, of which a
 * missing one is no row. */
typedef struct ts_csv_bags {
  bool is_list, weighted, numbers;
  bool has_weights; /* in the file: the table, or another of the column, is
                       weighted */
  char separator;
  int64_t max_length; /* 0: none */
  bool newest;        /* the last so many */
  int64_t *ids;       /* (capacity) n_ids of them in use */
  float *weights;
  int32_t *lengths; /* (n_samples) */
  int64_t n_ids, capacity, n_samples;
} ts_csv_bags;

/* The items of a field: of a text that is a list, or of a list of cells. */
typedef struct ts_csv_items {
  ts_field rest;        /* of the text */
  const ts_cells *list; /* NULL: it is text */
  int64_t at, end;
  bool is_whole; /* the item is the number WHOLE, its text being none */
  int64_t whole;
  char room[TS_CELLS_TEXT_MAX];
} ts_csv_items;

typedef struct ts_csv {
  ts_source base;
  ts_text *text;      /* NULL: it has */
  ts_columnar *table; /* files of columns in place of text, or NULL */
  char (*rooms)[TS_CELLS_TEXT_MAX]; /* (n_fields) of the table: their texts */
  bool *quick;  /* (n_features) of the table: filled by column */
  bool *filled; /* (n_features + n_dense) of the batch, by column */
  bool all_filled;
  int64_t *rows; /* (n_rows) of the batch */
  int64_t n_rows;
  char separator;
  size_t missing_bytes;          /* longest text that means it */
  bool missing_number;           /* some such text is a number */
  int n_fields;                  /* columns */
  ts_field *header;              /* (n_fields) their names */
  ts_csv_name *names;            /* (n_fields) in order */
  int *label;                    /* (n_tasks) columns; -1: it is absent */
  int *where;                    /* (n_tasks) which samples count; -1: all */
  ts_csv_label_kind *label_kind; /* (n_tasks) */
  int32_t n_dense, n_features;
  int *dense;          /* (inputs of the scales) columns */
  ts_time_part *parts; /* (inputs of the scales) of times in them */
  int *sparse;         /* (n_features) columns */
  int weight;          /* column; -1: samples have none */
  ts_csv_ids *ids;     /* (n_features) */
  ts_csv_bags *bags;   /* (n_features) */
  ts_field *fields;    /* (n_fields) scratch: of the line at hand */
  ts_lines lines;
  const char *line; /* in LINES */
  char why[256];    /* it can't be used; "": nothing is wrong with it */
  bool failed;      /* no memory for a word */
} ts_csv;

/* ---- csv_cells.c: what a field says -------------------------------------- */

bool ts_csv_is_missing(const ts_csv *, const ts_field *);
/* A number; false where it is none. */
bool ts_csv_number(const ts_field *, double *x);
/* The same, of the field in COLUMN. */
bool ts_csv_number_in(ts_csv *, int column, double *x);
/* NAN: the sample does not count for the task, the label is absent, as it may
 * be to predict, or something is wrong: to s->why. */
float ts_csv_label(ts_csv *, int32_t task);
int64_t ts_csv_id(ts_csv *, int32_t feature, const ts_field *, int64_t rows);
/* To s->why: WHAT is wrong with the line's field in COLUMN. */
void ts_csv_wrong(ts_csv *, int column, const char *what);
/* Begins with the line's items of FEATURE; false: it is missing. */
bool ts_csv_items_of(ts_csv *, int32_t feature, ts_csv_items *);
/* The next item of a list, or all of a field that is none; false at its end.
 * WEIGHT: 1 where it says none, NAN where what it says is no number. */
bool ts_csv_item(const ts_csv *, int32_t feature, ts_csv_items *,
                 ts_field *item, float *weight);

/* ---- csv_values.c: what a column is made of ------------------------------ */

ts_err ts_csv_values_create(ts_csv *);
void ts_csv_values_free(ts_csv *);
/* The line's field of FEATURE; until the next call for it. */
ts_field ts_csv_word(ts_csv *, int32_t feature);
/* F, or the word of its own that it is where it is missing. */
ts_field ts_csv_word_of(const ts_csv *, int32_t feature, ts_field f);
/* The id that F says of a feature of numbers. */
int64_t ts_csv_number_id(ts_csv *, int32_t feature, const ts_field *f,
                         int64_t rows);
/* The same, of the number X. */
int64_t ts_csv_whole_id(const ts_csv *, int32_t feature, int64_t x,
                        int64_t rows);
/* The line's number of input I of the scales; false where it is missing, or
 * wrong: to s->why. */
bool ts_csv_dense(ts_csv *, int32_t i, double *x);
float ts_csv_weight(ts_csv *);

/* ---- csv_bags.c: features with lists or weights -------------------------- */

bool ts_csv_has_bags(const ts_csv_bags *);
/* Empties those of the next batch, of N samples. */
ts_err ts_csv_bags_begin(ts_csv *, int32_t n);
/* Sample I's field of FEATURE, or what is wrong with it to s->why. */
ts_err ts_csv_bags_add(ts_csv *, ts_batch_store *, int32_t feature, int64_t i);
/* Room for N ids more. */
ts_err ts_csv_bags_room(ts_csv_bags *, int64_t n);
void ts_csv_bags_empty(ts_csv *, int64_t i); /* sample I's, of all features */
ts_err ts_csv_bags_store(ts_csv *, ts_batch_store *);
void ts_csv_bags_free(ts_csv *);

/* ---- csv_columns.c ------------------------------------------------------- */

/* Finds the deck's columns in the header; FILE is for messages. */
ts_err ts_csv_columns(ts_csv *, const char *file);

/* ---- csv_table.c: files of columns in place of text ---------------------- */

/* The table's columns as the header, before they are found in it. */
ts_err ts_csv_table_header(ts_csv *);
/* Checks what the columns that were found have; FILE is for messages. */
ts_err ts_csv_table_check(ts_csv *, const char *file);
/* The field in COLUMN of the row at hand. */
const ts_field *ts_csv_table_field(ts_csv *, int column);
/* Its number; false: it is missing, or a text. */
bool ts_csv_table_number(const ts_csv *, int column, double *x);
/* The items of FEATURE begin; false: there are none, or it is a text. */
bool ts_csv_table_items(ts_csv *, int32_t feature, ts_csv_items *);
/* ts_csv_item of a list of cells. */
bool ts_csv_table_item(const ts_csv *, int32_t feature, ts_csv_items *,
                       ts_field *item, float *weight);

/* csv_table_fill.c: fills what can be filled column by column of the batch of
 * ROWS (n), which are held, and notes it in s->filled. */
ts_err ts_csv_table_fill(ts_csv *, ts_batch_store *, const int64_t *rows,
                         int32_t n);

/* The line's field in COLUMN; until the next line. */
static inline const ts_field *ts_csv_field(ts_csv *s, int column) {
  return s->table ? ts_csv_table_field(s, column) : &s->fields[column];
}
/* Lines of data. */
static inline int64_t ts_csv_n_lines(const ts_csv *s) {
  return s->table ? ts_columnar_n_rows(s->table) : ts_text_n_lines(s->text);
}

/* ---- csv.c --------------------------------------------------------------- */

/* "FILE:LINE" of the line at hand, for messages; a row's number is from 0. */
const char *ts_csv_place(const ts_csv *, char place[4200]);

/* ts_source_ops.open, of a format OPS of text, or of files of columns; needs,
 * close, read, gather, lengths.  Open is Collective. */
ts_err ts_csv_open(ts_source **, const ts_source_ops *ops, const ts_config *,
                   ts_split, const char *state, const ts_strings *paths,
                   bool is_table, ts_comm *);
ts_err ts_csv_needs(ts_source *, ts_need *, bool sample);
void ts_csv_close(ts_source *);
ts_err ts_csv_read(ts_source *, ts_batch_store *, int64_t first, int32_t n);
ts_err ts_csv_gather(ts_source *, ts_batch_store *, const int64_t *samples,
                     int32_t n);
ts_err ts_csv_lengths(ts_source *, int32_t *n_ids, const int32_t *features,
                      int32_t n_features, const int64_t *samples, int32_t n);

typedef ts_err (*ts_csv_line_fn)(ts_csv *, void *arg, int64_t sample);
/* Splits lines [first, first + n) into s->fields and calls FN for each, s->why
 * being what is wrong with its form, or "". */
ts_err ts_csv_each_line(ts_csv *, int64_t first, int64_t n, ts_csv_line_fn fn,
                        void *arg);

/* ---- csv_look.c ---------------------------------------------------------- */

/* Notes on what the files hold that is allowed but likely not meant: samples
 * sorted by label, columns of huge numbers, lists taken as one id.  Looks at
 * some lines.  Collective. */
ts_err ts_csv_look(ts_csv *, const ts_strings *paths, ts_comm *);

/* csv_learn.c: scales and vocabularies of the files.  Collective. */
ts_err ts_csv_learn(ts_source *, const uint64_t *kept, ts_comm *);
