/* fault.h - faults on purpose, so that tests can show what becomes of them.
 *
 * TESSERA_FAULT=WHAT:rankR:nthN[:WHY] makes passage number N (from 1) of rank
 * R through the point WHAT fail; "rank" and "nth" may be left out, several are
 * separated by commas.  WHY is an errno (ENOSPC, EIO, EACCES, EROFS, EDQUOT,
 * ESTALE, EMFILE, ENOMEM, EINTR), which the message then shows, or KILL: the
 * process is killed there, as by `kill -9`.  "none" arms nothing.
 *
 * TESSERA_YIELD=SEED makes threads sleep for a time that is drawn at random
 * wherever they meet: at lanes, events and collectives.  No bit of a result may
 * depend on it.
 *
 * Only in programs configured with --enable-faults (or --enable-debug); in
 * others the points compile to nothing and TESSERA_FAULT is refused.
 *
 * The system's points, and what fails there (base/file.h):
 *   open     a file is opened, but not by HDF5; files of rows in slow memory
 *            too                                   (EACCES)
 *   read     pread: checkpoints and data sets      (EIO)
 *   write    pwrite: checkpoints, predictions, data sets   (ENOSPC)
 *   flush    lines of metrics.jsonl, plan, deck.effective  (ENOSPC)
 *   fsync    of a file or a folder                 (EIO)
 *   rename   of a file that is finished            (EIO)
 *   reserve  space asked for in advance            (ENOSPC)
 *   hdf5     a call of HDF5 that makes, writes or closes (EIO)
 *   alloc    any allocation                        (ENOMEM)
 *   mpi      any call of MPI, those that only look included (none)
 * The program's own:
 *   comm     the start of a collective
 *   message  an input message, as it is taken apart
 *   internal, crash, pause, leave   a step: an error, a signal, no end, the
 *            process ends
 *   freeze   a piece of a checkpoint: no end
 *   save     a checkpoint's writing, of which the others hear nothing
 *   gradient of a step's tables: one is infinite
 *   flip_message   a message that has come, with run.check: a bit of it
 *   flip_weight    the end of a step: a bit of a data_parallel table, or where
 *                  there is none of a dense weight
 *   flip_gradient  a step, of those that are recomputed (run.check = "rows"):
 *                  a bit of a dense gradient
 *   batch, stall   the reader: an error, no end
 *   group    a row group of Parquet, before it is decoded: an error
 *   pieces   files of Parquet, opened: row groups are in pieces, as those of
 *            large texts */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Arms what TEXT names of RANK, instead of what was; NULL: nothing.  A text
 * that is wrong, or a program without points, is a USAGE error. */
ts_err ts_fault_set(const char *text, int rank);

/* Sleeps now and then (TESSERA_YIELD); called where threads meet, so that tests
 * see other orders.  Local, thread-safe. */
#ifdef TS_FAULTS
void ts_yield(void);
#else
static inline void ts_yield(void) {
}
#endif

/* True, with errno set, when this passage is to fail.  Thread-safe. */
#ifdef TS_FAULTS
bool ts_fault(const char *what);
#else
static inline bool ts_fault(const char *what) {
  (void)what;
  return false;
}
#endif
