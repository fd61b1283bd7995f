/* csv_survey.c - one pass over a CSV file: kinds, different values, what is
 * missing. */
#include "io/csv_survey.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "io/csv_names.h"
#include "io/text.h"
#include "runtime/progress.h"

enum { PIECE = 1 << 16, LINE_MAX_BYTES = 64 << 20 };
/* Different values that are counted: in a column, and in all of them, for they
 * are kept. */
enum { VALUES_MAX = 1 << 18, ALL_VALUES = 1 << 26, VALUES_MIN = 64 };

static const char *const markers[] = {"?",    "NA",   "N/A",  "NaN", "nan",
                                      "null", "NULL", "None", "-"};
enum { N_MARKERS = sizeof markers / sizeof *markers };

typedef struct ts_looking {
  ts_csv_survey *survey;
  ts_field *fields; /* (n_columns) */
  int64_t n_marked[N_MARKERS];
} ts_looking;

/* ---- values -------------------------------------------------------------- */

/* Doubles the set of hashes. */
static ts_err widen(ts_column *c) {
  uint64_t *old = c->seen, *wide = NULL;
  const int64_t n = c->n_slots ? 2 * c->n_slots : 64;
  TS_DO(ts_mem_array(&wide, n, sizeof *wide, TS_TAG_INPUT));
  for (int64_t i = 0; i < c->n_slots; i++) {
    uint64_t at = old[i] & (uint64_t)(n - 1);
    while (old[i] && wide[at]) at = (at + 1) & (uint64_t)(n - 1);
    if (old[i]) wide[at] = old[i];
  }
  ts_mem_free(old);
  c->seen = wide;
  c->n_slots = n;
  return TS_OK;
}

static ts_err count_value(ts_column *c, const ts_field *f, int64_t most) {
  if (c->n_values >= most) return TS_OK;
  if (2 * c->n_values >= c->n_slots) TS_DO(widen(c));
  const uint64_t mask = (uint64_t)(c->n_slots - 1);
  const uint64_t hash =
      ts_mix64(ts_fnv1a(TS_FNV_START, f->text, f->n_bytes)) | 1;
  uint64_t at = hash & mask;
  while (c->seen[at] && c->seen[at] != hash) at = (at + 1) & mask;
  if (c->seen[at]) return TS_OK;
  c->seen[at] = hash;
  if (c->n_values < 2)
    snprintf(c->word[c->n_values], sizeof *c->word, "%.*s",
             (int)(f->n_bytes < 63 ? f->n_bytes : 63), f->text);
  c->n_values++;
  return TS_OK;
}

static bool is_text(const ts_field *f, const char *text) {
  return f->n_bytes == strlen(text) && !memcmp(f->text, text, f->n_bytes);
}

static bool number(const ts_field *f, double *x) {
  char text[64], *end;
  if (f->n_bytes >= sizeof text) return false;
  memcpy(text, f->text, f->n_bytes);
  text[f->n_bytes] = '\0';
  *x = strtod(text, &end);
  return end != text && !*end && isfinite(*x);
}

/* 0,25 in a file with another separator, or in quotes. */
static bool has_comma(const ts_field *f) {
  char text[64];
  double x;
  const char *comma = memchr(f->text, ',', f->n_bytes);
  if (!comma || f->n_bytes >= sizeof text) return false;
  memcpy(text, f->text, f->n_bytes);
  text[comma - f->text] = '.';
  return number(&(ts_field){text, f->n_bytes}, &x);
}

static ts_err add_field(ts_looking *l, ts_column *c, const ts_field *f) {
  double x;
  bool missing = !f->n_bytes;
  for (int i = 0; i < N_MARKERS && !missing; i++) {
    missing = is_text(f, markers[i]);
    l->n_marked[i] += missing;
  }
  c->n_missing += missing;
  if (missing) return TS_OK;
  c->n_listed += memchr(f->text, '|', f->n_bytes) != NULL;
  if (number(f, &x)) {
    c->min = c->n_numbers ? fmin(c->min, x) : x;
    c->max = c->n_numbers ? fmax(c->max, x) : x;
    c->n_numbers++;
    c->n_whole += x == floor(x);
  } else {
    c->n_commas += has_comma(f);
  }
  TS_DO(count_value(c, f, l->survey->values_max));
  for (int k = 0; k < 2; k++) c->n_word[k] += is_text(f, c->word[k]);
  return TS_OK;
}

/* ---- lines --------------------------------------------------------------- */

/* The next line without its end behind LINE; *END: there is none. */
static ts_err next_line(gzFile gz, const char *path, ts_str *line, bool *end) {
  char piece[PIECE];
  int code;
  *end = true;
  while (gzgets(gz, piece, sizeof piece)) {
    size_t n = strlen(piece);
    const bool whole = n && piece[n - 1] == '\n';
    while (n && (piece[n - 1] == '\n' || piece[n - 1] == '\r')) n--;
    TS_DO(ts_str_append_bytes(line, piece, n));
    *end = false;
    if (whole) break;
    if (line->n_bytes > LINE_MAX_BYTES)
      return ts_fail(TS_ERR_DATA,
                     "%s: a line is over 64 MiB, or a quote has no end", path);
  }
  const char *why = gzerror(gz, &code);
  if (code != Z_OK && code != Z_STREAM_END)
    return ts_fail(TS_ERR_DATA, "%s: %s", path, why);
  return TS_OK;
}

