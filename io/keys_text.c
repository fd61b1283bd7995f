/* keys_text.c - keys of text: cells as they were, without their quotes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/columns.h"
#include "io/csv_fields.h"
#include "io/keys.h"
#include "io/text.h"

/* A cell that is longer is no key, and every row would have room for it. */
enum { CRITEO_FIELDS = 40, CELL_MAX = 4096, LINES = 65536 };

typedef struct ts_text_keys {
  ts_keys base;
  ts_text *text;
  char separator;
  int *field;       /* (n) */
  ts_field *fields; /* (n_fields) of a line */
  int n_fields;
} ts_text_keys;

static void close_keys(ts_keys *base) {
  ts_text_keys *k = (ts_text_keys *)base;
  ts_text_close(k->text);
  ts_mem_free_all(k->field, k->fields, k);
}

/* ---- lines --------------------------------------------------------------- */

/* Row I of a column, of which the line that begins at LINE has the FIELD (NULL:
 * it is too short). */
typedef ts_err (*ts_field_fn)(ts_text_keys *, int32_t column, int64_t i,
                              const ts_field *field, const char *line);

static ts_err each_field(ts_text_keys *k, int64_t i, const char *p,
                         const char *end, ts_field_fn fn) {
  if (end > p && end[-1] == '\r') end--;
  const int n = ts_csv_split(k->fields, k->n_fields, p, end, k->separator);
  for (int32_t c = 0; c < k->base.n; c++)
    TS_DO(fn(k, c, i, k->field[c] < n ? &k->fields[k->field[c]] : NULL, p));
  return TS_OK;
}

static ts_err each_line(ts_text_keys *k, int64_t first, int64_t n,
                        ts_field_fn fn) {
  for (int64_t i = 0; i < n;) {
    ts_lines lines;
    int32_t here = n - i < LINES ? (int32_t)(n - i) : LINES;
    TS_DO(ts_text_lines(k->text, &lines, first + i, &here));
    const char *p = lines.begin;
    for (const int64_t stop = i + here; i < stop; i++) {
      const char *end = lines.quoted
                            ? ts_csv_record_end(p, lines.end, k->separator)
                            : memchr(p, '\n', (size_t)(lines.end - p));
      if (each_field(k, i, p, end ? end : lines.end, fn) != TS_OK)
        return ts_fail(TS_ERR_DATA,
                       "%s:%lld: a cell of a column of --keys has more than "
                       "%d bytes",
                       lines.path, (long long)ts_lines_number(&lines, p),
                       CELL_MAX);
      p = end ? end + 1 : lines.end;
    }
  }
  return TS_OK;
}

/* In a field that was in quotes, "" is a quote. */
static ts_err take(ts_text_keys *k, int32_t column, int64_t i,
                   const ts_field *f, const char *line) {
  const size_t width = (size_t)k->base.columns[column].width;
  char *to = (char *)k->base.data[column] + (size_t)i * width;
  const bool quoted = f && f->text > line && f->text[-1] == '"';
  size_t n = 0;
  for (size_t b = 0; f && b < f->n_bytes && n < width; b++) {
    to[n++] = f->text[b];
    if (quoted && f->text[b] == '"') b++;
  }
  memset(to + n, 0, width - n);
  return TS_OK;
}

static ts_err read_keys(ts_keys *base, int64_t first, int64_t n) {
  return each_line((ts_text_keys *)base, first, n, take);
}

/* The widest cell so far. */
static ts_err measure(ts_text_keys *k, int32_t column, int64_t i,
                      const ts_field *f, const char *line) {
  int32_t *width = &k->base.columns[column].width;
  (void)i;
  (void)line;
  if (!f || f->n_bytes <= (size_t)*width) return TS_OK;
  if (f->n_bytes > CELL_MAX) return TS_ERR_DATA;
  *width = (int32_t)f->n_bytes;
  return TS_OK;
}

/* Each rank looks at its share of the lines. */
static ts_err measure_all(ts_text_keys *k, ts_comm *comm) {
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int64_t n = ts_text_n_lines(k->text), from = n * me / w;
  int64_t widest[k->base.n + 1];
  TS_DO(ts_agree(comm, each_line(k, from, n * (me + 1) / w - from, measure)));
  for (int32_t c = 0; c < k->base.n; c++) widest[c] = k->base.columns[c].width;
  TS_DO(ts_comm_max_i64(comm, widest, k->base.n));
  for (int32_t c = 0; c < k->base.n; c++)
    k->base.columns[c].width = (int32_t)widest[c];
  return TS_OK;
}

