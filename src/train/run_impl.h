/* run_impl.h - a training run; private to run*.c. */
#pragma once

#include "io/metrics_log.h"
#include "train/report_cache.h"
#include "train/pipeline.h"
#include "train/run.h"
#include "train/saves.h"

typedef struct ts_run {
  const ts_config *config;
  bool check; /* nothing is written */
  ts_trainer *t;
  ts_source *train, *valid, *eval; /* NULL: there is none */
  ts_loader *loader;
  ts_run_state state;
  ts_metrics_log *log;
  ts_trace_file trace;
  int lock, checkpoints_lock, mirror_lock; /* held by rank 0 as long as it
                                              lives; -1 */
  bool no_locks;                           /* the file system has none */
  int64_t first_step;                      /* where this process began */
  int64_t last_step;         /* the step after which the run is done */
  int64_t saved_step;        /* of the newest checkpoint, -1: none */
  bool saved_delta;          /* it is none of this folder's full ones */
  char *loaded;              /* owned: the file that it went on from, or NULL */
  int64_t n_skipped, n_back; /* steps left out; of them, back for */
  int64_t n_faults;          /* times that run.check has found something */
  int64_t checked_step;      /* whose weights it has compared; -1: none */
  int64_t n_bad, n_bad_ids;  /* this rank's, of the batches trained on */
  ts_saves saves;
  double began, t0, t_log;  /* process; first step; last progress line */
  int64_t n_samples, n_log; /* trained here; until the last line */
  ts_step_result last;
  ts_slow_report cache;
  uint32_t said; /* of the batches that ids were learnt from, the last one that
                    the log's figures of ids have */
} ts_run;

/* run.c: saves the trainer's step, where it is not saved yet, HOW as
 * train/saves.h has it.  Collective. */
ts_err ts_run_save(ts_run *, int how);
/* The trainer's state is that of the file PATH (NULL: of none), which LACKS
 * some of it or not.  Collective. */
ts_err ts_run_loaded(ts_run *, const char *path, bool lacks);
/* This rank wants the run (RUN) to end here: told to, or its time is nearly
 * over.  Local. */
bool ts_run_wants_stop(const void *run);

/* run_eval.c: evaluations and validations.  ts_run_look: those that are due
 * after a step; ts_run_look_missed: before the first step of this start, those
 * of the step where it begins.  r->last.stop: one was broken off.  Collective.
 */
ts_err ts_run_look(ts_run *);
ts_err ts_run_look_missed(ts_run *);
ts_err ts_run_evaluate(ts_run *);
bool ts_run_is_eval_step(const ts_run *);
bool ts_run_is_valid_step(const ts_run *); /* and it has not been */
/* No validation was better for run.stop.patience of them: the run has ended.
 * Local. */
bool ts_run_has_best(const ts_run *);
/* With run.stop.restore "best": the best step's weights and optimizers, before
 * the last checkpoint.  Collective. */
ts_err ts_run_restore_best(ts_run *);

/* run_output.c: the output folder.  open_output locks it, the folder of
 * checkpoints and its mirror (DECK error where another run has one) and opens
 * the log there; rank 0.  open_logs: files that begin with the step at which
 * the run starts. Local. */
ts_err ts_run_open_output(ts_run *);
ts_err ts_run_open_logs(ts_run *);
ts_err ts_run_write_plan(const ts_run *);

/* run_nan.c: with on_nan "stop" an agreed error where the last step's loss is
 * not a number; and what becomes of a step that was skipped or broken.
 * Collective. */
ts_err ts_run_check_nan(ts_run *);
ts_err ts_run_leave_out(ts_run *);
/* After a step that is not counted yet, of which WHAT is said: back to the
 * newest checkpoint, bit for bit; the data goes on.  CODE where there is
 * none.  Collective. */
ts_err ts_run_roll_back(ts_run *, ts_err code, const char *what);

/* run_fault.c, of run.check.  After a step that is not counted yet: looks at
 * what it computed twice, and at what ranks hold where it is time; *BACK: there
 * was something, and the run has gone back.  FAULT.  And before a checkpoint,
 * where that has not been looked at.  Collective. */
ts_err ts_run_check_faults(ts_run *, bool *back);
ts_err ts_run_check_saved(ts_run *);

/* evict.c: where it is time, ids of dynamic tables lose their rows.
 * Collective. */
ts_err ts_run_evict(ts_run *);
/* The step that was left out has brought no ids to dynamic tables.
 * Collective. */
ts_err ts_run_forget_step(ts_run *);
/* Figures of dynamic tables' ids, for the log.  Collective. */
ts_err ts_run_say_ids(ts_run *);

/* run_check.c, of a run that trains nothing: opens the data, says the rows that
 * tables need, all that are too few at once, and reads the first samples.
 * Collective. */
ts_err ts_run_check_data(ts_run *);
/* The same of data.items, once there is a model.  Collective. */
ts_err ts_run_check_items(const ts_run *);

/* run_start.c: where the run begins: the backend, the plan, the weights (the
 * newest checkpoint's, initial ones, or those of init_from), the data and the
 * position in it.  Collective. */
ts_err ts_run_start(ts_run *);
ts_err ts_run_build(ts_run *);
ts_err ts_run_start_weights(ts_run *);
ts_err ts_run_open_data(ts_run *);
ts_err ts_run_init_from(ts_run *);
ts_err ts_run_open_loader(ts_run *);
/* Says that run.eval_every is in vain where there is nothing to evaluate.
 * Local. */
void ts_run_note_eval(const ts_run *);
