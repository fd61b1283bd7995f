/* rows.c - rows of tables that the deck leaves open. */
#include "train/rows.h"

#include <string.h>

#include "base/compress.h"
#include "dense/param_optim.h"
#include "io/checkpoint.h"
#include "io/deck.h"
#include "io/rows.h"
#include "io/tensors.h"

/* The table of C named NAME, NULL: none. */
static const ts_table_config *find(const ts_config *c, const char *name) {
  for (int32_t i = 0; i < c->n_tables; i++)
    if (!strcmp(c->tables[i].name, name)) return &c->tables[i];
  return NULL;
}

/* Whether OLD has all tables of C that are open: else it is another model's. */
static bool has_all(const ts_config *old, const ts_config *c) {
  for (int32_t i = 0; i < c->n_tables; i++)
    if (c->tables[i].rows == TS_ROWS_AUTO && !find(old, c->tables[i].name))
      return false;
  return true;
}

/* A checkpoint has the deck that it was made by, with numbers.  One that is to
 * be gone on from (ALL) is of the same tables, or refused when it is loaded. */
static ts_err take_kept(const ts_config *c, const char *path, bool all) {
  ts_err err = TS_OK;
  ts_ckpt ckpt = {0};
  ts_config *kept = NULL;
  TS_TRY(ts_ckpt_peek(&ckpt, path));
  const ts_ckpt_value *deck = ts_ckpt_value_of(&ckpt, "meta/deck");
  if (!deck || deck->dtype != TS_U8 || !deck->n) goto done;
  TS_TRY(ts_deck_parse(&kept, deck->ptr, c->deck_dir, NULL, 0));
  if (all && !has_all(kept, c)) goto done;
  for (int32_t i = 0; i < c->n_tables; i++) {
    ts_table_config *t = &c->tables[i];
    const ts_table_config *old = find(kept, t->name);
    if (old && t->rows == TS_ROWS_AUTO)
      ts_table_ids_are(t, ts_table_whole(old)->rows);
  }
done:
  ts_deck_destroy(kept);
  ts_ckpt_reset(&ckpt);
  return err;
}

/* Of a file of tensors: it is of all rows that a table has there. */
static ts_err take_tensors(const ts_config *c, const char *path) {
  ts_err err = TS_OK;
  ts_tensors *f = NULL;
  ts_str name = {0};
  TS_TRY(ts_tensors_open(&f, path));
  for (int32_t i = 0; i < c->n_tables; i++) {
    ts_table_config *t = &c->tables[i];
    ts_str_reset(&name);
    TS_TRY(ts_param_table_name(&name, t));
    const ts_tensor *x = ts_tensors_find(f, name.text, false);
    if (!x) x = ts_tensors_find(f, name.text, true);
    /* Nothing says how many ids rows of parts stand for. */
    if (x && x->n_dims == 2 && x->dims[0] > 0 && t->rows == TS_ROWS_AUTO &&
        !t->whole)
      t->rows = x->dims[0];
  }
done:
  ts_str_reset(&name);
  ts_tensors_close(f);
  return err;
}

static ts_err take_of(const ts_config *c, const char *path, bool all) {
  return ts_path_is_safetensors(path) ? take_tensors(c, path)
                                      : take_kept(c, path, all);
}

/* PATH may be NULL.  Unless it is NEEDED one that is damaged is for who loads
 * it to judge. */
static ts_err take(ts_trainer *t, const char *path, bool needed, bool all) {
  if (!path || !ts_rows_are_open(t->config)) return TS_OK;
  ts_err err = t->rank == 0 ? take_of(t->config, path, all) : TS_OK;
  if (!needed && (err == TS_ERR_CKPT || err == TS_ERR_DECK)) {
    ts_err_clear();
    err = TS_OK;
  }
  TS_DO(ts_settle(t, err));
  return ts_rows_share(t->config, t->control);
}

static ts_err take_newest(ts_trainer *t) {
  ts_err err = TS_OK;
  ts_str path = {0};
  const ts_config *c = t->config;
  if (!c->checkpoint.dir || !ts_rows_are_open(c)) return TS_OK;
  TS_TRY(ts_ckpt_newest(&path, c->checkpoint.dir, ts_mirror_of(c), t->control));
  TS_TRY(take(t, path.text, false, true));
done:
  ts_str_reset(&path);
  return err;
}

ts_err ts_trainer_rows_of(ts_trainer *t, const char *path) {
  return path ? take(t, path, true, false) : take_newest(t);
}

ts_err ts_trainer_rows_kept(ts_trainer *t) {
  ts_err err = TS_OK;
  ts_str path = {0};
  const ts_config *c = t->config;
  if (strcmp(c->checkpoint.resume, "never") != 0) TS_TRY(take_newest(t));
  if (!ts_rows_are_open(c)) goto done;
  TS_TRY(ts_trainer_init_path(t, &path));
  if (path.text) TS_TRY(take(t, path.text, false, false));
done:
  ts_str_reset(&path);
  return err;
}

ts_err ts_trainer_rows(ts_trainer *t, ts_source **train) {
  ts_err err = TS_OK;
  ts_source *s = NULL;
  const ts_config *c = t->config;
  TS_DO(ts_trainer_rows_kept(t));
  if (!ts_rows_are_open(c)) return TS_OK;
  const ts_section before = ts_watch_enter(TS_SECTION_INPUT);
  err = ts_source_open(&s, c, TS_SPLIT_TRAIN, NULL, t->control);
  ts_watch_enter(before);
  if (train)
    *train = s;
  else
    ts_source_close(s);
  return err;
}
