/* test_deck.c - decks: defaults, values, --set, the deck in force, help.
 * ranks: 1
 * seconds: 400 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/deck_text.h"
#include "base/features.h"
#include "base/hash.h"
#include "base/kinds.h"
#include "io/schema.h"

/* Integers of a deck have 64 bits, with an L or without. */
TS_TEST(long_integers) {
  static const char text[] =
      "run = { steps = 5000000000; };\n"
      "tables = ( { name = \"t{0..1}\"; rows = [30, 7000000000];\n"
      "  dim = 16; features = [\"C{1..2}\"]; } ); # 9000000000\n"
      "model = { over_arch = [1]; }; optimizer = { lr = 1e-3; eps = .5E+1; };\n"
      "data = { format = \"synthetic\"; global_batch = 8; };\n";
  ts_config *c;
  ck_assert_ok(parse(&c, text, "run.seed=6000000000"));
  ck_assert_int_eq(c->run.steps, INT64_C(5000000000));
  ck_assert_int_eq(c->tables[0].rows, 30);
  ck_assert_int_eq(c->tables[1].rows, INT64_C(7000000000));
  ck_assert_int_eq(c->run.seed, INT64_C(6000000000));
  ck_assert(c->optimizer.base.lr == 1e-3 && c->optimizer.base.eps == 5);
  ts_deck_destroy(c);
  ck_assert_ok(parse(&c, good, "tables.t2.rows=5000000000"));
  ck_assert_int_eq(c->tables[2].rows, INT64_C(5000000000));
  ts_deck_destroy(c);
}

/* Until the data are there it is a word, in the deck in force, too. */
TS_TEST(rows_by_the_data) {
  ts_config *c;
  ts_str s = {0};
  ck_assert_ok(parse(&c, good, "tables.t2.rows=auto"));
  ck_assert_int_eq(c->tables[1].rows, 20);
  ck_assert_int_eq(c->tables[2].rows, TS_ROWS_AUTO);
  ck_assert_ok(ts_deck_print(&s, c));
  ck_assert_ptr_nonnull(strstr(s.text, "    rows = \"auto\";\n"));
  ts_deck_destroy(c);
  ts_str_reset(&s);
  ck_assert_ok(parse(&c, good, "tables.t2.rows=31"));
  ck_assert_int_eq(c->tables[2].rows, 31);
  ts_deck_destroy(c);
  refused(good, "tables.t2.rows=automatic", "rows takes an integer");
  refused(good, "tables.t2.rows=-1", "rows = -1 is out of range");
  refused(good, "tables.t2.rows=0", "rows = 0 is out of range");
}

TS_TEST(values_and_defaults) {
  ts_config *c;
  ck_assert_ok(parse(&c, good, NULL));
  ck_assert_int_eq(c->n_tables, 4);
  ck_assert_str_eq(c->tables[2].name, "t2");
  ck_assert_int_eq(c->tables[2].rows, 30);
  ck_assert_int_eq(c->tables[2].dim, 8);
  ck_assert_int_eq(c->tables[2].features.n, 2);
  ck_assert_str_eq(c->tables[2].features.item[0], "C3");
  ck_assert_str_eq(c->tables[0].features.item[1], "D7");
  ck_assert_int_eq(c->tables[3].rows, 1000);
  ck_assert_int_eq(c->tables[3].dim, 16);
  ck_assert_int_eq(c->tables[3].features.n, 3);
  ck_assert_str_eq(c->tables[3].features.item[1], "E2");
  ck_assert_int_eq(c->tables[3].dtype, TS_BF16);
  ck_assert(c->tables[3].optimizer.lr == 1.0);
  ck_assert(isnan(c->tables[3].optimizer.eps));
  ck_assert_int_eq(c->model.dense_features, 13);
  ck_assert_int_eq(c->model.n_tasks, 1);
  ck_assert_int_eq(c->optimizer.n_overrides, 1);
  ck_assert_str_eq(c->optimizer.overrides[0].match, "over*");
  ck_assert_str_eq(c->pipeline.kind, "sparse_dist");
  ck_assert(c->checkpoint.async);
  ck_assert_str_eq(c->run.output, "/tmp/runs/t");
  ck_assert_str_eq(c->checkpoint.dir, "/tmp/runs/t/checkpoints");
  ts_deck_destroy(c);
}

