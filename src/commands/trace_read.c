/* trace_read.c - reads the traces that ts_trace_file_close writes: enough of
 * JSON for any layout of them, one pass, no tree. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "commands/trace.h"

enum { WORD_MAX = 128, DEPTH_MAX = 16 };

typedef struct ts_reader {
  const char *path, *text, *at;
  int depth;
  ts_trace *trace;
  int64_t capacity; /* of spans */
  bool ours;        /* otherData names this program */
} ts_reader;

static ts_err bad(const ts_reader *r, const char *what) {
  int line = 1;
  for (const char *p = r->text; p < r->at; p++) line += *p == '\n';
  return ts_fail(TS_ERR_DATA, "%s:%d: this is no trace of tessera: %s", r->path,
                 line, what);
}

/* ---- JSON ---------------------------------------------------------------- */

static char next(ts_reader *r) {
  r->at += strspn(r->at, " \t\r\n");
  return *r->at;
}

static bool take(ts_reader *r, char c) {
  if (next(r) != c) return false;
  r->at++;
  return true;
}

/* A string into WORD (WORD_MAX), cut where it is longer.  Escapes other than
 * of quotes and backslashes do not occur in names: they become '?'. */
static ts_err read_word(ts_reader *r, char *word) {
  size_t n = 0;
  if (!take(r, '"')) return bad(r, "a string is missing");
  while (*r->at && *r->at != '"') {
    char c = *r->at++;
    if (c == '\\' && *r->at) {
      c = *r->at++;
      if (c != '"' && c != '\\' && c != '/') c = '?';
    }
    if (n + 1 < WORD_MAX) word[n++] = c;
  }
  word[n] = '\0';
  return take(r, '"') ? TS_OK : bad(r, "a string has no end");
}

static ts_err read_number(ts_reader *r, double *x) {
  char *end;
  next(r);
  *x = strtod(r->at, &end);
  if (end == r->at) return bad(r, "a number is missing");
  r->at = end;
  return TS_OK;
}

typedef ts_err (*ts_member)(ts_reader *, const char *key, void *arg);

/* Calls FN at the value of each member; FN reads it. */
static ts_err read_object(ts_reader *r, ts_member fn, void *arg) {
  ts_err err = TS_OK;
  char key[WORD_MAX];
  if (!take(r, '{')) return bad(r, "an object is missing");
  if (take(r, '}')) return TS_OK;
  if (++r->depth > DEPTH_MAX) return bad(r, "nested too deep");
  do {
    TS_TRY(read_word(r, key));
    if (!take(r, ':')) return bad(r, "a colon is missing");
    TS_TRY(fn(r, key, arg));
  } while (take(r, ','));
  r->depth--;
  if (!take(r, '}')) return bad(r, "an object has no end");
done:
  return err;
}

static ts_err read_array(ts_reader *r, ts_member fn, void *arg) {
  ts_err err = TS_OK;
  if (!take(r, '[')) return bad(r, "an array is missing");
  if (take(r, ']')) return TS_OK;
  if (++r->depth > DEPTH_MAX) return bad(r, "nested too deep");
  do {
    TS_TRY(fn(r, "", arg));
  } while (take(r, ','));
  r->depth--;
  if (!take(r, ']')) return bad(r, "an array has no end");
done:
  return err;
}

static ts_err skip(ts_reader *r, const char *key, void *arg) {
  char word[WORD_MAX];
  double x;
  (void)key, (void)arg;
  switch (next(r)) {
  case '{':
    return read_object(r, skip, NULL);
  case '[':
    return read_array(r, skip, NULL);
  case '"':
    return read_word(r, word);
  case 't':
  case 'f':
  case 'n':
    r->at += strspn(r->at, "truefalsn");
    return TS_OK;
  default:
    return read_number(r, &x);
  }
}

/* ---- events -------------------------------------------------------------- */

typedef struct ts_event_text {
  char ph[WORD_MAX], name[WORD_MAX], cat[WORD_MAX];
  char given[WORD_MAX], phase[WORD_MAX], op[WORD_MAX]; /* args */
  double pid, tid, ts, dur, batch, bytes;
} ts_event_text;

typedef struct ts_field {
  const char *key;
  size_t word, number; /* offset in ts_event_text; 0: not that */
} ts_field;

