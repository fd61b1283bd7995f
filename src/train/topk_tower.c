/* topk_tower.c - items whose vectors layers make of their features: a pass over
 * data.items through these layers. */
#include <stdlib.h>
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "io/columns.h"
#include "model/graph.h"
#include "train/layer_values.h"
#include "train/topk.h"
#include "train/topk_items.h"

/* ---- the data ------------------------------------------------------------ */

/* An error where data.items lacks what the layers read, or is of another format
 * than the samples and the deck does not say how ids become rows: formats
 * differ in that. */
static ts_err check_read(const ts_trainer *t, const ts_source *s,
                         const ts_source *like) {
  const ts_config *c = t->config;
  const bool alike = !strcmp(s->info.format, like->info.format);
  const char *name = "the dense features";
  for (int32_t f = 0; f <= s->info.n_features; f++) {
    const int32_t which = f < s->info.n_features ? f : -1;
    if (!ts_graph_items_read(t->model, which)) continue;
    if (which >= 0) (void)ts_feature_table(c, f, &name);
    if (s->lacks[f])
      return ts_fail(TS_ERR_DATA,
                     "data.items: %s: there is no \"%s\", which layer \"%s\" "
                     "makes items of",
                     c->data.items.item[0], name, c->model.tasks->items);
    if (!alike && which >= 0 && !ts_column_encoding(c, f, NULL))
      return ts_fail(
          TS_ERR_DECK,
          "data.items is of format %s, the samples of format "
          "%s: data.columns has to say the encoding of \"%s\", which "
          "the two have otherwise",
          s->info.format, like->info.format, name);
  }
  return TS_OK;
}

ts_err ts_topk_open_items(ts_source **out, ts_trainer *t,
                          const ts_source *like) {
  ts_err err = TS_OK;
  ts_source *s = NULL;
  ts_str state = {0};
  TS_TRY(ts_settle(t, ts_str_append(&state, "%s", "")));
  TS_TRY(ts_settle(t, ts_source_save_learnt((ts_source *)like, &state)));
  TS_TRY(ts_source_open_only(&s, t->config, TS_SPLIT_ITEMS, state.text,
                             t->control));
  TS_TRY(ts_agree(t->control, check_read(t, s, like)));
  *out = s;
  s = NULL;
done:
  ts_source_close(s);
  ts_str_reset(&state);
  return err;
}

/* ---- the pass ------------------------------------------------------------ */

typedef struct ts_tower {
  ts_trainer *t;
  const ts_task_config *task;
  ts_loader *loader;
  ts_inflight inflight;
  ts_layer_values values;
  ts_item_part *part;
  int32_t feature;
  int64_t n_below;
  int64_t nameless; /* a sample without an id, + 1; 0: none */
} ts_tower;

/* Items of a rank, at most. */
static int64_t most_of(const ts_trainer *t, int64_t n) {
  const int64_t batch = t->micro_batch, w = t->n_ranks;
  return n / batch * ((batch + w - 1) / w) + (n % batch + w - 1) / w;
}

static ts_err open_pass(ts_tower *w, ts_source *s) {
  ts_trainer *t = w->t;
  const ts_value *items = ts_graph_task_value(t->model, 0, TS_TASK_ITEMS);
  const int64_t n = most_of(t, s->info.n_samples);
  const ts_loader_options options = {.global_batch = t->micro_batch,
                                     .max_steps = -1,
                                     .epochs = 1.0,
                                     .rank = t->rank,
                                     .n_ranks = t->n_ranks,
                                     .depth = 2,
                                     .device = t->device,
                                     .n_threads = ts_trainer_readers(t),
                                     .serial = t->config->run.serial_lanes};
  w->feature = ts_task_candidates(t->config, w->task);
  w->part->dim = ts_shape_width(items->shape);
  TS_DO(ts_item_part_room(w->part, n));
  TS_DO(ts_mem_many(w->part->id, n + 1, METRICS));
  TS_DO(ts_layer_values_of(&w->values, t, items));
  TS_DO(ts_loader_create(&w->loader, s, &options, NULL));
  return ts_ebc_batch_create(&w->inflight.ebc_batch, t->ebc, t->batch_max,
                             false);
}

/* The batch's rows: of samples, or of the target's ids, of which each sample
 * has one (ts_graph_check_targets), or none where its record was bad. */