TS_TEST(paths) {
  ts_config *c;
  setenv("TESSERA_TEST_DIR", "/data/x", 1);
  unsetenv("TESSERA_TEST_NONE");
  ck_assert_ok(parse(&c, good, "data.eval=${TESSERA_TEST_DIR}/e.h5"));
  ck_assert_str_eq(c->data.eval.item[0], "/data/x/e.h5");
  ts_deck_destroy(c);
  ck_assert_ok(parse(&c, good, "checkpoint.dir=none"));
  ck_assert_ptr_null(c->checkpoint.dir);
  ts_deck_destroy(c);
  line_refused("metrics = { window = 1; };\n"
               "checkpoint = { dir = \"${TESSERA_TEST_NONE}\"; };\n",
               "deck:10: the environment has no variable TESSERA_TEST_NONE");
}

TS_TEST(overrides) {
  ts_config *c;
  ck_assert_ok(parse(&c, good, "run.epochs=2.5"));
  ck_assert(c->run.epochs == 2.5 && c->run.steps == 0);
  ts_deck_destroy(c);
  static const char *const no_times[] = {"0:60:0", "0:0:60",  "100001:0:0",
                                         "-1:0:0", "0:-1:0",  "0:0:-1",
                                         "1:2",    "1:2:3.5", "x"};
  for (size_t i = 0; i < sizeof no_times / sizeof *no_times; i++) {
    char set[64];
    snprintf(set, sizeof set, "run.max_time=%s", no_times[i]);
    refused(good, set, "takes \"hh:mm:ss\", at most 100000 hours");
  }
  refused(good, "run.steps=abc", "--set run.steps=abc: run.steps takes an int");
  refused(good, "run.step=3", "did you mean \"run.steps\"?");
  refused(good, "tables.x.rows=3", "--set tables.x.rows=3: there is no such");
  refused(good, "tables.u.rowz=3", "--set tables.u.rowz=3: unknown key");
  refused(good, "table_defaults.dimm=3", "--set table_defaults.dimm=3: unkn");
  refused(good, "nothing", "--set nothing: is not group.key=value");
  refused(good, "run.steps=1; x = 2", "--set run.steps=1; x = 2: ");
  refused(good, "run.name.x=1", "--set run.name.x=1: ");
  refused(good, "run.name=..",
          "--set run.name=..: \"..\" is no name for a run");
  refused(
      good, "data.csv.separator=;;",
      "--set data.csv.separator=;;: data.csv.separator is one character or");
  refused(good, "optimizer.overrides=({lr=1;})",
          "--set optimizer.overrides=({lr=1;}): optimizer.overrides: match is");
  refused(good, "tables.t2.ema=true", "ema = true needs optimizer.ema");
  refused(good, "data.dedup=[\"C1\", \"x\"]", "no table has a feature \"x\"");
  refused(good, "model.tasks=({name=\"a\";}, {name=\"a\";})",
          "there are two tasks named a");
}

TS_TEST(norms_need_an_optimizer_of_rows) {
  ts_config *c;
  const char *text = "run = { name = \"t\"; steps = 3; };\n"
                     "data = { format = \"synthetic\"; batch_per_rank = 8; };\n"
                     "tables = ( { name = \"a\"; rows = 9; features = [\"a\"]; "
                     "max_norm = 1; } );\n";
  ck_assert_ok(parse(&c, text, NULL));
  ck_assert(c->tables[0].max_norm == 1);
  ts_deck_destroy(c);
  refused(text, "tables.a.optimizer.kind=none",
          "table a: max_norm needs an optimizer of rows");
}

static uint64_t hash_of(const ts_config *c) {
  uint64_t hash = 0;
  ck_assert_ok(ts_deck_hash(&hash, c));
  return hash;
}

/* The deck in force reads as the same deck, whatever its values are. */
static void same_again(const char *set, const char *words) {
  ts_config *a, *b;
  ts_str first = {0}, second = {0};
  ck_assert_ok(parse(&a, good, set));
  ck_assert_ok(ts_deck_print(&first, a));
  ck_assert_msg(strstr(first.text, words) != NULL, "no %s", words);
  b = NULL;
  ck_assert_ok(ts_deck_parse(&b, first.text, "/", NULL, 0));
  ck_assert_ok(ts_deck_print(&second, b));
  ck_assert_str_eq(first.text, second.text);
  ck_assert_uint_eq(hash_of(a), hash_of(b));
  /* What the print loses, both prints lose. */
  ck_assert(a->optimizer.base.lr == b->optimizer.base.lr);
  ck_assert(a->run.epochs == b->run.epochs);
  ck_assert_int_eq(a->run.seed, b->run.seed);
  ck_assert_int_eq(a->tables[0].rows, b->tables[0].rows);
  ck_assert_str_eq(a->run.name, b->run.name);
  ts_deck_destroy(a);
  ts_deck_destroy(b);
  ts_str_reset(&first);
  ts_str_reset(&second);
}

