/* target_law.c - targets of the training data counted, and an alias table. */
#include "io/target_law.h"

#include <math.h>
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "io/batch_store.h"
#include "runtime/comm.h"
#include "runtime/progress.h"
#include "runtime/watchdog.h"

/* Samples that are read at a time. */
enum { SAMPLES = 4096 };

/* ---- counts -------------------------------------------------------------- */

/* Targets of samples [FIRST, END). */
static ts_err count(ts_source *s, int64_t *counts, const ts_target_law *l,
                    int32_t feature, int64_t first, int64_t end) {
  ts_err err = TS_OK;
  ts_batch_store *store = NULL;
  TS_TRY(ts_batch_store_create(&store, s->config, NULL));
  ts_work work = ts_work_begin("counting targets of", "data.train",
                               (double)(end - first), "samples");
  for (int64_t at = first; at < end; at += SAMPLES) {
    const int64_t n = end - at < SAMPLES ? end - at : SAMPLES;
    ts_watch_beat();
    TS_TRY(s->ops->read(s, store, at, (int32_t)n));
    const ts_jagged *j = &ts_batch_store_batch(store)->kjt.features[feature];
    for (int64_t k = 0; k < j->n_ids; k++)
      if (j->ids[k] >= l->first && j->ids[k] < l->first + l->n)
        counts[j->ids[k] - l->first]++;
    ts_work_at(&work, (double)(at + n - first));
  }
done:
  ts_batch_store_destroy(store);
  s->n_short = s->n_bad_records = s->n_bad_ids = 0; /* read again to train */
  return err;
}

/* ---- the table ----------------------------------------------------------- */

/* A random word of 32 bits is below this with probability P. */
static uint32_t word_of(double p) {
  const double w = p * 0x1p32;
  return w >= 0x1p32 - 1 ? UINT32_MAX : (uint32_t)w;
}

/* Entries with less than their part of the whole are filled up from those with
 * more: REST (n) is what each has left, in parts, QUEUE (n) room. */
static void fill(ts_target_law *l, double *rest, int32_t *queue) {
  int64_t small = 0, large = l->n; /* those with less in front, others behind */
  for (int64_t k = 0; k < l->n; k++) {
    l->other[k] = (int32_t)k;
    l->keep[k] = UINT32_MAX;
    if (rest[k] < 1)
      queue[small++] = (int32_t)k;
    else
      queue[--large] = (int32_t)k;
  }
  while (small > 0 && large < l->n) {
    const int32_t s = queue[--small], b = queue[large];
    l->keep[s] = word_of(rest[s]);
    l->other[s] = b;
    rest[b] -= 1 - rest[s];
    if (rest[b] >= 1) continue;
    queue[small++] = b;
    large++;
  }
}

static ts_err make(ts_target_law *l, const int64_t *counts, int64_t all) {
  ts_err err = TS_OK;
  double *rest = NULL;
  int32_t *queue = NULL;
  TS_TRY(ts_mem_many(rest, l->n, INPUT));
  TS_TRY(ts_mem_many(queue, l->n, INPUT));
  for (int64_t k = 0; k < l->n; k++) {
    rest[k] = (double)counts[k] * (double)l->n / (double)all;
  }
  for (int64_t id = 0; id < l->first + l->n; id++) {
    const int64_t k = id < l->first ? 0 : counts[id - l->first];
    l->log_q[id] = (float)log((k ? (double)k : 0.5) / (double)all);
  }
  fill(l, rest, queue);
done:
  ts_mem_free_all(rest, queue);
  return err;
}

/* ---- law ----------------------------------------------------------------- */

static const ts_task_config *task_of(const ts_config *c) {
  const ts_task_config *x = c->model.tasks;
  const bool counted = ts_task_is_of_items(x) && x->draw &&
                       (x->log_q || !strcmp(x->draw, "frequency"));
  return counted ? x : NULL;
}

static ts_err room(ts_target_law **out, const ts_task_config *x, int64_t rows) {
  ts_err err = TS_OK;
  ts_target_law *l = NULL;
  const int64_t first = x->first_item;
  if (rows - first > INT32_MAX)
    return ts_fail(TS_ERR_DATA,
                   "draw = \"%s\" is for up to %d items, and the table has "
                   "%lld, where targets are counted",
                   x->draw, INT32_MAX, (long long)(rows - first));
  TS_TRY(ts_mem_alloc(&l, sizeof *l, TS_TAG_INPUT));
  *out = l;
  l->first = first;
  l->n = rows - first;
  TS_TRY(ts_mem_many(l->keep, l->n, INPUT));
  TS_TRY(ts_mem_many(l->other, l->n, INPUT));
  TS_TRY(ts_mem_many(l->log_q, rows, INPUT));
done:
  return err;
}

ts_err ts_target_law_take(ts_target_law **out, ts_source *s, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_target_law *l = NULL;
  int64_t *counts = NULL, all = 0;
  const ts_task_config *x = task_of(s->config);
  if (!x) return TS_OK;
  const int32_t f = *x->masked ? ts_feature_find(s->config, x->masked)
                               : ts_task_candidates(s->config, x);
  const int64_t n = s->info.n_samples;
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  TS_TRY(
      ts_agree(comm, room(&l, x, ts_feature_table(s->config, f, NULL)->rows)));
  TS_TRY(ts_agree(comm, ts_mem_many(counts, l->n, INPUT)));
  TS_TRY(ts_agree(comm, count(s, counts, l, f, n * me / w, n * (me + 1) / w)));
  TS_TRY(ts_comm_sum_i64(comm, counts, l->n));
  for (int64_t k = 0; k < l->n; k++) all += counts[k];
  if (!all)
    TS_THROW(TS_ERR_DATA,
             "draw = \"%s\": data.train has no id of feature %s from "
             "first_item = %lld on: there is nothing to draw",
             x->draw, *x->masked ? x->masked : x->target,
             (long long)x->first_item);
  TS_TRY(ts_agree(comm, make(l, counts, all)));
  *out = l;
  l = NULL;
done:
  ts_mem_free(counts);
  ts_target_law_destroy(l);
  return err;
}

void ts_target_law_destroy(ts_target_law *l) {
  if (l) ts_mem_free_all(l->keep, l->other, l->log_q, l);
}
