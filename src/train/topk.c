/* topk.c - the items that score best with a batch's vectors, over all ranks. */
#include "train/topk.h"

#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "train/topk_items.h"

/* Vectors of a rank that travel together, and bytes of what is found of them.
 */
enum { CHUNK = 1024, FOUND_BYTES = 64 << 20 };

struct ts_topk {
  ts_trainer *t;
  const ts_task_config *task;
  ts_item_part part;
  int32_t k, feature;
  int64_t n_below;
  int64_t *n_each; /* (W) vectors of each rank, and what they leave out */
  int64_t *bytes, *back;
  /* of a batch */
  int64_t *out_start, *out_id; /* (n + 1), what samples leave out */
  int64_t *room;               /* as large as out_id */
  size_t start_bytes, id_bytes, room_bytes;
  int64_t *ids;
  float *scores;
  size_t ids_bytes, scores_bytes;
  /* of a chunk, over all ranks */
  float *query;
  int64_t *start, *id;
  ts_found *found, *mine;
  size_t query_bytes, all_start_bytes, all_id_bytes, found_bytes, mine_bytes;
};

int32_t ts_topk_k(const ts_topk *x) {
  return x->k;
}

int64_t ts_topk_n_below(const ts_topk *x) {
  return x->n_below;
}

bool ts_topk_lacks_items(const ts_config *c, const ts_task_config *task) {
  return ts_task_has_tower(c, task) && !c->data.items.n;
}

/* This rank's items, and *N of all ranks. */
static ts_err take_items(ts_topk *x, const ts_source *like, int64_t *n) {
  ts_trainer *t = x->t;
  const ts_config *c = t->config;
  const ts_table_config *table = ts_feature_table(c, x->feature, NULL);
  const int64_t first = x->task->first_item;
  *n = table->rows - first;
  if (!ts_task_has_tower(c, x->task)) {
    x->part.dim = table->dim;
    ts_item_part_set(&x->part, first, *n, t->rank, t->n_ranks);
    return ts_item_part_look_up(&x->part, t, x->feature, x->task->normalise);
  }
  TS_DO(ts_item_part_run(&x->part, t, x->task, like, &x->n_below));
  const int64_t own[2] = {x->part.n, x->n_below};
  TS_DO(ts_comm_gather_all(t->control, x->n_each, own, sizeof own));
  *n = x->n_below = 0;
  for (int r = 0; r < t->n_ranks; r++) {
    *n += x->n_each[2 * r];
    x->n_below += x->n_each[2 * r + 1];
  }
  if (*n) return TS_OK;
  return ts_fail(TS_ERR_DATA,
                 "data.items has no item: its ids are below first_item = %lld",
                 (long long)first);
}

ts_err ts_topk_create(ts_topk **out, ts_trainer *t, int32_t task, int64_t k,
                      const ts_source *like) {
  ts_err err = TS_OK;
  ts_topk *x = NULL;
  int64_t n;
  const ts_config *c = t->config;
  TS_TRY(ts_mem_alloc(&x, sizeof *x, TS_TAG_METRICS));
  x->t = t;
  x->task = &c->model.tasks[task];
  x->feature = ts_task_candidates(c, x->task);
  TS_TRY(ts_mem_many(x->n_each, 2 * t->n_ranks, METRICS));
  TS_TRY(ts_mem_many(x->bytes, t->n_ranks, METRICS));
  TS_TRY(ts_mem_many(x->back, t->n_ranks, METRICS));
  TS_TRY(take_items(x, like, &n));
  x->k = (int32_t)(k < n ? k : n);
  *out = x;
  x = NULL;
done:
  ts_topk_destroy(x);
  return err;
}

void ts_topk_destroy(ts_topk *x) {
  if (!x) return;
  ts_mem_free_all(x->part.x, x->part.id, x->n_each, x->bytes, x->back,
                  x->out_start, x->out_id, x->room, x->ids, x->scores, x->query,
                  x->start, x->id, x->found, x->mine, x);
}

/* ---- what samples leave out ---------------------------------------------- */

/* N ids, none of them negative, become ascending: by bytes, least first.  A
 * batch has many short lists, so calls of a comparison would be most of it. */
static void sort_ids(int64_t *ids, int64_t *room, int64_t n) {
  int64_t *from = ids, *to = room, all = 0;
  for (int64_t i = 0; i < n; i++) all |= ids[i];
  for (int shift = 0; shift < 64 && all >> shift; shift += 8) {
    uint32_t start[257] = {0};
    for (int64_t i = 0; i < n; i++) start[(from[i] >> shift & 255) + 1]++;
    for (int d = 0; d < 256; d++) start[d + 1] += start[d];
    for (int64_t i = 0; i < n; i++)
      to[start[from[i] >> shift & 255]++] = from[i];
    int64_t *const was = from;
    from = to;
    to = was;
  }
  if (from != ids) memcpy(ids, from, (size_t)n * sizeof *ids);
}

