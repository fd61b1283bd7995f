/* model.c - what tessera_serve.h declares: models that can be replaced while
 * they are scored with, and the codes of errors. */
#include <locale.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clones.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "serve/face.h"
#include "serve/scorer.h"

struct tserve_model {
  pthread_mutex_t lock;
  ts_serve_state *now; /* under the lock */
  ts_face face;
};

struct tserve_scorer {
  tserve_model *model;
  ts_scorer *own; /* of the state that was served at the last call */
  int32_t n_max, n_threads;
  float *block; /* rows of items */
  float *query;
  size_t block_room, query_room;
};

/* ---- errors -------------------------------------------------------------- */

static _Thread_local char message[1024];

/* The code of ERR, whose message becomes tserve_error's. */
static int tell(ts_err err) {
  ts_err_record r;
  if (err == TS_OK) return TSERVE_OK;
  ts_err_take(&r);
  snprintf(message, sizeof message, "%.*s", (int)sizeof message - 1, r.text);
  return err == TS_ERR_NOMEM  ? TSERVE_MEMORY
         : err == TS_ERR_DATA ? TSERVE_INPUT
                              : TSERVE_FILE;
}

const char *tserve_error(void) {
  return message;
}

int tserve_abi(void) {
  return TSERVE_ABI;
}

/* Numbers in the file have points, whatever the program's locale has. */
static locale_t plain;
static void make_plain(void) {
  plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}
static locale_t enter(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_plain);
  return plain ? uselocale(plain) : (locale_t)0;
}
static void leave(locale_t was) {
  if (was) (void)uselocale(was);
}

/* ---- models -------------------------------------------------------------- */

static ts_serve_state *now(tserve_model *m) {
  pthread_mutex_lock(&m->lock);
  ts_serve_state *s = ts_serve_state_hold(m->now);
  pthread_mutex_unlock(&m->lock);
  return s;
}

/* A state that can be scored with: all of its weights are there. */
static ts_err open_state(ts_serve_state **out, const char *path,
                         const ts_serve_state *base) {
  ts_err err = TS_OK;
  ts_scorer *trial = NULL;
  ts_serve_state *s = NULL;
  const int was = omp_get_max_threads();
  TS_TRY(ts_serve_state_open(&s, path, base));
  TS_TRY(ts_scorer_create(&trial, s, 1, 1));
  *out = s;
  s = NULL;
done:
  omp_set_num_threads(was);
  ts_scorer_destroy(trial);
  ts_serve_state_release(s);
  return err;
}

static ts_err open_model(tserve_model **out, const char *path) {
  ts_err err = TS_OK;
  tserve_model *m = NULL;
  TS_TRY(ts_mem_alloc(&m, sizeof *m, TS_TAG_MISC));
  pthread_mutex_init(&m->lock, NULL);
  TS_TRY(open_state(&m->now, path, NULL));
  TS_TRY(ts_face_take(&m->face, m->now));
  *out = m;
  m = NULL;
done:
  tserve_close(m);
  return err;
}

int tserve_open(tserve_model **out, const char *path) {
  const locale_t was = enter();
  *out = NULL;
  const int code = tell(open_model(out, path));
  leave(was);
  return code;
}

void tserve_close(tserve_model *m) {
  if (!m) return;
  ts_serve_state_release(m->now);
  pthread_mutex_destroy(&m->lock);
  ts_face_reset(&m->face);
  ts_mem_free(m);
}

static ts_err update(tserve_model *m, const char *path) {
  ts_err err = TS_OK;
  ts_face face = {0};
  ts_serve_state *next = NULL, *was = now(m);
  TS_TRY(open_state(&next, path, was));
  TS_TRY(ts_face_take(&face, next));
  if (!ts_face_is_same(&m->face, &face))
    TS_THROW(TS_ERR_CKPT,
             "%s: has other inputs or outputs than the model that is served",
             path);
  pthread_mutex_lock(&m->lock);
  ts_serve_state *old = m->now;
  m->now = next;
  next = old;
  pthread_mutex_unlock(&m->lock);
done:
  ts_face_reset(&face);
  ts_serve_state_release(next);
  ts_serve_state_release(was);
  return err;
}

int tserve_update(tserve_model *m, const char *path) {
  const locale_t was = enter();
  const int code = tell(update(m, path));
  leave(was);
  return code;
}

int64_t tserve_step(tserve_model *m) {
  ts_serve_state *s = now(m);
  const int64_t step = s->step;
  ts_serve_state_release(s);
  return step;
}

