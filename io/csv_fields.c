/* csv_fields.c - splitting a line of CSV. */
#include "io/csv_fields.h"

#include <string.h>

void ts_csv_trim(ts_field *f) {
  while (f->n_bytes && (*f->text == ' ' || *f->text == '\t'))
    f->text++, f->n_bytes--;
  while (f->n_bytes &&
         (f->text[f->n_bytes - 1] == ' ' || f->text[f->n_bytes - 1] == '\t'))
    f->n_bytes--;
}

/* The end of a quoted field whose text goes on at P; NULL where there is none.
 */
static const char *quote_end(const char *p, const char *end) {
  while ((p = memchr(p, '"', (size_t)(end - p)))) {
    if (p + 1 == end || p[1] != '"') return p;
    p += 2;
  }
  return NULL;
}

bool ts_csv_is_open(const char *p, const char *end, char separator, bool open) {
  if (!open && !memchr(p, '"', (size_t)(end - p))) return false;
  for (;;) {
    while (!open && p < end && *p == ' ') p++;
    if (!open && p < end && *p == '"') open = true, p++;
    if (open) p = quote_end(p, end);
    if (!p) return true;
    open = false;
    p = memchr(p, separator, (size_t)(end - p));
    if (!p) return false;
    p++;
  }
}

const char *ts_csv_record_end(const char *p, const char *end, char separator) {
  bool open = false;
  while (p < end) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop) return NULL;
    open = ts_csv_is_open(p, stop, separator, open);
    if (!open) return stop;
    p = stop + 1;
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
      const char *close = quote_end(q + 1, end);
      if (!close) return -1;
      f = (ts_field){q + 1, (size_t)(close - q - 1)};
      q = memchr(close, separator, (size_t)(end - close));
    } else {
      q = memchr(p, separator, (size_t)(end - p));
      f = (ts_field){p, (size_t)((q ? q : end) - p)};
      ts_csv_trim(&f);
    }
    if (n < max) fields[n] = f;
    n++;
    if (!q) return n;
    p = q + 1;
  }
}

ts_err ts_csv_add(ts_str *s, const char *text, size_t n) {
  bool quoted = n && (text[0] == ' ' || text[n - 1] == ' ');
  for (size_t i = 0; i < n; i++)
    quoted |=
        text[i] == ',' || text[i] == '"' || text[i] == '\n' || text[i] == '\r';
  if (!quoted) return ts_str_append_bytes(s, text, n);
  TS_DO(ts_str_append_bytes(s, "\"", 1));
  for (size_t i = 0; i < n; i++)
    TS_DO(ts_str_append_bytes(s, text[i] == '"' ? "\"\"" : text + i,
                              text[i] == '"' ? 2 : 1));
  return ts_str_append_bytes(s, "\"", 1);
}
