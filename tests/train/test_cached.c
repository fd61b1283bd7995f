/* test_cached.c - pipelines over cached tables of all shardings equal the
 * same over tables in fast memory, bit for bit, and each cache does what a
 * plain model of its rules does: shared and distinct features,
 * weights, trained positions, column shards, 16-bit rows; and nothing stays
 * locked.  Four settings of the cache; with TESSERA_CACHE_MATRIX=1 all of load
 * factors, passes, policies and tiers, under each pipeline (minutes).  The
 * product with all optimizers and types is in test_cache.
 * ranks: 1 3 4  sanitized: 3  fake: 1
 * seconds: 400 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sparse/cache.h"
#include "tests/sparse/cache_model.h"
#include "tests/train/pipe_run.h"
#include "train/planning.h"

enum { N_TABLES = 8 };

static const char deck[] =
    "run = { name = \"t\"; seed = 5; steps = 7; threads = 2;\n"
    "  tier_dir = \"/tmp\"; };\n"
    "data = { format = \"synthetic\"; global_batch = 96;\n"
    "  dedup = [\"rw\", \"cw\", \"tw\"];\n"
    "  synthetic = { samples = 290; eval_samples = 150; zipf = 0.6;\n"
    "    pooling = [1, 3, 2, 3, 4, 1, 2, 2, 3]; }; };\n"
    "sharding = { ranks_per_node = 2; min_column = 8;\n"
    "             topology = \"default\"; };\n"
    "tables = (\n"
    "  { name = \"tw\"; rows = 3000; dim = 16; features = [\"tw\", \"tw1\"];\n"
    "    pooling = \"mean\"; sharding = \"table_wise\";\n"
    "    optimizer = { kind = \"rowwise_adagrad\"; lr = 0.05; }; },\n"
    "  { name = \"rw\"; rows = 900; dim = 16; features = [\"rw\"];\n"
    "    weighted = true; sharding = \"row_wise\";\n"
    "    optimizer = { kind = \"adagrad\"; lr = 0.05; }; },\n"
    "  { name = \"pos\"; rows = 700; dim = 16; features = [\"pos\"];\n"
    "    feature_processor = { kind = \"position_weighted\";\n"
    "      max_length = 4; }; sharding = \"row_wise\";\n"
    "    optimizer = { kind = \"adagrad\"; lr = 0.05; }; },\n"
    "  { name = \"cw\"; rows = 700; dim = 16; features = [\"cw\"];\n"
    "    sharding = \"column_wise\"; dtype = \"bf16\";\n"
    "    optimizer = { kind = \"lamb\"; lr = 0.05; }; },\n"
    "  { name = \"trw\"; rows = 1000; dim = 16; features = [\"trw\"];\n"
    "    sharding = \"table_row_wise\"; pooling = \"mean\";\n"
    "    optimizer = { kind = \"sgd\"; lr = 0.1; }; },\n"
    "  { name = \"twcw\"; rows = 600; dim = 16; features = [\"twcw\"];\n"
    "    sharding = \"table_column_wise\"; weighted = true;\n"
    "    optimizer = { kind = \"rowwise_adagrad\"; lr = 0.01; }; },\n"
    "  { name = \"grid\"; rows = 1100; dim = 16; features = [\"grid\"];\n"
    "    sharding = \"grid\"; optimizer = { kind = \"adam\"; lr = 0.01; }; },\n"
    "  { name = \"tw2\"; rows = 800; dim = 16; features = [\"tw2\"];\n"
    "    sharding = \"table_wise\"; dtype = \"bf16\";\n"
    "    optimizer = { kind = \"adam\"; lr = 0.05; }; } );\n"
    "model = { kind = \"dlrm\"; dense_features = 3; dense_arch = [32, 16];\n"
    "  over_arch = [32, 16, 1]; };\n"
    "dense = { bucket_mb = 0.001; };\n"
    "optimizer = { kind = \"adam\"; lr = 1e-2; };\n";

/* Pipelines and what they must equal. */
static const char *const pipelines[][2] = {
    {"pipeline.kind=base", "pipeline.kind=base"},
    {"pipeline.kind=sparse_dist", "pipeline.kind=base"},
    {"pipeline.kind=prefetch", "pipeline.kind=base"},
    {"pipeline.kind=semi_sync", "pipeline.kind=semi_sync"}};

