/* compare.c - evaluates two runs on the same samples and tells whether one is
 * better by more than chance. */
#include "train/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/deck.h"
#include "train/forward.h"
#include "train/trainer.h"

enum { PATH = 4400, SHARED = 1 << 20 };

/* A run and what it says of each sample.  VALUES: predictions and labels of
 * each task, then weights, n of each; the same on all ranks. */
typedef struct ts_side {
  const ts_compare *asked;
  const char *run;
  char path[PATH];
  ts_config *config;
  int64_t n, step;
  float *values;
} ts_side;

static float *predictions(const ts_side *s, int32_t task) {
  return s->values + task * s->n;
}

static float *labels(const ts_side *s, int32_t task) {
  return predictions(s, s->config->model.n_tasks + task);
}

static float *weights(const ts_side *s) {
  return labels(s, s->config->model.n_tasks);
}

/* ---- what is compared ---------------------------------------------------- */

/* A file, or of a folder the best checkpoint, else the newest. */
static ts_err find_checkpoint(ts_side *s) {
  ts_err err = TS_OK;
  ts_str dir = {0}, path = {0};
  struct stat st;
  if (stat(s->run, &st) == 0 && !S_ISDIR(st.st_mode)) {
    TS_TRY(ts_str_append(&path, "%s", s->run));
  } else {
    TS_TRY(ts_str_append(&dir, "%s/checkpoints", s->run));
    TS_TRY(ts_str_append(&path, "%s/best.h5", dir.text));
    if (access(path.text, F_OK) != 0) {
      ts_str_reset(&path);
      TS_TRY(ts_ckpt_newest_seen(&path, dir.text, NULL, 0));
    }
  }
  if (!path.text)
    TS_THROW(TS_ERR_CKPT,
             "%s holds no checkpoint: give a run's folder (run.output), or the "
             "file of a checkpoint",
             s->run);
  if (snprintf(s->path, PATH, "%s", path.text) >= PATH)
    TS_THROW(TS_ERR_CKPT, "%s: the name is too long", s->run);
done:
  ts_str_reset(&dir);
  ts_str_reset(&path);
  return err;
}

/* No other file is read for it: a checkpoint may come from anywhere. */
static ts_err read_deck(ts_side *s) {
  ts_err err = TS_OK;
  ts_ckpt head = {0};
  const ts_compare *o = s->asked;
  TS_TRY(ts_ckpt_peek(&head, s->path));
  const ts_ckpt_value *deck = ts_ckpt_value_of(&head, "meta/deck");
  if (!deck || deck->dtype != TS_U8 || strstr(deck->ptr, "@include"))
    TS_THROW(TS_ERR_CKPT, "%s has no deck to evaluate it by", s->path);
  TS_TRY(ts_deck_parse(&s->config, deck->ptr, "/", o->sets, o->n_sets));
done:
  ts_ckpt_reset(&head);
  return err;
}

/* The newest may change while ranks look for it: rank 0's is everyone's. */
static ts_err open_side(ts_side *s) {
  TS_DO(ts_mpi_agree(ts_mpi_rank() ? TS_OK : find_checkpoint(s)));
  TS_DO(ts_mpi_bcast(s->path, PATH));
  return ts_mpi_agree(read_deck(s));
}

static ts_err check_tasks(const ts_side *a, const ts_side *b) {
  const int32_t n = a->config->model.n_tasks, m = b->config->model.n_tasks;
  bool same = n == m;
  for (int32_t k = 0; same && n > 1 && k < n; k++)
    same =
        !strcmp(a->config->model.tasks[k].name, b->config->model.tasks[k].name);
  if (same) return ts_tasks_of_probabilities(a->config, "compare");
  return ts_fail(TS_ERR_USAGE,
                 "%s and %s have different tasks (model.tasks): there is "
                 "nothing to compare",
                 a->run, b->run);
}

