/* admit.c - steps in which ids without a row were met, in a sketch that can go
 * back by some steps. */
#include "sparse/admit.h"

#include <string.h>

#include "base/mem.h"
#include "sparse/index.h"

enum { COUNTERS = 4, QUARTER = TS_ADMIT_LINE / COUNTERS, LEAST_SLOTS = 64 };

/* Distinct ids without a row that one step has met. */
typedef struct ts_admit_step {
  uint32_t number; /* of its first batch */
  int64_t n, max;
  uint64_t *keys;  /* (max) in the order in which they were met */
  uint8_t *old;    /* (max, COUNTERS) before they were counted */
  uint32_t *slots; /* (n_slots) 1 + the place of a key; 0: free */
  int64_t n_slots; /* a power of two, more than n */
} ts_admit_step;

/* The counts have the first n_counted of steps[0..n), and no others. */
struct ts_admit {
  ts_admit_spec spec;
  uint8_t *counts;
  ts_admit_step steps[TS_ADMIT_AHEAD];
  int32_t n, n_counted, now; /* now: the step whose batch has begun */
  uint32_t newest;           /* batch that has come */
};

ts_err ts_admit_create(ts_admit **out, const ts_admit_spec *spec) {
  ts_err err = TS_OK;
  ts_admit *a = NULL;
  TS_DO(ts_mem_many(a, 1, SPARSE));
  a->spec = *spec;
  TS_TRY(ts_mem_many(a->counts, spec->n_parts * spec->lines * TS_ADMIT_LINE,
                     SPARSE));
done:
  if (err != TS_OK) ts_admit_destroy(a);
  *out = err == TS_OK ? a : NULL;
  return err;
}

void ts_admit_destroy(ts_admit *a) {
  if (!a) return;
  for (int k = 0; k < TS_ADMIT_AHEAD; k++)
    ts_mem_free_all(a->steps[k].keys, a->steps[k].old, a->steps[k].slots);
  ts_mem_free_all(a->counts, a);
}

uint8_t *ts_admit_counts(ts_admit *a) {
  return a->counts;
}

const ts_admit_spec *ts_admit_spec_of(const ts_admit *a) {
  return &a->spec;
}

/* ---- counts -------------------------------------------------------------- */

/* The key's top bits are its part's number, the next 32 say which line, and the
 * lowest 16 which counters. */
static uint8_t *line_of(const ts_admit *a, uint64_t key) {
  const int64_t part = ts_index_part(key) - a->spec.first_part;
  const uint64_t next = key << TS_INDEX_PART_BITS >> 32;
  const int64_t line = (int64_t)(next * (uint64_t)a->spec.lines >> 32);
  return a->counts + (part * a->spec.lines + line) * TS_ADMIT_LINE;
}

static int counter_of(uint64_t key, int k) {
  return k * QUARTER + (int)(key >> 4 * k & (QUARTER - 1));
}

static int met_before(const ts_admit *a, uint64_t key) {
  const uint8_t *line = line_of(a, key);
  int least = UINT8_MAX;
  for (int k = 0; k < COUNTERS; k++) {
    const int n = line[counter_of(key, k)];
    if (n < least) least = n;
  }
  return least;
}

static void count(const ts_admit *a, ts_admit_step *s) {
  for (int64_t i = 0; i < s->n; i++) {
    uint8_t *line = line_of(a, s->keys[i]);
    for (int k = 0; k < COUNTERS; k++) {
      uint8_t *n = &line[counter_of(s->keys[i], k)];
      s->old[i * COUNTERS + k] = *n;
      if (*n < UINT8_MAX) ++*n;
    }
  }
}

static void take_back(const ts_admit *a, const ts_admit_step *s) {
  for (int64_t i = s->n - 1; i >= 0; i--) {
    uint8_t *line = line_of(a, s->keys[i]);
    for (int k = 0; k < COUNTERS; k++)
      line[counter_of(s->keys[i], k)] = s->old[i * COUNTERS + k];
  }
}

/* The first N steps are counted, and no others. */
static void count_steps(ts_admit *a, int32_t n) {
  while (a->n_counted > n) take_back(a, &a->steps[--a->n_counted]);
  while (a->n_counted < n) count(a, &a->steps[a->n_counted++]);
}

/* ---- a step's ids -------------------------------------------------------- */

