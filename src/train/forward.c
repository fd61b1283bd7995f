/* forward.c - evaluation and prediction with a checkpoint. */
#include "train/forward.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "io/columns.h"
#include "io/deck.h"
#include "io/keys.h"
#include "io/permuted.h"
#include "io/spool.h"
#include "train/layer_values.h"
#include "train/report.h"
#include "train/rows.h"
#include "train/segments.h"
#include "train/topk_rows.h"

/* ---- what is asked for --------------------------------------------------- */

ts_err ts_forward_checkpoint(const char **path, ts_str *best,
                             const ts_config *c, const char *given) {
  const char *dir = c->checkpoint.dir;
  *path = given;
  if (!given && !dir)
    return ts_fail(TS_ERR_USAGE, "checkpoint.dir is \"none\": give "
                                 "--checkpoint");
  if (!given || strcmp(given, "best") != 0) return TS_OK;
  if (!dir)
    return ts_fail(TS_ERR_USAGE, "checkpoint.dir is \"none\": it has no best "
                                 "checkpoint; --checkpoint takes a file, too");
  TS_DO(ts_str_append(best, "%s/best.h5", dir));
  *path = best->text;
  if (access(best->text, F_OK) == 0) return TS_OK;
  return ts_fail(TS_ERR_CKPT,
                 "%s is not there: this run has kept no best checkpoint; "
                 "--checkpoint takes a file, too, and without it the newest is "
                 "used",
                 best->text);
}

ts_err ts_forward_check_out(const ts_config *c, const char *out) {
  TS_DO(ts_deck_spare(c, "--out", out));
  if (ts_sheet_format_of(out) != TS_SHEET_NONE) return TS_OK;
  return ts_fail(
      TS_ERR_USAGE,
      "--out %s: the end of its name says no format; it is one of "
      ".csv, .csv.gz, .h5, .hdf5, .parquet, .arrow, .feather (and - is CSV "
      "on stdout)",
      out);
}

/* PATH, of the folder that the program is in. */
static ts_err full_path(char **to, const char *path) {
  ts_err err = TS_OK;
  ts_str full = {0};
  char here[4096];
  if (*path != '/') {
    if (!getcwd(here, sizeof here)) TS_TRY(ts_fail_errno(TS_ERR_IO, "."));
    TS_TRY(ts_str_append(&full, "%s/", here));
  }
  TS_TRY(ts_str_append(&full, "%s", path));
  TS_TRY(ts_mem_strdup(to, full.text));
done:
  ts_str_reset(&full);
  return err;
}

ts_err ts_forward_data(ts_config *c, const ts_strings *files) {
  ts_strings *eval = &c->data.eval;
  for (int32_t i = 0; i < eval->n; i++) ts_mem_free(eval->item[i]);
  ts_mem_free(eval->item);
  *eval = (ts_strings){0};
  TS_DO(ts_mem_many(eval->item, files->n, MISC));
  for (; eval->n < files->n; eval->n++)
    TS_DO(full_path(&eval->item[eval->n], files->item[eval->n]));
  return TS_OK;
}

static ts_err take_data(ts_config *c, const char *path) {
  return ts_forward_data(c, &(ts_strings){(char *[]){(char *)path}, 1});
}

/* Rank 0 has the stdin of the launcher.  SPOOL: the file, there. */
static ts_err take_stdin(ts_trainer *t, ts_config *c, ts_str *spool) {
  char path[4096] = "";
  if (ts_world_nodes(t->world) > 1)
    return ts_fail(TS_ERR_USAGE, "--data - is for one node: the others don't "
                                 "see what comes; put it in a file");
  /* What writes to the pipe may take its time. */
  const ts_section before = ts_watch_enter(TS_SECTION_NONE);
  const ts_err err = t->rank == 0 ? ts_spool_stdin(spool) : TS_OK;
  ts_watch_enter(before);
  TS_DO(ts_agree(t->control, err));
  if (t->rank == 0) snprintf(path, sizeof path, "%s", spool->text);
  TS_DO(ts_comm_bcast(t->control, path, sizeof path, 0));
  return ts_settle(t, take_data(c, path));
}

