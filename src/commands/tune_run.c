/* tune_run.c - the runs of trials: child processes of the search. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "commands/tune.h"
#include "runtime/topology.h"

/* ---- the command --------------------------------------------------------- */

typedef struct ts_arguments {
  char **word; /* ends with NULL */
  int64_t n;
} ts_arguments;

static ts_err add(ts_arguments *w, const char *text) {
  TS_DO(ts_mem_extend(&w->word, w->n ? w->n + 1 : 0, w->n + 2, sizeof *w->word,
                      TS_TAG_MISC));
  w->word[w->n + 1] = NULL;
  TS_DO(ts_mem_strdup(&w->word[w->n], text));
  w->n++;
  return TS_OK;
}

static ts_err add_set(ts_arguments *w, const char *key, const char *value) {
  ts_str s = {0};
  ts_err err = add(w, "--set");
  if (err == TS_OK) err = ts_str_append(&s, "%s=%s", key, value);
  if (err == TS_OK) err = add(w, s.text);
  ts_str_reset(&s);
  return err;
}

static void words_free(ts_arguments *w) {
  for (int64_t i = 0; i < w->n; i++) ts_mem_free(w->word[i]);
  ts_mem_free(w->word);
}

static ts_err add_launch(ts_arguments *w, const char *launch) {
  for (const char *p = launch; p && *p;) {
    char word[4096];
    const size_t n = strcspn(p, " ");
    snprintf(word, sizeof word, "%.*s", (int)n, p);
    if (n) TS_DO(add(w, word));
    p += n + (p[n] == ' ');
  }
  return TS_OK;
}

/* What is each trial's own. */
static ts_err add_own(ts_arguments *w, const ts_tune *t, int32_t trial) {
  ts_err err = TS_OK;
  const ts_config *c = t->config;
  ts_str s = {0};
  char number[64];
  const double budget = t->budget[t->trial[trial].n_rungs];
  for (int32_t k = 0; k < t->search.n; k++) {
    ts_str_reset(&s);
    TS_TRY(ts_search_draw(&s, &t->search, k, t->seed, trial));
    TS_TRY(add_set(w, t->search.key[k].path, s.text ? s.text : ""));
  }
  ts_str_reset(&s);
  TS_TRY(ts_tune_path(&s, t, trial, ""));
  TS_TRY(add_set(w, "run.output", s.text));
  TS_TRY(add_set(w, "run.stop.metric", t->metric));
  if (c->checkpoint.dir) {
    TS_TRY(ts_str_append(&s, "/checkpoints"));
    TS_TRY(add_set(w, "checkpoint.dir", s.text));
  }
  snprintf(number, sizeof number, "%.9g", budget);
  if (t->args->halving)
    TS_TRY(add_set(w, c->run.steps > 0 ? "run.steps" : "run.epochs", number));
  /* A rung's end is no end: who goes on does so from the last weights. */
  if (t->trial[trial].n_rungs + 1 < t->n_rungs)
    TS_TRY(add_set(w, "run.stop.restore", "last"));
  /* One process takes all cores, if nobody says otherwise. */
  const int threads = ts_threads_local(0) / t->n_parallel;
  snprintf(number, sizeof number, "%d", threads > 1 ? threads : 1);
  if (!t->args->launch && !c->run.threads)
    TS_TRY(add_set(w, "run.threads", number));
done:
  ts_str_reset(&s);
  return err;
}

static ts_err command(ts_arguments *w, const ts_tune *t, int32_t trial) {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n < 0) return ts_fail_errno(TS_ERR_IO, "/proc/self/exe");
  self[n] = '\0';
  TS_DO(add_launch(w, t->args->launch));
  TS_DO(add(w, self));
  TS_DO(add(w, "train"));
  TS_DO(add(w, t->args->target));
  TS_DO(add(w, "--quiet"));
  for (int i = 0; i < t->args->n_sets; i++) {
    TS_DO(add(w, "--set"));
    TS_DO(add(w, t->args->sets[i]));
  }
  return add_own(w, t, trial);
}

/* ---- processes ----------------------------------------------------------- */

/* In the child.  A group of its own: what the terminal sends comes once, from
 * the search; and the run is asked to stop where the search is killed. */
static _Noreturn void become(const ts_tune *t, char **word, int lock, int in,
                             int out, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (getppid() != parent) _exit(75);
  fcntl(lock, F_SETFD, 0);
  dup2(in, STDIN_FILENO); /* launchers read it, and it is not theirs */
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  sigprocmask(SIG_SETMASK, &t->signals, NULL);
  execvp(*word, word);
  dprintf(STDERR_FILENO, "%s: %s\n", *word, strerror(errno));
  _exit(127);
}

ts_err ts_tune_start(ts_tune *t, int32_t trial, int lock) {
  ts_err err = TS_OK;
  ts_arguments w = {0};
  ts_str path = {0};
  int in = -1, out = -1;
  TS_TRY(command(&w, t, trial));
  TS_TRY(ts_tune_path(&path, t, trial, "output"));
  out = ts_file_open(path.text, O_CREAT | O_WRONLY | O_TRUNC);
  if (out < 0) TS_THROW(TS_ERR_IO, "%s: %s", path.text, ts_file_why());
  in = ts_file_open("/dev/null", O_RDONLY);
  if (in < 0) TS_THROW(TS_ERR_IO, "/dev/null: %s", ts_file_why());
  t->trial[trial].state = TS_TRIAL_RUNNING;
  TS_TRY(ts_tune_write(t, trial));
  fflush(NULL);
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) become(t, w.word, lock, in, out, parent);
  if (pid < 0)
    TS_THROW(TS_ERR_IO, "a trial can't be started: %s", strerror(errno));
  setpgid(pid, pid);
  t->child[t->n_running++] =
      (ts_tune_child){.pid = pid, .trial = trial, .lock = lock};