typedef struct setting {
  const char *load_factor, *policy, *tier, *passes;
  bool small; /* less than a batch's rows */
} setting;

#define K "table_defaults.cache."
static const setting settings[] = {
    {K "load_factor=0.01", K "policy=lru", K "tier=host", K "prefetch_passes=1",
     true},
    {K "load_factor=0.1", K "policy=lfu", K "tier=file", K "prefetch_passes=4",
     false},
    {K "load_factor=0.5", K "policy=lru", K "tier=file", K "prefetch_passes=12",
     false},
    {K "load_factor=1.0", K "policy=lfu", K "tier=host", K "prefetch_passes=2",
     false}};
enum { N_SETTINGS = sizeof settings / sizeof *settings, MATRIX = 64 };

static bool all_of_them(void) {
  return getenv("TESSERA_CACHE_MATRIX") != NULL;
}

static int n_settings(void) {
  return all_of_them() ? MATRIX : N_SETTINGS;
}

static setting setting_of(int i) {
  static const char *const factors[] = {
      K "load_factor=0.01", K "load_factor=0.1", K "load_factor=0.5",
      K "load_factor=1.0"};
  static const char *const passes[] = {
      K "prefetch_passes=1", K "prefetch_passes=2", K "prefetch_passes=4",
      K "prefetch_passes=12"};
  if (!all_of_them()) return settings[i];
  return (setting){factors[i % 4], i & 4 ? K "policy=lfu" : K "policy=lru",
                   i & 8 ? K "tier=file" : K "tier=host", passes[i / 16],
                   i % 4 == 0};
}

static void set_cache(pr_sets *s, const setting *c) {
  pr_set(s, "table_defaults.kernel=cached");
  pr_set(s, c->load_factor);
  pr_set(s, c->policy);
  pr_set(s, c->tier);
  pr_set(s, c->passes);
}

/* ---- beside a model ------------------------------------------------------ */

/* Each cache of this rank, and the batches that it holds, told apart by the
 * buffer of their slots. */
enum { CACHES = 2 * N_TABLES, HELD = 8, IDS = 2000 };

typedef struct held_batch {
  const uint32_t *slots;
  int64_t n;
  uint32_t row[IDS];
  bool held[IDS];
} held_batch;

typedef struct watched {
  const ts_cache *cache;
  cache_model m;
  held_batch batch[HELD];
} watched;

static watched all[CACHES];
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static ts_kernels real;
static atomic_int n_wrong;

static watched *watched_of(const ts_cache *c) {
  int i = 0;
  pthread_mutex_lock(&opening);
  while (all[i].cache && all[i].cache != c && i + 1 < CACHES) i++;
  if (!all[i].cache) {
    all[i].cache = c;
    all[i].m = model_open(c->row_base[c->n_tables], c->n_sets, c->lfu, false);
  }
  pthread_mutex_unlock(&opening);
  return &all[i];
}

static held_batch *batch_of(watched *w, const uint32_t *slots) {
  int i = 0;
  while (i + 1 < HELD && w->batch[i].slots != slots) i++;
  return &w->batch[i];
}

static void expect_counts(const watched *w) {
  uint64_t sum[TS_CACHE_COUNTS] = {0};
  const ts_tier_count *m = &w->m.count;
  const int64_t want[] = {m->n_ids,       m->n_hits,    m->n_misses,
                          m->n_conflicts, m->n_evicted, m->n_written};
  for (int32_t i = 0; i < w->cache->n_tables * TS_CACHE_COUNTS; i++)
    sum[i % TS_CACHE_COUNTS] += w->cache->counts[i];
  for (int k = 0; k < TS_CACHE_COUNTS; k++)
    n_wrong += (int64_t)sum[k] != want[k];
}

static ts_err hold(const ts_cache_args *a) {
  watched *w = watched_of(a->cache);
  held_batch *b = batch_of(w, NULL);
  n_wrong += b->slots != NULL || a->n > IDS;
  b->slots = a->slots;
  b->n = a->n < IDS ? a->n : IDS;
  memcpy(b->row, a->slots, (size_t)b->n * sizeof *b->row);
  model_hold(&w->m, b->row, b->n, a->pass, b->held);
  const ts_err err = real.cache_hold(a);
  expect_counts(w);
  for (int64_t i = 0; i < b->n; i++)
    n_wrong += (a->slots[i] >= a->cache->first_line) != b->held[i];
  return err;
}

