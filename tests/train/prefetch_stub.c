/* prefetch_stub.c - the tier, and lookups and updates beside it. */
#include "tests/train/prefetch_stub.h"

#include <string.h>

#include "base/hash.h"
#include "tests/train/pipe_run.h"
#include "sparse/tier.h"

/* ---- what happened ------------------------------------------------------- */

event stub_events[EVENTS];
int stub_n_events;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int stub_resolve_us, stub_unlock_us;

static void put(what w, const void *weights, uint64_t rows) {
  pthread_mutex_lock(&mutex);
  if (stub_n_events < EVENTS)
    stub_events[stub_n_events++] = (event){w, weights, rows, pthread_self()};
  pthread_mutex_unlock(&mutex);
}

static void on_lookup(const ts_lookup_args *a, bool begin) {
  if (begin) put(LOOKUP, a->weight, 0);
}
static void on_update(const ts_row_update_args *a, bool begin) {
  if (!a->sum_out) put(begin ? UPDATE : UPDATED, a->weight, 0);
}

/* ---- the tier: resident rows, said to be cached -------------------------- */

typedef struct stub {
  ts_tier base;
  ts_tier *inner;
} stub;

static ts_tier *inner(ts_tier *t) {
  return ((stub *)t)->inner;
}
static void *weights(ts_tier *t) {
  return inner(t)->ops->weights(inner(t));
}
static float *state(ts_tier *t, int k) {
  return inner(t)->ops->state(inner(t), k);
}

static uint64_t hash(const uint32_t *rows, int64_t n) {
  return ts_fnv1a(TS_FNV_START, rows, (size_t)n * sizeof *rows);
}

static ts_err hold(ts_tier *t, uint32_t *slots, int64_t n, ts_lane *lane) {
  (void)lane;
  put(RESOLVE, weights(t), hash(slots, n));
  pr_sleep_us(stub_resolve_us);
  put(RESOLVED, weights(t), hash(slots, n));
  put(LOCK, weights(t), hash(slots, n));
  return TS_OK;
}

static ts_err release(ts_tier *t, const uint32_t *slots, int64_t n,
                      ts_lane *lane) {
  (void)lane;
  pr_sleep_us(stub_unlock_us);
  put(UNLOCK, weights(t), hash(slots, n));
  return TS_OK;
}

static ts_err refresh(ts_tier *t, uint32_t *slots, int64_t n) {
  put(REFRESH, weights(t), hash(slots, n));
  return TS_OK;
}

static ts_err locate(ts_tier *t, uint32_t *slots, const uint32_t *keys,
                     int64_t n) {
  (void)t;
  memcpy(slots, keys, (size_t)n * sizeof *slots);
  return TS_OK;
}

bool stub_looking;

static ts_err check_finite(ts_tier *t) {
  if (stub_looking) put(LOOK, weights(t), 0);
  return TS_OK;
}

static ts_tier_figures figures(const ts_tier *t) {
  static ts_tier_count none[TIERS];
  if (stub_looking) put(LOOK, ((const stub *)t)->inner, 0);
  return (ts_tier_figures){.count = none};
}

static void *rows(ts_tier *t, int k) {
  return inner(t)->ops->rows(inner(t), k);
}

static void destroy(ts_tier *t) {
  if (!t) return;
  inner(t)->ops->destroy(inner(t));
  ts_mem_free(t);
}

static ts_err create(ts_tier **, ts_device *, const ts_tier_spec *);

static const ts_tier_ops ops = {.kind = "stub",
                                .cached = true,
                                .create = create,
                                .destroy = destroy,
                                .hold = hold,
                                .release = release,
                                .refresh = refresh,
                                .locate = locate,
                                .rows = rows,
                                .flush = check_finite,
                                .reload = check_finite,
                                .figures = figures,
                                .weights = weights,
                                .state = state};

static ts_err create(ts_tier **out, ts_device *device,
                     const ts_tier_spec *spec) {
  ts_err err = TS_OK;
  stub *s = NULL;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_MISC));
  s->base.ops = &ops;
  TS_TRY(ts_tier_find("resident")->create(&s->inner, device, spec));
  *out = &s->base;
  s = NULL;
done:
  ts_mem_free(s);
  return err;
}

/* ---- on and off -------------------------------------------------------------
 */

void stub_on(void) {
  stub_n_events = 0;
  ts_tier_set_default(&ops);
  pr_kernel_hooks.lookup = on_lookup;
  pr_kernel_hooks.row_update = on_update;
}

void stub_off(void) {
  memset(&pr_kernel_hooks, 0, sizeof pr_kernel_hooks);
  ts_tier_set_default(NULL);
  stub_resolve_us = stub_unlock_us = 0;
}
