/* test_cached.c - pipelines over cached tables of all shardings equal the
 * same over tables in fast memory, bit for bit: shared and distinct features,
 * weights, trained positions, column shards, 16-bit rows; and nothing stays
 * locked.  Four settings of the cache; with TESSERA_CACHE_MATRIX=1 all of load
 * factors, passes, policies and tiers, under each pipeline (minutes).  The
 * product with all optimizers and types is in test_cache.
 * ranks: 1 3 4  sanitized: 3  fake: 1
 * seconds: 400 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/train/pipe_run.h"

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

/* Counts of all ranks and tables; no locks are left. */
static void look(pr_run *r, ts_tier_count *sum) {
  ts_tier_count count[N_TABLES] = {{0}};
  const ts_ebc_tiers tiers = ts_ebc_tiers_of(r->t->ebc, count);
  ck_assert_all(tiers.n_locks == 0);
  *sum = (ts_tier_count){0};
  for (int i = 0; i < N_TABLES; i++)
    for (size_t k = 0; k < sizeof *sum / 8; k++)
      ((int64_t *)(void *)sum)[k] += ((int64_t *)(void *)&count[i])[k];
  ck_assert_ok(
      ts_comm_sum_i64(r->t->control, (int64_t *)(void *)sum, sizeof *sum / 8));
}

START_TEST(twins) {
  static pr_result want, got;
  const char *const *pipeline = pipelines[_i / n_settings()];
  const setting c = setting_of(_i % n_settings());
  pr_sets fast = {0}, s = {0};
  pr_run r;
  ts_tier_count n;
  pr_set(&fast, pipeline[1]);
  pr_set(&fast, "run.eval_every=3");
  pr_train(&want, deck, &fast);
  pr_set(&s, pipeline[0]);
  pr_set(&s, "run.eval_every=3");
  set_cache(&s, &c);
  memset(&got, 0, sizeof got);
  pr_start(&r, deck, &s);
  pr_steps(&r, &got);
  got.state = pr_state(&r);
  look(&r, &n);
  pr_stop(&r);
  ck_assert_int_eq(got.n, 7);
  ck_assert_all(pr_same(&want, &got));
  ck_assert_all(want.auc == got.auc);
  ck_assert_all(n.n_hits + n.n_misses == n.n_unique && n.n_misses > 0);
  if (!c.small) return;
  ck_assert_all(n.n_conflicts > 0 && n.n_evicted > 0 && n.n_written > 0);
}
END_TEST

/* The same with nothing beside, without lines, in the fused pipeline,
 * with several batches fetched ahead; and
 * with losses that are no numbers: what is held is released all the same. */
START_TEST(ways) {
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
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("cached");
  TCase *tc = tcase_create("cached");
  tcase_add_unchecked_fixture(tc, NULL, pr_close_data);
  tcase_add_loop_test(tc, twins, 0, 4 * n_settings());
  tcase_add_loop_test(tc, ways, 0, 7);
  suite_add_tcase(s, tc);
  return s;
}

TS_TEST_MAIN(suite)
