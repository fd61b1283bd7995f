/* sequences_read.c - the lines of a log of events. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/mem.h"
#include "io/csv_fields.h"
#include "io/sequences_impl.h"
#include "io/text.h"
#include "runtime/progress.h"

enum { USER, ITEM, TIME, SIDE, COLUMNS_MAX = 1024, LINE_MAX_BYTES = 64 << 20 };
static const char *const names[] = {"user", "item", "time"};

typedef struct ts_log {
  const ts_sequences_of *of;
  ts_events *events;
  ts_sequences *to;
  gzFile gz;
  char *text; /* (room): [at, filled) is not taken yet */
  size_t at, filled, room;
  bool ended;
  int64_t line;   /* number of the one that is looked at */
  char separator; /* ':': "::"; ' ': any blanks */
  /* where user, item and time are, and side columns; -1: no time */
  int column[SIDE + TS_SIDES];
  int least, most; /* columns that a line has to have; most 0: any more */
  ts_field *fields;
  ts_work work;
} ts_log;

#define WHERE "%s: line %lld: "
#define AT_LINE(l) (l)->of->path, (long long)(l)->line

/* ---- lines --------------------------------------------------------------- */

/* More of the file behind what is left of it. */
static ts_err refill(ts_log *l) {
  int code;
  if (l->at) memmove(l->text, l->text + l->at, l->filled - l->at);
  l->filled -= l->at;
  l->at = 0;
  if (l->filled == l->room) {
    if (l->room >= LINE_MAX_BYTES)
      return ts_fail(TS_ERR_DATA, WHERE "is over 64 MiB", l->of->path,
                     (long long)l->line + 1);
    const size_t more = l->room ? 2 * l->room : 1 << 20;
    TS_DO(ts_mem_resize(&l->text, l->room, more, TS_TAG_INPUT));
    l->room = more;
  }
  const int n =
      gzread(l->gz, l->text + l->filled, (unsigned)(l->room - l->filled));
  const char *why = gzerror(l->gz, &code);
  if (n < 0 || (code != Z_OK && code != Z_STREAM_END))
    return ts_fail(TS_ERR_DATA, WHERE "%s", l->of->path, (long long)l->line + 1,
                   why);
  l->ended = n == 0;
  l->filled += (size_t)n;
  if (ts_work_is_due(&l->work)) ts_work_at(&l->work, (double)gzoffset(l->gz));
  return TS_OK;
}

/* The next line that is not blank, [*P, *END), until the next call; *P is NULL
 * where there is none. */
