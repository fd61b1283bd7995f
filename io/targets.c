/* targets.c - the candidates of an output over items. */
#include "io/targets.h"

#include <string.h>

#include "base/features.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/tasks.h"
#include "io/batch_store.h"
#include "io/id_set.h"
#include "io/masks.h"
#include "io/target_law.h"

enum { TRIES = 100 };

struct ts_targets {
  const ts_config *config;
  const ts_task_config *task;
  int32_t k, feature; /* task's number, candidates' */
  int64_t rows;       /* of the table */
  int32_t *exclude;   /* (n_exclude) features */
  int32_t *aside;     /* (n_aside) those that nothing else wants */
  int32_t n_exclude, n_aside;
  int64_t *at;           /* (n_exclude) where the sample's ids are */
  int64_t *out_at, *out; /* of a batch: ts_batch.left_out */
  size_t out_at_bytes, out_bytes;
  ts_masks masks;
  ts_id_set set;
  const ts_target_law *law; /* NULL: evenly */
  bool said;
  ts_targets_place place;
  ts_all_items *all_items; /* (run.accumulate) */
};

/* The feature whose store has the ids of F: F, or the first of its column where
 * their tables are alike (ts_batch_store_is_same). */
static int32_t filled(const ts_config *c, int32_t f) {
  const char *name;
  const ts_table_config *t = ts_feature_table(c, f, &name);
  const int32_t first = ts_feature_find(c, name);
  const ts_table_config *x = ts_feature_table(c, first, NULL);
  return ts_table_same_ids(t, x) ? first : f;
}

ts_err ts_targets_create(ts_targets **out, const ts_config *c) {
  ts_err err = TS_OK;
  ts_targets *t = NULL;
  int32_t k = 0;
  while (k < c->model.n_tasks && !ts_task_is_of_items(&c->model.tasks[k])) k++;
  if (k == c->model.n_tasks) return TS_OK;
  TS_TRY(ts_mem_alloc(&t, sizeof *t, TS_TAG_INPUT));
  t->config = c;
  t->k = k;
  t->task = &c->model.tasks[k];
  t->feature = ts_task_candidates(c, t->task);
  t->rows = ts_feature_table(c, t->feature, NULL)->rows;
  t->masks = ts_masks_of(c, t->task, t->feature);
  TS_TRY(ts_mem_many(t->exclude, t->task->exclude.n + 1, INPUT));
  TS_TRY(ts_mem_many(t->at, t->task->exclude.n + 1, INPUT));
  TS_TRY(ts_mem_many(t->aside, ts_feature_count(c), INPUT));
  TS_TRY(ts_mem_many(t->all_items, c->run.accumulate, INPUT));
  for (int32_t i = 0; i < t->task->exclude.n; i++) {
    const int32_t f = ts_feature_find(c, t->task->exclude.item[i]);
    if (f != t->feature) t->exclude[t->n_exclude++] = filled(c, f);
  }
  /* A column may be in several tables: all of its features are emptied. */
  for (int32_t f = 0; f < ts_feature_count(c); f++)
    if (filled(c, f) == f && ts_task_only_excludes(c, f))
      t->aside[t->n_aside++] = f;
  *out = t;
  t = NULL;
done:
  ts_targets_destroy(t);
  return err;
}

void ts_targets_destroy(ts_targets *t) {
  if (!t) return;
  ts_masks_reset(&t->masks);
  ts_id_set_reset(&t->set);
  ts_mem_free_all(t->exclude, t->at, t->aside, t->out_at, t->out, t->all_items,
                  t);
}

void ts_targets_use(ts_targets *t, const ts_target_law *law) {
  if (t) t->law = law;
}

void ts_targets_at(ts_targets *t, const ts_targets_place *place) {
  if (!t) return;
  t->said = true;
  t->place = *place;
  if (!place->training) t->place.epoch = -1; /* other draws than any epoch's */
}

/* ---- what is not drawn --------------------------------------------------- */

