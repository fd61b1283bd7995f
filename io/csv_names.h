/* csv_names.h - the names of a header, found among very many.
 * All of it is Local. */
#pragma once

#include "io/csv_fields.h"

typedef struct ts_csv_name {
  ts_field name;
  int column;
} ts_csv_name;

/* HEADER's fields (N) by name, those of one name by column, into NAMES. */
void ts_csv_names_sort(ts_csv_name *names, const ts_field *header, int n);
/* The first column of NAME, -1 where there is none; *N_SAME: how many there
 * are. */
int ts_csv_names_find(const ts_csv_name *names, int n, const char *name,
                      int *n_same);