/* Whether the deck's samples are made, not read. */
static bool is_made(const ts_side *s) {
  const ts_source_ops *ops = ts_source_of(s->config, NULL);
  return ops && ops->no_files;
}

/* Both read the same files. */
static ts_err choose_data(ts_side *a, ts_side *b, const ts_strings *given) {
  const ts_side *made = is_made(a) ? a : is_made(b) ? b : NULL;
  if (given->n && made)
    return ts_fail(TS_ERR_USAGE,
                   "the deck of %s has data.format = \"%s\", which reads no "
                   "--data: --set data.format=auto",
                   made->run, made->config->data.format);
  if (!given->n && !a->config->data.eval.n && !is_made(a))
    return ts_fail(TS_ERR_USAGE,
                   "the deck of %s has no data.eval: give the data to compare "
                   "on by --data FILE",
                   a->run);
  if (given->n) TS_DO(ts_forward_data(a->config, given));
  return ts_forward_data(b->config, &a->config->data.eval);
}

/* ---- an evaluation ------------------------------------------------------- */

static ts_err take_batch(void *side, const ts_batch *b, const float *p) {
  ts_side *s = side;
  const int32_t n_tasks = s->config->model.n_tasks;
  for (int32_t i = 0; i < b->n; i++) {
    const int64_t at = b->first + i;
    weights(s)[at] = b->weights ? b->weights[i] : 1;
    for (int32_t k = 0; k < n_tasks; k++) {
      const float x = p[(int64_t)i * n_tasks + k];
      if (!isfinite(x))
        return ts_fail(TS_ERR_NAN,
                       "%s: the prediction of sample %lld is no "
                       "number",
                       s->run, (long long)at);
      predictions(s, k)[at] = x;
      labels(s, k)[at] = b->labels[(int64_t)i * n_tasks + k];
    }
  }
  return TS_OK;
}

/* Each has its own samples, and 0 elsewhere. */
static ts_err share(ts_side *s, ts_comm *comm) {
  const int64_t n = s->n * (2 * s->config->model.n_tasks + 1);
  for (int64_t at = 0; at < n; at += SHARED) {
    const int64_t part = n - at < SHARED ? n - at : SHARED;
    ts_token token;
    TS_DO(ts_comm_all_reduce(comm, &token, s->values + at, part, TS_F32, TS_SUM,
                             NULL));
    TS_DO(ts_comm_wait(&token));
  }
  return TS_OK;
}

static ts_err pass(ts_side *s, ts_trainer *t, const char *state) {
  ts_err err = TS_OK;
  ts_source *source = NULL;
  ts_metrics_result m[t->n_tasks];
  const ts_eval_hooks hooks = {.fn = take_batch, .fn_arg = s};
  bool stopped;
  TS_TRY(ts_source_open(&source, s->config, TS_SPLIT_EVAL, state, t->control));
  s->n = source->info.n_samples;
  TS_TRY(ts_settle(
      t, ts_mem_many(s->values, s->n * (2 * t->n_tasks + 1), METRICS)));
  err = ts_evaluate(t, source, m, &hooks, &stopped);
  TS_TRY(ts_agree(t->control, err));
  TS_TRY(share(s, t->control));
done:
  ts_source_close(source);
  return err;
}

/* *OUT: the trainer that it was made by. */
static ts_err evaluate(ts_side *s, ts_trainer **out) {
  ts_err err = TS_OK;
  ts_run_state state = {0};
  ts_str taken = {0};
  TS_TRY(ts_trainer_start(out, s->config, false));
  TS_TRY(ts_trainer_build(*out, NULL));
  TS_TRY(ts_trainer_load(*out, s->path, &state, &taken));
  s->step = (*out)->step;
  ts_info("%s: weights of step %lld from %s", s->run, (long long)s->step,
          s->path);
  TS_TRY(pass(s, *out, state.source_state ? state.source_state : ""));
done:
  ts_mem_free(state.source_state);
  ts_str_reset(&taken);
  return err;
}

