/* tune.c - `tessera tune DECK --space FILE`: random search, or with --halving
 * asynchronous successive halving, over a folder of runs. */
#include "commands/tune.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/deck.h"
#include "train/metrics.h"

enum { TRIALS_MAX = 100000, PARALLEL_MAX = 1024, LOOK_MS = 300 };

/* ---- options ------------------------------------------------------------- */

static ts_err number(int64_t *to, const char *option, const char *text,
                     int64_t least, int64_t most) {
  char *end;
  if (!text) return TS_OK; /* the default stays */
  errno = 0;
  *to = strtoll(text, &end, 10);
  if (end == text || *end || errno || *to < least || *to > most)
    return ts_fail(TS_ERR_USAGE, "%s %s is no number in %lld to %lld", option,
                   text, (long long)least, (long long)most);
  return TS_OK;
}

/* Runs would take the launcher's words to this process for their own. */
static ts_err refuse_launcher(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                      "PMI_RANK", "MPI_LOCALRANKID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (getenv(names[i]))
      return ts_fail(TS_ERR_USAGE,
                     "tune is one process, which starts its runs itself: give "
                     "mpirun, or srun, in --launch, not before tessera");
  return TS_OK;
}

static ts_err read_options(ts_tune *t) {
  const ts_args *a = t->args;
  int64_t trials = 20, parallel = 1, seed = 1;
  TS_DO(refuse_launcher());
  if (!a->target || !a->space)
    return ts_fail(TS_ERR_USAGE,
                   "usage: tessera tune DECK --space FILE [--trials N] "
                   "[--parallel N] [--halving] [--out FOLDER]");
  TS_DO(number(&trials, "--trials", a->trials, 1, TRIALS_MAX));
  TS_DO(number(&parallel, "--parallel", a->parallel, 1, PARALLEL_MAX));
  TS_DO(number(&seed, "--seed", a->seed, 0, INT64_MAX));
  t->n_trials = (int32_t)trials;
  t->n_parallel = (int32_t)parallel;
  t->seed = (uint64_t)seed;
  return TS_OK;
}

/* The metric is one that validations have, and the log. */
static ts_err check_metric(ts_tune *t) {
  const ts_config *c = t->config;
  const ts_strings *report = &c->metrics.report;
  t->metric = c->run.stop.metric;
  if (c->run.valid_every < 1)
    return ts_fail(TS_ERR_DECK,
                   "%s: trials are told by validations: give run.valid_every, "
                   "and data.valid or data.split",
                   t->args->target);
  for (int32_t i = 0; i < report->n; i++)
    if (!strcmp(report->item[i], t->metric)) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "%s: metrics.report must list %s, by which trials are told",
                 t->args->target, t->metric);
}

/* Keys that tune gives each trial itself: values of a space would be lost. */
static ts_err check_keys(const ts_tune *t) {
  static const char *const own[] = {"run.output",    "run.stop.metric",
                                    "run.stop.task", "checkpoint.dir",
                                    "run.steps",     "run.epochs"};
  const int n = (int)(sizeof own / sizeof *own) - (t->args->halving ? 0 : 2);
  for (int32_t k = 0; k < t->search.n; k++)
    for (int i = 0; i < n; i++)
      if (!strcmp(t->search.key[k].path, own[i]))
        return ts_fail(TS_ERR_DECK,
                       "%s: %s can't be searched%s: it is the same for all "
                       "trials, or each trial's own",
                       t->args->space, own[i], i > 3 ? " with --halving" : "");
  return TS_OK;
}

/* FOLDER: --out, else beside the deck's own run. */
static ts_err find_folder(ts_tune *t) {
  ts_err err = TS_OK;
  ts_str path = {0};
  char *full = NULL;
  if (t->args->out)
    TS_TRY(ts_str_append(&path, "%s", t->args->out));
  else
    TS_TRY(ts_str_append(&path, "%s-tune", t->config->run.output));
  TS_TRY(ts_mkdirs(path.text));
  full = realpath(path.text, NULL); /* a deck's paths begin at its folder */
  if (!full) TS_THROW(TS_ERR_IO, "%s: %s", path.text, strerror(errno));
  TS_TRY(ts_mem_strdup(&t->folder, full));
done:
  free(full);
  ts_str_reset(&path);
  return err;
}