/* Copies the ids of the excluded features, sample by sample. */
static ts_err list_left_out(ts_targets *t, ts_batch *b) {
  int64_t n = 0;
  for (int32_t i = 0; i < t->n_exclude; i++)
    n += b->kjt.features[t->exclude[i]].n_ids;
  TS_DO(ts_mem_reserve(&t->out_at, &t->out_at_bytes,
                       ((size_t)b->n + 1) * sizeof *t->out_at, TS_TAG_INPUT));
  TS_DO(ts_mem_reserve(&t->out, &t->out_bytes, ((size_t)n + 1) * sizeof *t->out,
                       TS_TAG_INPUT));
  memset(t->at, 0, (size_t)t->n_exclude * sizeof *t->at);
  n = 0;
  for (int32_t k = 0; k < b->n; k++) {
    t->out_at[k] = n;
    for (int32_t i = 0; i < t->n_exclude; i++) {
      const ts_jagged *j = &b->kjt.features[t->exclude[i]];
      for (int64_t left = ts_jagged_length(j, k); left > 0; left--)
        t->out[n++] = j->ids[t->at[i]++];
    }
  }
  t->out_at[b->n] = n;
  b->left_out_at = t->out_at;
  b->left_out = t->out;
  return TS_OK;
}

/* Those of sample B that are not drawn, whose M wanted ids are every EACH-th of
 * IDS. */
static ts_err forbid(ts_targets *t, int32_t b, const int64_t *ids, int64_t m,
                     int32_t each) {
  const int64_t from = t->out_at[b], to = t->out_at[b + 1];
  TS_DO(ts_id_set_begin(&t->set, to - from + m));
  if (!t->task->exclude.n || (t->place.training && t->task->draw_excluded))
    return TS_OK;
  for (int64_t k = from; k < to; k++) ts_id_set_add(&t->set, t->out[k]);
  for (int64_t k = 0; k < m; k++) ts_id_set_add(&t->set, ids[k * each]);
  return TS_OK;
}

/* ---- drawing ------------------------------------------------------------- */

/* The words of one target, one after the other. */
typedef struct ts_words_of {
  uint32_t key[2], counter[4], word[4];
  int left;
} ts_words_of;

static uint32_t next_word(ts_words_of *w) {
  if (!w->left) {
    ts_philox(w->word, w->counter, w->key);
    w->counter[3]++;
    w->left = 4;
  }
  return w->word[4 - w->left--];
}

static int64_t next_id(const ts_targets *t, ts_words_of *w) {
  const uint64_t n = (uint64_t)(t->rows - t->task->first_item);
  const uint64_t x = next_word(w);
  uint64_t at = x * n >> 32;
  if (n >> 20) /* a word alone would prefer some */
    at = (uint64_t)(((__uint128_t)(x << 32 | next_word(w)) * n) >> 64);
  if (t->law && t->place.training)
    return ts_target_law_draw(t->law, (int64_t)at, next_word(w));
  return t->task->first_item + (int64_t)at;
}

/* N ids behind IDS[0], target J of the sample at PLACE. */
static void draw(const ts_targets *t, int64_t *ids, int32_t n, int64_t place,
                 int64_t j) {
  ts_words_of w = {
      .counter = {(uint32_t)place, (uint32_t)(place >> 32), (uint32_t)j, 0}};
  ts_rng_key(w.key,
             (uint64_t)t->config->run.seed ^
                 ts_mix64((uint64_t)t->place.epoch + 1),
             TS_RNG_CANDIDATES);
  for (int32_t k = 1; k <= n; k++)
    for (int tries = 0; tries < TRIES; tries++) {
      ids[k] = next_id(t, &w);
      if (ids[k] != ids[0] && !ts_id_set_has(&t->set, ids[k])) break;
    }
}

/* ---- a batch ------------------------------------------------------------- */

