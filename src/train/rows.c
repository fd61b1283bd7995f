/* rows.c - rows of tables that the deck leaves open. */
#include "train/rows.h"

#include <string.h>

#include "io/checkpoint.h"
#include "io/deck.h"
#include "io/rows.h"

/* The table of C named NAME, NULL: none. */
static const ts_table_config *find(const ts_config *c, const char *name) {
  for (int32_t i = 0; i < c->n_tables; i++)
    if (!strcmp(c->tables[i].name, name)) return &c->tables[i];
  return NULL;
}

/* A checkpoint has the deck that it was made by, with numbers.  One that is
 * damaged or without is for who loads it to judge. */
static ts_err take_kept(const ts_config *c, const char *path) {
  ts_ckpt ckpt = {0};
  ts_config *kept = NULL;
  ts_err err = ts_ckpt_peek(&ckpt, path);
  const ts_ckpt_value *deck = ts_ckpt_value_of(&ckpt, "meta/deck");
  if (err == TS_OK && deck && deck->dtype == TS_U8 && deck->n)
    err = ts_deck_parse(&kept, deck->ptr, c->deck_dir, NULL, 0);
  if (err == TS_ERR_CKPT || err == TS_ERR_DECK) {
    ts_err_clear();
    err = TS_OK;
  }
  for (int32_t i = 0; kept && i < c->n_tables; i++) {
    ts_table_config *t = &c->tables[i];
    const ts_table_config *old = find(kept, t->name);
    if (old && t->rows == TS_ROWS_AUTO) t->rows = old->rows;
  }
  ts_deck_destroy(kept);
  ts_ckpt_reset(&ckpt);
  return err;
}

ts_err ts_trainer_rows_of(ts_trainer *t, const char *path) {
  ts_err err = TS_OK;
  const ts_config *c = t->config;
  ts_str newest = {0};
  if (!ts_rows_are_open(c)) return TS_OK;
  if (!path && c->checkpoint.dir)
    TS_TRY(ts_ckpt_newest(&newest, c->checkpoint.dir, ts_mirror_of(c),
                          t->control));
  if (!path) path = newest.text;
  err = path && t->rank == 0 ? take_kept(c, path) : TS_OK;
  TS_TRY(ts_settle(t, err));
  TS_TRY(ts_rows_share(c, t->control));
done:
  ts_str_reset(&newest);
  return err;
}

ts_err ts_trainer_rows_kept(ts_trainer *t) {
  const ts_config *c = t->config;
  if (strcmp(c->checkpoint.resume, "never") != 0)
    TS_DO(ts_trainer_rows_of(t, NULL));
  if (*c->checkpoint.init_from)
    TS_DO(ts_trainer_rows_of(t, c->checkpoint.init_from));
  return TS_OK;
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
