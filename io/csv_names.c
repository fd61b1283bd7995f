/* csv_names.c - a header's names in order. */
#include "io/csv_names.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const ts_field *a, const ts_field *b) {
  const size_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
  const int sign = memcmp(a->text, b->text, n);
  return sign ? sign : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

static int by_name(const void *a, const void *b) {
  const ts_csv_name *x = a, *y = b;
  const int sign = by_text(&x->name, &y->name);
  return sign ? sign : x->column - y->column;
}

void ts_csv_names_sort(ts_csv_name *names, const ts_field *header, int n) {
  for (int i = 0; i < n; i++) names[i] = (ts_csv_name){header[i], i};
  qsort(names, (size_t)n, sizeof *names, by_name);
}

int ts_csv_names_find(const ts_csv_name *names, int n, const char *name,
                      int *n_same) {
  const ts_field wanted = {name, strlen(name)};
  int low = 0, high = n;
  while (low < high) {
    const int mid = low + (high - low) / 2;
    if (by_text(&names[mid].name, &wanted) < 0)
      low = mid + 1;
    else
      high = mid;
  }
  *n_same = 0;
  while (low + *n_same < n && !by_text(&names[low + *n_same].name, &wanted))
    ++*n_same;
  return *n_same ? names[low].column : -1;
}