static const char wide_deck[] =
    "run = { epochs = 1; };\n"
    "data = { format = \"synthetic\"; batch_per_rank = 8; };\n"
    "table_defaults = { dim = 16; optimizer = { kind = \"adam\"; lr = 0.5; };"
    " };\n"
    "tables = (\n"
    "  { name = \"t{0..1}\"; rows = [10, 20]; wide = true; pooling = \"mean\";"
    " features = [\"a{0..1}\", \"b{0..1}\"]; cache = { depth = 2; }; },\n"
    "  { name = \"u\"; rows = \"auto\"; wide = true; sharding = \"grid\";"
    " ranks = [1, 3]; features = \"a0\"; },\n"
    "  { name = \"v\"; rows = 40; features = \"c\"; group = \"seen\";"
    " sharding = \"row_wise\"; } );\n";

/* --set model.kind counts where the deck has layers of its own. */
TS_TEST(kind_over_layers) {
  ts_config *a, *b, *c;
  char deck[4096];
  snprintf(deck, sizeof deck,
           "%smodel = { kind = \"dlrm\"; layers = ( { name = \"own\"; kind = "
           "\"mlp\"; in = \"embeddings\"; units = [1]; } ); };\n",
           wide_deck);
  ck_assert_ok(parse(&a, deck, NULL));
  ck_assert_int_eq(a->model.n_layers, 1);
  ck_assert_ok(parse(&b, deck, "model.kind=wide_deep"));
  ck_assert_ok(parse(&c, wide_deck, "model.kind=wide_deep"));
  ck_assert_str_ne(b->model.layers[0].name, "own");
  ck_assert_uint_eq(hash_of(b), hash_of(c));
  ts_deck_destroy(a);
  ts_deck_destroy(b);
  ts_deck_destroy(c);
}

