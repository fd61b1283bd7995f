/* watchdog.c - sections, deadlines, and the thread that watches them. */
#include "runtime/watchdog.h"

#include <errno.h>
#include <execinfo.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "runtime/comm.h"
#include "runtime/device_impl.h"
#include "runtime/trace.h"
#include "runtime/watchdog_impl.h"

/* Times of that many steps give the median, from LEARNT_FROM steps on.  A
 * deadline is many steps long, and never so short that a network or file
 * system that recovers would end a run. */
enum { TIMES = 32, LEARNT_FROM = 8, STEPS_LONG = 50, LEARNT_MIN_S = 120 };
#define TICK_S 0.25
/* How long nodes have to answer, and others for the one that speaks. */
#define ANSWER_S 2.0
#define SPEAK_S 30.0

static pthread_t thread;
static atomic_bool running;
static sem_t wake;
static atomic_uint moved; /* counts every sign of getting on */
static atomic_uint moved_beside;
static atomic_bool beside; /* something is written beside the steps */
static atomic_int crashed;
static void *frames[32];
static int n_frames;
static bool seen_pids; /* processes of this node can be looked up */

static ts_watch_options options = {.otherwise_s = 600};
static _Atomic double median_s; /* of a step, 0: not known */
static double times[TIMES], section_s[TS_SECTION_COUNT], entered;
static int64_t n_times;

/* ---- sections ------------------------------------------------------------ */

static void get_on(double now) {
  ts_watch_row *own = ts_watch_own();
  own->since = now;
  atomic_fetch_add(&moved, 1);
}

ts_section ts_watch_enter(ts_section next) {
  ts_watch_row *own = ts_watch_own();
  const ts_section before = (ts_section)own->section;
  const double now = ts_now();
  section_s[before] += now - entered;
  entered = now;
  own->section = (int)next;
  get_on(now);
  return before;
}

void ts_watch_beside(int on) {
  atomic_fetch_add(&moved_beside, 1);
  atomic_store(&beside, on);
}

