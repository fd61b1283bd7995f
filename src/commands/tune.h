/* tune.h - a search: a folder of trials, each a run of the deck with values
 * drawn from a space.  All that is known of a trial is in its folder, so that
 * any process can go on with any trial that nobody runs.
 * All of it is Local. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/config.h"
#include "commands/commands.h"
#include "io/search.h"

enum { TS_RUNGS_MAX = 16, TS_RUNG_SHARE = 3 };

/* X(name, word in the table) */
#define TS_TRIAL_STATES(X)                                                     \
  X(WAITING, "waiting")                                                        \
  X(RUNNING, "running") /* or cut short, if nobody holds its lock */           \
  X(ENDED, "ended")                                                            \
  X(FAILED, "failed")

typedef enum {
#define TS_TRIAL_ENUM(name, word) TS_TRIAL_##name,
  TS_TRIAL_STATES(TS_TRIAL_ENUM)
#undef TS_TRIAL_ENUM
      TS_TRIAL_COUNT
} ts_trial_state;

typedef struct ts_trial {
  ts_trial_state state;
  int64_t step;                /* that its run has reached */
  int32_t n_rungs;             /* that it has ended */
  double metric[TS_RUNGS_MAX]; /* its best validation by the end of each */
} ts_trial;

typedef struct ts_tune_child {
  pid_t pid;
  int32_t trial;
  int lock; /* its trial's */
} ts_tune_child;

typedef struct ts_tune {
  const ts_args *args;
  ts_config *config; /* of the deck, without a trial's values */
  ts_search search;
  const char *metric;
  uint64_t seed;
  int32_t n_trials, n_parallel;
  int32_t n_rungs;
  double budget[TS_RUNGS_MAX]; /* run.steps, or run.epochs, of each rung */
  char *folder;
  ts_trial *trial; /* (n_trials), from 0; names count from 1 */
  bool *again;     /* (n_trials) had its second chance from this process */
  ts_tune_child *child;
  int32_t n_running;
  sigset_t signals; /* blocked when the search began: so are its runs */
  double began;
  double done; /* budgets that this process has seen ended */
} ts_tune;

/* tune_folder.c: FOLDER/trial-0007/NAME (trial 6); NAME "": the folder. */
ts_err ts_tune_path(ts_str *, const ts_tune *, int32_t trial, const char *name);
/* Makes the folder, or sees that what it was begun with is the same. */
ts_err ts_tune_open(ts_tune *);
ts_err ts_tune_read(ts_tune *); /* all trials' records */
ts_err ts_tune_read_one(ts_tune *, int32_t trial);
/* Writes the record of one, and the table of all. */
ts_err ts_tune_write(ts_tune *, int32_t trial);
/* The lock of a trial; -1: another process has it. */
ts_err ts_tune_lock(int *fd, const ts_tune *, int32_t trial);
/* " --set KEY=VALUE", as a shell takes it; and for each key of the space. */
ts_err ts_tune_put_set(ts_str *, const char *set);
ts_err ts_tune_sets(ts_str *, const ts_tune *, int32_t trial);

/* tune_rungs.c: how many rungs a search of so many trials begins with, and
 * their budgets. */
int32_t ts_tune_count_rungs(const ts_tune *);
void ts_tune_lay_rungs(ts_tune *, int32_t n);
/* What is to be run next; -1: nothing.  SKIP (n_trials): held by
 * others. */
int32_t ts_tune_next(const ts_tune *, const bool *skip);
/* A's figure is better than B's. */
bool ts_tune_is_better(const ts_tune *, double a, double b);
/* The newest figure; NAN where there is none. */
double ts_trial_metric(const ts_trial *);
int32_t ts_tune_best(const ts_tune *); /* -1: none */
/* Share of the search that is left for what was done, in budgets. */
double ts_tune_left(const ts_tune *);
/* Takes what the run of TRIAL has logged: false where there is no figure. */
ts_err ts_tune_take(ts_tune *, int32_t trial, bool *found);

/* tune_run.c: starts TRIAL, whose LOCK is held. */
ts_err ts_tune_start(ts_tune *, int32_t trial, int lock);
/* Deals with the children that have ended; STOPPING: they were asked to. */
ts_err ts_tune_reap(ts_tune *, bool stopping);
void ts_tune_stop(const ts_tune *); /* asks all children */

/* tune_draw.c: FOLDER/tune.svg. */
ts_err ts_tune_draw(const ts_tune *);