/* By the threads of the compute lane: others would wait for cores, and these
 * for them. */
static ts_err by_threads(const ts_topk *x, const char *span, ts_task task,
                         const void *arg, size_t bytes) {
  if (ts_device_is_discrete(x->t->device)) return task((void *)arg, NULL);
  TS_DO(ts_lane_submit(x->t->compute, span, task, arg, bytes));
  return ts_lane_sync(x->t->compute);
}

typedef struct ts_sort_arg {
  ts_topk *x;
  int32_t n; /* lists */
} ts_sort_arg;

static ts_err sort_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_sort_arg *a = arg;
  const ts_topk *x = a->x;
#pragma omp parallel for schedule(dynamic, 8)
  for (int32_t i = 0; i < a->n; i++)
    sort_ids(x->out_id + x->out_start[i], x->room + x->out_start[i],
             x->out_start[i + 1] - x->out_start[i]);
  return TS_OK;
}

/* Ascending, but for what the sample wants. */
static ts_err leave_out(ts_topk *x, const ts_batch *b, bool wanted) {
  const ts_jagged *own = &b->kjt.features[x->feature];
  const int32_t each = ts_task_each(x->task, false);
  const int64_t *ids = own->ids, *at = b->left_out_at;
  const int64_t n = at[b->n];
  int64_t to = 0;
  TS_DO(ts_mem_reserve(&x->out_start, &x->start_bytes,
                       ((size_t)b->n + 1) * sizeof *x->out_start,
                       TS_TAG_METRICS));
  TS_DO(ts_mem_reserve(&x->out_id, &x->id_bytes,
                       ((size_t)n + 1) * sizeof *x->out_id, TS_TAG_METRICS));
  TS_DO(ts_mem_reserve(&x->room, &x->room_bytes,
                       ((size_t)n + 1) * sizeof *x->room, TS_TAG_METRICS));
  for (int32_t i = 0; i < b->n; i++) {
    const int64_t m = wanted ? ts_batch_given_ids(b, x->feature, i) : 0;
    x->out_start[i] = to;
    for (int64_t k = at[i]; k < at[i + 1]; k++)
      if (!ts_topk_is_wanted(ids, m, each, b->left_out[k]))
        x->out_id[to++] = b->left_out[k];
    ids += ts_jagged_length(own, i);
  }
  x->out_start[b->n] = to;
  const ts_sort_arg a = {x, b->n};
  return by_threads(x, "left out", sort_task, &a, sizeof a);
}

/* ---- a chunk ------------------------------------------------------------- */

/* Pieces of UNIT bytes times n_each[2 r + WHICH] of all ranks, to *TO. */
static ts_err gather(ts_topk *x, void *to, size_t *room, const void *from,
                     int64_t unit, int which) {
  ts_token token;
  int64_t all = 0;
  char *p;
  for (int r = 0; r < x->t->n_ranks; r++) {
    x->bytes[r] = unit * x->n_each[2 * r + which];
    all += x->bytes[r];
  }
  TS_DO(ts_mem_reserve(to, room, (size_t)all + 8, TS_TAG_METRICS));
  memcpy(&p, to, sizeof p);
  TS_DO(ts_comm_all_gather_v(x->t->control, &token, p, from, x->bytes, NULL));
  return ts_comm_wait(&token);
}

/* Starts of what all vectors leave out, from the numbers of it that came. */
static int64_t sum_up(const ts_topk *x) {
  int64_t n = 0, at = 0;
  for (int r = 0; r < x->t->n_ranks; r++) n += x->n_each[2 * r];
  for (int64_t q = 0; q <= n; q++) {
    const int64_t next = q < n ? x->start[q] : 0;
    x->start[q] = at;
    at += next;
  }
  return n;
}

/* The parts' best of each of the N vectors here, W times k of each, merged. */
static void merge(ts_topk *x, int64_t first, int64_t n) {
  const int w = x->t->n_ranks;
  const int32_t k = x->k;
  int32_t at[w];
  for (int64_t q = 0; q < n; q++) {
    memset(at, 0, sizeof at);
    for (int32_t i = 0; i < k; i++) {
      int best = -1;
      for (int r = 0; r < w; r++) {
        const ts_found *f = x->mine + (r * n + q) * k;
        if (at[r] == k) continue;
        if (best < 0 ||
            ts_found_before(&f[at[r]], &x->mine[(best * n + q) * k + at[best]]))
          best = r;
      }
      const ts_found y = x->mine[(best * n + q) * k + at[best]++];
      x->ids[(first + q) * k + i] = y.id;
      x->scores[(first + q) * k + i] =
          y.id < 0 ? 0 : y.score / (float)x->task->temperature;
    }
  }
}