/* The feature's bags with room for EACH of each id. */
static ts_err spread(const ts_targets *t, ts_batch_store *s, int32_t each) {
  const int32_t f = t->feature;
  const ts_feature_store *x = &s->feature[f];
  const int64_t n = s->batch.kjt.features[f].n_ids;
  if (n > INT32_MAX / 2 / each)
    return ts_fail(TS_ERR_DATA,
                   "a rank's batch has %lld ids of feature %s, with %d "
                   "candidates each: give fewer negatives in model.outputs, or "
                   "a smaller data.global_batch",
                   (long long)n, t->task->target, each);
  TS_DO(ts_batch_store_open(s, f, n * each));
  for (int64_t k = n - 1; k > 0; k--) x->ids[k * each] = x->ids[k];
  for (int32_t b = 0; x->lengths && b < s->batch.n; b++) x->lengths[b] *= each;
  for (int32_t b = 0; x->offsets && b <= s->batch.n; b++) x->offsets[b] *= each;
  return TS_OK;
}

/* M targets of sample B count. */
static void weigh(const ts_targets *t, ts_batch_store *s, int32_t b,
                  int64_t m) {
  ts_batch *x = &s->batch;
  s->weights[b] *= (float)m;
  s->labels[(int64_t)b * x->n_tasks + t->k] = 0;
}

static ts_err no_multiple(const ts_targets *t, int32_t b, int64_t n,
                          int32_t each) {
  return ts_fail(TS_ERR_DATA,
                 "sample %lld of an evaluation: feature %s has %lld ids, which "
                 "is no multiple of the %d that model.outputs says: an id that "
                 "is wanted and `given` = %d that are not; max_length in its "
                 "data.columns cuts them, too",
                 (long long)(t->place.first + b), t->task->target, (long long)n,
                 each, t->task->given);
}

/* Empties the bags of features that are there for exclude alone: their rows are
 * not looked up. */
static ts_err set_aside(const ts_targets *t, ts_batch_store *s) {
  for (int32_t i = 0; i < t->n_aside; i++)
    TS_DO(ts_batch_store_clear(s, t->aside[i]));
  return TS_OK;
}

/* ---- all items ----------------------------------------------------------- */

/* The items of the local samples of micro-batch I of N. */
static ts_slices slices_of(const ts_targets *t, int32_t i, int32_t n) {
  const ts_targets_place *p = &t->place;
  ts_slices s = {.n_items = t->rows - t->task->first_item};
  if (!ts_task_is_of_all(t->task, p->training)) return (ts_slices){0, 0, 0};
  for (int r = 0; r < p->n_ranks; r++) {
    const int64_t all = p->start[r + 1] - p->start[r];
    const int64_t part =
        ts_micro_start(all, i + 1, n) - ts_micro_start(all, i, n);
    if (r < p->rank) s.place += part;
    s.n_global += part;
  }
  if (!s.n_global) s.n_items = 0; /* nobody asks for them */
  return s;
}

/* Behind the bag of sample B, which has M ids that end at FROM, those that it
 * brings along; both moved, to end at TO.  SLICES count from sample FIRST on.
 */
static void bring(const ts_targets *t, const ts_feature_store *x, int32_t b,
                  int64_t m, int64_t from, int64_t to, ts_slices slices,
                  int32_t first) {
  const int64_t at = ts_slices_at(slices, b - first);
  const int64_t n = ts_slices_length(slices, b - first);
  memmove(x->ids + to - n - m, x->ids + from - m, (size_t)m * sizeof *x->ids);
  for (int64_t k = 0; k < n; k++)
    x->ids[to - n + k] = t->task->first_item + at + k;
  if (x->lengths) x->lengths[b] = (int32_t)(m + n);
  if (x->offsets) x->offsets[b + 1] = to;
}

