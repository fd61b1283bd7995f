/* signals.h - asking a run to stop.
 *
 * TERM, INT, USR1 and USR2: the first one asks for the step to be finished, a
 * checkpoint and exit code 75; one that comes 2 s or more after it ends the
 * program at once with 75, leaving the checkpoint before.
 * All of it is Local. */
#pragma once

#include "base/err.h"

/* Blocks the signals in the calling thread and those that it starts.  Before
 * MPI starts: threads of the MPI library that do not block a signal would
 * take it, and end the program.  Local. */
ts_err ts_signals_block(void);
/* Starts a thread that takes them. */
ts_err ts_signals_start(void);
void ts_signals_stop(void);
int ts_signals_level(void); /* 0, 1: asked once */
