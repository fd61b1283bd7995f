/* fault.h - faults on purpose, so that tests can show what becomes of them:
 * TESSERA_FAULT=WHAT:RANK:N makes passage number N (from 1) of that rank
 * through the point WHAT fail.
 *
 * Points: alloc (any allocation), write and freeze (a piece of a checkpoint:
 * an error, no end), comm (the start of a collective), message (an input
 * message, as it is taken apart), internal, crash, pause and leave (a step: an
 * error, a signal, no end, the process ends), gradient (of a step's tables:
 * one is infinite), batch and stall (the reader: an error, no end). */
#ifndef TS_BASE_FAULT_H
#define TS_BASE_FAULT_H

#include <stdbool.h>

/* Arms the point that TEXT names, if it is one of RANK; NULL: none. */
void ts_fault_set(const char *text, int rank);
/* True once: when this passage is to fail.  Thread-safe. */
bool ts_fault(const char *what);

#endif
