/* planning_stats.c - how skewed the ids are: from a sample of the training
 * data. */
#include <glob.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compress.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "io/batch_store.h"
#include "sparse/index.h"
#include "train/planning.h"

enum { PLACES = 4, PER_PLACE = 1024 };

/* The first of the files is there, on all ranks, and can be read from any
 * place; text would have to be gone through from its start.  Plans can also be
 * made for data that is elsewhere. */
static ts_err is_here(ts_trainer *t, bool *here) {
  glob_t found = {0};
  struct stat st;
  const ts_config *c = t->config;
  const ts_source_ops *ops = NULL;
  if (c->data.train.n && glob(c->data.train.item[0], 0, NULL, &found) == 0 &&
      stat(found.gl_pathv[0], &st) == 0 && S_ISREG(st.st_mode) &&
      access(found.gl_pathv[0], R_OK) == 0)
    ops = ts_source_of(c, found.gl_pathv[0]);
  globfree(&found);
  int64_t n = ops && ops->seekable;
  ts_err err = ts_comm_sum_i64(t->control, &n, 1);
  *here = n == t->n_ranks;
  return err;
}

typedef struct ts_sampled {
  int64_t *ids; /* of one feature */
  int64_t n_ids, capacity, n_bags;
} ts_sampled;

static ts_err add_ids(ts_sampled *s, const ts_jagged *j, int32_t n_bags) {
  const int64_t want = s->n_ids + j->n_ids;
  if (want > s->capacity) {
    TS_DO(ts_mem_extend(&s->ids, s->capacity, 2 * want, 8, TS_TAG_MISC));
    s->capacity = 2 * want;
  }
  if (j->n_ids)
    memcpy(s->ids + s->n_ids, j->ids, (size_t)j->n_ids * sizeof *s->ids);
  s->n_ids = want;
  s->n_bags += n_bags;
  return TS_OK;
}

static ts_err read_places(ts_sampled *of, ts_source *src, int32_t n_features) {
  ts_err err = TS_OK;
  ts_batch_store *store = NULL;
  const int64_t n = src->info.n_samples;
  TS_TRY(ts_batch_store_create(&store, src->config, NULL));
  for (int i = 0; i < PLACES; i++) {
    const int64_t size = n / PLACES < PER_PLACE ? n / PLACES : PER_PLACE;
    if (size < 1) continue;
    TS_TRY(src->ops->read(src, store, n / PLACES * i, (int32_t)size));
    const ts_batch *b = ts_batch_store_batch(store);
    for (int32_t f = 0; f < n_features; f++)
      TS_TRY(add_ids(&of[f], &b->kjt.features[f], b->n));
  }
done:
  ts_batch_store_destroy(store);
  return err;
}

/* Ids of a dynamic table are no rows: their keys spread over as many; those of
 * a table's parts are once they are mapped. */
static void take_rows(ts_sampled *s, const ts_table_config *t) {
  int64_t n = 0;
  for (int64_t k = 0; ts_table_is_dynamic(t) && k < s->n_ids; k++)
    s->ids[k] = (int64_t)(ts_index_key(s->ids[k]) % (uint64_t)t->rows);
  if (!t->whole) return;
  ts_part_map(t, s->ids, s->n_ids);
  for (int64_t k = 0; k < s->n_ids; k++)
    if (s->ids[k] >= 0) s->ids[n++] = s->ids[k];
  s->n_ids = n;
}

static ts_err count_features(ts_plan_stats *stats, ts_source *src) {
  ts_err err = TS_OK;
  const int32_t n = ts_feature_count(src->config);
  ts_sampled *of = NULL;
  TS_TRY(ts_mem_array(&of, n, sizeof *of, TS_TAG_MISC));
  TS_TRY(read_places(of, src, n));
  for (int32_t f = 0; f < n; f++)
    if (of[f].n_bags && f != ts_feature_of_times(src->config)) {
      const ts_table_config *t = ts_feature_table(src->config, f, NULL);
      take_rows(&of[f], t);
      TS_TRY(ts_plan_stats_count(&stats[f], t->rows, of[f].ids, of[f].n_ids,
                                 of[f].n_bags));
    }
done:
  for (int32_t f = 0; of && f < n; f++) ts_mem_free(of[f].ids);
  ts_mem_free(of);
  return err;
}

static void by_deck(ts_plan_stats *stats, const ts_config *c) {
  const int32_t n = ts_feature_count(c);
  const ts_source_ops *ops = ts_source_find(c->data.format);
  for (int32_t f = 0; f < n; f++) {
    double ids = 1, zipf = 0;
    if (ops && ops->law) ops->law(c, f, &ids, &zipf);
    stats[f] = ts_plan_stats_law(ts_feature_table(c, f, NULL)->rows, zipf, ids);
  }
}

/* Ids of a sample with N that are hidden: one at least. */
static double hidden(double n, double share) {
  return n * share + pow(1 - share, n);
}

/* Candidates are drawn for what the data want, most of them evenly; or samples
 * bring all items along; or all are the batch's. */
static void add_negatives(ts_plan_stats *stats, const ts_config *c,
                          int64_t batch) {
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const ts_task_config *x = &c->model.tasks[k];
    if (!ts_task_is_of_items(x)) continue;
    const int32_t f = ts_task_candidates(c, x);
    if (*x->masked)
      stats[f].pooling =
          hidden(stats[ts_feature_find(c, x->masked)].pooling, x->mask_share);
    if (!*x->masked && ts_task_is_in_batch(x, true)) continue;
    const double rows = (double)ts_feature_table(c, f, NULL)->rows;
    const double brought =
        ts_task_is_of_all(x, true) ? rows / (double)batch : 0;
    stats[f] = ts_plan_stats_law(
        (int64_t)rows, 0, stats[f].pooling * ts_task_each(x, true) + brought);
  }
}

ts_err ts_planning_stats(ts_plan_stats **out, ts_trainer *t, int64_t batch) {
  ts_err err = TS_OK;
  ts_source *src = NULL;
  ts_plan_stats *stats = NULL;
  bool here = false;
  const ts_config *c = t->config;
  TS_TRY(ts_mem_array(&stats, ts_feature_count(c), sizeof *stats, TS_TAG_MISC));
  by_deck(stats, c);
  *out = stats;
  TS_TRY(is_here(t, &here));
  if (!here) goto done;
  TS_TRY(ts_source_open(&src, c, TS_SPLIT_TRAIN, NULL, t->control));
  err = t->rank == 0 ? count_features(stats, src) : TS_OK;
  TS_TRY(ts_settle(t, err));
done:
  if (err == TS_OK) add_negatives(stats, c, batch);
  ts_source_close(src);
  return err;
}
