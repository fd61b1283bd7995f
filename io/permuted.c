/* permuted.c - a source with the values of one feature given to other samples.
 */
#include "io/permuted.h"

#include <string.h>

#include "base/dense_columns.h"
#include "base/mem.h"
#include "base/permute.h"
#include "io/batch_store.h"

typedef struct ts_permuted {
  ts_source base;
  ts_source_ops ops; /* the inner one's, but for reading */
  ts_source *inner;
  ts_batch_store *own, *other; /* the samples, and those of their values */
  int32_t what;
  ts_permute to;
  int64_t *samples; /* scratch */
  size_t capacity;
} ts_permuted;

static void close_source(ts_source *src) {
  ts_permuted *p = (ts_permuted *)src;
  ts_batch_store_destroy(p->own);
  ts_batch_store_destroy(p->other);
  ts_mem_free_all(p->samples, p);
}

/* What is bad in a sample counts once, where it is read as itself. */
static ts_err read_others(ts_permuted *p, int64_t first, int32_t n) {
  ts_source *of = p->inner;
  const ts_source counts = *of;
  TS_DO(ts_mem_reserve(&p->samples, &p->capacity,
                       (size_t)n * sizeof *p->samples, TS_TAG_INPUT));
  for (int32_t i = 0; i < n; i++)
    p->samples[i] = (int64_t)ts_permute_at(&p->to, (uint64_t)(first + i));
  of->n_short = of->n_bad_records = of->n_bad_ids = 0;
  const ts_err err = n ? of->ops->gather(of, p->other, p->samples, n)
                       : of->ops->read(of, p->other, first, 0);
  of->n_short = counts.n_short;
  of->n_bad_records = counts.n_bad_records;
  of->n_bad_ids = counts.n_bad_ids;
  return err;
}

static ts_err put_feature(ts_batch_store *to, int32_t f, const ts_jagged *j) {
  const ts_bag_form bags = ts_jagged_is_one(j) ? TS_BAGS_ONE : TS_BAGS_LENGTHS;
  TS_DO(ts_batch_store_feature(to, f, j->n_ids, bags, j->weights != NULL));
  const ts_feature_store *x = &to->feature[f];
  if (j->n_ids) memcpy(x->ids, j->ids, (size_t)j->n_ids * sizeof *x->ids);
  if (j->n_ids && j->weights)
    memcpy(x->weights, j->weights, (size_t)j->n_ids * sizeof *x->weights);
  for (int32_t i = 0; x->lengths && i < to->batch.n; i++)
    x->lengths[i] = (int32_t)ts_jagged_length(j, i);
  return TS_OK;
}

/* Labels, weights and numbers, those that the dense input WHAT becomes from
 * OTHER. */
static void put_samples(ts_batch_store *to, const ts_config *c,
                        const ts_batch *own, const ts_batch *other,
                        int32_t what) {
  const size_t n = (size_t)own->n, d = (size_t)own->n_dense;
  if (!n) return;
  memcpy(to->labels, own->labels, n * (size_t)own->n_tasks * 4);
  if (own->weights) memcpy(to->weights, own->weights, n * 4);
  if (!d) return;
  memcpy(to->dense, own->dense, n * d * 4);
  if (what < 0) return;
  const ts_dense_span span = ts_dense_column(c, what);
  for (size_t i = 0, at = (size_t)span.first; i < n; i++, at += d)
    memcpy(to->dense + at, other->dense + at, (size_t)span.n * 4);
}

static ts_err read_batch(ts_source *src, ts_batch_store *to, int64_t first,
                         int32_t n) {
  ts_permuted *p = (ts_permuted *)src;
  const ts_batch *own = ts_batch_store_batch(p->own);
  const ts_batch *other = ts_batch_store_batch(p->other);
  ts_batch *b = ts_batch_store_batch(to);
  p->inner->n_threads = src->n_threads;
  TS_DO(p->inner->ops->read(p->inner, p->own, first, n));
  TS_DO(read_others(p, first, n));
  TS_DO(ts_batch_store_begin(to, n, own->n_tasks, own->n_dense,
                             own->weights != NULL));
  for (int32_t f = 0; f < own->kjt.n_features; f++) {
    const ts_batch *of = to->of[f].first == p->what ? other : own;
    if (ts_batch_store_is_same(to, f)) continue;
    TS_DO(put_feature(to, f, &of->kjt.features[f]));
  }
  put_samples(to, src->config, own, other, p->what - own->kjt.n_features);
  b->n_bad = own->n_bad;
  b->n_bad_ids = own->n_bad_ids;
  return ts_batch_store_end(to);
}

ts_err ts_permuted_open(ts_source **out, ts_source *inner, const char *who) {
  ts_err err = TS_OK;
  ts_permuted *p = NULL;
  if (inner->info.packed)
    return ts_fail(TS_ERR_DECK,
                   "%s: packed text is read in order, %s takes samples from "
                   "anywhere; unpack it, or make a data set of it with "
                   "`tessera convert`",
                   inner->info.packed, who);
  TS_TRY(ts_mem_alloc(&p, sizeof *p, TS_TAG_INPUT));
  p->inner = inner;
  inner->anywhere = true;
  p->base = *inner;
  p->base.info.period = 0;
  p->ops = *inner->ops;
  p->ops.close = close_source;
  p->ops.read = read_batch;
  p->ops.gather = NULL;
  p->ops.lengths = NULL;
  p->base.ops = &p->ops;
  TS_TRY(ts_batch_store_create(&p->own, inner->config, NULL));
  TS_TRY(ts_batch_store_create(&p->other, inner->config, NULL));
  *out = &p->base;
  p = NULL;
done:
  if (p) close_source(&p->base);
  return err;
}

void ts_permuted_choose(ts_source *src, int32_t what, int32_t repeat) {
  ts_permuted *p = (ts_permuted *)src;
  ts_source *of = p->inner;
  p->what = what;
  p->to = ts_permute_of((uint64_t)of->info.n_samples,
                        (uint64_t)of->config->run.seed, (uint32_t)repeat,
                        (uint32_t)what);
  of->n_short = of->n_bad_records = of->n_bad_ids = 0;
}
