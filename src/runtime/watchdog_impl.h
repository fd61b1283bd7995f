/* watchdog_impl.h - what ranks show each other; private to watchdog*.c and
 * comm_mpi_watch.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/str.h"
#include "runtime/watchdog.h"

enum { TS_WATCH_LANES = 24, TS_WATCH_NAME = 24, TS_WATCH_HOST = 64 };

/* Number of the operation that was started or finished last; names are text,
 * since addresses mean nothing to another process. */
struct ts_watch_lane {
  char comm[TS_WATCH_NAME], op[TS_WATCH_NAME];
  _Atomic uint64_t begun, started, done;
};

typedef enum {
  TS_WATCH_UNKNOWN, /* no thread yet, or no answer from that node */
  TS_WATCH_RUNS,
  TS_WATCH_LEFT /* the program has ended there */
} ts_watch_state;

/* One rank, written by itself alone (but for `speaker`). */
typedef struct ts_watch_row {
  char host[TS_WATCH_HOST];
  int32_t rank, pid;
  atomic_int state, section;
  atomic_int speaker; /* in a node's first row: rank + 1 of who speaks */
  _Atomic int64_t step;
  _Atomic double beat;  /* when its thread last ran; seconds, this node's */
  _Atomic double since; /* when the section last got on */
  double silent_s;      /* beat's age, filled in by who reads the row */
  double stuck_s;       /* since's age, likewise */
  bool answered;        /* the row is more than rank and host; likewise */
  ts_watch_lane lanes[TS_WATCH_LANES];
} ts_watch_row;

/* ---- watchdog.c ---------------------------------------------------------- */

/* A step took SECONDS: deadlines that are not set follow the median. */
void ts_watch_learn(double seconds);

/* ---- comm_mpi_watch.c ---------------------------------------------------- */

/* Collective, at the start and end of MPI.  Without shared memory a rank
 * sees itself only. */
ts_err ts_watch_open(void);
void ts_watch_close(void);
ts_watch_row *ts_watch_own(void);
/* Row I of the node, NULL behind the last. */
ts_watch_row *ts_watch_local(int i);
void ts_watch_nodes_of(int ranks_per_node);
int ts_watch_size(void); /* rows of ts_watch_collect */
/* True for one thread of the node's ranks, until it gives the word back. */
bool ts_watch_claim(void);
void ts_watch_unclaim(void);
/* Answers nodes that ask, unless ASKING; false: a node before this one is
 * asking, too, and will speak. */
bool ts_watch_answer(bool asking);
/* The state of all ranks, in order, as far as it is known; the other nodes have
 * SECONDS to answer.  NULL: another node prints the report. */
const ts_watch_row *ts_watch_collect(double seconds);

/* ---- watchdog_report.c --------------------------------------------------- */

const char *ts_section_name(int section);
/* No word from its thread for so long: it is stopped, or gone. */
#define TS_WATCH_SILENT_S 3.0
/* The words that name who holds the job up, if that is to be said; then a line
 * per rank. */
typedef enum {
  TS_WATCH_NOBODY,  /* the message has said it */
  TS_WATCH_STOPPED, /* a rank that does not run, if there is one */
  TS_WATCH_ANYBODY  /* whoever the others wait for */
} ts_watch_blame;
ts_err ts_watch_text(ts_str *, const ts_watch_row *rows, int n, ts_watch_blame);
