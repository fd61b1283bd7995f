/* trace.c - phase timers and Chrome traces. */
#include "runtime/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PHASES_MAX = 128, LANES_MAX = 32 };

typedef struct ts_phase {
  const char *name;
  double seconds;
  int64_t calls;
} ts_phase;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ts_phase phases[PHASES_MAX];
static int n_phases;
static FILE *file;
static atomic_bool tracing;
static int trace_rank, n_events, n_lanes;
static const char *lanes[LANES_MAX];

double ts_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void ts_timer_add(const char *phase, double seconds) {
  int i = 0;
  pthread_mutex_lock(&lock);
  while (i < n_phases && phases[i].name != phase &&
         strcmp(phases[i].name, phase) != 0)
    i++;
  if (i == n_phases && n_phases < PHASES_MAX)
    phases[n_phases++] = (ts_phase){phase, 0, 0};
  if (i < n_phases) {
    phases[i].seconds += seconds;
    phases[i].calls++;
  }
  pthread_mutex_unlock(&lock);
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
  for (int i = 0; i < n; i++)
    fn(copy[i].name, copy[i].seconds, copy[i].calls, arg);
}

ts_err ts_trace_open(const char *path, int rank) {
  char name[4096];
  snprintf(name, sizeof name, "%s.%d.json", path, rank);
  file = fopen(name, "w");
  if (!file) return ts_fail(TS_ERR_IO, "trace %s: %s", name, strerror(errno));
  trace_rank = rank;
  n_events = n_lanes = 0;
  fputs("[\n", file);
  atomic_store(&tracing, true);
  return TS_OK;
}

bool ts_trace_on(void) {
  return atomic_load(&tracing);
}

/* Number of a lane's row; names it when it is new.  Under lock. */
static int lane_row(const char *lane) {
  int i = 0;
  while (i < n_lanes && strcmp(lanes[i], lane) != 0) i++;
  if (i < n_lanes || n_lanes == LANES_MAX) return i;
  lanes[n_lanes++] = lane;
  fprintf(file,
          "%s{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,"
          "\"args\":{\"name\":\"%s\"}}",
          n_events++ ? ",\n" : "", trace_rank, i, lane);
  return i;
}

void ts_trace_span(const char *lane, const char *span, double t0, double t1) {
  if (!ts_trace_on()) return;
  pthread_mutex_lock(&lock);
  if (file) {
    int row = lane_row(lane);
    fprintf(file,
            "%s{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,"
            "\"ts\":%.3f,\"dur\":%.3f}",
            n_events++ ? ",\n" : "", span, trace_rank, row, t0 * 1e6,
            (t1 - t0) * 1e6);
  }
  pthread_mutex_unlock(&lock);
}

void ts_trace_counter(const char *name, double value) {
  if (!ts_trace_on()) return;
  pthread_mutex_lock(&lock);
  if (file)
    fprintf(file,
            "%s{\"ph\":\"C\",\"name\":\"%s\",\"pid\":%d,\"ts\":%.3f,"
            "\"args\":{\"value\":%.9g}}",
            n_events++ ? ",\n" : "", name, trace_rank, ts_now() * 1e6, value);
  pthread_mutex_unlock(&lock);
}

ts_err ts_trace_close(void) {
  if (!atomic_exchange(&tracing, false)) return TS_OK;
  pthread_mutex_lock(&lock);
  fputs("\n]\n", file);
  int rc = fclose(file);
  file = NULL;
  pthread_mutex_unlock(&lock);
  return rc == 0 ? TS_OK : ts_fail(TS_ERR_IO, "the trace can't be written");
}