/* Keys are hashes already. */
static uint32_t *slot_of(const ts_admit_step *s, uint64_t key) {
  int64_t at = (int64_t)(key & (uint64_t)(s->n_slots - 1));
  while (s->slots[at] && s->keys[s->slots[at] - 1] != key)
    at = (at + 1) & (s->n_slots - 1);
  return &s->slots[at];
}

static ts_err grow(ts_admit_step *s) {
  ts_err err = TS_OK;
  const int64_t n_slots = s->n_slots ? 2 * s->n_slots : LEAST_SLOTS;
  ts_admit_step x = {
      .number = s->number, .n = s->n, .max = n_slots / 2, .n_slots = n_slots};
  TS_TRY(ts_mem_many(x.keys, x.max, SPARSE));
  TS_TRY(ts_mem_many(x.old, x.max * COUNTERS, SPARSE));
  TS_TRY(ts_mem_many(x.slots, n_slots, SPARSE));
  if (s->n) memcpy(x.keys, s->keys, (size_t)s->n * sizeof *x.keys);
  for (int64_t i = 0; i < x.n; i++) *slot_of(&x, x.keys[i]) = (uint32_t)i + 1;
  ts_mem_free_all(s->keys, s->old, s->slots);
  *s = x;
  return TS_OK;
done:
  ts_mem_free_all(x.keys, x.old, x.slots);
  return err;
}

static ts_err note(ts_admit_step *s, uint64_t key) {
  if (s->n == s->max) TS_DO(grow(s));
  uint32_t *slot = slot_of(s, key);
  if (*slot) return TS_OK;
  s->keys[s->n++] = key;
  *slot = (uint32_t)s->n;
  return TS_OK;
}

/* Its memory stays. */
static void empty(ts_admit_step *s, uint32_t number) {
  s->number = number;
  s->n = 0;
  if (s->slots) memset(s->slots, 0, (size_t)s->n_slots * sizeof *s->slots);
}

/* ---- batches ------------------------------------------------------------- */

/* The step that BATCH is of. */
static int32_t find_step(const ts_admit *a, uint32_t batch) {
  int32_t k = a->n - 1;
  while (k > 0 && a->steps[k].number > batch) k--;
  return k;
}

/* A step more; with too many the first one is for good. */
static int32_t add_step(ts_admit *a, uint32_t batch) {
  count_steps(a, a->n);
  if (a->n == TS_ADMIT_AHEAD) {
    const ts_admit_step first = a->steps[0];
    memmove(a->steps, a->steps + 1, (TS_ADMIT_AHEAD - 1) * sizeof first);
    a->steps[--a->n] = first;
    a->n_counted--;
  }
  empty(&a->steps[a->n], batch);
  return a->n++;
}

void ts_admit_begin(ts_admit *a, uint32_t batch, bool again) {
  const bool known = batch <= a->newest;
  a->now = a->n && (known || again) ? find_step(a, batch) : add_step(a, batch);
  if (!known) a->newest = batch;
  count_steps(a, a->now);
}

ts_err ts_admit_ask(ts_admit *a, bool *may, const int64_t *ids, int64_t n) {
  ts_admit_step *s = &a->steps[a->now];
  for (int64_t i = 0; i < n; i++)
    __builtin_prefetch(line_of(a, ts_index_key(ids[i])));
  for (int64_t i = 0; i < n; i++) {
    const uint64_t key = ts_index_key(ids[i]);
    may[i] = met_before(a, key) + 1 >= a->spec.least;
    TS_DO(note(s, key));
  }
  return TS_OK;
}

void ts_admit_back(ts_admit *a, uint32_t first) {
  int32_t k = 0;
  while (k < a->n && (!first || a->steps[k].number < first)) k++;
  count_steps(a, k);
}

void ts_admit_forget(ts_admit *a, uint32_t first) {
  ts_admit_back(a, first);
  a->n = a->n_counted = 0;
  if (first && first <= a->newest) a->newest = first - 1;
}

void ts_admit_restart(ts_admit *a) {
  a->n = a->n_counted = 0;
  a->newest = 0;
}

void ts_admit_halve(ts_admit *a) {
  ts_admit_forget(a, 0);
  const int64_t n = a->spec.n_parts * a->spec.lines * TS_ADMIT_LINE;
  for (int64_t i = 0; i < n; i++) a->counts[i] /= 2;
}

void ts_admit_clear(ts_admit *a) {
  const int64_t n = a->spec.n_parts * a->spec.lines * TS_ADMIT_LINE;
  memset(a->counts, 0, (size_t)n);
}