static ts_err read_deck(ts_tune *t) {
  ts_err err = TS_OK;
  const ts_args *a = t->args;
  const char **sets = NULL;
  ts_str metric = {0};
  int n = a->n_sets;
  TS_TRY(ts_mem_many(sets, n + 1, MISC));
  for (int i = 0; i < n; i++) sets[i] = a->sets[i];
  if (a->metric) {
    TS_TRY(ts_str_append(&metric, "run.stop.metric=%s", a->metric));
    sets[n++] = metric.text;
  }
  TS_TRY(ts_deck_read_all(&t->config, a->target, sets, n));
  TS_TRY(check_metric(t));
  TS_TRY(ts_search_read(&t->search, a->space, a->target, sets, n));
  TS_TRY(check_keys(t));
done:
  ts_mem_free(sets);
  ts_str_reset(&metric);
  return err;
}

static ts_err set_up(ts_tune *t) {
  TS_DO(read_options(t));
  TS_DO(read_deck(t));
  ts_tune_lay_rungs(t, ts_tune_count_rungs(t));
  TS_DO(find_folder(t));
  TS_DO(ts_mem_many(t->trial, t->n_trials, MISC));
  TS_DO(ts_mem_many(t->again, t->n_trials, MISC));
  TS_DO(ts_mem_many(t->child, t->n_parallel, MISC));
  TS_DO(ts_tune_open(t));
  TS_DO(ts_tune_read(t));
  ts_info("tune: %d trials, %d at a time, by %s; %s", t->n_trials,
          t->n_parallel, t->metric, t->folder);
  for (int32_t k = 0; k < t->n_rungs && t->n_rungs > 1; k++)
    ts_info("rung %d ends with %s %g", k,
            t->config->run.steps > 0 ? "step" : "epoch", t->budget[k]);
  t->began = ts_now();
  return TS_OK;
}

/* ---- the loop ------------------------------------------------------------ */

static void wanted_signals(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGCHLD);
  sigaddset(set, SIGTERM);
  sigaddset(set, SIGINT);
  sigaddset(set, SIGUSR1);
  sigaddset(set, SIGUSR2);
}

/* Until a child ends, or for a short while.  Whether somebody asks to stop. */
static bool wait_a_while(void) {
  const struct timespec t = {.tv_nsec = LOOK_MS * 1000000L};
  sigset_t set;
  wanted_signals(&set);
  const int number = sigtimedwait(&set, NULL, &t);
  return number > 0 && number != SIGCHLD;
}

/* Starts the next trial that nobody holds; *HELD: some are, by others. */
static ts_err start_next(ts_tune *t, bool *started, bool *held) {
  ts_err err = TS_OK;
  bool *skip = NULL;
  int32_t i;
  *started = *held = false;
  TS_TRY(ts_mem_many(skip, t->n_trials, MISC));
  TS_TRY(ts_tune_read(t));
  for (int32_t k = 0; k < t->n_running; k++) skip[t->child[k].trial] = true;
  while ((i = ts_tune_next(t, skip)) >= 0) {
    const ts_trial seen = t->trial[i];
    int lock;
    TS_TRY(ts_tune_lock(&lock, t, i));
    skip[i] = true;
    *held |= lock < 0;
    if (lock < 0) continue;
    TS_TRY(ts_tune_read_one(t, i));
    *started =
        t->trial[i].state == seen.state && t->trial[i].n_rungs == seen.n_rungs;
    if (*started) {
      TS_TRY(ts_tune_start(t, i, lock));
      break;
    }
    close(lock); /* another process was faster */
    *held = true;
  }
done:
  ts_mem_free(skip);
  return err;
}