ts_err ts_forward_none(const ts_config *c) {
  return ts_fail(TS_ERR_CKPT,
                 "%s holds no checkpoint; train first, or give --checkpoint",
                 c->checkpoint.dir);
}

static ts_err load(ts_trainer *t, const char *path, const char *out,
                   ts_run_state *state) {
  ts_err err = TS_OK;
  ts_str taken = {0};
  TS_TRY(ts_trainer_load(t, path, state, &taken));
  if (!taken.text) TS_TRY(ts_forward_none(t->config));
  if (out && ts_file_is_same(out, taken.text))
    TS_THROW(TS_ERR_USAGE, "--out %s is a file to read", out);
  ts_info("weights of step %lld from %s", (long long)t->step, taken.text);
done:
  ts_str_reset(&taken);
  return err;
}

/* ---- the pass ------------------------------------------------------------ */

/* Columns: keys, predictions, labels. */
typedef struct ts_scores {
  ts_trainer *t;
  ts_keys *keys;        /* NULL: none */
  ts_strings key_names; /* those of the deck */
  ts_sheet_column *columns;
  const void **data; /* (n) of a batch */
  int32_t n;
  char **heads;          /* (n_logits) of predictions */
  ts_layer_values layer; /* instead of predictions */
  ts_topk_rows top;      /* likewise */
  ts_sheet *rows;
} ts_scores;

/* The task, and the class where it has some. */
static ts_err name_heads(ts_scores *s) {
  ts_err err = TS_OK;
  const ts_config *c = s->t->config;
  ts_str name = {0};
  int32_t n = 0;
  TS_TRY(ts_mem_many(s->heads, s->t->n_logits, MISC));
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    for (int32_t i = 0; i == 0 || i < c->model.tasks[k].classes; i++) {
      TS_TRY(ts_str_append(&name, "%s", c->model.tasks[k].name));
      if (c->model.tasks[k].classes) TS_TRY(ts_str_append(&name, "_%d", i));
      s->heads[n++] = name.text;
      name = (ts_str){0};
    }
done:
  ts_str_reset(&name);
  return err;
}

/* CSV has labels only where they are asked for, as keys. */
static ts_err name_columns(ts_scores *s) {
  const ts_trainer *t = s->t;
  const int32_t n_keys = s->keys ? s->keys->n : 0, n = t->n_logits;
  s->n = n_keys + (s->top.topk ? TS_TOPK_COLUMNS : 2);
  TS_DO(ts_mem_many(s->columns, s->n, MISC));
  TS_DO(ts_mem_many(s->data, s->n, MISC));
  TS_DO(name_heads(s));
  for (int32_t k = 0; k < n_keys; k++) s->columns[k] = s->keys->columns[k];
  if (s->top.topk) {
    ts_topk_rows_columns(&s->top, s->columns + n_keys);
    return TS_OK;
  }
  s->columns[n_keys] =
      (ts_sheet_column){.name = "predictions",
                        .head = n > 1 ? "prediction_" : "prediction",
                        .heads = n > 1 ? s->heads : NULL,
                        .kind = TS_SHEET_F32,
                        .n_cells = n};
  if (s->layer.value)
    s->columns[n_keys] =
        (ts_sheet_column){.name = "layer",
                          .head = s->layer.n > 1 ? "layer_" : "layer",
                          .kind = TS_SHEET_F32,
                          .n_cells = s->layer.n};
  s->columns[n_keys + 1] = (ts_sheet_column){.name = "labels",
                                             .kind = TS_SHEET_F32,
                                             .n_cells = t->n_tasks,
                                             .hdf5_only = true};
  return TS_OK;
}