/* Several lines where quotes go on behind a line's end. */
static ts_err next_record(gzFile gz, const char *path, char separator,
                          ts_str *record, bool *end) {
  bool open = false, last;
  size_t from = 0;
  record->n_bytes = 0;
  TS_DO(next_line(gz, path, record, end));
  for (last = *end; !last;) {
    const char *p = record->text;
    open = ts_csv_is_open(p + from, p + record->n_bytes, separator, open);
    if (!open) break;
    TS_DO(ts_str_append_bytes(record, "\n", 1));
    from = record->n_bytes;
    TS_DO(next_line(gz, path, record, &last));
  }
  return TS_OK;
}

/* The sign that the header has most of. */
static char separator_of(const char *header) {
  static const char signs[] = ",;\t|";
  int most = 0;
  char best = ',';
  for (const char *s = signs; *s; s++) {
    int n = 0;
    bool quoted = false;
    for (const char *p = header; *p; p++) {
      quoted ^= *p == '"';
      n += !quoted && *p == *s;
    }
    if (n > most) best = *s;
    if (n > most) most = n;
  }
  return best;
}

/* Names are no numbers. */
static bool is_data(const ts_field *f, int n) {
  double x;
  int n_numbers = 0;
  for (int i = 0; i < n; i++) n_numbers += number(&f[i], &x);
  return 2 * n_numbers > n;
}

static ts_err take_names(ts_csv_survey *survey, const ts_field *fields) {
  ts_err err = TS_OK;
  const int n = survey->n_columns;
  ts_csv_name *names = NULL;
  TS_TRY(ts_mem_many(names, n, INPUT));
  ts_csv_names_sort(names, fields, n);
  for (int i = 0; i < n; i++) {
    const ts_field *f = &fields[i];
    ts_column *c = &survey->columns[i];
    int n_same;
    TS_TRY(ts_mem_alloc(&c->name, f->n_bytes + 1, TS_TAG_INPUT));
    memcpy(c->name, f->text, f->n_bytes);
    ts_csv_names_find(names, n, c->name, &n_same);
    c->twice = n_same > 1;
  }
done:
  ts_mem_free(names);
  return err;
}

static ts_err take_header(ts_looking *l, const ts_str *line, const char *path) {
  ts_csv_survey *survey = l->survey;
  const char *p = line->text ? line->text : "";
  if (!strncmp(p, "\xef\xbb\xbf", 3)) p += 3; /* a mark of some editors */
  survey->separator = separator_of(p);
  const char *end = p + strlen(p);
  const int n = ts_csv_split(NULL, 0, p, end, survey->separator);
  if (!*p) return ts_fail(TS_ERR_DATA, "%s: has no header", path);
  if (n < 2)
    return ts_fail(TS_ERR_DATA, "%s: the header can't be read: %.200s", path,
                   p);
  TS_DO(ts_mem_many(l->fields, n, INPUT));
  (void)ts_csv_split(l->fields, n, p, end, survey->separator);
  if (is_data(l->fields, n))
    return ts_fail(TS_ERR_DATA,
                   "%s: its first line is data, not the names of columns: give "
                   "it a header: %.200s",
                   path, p);
  TS_DO(ts_mem_many(survey->columns, n, INPUT));
  survey->n_columns = n;
  survey->values_max = ALL_VALUES / n;
  if (survey->values_max > VALUES_MAX) survey->values_max = VALUES_MAX;
  if (survey->values_max < VALUES_MIN) survey->values_max = VALUES_MIN;
  return take_names(survey, l->fields);
}

static ts_err add_line(ts_looking *l, const ts_str *line) {
  ts_csv_survey *survey = l->survey;
  const char *p = line->text ? line->text : "";
  if (!line->n_bytes) return TS_OK; /* blank, as at the end */
  const int n = ts_csv_split(l->fields, survey->n_columns, p, p + line->n_bytes,
                             survey->separator);
  *(n == survey->n_columns ? &survey->n_lines : &survey->n_bad) += 1;
  if (n != survey->n_columns) return TS_OK;
  for (int32_t i = 0; i < n; i++)
    TS_DO(add_field(l, &survey->columns[i], &l->fields[i]));
  return TS_OK;
}

ts_err ts_csv_survey_of(ts_csv_survey *survey, const char *path) {
  ts_err err = TS_OK;
  ts_looking l = {.survey = survey};
  ts_str line = {0};
  bool end = false;
  int most = 0;
  struct stat st = {0};
  gzFile gz = gzopen(path, "rb");
  if (!gz || stat(path, &st) != 0) TS_TRY(ts_fail_errno(TS_ERR_DATA, path));
  ts_work work = ts_work_begin("looking at", path, (double)st.st_size, NULL);
  TS_TRY(next_line(gz, path, &line, &end));
  TS_TRY(ts_text_check(path, &line));
  TS_TRY(take_header(&l, &line, path));
  for (;;) {
    TS_TRY(next_record(gz, path, survey->separator, &line, &end));
    if (end) break;
    TS_TRY(add_line(&l, &line));
    if (ts_work_is_due(&work)) ts_work_at(&work, (double)gzoffset(gz));
  }
  for (int i = 1; i < N_MARKERS; i++)
    if (l.n_marked[i] > l.n_marked[most]) most = i;
  if (l.n_marked[most])
    snprintf(survey->missing, sizeof survey->missing, "%s", markers[most]);
done:
  if (gz) gzclose(gz);
  ts_mem_free(l.fields);
  ts_str_reset(&line);
  return err;
}

void ts_csv_survey_reset(ts_csv_survey *survey) {
  for (int32_t i = 0; survey->columns && i < survey->n_columns; i++)
    ts_mem_free_all(survey->columns[i].name, survey->columns[i].seen);
  ts_mem_free(survey->columns);
  *survey = (ts_csv_survey){0};
}
