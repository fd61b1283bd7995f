/* fault.c - the points that are armed, and how often they were passed. */
#include "base/fault.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

#ifdef TS_FAULTS

enum { MOST = 8, KILL = -1 };

typedef struct ts_armed {
  char what[16];
  int wanted, why; /* passage; errno or KILL */
  atomic_int passed;
} ts_armed;

static ts_armed armed[MOST];
static atomic_int n_armed;

typedef struct ts_named {
  const char *name;
  int why;
} ts_named;

/* Points with their usual reasons. */
static const ts_named points[] = {
    {"open", EACCES},      {"read", EIO},         {"write", ENOSPC},
    {"flush", ENOSPC},     {"fsync", EIO},        {"rename", EIO},
    {"reserve", ENOSPC},   {"hdf5", EIO},         {"alloc", ENOMEM},
    {"mpi", EIO},          {"comm", EIO},         {"message", EIO},
    {"internal", EIO},     {"crash", EIO},        {"pause", EIO},
    {"leave", EIO},        {"batch", EIO},        {"stall", EIO},
    {"group", EIO},        {"pieces", EIO},       {"freeze", EIO},
    {"save", EIO},         {"gradient", EIO},     {"flip_weight", EIO},
    {"flip_message", EIO}, {"flip_gradient", EIO}};

static const ts_named reasons[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},
                                   {"EACCES", EACCES}, {"EROFS", EROFS},
                                   {"EDQUOT", EDQUOT}, {"ESTALE", ESTALE},
                                   {"EMFILE", EMFILE}, {"ENOMEM", ENOMEM},
                                   {"EINTR", EINTR},   {"KILL", KILL}};

/* 0 where NAME is none of the N. */
static int why_of(const ts_named *list, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(list[i].name, name)) return list[i].why;
  return 0;
}

static int usual_reason(const char *what) {
  return why_of(points, sizeof points / sizeof *points, what);
}

/* One fault of N characters; false where it is none. */
static bool parse(const char *text, size_t n, ts_armed *a, int *rank) {
  char one[64], why[16] = "", more;
  if (n >= sizeof one) return false;
  memcpy(one, text, n);
  one[n] = '\0';
  int got = sscanf(one, "%15[^:]:rank%d:nth%d:%15s%c", a->what, rank,
                   &a->wanted, why, &more);
  if (got < 3)
    got = sscanf(one, "%15[^:]:%d:%d:%15s%c", a->what, rank, &a->wanted, why,
                 &more);
  a->why = *why ? why_of(reasons, sizeof reasons / sizeof *reasons, why)
                : usual_reason(a->what);
  return (got == 3 || got == 4) && a->wanted > 0 && a->why != 0 &&
         usual_reason(a->what) != 0;
}

ts_err ts_fault_set(const char *text, int rank) {
  int n = 0;
  atomic_store(&n_armed, 0);
  if (!text || !*text || !strcmp(text, "none")) return TS_OK;
  for (const char *p = text; p;
       p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
    int of;
    if (n == MOST || !parse(p, strcspn(p, ","), &armed[n], &of))
      return ts_fail(TS_ERR_USAGE,
                     "TESSERA_FAULT=%s: not WHAT:rankR:nthN[:WHY] (see "
                     "base/fault.h)",
                     text);
    atomic_store(&armed[n].passed, 0);
    n += of == rank;
  }
  atomic_store(&n_armed, n);
  return TS_OK;
}

bool ts_fault(const char *what) {
  const int n = atomic_load_explicit(&n_armed, memory_order_relaxed);
  for (int i = 0; i < n; i++) {
    ts_armed *a = &armed[i];
    if (strcmp(what, a->what) != 0 ||
        atomic_fetch_add(&a->passed, 1) + 1 != a->wanted)
      continue;
    if (a->why == KILL) raise(SIGKILL);
    errno = a->why;
    return true;
  }
  return false;
}

/* Most passages are not held up, some let others run, a few sleep for long
 * enough that the other threads, or ranks, get far ahead. */
void ts_yield(void) {
  static atomic_uint_fast64_t passed;
  static atomic_int armed_by = -1; /* unknown, no, yes */
  const char *seed = NULL;
  if (atomic_load_explicit(&armed_by, memory_order_relaxed) == 0) return;
  if (!(seed = getenv("TESSERA_YIELD"))) {
    atomic_store(&armed_by, 0);
    return;
  }
  const uint64_t first = (uint64_t)atoll(seed) << 32 ^ (uint64_t)getpid() << 16;
  const uint64_t x = ts_mix64(first + atomic_fetch_add(&passed, 1));
  const long us = x % 64 == 0 ? (long)(x >> 32) % 5000 : (long)(x >> 32) % 100;
  const struct timespec t = {0, us * 1000};
  if (x % 4 == 1) sched_yield();
  if (x % 8 == 0) nanosleep(&t, NULL);
}

#else

ts_err ts_fault_set(const char *text, int rank) {
  (void)rank;
  if (!text || !*text || !strcmp(text, "none")) return TS_OK;
  return ts_fail(TS_ERR_USAGE,
                 "TESSERA_FAULT=%s: this program has no faults to offer; "
                 "configure it with --enable-faults",
                 text);
}

#endif