int32_t tserve_n_dense(const tserve_model *m) {
  return m->face.n_dense;
}
int32_t tserve_n_features(const tserve_model *m) {
  return m->face.n_features;
}
int32_t tserve_n_outputs(const tserve_model *m) {
  return m->face.n_outputs;
}
const char *tserve_feature(const tserve_model *m, int32_t i) {
  return i < 0 || i >= m->face.n_features ? NULL : m->face.feature[i];
}
const char *tserve_output(const tserve_model *m, int32_t i) {
  return i < 0 || i >= m->face.n_outputs ? NULL : m->face.output[i];
}
int32_t tserve_dim(const tserve_model *m, int32_t i) {
  return i < 0 || i >= m->face.n_features ? 0 : m->face.dim[i];
}
int32_t tserve_vector_dim(const tserve_model *m, int32_t i) {
  return i < 0 || i >= m->face.n_outputs ? 0 : m->face.vector_dim[i];
}
int64_t tserve_rows(tserve_model *m, int32_t i) {
  if (i < 0 || i >= m->face.n_features) return 0;
  ts_serve_state *s = now(m);
  const int64_t rows = ts_table_whole(s->feature[m->face.at[i]].table)->rows;
  ts_serve_state_release(s);
  return rows;
}

int64_t tserve_id(tserve_model *m, int32_t i, int64_t row) {
  if (i < 0 || i >= m->face.n_features) return row;
  ts_serve_state *s = now(m);
  const ts_serve_keys *k = s->feature[m->face.at[i]].keys;
  const int64_t id = k ? ts_serve_keys_id(k, row) : row;
  ts_serve_state_release(s);
  return id;
}

/* ---- scorers ------------------------------------------------------------- */

static ts_err scorer_open(tserve_scorer **out, tserve_model *m, int32_t n_max,
                          int32_t n_threads) {
  tserve_scorer *s = NULL;
  if (n_max < 1 || n_threads < 1)
    return ts_fail(TS_ERR_DATA, "n_max and n_threads are 1 or more");
  TS_DO(ts_mem_alloc(&s, sizeof *s, TS_TAG_MISC));
  *s = (tserve_scorer){.model = m, .n_max = n_max, .n_threads = n_threads};
  *out = s;
  return TS_OK;
}

/* The scorer of what is served now. */
static ts_err refresh(tserve_scorer *s) {
  ts_err err = TS_OK;
  ts_scorer *next = NULL;
  ts_serve_state *state = now(s->model);
  if (!s->own || ts_scorer_state(s->own) != state) {
    const int was = omp_get_max_threads();
    err = ts_scorer_create(&next, state, s->n_max, s->n_threads);
    omp_set_num_threads(was);
    if (err == TS_OK) {
      ts_scorer_destroy(s->own);
      s->own = next;
    }
  }
  ts_serve_state_release(state);
  return err;
}

int tserve_scorer_open(tserve_scorer **out, tserve_model *m, int32_t n_max,
                       int32_t n_threads) {
  const locale_t was = enter();
  *out = NULL;
  ts_err err = scorer_open(out, m, n_max, n_threads);
  if (err == TS_OK) err = refresh(*out);
  leave(was);
  if (err != TS_OK) {
    tserve_scorer_close(*out);
    *out = NULL;
  }
  return tell(err);
}

void tserve_scorer_close(tserve_scorer *s) {
  if (!s) return;
  ts_scorer_destroy(s->own);
  ts_mem_free_all(s->block, s->query, s);
}

static ts_err check_batch(const tserve_scorer *s, const tserve_batch *b) {
  const ts_face *f = &s->model->face;
  if (b->n < 0) return ts_fail(TS_ERR_DATA, "a batch of %d samples", b->n);
  if (b->n && f->n_features && !b->features)
    return ts_fail(TS_ERR_DATA, "the batch has no features");
  if (b->n && f->n_dense && !b->dense)
    return ts_fail(TS_ERR_DATA, "the batch has no dense numbers");
  return TS_OK;
}

int tserve_score(tserve_scorer *s, const tserve_batch *b, float *out) {
  const locale_t was = enter();
  ts_err err = check_batch(s, b);
  if (err == TS_OK) err = refresh(s);
  if (err == TS_OK) err = ts_scorer_run(s->own, b, TS_SCORES, 0, out);
  leave(was);
  return tell(err);
}

/* ---- items --------------------------------------------------------------- */

/* The task over items whose output is number I; -1: it has none. */
static int32_t items_of(const ts_serve_state *s, int32_t i) {
  const ts_config *c = s->config;
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    if (i == ts_tasks_width(c, k) && ts_task_is_of_items(&c->model.tasks[k]))
      return k;
  return -1;
}

static ts_err find_task(const tserve_scorer *s, int32_t output, int32_t *task) {
  *task = items_of(ts_scorer_state(s->own), output);
  if (*task >= 0) return TS_OK;
  return ts_fail(TS_ERR_DATA, "output %d has no items", output);
}