TS_TEST(deck_in_force) {
  static const char *const sets[][2] = {
      {NULL, "  format = \"synthetic\";\n  batch_per_rank = 8;\n  pin"},
      {"checkpoint.dir=none", "  dir = \"none\";\n"},
      {"checkpoint.dir=non", "  dir = \"/tmp/non\";\n"},
      {"data.train=[\"a*.h5\", \"/b\"]", "  train = [\"/tmp/a*.h5\", \"/b\"];"},
      {"run.epochs=0.1", "  epochs = 0.1;\n"},
      {"data.global_batch=64",
       "  format = \"synthetic\";\n  global_batch = 64;\n  pin"},
      {"run.name=7", "  name = \"7\";\n"},
      {"tables.t1.rows=99", "rows = 10;\n    dim = 8;"},
      {"tables.t1.rows=99", "rows = 99;\n    dim = 8;"},
      {"tables.t0.optimizer={kind=\"sgd\"; lr=2;}",
       "kind = \"sgd\";\n      lr = 2.0;\n"},
      {"tables.t0.optimizer={kind=\"sgd\"; lr=2;}",
       "kind = \"rowwise_adagrad\";\n      lr = 1.0;\n"},
      {"table_defaults.dim=4", "    rows = 1000;\n    dim = 4;\n"},
      {"run.max_time=", "  max_time = \"\";\n"},
      {"run.max_time=100000:59:59", "  max_time = \"100000:59:59\";\n"},
      {"run.max_time=100:00:01", "  max_time = \"100:00:01\";\n"},
      {"run.seed=5000000000", "  seed = 5000000000L;\n"},
      {"optimizer.lr=1e-300", "  lr = 1e-300;\n"},
      {"optimizer.lr=0.1", "  lr = 0.1;\n"},
      {"optimizer.lr=0.12345678901234567", "  lr = 0.12345678901234"},
      {"optimizer.eps=3e-9", "  eps = 3e-09;\n"},
      {"optimizer.weight_decay_mode=decoupled",
       "  weight_decay_mode = \"decoupled\";\n"},
      {"model.tasks=({name=\"x\"; weight=0.3;}, {name=\"y\";})",
       "tasks = (\n  {\n    name = \"x\";\n    weight = 0.3;\n  },\n  {\n"
       "    name = \"y\";\n    weight = 1.0;\n  }\n);\n};\n"},
      {"model.outputs=({name=\"x\"; label=\"y\"; loss=\"huber\"; weight=2;"
       " where=\"w\"; delta=0.3;}, {})",
       ");\n};\noptimizer = {\n"},
      {"model.outputs=({name=\"x\"; smoothing=0.3; from=\"probability\";})",
       "outputs = (\n  {\n    name = \"x\";\n    label = \"\";\n    in = "
       "\"\";\n    loss = \"bce\";\n    from = \"probability\";\n    weight "
       "= 1.0;\n    where = \"\";\n    smoothing = 0.3;\n    delta = 1.0;\n"
       "    items = \"\";\n    target = \"\";\n    negatives = 1;\n"
       "    draw = \"uniform\";\n    log_q = false;\n    given = 0;\n    "
       "first_item = 0;\n    exclude = [];\n    draw_excluded = false;\n"
       "    masked = \"\";\n"
       "    mask_share = 0.2;\n    mask_id = 0;\n"
       "    temperature = 1.0;\n    normalise = false;\n    margin = 0.9;\n"
       "    negative_weight = 1.0;\n  }\n);\n};\noptimizer"},
      {"run.name=\"a\\\"b\\\\c\\n};\\n\\x01\"",
       "  name = \"a\\\"b\\\\c\\x0a};\\x0a\\x01\";\n"},
      {"data.csv.label_threshold=-4", "    label_threshold = -4.0;\n"},
      {"data.csv.label_true=[\">50K\", \">50K.\"]",
       "    label_true = [\">50K\", \">50K.\"];\n"},
      {"tables.u.ranks=[0, 3]", "    ranks = [0, 3];\n"},
      {"data.synthetic.pooling=[1, 2, 3]", "    pooling = [1, 2, 3];\n"},
      {"tables.t0.rows=9000000000", "    rows = 9000000000L;\n"},
      {"tables.u.cache.prefetch_passes=auto",
       "    cache = {\n      policy = \"lru\";\n      depth = 1;\n"
       "      prefetch_passes = \"auto\";\n"},
      {NULL, "  post_optimizer_event = true;\n"},
      {"dense.reshard_after_forward=false", "reshard_after_forward = false;\n"},
      {"dense.reshard_after_forward=true", "reshard_after_forward = true;\n"},
      {"dense.reshard_after_forward=4", "reshard_after_forward = 4;\n"},
      {"dense.groups=({layers=[\"over_arch.*\", \"b\"];}, {layers=\"c\";})",
       "groups = (\n  {\n    layers = [\"over_arch.*\", \"b\"];\n  },\n"},
      {"dense.forward_prefetch=({layer=\"a\"; prefetch=[\"b\", \"c\"];})",
       "    layer = \"a\";\n    prefetch = [\"b\", \"c\"];\n  }\n);\n};\n"},
      {"dense.backward_prefetch=({layer=\"a\"; prefetch=[];}, {layer=\"c\";})",
       "backward_prefetch = (\n  {\n    layer = \"a\";\n    prefetch = [];\n  "
       "},\n  "
       "{\n    layer = \"c\";\n"}};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    same_again(sets[i][0], sets[i][1]);
  ts_config *a, *b;
  ck_assert_ok(parse(&a, good, NULL));
  ck_assert_ok(parse(&b, good, "run.seed=2"));
  ck_assert_uint_ne(hash_of(a), hash_of(b));
  ts_deck_destroy(a);
  ts_deck_destroy(b);
}

/* wide = true adds tables behind all others, which the deck in force has as
 * they are, with what --set says of them. */
