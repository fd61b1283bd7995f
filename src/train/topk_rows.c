/* topk_rows.c - the best items of each sample, as columns of a file. */
#include "train/topk_rows.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "model/graph.h"

ts_err ts_topk_rows_check(const ts_config *c, int64_t k) {
  const ts_task_config *x = c->model.tasks;
  if (!k) return TS_OK;
  if (ts_task_is_of_items(x) && ts_topk_lacks_items(c, x))
    return ts_fail(TS_ERR_USAGE,
                   "topk ranks the items of output %s, which layer \"%s\" "
                   "makes: the deck has to give data.items, the features of "
                   "the items that are ranked",
                   x->name, x->items);
  if (ts_task_is_of_items(x)) return TS_OK;
  return ts_fail(TS_ERR_USAGE,
                 "topk ranks the items of an output over items, and "
                 "model.outputs has none: its loss is sampled_bce, "
                 "sampled_softmax, full_softmax, bpr or "
                 "cosine_contrastive");
}

/* The words of the items' feature. */
static ts_err find_words(ts_topk_rows *x, const ts_source *source) {
  const ts_config *c = x->t->config;
  const int32_t f = ts_task_candidates(c, c->model.tasks);
  if (!ts_source_words(source, f, &x->words)) return TS_OK;
  for (int64_t i = 0; i < x->words.n; i++) {
    const int32_t n = (int32_t)strlen(ts_words_at(&x->words, i));
    if (n > x->width) x->width = n;
  }
  x->width++;
  return ts_mem_many(
      x->text, (int64_t)x->t->batch_max * ts_topk_k(x->topk) * x->width, MISC);
}

ts_err ts_topk_rows_open(ts_topk_rows *x, ts_trainer *t,
                         const ts_source *source, int64_t k) {
  x->t = t;
  TS_DO(ts_topk_create(&x->topk, t, 0, k, source));
  if (ts_topk_n_below(x->topk))
    ts_note("%lld of data.items are left out: their ids are below first_item",
            (long long)ts_topk_n_below(x->topk));
  if (ts_topk_k(x->topk) < k)
    ts_note("there are %d items: so many are written for each sample",
            ts_topk_k(x->topk));
  TS_DO(ts_settle(t, find_words(x, source)));
  return ts_settle(
      t, ts_layer_values_of(&x->query, t,
                            ts_graph_task_value(t->model, 0, TS_TASK_QUERY)));
}

void ts_topk_rows_close(ts_topk_rows *x) {
  ts_topk_destroy(x->topk);
  ts_layer_values_close(&x->query);
  ts_mem_free(x->text);
  *x = (ts_topk_rows){0};
}

void ts_topk_rows_columns(const ts_topk_rows *x,
                          ts_sheet_column to[TS_TOPK_COLUMNS]) {
  const int32_t k = ts_topk_k(x->topk);
  to[0] = (ts_sheet_column){.name = "items",
                            .head = k > 1 ? "item_" : "item_0",
                            .kind = x->width ? TS_SHEET_TEXT : TS_SHEET_I64,
                            .width = x->width,
                            .n_cells = k};
  to[1] = (ts_sheet_column){.name = "scores",
                            .head = k > 1 ? "score_" : "score_0",
                            .kind = TS_SHEET_F32,
                            .n_cells = k};
}

/* Row 0 is for what is none of the words; -1: there are no more items. */
static void name_items(ts_topk_rows *x, const int64_t *ids, int64_t n) {
  memset(x->text, 0, (size_t)(n * x->width));
  for (int64_t i = 0; i < n; i++)
    if (ids[i] > 0 && ids[i] <= x->words.n) {
      const char *word = ts_words_at(&x->words, ids[i] - 1);
      memcpy(x->text + i * x->width, word, strlen(word));
    }
}

ts_err ts_topk_rows_take(ts_topk_rows *x, const ts_batch *b,
                         const void *data[TS_TOPK_COLUMNS]) {
  const float *query, *scores;
  const int64_t *ids;
  const ts_err err = ts_layer_values_take(&x->query, b->n, &query);
  if (err != TS_OK) ts_settle_own(err); /* the others go on to the search */
  TS_DO(err);
  TS_DO(ts_topk_search(x->topk, query, b, false, &ids, &scores));
  if (x->width) name_items(x, ids, (int64_t)b->n * ts_topk_k(x->topk));
  data[0] = x->width ? (const void *)x->text : ids;
  data[1] = scores;
  return TS_OK;
}
