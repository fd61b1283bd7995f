/* trace_read.c - reads the traces that ts_trace_file_close writes, in any
 * layout.  Events are parsed one at a time: as one tree they would take twenty
 * times the memory of the text. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "commands/trace.h"

typedef struct ts_reader {
  const char *path, *text, *at, *end;
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

static bool take(ts_reader *r, char c) {
  r->at += strspn(r->at, " \t\r\n");
  if (*r->at != c) return false;
  r->at++;
  return true;
}

/* The value here, the caller's. */
static ts_err load(ts_reader *r, json_t **out) {
  json_error_t e;
  *out = json_loadb(r->at, (size_t)(r->end - r->at),
                    JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, &e);
  r->at += e.position; /* of the value's end, or of the error */
  return *out ? TS_OK : bad(r, e.text);
}

/* ---- events -------------------------------------------------------------- */

typedef struct ts_event {
  const char *ph, *name, *cat, *given, *phase, *op; /* given: by args.name */
  double pid, tid, ts, dur, batch, bytes;
} ts_event;

static ts_err intern(ts_trace *t, const char **out, const char *word) {
  for (int32_t i = 0; i < t->n_strings; i++)
    if (!strcmp(t->strings[i], word)) {
      *out = t->strings[i];
      return TS_OK;
    }
  TS_DO(ts_mem_extend(&t->strings, t->n_strings, t->n_strings + 1,
                      sizeof(char *), TS_TAG_MISC));
  TS_DO(ts_mem_strdup(&t->strings[t->n_strings], word));
  *out = t->strings[t->n_strings++];
  return TS_OK;
}

static ts_err find_lane(ts_trace *t, int32_t *out, int32_t rank, int32_t row) {
  for (int32_t i = 0; i < t->n_lanes; i++)
    if (t->lanes[i].rank == rank && t->lanes[i].row == row) {
      *out = i;
      return TS_OK;
    }
  TS_DO(ts_mem_extend(&t->lanes, t->n_lanes, t->n_lanes + 1, sizeof *t->lanes,
                      TS_TAG_MISC));
  t->lanes[t->n_lanes] = (ts_read_lane){rank, row, ""};
  if (rank >= t->n_ranks) t->n_ranks = rank + 1;
  *out = t->n_lanes++;
  return TS_OK;
}

static ts_err add_span(ts_reader *r, const ts_event *e, int32_t lane) {
  static const char *const kinds[] = {"compute", "data", "comm", "wait"};
  ts_trace *t = r->trace;
  int kind = 0;
  while (kind < 4 && strcmp(kinds[kind], e->cat) != 0) kind++;
  if (kind == 4) return bad(r, "a span of no kind that lanes have");
  if (t->n_spans == r->capacity) {
    const int64_t more = r->capacity ? 2 * r->capacity : 1024;
    TS_DO(ts_mem_extend(&t->spans, r->capacity, more, sizeof *t->spans,
                        TS_TAG_MISC));
    r->capacity = more;
  }
  ts_read_span *s = &t->spans[t->n_spans];
  *s = (ts_read_span){.lane = lane,
                      .kind = (ts_span_kind)kind,
                      .batch = (int64_t)e->batch,
                      .bytes = (int64_t)e->bytes,
                      .t0 = e->ts,
                      .t1 = e->ts + e->dur};
  TS_DO(intern(t, &s->name, e->name));
  TS_DO(intern(t, &s->phase, e->phase));
  TS_DO(intern(t, &s->op, e->op));
  t->n_spans++;
  return TS_OK;
}

static ts_err read_event(ts_reader *r, json_t *json) {
  json_error_t e;
  json_t *args = NULL;
  ts_event x = {.name = "", .cat = "", .given = "", .phase = "", .op = ""};
  int32_t lane;
  x.batch = -1;
  if (json_unpack_ex(json, &e, 0, "{s:s,s:F,s?s,s?s,s?F,s?F,s?F,s?o}", "ph",
                     &x.ph, "pid", &x.pid, "name", &x.name, "cat", &x.cat,
                     "tid", &x.tid, "ts", &x.ts, "dur", &x.dur, "args",
                     &args) != 0)
    return bad(r, e.text);
  if (!(x.pid >= 0 && x.pid < 1e6 && x.tid >= 0 && x.tid < 1e6))
    return bad(r, "an event's pid or tid is no rank's");
  /* Counters have series of any name, which may be "phase". */
  const bool names = !strcmp(x.ph, "M") && !strcmp(x.name, "thread_name");
  if (strcmp(x.ph, "X") != 0 && !names) return TS_OK;
  if (args && json_unpack_ex(args, &e, 0, "{s?s,s?s,s?s,s?F,s?F}", "name",
                             &x.given, "phase", &x.phase, "op", &x.op, "batch",
                             &x.batch, "bytes", &x.bytes) != 0)
    return bad(r, e.text);
  TS_DO(find_lane(r->trace, &lane, (int32_t)x.pid, (int32_t)x.tid));
  return names ? intern(r->trace, &r->trace->lanes[lane].name, x.given)
               : add_span(r, &x, lane);
}

static ts_err read_events(ts_reader *r) {
  if (!take(r, '[')) return bad(r, "an array is missing");
  if (take(r, ']')) return TS_OK;
  do {
    json_t *event;
    TS_DO(load(r, &event));
    const ts_err err = read_event(r, event);
    json_decref(event);
    TS_DO(err);
  } while (take(r, ','));
  return take(r, ']') ? TS_OK : bad(r, "an array has no end");
}

/* ---- the file ------------------------------------------------------------ */

static ts_err read_member(ts_reader *r) {
  ts_err err = TS_OK;
  json_t *key = NULL, *value = NULL;
  const char *program = NULL;
  TS_TRY(load(r, &key));
  if (!json_is_string(key)) TS_TRY(bad(r, "a name is missing"));
  if (!take(r, ':')) TS_TRY(bad(r, "a colon is missing"));
  if (!strcmp(json_string_value(key), "traceEvents")) {
    TS_TRY(read_events(r));
    goto done;
  }
  TS_TRY(load(r, &value));
  if (!strcmp(json_string_value(key), "otherData") &&
      json_unpack(value, "{s:s}", "program", &program) == 0)
    r->ours = !strcmp(program, "tessera");
done:
  json_decref(key);
  json_decref(value);
  return err;
}

static ts_err read_object(ts_reader *r) {
  if (!take(r, '{')) return bad(r, "an object is missing");
  if (take(r, '}')) return TS_OK;
  do {
    TS_DO(read_member(r));
  } while (take(r, ','));
  if (!take(r, '}')) return bad(r, "an object has no end");
  if (!take(r, '\0')) return bad(r, "there is more behind its end");
  return TS_OK;
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
  ts_reader r = {.path = path, .text = text.text ? text.text : "", .trace = t};
  r.at = r.text;
  r.end = r.text + text.n_bytes;
  TS_TRY(read_object(&r));
  if (!r.ours) TS_TRY(bad(&r, "otherData.program does not say so"));
  TS_TRY(sort(t));
done:
  ts_str_reset(&text);
  if (err != TS_OK) ts_trace_reset(t);
  return err;
}

void ts_trace_reset(ts_trace *t) {
  for (int32_t i = 0; i < t->n_strings; i++) ts_mem_free(t->strings[i]);
  ts_mem_free_all(t->strings, t->lanes, t->spans);
  *t = (ts_trace){0};
}