static ts_err release(const ts_cache_args *a) {
  watched *w = watched_of(a->cache);
  held_batch *b = batch_of(w, a->slots);
  n_wrong += b->slots != a->slots;
  model_release(&w->m, b->row, b->n, b->held);
  b->slots = NULL;
  return real.cache_release(a);
}

static ts_err refresh(const ts_cache_args *a) {
  watched *w = watched_of(a->cache);
  held_batch *b = batch_of(w, a->slots);
  n_wrong += b->slots != a->slots;
  model_refresh(&w->m, b->row, b->n, b->held);
  return real.cache_refresh(a);
}

static ts_err locate(const ts_cache_args *a) {
  model_write(&watched_of(a->cache)->m, a->keys, a->n);
  return real.cache_locate(a);
}

static ts_err flush(const ts_cache_args *a) {
  model_flush(&watched_of(a->cache)->m);
  return real.cache_flush(a);
}

static ts_err reload(const ts_cache_args *a) {
  model_reload(&watched_of(a->cache)->m);
  return real.cache_reload(a);
}

/* Where the host can see what kernels see. */
static void watch(pr_run *r) {
  ts_kernels *k = &r->t->kernels;
  if (ts_device_is_discrete(r->t->device)) return;
  real = *k;
  k->cache_hold = hold;
  k->cache_release = release;
  k->cache_refresh = refresh;
  k->cache_locate = locate;
  k->cache_flush = flush;
  k->cache_reload = reload;
}

static void watched_stop(void) {
  for (int i = 0; i < CACHES && all[i].cache; i++) model_close(&all[i].m);
  memset(all, 0, sizeof all);
}

/* Counts of all ranks and tables are the models'; no locks are left.  The
 * tables that had rows looked for share all seconds. */
static void check_finite(pr_run *r, ts_tier_count *sum) {
  ts_tier_count count[N_TABLES] = {{0}}, model = {0};
  double seconds[N_TABLES] = {0}, left;
  bool shared = true;
  const ts_ebc_tiers tiers = ts_ebc_tiers_of(r->t->ebc, count, seconds);
  ck_assert_all(tiers.n_locks == 0);
  *sum = (ts_tier_count){0};
  left = tiers.hold_s;
  for (int i = 0; i < N_TABLES; i++) {
    for (size_t k = 0; k < sizeof *sum / 8; k++)
      ((int64_t *)(void *)sum)[k] += ((int64_t *)(void *)&count[i])[k];
    shared = shared && (seconds[i] > 0) == (count[i].n_unique > 0);
    left -= seconds[i];
  }
  ck_assert_all(shared && fabs(left) <= 1e-6 * tiers.hold_s);
  for (int i = 0; i < CACHES; i++) {
    model.n_unique += all[i].m.count.n_unique;
    model.n_misses += all[i].m.count.n_misses;
  }
  const bool discrete = ts_device_is_discrete(r->t->device);
  ck_assert_all(n_wrong == 0);
  ck_assert_all(discrete || model.n_unique == sum->n_unique);
  ck_assert_all(discrete || model.n_misses == sum->n_misses);
  ck_assert_ok(
      ts_comm_sum_i64(r->t->control, (int64_t *)(void *)sum, sizeof *sum / 8));
}

TS_TESTS_BETWEEN(NULL, pr_close_data)

TS_TESTS(twins, 0, 4 * n_settings()) {
  static pr_result want, got;
  const char *const *pipeline = pipelines[_i / n_settings()];
  const setting c = setting_of(_i % n_settings());
  pr_sets fast = {0}, s = {0};
  pr_run r;
  ts_tier_count n;
  if (!ts_test_reads_pages() && strstr(c.tier, "file")) return;
  pr_set(&fast, pipeline[1]);
  pr_set(&fast, "run.eval_every=3");
  pr_train(&want, deck, &fast);
  pr_set(&s, pipeline[0]);
  pr_set(&s, "run.eval_every=3");
  set_cache(&s, &c);
  memset(&got, 0, sizeof got);
  pr_start(&r, deck, &s);
  watch(&r);
  pr_steps(&r, &got);
  got.state = pr_state(&r);
  check_finite(&r, &n);
  watched_stop();
  pr_stop(&r);
  ck_assert_int_eq(got.n, 7);
  ck_assert_all(pr_same(&want, &got));
  ck_assert_all(want.auc == got.auc);
  ck_assert_all(n.n_misses > 0);
  if (!c.small) return;
  ck_assert_all(n.n_conflicts > 0 && n.n_evicted > 0 && n.n_written > 0);
}