#define WORD(key, field)                                                       \
  { key, offsetof(ts_event_text, field) + 1, 0 }
#define NUMBER(key, field)                                                     \
  { key, 0, offsetof(ts_event_text, field) + 1 }

/* Reads the value of KEY where FIELDS has it, else leaves it out. */
static ts_err read_field(ts_reader *r, const char *key, const ts_field *fields,
                         ts_event_text *e) {
  for (; fields->key; fields++) {
    if (strcmp(fields->key, key) != 0) continue;
    char *base = (char *)e;
    if (fields->word) return read_word(r, base + fields->word - 1);
    double x;
    ts_err err = read_number(r, &x);
    memcpy(base + fields->number - 1, &x, sizeof x);
    return err;
  }
  return skip(r, key, NULL);
}

/* Counters have series of any name, which may be "phase". */
static ts_err read_arg(ts_reader *r, const char *key, void *e) {
  static const ts_field fields[] = {
      WORD("name", given),    WORD("phase", phase),   WORD("op", op),
      NUMBER("batch", batch), NUMBER("bytes", bytes), {NULL, 0, 0}};
  return next(r) == '{' || next(r) == '[' ? skip(r, key, NULL)
                                          : read_field(r, key, fields, e);
}

static ts_err read_event_field(ts_reader *r, const char *key, void *e) {
  static const ts_field fields[] = {WORD("ph", ph),     WORD("name", name),
                                    WORD("cat", cat),   NUMBER("pid", pid),
                                    NUMBER("tid", tid), NUMBER("ts", ts),
                                    NUMBER("dur", dur), {NULL, 0, 0}};
  if (!strcmp(key, "args")) return read_object(r, read_arg, e);
  return read_field(r, key, fields, e);
}

static ts_err intern(ts_trace *t, const char **out, const char *word) {
  ts_err err = TS_OK;
  for (int32_t i = 0; i < t->n_strings; i++)
    if (!strcmp(t->strings[i], word)) {
      *out = t->strings[i];
      return TS_OK;
    }
  TS_TRY(ts_mem_resize(&t->strings, (size_t)t->n_strings * sizeof(char *),
                       (size_t)(t->n_strings + 1) * sizeof(char *),
                       TS_TAG_MISC));
  TS_TRY(ts_mem_strdup(&t->strings[t->n_strings], word));
  *out = t->strings[t->n_strings++];
done:
  return err;
}

static ts_err find_lane(ts_trace *t, int32_t *out, int32_t rank, int32_t row) {
  ts_err err = TS_OK;
  for (int32_t i = 0; i < t->n_lanes; i++)
    if (t->lanes[i].rank == rank && t->lanes[i].row == row) {
      *out = i;
      return TS_OK;
    }
  TS_TRY(ts_mem_resize(&t->lanes, (size_t)t->n_lanes * sizeof *t->lanes,
                       (size_t)(t->n_lanes + 1) * sizeof *t->lanes,
                       TS_TAG_MISC));
  t->lanes[t->n_lanes] = (ts_read_lane){rank, row, ""};
  if (rank >= t->n_ranks) t->n_ranks = rank + 1;
  *out = t->n_lanes++;
done:
  return err;
}

static ts_err add_span(ts_reader *r, const ts_event_text *e, int32_t lane) {
  static const char *const kinds[] = {"compute", "data", "comm", "wait"};
  ts_err err = TS_OK;
  ts_trace *t = r->trace;
  int kind = 0;
  while (kind < 4 && strcmp(kinds[kind], e->cat) != 0) kind++;
  if (kind == 4) return bad(r, "a span of no kind that lanes have");
  if (t->n_spans == r->capacity) {
    const int64_t more = r->capacity ? 2 * r->capacity : 1024;
    TS_TRY(ts_mem_resize(&t->spans, (size_t)r->capacity * sizeof *t->spans,
                         (size_t)more * sizeof *t->spans, TS_TAG_MISC));
    r->capacity = more;
  }
  ts_read_span *s = &t->spans[t->n_spans];
  *s = (ts_read_span){.lane = lane,
                      .kind = (ts_span_kind)kind,
                      .batch = (int64_t)e->batch,
                      .bytes = (int64_t)e->bytes,
                      .t0 = e->ts,
                      .t1 = e->ts + e->dur};
  TS_TRY(intern(t, &s->name, e->name));
  TS_TRY(intern(t, &s->phase, e->phase));
  TS_TRY(intern(t, &s->op, e->op));
  t->n_spans++;
done:
  return err;
}

