/* plot_read.c - metrics.jsonl, line by line: one flat object each.  A run that
 * was killed may leave half a line, and be read while it writes the next: what
 * can't be read is counted, not refused. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"
#include "commands/plot.h"
#include "io/metrics_log.h"

static const struct {
  const char *name, *heading, *key, *of_eval;
} figures[] = {
#define FIGURE(id, name, heading, key, of_eval) {name, heading, key, of_eval},
    TS_PLOT_LIST(FIGURE)
#undef FIGURE
};

const char *ts_plot_name(ts_plot_what w) {
  return figures[w].name;
}
const char *ts_plot_heading(ts_plot_what w) {
  return figures[w].heading;
}

/* ---- a line -------------------------------------------------------------- */

typedef struct ts_plot_line {
  double step, samples; /* NAN: not there */
  double y[TS_PLOT_COUNT], y_eval[TS_PLOT_COUNT];
  ts_plot_data data;
  bool of_table;
  const char *task; /* in JSON; "": of none */
} ts_plot_line;

/* NAN where KEY is no number. */
static double number(const json_t *json, const char *key) {
  const json_t *x = json_object_get(json, key);
  return json_is_number(x) ? json_number_value(x) : NAN;
}

static ts_plot_data data_of(const json_t *json) {
  if (json_is_true(json_object_get(json, "eval"))) return TS_PLOT_EVAL;
  if (json_is_true(json_object_get(json, "valid"))) return TS_PLOT_VALID;
  return TS_PLOT_TRAIN;
}

static bool read_line(const json_t *json, ts_plot_line *l) {
  const char *task = json_string_value(json_object_get(json, "task"));
  *l = (ts_plot_line){.step = number(json, "step"),
                      .samples = number(json, "samples"),
                      .data = data_of(json),
                      .of_table = json_object_get(json, "table") != NULL,
                      .task = task ? task : ""};
  for (int w = 0; w < TS_PLOT_COUNT; w++) {
    l->y[w] = number(json, figures[w].key);
    l->y_eval[w] = number(json, figures[w].of_eval);
  }
  return l->step >= 0 && l->step < 9e15;
}

/* ---- series -------------------------------------------------------------- */

/* Drops points from STEP on. */
static void drop_from(ts_plot_series *s, int64_t step) {
  while (s->n && s->point[s->n - 1].step >= step) s->n--;
}

static ts_err add_point(ts_plot_series *s, ts_plot_point p) {
  drop_from(s, p.step);
  if (s->n == s->capacity) {
    const int64_t more = s->capacity ? 2 * s->capacity : 64;
    TS_DO(ts_mem_extend(&s->point, s->capacity, more, sizeof p, TS_TAG_MISC));
    s->capacity = more;
  }
  s->point[s->n++] = p;
  return TS_OK;
}

/* The series of the run, made where it is not there yet. */
static ts_err find_series(ts_plot_run *r, ts_plot_series **out, ts_plot_what w,
                          ts_plot_data data, const char *task) {
  for (int32_t i = 0; i < r->n_series; i++) {
    ts_plot_series *s = &r->series[i];
    *out = s;
    if (s->what == w && s->data == data &&
        !strcmp(s->task ? s->task : "", task))
      return TS_OK;
  }
  TS_DO(ts_mem_extend(&r->series, r->n_series, r->n_series + 1,
                      sizeof *r->series, TS_TAG_MISC));
  ts_plot_series *s = &r->series[r->n_series];
  *s = (ts_plot_series){.what = w, .data = data};
  if (*task) TS_DO(ts_mem_strdup(&s->task, task));
  r->n_series++;
  *out = s;
  return TS_OK;
}