static ts_err take(ts_tower *w, const ts_batch *b) {
  const float *rows;
  const ts_jagged *j = &b->kjt.features[w->feature];
  const int64_t *id = j->ids;
  int64_t n_none = 0;
  const bool by_token = w->values.value->tokens != NULL;
  ts_item_part *p = w->part;
  TS_DO(ts_layer_values_take(&w->values, b->n, &rows));
  for (int32_t i = 0; i < b->n; i++) {
    const bool there = ts_jagged_length(j, i) > 0;
    if (!there && ++n_none > b->n_bad + b->n_bad_ids)
      w->nameless = b->first + i + 1;
    if (there && *id >= w->task->first_item) {
      p->id[p->n] = *id;
      ts_item_part_put(p, p->n++, rows, w->task->normalise);
    }
    w->n_below += there && *id < w->task->first_item;
    id += there;
    rows += there || !by_token ? p->dim : 0;
  }
  return TS_OK;
}

static ts_err run_pass(ts_tower *w) {
  ts_trainer *t = w->t;
  ts_inflight *c = &w->inflight;
  for (;;) {
    ts_watch_beat();
    ts_inflight_empty(c, w->loader);
    ts_stage_load(t, c, w->loader);
    TS_DO(ts_stage_input_begin(t, c, 0));
    TS_DO(ts_stage_input_end(t, c));
    TS_DO(ts_stage_check(t, c));
    if (c->verdict.end) return TS_OK;
    TS_DO(ts_stage_items(t, c));
    TS_DO(take(w, c->batch));
  }
}

/* ---- ids ----------------------------------------------------------------- */

/* Why two items may be one row of the table. */
static const char *why_equal(const ts_tower *w, const ts_source *s,
                             int64_t id) {
  ts_words words;
  const char *how = ts_column_encoding(w->t->config, w->feature, "");
  if (ts_source_words(s, w->feature, &words))
    return id ? ""
              : ", that of words which training has not: first_item = 1 leaves "
                "them out";
  if (!strcmp(how, "none") || s->ops->plain_ids) return "";
  return ", which a hash, or modulo, may make of different ids: encoding = "
         "\"vocabulary\" or \"none\" does not";
}

/* No item is there twice, on whichever ranks: lists would have it twice. */
static ts_err check_ids(ts_tower *w, const ts_source *s) {
  ts_err err = TS_OK;
  ts_token token;
  ts_trainer *t = w->t;
  const ts_item_part *p = w->part;
  int64_t bytes[t->n_ranks], own = p->n * 8, n = 0, *all = NULL;
  const char *path = t->config->data.items.item[0];
  TS_TRY(ts_comm_max_i64(t->control, &w->nameless, 1));
  if (w->nameless)
    TS_THROW(TS_ERR_DATA, "data.items: %s: sample %lld has no id of %s", path,
             (long long)w->nameless - 1, w->task->target);
  TS_TRY(ts_comm_gather_all(t->control, bytes, &own, sizeof own));
  for (int r = 0; r < t->n_ranks; r++) n += bytes[r] / 8;
  TS_TRY(ts_settle(t, ts_mem_many(all, n + 1, METRICS)));
  TS_TRY(ts_comm_all_gather_v(t->control, &token, all, p->id, bytes, NULL));
  TS_TRY(ts_comm_wait(&token));
  qsort(all, (size_t)n, sizeof *all, ts_item_by_id);
  for (int64_t i = 1; i < n; i++)
    if (all[i] == all[i - 1])
      TS_THROW(TS_ERR_DATA,
               "data.items: %s: two items have row %lld of the table of %s%s",
               path, (long long)all[i], w->task->target,
               why_equal(w, s, all[i]));
done:
  ts_mem_free(all);
  return err;
}

ts_err ts_item_part_run(ts_item_part *p, ts_trainer *t,
                        const ts_task_config *task, const ts_source *like,
                        int64_t *n_below) {
  ts_err err = TS_OK;
  ts_source *s = NULL;
  ts_tower w = {.t = t, .task = task, .part = p};
  p->n = 0;
  TS_TRY(ts_topk_open_items(&s, t, like));
  TS_TRY(ts_settle(t, open_pass(&w, s)));
  t->model->items_only = true;
  err = run_pass(&w);
  t->model->items_only = false;
  if (!ts_err_agreed()) ts_settle_own(err);
  TS_TRY(err);
  TS_TRY(check_ids(&w, s));
  *n_below = w.n_below;
done:
  ts_inflight_empty(&w.inflight, w.loader);
  ts_ebc_batch_destroy(w.inflight.ebc_batch);
  ts_loader_destroy(w.loader);
  ts_layer_values_close(&w.values);
  ts_source_close(s);
  return err;
}