void ts_watch_beside_beat(void) {
  atomic_fetch_add(&moved_beside, 1);
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void ts_watch_learn(double seconds) {
  double sorted[TIMES];
  times[n_times++ % TIMES] = seconds;
  if (n_times < LEARNT_FROM || n_times % LEARNT_FROM) return;
  const size_t n = n_times < TIMES ? (size_t)n_times : TIMES;
  memcpy(sorted, times, sizeof sorted);
  qsort(sorted, n, sizeof *sorted, by_size);
  median_s = sorted[n / 2];
}

void ts_watch_step(int64_t step) {
  ts_watch_row *own = ts_watch_own();
  ts_watch_enter((ts_section)own->section);
  if (own->step)
    ts_watch_learn(section_s[TS_SECTION_STEP] + section_s[TS_SECTION_INPUT]);
  memset(section_s, 0, sizeof section_s);
  own->step = step;
}

void ts_watch_beat(void) {
  get_on(ts_now());
}

static double own_deadline(ts_section s) {
  const bool steps =
      s == TS_SECTION_STEP || s == TS_SECTION_EVAL || s == TS_SECTION_INPUT;
  if (s == TS_SECTION_NONE) return INFINITY;
  if (options.deadline_s[s] > 0) return options.deadline_s[s];
  if (steps && median_s > 0) return fmax(LEARNT_MIN_S, STEPS_LONG * median_s);
  return options.otherwise_s > 0 ? options.otherwise_s : INFINITY;
}

double ts_watch_deadline(ts_section s) {
  const double own = own_deadline(s);
  const double input = options.deadline_s[s] > 0
                           ? options.deadline_s[TS_SECTION_INPUT]
                           : own_deadline(TS_SECTION_INPUT);
  const bool waits = s == TS_SECTION_STEP || s == TS_SECTION_EVAL;
  return waits ? fmax(own, input) : own;
}

void ts_watch_configure(const ts_watch_options *o) {
  options = *o;
  ts_watch_nodes_of(o->ranks_per_node);
}

/* ---- lanes --------------------------------------------------------------- */

ts_watch_lane *ts_watch_lane_take(const char *comm) {
  ts_watch_lane *lanes = ts_watch_own()->lanes;
  for (int i = 0; i < TS_WATCH_LANES; i++)
    if (!*lanes[i].comm) {
      snprintf(lanes[i].comm, sizeof lanes[i].comm, "%s", comm);
      lanes[i].begun = lanes[i].started = lanes[i].done = 0;
      return &lanes[i];
    }
  return NULL;
}

void ts_watch_lane_give(ts_watch_lane *l) {
  if (l) *l->comm = '\0';
}

void ts_watch_lane_begin(ts_watch_lane *l, const char *op, uint64_t number) {
  if (!l) return;
  if (l->begun == l->done) snprintf(l->op, sizeof l->op, "%s", op);
  l->begun = number;
}

void ts_watch_lane_start(ts_watch_lane *l, const char *op, uint64_t number) {
  if (!l) return;
  snprintf(l->op, sizeof l->op, "%s", op);
  l->started = number;
}

void ts_watch_lane_done(ts_watch_lane *l, uint64_t number) {
  if (l) l->done = number;
}

/* ---- speaking ------------------------------------------------------------ */

/* Another one prints and ends all; if it can't, so be it, without a word. */
static _Noreturn void leave_it(int code) {
  const double t0 = ts_now();
  while (ts_now() < t0 + SPEAK_S) {
    (void)ts_watch_answer(false);
    ts_watch_own()->beat = ts_now();
    ts_pause(100000);
  }
  ts_mpi_abort(code);
}

/* HEAD, and what every rank is at, for the whole job. */
static _Noreturn void speak(const char *head, const ts_watch_row *rows,
                            ts_err err, ts_watch_blame blame) {
  ts_str text = {0};
  if (ts_str_append(&text, "%s", head) != TS_OK ||
      ts_watch_text(&text, rows, ts_watch_size(), blame) != TS_OK)
    ts_err_clear();
  ts_log_error(text.text ? text.text : head);
  ts_mpi_abort(ts_err_exit_code(err));
}

static _Noreturn void fail_comm(const char *message) {
  const int code = ts_err_exit_code(TS_ERR_COMM);
  if (!ts_watch_claim()) leave_it(code);
  const ts_watch_row *rows = ts_watch_collect(ANSWER_S);
  if (!rows) leave_it(code);
  speak(message, rows, TS_ERR_COMM, TS_WATCH_NOBODY);
}

_Noreturn void ts_watch_fail(ts_err err) {
  const ts_watch_row *own = ts_watch_own();
  char text[TS_ERR_TEXT_MAX + TS_WATCH_HOST + 64];
  const char *message = ts_err_message();
  if (!*message) message = ts_err_name(err);
  if (err == TS_ERR_COMM) fail_comm(message);
  if (!ts_watch_claim()) leave_it(ts_err_exit_code(err));
  snprintf(text, sizeof text, "%s (rank %d on %s)", message, own->rank,
           own->host);
  ts_log_error(ts_watch_size() > 1 ? text : message);
  ts_mpi_abort(ts_err_exit_code(err));
}

/* Returns where another rank speaks, or where it was only slow: COUNT got on
 * while the other nodes were asked. */
static void say(const char *head, atomic_uint *count, ts_watch_blame blame) {
  const unsigned before = atomic_load(count);
  if (!ts_watch_claim()) return;
  const ts_watch_row *rows = ts_watch_collect(ANSWER_S);
  if (rows && atomic_load(count) == before)
    speak(head, rows, TS_ERR_COMM, blame);
  ts_watch_unclaim();
}

static void say_beside(double waited) {
  const ts_watch_row *own = ts_watch_own();
  char head[TS_WATCH_HOST + 256];
  snprintf(head, sizeof head,
           "no progress for %.0f s in the checkpoint that rank %d on %s writes "
           "beside step %lld (deadline %.0f s, of section save)",
           waited, own->rank, own->host, (long long)own->step,
           own_deadline(TS_SECTION_SAVE));
  /* Others may wait for anything meanwhile; a rank that does not run keeps the
   * writer from its end. */
  say(head, &moved_beside, TS_WATCH_STOPPED);
}

static void say_overdue(ts_section s, double waited) {
  char head[256];
  const char *from = options.deadline_s[s] > 0 ? "from the deck"
                     : median_s > 0            ? "learnt from the steps"
                                               : "before any is learnt";
  snprintf(head, sizeof head,
           "no progress for %.0f s in section %s of step %lld (deadline %.0f "
           "s, %s)",
           waited, ts_section_name((int)s), (long long)ts_watch_own()->step,
           ts_watch_deadline(s), from);
  say(head, &moved, TS_WATCH_ANYBODY);
}

/* ---- crashes ------------------------------------------------------------- */

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { N_CRASHES = sizeof crash_signals / sizeof *crash_signals };

/* The watching thread speaks; without it the signal has its usual end. */
static void take_crash(int number) {
  const struct timespec end = {(time_t)SPEAK_S, 0};
  n_frames = backtrace(frames, sizeof frames / sizeof *frames);
  atomic_store(&crashed, number);
  sem_post(&wake);
  if (atomic_load(&running) && !pthread_equal(pthread_self(), thread))
    nanosleep(&end, NULL);
  signal(number, SIG_DFL);
  raise(number);
}

static void catch_crashes(bool on) {
#ifndef __SANITIZE_ADDRESS__               /* which says more */
  if (on) n_frames = backtrace(frames, 1); /* loads what it needs */
  for (int i = 0; i < N_CRASHES; i++)
    signal(crash_signals[i], on ? take_crash : SIG_DFL);
#else
  (void)on, (void)take_crash;
#endif
}

static _Noreturn void say_crash(int number) {
  const ts_watch_row *own = ts_watch_own();
  if (!ts_watch_claim()) leave_it(ts_err_exit_code(TS_ERR_INTERNAL));
  char text[512];
  snprintf(text, sizeof text,
           "rank %d on %s crashed in section %s of step %lld: %s; this is a "
           "bug, its stack:",
           own->rank, own->host, ts_section_name(own->section),
           (long long)own->step, strsignal(number));
  ts_log_error(text);
  backtrace_symbols_fd(frames, n_frames, STDERR_FILENO);
  ts_mpi_abort(ts_err_exit_code(TS_ERR_INTERNAL));
}

/* A rank of this node whose process is no more, though it did not say so:
 * killed.  The launcher ends the others, with a code of its own; here is the
 * message.  Processes may be hidden from each other: only those that were
 * seen once count.  Where all are ended at once nobody is left to look twice.
 */
static const ts_watch_row *find_gone(void) {
  static int n_looks;
  const ts_watch_row *r, *gone = NULL;
  bool all_here = true;
  for (int i = 0; (r = ts_watch_local(i)); i++) {
    const bool here = kill(r->pid, 0) == 0 || errno != ESRCH;
    all_here &= here && r->state == TS_WATCH_RUNS;
    if (!here && seen_pids && r->state == TS_WATCH_RUNS) gone = r;
  }
  seen_pids |= all_here;
  n_looks = gone ? n_looks + 1 : 0;
  return n_looks > 1 ? gone : NULL;
}

static _Noreturn void say_gone(const ts_watch_row *r) {
  char text[512];
  const struct timespec end = {10, 0};
  if (!ts_watch_claim()) leave_it(ts_err_exit_code(TS_ERR_COMM));
  snprintf(text, sizeof text,
           "rank %d on %s was killed in section %s of step %lld: by the "
           "system when memory ran out, or by somebody; the same line goes on "
           "from the last checkpoint",
           r->rank, r->host, ts_section_name(r->section), (long long)r->step);
  ts_log_error(text);
  nanosleep(&end, NULL); /* the launcher's code says which signal */
  ts_mpi_abort(ts_err_exit_code(TS_ERR_COMM));
}

/* ---- the thread ---------------------------------------------------------- */

/* Shorter until the other processes have been seen: one that is killed soon
 * after the start has a message, too. */
static void wait_tick(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += (long)((seen_pids ? TICK_S : TICK_S / 10) * 1e9);
  t.tv_sec += t.tv_nsec / 1000000000;
  t.tv_nsec %= 1000000000;
  (void)sem_timedwait(&wake, &t);
}

/* Seconds since COUNT last changed, TICKED of them since the last look; time
 * that this thread did not get is no sign of a hang. */
typedef struct ts_since {
  atomic_uint *count;
  unsigned seen;
  double waited;
} ts_since;

static void look(ts_since *s, double ticked) {
  const unsigned now = atomic_load(s->count);
  s->waited = now == s->seen ? s->waited + fmin(ticked, 4 * TICK_S) : 0;
  s->seen = now;
}

static void *watch(void *arg) {
  (void)arg;
  double last = ts_now();
  ts_since steps = {.count = &moved, .seen = atomic_load(&moved)};
  ts_since save = {.count = &moved_beside};
  while (atomic_load(&running)) {
    wait_tick();
    const double now = ts_now();
    const ts_section s = (ts_section)ts_watch_own()->section;
    const ts_watch_row *gone = find_gone();
    ts_watch_own()->beat = now;
    (void)ts_watch_answer(false);
    if (atomic_load(&crashed)) say_crash(atomic_load(&crashed));
    if (gone) say_gone(gone);
    look(&steps, now - last);
    look(&save, now - last);
    last = now;
    if (atomic_load(&beside) && save.waited > own_deadline(TS_SECTION_SAVE))
      say_beside(save.waited);
    if (steps.waited > ts_watch_deadline(s)) say_overdue(s, steps.waited);
    if (steps.waited > ts_watch_deadline(s) + SPEAK_S)
      ts_mpi_abort(ts_err_exit_code(TS_ERR_COMM));
  }
  return NULL;
}

ts_err ts_watch_start(void) {
  if (sem_init(&wake, 0, 0) != 0)
    return ts_fail(TS_ERR_INTERNAL, "no semaphore for the watchdog");
  ts_watch_own()->beat = ts_now();
  ts_watch_own()->state = TS_WATCH_RUNS;
  ts_watch_enter(TS_SECTION_SETUP);
  atomic_store(&running, true);
  if (pthread_create(&thread, NULL, watch, NULL) != 0) {
    atomic_store(&running, false);
    return ts_fail(TS_ERR_NOMEM, "no thread for the watchdog can be started");
  }
  catch_crashes(true);
  return TS_OK;
}

void ts_watch_stop(void) {
  if (!atomic_exchange(&running, false)) return;
  catch_crashes(false);
  sem_post(&wake);
  pthread_join(thread, NULL);
  sem_destroy(&wake);
  ts_watch_own()->section = TS_SECTION_NONE;
  ts_watch_own()->state = TS_WATCH_LEFT;
}
