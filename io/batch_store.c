/* batch_store.c - the arrays of a batch, and the check of its ids. */
#include "io/batch_store.h"

#include <string.h>

#include "base/mem.h"

int32_t ts_feature_count(const ts_config *c) {
  int32_t n = 0;
  for (int32_t t = 0; t < c->n_tables; t++) n += c->tables[t].features.n;
  return n;
}

const ts_table_config *ts_feature_table(const ts_config *c, int32_t f,
                                        const char **name) {
  int32_t t = 0;
  while (f >= c->tables[t].features.n) f -= c->tables[t++].features.n;
  if (name) *name = c->tables[t].features.item[f];
  return &c->tables[t];
}

ts_err ts_batch_store_create(ts_batch_store **out, const ts_config *c) {
  ts_err err = TS_OK;
  ts_batch_store *s = NULL;
  const int32_t n = ts_feature_count(c);
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&s->feature, n, sizeof *s->feature, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&s->batch.kjt.features, n, sizeof *s->batch.kjt.features,
                      TS_TAG_INPUT));
  s->batch.kjt.n_features = n;
  s->batch.owner = s;
  *out = s;
  s = NULL;
done:
  ts_batch_store_destroy(s);
  return err;
}

void ts_batch_store_destroy(ts_batch_store *s) {
  if (!s) return;
  for (int32_t f = 0; s->feature && f < s->batch.kjt.n_features; f++) {
    ts_mem_free(s->feature[f].lengths);
    ts_mem_free(s->feature[f].ids);
    ts_mem_free(s->feature[f].weights);
  }
  ts_mem_free(s->feature);
  ts_mem_free(s->batch.kjt.features);
  ts_mem_free(s->labels);
  ts_mem_free(s->dense);
  ts_mem_free(s->weights);
  ts_mem_free(s);
}

ts_batch *ts_batch_store_batch(ts_batch_store *s) {
  return &s->batch;
}

/* Grows to BYTES, keeping what is there. */
static ts_err grow(void *p, size_t *capacity, size_t bytes) {
  if (bytes <= *capacity) return TS_OK;
  const size_t more = bytes + bytes / 2;
  ts_err err = ts_mem_resize(p, *capacity, more, TS_TAG_INPUT);
  if (err == TS_OK) *capacity = more;
  return err;
}

ts_err ts_batch_store_begin(ts_batch_store *s, int32_t n, int32_t n_tasks,
                            int32_t n_dense, bool weights) {
  ts_err err = TS_OK;
  ts_batch *b = &s->batch;
  TS_TRY(grow(&s->labels, &s->labels_bytes, (size_t)n * (size_t)n_tasks * 4));
  TS_TRY(grow(&s->dense, &s->dense_bytes, (size_t)n * (size_t)n_dense * 4));
  TS_TRY(grow(&s->weights, &s->weights_bytes, (size_t)n * 4));
  b->n = b->kjt.batch = n;
  b->n_tasks = n_tasks;
  b->n_dense = n_dense;
  b->labels = s->labels;
  b->dense = n_dense ? s->dense : NULL;
  b->weights = weights ? s->weights : NULL;
  b->n_bad = b->n_bad_ids = 0;
  for (int32_t i = 0; weights && i < n; i++) s->weights[i] = 1.0f;
done:
  return err;
}

ts_err ts_batch_store_feature(ts_batch_store *s, int32_t f, int64_t n_ids,
                              bool lengths, bool weighted) {
  ts_err err = TS_OK;
  ts_feature_store *x = &s->feature[f];
  ts_jagged *j = &s->batch.kjt.features[f];
  if (lengths)
    TS_TRY(grow(&x->lengths, &x->lengths_bytes, (size_t)s->batch.n * 4));
  TS_TRY(grow(&x->ids, &x->ids_bytes, (size_t)n_ids * 8));
  if (weighted) TS_TRY(grow(&x->weights, &x->weights_bytes, (size_t)n_ids * 4));
  j->lengths = lengths ? x->lengths : NULL;
  j->ids = x->ids;
  j->weights = weighted ? x->weights : NULL;
  j->n_ids = n_ids;
done:
  return err;
}