done:
  if (err != TS_OK) close(lock);
  if (in >= 0) close(in);
  if (out >= 0) close(out);
  words_free(&w);
  ts_str_reset(&path);
  return err;
}

void ts_tune_stop(const ts_tune *t) {
  for (int32_t i = 0; i < t->n_running; i++) kill(-t->child[i].pid, SIGUSR1);
}

/* ---- ends ---------------------------------------------------------------- */

/* The last line that the run printed. */
static ts_err last_words(ts_str *words, const ts_tune *t, int32_t trial) {
  ts_err err = TS_OK;
  ts_str path = {0}, text = {0};
  TS_TRY(ts_tune_path(&path, t, trial, "output"));
  TS_TRY(ts_file_read(&text, path.text));
  char *at = text.text ? strstr(text.text, "tessera: error: ") : NULL;
  if (at) at += strlen("tessera: error: ");
  if (!at) at = text.text;
  size_t n = at ? strlen(at) : 0;
  while (n && at[n - 1] == '\n') n--;
  TS_TRY(ts_str_append(words, "%.*s", (int)(n < 2000 ? n : 2000), n ? at : ""));
done:
  ts_str_reset(&path);
  ts_str_reset(&text);
  return err;
}

static bool any_ended(const ts_tune *t) {
  for (int32_t i = 0; i < t->n_trials; i++)
    if (t->trial[i].n_rungs) return true;
  return false;
}

/* What no trial gets right is the deck's fault, or the launcher's. */
static ts_err give_up(ts_tune *t, int32_t trial, int code, const char *why) {
  t->trial[trial].state = TS_TRIAL_WAITING;
  TS_DO(ts_tune_write(t, trial));
  return ts_fail(code == 2 ? TS_ERR_DECK : TS_ERR_USAGE, "trial %d: %s",
                 trial + 1, why);
}

static void say(ts_tune *t, int32_t trial) {
  const ts_trial *x = &t->trial[trial];
  const int32_t best = ts_tune_best(t);
  const double gone = ts_now() - t->began, left = ts_tune_left(t);
  char eta[32];
  t->done += t->budget[x->n_rungs - 1] -
             (x->n_rungs > 1 ? t->budget[x->n_rungs - 2] : 0);
  ts_progress("trial %d/%d: %s %.6f at step %lld; best %.6f of trial %d; ETA "
              "%s",
              trial + 1, t->n_trials, t->metric, ts_trial_metric(x),
              (long long)x->step, ts_trial_metric(&t->trial[best]), best + 1,
              ts_str_seconds(eta, gone * left / t->done));
}

static ts_err fail(ts_tune *t, int32_t trial, int code) {
  ts_err err = TS_OK;
  ts_str why = {0};
  TS_TRY(last_words(&why, t, trial));
  const char *text = why.text ? why.text : "it printed nothing";
  if ((code == 2 || code == 127) && !any_ended(t))
    TS_TRY(give_up(t, trial, code, text));
  t->trial[trial].state = TS_TRIAL_FAILED;
  TS_TRY(ts_tune_write(t, trial));
  ts_progress("trial %d/%d failed with code %d: %s", trial + 1, t->n_trials,
              code, code ? text : "it has no validation");
done:
  ts_str_reset(&why);
  return err;
}

/* Codes that neither the deck nor its data are to blame for: a process that
 * was killed, a node or a file system that failed. */
static bool is_accident(int code) {
  return code == 1 || (code >= 5 && code != 75 && code != 127);
}

static ts_err end(ts_tune *t, int32_t trial, int status, bool stopping) {
  const int code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  bool found = false;
  /* It goes on another time, from its checkpoint. */
  if (code && stopping) return TS_OK;
  if (code == 75)
    return ts_fail(TS_ERR_STOPPED, "trial %d was stopped", trial + 1);
  if (code && is_accident(code) && !t->again[trial]) {
    t->again[trial] = true;
    ts_progress("trial %d/%d ended with code %d: once more", trial + 1,
                t->n_trials, code);
    return TS_OK;
  }
  if (code) return fail(t, trial, code);
  TS_DO(ts_tune_take(t, trial, &found));
  if (!found) return fail(t, trial, 0);
  t->trial[trial].state = TS_TRIAL_ENDED;
  TS_DO(ts_tune_write(t, trial));
  say(t, trial);
  return TS_OK;
}

ts_err ts_tune_reap(ts_tune *t, bool stopping) {
  ts_err err = TS_OK;
  for (int32_t i = 0; i < t->n_running;) {
    const ts_tune_child c = t->child[i];
    int status;
    if (waitpid(c.pid, &status, WNOHANG) != c.pid) {
      i++;
      continue;
    }
    t->child[i] = t->child[--t->n_running];
    const ts_err own = end(t, c.trial, status, stopping || err != TS_OK);
    if (err == TS_OK) err = own;
    (void)flock(c.lock, LOCK_UN); /* what the run left behind has it, too */
    close(c.lock);
  }
  return err;
}
