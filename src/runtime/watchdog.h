/* watchdog.h - a run that hangs ends, with one message that says who is to
 * blame; so does one of which a rank crashed or vanished.
 *
 * Each rank says which section it is in.  A thread of its own counts the time
 * since the section was entered, or last got on (ts_watch_step, _beat); past
 * the deadline it collects what every rank is at (rank, host, section, step,
 * last collective on each lane), prints that once for the whole job and ends
 * all ranks with code 5.  Time in which the thread itself did not run, as
 * when a queue suspends the job, does not count.
 *
 * Each rank notes what it is doing in memory that the ranks of its node share,
 * so that its neighbours can name it when it is stopped.  Nodes ask each other
 * by messages, and only once something is wrong (comm_mpi_watch.c).
 *
 * One watchdog per process; everything here is local unless it says so. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* X(name, text); NONE has no deadline. */
#define TS_SECTION_LIST(X)                                                     \
  X(NONE, "none")                                                              \
  X(SETUP, "setup")                                                            \
  X(STEP, "step")                                                              \
  X(EVAL, "eval")                                                              \
  X(SAVE, "save")                                                              \
  X(LOAD, "load")                                                              \
  X(INPUT, "input")                                                            \
  X(END, "end")

typedef enum {
#define TS_SECTION_ENUM(name, text) TS_SECTION_##name,
  TS_SECTION_LIST(TS_SECTION_ENUM)
#undef TS_SECTION_ENUM
      TS_SECTION_COUNT
} ts_section;

typedef struct ts_watch_options {
  /* Seconds without getting on; 0: learnt.  The step's is never less than
   * the input's: the others wait in their step for a rank's input. */
  double deadline_s[TS_SECTION_COUNT];
  /* Before anything is learnt, and of sections that have no median (setup,
   * save, load); 0: none. */
  double otherwise_s;
  int ranks_per_node; /* 0: as found; else consecutive ranks act as nodes */
} ts_watch_options;

/* Starts the thread; the section is SETUP, with a deadline of ten minutes
 * until ts_watch_configure.  After ts_mpi_start. */
ts_err ts_watch_start(void);
void ts_watch_configure(const ts_watch_options *);
void ts_watch_stop(void);

/* Enters a section and returns the one before, to be entered again behind
 * it; the time starts anew. */
ts_section ts_watch_enter(ts_section);
/* The step that is under way: the time starts anew.  The median time of a
 * step (saves and evaluations not counted) is learnt from these calls. */
void ts_watch_step(int64_t step);
/* The section has got on. */
void ts_watch_beat(void);
/* Work that goes on beside the steps, from ON to off: it has to get on within
 * the deadline of section SAVE, by beats of its own. */
void ts_watch_beside(int on);
void ts_watch_beside_beat(void);
/* Deadline in force, INFINITY: none. */
double ts_watch_deadline(ts_section);

/* Prints this rank's message and ends all ranks with the code of ERR.  Of
 * several ranks that fail at once one prints.  For COMM, where the fault may
 * be another rank's, it adds what every rank is at. */
_Noreturn void ts_watch_fail(ts_err err);

/* A lane's last collective, for the message; NULL is none. */
typedef struct ts_watch_lane ts_watch_lane;
ts_watch_lane *ts_watch_lane_take(const char *comm);
void ts_watch_lane_give(ts_watch_lane *);
void ts_watch_lane_begin(ts_watch_lane *, const char *op, uint64_t number);
void ts_watch_lane_start(ts_watch_lane *, const char *op, uint64_t number);
void ts_watch_lane_done(ts_watch_lane *, uint64_t number);