/* By what is served as refresh has found it. */
static ts_err vectors(tserve_scorer *s, const tserve_batch *b, int32_t output,
                      bool items, float *out) {
  int32_t task;
  TS_DO(find_task(s, output, &task));
  const ts_config *c = ts_scorer_config(s->own);
  const ts_task_config *x = &c->model.tasks[task];
  if (items && !ts_task_has_tower(c, x))
    return ts_fail(TS_ERR_DATA,
                   "output %s: items are rows of a table, which tserve_items "
                   "compares: no layers make them",
                   x->name);
  TS_DO(ts_scorer_run(
      s->own, b, items ? TS_SCORE_ITEM_VECTORS : TS_SCORE_VECTORS, task, out));
  if (items && x->normalise)
    ts_rows_normalise(out, b->n, tserve_vector_dim(s->model, output));
  return TS_OK;
}

int tserve_vectors(tserve_scorer *s, const tserve_batch *b, int32_t output,
                   int32_t items, float *out) {
  const locale_t was = enter();
  ts_err err = check_batch(s, b);
  if (err == TS_OK) err = refresh(s);
  if (err == TS_OK) err = vectors(s, b, output, items != 0, out);
  leave(was);
  return tell(err);
}

TS_CLONES
static float dot(const float *a, const float *b, int32_t dim) {
  float sum[16] = {0}, all = 0;
  int32_t k = 0;
  for (; k + 16 <= dim; k += 16)
    for (int i = 0; i < 16; i++) sum[i] += a[k + i] * b[k + i];
  for (; k < dim; k++) all += a[k] * b[k];
  for (int i = 0; i < 16; i++) all += sum[i];
  return all;
}

/* Rows of items that are unpacked at a time. */
enum { BLOCK = 256 };

static ts_err take_block(tserve_scorer *s, const ts_serve_feature *f,
                         const int64_t *items, int64_t first, int64_t n) {
  int64_t rows[BLOCK];
  for (int64_t i = 0; i < n; i++) {
    rows[i] = items ? items[first + i] : first + i;
    if (rows[i] < 0 || rows[i] >= f->table->rows)
      return ts_fail(TS_ERR_DATA,
                     "item %lld of the list is %lld: no row of table %s, "
                     "which has %lld",
                     (long long)(first + i), (long long)rows[i], f->table->name,
                     (long long)f->table->rows);
  }
  const ts_rows_lookup a = {.table = f->rows,
                            .kind = f->kind,
                            .dim = f->table->dim,
                            .rows = rows,
                            .n = n,
                            .out = s->block,
                            .stride = f->table->dim};
  (void)ts_rows_look_up(&a, NULL);
  return TS_OK;
}

static ts_err score_items(tserve_scorer *s, const tserve_batch *b,
                          int32_t output, const int64_t *items, int64_t n_items,
                          float *scores) {
  int32_t task;
  TS_DO(check_batch(s, b));
  TS_DO(refresh(s));
  TS_DO(find_task(s, output, &task));
  const ts_serve_state *state = ts_scorer_state(s->own);
  const ts_task_config *x = &state->config->model.tasks[task];
  const ts_serve_feature *f =
      &state->feature[ts_task_candidates(state->config, x)];
  const int32_t dim = f->table->dim;
  if (ts_task_has_tower(state->config, x))
    return ts_fail(TS_ERR_DATA,
                   "output %s: layers make its items: tserve_vectors gives "
                   "vectors of both",
                   x->name);
  TS_DO(ts_mem_reserve(&s->block, &s->block_room, (size_t)BLOCK * dim * 4,
                       TS_TAG_SPARSE));
  TS_DO(ts_mem_reserve(&s->query, &s->query_room,
                       ((size_t)b->n * (size_t)dim + 1) * 4, TS_TAG_SPARSE));
  TS_DO(vectors(s, b, output, false, s->query));
  for (int64_t at = 0; at < n_items; at += BLOCK) {
    const int64_t n = n_items - at < BLOCK ? n_items - at : BLOCK;
    TS_DO(take_block(s, f, items, at, n));
    if (x->normalise) ts_rows_normalise(s->block, n, dim);
    for (int32_t q = 0; q < b->n; q++)
      for (int64_t i = 0; i < n; i++)
        scores[q * n_items + at + i] =
            dot(s->query + (int64_t)q * dim, s->block + i * dim, dim) /
            (float)x->temperature;
  }
  return TS_OK;
}

int tserve_items(tserve_scorer *s, const tserve_batch *b, int32_t output,
                 const int64_t *items, int64_t n_items, float *scores) {
  const locale_t was = enter();
  const int code = tell(score_items(s, b, output, items, n_items, scores));
  leave(was);
  return code;
}