/* Its score would be in no sum, and grow without end; or be a negative. */
static ts_err check_wanted(const ts_targets *t, const int64_t *ids, int64_t n,
                           int32_t b) {
  for (int64_t k = 0; t->place.training && k < n; k++)
    if (ids[k] < t->task->first_item)
      return ts_fail(TS_ERR_DATA,
                     "sample %lld: feature %s has id %lld, which is no item, "
                     "as first_item = %lld: with loss full_softmax, and with "
                     "draw = \"batch\", a target is one",
                     (long long)(t->place.first + b),
                     *t->task->masked ? t->task->masked : t->task->target,
                     (long long)ids[k], (long long)t->task->first_item);
  return TS_OK;
}

/* Micro-batches from the last to the first, their samples likewise. */
static ts_err bring_all(ts_targets *t, ts_batch_store *s) {
  const int32_t f = t->feature, n_local = s->batch.n;
  const ts_feature_store *x = &s->feature[f];
  const int32_t n = t->place.training ? t->config->run.accumulate : 1;
  int64_t from = s->batch.kjt.features[f].n_ids, to = from;
  for (int32_t i = 0; i < n; i++) {
    t->all_items[i] = (ts_all_items){.slices = slices_of(t, i, n)};
    to += ts_slices_before(t->all_items[i].slices,
                           ts_micro_start(n_local, i + 1, n) -
                               ts_micro_start(n_local, i, n));
  }
  if (to > INT32_MAX / 2)
    return ts_fail(TS_ERR_DATA,
                   "a rank's batch has %lld ids of feature %s, the items that "
                   "loss full_softmax is over among them: take more ranks, or "
                   "loss \"sampled_softmax\"",
                   (long long)to, t->task->target);
  TS_DO(ts_batch_store_open(s, f, to));
  for (int32_t i = n - 1; i >= 0; i--) {
    ts_all_items *p = &t->all_items[i];
    const int32_t first = (int32_t)ts_micro_start(n_local, i, n);
    for (int32_t b = (int32_t)ts_micro_start(n_local, i + 1, n) - 1; b >= first;
         b--) {
      const int64_t m = x->lengths ? x->lengths[b] : from - x->offsets[b];
      TS_DO(check_wanted(t, x->ids + from - m, m, b));
      bring(t, x, b, m, from, to, p->slices, first);
      weigh(t, s, b, m);
      p->n_targets += m;
      from -= m;
      to -= m + ts_slices_length(p->slices, b - first);
    }
  }
  s->batch.all_items = t->all_items;
  return TS_OK;
}

/* Hides ids, or puts a mask behind them, where the output has masks.  What is
 * left out is listed before, with the ids that are hidden. */
static ts_err mask(ts_targets *t, ts_batch_store *s) {
  const ts_masks_place at = {(uint64_t)t->config->run.seed, t->place.epoch,
                             t->place.first};
  if (t->masks.feature < 0) return TS_OK;
  return t->place.training ? ts_masks_hide(&t->masks, s, &at)
                           : ts_masks_append(&t->masks, s, &at);
}

ts_err ts_targets_expand(ts_targets *t, ts_batch_store *s) {
  if (!t || !t->said) return TS_OK;
  const bool training = t->place.training;
  const int32_t each = ts_task_each(t->task, training);
  const bool given = !training && t->task->given;
  TS_DO(list_left_out(t, &s->batch));
  TS_DO(mask(t, s));
  if (ts_task_meets(t->task, training)) {
    TS_DO(bring_all(t, s));
    return set_aside(t, s);
  }
  if (!given) TS_DO(spread(t, s, each));
  const ts_jagged *j = &s->batch.kjt.features[t->feature];
  int64_t *ids = s->feature[t->feature].ids;
  for (int32_t b = 0; b < s->batch.n; b++) {
    const int64_t n = ts_jagged_length(j, b), m = n / each;
    if (n % each) return no_multiple(t, b, n, each);
    if (!given) TS_DO(forbid(t, b, ids, m, each));
    for (int64_t k = 0; !given && k < m; k++)
      draw(t, ids + k * each, each - 1, t->place.first + b, k);
    weigh(t, s, b, m);
    ids += n;
  }
  return set_aside(t, s);
}
