/* run_check.c - a look at the data before anything is trained. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/rows.h"
#include "train/rows.h"
#include "train/run_impl.h"
#include "train/topk.h"

/* Samples of each source that are read, for what only a record can show. */
enum { SAMPLES = 4096 };

/* A run that would go on has its checkpoint's vocabulary. */
static ts_err take_state(ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0};
  ts_ckpt ckpt = {0};
  const ts_config *c = r->config;
  if (!c->checkpoint.dir || !strcmp(c->checkpoint.resume, "never"))
    return TS_OK;
  TS_TRY(
      ts_ckpt_newest(&path, c->checkpoint.dir, ts_mirror_of(c), r->t->control));
  if (!path.text) goto done;
  /* One that is damaged has nothing to say here: loading deals with it. */
  err = ts_settle(r->t, ts_ckpt_peek(&ckpt, path.text));
  if (err == TS_ERR_CKPT) {
    ts_err_clear();
    err = TS_OK;
    goto done;
  }
  TS_TRY(err);
  const ts_ckpt_value *text = ts_ckpt_value_of(&ckpt, "loader/state");
  if (text && text->dtype == TS_U8)
    TS_TRY(ts_mem_strdup(&r->state.source_state, text->ptr));
done:
  ts_ckpt_reset(&ckpt);
  ts_str_reset(&path);
  return err;
}

static ts_err open_all(ts_run *r) {
  ts_err err = TS_OK;
  const ts_config *c = r->config;
  ts_str state = {0};
  ts_order order = {0};
  TS_TRY(take_state(r));
  TS_TRY(ts_source_open_only(&r->train, c, TS_SPLIT_TRAIN,
                             r->state.source_state, r->t->control));
  TS_TRY(ts_settle(r->t, ts_order_set(&order, r->train, r->t->global_batch)));
  if (r->train->ops->state_save)
    TS_TRY(ts_settle(r->t, r->train->ops->state_save(r->train, &state)));
  if (c->data.eval.n || r->train->ops->no_files)
    TS_TRY(ts_source_open_only(&r->eval, c, TS_SPLIT_EVAL, state.text,
                               r->t->control));
  if (c->run.valid_every > 0)
    TS_TRY(ts_source_open_only(&r->valid, c, TS_SPLIT_VALID, state.text,
                               r->t->control));
done:
  ts_order_reset(&order);
  ts_str_reset(&state);
  return err;
}

static ts_err look_at_rows(const ts_run *r) {
  ts_err err = TS_OK;
  const ts_config *c = r->config;
  ts_need *needs = NULL;
  TS_TRY(ts_mem_many(needs, c->n_tables, INPUT));
  TS_TRY(ts_rows_needed(needs, r->train, true));
  TS_TRY(ts_rows_needed(needs, r->valid, true));
  TS_TRY(ts_rows_needed(needs, r->eval, true));
  ts_rows_print(c, needs);
  TS_TRY(ts_rows_take(c, needs, true));
done:
  ts_mem_free(needs);
  return err;
}

static ts_err read_some(ts_source *s) {
  ts_err err = TS_OK;
  ts_batch_store *store = NULL;
  const int64_t n = s->info.n_samples < SAMPLES ? s->info.n_samples : SAMPLES;
  TS_TRY(ts_batch_store_create(&store, s->config, NULL));
  TS_TRY(s->ops->read(s, store, 0, (int32_t)n));
  TS_TRY(ts_batch_store_map(store));
done:
  ts_batch_store_destroy(store);
  return err;
}

static ts_err read_first(const ts_run *r) {
  TS_DO(read_some(r->train));
  if (r->valid) TS_DO(read_some(r->valid));
  return r->eval ? read_some(r->eval) : TS_OK;
}

static void report(const ts_source *s, const char *what) {
  char n[32];
  if (!s) return;
  ts_info("data.%s: %s, %s samples, %d dense and %d sparse features", what,
          s->info.format, ts_str_count(n, s->info.n_samples), s->info.n_dense,
          s->info.n_columns);
}

ts_err ts_run_check_items(const ts_run *r) {
  ts_source *s = NULL;
  if (!r->config->data.items.n) return TS_OK;
  TS_DO(ts_topk_open_items(&s, r->t, r->train));
  report(s, "items");
  const ts_err err = ts_settle(r->t, read_some(s));
  ts_source_close(s);
  return err;
}

ts_err ts_run_check_data(ts_run *r) {
  ts_err err = TS_OK;
  const ts_section before = ts_watch_enter(TS_SECTION_INPUT);
  TS_TRY(ts_trainer_rows_kept(r->t));
  TS_TRY(open_all(r));
  report(r->train, "train");
  report(r->valid, "valid");
  report(r->eval, "eval");
  TS_TRY(ts_agree(r->t->control, look_at_rows(r)));
  TS_TRY(ts_rows_share(r->config, r->t->control));
  TS_TRY(ts_settle(r->t, read_first(r)));
  ts_run_note_eval(r);
done:
  ts_watch_enter(before);
  return err;
}
