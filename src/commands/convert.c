/* convert.c - `tessera convert DECK [train|valid|eval] --out PATH`, and
 * `tessera generate`, which does the same with synthetic data.  Logs of events:
 * convert_sequences.c. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tasks.h"
#include "commands/commands.h"
#include "io/columnar_keys.h"
#include "io/deck.h"
#include "io/source.h"
#include "io/split.h"
#include "runtime/trace.h"
#include "train/trainer.h"

static ts_err parse_split(const ts_args *a, ts_split *split) {
  *split = TS_SPLIT_TRAIN;
  if (!a->n_more || !strcmp(a->more[0], "train")) return TS_OK;
  *split = TS_SPLIT_EVAL;
  if (!strcmp(a->more[0], "eval")) return TS_OK;
  *split = TS_SPLIT_VALID;
  if (!strcmp(a->more[0], "valid")) return TS_OK;
  return ts_fail(TS_ERR_USAGE, "\"%s\" is none of train, valid, eval",
                 a->more[0]);
}

/* The training source's vocabulary serves the evaluation data, too. */
static ts_err training_state(ts_trainer *t, ts_str *state) {
  ts_err err = TS_OK;
  ts_source *s = NULL;
  if (!t->config->data.train.n) return TS_OK;
  TS_TRY(ts_source_open(&s, t->config, TS_SPLIT_TRAIN, NULL, t->control));
  if (s->ops->state_save) TS_TRY(s->ops->state_save(s, state));
done:
  ts_source_close(s);
  return err;
}

/* Bytes of the file PATH, or of the parts in it. */
static int64_t bytes_of(const char *path) {
  int64_t n = 0;
  struct stat st;
  ts_strings files = {0};
  if (!ts_str_ends(path, "/")) return stat(path, &st) == 0 ? st.st_size : 0;
  if (ts_columnar_files(&files, path, strlen(path)) != TS_OK) ts_err_clear();
  for (int32_t i = 0; i < files.n; i++)
    if (stat(files.item[i], &st) == 0) n += st.st_size;
  ts_columnar_keys_free(&files);
  return n;
}

static void report(const ts_args *a, const ts_source *s, double seconds) {
  const int64_t n_bytes = bytes_of(a->out);
  char bytes[32], n[32];
  ts_info("%s: %s samples, %s in %.2f s (%.0f MB/s written)", a->out,
          ts_str_count(n, s->info.n_samples), ts_str_bytes(bytes, n_bytes),
          seconds, (double)n_bytes / 1e6 / seconds);
  if (s->n_short)
    ts_note("%lld records of rank 0 ended early; what was missing was read "
            "as missing",
            (long long)s->n_short);
  if (s->n_bad_records)
    ts_note("%lld bad records of rank 0 were skipped",
            (long long)s->n_bad_records);
  if (isfinite(s->info.bayes_auc))
    ts_info("the planted truth allows%s: AUC %.5f  log loss %.5f",
            s->info.n_tasks > 1 ? " (first task)" : "", s->info.bayes_auc,
            s->info.bayes_logloss);
}

static ts_err refuse_format(const char *given) {
  ts_err err = TS_OK;
  const ts_source_ops *ops;
  ts_str names = {0};
  for (int i = 0; (ops = ts_source_at(i)); i++)
    if (ops->write)
      TS_TRY(ts_str_append(&names, "%s%s", names.n_bytes ? ", " : "",
                           ops->format));
  TS_THROW(TS_ERR_USAGE, "--format is one of %s, not %s", names.text, given);
done:
  ts_str_reset(&names);
  return err;
}

/* The format of the name's end; a folder's is Parquet. */
static const char *format_of(const char *path) {
  if (ts_str_ends(path, "/"))
    return ts_str_ends(path, ".arrow/") ? "arrow" : "parquet";
  if (ts_str_ends(path, ".parquet")) return "parquet";
  return ts_str_ends(path, ".arrow") || ts_str_ends(path, ".feather")
             ? "arrow"
             : "dataset";
}

/* A name that says another format would be a data set all the same. */
static ts_err check_name(const ts_args *a) {
  static const char *const ends[] = {".csv", ".tsv", ".txt", ".npy", ".npz"};
  for (size_t i = 0; !a->format && i < sizeof ends / sizeof *ends; i++)
    if (ts_str_ends(a->out, ends[i]))
      return ts_fail(TS_ERR_USAGE,
                     "--out %s: %s is read and not written; give a name that "
                     "ends in .h5, .parquet or .arrow, or --format",
                     a->out, ends[i] + 1);
  if (a->format && ts_str_ends(a->out, "/") && strcmp(a->format, "parquet") &&
      strcmp(a->format, "arrow"))
    return ts_fail(TS_ERR_USAGE,
                   "--out %s: a folder has parts of Parquet or Arrow, and "
                   "--format is %s",
                   a->out, a->format);
  return TS_OK;
}

static ts_err write_split(const ts_args *a, ts_trainer *t, ts_split split) {
  ts_err err = TS_OK;
  ts_source *s = NULL;
  ts_str state = {0};
  const ts_source_ops *format =
      ts_source_find(a->format ? a->format : format_of(a->out));
  const double t0 = ts_now();
  if (!format || !format->write) TS_TRY(refuse_format(a->format));
  if (split != TS_SPLIT_TRAIN) TS_TRY(training_state(t, &state));
  TS_TRY(ts_source_open(&s, t->config, split, state.text, t->control));
  s->n_threads = t->n_threads;
  TS_TRY(format->write(a->out, s, t->control));
  report(a, s, ts_now() - t0);
done:
  ts_source_close(s);
  ts_str_reset(&state);
  return err;
}

static void forget(ts_strings *s) {
  for (int32_t i = 0; i < s->n; i++) ts_mem_free(s->item[i]);
  s->n = 0;
}

/* SYNTHETIC: whatever data.format says. */
static ts_err write_data(const ts_args *a, bool synthetic) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_trainer *t = NULL;
  ts_split split;
  if (!a->target || !a->out)
    TS_THROW(TS_ERR_USAGE,
             "usage: tessera %s DECK [train|valid|eval] --out FILE",
             a->command);
  TS_TRY(parse_split(a, &split));
  TS_TRY(ts_deck_read_all(&c, a->target, a->sets, a->n_sets));
  TS_TRY(ts_deck_spare(c, "--out", a->out));
  TS_TRY(check_name(a));
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    if (ts_task_has_where(&c->model.tasks[k]))
      TS_THROW(
          TS_ERR_DECK,
          "model.outputs: \"%s\" has where, which is not written: %s takes "
          "a deck without it",
          c->model.tasks[k].name, a->command);
  ts_split_forget(c); /* files are written whole */
  if (synthetic) {
    ts_mem_free(c->data.format);
    c->data.format = NULL;
    TS_TRY(ts_mem_strdup(&c->data.format, "synthetic"));
    forget(&c->data.train);
    forget(&c->data.valid);
    forget(&c->data.eval);
  }
  TS_TRY(ts_trainer_start(&t, c, false));
  TS_TRY(write_split(a, t, split));
done:
  ts_trainer_destroy(t);
  ts_deck_destroy(c);
  return err;
}

ts_err ts_cmd_convert(const ts_args *a) {
  return a->sequences ? ts_convert_sequences(a) : write_data(a, false);
}

ts_err ts_cmd_generate(const ts_args *a) {
  return write_data(a, true);
}
