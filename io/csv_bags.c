/* csv_bags.c - features of CSV with several ids in a field, or weights: a
 * batch's bags are gathered here, and stored once it is known how many ids
 * there are. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "io/csv_impl.h"

bool ts_csv_has_bags(const ts_csv_bags *b) {
  return b->is_list || b->has_weights || b->numbers;
}

ts_err ts_csv_bags_begin(ts_csv *s, int32_t n) {
  for (int32_t k = 0; k < s->n_features; k++) {
    ts_csv_bags *b = &s->bags[k];
    if (!ts_csv_has_bags(b)) continue;
    if (b->n_samples < n)
      TS_DO(ts_mem_extend(&b->lengths, b->n_samples, n, sizeof *b->lengths,
                          TS_TAG_INPUT));
    if (b->n_samples < n) b->n_samples = n;
    b->n_ids = 0;
    memset(b->lengths, 0, (size_t)b->n_samples * sizeof *b->lengths);
  }
  return TS_OK;
}

ts_err ts_csv_bags_room(ts_csv_bags *b, int64_t n) {
  const int64_t least = b->n_ids + n;
  const int64_t more = 2 * least > 4096 ? 2 * least : 4096;
  if (b->ids && least <= b->capacity) return TS_OK;
  TS_DO(ts_mem_extend(&b->ids, b->n_ids, more, sizeof *b->ids, TS_TAG_INPUT));
  TS_DO(ts_mem_extend(&b->weights, b->n_ids, more, sizeof *b->weights,
                      TS_TAG_INPUT));
  b->capacity = more;
  return TS_OK;
}

/* An id that is no row: an error, or none of the bag. */
static ts_err bad_id(ts_csv *s, ts_batch_store *to, int32_t feature,
                     int64_t id) {
  const ts_config *c = s->base.config;
  const ts_table_config *t = ts_table_whole(to->of[feature].table);
  char place[4200];
  const bool full = s->base.n_bad_ids >= c->data.max_bad;
  if (c->data.on_bad_id == TS_ON_BAD_STOP || full)
    return ts_fail(
        TS_ERR_DATA,
        "%s: feature %s: id %lld is not a row of table %s, which has %lld "
        "rows%s",
        ts_csv_place(s, place), to->of[feature].name, (long long)id, t->name,
        (long long)t->rows,
        full ? " (data.max_bad is reached)"
             : "; data.on_bad_id = \"drop\" leaves such ids out");
  if (!ts_table_is_first(to->of[feature].table)) return TS_OK;
  s->base.n_bad_ids++;
  to->batch.n_bad_ids++;
  return TS_OK;
}

/* The last ids of bag I, which is the newest one. */
static void keep_newest(ts_csv_bags *b, int64_t i) {
  const int64_t n = b->lengths[i], most = b->max_length;
  const int64_t from = b->n_ids - most, to = b->n_ids - n;
  memmove(b->ids + to, b->ids + from, (size_t)most * sizeof *b->ids);
  memmove(b->weights + to, b->weights + from,
          (size_t)most * sizeof *b->weights);
  b->n_ids -= n - most;
  b->lengths[i] = (int32_t)most;
}

ts_err ts_csv_bags_add(ts_csv *s, ts_batch_store *to, int32_t feature,
                       int64_t i) {
  ts_csv_bags *b = &s->bags[feature];
  const int64_t rows = to->of[feature].rows;
  ts_csv_items items;
  ts_field item;
  float weight;
  if (!ts_csv_items_of(s, feature, &items)) return TS_OK;
  const int64_t most = b->newest ? 0 : b->max_length;
  while (!(most && b->lengths[i] == most) &&
         ts_csv_item(s, feature, &items, &item, &weight)) {
    if (isnan(weight))
      ts_csv_wrong(s, s->sparse[feature], "an id's weight is no number");
    const int64_t id = items.is_whole
                           ? ts_csv_whole_id(s, feature, items.whole, rows)
                           : ts_csv_id(s, feature, &item, rows);
    if (feature == to->times && (id < 0 || id >= rows))
      ts_csv_wrong(s, s->sparse[feature], "a time is a number from 0 on");
    if (!*s->why && !ts_id_is_row(id, rows)) {
      TS_DO(bad_id(s, to, feature, id));
      continue;
    }
    TS_DO(ts_csv_bags_room(b, 1));
    b->ids[b->n_ids] = id;
    b->weights[b->n_ids++] = weight;
    b->lengths[i]++;
  }
  if (b->max_length && b->lengths[i] > b->max_length) keep_newest(b, i);
  return TS_OK;
}

/* Sample I's ids, which others may follow. */
static void take_out(ts_csv_bags *b, int64_t i) {
  int64_t at = 0;
  for (int64_t k = 0; k < i; k++) at += b->lengths[k];
  const int64_t next = at + b->lengths[i];
  const size_t rest = (size_t)(b->n_ids - next);
  if (!rest) return;
  memmove(b->ids + at, b->ids + next, rest * sizeof *b->ids);
  memmove(b->weights + at, b->weights + next, rest * sizeof *b->weights);
}

void ts_csv_bags_empty(ts_csv *s, int64_t i) {
  for (int32_t k = 0; k < s->n_features; k++) {
    ts_csv_bags *b = &s->bags[k];
    if (!ts_csv_has_bags(b)) continue;
    if (s->filled && s->filled[k]) take_out(b, i);
    b->n_ids -= b->lengths[i];
    b->lengths[i] = 0;
  }
}

ts_err ts_csv_bags_store(ts_csv *s, ts_batch_store *to) {
  for (int32_t k = 0; k < s->n_features; k++) {
    const ts_csv_bags *b = &s->bags[k];
    if (!ts_csv_has_bags(b) || ts_batch_store_is_same(to, k)) continue;
    TS_DO(
        ts_batch_store_feature(to, k, b->n_ids, TS_BAGS_LENGTHS, b->weighted));
    const ts_feature_store *x = &to->feature[k];
    memcpy(x->lengths, b->lengths, (size_t)to->batch.n * sizeof *b->lengths);
    if (b->n_ids) memcpy(x->ids, b->ids, (size_t)b->n_ids * sizeof *b->ids);
    if (b->weighted && b->n_ids)
      memcpy(x->weights, b->weights, (size_t)b->n_ids * sizeof *b->weights);
    to->batch.n_copied += b->n_ids;
  }
  return TS_OK;
}

void ts_csv_bags_free(ts_csv *s) {
  for (int32_t k = 0; s->bags && k < s->n_features; k++)
    ts_mem_free_all(s->bags[k].ids, s->bags[k].weights, s->bags[k].lengths);
  ts_mem_free(s->bags);
}
