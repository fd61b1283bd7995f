/* export_serve.c - a checkpoint as one file to map: the file that
 * libtessera_serve scores by. */
#include "commands/export_serve.h"

#include <string.h>

#include "base/log.h"
#include "io/source.h"
#include "io/split.h"
#include "serve/state.h"

static ts_err take_kind(ts_rows_kind *kind, const char *option,
                        const char *given, const char *all, bool dense) {
  if (!given) return TS_OK;
  if (ts_rows_kind_find(kind, given) && (!dense || *kind <= TS_ROWS_BF16))
    return TS_OK;
  return ts_fail(TS_ERR_USAGE, "%s %s is none of %s", option, given, all);
}

/* The format says what ids and words of the data mean. */
static ts_err take_format(ts_serve_out *o, const ts_config *c) {
  const ts_source_ops *ops = NULL;
  ts_strings paths = {0};
  o->format = c->data.format;
  if (strcmp(c->data.format, "auto") != 0) return TS_OK;
  const ts_err err = ts_source_files(&ops, &paths, c, TS_SPLIT_TRAIN);
  ts_source_files_free(&paths);
  if (err == TS_OK) o->format = ops->format;
  if (err == TS_OK) return TS_OK;
  ts_err_clear();
  return ts_fail(TS_ERR_DECK,
                 "data.format is \"auto\", and data.train is not there to be "
                 "looked at: name the format, as by --set data.format=csv");
}

/* What the training had learnt of the data, which STATE has. */
static ts_err take_learnt(ts_serve_export *x, const char *state) {
  const ts_config *c = x->out.config;
  ts_serve_rules rules;
  if (!ts_serve_rules_of(&rules, x->out.format))
    return ts_fail(TS_ERR_USAGE, "data of format %s can't be served yet",
                   x->out.format);
  const char *usual = rules == TS_SERVE_CSV      ? NULL
                      : rules == TS_SERVE_CRITEO ? "modulo"
                                                 : "none";
  TS_DO(ts_scales_create(&x->scales, c, ts_serve_transform(rules)));
  TS_DO(ts_scales_load(x->scales, state));
  TS_DO(ts_scales_save(x->scales, &x->text));
  x->out.scales = x->text.text ? x->text.text : "";
  TS_DO(ts_vocabularies_create(&x->words, c, usual));
  x->out.words = x->words;
  return x->words ? ts_vocabularies_load(x->words, state) : TS_OK;
}

static ts_err write_file(void *arg, const char *path,
                         const ts_tensors_out *model, const ts_ckpt *head) {
  ts_serve_export *x = arg;
  ts_serve_export_end(x); /* of a checkpoint that was no good */
  const ts_ckpt_value *state = ts_ckpt_value_of(head, "loader/state");
  const bool learnt = state && state->dtype == TS_U8 && state->n;
  char bytes[32], rows[32], changed[32];
  x->out.model = model;
  x->out.negatives = ts_negatives_of(x->out.config, head);
  TS_DO(take_learnt(x, learnt ? state->ptr : ""));
  TS_DO(ts_serve_write(&x->out, path));
  ts_info("%s: step %lld, %s, %s of %s rows as %s%s%s", path,
          (long long)model->step, ts_str_bytes(bytes, x->out.bytes),
          ts_str_count(changed, x->out.n_changed),
          ts_str_count(rows, x->out.n_rows), ts_rows_kind_name(x->out.tables),
          x->out.base ? ", a delta over " : "", x->out.base ? x->out.base : "");
  return TS_OK;
}

ts_err ts_serve_export_begin(ts_serve_export *x, ts_ckpt_export *e,
                             const ts_config *c, const ts_args *a) {
  x->out = (ts_serve_out){.config = c,
                          .tables = TS_ROWS_INT8,
                          .dense = TS_ROWS_F32,
                          .base = a->base};
  TS_DO(take_kind(&x->out.tables, "--tables", a->tables,
                  "f32, bf16, int8, int4", false));
  TS_DO(take_kind(&x->out.dense, "--dense", a->dense, "f32, bf16", true));
  TS_DO(take_format(&x->out, c));
  e->write = write_file;
  e->write_arg = x;
  return TS_OK;
}

void ts_serve_export_end(ts_serve_export *x) {
  ts_scales_destroy(x->scales);
  ts_vocabularies_destroy(x->words);
  ts_str_reset(&x->text);
  x->scales = NULL;
  x->words = NULL;
}