/* Starts as many as may run.  *HELD: others run what is left. */
static ts_err fill(ts_tune *t, bool *held) {
  bool started = true;
  *held = false;
  while (started && t->n_running < t->n_parallel)
    TS_DO(start_next(t, &started, held));
  return TS_OK;
}

/* All children end before this does. */
static void stop_all(ts_tune *t) {
  ts_err_record why;
  ts_err_take(&why);
  ts_tune_stop(t);
  while (t->n_running) {
    (void)ts_tune_reap(t, true);
    ts_err_clear();
    if (t->n_running && wait_a_while()) ts_tune_stop(t);
  }
  ts_err_put(&why);
}

static ts_err loop(ts_tune *t) {
  bool held = false, waits = false;
  for (;;) {
    TS_DO(ts_tune_reap(t, false));
    TS_DO(fill(t, &held));
    if (!t->n_running && !held) return TS_OK;
    if (!t->n_running && !waits)
      ts_info("the trials that are left are run by other processes: waiting "
              "for them");
    waits |= !t->n_running;
    if (wait_a_while())
      return ts_fail(TS_ERR_STOPPED, "stopped; the same line goes on");
  }
}

/* ---- the command --------------------------------------------------------- */

/* What trains trial BEST again: in a folder of its own, as the deck's run may
 * have ended, and then would only say so. */
static ts_err again_sets(ts_str *sets, ts_tune *t, int32_t best) {
  ts_err err = TS_OK;
  ts_str set = {0};
  for (int i = 0; i < t->args->n_sets; i++)
    TS_TRY(ts_tune_put_set(sets, t->args->sets[i]));
  TS_TRY(ts_tune_sets(sets, t, best));
  if (t->args->metric) {
    TS_TRY(ts_str_append(&set, "run.stop.metric=%s", t->metric));
    TS_TRY(ts_tune_put_set(sets, set.text));
    ts_str_reset(&set);
  }
  TS_TRY(ts_str_append(&set, "run.output=%s/best", t->folder));
  TS_TRY(ts_tune_put_set(sets, set.text));
done:
  ts_str_reset(&set);
  return err;
}

static ts_err report(ts_tune *t) {
  ts_err err = TS_OK;
  ts_str sets = {0}, path = {0};
  TS_TRY(ts_tune_read(t));
  const int32_t best = ts_tune_best(t);
  if (best < 0)
    TS_THROW(TS_ERR_DATA,
             "no trial has a validation of %s; their output is in "
             "%s/trial-*/output",
             t->metric, t->folder);
  TS_TRY(ts_tune_draw(t));
  TS_TRY(again_sets(&sets, t, best));
  TS_TRY(ts_tune_path(&path, t, best, ""));
  ts_info("the table is %s/trials.tsv, the drawing %s/tune.svg", t->folder,
          t->folder);
  printf("best: trial %d, %s %.6f, %s\ntessera train %s%s\n", best + 1,
         t->metric, ts_trial_metric(&t->trial[best]), path.text,
         t->args->target, sets.text);
done:
  ts_str_reset(&sets);
  ts_str_reset(&path);
  return err;
}

ts_err ts_cmd_tune(const ts_args *a) {
  ts_err err = TS_OK;
  ts_tune t = {.args = a};
  sigset_t set;
  wanted_signals(&set);
  TS_TRY(set_up(&t));
  /* Who started this may not care for its children; it has to for its own. */
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &set, &t.signals);
  err = loop(&t);
  if (err != TS_OK) stop_all(&t);
  if (err == TS_ERR_STOPPED)
    ts_info("stopped; the same line goes on with the trials that are left");
  if (err != TS_OK) goto done;
  TS_TRY(report(&t));
done:
  ts_search_reset(&t.search);
  ts_deck_destroy(t.config);
  ts_mem_free_all(t.trial, t.again, t.child, t.folder);
  return err;
}
