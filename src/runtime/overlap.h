/* overlap.h - how much of the time of messages is hidden under work.
 *
 * Always on: lanes say when a task begins and ends, comms when an operation
 * does.  Messages are exposed while no lane of this rank works.  Waiting is
 * no work.  Thread-safe; of this process.  All of it is Local. */
#pragma once

typedef struct ts_overlap {
  double flight_s;  /* an operation was under way */
  double exposed_s; /* of it: nothing else was done */
} ts_overlap;

void ts_overlap_work_begin(void);
void ts_overlap_work_end(void);
void ts_overlap_comm_begin(const char *comm); /* static string */
void ts_overlap_comm_end(const char *comm);

/* Counts from now on. */
void ts_overlap_reset(void);
/* The overlap of the operations of COMM (NULL: of all comms) since the reset.
 */
ts_overlap ts_overlap_of(const char *comm);