TS_TEST(wide_tables) {
  static const char *const sets[] = {"tables.t1_wide.optimizer.lr=2.5",
                                     "tables.v.wide=true"};
  ts_config *a, *b;
  ts_str first = {0}, second = {0};
  ck_assert_ok(ts_deck_parse(&a, wide_deck, "/tmp", sets, 2));
  ck_assert_int_eq(a->n_tables, 8);
  const ts_table_config *t = &a->tables[5], *u = &a->tables[6];
  ck_assert_str_eq(t->name, "t1_wide");
  ck_assert_str_eq(t->group, "wide");
  ck_assert_str_eq(a->tables[1].group, "");
  ck_assert(t->is_wide && !t->wide && a->tables[1].wide);
  ck_assert_int_eq(t->rows, 20);
  ck_assert_int_eq(t->dim, 1);
  ck_assert_int_eq(t->pooling, TS_POOL_MEAN);
  ck_assert_int_eq(t->features.n, 2);
  ck_assert_str_eq(t->features.item[1], "b1");
  ck_assert_str_eq(t->optimizer.kind, "adam");
  ck_assert(t->optimizer.lr == 2.5 && a->tables[1].optimizer.lr == 0.5);
  ck_assert_int_eq(t->cache.depth, 2);
  ck_assert_int_eq(u->rows, TS_ROWS_AUTO);
  ck_assert_int_eq(u->sharding, TS_SHARD_AUTO);
  ck_assert_int_eq(u->ranks.n, 0);
  ck_assert_int_eq(a->tables[2].ranks.n, 2);
  ck_assert_str_eq(a->tables[7].name, "v_wide");
  ck_assert_int_eq(a->tables[7].sharding, TS_SHARD_ROW_WISE);
  ck_assert_ok(ts_deck_print(&first, a));
  ck_assert_ptr_null(strstr(first.text, "wide = true"));
  ck_assert_ok(ts_deck_parse(&b, first.text, "/", NULL, 0));
  ck_assert_ok(ts_deck_print(&second, b));
  ck_assert_str_eq(first.text, second.text);
  ts_str_reset(&second);
  ck_assert_ok(ts_deck_differ(&second, first.text, a));
  ck_assert_int_eq(second.n_bytes, 0);
  ts_deck_destroy(a);
  ts_deck_destroy(b);
  ts_str_reset(&first);
  ts_str_reset(&second);
}

/* Features by name: the first, or that of a table; one column for all. */
TS_TEST(features_of_several_tables) {
  ts_config *c;
  ts_feature_columns m;
  ck_assert_ok(ts_deck_parse(&c, wide_deck, "/tmp", NULL, 0));
  const int32_t first[] = {0, 1, 2, 3, 0, 5, 0, 1, 2, 3, 0};
  const int32_t column[] = {0, 1, 2, 3, 0, 4, 0, 1, 2, 3, 0};
  ck_assert_ok(ts_feature_columns_create(&m, c));
  ck_assert_int_eq(m.n_features, 11);
  ck_assert_int_eq(m.n, 5);
  for (int32_t f = 0; f < 11; f++) {
    ck_assert_int_eq(m.first[f], first[f]);
    ck_assert_int_eq(m.column[f], column[f]);
    ck_assert_int_eq(ts_feature_column(c, f, 5), column[f]);
    ck_assert_int_eq(ts_feature_column(c, f, 11), f);
  }
  ts_feature_columns_reset(&m);
  ck_assert_int_eq(ts_feature_find(c, "a0"), 0);
  ck_assert_int_eq(ts_feature_find(c, "a0@t0"), 0);
  ck_assert_int_eq(ts_feature_find(c, "a0@u"), 4);
  ck_assert_int_eq(ts_feature_find(c, "b1@t1_wide"), 9);
  ck_assert_int_eq(ts_feature_find(c, "a0@t1"), -1);
  ck_assert_int_eq(ts_feature_find(c, "a0@"), -1);
  ck_assert_int_eq(ts_feature_find(c, "d"), -1);
  ts_deck_destroy(c);
}

/* Every row of the schema has a default that it takes, and help.  Kinds,
 * limits and defaults are what decks in use count on: who changes one on
 * purpose changes the sum. */
TS_TEST(schema_rows) {
  uint32_t sum = 0;
  for (int i = 0; i < ts_schema_n; i++) {
    const ts_key *k = &ts_schema[i];
    ck_assert_msg(*k->help, "%s has no help", k->path);
    ck_assert(ts_schema_find(k->scope, k->path) == k);
    char row[512];
    const int n =
        snprintf(row, sizeof row, "%d %s %d %g %g %s\n", k->scope, k->path,
                 k->kind, k->min, k->max, k->fallback ? k->fallback : "none");
    sum = ts_crc32c(sum, row, (size_t)n);
  }
  ck_assert_uint_eq(sum, 2631675647);
}