/* What was found for each rank's vectors goes there. */
static ts_err give_back(ts_topk *x, int64_t n) {
  ts_token token;
  const int64_t each = (int64_t)sizeof *x->found * x->k;
  const int w = x->t->n_ranks;
  for (int r = 0; r < w; r++) {
    x->bytes[r] = each * x->n_each[2 * r];
    x->back[r] = each * n;
  }
  TS_DO(ts_mem_reserve(&x->mine, &x->mine_bytes, (size_t)(each * n * w) + 8,
                       TS_TAG_METRICS));
  TS_DO(ts_comm_all_to_all_v(x->t->control, &token, x->mine, x->back, x->found,
                             x->bytes, NULL));
  return ts_comm_wait(&token);
}

typedef struct ts_rank_arg {
  ts_topk *x;
  int64_t n;
} ts_rank_arg;

static ts_err rank_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_rank_arg *a = arg;
  const ts_topk *x = a->x;
  const ts_left_out out = {x->start, x->id};
  return ts_item_part_rank(&x->part, x->query, a->n, x->k, &out, x->found);
}

/* Vectors [first, first + n) of this rank, and those of the others. */
static ts_err search(ts_topk *x, const float *query, int64_t first, int64_t n) {
  const int32_t dim = x->part.dim;
  const int64_t *start = x->out_start + first;
  const int64_t own[2] = {n, start[n] - start[0]};
  int64_t lengths[CHUNK];
  for (int64_t q = 0; q < n; q++) lengths[q] = start[q + 1] - start[q];
  TS_DO(ts_comm_gather_all(x->t->control, x->n_each, own, sizeof own));
  TS_DO(gather(x, &x->query, &x->query_bytes, query + first * dim,
               dim * (int64_t)sizeof *query, 0));
  TS_DO(gather(x, &x->start, &x->all_start_bytes, lengths, 8, 0));
  TS_DO(gather(x, &x->id, &x->all_id_bytes, x->out_id + start[0], 8, 1));
  const int64_t all = sum_up(x);
  TS_DO(ts_mem_reserve(&x->found, &x->found_bytes,
                       (size_t)(all * x->k) * sizeof *x->found + 8,
                       TS_TAG_METRICS));
  const ts_rank_arg a = {x, all};
  TS_DO(by_threads(x, "ranking", rank_task, &a, sizeof a));
  TS_DO(give_back(x, n));
  merge(x, first, n);
  return TS_OK;
}

/* The same on all ranks. */
static int64_t chunk_of(const ts_topk *x) {
  const int64_t n = FOUND_BYTES / ((int64_t)sizeof(ts_found) * x->k + 1);
  return n < 1 ? 1 : n < CHUNK ? n : CHUNK;
}

static ts_err search_all(ts_topk *x, const float *query, const ts_batch *b,
                         bool wanted) {
  const int64_t chunk = chunk_of(x);
  int64_t most = b->n;
  const size_t n = (size_t)b->n * (size_t)x->k;
  TS_DO(leave_out(x, b, wanted));
  TS_DO(ts_mem_reserve(&x->ids, &x->ids_bytes, n * 8 + 8, TS_TAG_METRICS));
  TS_DO(
      ts_mem_reserve(&x->scores, &x->scores_bytes, n * 4 + 4, TS_TAG_METRICS));
  TS_DO(ts_comm_max_i64(x->t->control, &most, 1));
  for (int64_t at = 0; at < most; at += chunk) {
    const int64_t left = b->n > at ? b->n - at : 0;
    const int64_t from = b->n > at ? at : b->n;
    TS_DO(search(x, query, from, left < chunk ? left : chunk));
  }
  return TS_OK;
}

ts_err ts_topk_search(ts_topk *x, const float *query, const ts_batch *b,
                      bool wanted, const int64_t **ids, const float **scores) {
  const ts_err err = search_all(x, query, b, wanted);
  /* The others wait in the search: what this rank has alone ends all. */
  if (err != TS_OK) ts_settle_own(err);
  TS_DO(err);
  *ids = x->ids;
  if (scores) *scores = x->scores;
  return TS_OK;
}