/* The same with nothing beside, without lines, in the fused pipeline,
 * with several batches fetched ahead; and
 * with losses that are no numbers: what is held is released all the same. */
TS_TESTS(ways, 0, 7) {
  static const char *const way[][3] = {
      {"run.lanes=serial", "pipeline.kind=prefetch", "run.threads=1"},
      {"table_defaults.kernel=host", "pipeline.kind=prefetch", NULL},
      {"pipeline.kind=fused_sparse_dist", NULL, NULL},
      {K "depth=2", "pipeline.kind=prefetch", NULL},
      {K "depth=4", "pipeline.kind=prefetch", "run.lanes=parallel"},
      {K "prefetch_passes=auto", "pipeline.kind=prefetch", NULL},
      {"optimizer.lr=1e9", "run.on_nan=skip", "pipeline.kind=prefetch"}};
  static pr_result want, got;
  pr_sets fast = {0}, s = {0};
  const bool fused = _i == 2;
  /* On some CPUs products round as there are threads. */
  if (_i == 0) pr_set(&fast, way[0][2]);
  if (fused) { /* it has no trained positions */
    pr_set(&fast, "tables.pos.feature_processor.kind=none");
    pr_set(&fast, "tables.pos.feature_processor.max_length=0");
    pr_set(&s, fast.item[0]);
    pr_set(&s, fast.item[1]);
  }
  if (_i == 6) {
    pr_set(&fast, way[6][0]);
    pr_set(&fast, way[6][1]);
  }
  pr_train(&want, deck, &fast);
  set_cache(&s, &settings[0]);
  for (int k = 0; k < 3 && way[_i][k]; k++) pr_set(&s, way[_i][k]);
  pr_train(&got, deck, &s);
  if (_i == 6) ck_assert_all(!isfinite(want.loss[6]));
  ck_assert_all(_i == 6 ? want.state == got.state : pr_same(&want, &got));
}

/* Starts with so little memory that kernels which are left open are not all
 * fused: with less and less of BYTES, which all in fast memory takes, since
 * other places of the shards are enough at first. */
static void start_short(pr_run *r, const pr_sets *sets, double bytes) {
  for (int k = 1;; k++) {
    char limit[64];
    pr_sets s = *sets;
    snprintf(limit, sizeof limit, "sharding.memory_gib=%.9f",
             (bytes - 16384.0 * k) / (1 << 30));
    pr_set(&s, limit);
    pr_start(r, deck, &s);
    if (ts_plan_n_kernels(r->t->plan)) return;
    pr_stop(r);
  }
}

/* The planner caches tables because memory is short: the bits are those of
 * tables in fast memory. */
TS_TESTS(chosen, 0, 2) {
  static pr_result want, got;
  pr_sets s = {0};
  pr_run r;
  double bytes;
  int32_t n = 0;
  pr_set(&s, _i ? "pipeline.kind=prefetch" : "pipeline.kind=base");
  pr_start(&r, deck, &s);
  ck_assert_all(ts_plan_n_kernels(r.t->plan) == 0);
  memset(&want, 0, sizeof want);
  pr_steps(&r, &want);
  want.state = pr_state(&r);
  bytes = r.t->rank ? 0 : r.t->planning->report->memory_bytes;
  ck_assert_ok(ts_comm_bcast(r.t->control, &bytes, sizeof bytes, 0));
  pr_stop(&r);
  start_short(&r, &s, bytes);
  for (int i = 0; i < N_TABLES; i++)
    n += ts_table_is_slow(&r.t->config->tables[i]);
  ck_assert_all(n == ts_plan_n_kernels(r.t->plan));
  int64_t there = ts_ebc_tiers_of(r.t->ebc, NULL, NULL).slow_bytes;
  ck_assert_ok(ts_comm_sum_i64(r.t->control, &there, 1));
  ck_assert_int_gt(there, 0);
  memset(&got, 0, sizeof got);
  pr_steps(&r, &got);
  got.state = pr_state(&r);
  pr_stop(&r);
  ck_assert_int_eq(got.n, 7);
  ck_assert_all(pr_same(&want, &got));
}