static ts_err write_batch(void *arg, const ts_batch *b,
                          const float *predictions) {
  ts_scores *s = arg;
  if (s->keys)
    TS_DO(ts_agree(s->t->control, ts_keys_read(s->keys, b->first, b->n)));
  for (int32_t k = 0; k < s->n - 2; k++) s->data[k] = s->keys->data[k];
  if (s->layer.value)
    TS_DO(ts_layer_values_take(&s->layer, b->n, &predictions));
  s->data[s->n - 2] = predictions;
  s->data[s->n - 1] = b->labels;
  if (s->top.topk) TS_DO(ts_topk_rows_take(&s->top, b, s->data + s->n - 2));
  return ts_sheet_write(s->rows, b->first, b->n, s->data);
}

static ts_err scores_open(ts_scores *s, const ts_forward *o,
                          const ts_source *source) {
  ts_trainer *t = s->t;
  const ts_strings *keys = o->keys && o->keys->n ? o->keys : &s->key_names;
  TS_DO(ts_settle(t, ts_column_keys(&s->key_names, t->config)));
  if (keys->n)
    TS_DO(ts_keys_open(&s->keys, t->config, TS_SPLIT_EVAL, keys, t->control));
  if (t->keeps) TS_DO(ts_settle(t, ts_layer_values_open(&s->layer, t)));
  if (o->k) TS_DO(ts_topk_rows_open(&s->top, t, source, o->k));
  TS_DO(ts_settle(t, name_columns(s)));
  return ts_sheet_create(&s->rows, o->out, source->info.n_samples, s->columns,
                         s->n, t->control);
}

static void scores_close(ts_scores *s) {
  ts_keys_close(s->keys);
  ts_layer_values_close(&s->layer);
  ts_topk_rows_close(&s->top);
  for (int32_t k = 0; s->heads && k < s->t->n_logits; k++)
    ts_mem_free(s->heads[k]);
  ts_mem_free_all(s->columns, s->data, s->heads, s->key_names.item);
}

/* What looks at an evaluation besides its figures. */
typedef struct ts_looks {
  ts_segments *segments;
  ts_calibration calibration;
  ts_source *permuted;
} ts_looks;

static ts_err looks_open(ts_looks *l, ts_trainer *t, const ts_forward *o,
                         ts_source *source, ts_eval_hooks *hooks) {
  if (o->by) {
    TS_DO(ts_segments_open(&l->segments, t, o->by));
    hooks->fn = ts_segments_add;
    hooks->fn_arg = l->segments;
  }
  if (o->n_bins) {
    TS_DO(ts_settle(t, ts_calibration_create(&l->calibration, t, o->n_bins)));
    hooks->all = ts_calibration_take;
    hooks->all_arg = &l->calibration;
  }
  if (!o->importance.repeats) return TS_OK;
  return ts_settle(t, ts_permuted_open(&l->permuted, source, "--importance"));
}

static ts_err looks_report(ts_looks *l, ts_trainer *t, const ts_forward *o,
                           const ts_metrics_result *m) {
  if (l->segments) TS_DO(ts_segments_report(l->segments));
  if (o->n_bins) {
    ts_calibration_report(&l->calibration);
    if (*o->drawing) {
      const bool draws = t->rank == 0;
      TS_DO(ts_agree(t->control,
                     draws ? o->draw(o->drawing, &l->calibration) : TS_OK));
      ts_info("drawing: %s", o->drawing);
    }
  }
  if (!l->permuted) return TS_OK;
  return ts_importance_report(t, l->permuted, &o->importance, m);
}

static void looks_close(ts_looks *l) {
  ts_segments_close(l->segments);
  ts_calibration_destroy(&l->calibration);
  ts_source_close(l->permuted);
}