/* One key: kind, unit, choices, limits, default, what is to come. */
static const char *const keys[][2] = {
    {"metrics.window", "metrics.window\n    integer (samples); 0 to 1e+12; "
                       "default 10000000\n    that window metrics look back, "
                       "by whole steps; AUC at most 262144 of them\n"},
    {"table_defaults.kernel",
     "tables.kernel\n    text; auto | fused | cached | host; default "
     "\"auto\"; not in this version: dense\n    fused: rows in fast memory; "
     "cached: in slow memory behind a cache; host: in slow memory; "
     "auto: fused, or what the planner says where memory doesn't suffice; "
     "doc/cache.md\n"},
    {"tables.init.scale", "tables.init.scale\n    number; -1e+06 to 1e+06; "
                          "default 0.0\n    0: 1/sqrt(rows); of constant: the "
                          "value\n"},
    {"model.tasks.name",
     "model.tasks.name\n    text; default \"label\"\n    name of the task\n"}};

TS_TESTS(help_of_a_key, 0, sizeof keys / sizeof *keys) {
  ts_str s = {0};
  ck_assert_ok(ts_deck_help(&s, keys[_i][0]));
  ck_assert_str_eq(s.text, keys[_i][1]);
  ts_str_reset(&s);
}

TS_TEST(manual_of_the_deck) {
  static const char *const words[] = {
      "@c Written by `tessera help deck --texinfo`.\n\n@node Keys of run\n"
      "@section @code{run}\n\n@vtable @code\n@item run.name\n",
      "@end vtable\n\n@node Keys of data\n@section @code{data}\n\n",
      "; see @ref{Sharding}\n", "t@{0..25@} makes one table per number\n",
      "@item metrics.window\ninteger (samples); 0 to 1e+12; default "
      "10000000@*\nthat window metrics look back, by whole steps; AUC at most "
      "262144 of them\n"};
  ts_str s = {0};
  ck_assert_ok(ts_deck_texinfo(&s));
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    ck_assert_msg(strstr(s.text, words[i]) != NULL, "no %s", words[i]);
  const char *first = strstr(s.text, "@node Keys of run\n");
  ck_assert_ptr_null(strstr(first + 1, "@node Keys of run\n"));
  ck_assert_str_eq(s.text + s.n_bytes - 13, "\n@end vtable\n");
  ts_str_reset(&s);
}

TS_TEST(help) {
  ts_str s = {0};
  ck_assert_ok(ts_deck_help(&s, "deck"));
  ck_assert_int_eq(strncmp(s.text, "The input deck\n====", 19), 0);
  ck_assert_int_eq(ts_deck_help(&s, "run.sead"), TS_ERR_USAGE);
  ck_assert_str_eq(ts_err_message(),
                   "no key \"run.sead\"; did you mean \"run.seed\"?");
  ts_err_clear();
  ck_assert_int_eq(ts_deck_help(&s, "tables.rowz"), TS_ERR_USAGE);
  ck_assert_str_eq(ts_err_message(),
                   "no key \"tables.rowz\"; did you mean \"tables.rows\"?");
  ts_err_clear();
  ts_str_reset(&s);
}

TS_TEST(lists_of_layers) {
  ts_config *c;
  ck_assert_ok(parse(&c, good, NULL));
  ck_assert_int_eq(c->dense.reshard, 0);
  ck_assert(c->dense.post_optimizer_event);
  ts_deck_destroy(c);
  ck_assert_ok(parse(&c, good, "dense.reshard_after_forward=false"));
  ck_assert_int_eq(c->dense.reshard, 1);
  ts_deck_destroy(c);
  ck_assert_ok(parse(&c, good,
                     "dense.backward_prefetch=({layer=\"a\"; "
                     "prefetch=[\"b\", \"c\"];}, {layer=\"d\";})"));
  ck_assert_int_eq(c->dense.n_backward_prefetch, 2);
  ck_assert_int_eq(c->dense.n_forward_prefetch, 0);
  ck_assert_str_eq(c->dense.backward_prefetch[0].prefetch.item[1], "c");
  ck_assert_int_eq(c->dense.backward_prefetch[1].prefetch.n, 0);
  ts_deck_destroy(c);
}