/* ---- columns ------------------------------------------------------------- */

static ts_err find_named(ts_text_keys *k, const ts_config *config) {
  const char *header = ts_text_header(k->text), *end = header + strlen(header);
  const int n = ts_csv_split(NULL, 0, header, end, k->separator);
  TS_DO(ts_mem_many(k->fields, n > 0 ? n : 0, INPUT));
  k->n_fields = ts_csv_split(k->fields, n, header, end, k->separator);
  for (int32_t c = 0; c < k->base.n; c++) {
    const char *name = ts_column_from(config, k->base.columns[c].name);
    k->field[c] = -1;
    for (int i = 0; i < n && k->field[c] < 0; i++)
      if (strlen(name) == k->fields[i].n_bytes &&
          !memcmp(name, k->fields[i].text, k->fields[i].n_bytes))
        k->field[c] = i;
    if (k->field[c] < 0)
      return ts_fail(TS_ERR_DATA,
                     "--keys: the header has no column \"%s\": "
                     "%.200s",
                     name, header);
  }
  return TS_OK;
}

/* "label", "I1" to "I13", "C1" to "C26", in this order. */
static ts_err find_criteo(ts_text_keys *k, const ts_config *config) {
  k->n_fields = CRITEO_FIELDS;
  TS_DO(ts_mem_many(k->fields, k->n_fields, INPUT));
  for (int32_t c = 0; c < k->base.n; c++) {
    const char *name = ts_column_from(config, k->base.columns[c].name);
    char *end = NULL;
    const long number = *name ? strtol(name + 1, &end, 10) : 0;
    const bool whole = end && end > name + 1 && !*end && number >= 1;
    const bool integer = whole && *name == 'I' && number <= 13;
    const bool id = whole && *name == 'C' && number <= 26;
    if (!integer && !id && strcmp(name, "label") != 0)
      return ts_fail(TS_ERR_DATA,
                     "--keys: \"%s\" is no column of Criteo's log; these are "
                     "label, I1 to I13 and C1 to C26",
                     name);
    k->field[c] = integer ? (int)number : id ? (int)number + 13 : 0;
  }
  return TS_OK;
}

static ts_err create(ts_text_keys **out, const ts_strings *names,
                     char separator) {
  ts_text_keys *k = NULL;
  TS_DO(ts_mem_alloc(&k, sizeof *k, TS_TAG_INPUT));
  *out = k;
  k->base.read = read_keys;
  k->base.close = close_keys;
  k->separator = separator;
  TS_DO(ts_keys_columns(&k->base, names));
  return ts_mem_many(k->field, names->n, INPUT);
}

static ts_err open_keys(ts_keys **out, const ts_config *c,
                        const ts_strings *paths, const ts_strings *names,
                        char separator, bool header, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_text_keys *k = NULL;
  TS_TRY(ts_agree(comm, create(&k, names, separator)));
  TS_TRY(ts_text_open(&k->text, paths, header ? separator : '\0', c->run.output,
                      comm));
  k->base.n_samples = ts_text_n_lines(k->text);
  TS_TRY(ts_agree(comm, header ? find_named(k, c) : find_criteo(k, c)));
  TS_TRY(measure_all(k, comm));
  *out = &k->base;
  k = NULL;
done:
  if (k) ts_keys_close(&k->base);
  return err;
}

ts_err ts_keys_of_csv(ts_keys **out, const ts_config *c,
                      const ts_strings *paths, const ts_strings *names,
                      ts_comm *comm) {
  const char *s = c->data.csv.separator;
  return open_keys(out, c, paths, names, strcmp(s, "tab") ? *s : '\t', true,
                   comm);
}

ts_err ts_keys_of_criteo(ts_keys **out, const ts_config *c,
                         const ts_strings *paths, const ts_strings *names,
                         ts_comm *comm) {
  return open_keys(out, c, paths, names, '\t', false, comm);
}
