/* csv_bags.c - features of CSV with several ids in a field, or weights: a
 * batch's bags are gathered here, and stored once it is known how many ids
 * there are. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "io/csv_impl.h"

bool ts_csv_has_bags(const ts_csv_bags *b) {
  return b->is_list || b->weighted;
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

static ts_err make_room(ts_csv_bags *b) {
  const int64_t more = b->capacity ? 2 * b->capacity : 4096;
  if (b->n_ids < b->capacity) return TS_OK;
  TS_DO(ts_mem_extend(&b->ids, b->n_ids, more, sizeof *b->ids, TS_TAG_INPUT));
  TS_DO(ts_mem_extend(&b->weights, b->n_ids, more, sizeof *b->weights,
                      TS_TAG_INPUT));
  b->capacity = more;
  return TS_OK;
}

ts_err ts_csv_bags_add(ts_csv *s, int32_t feature, int64_t i, int64_t rows) {
  ts_csv_bags *b = &s->bags[feature];
  const ts_field *f = &s->fields[s->sparse[feature]];
  ts_field rest = *f, item;
  float weight;
  if (ts_csv_is_missing(s, f)) return TS_OK;
  while (ts_csv_item(s, feature, &rest, &item, &weight)) {
    if (isnan(weight))
      ts_csv_wrong(s, s->sparse[feature], "an id's weight is no number");
    TS_DO(make_room(b));
    b->ids[b->n_ids] = ts_csv_id(s, feature, &item, rows);
    b->weights[b->n_ids++] = weight;
    b->lengths[i]++;
  }
  return TS_OK;
}

void ts_csv_bags_empty(ts_csv *s, int64_t i) {
  for (int32_t k = 0; k < s->n_features; k++) {
    ts_csv_bags *b = &s->bags[k];
    if (!ts_csv_has_bags(b)) continue;
    b->n_ids -= b->lengths[i];
    b->lengths[i] = 0;
  }
}

ts_err ts_csv_bags_store(ts_csv *s, ts_batch_store *to) {
  for (int32_t k = 0; k < s->n_features; k++) {
    const ts_csv_bags *b = &s->bags[k];
    if (!ts_csv_has_bags(b)) continue;
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