static ts_err pass(ts_trainer *t, const ts_forward *o, const char *state) {
  ts_err err = TS_OK;
  ts_source *source = NULL;
  ts_scores s = {.t = t};
  ts_looks looks = {0};
  ts_metrics_result m[t->n_tasks];
  bool stopped;
  TS_TRY(ts_source_open(&source, t->config,
                        o->out ? TS_SPLIT_PREDICT : TS_SPLIT_EVAL, state,
                        t->control));
  if (o->out) TS_TRY(scores_open(&s, o, source));
  ts_eval_hooks hooks = {.fn = o->out ? write_batch : NULL, .fn_arg = &s};
  TS_TRY(looks_open(&looks, t, o, source, &hooks));
  err = ts_evaluate(t, source, m, &hooks, &stopped);
  if (s.rows) err = ts_sheet_finish(s.rows, err);
  TS_TRY(err);
  for (int32_t k = 0; !source->info.unlabelled && k < t->n_tasks; k++)
    TS_TRY(ts_report_eval(t, &ts_is_evaluation, k, &m[k], NULL));
  TS_TRY(looks_report(&looks, t, o, m));
  if (o->out) ts_info("%s: %s", o->k ? "items" : "predictions", o->out);
done:
  looks_close(&looks);
  scores_close(&s);
  ts_source_close(source);
  return err;
}

ts_err ts_tasks_of_probabilities(const ts_config *c, const char *who) {
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    if (!ts_task_is_binary(&c->model.tasks[k]))
      return ts_fail(TS_ERR_USAGE,
                     "%s is for loss bce: task \"%s\" has loss %s", who,
                     c->model.tasks[k].name, c->model.tasks[k].loss);
  return TS_OK;
}

static ts_err check(const ts_config *c, const ts_forward *o) {
  if (o->n_bins) TS_DO(ts_tasks_of_probabilities(c, "--calibration"));
  if (o->importance.repeats)
    TS_DO(ts_tasks_of_probabilities(c, "--importance"));
  if (o->out) TS_DO(ts_forward_check_out(c, o->out));
  TS_DO(ts_topk_rows_check(c, o->k));
  if (o->by && ts_task_is_of_items(c->model.tasks))
    return ts_fail(TS_ERR_USAGE,
                   "--by is of labels and predictions, and the output \"%s\" "
                   "is over items",
                   c->model.tasks->name);
  if (o->out && !o->k && !o->layer && ts_task_is_of_items(c->model.tasks))
    return ts_fail(TS_ERR_USAGE,
                   "predict writes a score a sample, and the output \"%s\" is "
                   "over items: `tessera topk` writes the best of them, and "
                   "--layer what a layer gives",
                   c->model.tasks->name);
  if (o->n_bins && *o->drawing)
    TS_DO(ts_deck_spare(c, "--calibration", o->drawing));
  return ts_importance_check(c, &o->importance);
}

ts_err ts_run_forward(const char *deck, const char *const *sets, int n_sets,
                      const ts_forward *o) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_trainer *t = NULL;
  ts_run_state state = {0};
  const char *path;
  ts_str spool = {0}, best = {0};
  const bool piped = o->data && !strcmp(o->data, "-");
  TS_TRY(ts_watch_start());
  TS_TRY(ts_deck_read_all(&c, deck, sets, n_sets));
  if (o->data && !piped) TS_TRY(take_data(c, o->data));
  TS_TRY(check(c, o));
  TS_TRY(ts_trainer_start(&t, c, false));
  TS_TRY(ts_settle(t, ts_forward_checkpoint(&path, &best, c, o->checkpoint)));
  if (piped) TS_TRY(take_stdin(t, c, &spool));
  TS_TRY(ts_trainer_rows_of(t, path));
  t->keeps = o->layer;
  TS_TRY(ts_trainer_build(t, NULL));
  TS_TRY(load(t, path, o->out, &state));
  /* What is evaluated teaches nothing: words would have other rows. */
  TS_TRY(pass(t, o, state.source_state ? state.source_state : ""));
done:
  if (spool.text) unlink(spool.text);
  ts_settle_own(err);
  ts_str_reset(&spool);
  ts_str_reset(&best);
  ts_mem_free(state.source_state);
  ts_trainer_destroy(t);
  ts_watch_stop();
  ts_deck_destroy(c);
  return err;
}
