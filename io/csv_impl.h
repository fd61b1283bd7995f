/* csv_impl.h - inside the CSV source; private to csv.c and csv_learn.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/csv_fields.h"
#include "io/source.h"
#include "io/text.h"

typedef struct ts_vocabulary {
  char **word; /* (n) sorted */
  int64_t n;
} ts_vocabulary;

typedef struct ts_csv {
  ts_source base;
  ts_text *text;
  char separator;
  int n_fields; /* columns */
  int *label;   /* (n_tasks) columns */
  int32_t n_dense, n_features;
  int *dense, *sparse; /* columns of each */
  bool log, standardise, vocabulary;
  double *mean, *deviation; /* (n_dense) */
  ts_vocabulary *words;     /* (n_features) */
  ts_field *fields;         /* (FIELDS_MAX) scratch */
} ts_csv;

bool ts_csv_is_missing(const ts_csv *, const ts_field *);
/* A number; false where it is none. */
bool ts_csv_number(const ts_field *, double *x);
double ts_csv_transform(const ts_csv *, double x);

typedef ts_err (*ts_csv_line_fn)(ts_csv *, void *arg, int64_t sample,
                                 const char *why);
/* Splits lines [first, first + n) and calls FN for each, WHY being what is
 * wrong with it, or NULL. */
ts_err ts_csv_each_line(ts_csv *, int64_t first, int64_t n, ts_csv_line_fn fn,
                        void *arg);

/* csv_learn.c: means, deviations and vocabularies of the files, collective;
 * to and from the text that later sources get. */
ts_err ts_csv_learn(ts_csv *, ts_comm *);
ts_err ts_csv_state_save(ts_source *, ts_str *text);
ts_err ts_csv_state_load(ts_csv *, const char *text);