/* ---- the same samples ---------------------------------------------------- */

static ts_err differ(const ts_side *a, const ts_side *b, const char *what,
                     const float *x, const float *y) {
  for (int64_t i = 0; i < a->n; i++)
    if (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i])))
      return ts_fail(TS_ERR_DATA,
                     "sample %lld has %s %g with the deck of %s and %g with "
                     "that of %s: compare needs the same ones",
                     (long long)i, what, (double)x[i], a->run, (double)y[i],
                     b->run);
  return TS_OK;
}

static ts_err check_samples(const ts_side *a, const ts_side *b) {
  if (a->n != b->n)
    return ts_fail(TS_ERR_DATA,
                   "the data has %lld samples with the deck of %s and %lld "
                   "with that of %s: compare needs the same ones",
                   (long long)a->n, a->run, (long long)b->n, b->run);
  for (int32_t k = 0; k < a->config->model.n_tasks; k++)
    TS_DO(differ(a, b, "label", labels(a, k), labels(b, k)));
  return differ(a, b, "weight", weights(a), weights(b));
}

static int64_t count(const ts_side *s) {
  int64_t n = 0;
  for (int64_t i = 0; i < s->n; i++) n += weights(s)[i] > 0;
  return n;
}

/* ---- all ----------------------------------------------------------------- */

static ts_err tell(const ts_side side[2], ts_trainer *t, ts_paired *figures) {
  const ts_compare *o = side->asked;
  const char *tasks[t->n_tasks];
  ts_comparison c = {.n_samples = count(side),
                     .n_tasks = t->n_tasks,
                     .tasks = tasks,
                     .figures = figures};
  for (int k = 0; k < 2; k++)
    c.run[k] = (ts_compared_run){side[k].run, side[k].path, side[k].step};
  for (int32_t k = 0; k < t->n_tasks; k++) {
    const ts_paired_samples samples = {
        {predictions(&side[0], k), predictions(&side[1], k)},
        labels(side, k),
        weights(side),
        side->n};
    tasks[k] = side->config->model.tasks[k].name;
    TS_DO(ts_metrics_bootstrap(
        figures + k * TS_PAIRED_KINDS, &samples,
        &(ts_bootstrap){o->n_resamples, o->seed, t->n_threads, tasks[k]},
        t->control));
  }
  return ts_agree(t->control, t->rank == 0 ? o->tell(&c, o->arg) : TS_OK);
}

static ts_err compare(ts_side side[2], ts_trainer **t) {
  ts_err err = TS_OK;
  ts_paired *figures = NULL;
  for (int k = 0; k < 2; k++) TS_DO(open_side(&side[k]));
  TS_DO(check_tasks(&side[0], &side[1]));
  TS_DO(choose_data(&side[0], &side[1], side->asked->data));
  TS_DO(evaluate(&side[0], t));
  ts_trainer_destroy(*t);
  *t = NULL;
  TS_DO(evaluate(&side[1], t));
  TS_DO(check_samples(&side[0], &side[1]));
  TS_TRY(ts_settle(
      *t, ts_mem_many(figures, (*t)->n_tasks * TS_PAIRED_KINDS, METRICS)));
  err = tell(side, *t, figures);
done:
  ts_mem_free(figures);
  return err;
}

ts_err ts_run_compare(const ts_compare *o) {
  ts_side side[2] = {{.asked = o, .run = o->run[0]},
                     {.asked = o, .run = o->run[1]}};
  ts_trainer *t = NULL;
  TS_DO(ts_watch_start());
  const ts_err err = compare(side, &t);
  ts_settle_own(err);
  ts_trainer_destroy(t);
  ts_watch_stop();
  for (int k = 0; k < 2; k++) {
    ts_deck_destroy(side[k].config);
    ts_mem_free(side[k].values);
  }
  return err;
}
