/* checkpoint_writer.h - checkpoints that are written while training goes on.
 *
 * A save copies what this rank has to write into a buffer of its own, as much
 * as the buffer holds; a thread writes the rest while the caller waits, then
 * the copy while it goes on.  So a file is what a blocking save of the same
 * step gives, bit for bit.  The ranks' threads speak to each other on a
 * communicator of their own.
 *
 * One save at a time: it is finished before the next one begins.  A finished
 * file is copied to a second folder, the mirror, by rank 0's thread, and is
 * done on no rank before; what goes wrong there is only told.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/checkpoint.h"

typedef struct ts_ckpt_writer ts_ckpt_writer;

typedef struct ts_ckpt_writer_options {
  const char *dir, *io;
  const char *mirror;     /* NULL: none */
  int keep, mirror_every; /* of full ones; a delta goes where its parent is */
  bool beside;            /* write while the caller goes on */
  int64_t buffer_bytes;   /* of this rank at most; 0: by what memory is free */
  int node_size;          /* ranks that share the memory */
  int n_threads;          /* that copy */
} ts_ckpt_writer_options;

/* One save, as this rank saw it. */
typedef struct ts_ckpt_saved {
  int64_t step; /* -1: there was none */
  ts_ckpt_kind kind;
  bool beside;         /* or all of it while the caller waited */
  int64_t bytes;       /* this rank's */
  int64_t copied;      /* of them */
  ts_ckpt_point point; /* what others may build on, once it has ended; the seal
                          is known to rank 0 */
  double write_s;      /* until the file had its name */
  int mirrored; /* by rank 0: 1; -1: failed, MIRROR says why; 0: not asked */
  ts_err_record mirror;
} ts_ckpt_saved;

/* The options' strings must stay.  Collective over the world. */
ts_err ts_ckpt_writer_create(ts_ckpt_writer **, const ts_ckpt_writer_options *,
                             ts_world *);
void ts_ckpt_writer_destroy(ts_ckpt_writer *); /* collective */

/* Takes the buffer, for checkpoints like C: *NEEDED and *ROOM are the bytes of
 * all ranks.  Without any room, *WHY NULL or not, saves block; WHY is a
 * static text.  Collective. */
ts_err ts_ckpt_writer_prepare(ts_ckpt_writer *, const ts_ckpt *,
                              int64_t *needed, int64_t *room, const char **why);

/* Begins to save C, whose content is taken over, at once or to its end (WAIT);
 * LAST: it is mirrored whatever mirror_every says.  Returns once the caller
 * may change what it describes; an error of a save that was not waited for
 * comes with finish.  None is under way.  Collective. */
ts_err ts_ckpt_writer_save(ts_ckpt_writer *, ts_ckpt *, bool wait, bool last);

/* Whether the point that the next delta builds on is in the mirror: where it is
 * not, the delta does not go there.  The same on all ranks. */
void ts_ckpt_writer_in_mirror(ts_ckpt_writer *, bool);
/* Bytes that this rank may take for a delta's rows, with what memory is free.
 */
int64_t ts_ckpt_writer_allows(const ts_ckpt_writer *);

/* Nothing is under way, or it has come to its end. */
bool ts_ckpt_writer_idle(ts_ckpt_writer *);
/* It has ended, with an error. */
bool ts_ckpt_writer_failed(ts_ckpt_writer *);
/* Waits for what is under way.  Its error, the same on all ranks unless
 * ts_err_is_own.  *SAVED once for each save.  Local. */
ts_err ts_ckpt_writer_finish(ts_ckpt_writer *, ts_ckpt_saved *saved);
