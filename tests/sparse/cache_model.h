/* cache_model.h - the cache's rules once more, as plainly as they can be said:
 * what tests count by.  It shares no code with the cache. */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sparse/tier.h"

enum { MODEL_WAYS = 32, MODEL_HALF_LIFE = 32 };

typedef struct model_line {
  bool full, dirty;
  uint32_t row;
  int64_t used;  /* last batch that had the row */
  uint64_t uses; /* as they counted then */
  int locks;
} model_line;

typedef struct cache_model {
  int64_t n_sets, batch;
  bool lfu, by_hash; /* by_hash: a device orders rows so */
  model_line *line;  /* (32 n_sets) */
  bool *without;     /* (n_rows) no line in the batch at hand */
  ts_tier_count count;
} cache_model;

static inline int64_t model_sets(int64_t n_rows, double load_factor) {
  const double sets = ceil((double)n_rows * load_factor / MODEL_WAYS);
  return sets < 1 ? 1 : (int64_t)sets;
}

static inline cache_model model_open(int64_t n_rows, int64_t n_sets, bool lfu,
                                     bool by_hash) {
  cache_model m = {.n_sets = n_sets, .lfu = lfu, .by_hash = by_hash};
  m.line = calloc((size_t)m.n_sets * MODEL_WAYS, sizeof *m.line);
  m.without = calloc((size_t)n_rows, sizeof *m.without);
  if (!m.line || !m.without) abort();
  return m;
}

static inline void model_close(cache_model *m) {
  free(m->line);
  free(m->without);
}

/* The finalizer of MurmurHash3. */
static inline uint32_t model_hash(uint32_t x) {
  x ^= x >> 16;
  x *= 2246822507u;
  x ^= x >> 13;
  x *= 3266489909u;
  x ^= x >> 16;
  return x;
}

static inline model_line *model_set(const cache_model *m, uint32_t row) {
  const double share = model_hash(row) / 4294967296.0;
  return m->line + MODEL_WAYS * (int64_t)(share * (double)m->n_sets);
}

static inline model_line *model_find(const cache_model *m, uint32_t row) {
  model_line *set = model_set(m, row);
  for (int i = 0; i < MODEL_WAYS; i++)
    if (set[i].full && set[i].row == row) return &set[i];
  return NULL;
}

/* Uses of a line that count today. */
static inline uint64_t model_uses(const cache_model *m, const model_line *l) {
  uint64_t uses = l->uses;
  for (int64_t age = m->batch - l->used; age >= MODEL_HALF_LIFE && uses;
       age -= MODEL_HALF_LIFE)
    uses /= 2;
  return uses;
}

/* Whether A is given away rather than B, which comes before it. */
static inline bool model_rather(const cache_model *m, const model_line *a,
                                const model_line *b) {
  if (m->lfu && model_uses(m, a) != model_uses(m, b))
    return model_uses(m, a) < model_uses(m, b);
  return a->used < b->used;
}

static inline model_line *model_victim(const cache_model *m, uint32_t row) {
  model_line *set = model_set(m, row), *best = NULL;
  for (int i = 0; i < MODEL_WAYS; i++)
    if (!set[i].full) return &set[i];
  for (int i = 0; i < MODEL_WAYS; i++)
    if (!set[i].locks && (!best || model_rather(m, &set[i], best)))
      best = &set[i];
  return best;
}

/* One id of the batch meets the row's line. */
static inline bool model_use(cache_model *m, model_line *l) {
  const bool first = l->used != m->batch;
  if (first) l->uses = m->lfu ? model_uses(m, l) : l->uses;
  l->uses++;
  l->used = m->batch;
  l->locks += first;
  return first;
}

static inline void model_place(cache_model *m, uint32_t row) {
  model_line *l = model_find(m, row);
  if (l || m->without[row]) {
    if (l) (void)model_use(m, l);
    return;
  }
  m->count.n_misses++;
  l = model_victim(m, row);
  m->without[row] = !l;
  m->count.n_conflicts += !l;
  if (!l) return;
  m->count.n_evicted += l->full;
  m->count.n_written += l->full && l->dirty;
  *l = (model_line){
      .full = true, .row = row, .used = m->batch, .uses = 1, .locks = 1};
}

static inline int model_by_number(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static inline int model_by_hash(const void *a, const void *b) {
  const uint32_t x = model_hash(*(const uint32_t *)a);
  const uint32_t y = model_hash(*(const uint32_t *)b);
  return (x > y) - (x < y);
}

/* The next batch takes ROWS (N), in slices of PASS.  HELD (N): those that have
 * lines of it afterwards, for model_release. */
static inline void model_hold(cache_model *m, const uint32_t *rows, int64_t n,
                              int64_t pass, bool *held) {
  uint32_t *left = malloc((size_t)n * sizeof *left + 1);
  bool *there = calloc((size_t)n + 1, sizeof *there);
  if (!left || !there) abort();
  m->batch++;
  m->count.n_ids += n;
  memcpy(left, rows, (size_t)n * sizeof *left);
  qsort(left, (size_t)n, sizeof *left, model_by_number);
  for (int64_t i = 0; i < n; i++)
    m->count.n_unique += i == 0 || left[i] != left[i - 1];
  for (int64_t i = 0; i < n; i++) {
    model_line *l = model_find(m, rows[i]);
    there[i] = l != NULL;
    if (l) m->count.n_hits += model_use(m, l);
  }
  for (int64_t from = 0; from < n; from += pass) {
    int64_t k = 0;
    for (int64_t i = from; i < n && i < from + pass; i++)
      if (!there[i]) left[k++] = rows[i];
    qsort(left, (size_t)k, sizeof *left,
          m->by_hash ? model_by_hash : model_by_number);
    for (int64_t j = 0; j < k; j++) model_place(m, left[j]);
  }
  for (int64_t i = 0; i < n; i++) held[i] = model_find(m, rows[i]) != NULL;
  for (int64_t i = 0; i < n; i++) m->without[rows[i]] = false;
  free(left);
  free(there);
}

/* The rows are updated where they are now. */
static inline void model_write(cache_model *m, const uint32_t *rows,
                               int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    model_line *l = model_find(m, rows[i]);
    if (l) l->dirty = true;
  }
}

/* Rows of the batch that had no line and have one now are locked by it. */
static inline void model_refresh(cache_model *m, const uint32_t *rows,
                                 int64_t n, bool *held) {
  for (int64_t i = 0; i < n; i++) {
    model_line *l = held[i] ? NULL : model_find(m, rows[i]);
    if (!l) continue;
    l->locks++;
    for (int64_t j = i; j < n; j++) held[j] |= rows[j] == rows[i];
  }
}

/* Each line of the batch loses one lock, once. */
static inline void model_release(cache_model *m, const uint32_t *rows,
                                 int64_t n, const bool *held) {
  for (int64_t i = 0; i < n; i++)
    if (held[i]) m->without[rows[i]] = true;
  for (int64_t i = 0; i < n; i++) {
    if (!m->without[rows[i]]) continue;
    m->without[rows[i]] = false;
    model_find(m, rows[i])->locks--;
  }
}

static inline void model_flush(cache_model *m) {
  for (int64_t i = 0; i < m->n_sets * MODEL_WAYS; i++) m->line[i].dirty = false;
}

/* After a flush: lines that no batch has are given up. */
static inline void model_reload(cache_model *m) {
  for (int64_t i = 0; i < m->n_sets * MODEL_WAYS; i++)
    if (!m->line[i].locks) m->line[i].full = false;
}
