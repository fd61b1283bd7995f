/* trace.c - phase timers and Chrome traces. */
#include "runtime/trace.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"

enum { PHASES_MAX = 128, ROWS_MAX = 256 };

typedef struct ts_phase {
  const char *name;
  const char *parent; /* of a part: the phase; else "" */
  double seconds;
  int64_t calls;
} ts_phase;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ts_phase phases[PHASES_MAX];
static int n_phases;
static FILE *file;
static atomic_bool tracing; /* a file is open and this step is wanted */
static int trace_rank;
static int64_t n_events, first_batch, end_batch;
static double origin;
static struct {
  const char *name; /* NULL: free */
  bool named;       /* in this file */
} rows[ROWS_MAX];
static _Thread_local ts_trace_mark mark = {-1, "", 0};
static _Thread_local bool evaluating;
static _Thread_local const char *inside; /* the phase of ts_timer_enter */

double ts_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void add_to(const char *phase, const char *parent, double seconds) {
  int i = 0;
  pthread_mutex_lock(&lock);
  while (i < n_phases && (strcmp(phases[i].name, phase) != 0 ||
                          strcmp(phases[i].parent, parent) != 0))
    i++;
  if (i == n_phases && n_phases < PHASES_MAX)
    phases[n_phases++] = (ts_phase){phase, parent, 0, 0};
  if (i < n_phases) {
    phases[i].seconds += seconds;
    phases[i].calls++;
  }
  pthread_mutex_unlock(&lock);
}

void ts_timer_add(const char *phase, double seconds) {
  add_to(phase, "", seconds);
}

void ts_timer_part(const char *part, double seconds) {
  add_to(part, inside ? inside : "", seconds);
}

void ts_timer_enter(const char *phase) {
  inside = phase;
}

void ts_timers_reset(void) {
  pthread_mutex_lock(&lock);
  n_phases = 0;
  pthread_mutex_unlock(&lock);
}

void ts_timers_each(void (*fn)(const char *, double, int64_t, void *),
                    void *arg) {
  ts_phase copy[PHASES_MAX];
  pthread_mutex_lock(&lock);
  int n = n_phases;
  memcpy(copy, phases, sizeof copy);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < n; i++) {
    if (*copy[i].parent) continue;
    fn(copy[i].name, copy[i].seconds, copy[i].calls, arg);
    for (int k = 0; k < n; k++)
      if (!strcmp(copy[k].parent, copy[i].name))
        fn(copy[k].name, copy[k].seconds, copy[k].calls, arg);
  }
}

/* ---- marks --------------------------------------------------------------- */

void ts_trace_batch_set(int64_t batch, const char *phase) {
  mark = (ts_trace_mark){batch, evaluating ? "evaluation" : phase, 0};
}

void ts_trace_mark_put(ts_trace_mark m) {
  mark = m;
}

ts_trace_mark ts_trace_mark_now(void) {
  return mark;
}

void ts_trace_evaluating(bool on) {
  evaluating = on;
}

/* ---- rows ---------------------------------------------------------------- */

int ts_trace_row_take(const char *name) {
  int i = 0;
  pthread_mutex_lock(&lock);
  while (i < ROWS_MAX && rows[i].name) i++;
  if (i < ROWS_MAX) {
    rows[i].name = name;
    rows[i].named = false;
  }
  pthread_mutex_unlock(&lock);
  return i < ROWS_MAX ? i : -1;
}

void ts_trace_row_give(int row) {
  if (row < 0) return;
  pthread_mutex_lock(&lock);
  rows[row].name = NULL;
  pthread_mutex_unlock(&lock);
}

/* ---- events -------------------------------------------------------------- */

ts_err ts_trace_open(const char *path, int rank, double origin_s, int64_t first,
                     int64_t end) {
  file = ts_file_stream(path, "w");
  if (!file) return ts_fail(TS_ERR_IO, "trace %s: %s", path, ts_file_why());
  /* Lanes write under a lock: to memory. */
  if (setvbuf(file, NULL, _IOFBF, 1 << 20) != 0)
    return ts_fail(TS_ERR_NOMEM, "trace %s: no buffer", path);
  trace_rank = rank;
  origin = origin_s;
  first_batch = first;
  end_batch = end;
  n_events = 0;
  for (int i = 0; i < ROWS_MAX; i++) rows[i].named = false;
  return TS_OK;
}

void ts_trace_train(int64_t batch) {
  if (file) atomic_store(&tracing, batch >= first_batch && batch < end_batch);
}

bool ts_trace_on(void) {
  return atomic_load(&tracing);
}

int64_t ts_trace_count(void) {
  return n_events;
}

/* Under lock.  An event that there is no memory for is lost. */
static void put(json_t *event) {
  if (n_events++) fputs(",\n", file);
  if (ts_json_put(file, event, 15) != TS_OK) ts_err_clear();
}

/* Microseconds with three digits behind the point. */
static json_t *micros(double seconds) {
  return json_real(rint(1e9 * seconds) / 1e3);
}

/* Under lock. */
static void name_row(int row) {
  if (rows[row].named) return;
  rows[row].named = true;
  put(json_pack("{s:s,s:s,s:i,s:i,s:{s:s}}", "ph", "M", "name", "thread_name",
                "pid", trace_rank, "tid", row, "args", "name", rows[row].name));
}

/* Under lock. */
static void write_span(const ts_span *s) {
  static const char *const kinds[] = {"compute", "data", "comm", "wait"};
  const int64_t bytes = s->op ? s->bytes : s->mark.bytes;
  name_row(s->row);
  json_t *args = json_pack("{s:s}", "phase", s->mark.phase);
  if (s->mark.batch >= 0)
    json_object_set_new(args, "batch", json_integer(s->mark.batch));
  if (s->op) json_object_set_new(args, "op", json_string(s->op));
  if (s->op || bytes) json_object_set_new(args, "bytes", json_integer(bytes));
  put(json_pack("{s:s,s:o,s:s,s:i,s:i,s:o,s:o,s:o}", "ph", "X", "name",
                ts_json_text(s->name), "cat", kinds[s->kind], "pid", trace_rank,
                "tid", s->row, "ts", micros(s->t0 - origin), "dur",
                micros(s->t1 - s->t0), "args", args));
}

void ts_trace_span(const ts_span *s) {
  if (ts_trace_on()) ts_trace_span_late(s);
}

void ts_trace_span_late(const ts_span *s) {
  if (s->row < 0) return;
  pthread_mutex_lock(&lock);
  if (file) write_span(s);
  pthread_mutex_unlock(&lock);
}

void ts_trace_counter(const char *name, int n, const char *const *names,
                      const double *values) {
  if (!ts_trace_on()) return;
  pthread_mutex_lock(&lock);
  if (file) {
    json_t *args = json_object();
    ts_json_numbers(args, n, names, values);
    put(json_pack("{s:s,s:s,s:i,s:o,s:o}", "ph", "C", "name", name, "pid",
                  trace_rank, "ts", micros(ts_now() - origin), "args", args));
  }
  pthread_mutex_unlock(&lock);
}

ts_err ts_trace_close(void) {
  if (!file) return TS_OK;
  atomic_store(&tracing, false);
  pthread_mutex_lock(&lock);
  const bool bad = ferror(file) != 0;
  const int rc = fclose(file);
  file = NULL;
  pthread_mutex_unlock(&lock);
  return rc == 0 && !bad ? TS_OK
                         : ts_fail(TS_ERR_IO, "the trace can't be written: %s",
                                   strerror(errno));
}