static ts_err read_event(ts_reader *r, const char *key, void *arg) {
  ts_err err = TS_OK;
  ts_event_text e = {.pid = -1, .batch = -1};
  int32_t lane;
  (void)key, (void)arg;
  TS_TRY(read_object(r, read_event_field, &e));
  if (!*e.ph || !(e.pid >= 0 && e.pid < 1e6 && e.tid >= 0 && e.tid < 1e6))
    return bad(r, "an event lacks ph or pid");
  const bool names = !strcmp(e.ph, "M") && !strcmp(e.name, "thread_name");
  if (strcmp(e.ph, "X") != 0 && !names) return TS_OK;
  TS_TRY(find_lane(r->trace, &lane, (int32_t)e.pid, (int32_t)e.tid));
  TS_TRY(names ? intern(r->trace, &r->trace->lanes[lane].name, e.given)
               : add_span(r, &e, lane));
done:
  return err;
}

/* ---- the file ------------------------------------------------------------ */

static ts_err read_about(ts_reader *r, const char *key, void *arg) {
  ts_err err = TS_OK;
  char word[WORD_MAX];
  if (strcmp(key, "program") != 0) return skip(r, key, arg);
  TS_TRY(read_word(r, word));
  r->ours = !strcmp(word, "tessera");
done:
  return err;
}

static ts_err read_member(ts_reader *r, const char *key, void *arg) {
  if (!strcmp(key, "otherData")) return read_object(r, read_about, arg);
  if (!strcmp(key, "traceEvents")) return read_array(r, read_event, arg);
  return skip(r, key, arg);
}

static int by_rank_and_row(const void *a, const void *b) {
  const ts_read_lane *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

static int by_start(const void *a, const void *b) {
  const ts_read_span *x = a, *y = b;
  if (x->t0 != y->t0) return x->t0 < y->t0 ? -1 : 1;
  return (x->t1 > y->t1) - (x->t1 < y->t1);
}

/* Lanes by rank and row; spans follow their new numbers. */
static ts_err sort(ts_trace *t) {
  ts_err err = TS_OK;
  ts_read_lane *old = NULL;
  if (!t->n_lanes) return TS_OK;
  TS_TRY(ts_mem_array(&old, t->n_lanes, sizeof *old, TS_TAG_MISC));
  memcpy(old, t->lanes, (size_t)t->n_lanes * sizeof *old);
  qsort(t->lanes, (size_t)t->n_lanes, sizeof *t->lanes, by_rank_and_row);
  for (int64_t i = 0; i < t->n_spans; i++) {
    const ts_read_lane *lane = &old[t->spans[i].lane];
    t->spans[i].lane =
        (int32_t)((ts_read_lane *)bsearch(lane, t->lanes, (size_t)t->n_lanes,
                                          sizeof *t->lanes, by_rank_and_row) -
                  t->lanes);
  }
  if (t->n_spans)
    qsort(t->spans, (size_t)t->n_spans, sizeof *t->spans, by_start);
done:
  ts_mem_free(old);
  return err;
}

ts_err ts_trace_read(ts_trace *t, const char *path) {
  ts_err err = TS_OK;
  ts_str text = {0};
  *t = (ts_trace){0};
  TS_TRY(ts_file_read(&text, path));
  ts_reader r = {.path = path,
                 .text = text.text ? text.text : "",
                 .at = text.text ? text.text : "",
                 .trace = t};
  TS_TRY(read_object(&r, read_member, NULL));
  if (next(&r)) TS_TRY(bad(&r, "there is more behind its end"));
  if (!r.ours) TS_TRY(bad(&r, "otherData.program does not say so"));
  TS_TRY(sort(t));
done:
  ts_str_reset(&text);
  if (err != TS_OK) ts_trace_reset(t);
  return err;
}

void ts_trace_reset(ts_trace *t) {
  for (int32_t i = 0; i < t->n_strings; i++) ts_mem_free(t->strings[i]);
  ts_mem_free(t->strings);
  ts_mem_free(t->lanes);
  ts_mem_free(t->spans);
  *t = (ts_trace){0};
}