/* Samples seen after STEP, from the lines that say so. */
static double samples_at(const ts_plot_series *clock, int64_t step) {
  const ts_plot_point *p = clock->point;
  int64_t lo = 0, hi = clock->n;
  if (!hi) return NAN;
  while (lo < hi) { /* the first that is not before */
    const int64_t mid = (lo + hi) / 2;
    if (p[mid].step < step)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (lo == clock->n) lo--;
  const ts_plot_point a = lo ? p[lo - 1] : (ts_plot_point){0};
  const double part = p[lo].step > a.step ? (double)(step - a.step) /
                                                (double)(p[lo].step - a.step)
                                          : 1;
  return a.x + (p[lo].x - a.x) * part;
}

/* ---- a file -------------------------------------------------------------- */

static ts_err take_line(ts_plot_run *r, ts_plot_series *clock,
                        const ts_plot_line *l) {
  ts_plot_series *s;
  const int64_t step = (int64_t)l->step;
  if (l->of_table) return TS_OK;
  /* A run that was taken up again: what came after is told anew. */
  drop_from(clock, step + 1);
  for (int32_t i = 0; i < r->n_series; i++) drop_from(&r->series[i], step + 1);
  if (!l->data && isfinite(l->samples))
    TS_DO(add_point(clock, (ts_plot_point){step, l->samples, 0}));
  for (int w = 0; w < TS_PLOT_COUNT; w++) {
    const double y = l->data ? l->y_eval[w] : l->y[w];
    /* A task's log loss is no part of a curve of the loss of all. */
    if (!isfinite(y) || (*l->task && w == TS_PLOT_LOSS)) continue;
    TS_DO(find_series(r, &s, (ts_plot_what)w, l->data, l->task));
    TS_DO(add_point(s, (ts_plot_point){step, l->samples, y}));
  }
  return TS_OK;
}

/* Evaluations say how many samples they had, not when they were: that is the
 * clock's.  Points without a place, and series without points, go. */
static void place(ts_plot_run *r, const ts_plot_series *clock) {
  int32_t n_kept = 0;
  for (int32_t i = 0; i < r->n_series; i++) {
    ts_plot_series *s = &r->series[i];
    int64_t n = 0;
    for (int64_t k = 0; k < s->n; k++) {
      ts_plot_point p = s->point[k];
      if (s->data || !isfinite(p.x)) p.x = samples_at(clock, p.step);
      if (isfinite(p.x)) s->point[n++] = p;
    }
    s->n = n;
    if (n) {
      r->series[n_kept++] = *s;
      continue;
    }
    ts_mem_free_all(s->point, s->task);
  }
  r->n_series = n_kept;
}

static ts_err read_lines(ts_plot_run *r) {
  ts_err err = TS_OK;
  ts_plot_series clock = {0};
  ts_plot_line line;
  ts_metrics_reader reader = {.path = r->path};
  json_t *json;
  for (bool end;; r->n_lines++) {
    TS_TRY(ts_metrics_reader_next(&reader, &json, &end));
    if (end) break;
    if (read_line(json, &line))
      err = take_line(r, &clock, &line);
    else
      r->n_bad++;
    json_decref(json);
    TS_TRY(err);
  }
  if (r->n_lines == r->n_bad)
    TS_THROW(TS_ERR_DATA, "%s: no line of it is one of a run's metrics.jsonl",
             r->path);
  place(r, &clock);
done:
  ts_mem_free(clock.point);
  ts_metrics_reader_reset(&reader);
  return err;
}

/* "runs/a/" is "a", as is "runs/a/metrics.jsonl"; other files have their own
 * names. */
static ts_err name_run(ts_plot_run *r, const char *run, bool is_folder) {
  static const char usual[] = "/metrics.jsonl";
  TS_DO(ts_mem_strdup(&r->name, run));
  char *name = r->name;
  size_t n = strlen(name);
  const size_t tail = sizeof usual - 1;
  if (!is_folder && n > tail && !strcmp(name + n - tail, usual)) n -= tail;
  while (n > 1 && name[n - 1] == '/') n--;
  name[n] = '\0';
  const char *slash = strrchr(name, '/');
  if (slash && slash[1]) memmove(name, slash + 1, strlen(slash + 1) + 1);
  return TS_OK;
}

ts_err ts_plot_read(ts_plot_run *r, const char *run) {
  ts_err err = TS_OK;
  ts_str path = {0};
  struct stat st;
  *r = (ts_plot_run){0};
  const bool is_folder = stat(run, &st) == 0 && S_ISDIR(st.st_mode);
  TS_TRY(ts_str_append(&path, "%s%s", run, is_folder ? "/metrics.jsonl" : ""));
  TS_TRY(ts_mem_strdup(&r->path, path.text));
  TS_TRY(name_run(r, run, is_folder));
  TS_TRY(read_lines(r));
done:
  ts_str_reset(&path);
  if (err != TS_OK) ts_plot_run_reset(r);
  return err;
}

void ts_plot_run_reset(ts_plot_run *r) {
  for (int32_t i = 0; i < r->n_series; i++) {
    ts_mem_free_all(r->series[i].point, r->series[i].task);
  }
  ts_mem_free_all(r->series, r->name, r->path);
  *r = (ts_plot_run){0};
}

void ts_plot_smooth(ts_plot_run *r, int64_t n) {
  for (int32_t i = 0; i < r->n_series; i++) {
    ts_plot_series *s = &r->series[i];
    /* From the end: what is before is still as it was. */
    for (int64_t k = s->data ? -1 : s->n - 1; k >= 0; k--) {
      const int64_t first = k + 1 > n ? k + 1 - n : 0;
      double sum = 0;
      for (int64_t j = first; j <= k; j++) sum += s->point[j].y;
      s->point[k].y = sum / (double)(k + 1 - first);
    }
  }
}
