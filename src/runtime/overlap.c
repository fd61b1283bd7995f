/* overlap.c - two numbers, how many lanes work and how many operations are
 * under way, and what has passed since either changed. */
#include "runtime/overlap.h"

#include <pthread.h>
#include <string.h>

#include "runtime/trace.h"

enum { COMMS_MAX = 32 };

typedef struct ts_flights {
  const char *comm; /* NULL: all together */
  int n;            /* under way */
  ts_overlap sum;
} ts_flights;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ts_flights flights[COMMS_MAX]; /* 0: all together */
static int n_flights = 1, n_working;
static double last; /* when the sums were right */

/* Under lock. */
static void book(void) {
  const double now = ts_now(), dt = now - last;
  last = now;
  for (int i = 0; i < n_flights; i++) {
    if (!flights[i].n) continue;
    flights[i].sum.flight_s += dt;
    if (!n_working) flights[i].sum.exposed_s += dt;
  }
}

static void change_work(int delta) {
  pthread_mutex_lock(&lock);
  book();
  n_working += delta;
  pthread_mutex_unlock(&lock);
}

/* Under lock.  Comms beyond the last are counted together only. */
static ts_flights *find(const char *comm) {
  int i = 1;
  while (i < n_flights && strcmp(flights[i].comm, comm) != 0) i++;
  if (i == COMMS_MAX) return NULL;
  if (i == n_flights) flights[n_flights++] = (ts_flights){.comm = comm};
  return &flights[i];
}

static void change_comm(const char *comm, int delta) {
  pthread_mutex_lock(&lock);
  book();
  ts_flights *f = find(comm);
  if (f) f->n += delta;
  flights[0].n += delta;
  pthread_mutex_unlock(&lock);
}

void ts_overlap_work_begin(void) {
  change_work(1);
}
void ts_overlap_work_end(void) {
  change_work(-1);
}
void ts_overlap_comm_begin(const char *comm) {
  change_comm(comm, 1);
}
void ts_overlap_comm_end(const char *comm) {
  change_comm(comm, -1);
}

void ts_overlap_reset(void) {
  pthread_mutex_lock(&lock);
  book();
  for (int i = 0; i < n_flights; i++) flights[i].sum = (ts_overlap){0, 0};
  pthread_mutex_unlock(&lock);
}

ts_overlap ts_overlap_of(const char *comm) {
  pthread_mutex_lock(&lock);
  book();
  const ts_flights *f = comm ? find(comm) : &flights[0];
  const ts_overlap sum = f ? f->sum : (ts_overlap){0, 0};
  pthread_mutex_unlock(&lock);
  return sum;
}