static ts_err next_line(ts_log *l, const char **p, const char **end) {
  for (;;) {
    const char *text = l->text + l->at, *stop = NULL;
    if (l->filled > l->at) stop = memchr(text, '\n', l->filled - l->at);
    if (!stop && !l->ended) {
      TS_DO(refill(l));
      continue;
    }
    *p = NULL;
    if (l->filled == l->at) return TS_OK;
    *end = stop ? stop : l->text + l->filled;
    l->at = (size_t)(*end - l->text) + (stop != NULL);
    l->line++;
    if (*end > text && (*end)[-1] == '\r') --*end;
    if (l->line == 1 && *end - text >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
      text += 3; /* a byte order mark */
    *p = text;
    while (text < *end && (*text == ' ' || *text == '\t')) text++;
    if (text < *end) return TS_OK;
  }
}

/* ---- fields -------------------------------------------------------------- */

static bool is_blank(char c, bool comma) {
  return c == ' ' || c == '\t' || (comma && c == ',');
}

/* The field from *P on, which ends at blanks, or with COMMA at commas, too;
 * false: none is left. */
static bool next_field(ts_field *f, const char **p, const char *end,
                       bool comma) {
  const char *q = *p;
  while (q < end && is_blank(*q, comma)) q++;
  f->text = q;
  while (q < end && !is_blank(*q, comma)) q++;
  f->n_bytes = (size_t)(q - f->text);
  *p = q;
  return f->n_bytes > 0;
}

static int split_pairs(ts_field *fields, const char *p, const char *end) {
  for (int n = 0;; n++) {
    const char *q = p;
    while (q < end && !(q + 1 < end && q[0] == ':' && q[1] == ':')) q++;
    if (n < COLUMNS_MAX) fields[n] = (ts_field){p, (size_t)(q - p)};
    if (n < COLUMNS_MAX) ts_csv_trim(&fields[n]);
    if (q == end) return n + 1;
    p = q + 2;
  }
}

/* How many there are; -1: a quote has no end. */
static int split(const ts_log *l, const char *p, const char *end) {
  int n = 0;
  ts_field f;
  if (l->separator == ':') return split_pairs(l->fields, p, end);
  if (l->separator != ' ')
    return ts_csv_split(l->fields, COLUMNS_MAX, p, end, l->separator);
  for (; next_field(&f, &p, end, false); n++)
    if (n < COLUMNS_MAX) l->fields[n] = f;
  return n;
}

static char separator_of(const char *p, const char *end) {
  const size_t n = (size_t)(end - p);
  if (memchr(p, '\t', n)) return '\t';
  for (const char *q = p; q + 1 < end; q++)
    if (q[0] == ':' && q[1] == ':') return ':';
  return memchr(p, ',', n) ? ',' : ' ';
}

/* ---- events -------------------------------------------------------------- */

static ts_err number(const ts_log *l, ts_sequence_ids *ids, const ts_field *f,
                     int32_t *out) {
  int64_t id;
  const int32_t n = ids->names.n;
  TS_DO(ts_numbering_of(&ids->names, f->text, f->n_bytes, out));
  if (*out == n && !ids->line && !ts_events_id(f->text, f->n_bytes, &id)) {
    ids->line = l->line;
    ids->path = l->of->path;
  }
  return TS_OK;
}

static ts_err add(ts_log *l, const ts_field *user, const ts_field *item,
                  const ts_field *time) {
  ts_events *x = l->events;
  if (x->n && (time != NULL) != (x->time != NULL))
    return ts_fail(TS_ERR_DATA, "%s: %s", l->of->path,
                   time ? "has times, the log before it has none"
                        : "has no times, the log before it has some");
  TS_DO(ts_events_room(x, l->of->sides->n, time != NULL));
  TS_DO(number(l, &l->to->users, user, &x->user[x->n]));
  TS_DO(number(l, &l->to->items, item, &x->item[x->n]));
  if (time && !ts_events_time(x, time->text, time->n_bytes, &x->time[x->n]))
    return ts_fail(TS_ERR_DATA, WHERE "time \"%.*s\" is no number", AT_LINE(l),
                   (int)(time->n_bytes < 40 ? time->n_bytes : 40), time->text);
  if (time && l->of->times && (x->fractions || (int64_t)x->time[x->n] < 0))
    return ts_fail(TS_ERR_DATA,
                   WHERE
                   "time \"%.*s\" is no whole number from 0 on: times are "
                   "ids with --times",
                   AT_LINE(l), (int)time->n_bytes, time->text);
  x->n++;
  return TS_OK;
}

/* Adds the side columns' values to the event that was added last. */
static ts_err add_sides(ts_log *l) {
  for (int32_t k = 0; k < l->of->sides->n; k++)
    TS_DO(number(l, &l->to->side[k].ids, &l->fields[l->column[SIDE + k]],
                 &l->events->side[k][l->events->n - 1]));
  return TS_OK;
}

static ts_err take_list(ts_log *l, const char *p, const char *end) {
  ts_field user, item;
  if (!next_field(&user, &p, end, true)) return TS_OK;
  while (next_field(&item, &p, end, true)) TS_DO(add(l, &user, &item, NULL));
  return TS_OK;
}

static ts_err take_event(ts_log *l, const char *p, const char *end) {
  const ts_field *f = l->fields;
  const int n = split(l, p, end);
  if (n < 0)
    return ts_fail(TS_ERR_DATA, WHERE "a quote has no end", AT_LINE(l));
  if (n < l->least || (l->most && n > l->most))
    return ts_fail(TS_ERR_DATA, WHERE "has %d columns, %s%d are expected",
                   AT_LINE(l), n, l->most ? "" : "at least ", l->least);
  for (int k = USER; k < SIDE + l->of->sides->n; k++)
    if (l->column[k] >= 0 && !f[l->column[k]].n_bytes)
      return ts_fail(TS_ERR_DATA, WHERE "has no %s", AT_LINE(l),
                     k < SIDE ? names[k] : l->of->sides->feature[k - SIDE]);
  TS_DO(add(l, &f[l->column[USER]], &f[l->column[ITEM]],
            l->column[TIME] >= 0 ? &f[l->column[TIME]] : NULL));
  return add_sides(l);
}

/* ---- the first line ------------------------------------------------------ */

/* The column that OPTION calls NAME, by its number or in the header, which has
 * N. */
static ts_err find_column(ts_log *l, const char *option, const char *name,
                          int n, int *column, bool *named) {
  char *end;
  const long k = strtol(name, &end, 10);
  if (end != name && !*end) {
    if (k < 1 || k > COLUMNS_MAX)
      return ts_fail(TS_ERR_USAGE, "%s: columns are from 1 to %d, not %s",
                     option, COLUMNS_MAX, name);
    *column = (int)k - 1;
    return TS_OK;
  }
  *named = true;
  for (int i = 0; i < n && i < COLUMNS_MAX; i++) {
    *column = i;
    if (l->fields[i].n_bytes == strlen(name) &&
        !memcmp(l->fields[i].text, name, strlen(name)))
      return TS_OK;
  }
  return ts_fail(TS_ERR_DATA, WHERE "the header has no column \"%s\"",
                 AT_LINE(l), name);
}

static ts_err find_sides(ts_log *l, int n, bool *named) {
  const ts_sides *sides = l->of->sides;
  for (int k = SIDE; k < SIDE + sides->n; k++) {
    const char *name = sides->column[k - SIDE];
    TS_DO(find_column(l, "--side", name, n, &l->column[k], named));
    for (int j = USER; j < k; j++)
      if (l->column[j] == l->column[k])
        return ts_fail(TS_ERR_USAGE,
                       "--side %s: --columns or --side has this column already",
                       name);
    if (l->column[k] >= l->least) l->least = l->column[k] + 1;
  }
  return TS_OK;
}

/* Which columns there are, by the first line, [P, END); *NAMED: it is a header
 * for sure. */
static ts_err find_columns(ts_log *l, const char *p, const char *end,
                           bool *named) {
  const ts_sequences_of *of = l->of;
  l->separator = separator_of(p, end);
  const int n = split(l, p, end);
  if (n < 0)
    return ts_fail(TS_ERR_DATA, WHERE "a quote has no end", AT_LINE(l));
  if (!of->n_columns && (n < 2 || n > 3))
    return ts_fail(TS_ERR_DATA,
                   WHERE "has %d columns: --columns USER,ITEM or "
                         "USER,ITEM,TIME says which they are",
                   AT_LINE(l), n);
  for (int k = USER; k <= TIME; k++) {
    l->column[k] = !of->n_columns && k < n ? k : -1;
    if (k < of->n_columns)
      TS_DO(
          find_column(l, "--columns", of->columns[k], n, &l->column[k], named));
    if (l->column[k] >= l->least) l->least = l->column[k] + 1;
  }
  l->most = of->n_columns ? 0 : l->least;
  return find_sides(l, n, named);
}

/* "user_id", but not "user17", which may be one. */
static bool is_name(const ts_field *f, const char *begins) {
  for (size_t i = 0; i < f->n_bytes; i++)
    if (f->text[i] >= '0' && f->text[i] <= '9') return false;
  return f->n_bytes >= strlen(begins) &&
         !strncasecmp(f->text, begins, strlen(begins));
}

/* The first line is one; IS_ID: its user and item are integers. */
static bool is_header(const ts_log *l, int n, bool is_id[2]) {
  uint64_t time;
  int64_t id;
  ts_events none = {0};
  const ts_field *f = l->fields;
  if (n < l->least) return false;
  for (int k = USER; k <= ITEM; k++)
    is_id[k] = ts_events_id(f[l->column[k]].text, f[l->column[k]].n_bytes, &id);
  if (is_name(&f[l->column[USER]], "user") &&
      is_name(&f[l->column[ITEM]], "item"))
    return true;
  return l->column[TIME] >= 0 && !(is_id[USER] && is_id[ITEM]) &&
         !ts_events_time(&none, f[l->column[TIME]].text,
                         f[l->column[TIME]].n_bytes, &time);
}

/* Takes the first two lines; what is no header, that is. */
static ts_err take_first(ts_log *l) {
  ts_err err = TS_OK;
  ts_str first = {0};
  const char *p, *end;
  bool header = false, is_id[2] = {true, true}, later[2] = {0};
  TS_TRY(next_line(l, &p, &end));
  if (!p || l->of->lists) {
    if (p) err = take_list(l, p, end);
    goto done;
  }
  TS_TRY(ts_str_append_bytes(&first, p, (size_t)(end - p)));
  TS_TRY(ts_text_check(l->of->path, &first));
  TS_TRY(find_columns(l, p, end, &header));
  if (!header) header = is_header(l, split(l, p, end), is_id);
  const int64_t line = l->line;
  TS_TRY(next_line(l, &p, &end));
  const int64_t second = l->line;
  if (p && !header && split(l, p, end) >= l->least) {
    (void)is_header(l, l->least, later);
    header = (later[0] && !is_id[0]) || (later[1] && !is_id[1]);
  }
  if (header) l->to->header[l->to->header[0] != NULL] = l->of->path;
  l->line = line;
  if (!header) TS_TRY(take_event(l, first.text, first.text + first.n_bytes));
  l->line = second;
  if (p) TS_TRY(take_event(l, p, end));
done:
  ts_str_reset(&first);
  return err;
}

ts_err ts_events_read(ts_events *x, ts_sequences *s,
                      const ts_sequences_of *of) {
  ts_err err = TS_OK;
  ts_log l = {.of = of, .events = x, .to = s};
  struct stat st = {0};
  const char *p, *end;
  const int64_t before = x->n;
  if (stat(of->path, &st) != 0) TS_TRY(ts_fail_errno(TS_ERR_DATA, of->path));
  if (!S_ISREG(st.st_mode))
    TS_THROW(TS_ERR_DATA, "%s: is not a file", of->path);
  l.gz = gzopen(of->path, "rb");
  if (!l.gz) TS_TRY(ts_fail_errno(TS_ERR_DATA, of->path));
  gzbuffer(l.gz, 1 << 18);
  l.work = ts_work_begin("reading", of->path, (double)st.st_size, NULL);
  TS_TRY(ts_mem_many(l.fields, COLUMNS_MAX, INPUT));
  TS_TRY(refill(&l));
  TS_TRY(take_first(&l));
  for (;;) {
    TS_TRY(next_line(&l, &p, &end));
    if (!p) break;
    TS_TRY(of->lists ? take_list(&l, p, end) : take_event(&l, p, end));
  }
  if (x->n == before) TS_THROW(TS_ERR_DATA, "%s: has no events", of->path);
done:
  if (l.gz) gzclose(l.gz);
  ts_mem_free_all(l.text, l.fields);
  return err;
}
