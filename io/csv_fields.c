/* csv_fields.c - splitting a line of CSV. */
#include "io/csv_fields.h"

#include <string.h>

static void trim(ts_field *f) {
  while (f->n_bytes && (*f->text == ' ' || *f->text == '\t'))
    f->text++, f->n_bytes--;
  while (f->n_bytes &&
         (f->text[f->n_bytes - 1] == ' ' || f->text[f->n_bytes - 1] == '\t'))
    f->n_bytes--;
}

/* The end of a quoted field that begins at P; NULL where there is none. */
static const char *quote_end(const char *p, const char *end) {
  for (p++; p < end; p++) {
    if (*p != '"') continue;
    if (p + 1 < end && p[1] == '"')
      p++;
    else
      return p;
  }
  return NULL;
}

int ts_csv_split(ts_field *fields, int max, const char *p, const char *end,
                 char separator) {
  int n = 0;
  for (;;) {
    const char *q = p;
    ts_field f;
    while (q < end && *q == ' ') q++;
    if (q < end && *q == '"') {
      const char *close = quote_end(q, end);
      if (!close) return -1;
      f = (ts_field){q + 1, (size_t)(close - q - 1)};
      q = memchr(close, separator, (size_t)(end - close));
    } else {
      q = memchr(p, separator, (size_t)(end - p));
      f = (ts_field){p, (size_t)((q ? q : end) - p)};
      trim(&f);
    }
    if (n < max) fields[n] = f;
    n++;
    if (!q) return n;
    p = q + 1;
  }
}
