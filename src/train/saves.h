/* saves.h - the checkpoints of a run: when one is begun, when it is done, and
 * what they cost.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/checkpoint_writer.h"
#include "io/metrics_log.h"
#include "train/trainer.h"

/* How one saves: until the file has its name, else until training may go on;
 * the last of a run, which is mirrored in any case; a delta, where the deck has
 * them and there is something to build on, else a full checkpoint. */
enum { TS_SAVE_WAIT = 1, TS_SAVE_LAST = 2, TS_SAVE_DELTA = 4 };

/* A save that has ended, for the log and for the sums of the run. */
typedef struct ts_save_figures {
  int64_t step, bytes; /* of all ranks */
  double stall_s;      /* the step waited for it */
  double write_s;
  bool beside;
  int64_t base;            /* of a delta: the step that it builds on; else -1 */
  int64_t n_rows, of_rows; /* of tables: written, and in all */
} ts_save_figures;

typedef struct ts_saves {
  ts_trainer *t;
  ts_ckpt_writer *writer;    /* NULL: no checkpoints */
  ts_save_figures now, line; /* under way; not yet in metrics.jsonl */
  int64_t best;              /* step whose file is best.h5's; -1: none yet */
  int64_t written;           /* step of the newest full one; -1 */
  ts_ckpt_point point;       /* what the next one may build on; step -1: none */
  bool has_line, noted;
  int64_t n, n_beside, n_mirrored, n_unmirrored;
  double stall_s, most_stall_s, write_s, bytes; /* sums */
} ts_saves;

/* Collective.  TRAIN and the state say what a checkpoint is made of: with
 * checkpoint.every the buffer is taken now. */
ts_err ts_saves_create(ts_saves *, ts_trainer *, const ts_run_state *,
                       ts_source *train);
void ts_saves_destroy(ts_saves *);

/* Saves the trainer's step, HOW as above; *FULL: a full checkpoint.  Waits for
 * the save before it, whose error is returned.  Collective. */
ts_err ts_saves_save(ts_saves *, const ts_run_state *, ts_source *train,
                     int how, bool *full, ts_metrics_log *);
/* The trainer's state is that of the checkpoint PATH: the next one may build on
 * it, where it lies in the run's own folder and LACKS nothing.  Collective. */
ts_err ts_saves_loaded(ts_saves *, const char *path, bool lacks);
/* The newest save, ended or under way, is the best validation's: once it has
 * its name it gets that of best.h5 as well, which outlives checkpoint.keep.
 * What goes wrong there is told; training goes on.  Local. */
ts_err ts_saves_best(ts_saves *);
/* Waits for what is under way.  Collective. */
ts_err ts_saves_finish(ts_saves *, ts_metrics_log *);
/* Between steps: says in the log what has come to its end.  Local. */
void ts_saves_look(ts_saves *);
/* Whether a save that was begun has failed: then all ranks call finish. */
bool ts_saves_failed(const ts_saves *);
/* The line of the save that ended last, once.  Rank 0's LOG. */
ts_err ts_saves_line(ts_saves *, ts_metrics_log *);
void ts_saves_report(const ts_saves *);
