/* batch_ids.c - the check of a batch's ids, and what is left of bad records. */
#include "base/compress.h"
#include "io/batch_store.h"

/* Sample of the batch that id K of J belongs to. */
static int64_t sample_of(const ts_jagged *j, int64_t k) {
  int32_t b = 0;
  for (int64_t end = 0;; b++) {
    end += ts_jagged_length(j, b);
    if (k < end) return b;
  }
}

/* The first id of J that is none of ROWS rows; -1: all are. */
static int64_t find_bad(const ts_jagged *j, int64_t rows) {
  for (int64_t k = 0; k < j->n_ids; k++)
    if (!ts_id_is_row(j->ids[k], rows)) return k;
  return -1;
}

int64_t ts_batch_store_bad_sample(const ts_batch_store *s, int32_t f) {
  const ts_jagged *j = &s->batch.kjt.features[f];
  const int64_t bad = find_bad(j, s->of[f].rows);
  return bad < 0 ? -1 : sample_of(j, bad);
}

/* Leaves out the ids of feature F that are none of ROWS rows. */
static ts_err leave_out(ts_batch_store *s, int32_t f, int64_t rows) {
  ts_jagged *j = &s->batch.kjt.features[f];
  ts_feature_store *x = &s->feature[f];
  const bool one = x->bags == TS_BAGS_ONE;
  int64_t to = 0, k = 0;
  if (one)
    TS_DO(ts_batch_store_feature(s, f, j->n_ids, TS_BAGS_LENGTHS, x->weighted));
  for (int32_t b = 0; b < s->batch.n; b++) {
    const int64_t end = one          ? k + 1
                        : x->lengths ? k + x->lengths[b]
                                     : x->offsets[b + 1];
    const int64_t before = to;
    for (; k < end; k++) {
      if (!ts_id_is_row(x->ids[k], rows)) continue;
      x->ids[to] = x->ids[k];
      if (x->weights) x->weights[to] = x->weights[k];
      to++;
    }
    if (x->lengths) x->lengths[b] = (int32_t)(to - before);
    if (x->offsets) x->offsets[b + 1] = to;
  }
  j->n_ids = to;
  return TS_OK;
}

static ts_err drop_bad(ts_source *src, ts_batch_store *s, int32_t f,
                       int64_t rows) {
  const int64_t n = s->batch.kjt.features[f].n_ids;
  TS_DO(leave_out(s, f, rows));
  const bool again = !ts_table_is_first(s->of[f].table); /* in a part */
  const int64_t dropped = again ? 0 : n - s->batch.kjt.features[f].n_ids;
  s->batch.n_bad_ids += dropped;
  src->n_bad_ids += dropped;
  return TS_OK;
}

ts_err ts_batch_store_check_ids(ts_source *src, ts_batch_store *s, int32_t f,
                                const char *where, int64_t first) {
  const ts_table_config *t = ts_table_whole(s->of[f].table);
  const ts_jagged *j = &s->batch.kjt.features[f];
  const int64_t bad = find_bad(j, s->of[f].rows);
  if (bad < 0) return TS_OK;
  if (f == s->times)
    return ts_fail(TS_ERR_DATA,
                   "%s: sample %lld, feature %s: %lld is no time that layers "
                   "take: they are numbers from 0 on",
                   where, (long long)(first + sample_of(j, bad)), s->of[f].name,
                   (long long)j->ids[bad]);
  const bool full = src->n_bad_ids >= src->config->data.max_bad;
  if (src->config->data.on_bad_id == TS_ON_BAD_STOP || full)
    return ts_fail(TS_ERR_DATA,
                   "%s: sample %lld, feature %s: id %lld is not a row of "
                   "table %s, which has %lld rows%s",
                   where, (long long)(first + sample_of(j, bad)), s->of[f].name,
                   (long long)j->ids[bad], t->name, (long long)t->rows,
                   full ? " (data.max_bad is reached)"
                        : "; data.on_bad_id = \"drop\" leaves such ids out");
  return drop_bad(src, s, f, t->rows);
}

/* ---- parts of tables ----------------------------------------------------- */

static ts_err check_ones(const ts_batch_store *s, int32_t f) {
  const ts_table_config *t = s->of[f].table;
  const ts_jagged *j = &s->batch.kjt.features[f];
  if (!ts_part_wants_ones(t)) return TS_OK;
  for (int32_t b = 0; b < s->batch.n; b++)
    if (ts_jagged_length(j, b) > 1)
      return ts_fail(TS_ERR_DATA,
                     "feature %s: sample %d of the %d that a rank has read has "
                     "%d ids: compress.combine = \"multiply\" of table %s "
                     "takes one; \"add\" and \"concat\" take any number, and "
                     "so does pooling = \"none\"",
                     s->of[f].name, (int)b + 1, (int)s->batch.n,
                     (int)ts_jagged_length(j, b), t->whole->name);
  return TS_OK;
}

ts_err ts_batch_store_map(ts_batch_store *s) {
  for (int32_t f = 0; f < s->batch.kjt.n_features; f++) {
    const ts_table_config *t = s->of[f].table;
    if (!t->whole || f == s->times) continue;
    TS_DO(check_ones(s, f));
    ts_part_map(t, s->feature[f].ids, s->batch.kjt.features[f].n_ids);
    if (ts_compress_of(t)->leaves_out) TS_DO(leave_out(s, f, t->rows));
  }
  return TS_OK;
}

ts_err ts_batch_store_empty_bad(ts_batch_store *s) {
  const int32_t n = s->batch.n;
  for (int32_t f = 0; s->batch.n_bad && f < s->batch.kjt.n_features; f++) {
    ts_feature_store *x = &s->feature[f];
    ts_jagged *j = &s->batch.kjt.features[f];
    int64_t to = 0;
    if (x->bags != TS_BAGS_ONE) continue; /* its source left them empty */
    if (ts_batch_store_is_same(s, f)) continue;
    TS_DO(ts_batch_store_feature(s, f, j->n_ids, TS_BAGS_LENGTHS, x->weighted));
    for (int32_t b = 0; b < n; b++) {
      x->lengths[b] = s->weights[b] > 0;
      if (x->lengths[b]) x->ids[to++] = x->ids[b];
    }
    j->n_ids = to;
  }
  return TS_OK;
}
