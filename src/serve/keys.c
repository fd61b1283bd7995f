/* keys.c - the rows of ids, by a directory of their keys. */
#include "serve/keys.h"

#include "base/clones.h"
#include "base/mem.h"
#include "sparse/index.h"

enum {
  RUN = 4,    /* keys, on average */
  AHEAD = 64, /* finds that wait together */
  NEAR = 8,   /* keys that are looked at together */
  FEW = 16    /* and one by one */
};

/* Ascending in KEY. */
static uint64_t run_of(const ts_serve_keys *k, uint64_t key) {
  return (key >> 32) * k->n_runs >> 32;
}

ts_err ts_serve_keys_create(ts_serve_keys *k, const uint64_t *key, int64_t n,
                            bool *good) {
  uint64_t next = 0;
  *k = (ts_serve_keys){.key = key, .n = n};
  k->n_runs = (uint64_t)n / RUN + 1;
  *good = n <= TS_SERVE_KEYS_MAX;
  if (!*good) return TS_OK;
  TS_DO(ts_mem_many(k->start, (int64_t)k->n_runs + 1, SPARSE));
  for (int64_t i = 0; i < n; i++) {
    *good &= !i || key[i] > key[i - 1];
    for (const uint64_t run = run_of(k, key[i]); next <= run; next++)
      k->start[next] = (uint32_t)i;
  }
  while (next <= k->n_runs) k->start[next++] = (uint32_t)n;
  return TS_OK;
}

void ts_serve_keys_reset(ts_serve_keys *k) {
  ts_mem_free(k->start);
  *k = (ts_serve_keys){0};
}

/* Runs are a few keys, but whoever chooses ids may make one long. */
static int64_t place_of(const ts_serve_keys *k, uint64_t key, int64_t at,
                        int64_t end) {
  while (end - at > FEW) {
    const int64_t mid = at + (end - at) / 2;
    if (k->key[mid] < key)
      at = mid + 1;
    else
      end = mid + 1;
  }
  while (at < end && k->key[at] < key) at++;
  return at < end && k->key[at] == key ? at : k->n;
}

/* The same of a run from AT on, without a branch where it is one of most: keys
 * that are greater follow. */
static inline int64_t place_near(const ts_serve_keys *k, uint64_t key,
                                 const uint32_t *start) {
  const int64_t at = start[0];
  const uint64_t *near = k->key + at;
  int64_t less = 0;
  if (at + NEAR >= k->n) return place_of(k, key, at, start[1]);
  for (int i = 0; i < NEAR; i++) less += near[i] < key;
  if (less == NEAR) return place_of(k, key, at, start[1]);
  return near[less] == key ? at + less : k->n;
}

TS_CLONES
void ts_serve_keys_find(const ts_serve_keys *k, int64_t *ids, int64_t m) {
  uint64_t key[AHEAD];
  const uint32_t *start[AHEAD];
  for (int64_t i = 0; i < m; i += AHEAD) {
    const int64_t some = m - i < AHEAD ? m - i : AHEAD;
    for (int64_t j = 0; j < some; j++) {
      key[j] = ts_index_key(ids[i + j]);
      start[j] = k->start + run_of(k, key[j]);
      __builtin_prefetch(start[j]);
    }
    for (int64_t j = 0; j < some; j++) {
      __builtin_prefetch(k->key + start[j][0]);
      __builtin_prefetch(k->key + start[j][1]);
    }
    for (int64_t j = 0; j < some; j++)
      ids[i + j] = place_near(k, key[j], start[j]);
  }
}

int64_t ts_serve_keys_id(const ts_serve_keys *k, int64_t row) {
  return row < 0 || row >= k->n ? row : (int64_t)ts_unmix64(k->key[row]);
}