void ts_batch_store_end(ts_batch_store *s) {
  ts_batch *b = &s->batch;
  b->weight_sum = b->n;
  if (!b->weights) return;
  b->weight_sum = 0;
  for (int32_t i = 0; i < b->n; i++) b->weight_sum += b->weights[i];
}

/* Sample of the batch that id K of J belongs to. */
static int64_t sample_of(const ts_jagged *j, int64_t k) {
  int64_t b = 0, end = 0;
  if (!j->lengths) return k;
  for (;; b++) {
    end += j->lengths[b];
    if (k < end) return b;
  }
}

/* Leaves out the bad ids of feature F. */
static ts_err drop_bad(ts_source *src, ts_batch_store *s, int32_t f,
                       int64_t rows) {
  ts_err err = TS_OK;
  ts_jagged *j = &s->batch.kjt.features[f];
  ts_feature_store *x = &s->feature[f];
  const bool one = !j->lengths;
  int64_t to = 0, k = 0;
  TS_TRY(ts_batch_store_feature(s, f, j->n_ids, true, j->weights != NULL));
  for (int32_t b = 0; b < s->batch.n; b++) {
    const int64_t end = k + (one ? 1 : x->lengths[b]), before = to;
    for (; k < end; k++) {
      if ((uint64_t)x->ids[k] >= (uint64_t)rows) continue;
      x->ids[to] = x->ids[k];
      if (j->weights) x->weights[to] = x->weights[k];
      to++;
    }
    x->lengths[b] = (int32_t)(to - before);
  }
  s->batch.n_bad_ids += j->n_ids - to;
  src->n_bad_ids += j->n_ids - to;
  j->n_ids = to;
done:
  return err;
}

ts_err ts_batch_store_check_ids(ts_source *src, ts_batch_store *s, int32_t f,
                                const char *where, int64_t first) {
  const char *name;
  const ts_table_config *t = ts_feature_table(src->config, f, &name);
  const ts_jagged *j = &s->batch.kjt.features[f];
  int64_t bad = -1;
  for (int64_t k = 0; k < j->n_ids && bad < 0; k++)
    if ((uint64_t)j->ids[k] >= (uint64_t)t->rows) bad = k;
  if (bad < 0) return TS_OK;
  const bool full = src->n_bad_ids >= src->config->data.max_bad;
  if (src->config->data.on_bad_id == TS_ON_BAD_STOP || full)
    return ts_fail(TS_ERR_DATA,
                   "%s: sample %lld, feature %s: id %lld is not a row of "
                   "table %s, which has %lld rows%s",
                   where, (long long)(first + sample_of(j, bad)), name,
                   (long long)j->ids[bad], t->name, (long long)t->rows,
                   full ? " (data.max_bad is reached)"
                        : "; data.on_bad_id = \"drop\" leaves such ids out");
  return drop_bad(src, s, f, t->rows);
}

ts_err ts_batch_store_empty_bad(ts_batch_store *s) {
  ts_err err = TS_OK;
  const int32_t n = s->batch.n;
  for (int32_t f = 0; s->batch.n_bad && f < s->batch.kjt.n_features; f++) {
    ts_feature_store *x = &s->feature[f];
    ts_jagged *j = &s->batch.kjt.features[f];
    int64_t to = 0;
    TS_TRY(ts_batch_store_feature(s, f, j->n_ids, true, j->weights != NULL));
    for (int32_t b = 0; b < n; b++) {
      x->lengths[b] = s->weights[b] > 0;
      if (x->lengths[b]) x->ids[to++] = x->ids[b];
    }
    j->n_ids = to;
  }
done:
  return err;
}
