/* test_deck.c - decks: defaults, values, every kind of error with its line,
 * --set, the deck in force, hostile text.
 * ranks: 1
 * seconds: 400 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/deck.h"
#include "io/schema.h"
#include "tests/harness.h"

/* A deck without faults: line 1 is the run, line 4 the table u. */
static const char *const good =
    "run = { name = \"t\"; steps = 3; };\n"
    "data = { format = \"synthetic\"; batch_per_rank = 8; };\n"
    "tables = ( { name = \"t{0..2}\"; rows = [10, 20, 30]; dim = 8;\n"
    "  features = [\"C{1..3}\", \"D{7..9}\"]; },\n"
    "  { name = \"u\"; rows = \"1k\"; features = [\"E{1..2}\", \"F\"]; } );\n"
    "table_defaults = { dim = 16; dtype = \"bf16\"; optimizer = { lr = 1; }; "
    "};\n"
    "model = { dense_features = 13.0; over_arch = [8, 1]; };\n"
    "optimizer = { overrides = ( { match = \"over*\"; lr = 0.5; } ); };\n";

static ts_err parse(ts_config **c, const char *text, const char *set) {
  *c = NULL;
  return ts_deck_parse(c, text, "/tmp", &set, set ? 1 : 0);
}

/* TEXT is refused with code 2; the message has WORDS in it. */
static void refused(const char *text, const char *set, const char *words) {
  ts_config *c;
  ts_err_clear();
  const ts_err err = parse(&c, text, set);
  ck_assert_msg(err == TS_ERR_DECK, "taken: %.80s %s", text, set ? set : "");
  ck_assert_msg(strstr(ts_err_message(), words) != NULL, "\"%s\" is not in: %s",
                words, ts_err_message());
  ck_assert_int_eq(ts_err_exit_code(err), 2);
  ts_err_clear();
}

/* The good deck with LINE as its ninth. */
static void line_refused(const char *line, const char *words) {
  char text[4096];
  snprintf(text, sizeof text, "%s%s", good, line);
  refused(text, NULL, words);
}

/* Integers of a deck have 64 bits, with an L or without. */
START_TEST(long_integers) {
  static const char text[] =
      "run = { steps = 5000000000; };\n"
      "tables = ( { name = \"t{0..1}\"; rows = [30, 7000000000];\n"
      "  dim = 16; features = [\"C{1..2}\"]; } ); # 9000000000\n"
      "model = { over_arch = [1]; };\n"
      "data = { format = \"synthetic\"; global_batch = 8; };\n";
  ts_config *c;
  ck_assert_ok(parse(&c, text, "run.seed=6000000000"));
  ck_assert_int_eq(c->run.steps, INT64_C(5000000000));
  ck_assert_int_eq(c->tables[0].rows, 30);
  ck_assert_int_eq(c->tables[1].rows, INT64_C(7000000000));
  ck_assert_int_eq(c->run.seed, INT64_C(6000000000));
  ts_deck_destroy(c);
  ck_assert_ok(parse(&c, good, "tables.t2.rows=5000000000"));
  ck_assert_int_eq(c->tables[2].rows, INT64_C(5000000000));
  ts_deck_destroy(c);
}
END_TEST

START_TEST(values_and_defaults) {
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
  ck_assert_str_eq(c->pipeline.kind, "base");
  ck_assert(c->checkpoint.async);
  ck_assert_str_eq(c->run.output, "/tmp/runs/t");
  ck_assert_str_eq(c->checkpoint.dir, "/tmp/runs/t/checkpoints");
  ts_deck_destroy(c);
}
END_TEST

START_TEST(paths) {
  ts_config *c;
  setenv("TESSERA_TEST_DIR", "/data/x", 1);
  unsetenv("TESSERA_TEST_NONE");
  ck_assert_ok(parse(&c, good, "data.train=[\"a*.h5\", \"/b\"]"));
  ck_assert_str_eq(c->data.train.item[0], "/tmp/a*.h5");
  ck_assert_str_eq(c->data.train.item[1], "/b");
  ts_deck_destroy(c);
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
END_TEST

/* One line behind the good deck, and what is said about it. */
static const char *const faults[][2] = {
    {"metrics = { windo = 1; };", "deck:9: unknown key \"metrics.windo\"; did "
                                  "you mean \"metrics.window\"?"},
    {"metrix = { window = 1; };", "deck:9: unknown key \"metrix\""},
    {"metrics = { window = -1; };", "deck:9: metrics.window = -1 is out of "
                                    "range: 0 to 1e+12 samples, default "
                                    "10000000"},
    {"metrics = { window = true; };", "deck:9: metrics.window takes an"},
    {"metrics = { window = 0.5; };", "deck:9: metrics.window takes an integer"},
    {"metrics = 3;", "deck:9: metrics is a group"},
    {"comm = { timeout_s = \"long\"; };", "deck:9: comm.timeout_s takes a nu"},
    {"comm = { timeout_s = \"nan\"; };", "deck:9: comm.timeout_s takes a nu"},
    {"comm = { reduce = \"fast\"; };", "deck:9: comm.reduce: \"fast\" is not "
                                       "one of: mpi, ordered"},
    {"comm = { backend = \"gloo\"; };", "deck:9: comm.backend: \"gloo\" is not "
                                        "one of: auto, mpi, nccl"},
    {"pipeline = { kind = \"sparse\"; };", "is not one of: base, sparse_dist"},
    {"dense = { groups = 3; };", "deck:9: dense.groups is a list of groups"},
    {"dense = { groups = ( { layer = \"a\"; } ); };",
     "deck:9: unknown key \"layer\"; did you mean \"layers\"?"},
    {"dense = { forward_prefetch = ( { prefetch = [\"a\"]; } ); };",
     "deck:9: dense.forward_prefetch: layer is missing"},
    {"dense = { backward_prefetch = ( { prefetch = [\"a\"]; } ); };",
     "deck:9: dense.backward_prefetch: layer is missing"},
    {"dense = { reshard_after_forward = 0; };", "out of range"},
    {"dense = { reshard_after_forward = \"no\"; };", "takes an integer"},
    {"checkpoint = { async = \"yes\"; };", "checkpoint.async takes"},
    {"checkpoint = { mirror_every = 0; };", "out of range"},
    {"checkpoint = { async = 1; };", "takes true or false"},
    {"checkpoint = { dir = 1; };", "takes a text in quotes"},
    {"sharding = { memory_gib = -4; };", "is out of range"},
    {"run = { steps = 1; };", "deck:9: duplicate"},
    {"metrics = { window = 1; window = 2; };", "deck:9: duplicate"},
    {"metrics = { window = ", "syntax error"},
    {"@include \"no/such/file\"\n", "no/such/file"},
};

START_TEST(errors_have_lines) {
  line_refused(faults[_i][0], faults[_i][1]);
}
END_TEST

START_TEST(all_errors_at_once) {
  const char *deck =
      "run = { sead = 1; };\n"
      "data = { format = \"synthetic\"; batch_per_rank = -1; };\n"
      "tables = ( { name = \"a\"; rows = 1; features = \"f\"; },\n"
      "  { name = \"a\"; rows = 1; features = [\"f\"]; } );\n";
  refused(deck, NULL, "deck:1: unknown key \"run.sead\"");
  refused(deck, NULL, "deck:2: data.batch_per_rank = -1 is out of range");
  refused(deck, NULL, "run.steps or run.epochs is missing");
  refused(deck, NULL, "deck:4: there are two tables named a");
  refused(deck, NULL, "deck:4: feature \"f\" of table a is already in table");
  refused("run = { epochs = 1;\n steps = 2; };", NULL,
          "deck:2: run.steps and run.epochs are both given");
  refused("data = { global_batch = 1; batch_per_rank = 2; };", NULL,
          "deck:1: data.global_batch and data.batch_per_rank are both given");
  ts_config *c;
  ck_assert_int_eq(parse(&c, deck, NULL), TS_ERR_DECK);
  ck_assert_ptr_null(strstr(ts_err_message(), "global_batch is missing"));
  ts_err_clear();
}
END_TEST

START_TEST(table_errors) {
  static const char head[] =
      "run = { steps = 1; };\n"
      "data = { format = \"synthetic\"; global_batch = 4; };\ntables = ";
  static const char *const cases[][2] = {
      {"();", "there are no tables"},
      {"3;", "deck:3: tables is a list of groups"},
      {"( 3 );", "deck:3: tables is a list of groups"},
      {"( { rows = 3; } );", "deck:3: a table has no name"},
      {"( { name = \"a\"; features = \"f\"; } );",
       "deck:3: table a has no rows"},
      {"( { name = \"a\"; rows = 1; } );", "deck:3: table a has no features"},
      {"( { name = \"a{3..1}\"; rows = 1; features = \"f\"; } );",
       "deck:3: name = \"a{3..1}\""},
      {"( { name = \"a{0..9999999}\"; rows = 1; features = \"f\"; } );",
       "tables at most"},
      {"( { name = \"a{0..1}\"; rows = [1]; features = \"f{0..1}\"; } );",
       "rows lists 1 numbers, the table's name counts 2"},
      {"( { name = \"a{0..1}\"; rows = 1; features = \"f{0..2}\"; } );",
       "counts 3, the table's name counts 2"},
      {"( { name = \"a{0..1}\"; rows = 1; features = \"f\"; } );",
       "feature \"f\" of table a1 is already in table a0"},
      {"( { name = \"a\"; rows = 1; features = \"f\"; kernel = \"dense\"; } "
       ");",
       "\"dense\" is not in this version; it has: auto, fused, cached, host"},
      {"( { name = \"a\"; rows = 1; features = \"f\"; cache = { depth = 5; }; "
       "} );",
       "cache.depth = 5 is out of range: 1 to 4"},
      {"( { name = \"a\"; rows = 1; features = \"f\"; cache = { "
       "prefetch_passes = \"some\"; }; } );",
       "cache.prefetch_passes takes an integer"},
      {"( { name = \"a\"; rows = 1; features = \"f\"; kernel = \"cached\"; "
       "sharding = \"data_parallel\"; } );",
       "every rank has all of a data_parallel table"},
      {"( { name = \"a\"; rows = 1; features = \"f\"; kernel = \"host\"; "
       "cache = { tier = \"file\"; }; } );",
       "needs run.tier_dir"},
      {"( { name = \"a\"; rows = 1; features = \"f\"; rowz = 1; } );",
       "did you mean \"rows\"?"},
      {"( { name = \"a\"; rows = 1; features = \"f{2..1}\"; } );",
       "deck:3: \"f{2..1}\": {a..b} is broken"},
      {"( { name = \"a{1..2}\"; rows = 1; features = \"f{x}\"; } );",
       "deck:3: \"f{x}\": {a..b} is broken"},
      {"( { name = \"a/b\"; rows = 1; features = \"f\"; } );", "no name for a"},
      {"( { name = \"a\"; rows = 1; features = \"f\"; feature_processor = "
       "{ kind = \"position_weighted\"; }; } );",
       "deck:3: table a: position_weighted needs feature_processor.max_length"},
      {"( { name = \"a\"; rows = 1; features = \"f\"; feature_processor = "
       "{ max_length = 3; }; } );",
       "deck:3: table a: feature_processor.max_length is for position_weigh"},
      {"( { name = \"a\"; rows = 1; features = \"f\"; feature_processor = "
       "{ kind = \"position_weighted\"; max_length = 65537; }; } );",
       "feature_processor.max_length = 65537 is out of range"},
      {"( { name = \"a\"; rows = 1; features = \"f\"; weighted = true; "
       "feature_processor = { kind = \"position_weighted\"; max_length = 3; }; "
       "} );",
       "deck:3: table a: position_weighted gives the ids their weights: the "
       "table can't be weighted, too"},
  };
  char text[1024];
  snprintf(text, sizeof text, "%s%s", head, cases[_i][0]);
  refused(text, NULL, cases[_i][1]);
}
END_TEST

START_TEST(overrides) {
  ts_config *c;
  ck_assert_ok(parse(&c, good, "run.epochs=2.5"));
  ck_assert(c->run.epochs == 2.5 && c->run.steps == 0);
  ts_deck_destroy(c);
  ck_assert_ok(parse(&c, good, "run.name=7"));
  ck_assert_str_eq(c->run.name, "7");
  ts_deck_destroy(c);
  ck_assert_ok(parse(&c, good, "tables.t1.rows=99"));
  ck_assert_int_eq(c->tables[0].rows, 10);
  ck_assert_int_eq(c->tables[1].rows, 99);
  ts_deck_destroy(c);
  ck_assert_ok(parse(&c, good, "tables.u.optimizer={kind=\"sgd\"; lr=2;}"));
  ck_assert_str_eq(c->tables[3].optimizer.kind, "sgd");
  ck_assert_str_eq(c->tables[2].optimizer.kind, "rowwise_adagrad");
  ts_deck_destroy(c);
  ck_assert_ok(parse(&c, good, "table_defaults.dim=4"));
  ck_assert_int_eq(c->tables[3].dim, 4);
  ts_deck_destroy(c);
  ck_assert_ok(parse(&c, good, "run.max_time=01:02:03"));
  ck_assert(c->run.max_time_s == 3723);
  ts_deck_destroy(c);
  refused(good, "run.steps=abc", "--set run.steps=abc: run.steps takes an int");
  refused(good, "run.step=3", "did you mean \"run.steps\"?");
  refused(good, "tables.x.rows=3", "--set tables.x.rows=3: there is no such");
  refused(good, "tables.u.rowz=3", "--set tables.u.rowz=3: unknown key");
  refused(good, "table_defaults.dimm=3", "--set table_defaults.dimm=3: unkn");
  refused(good, "nothing", "--set nothing: is not group.key=value");
  refused(good, "run.steps=1; x = 2", "--set run.steps=1; x = 2: ");
  refused(good, "run.name.x=1", "--set run.name.x=1: ");
}
END_TEST

/* The deck in force reads as the same deck, whatever its values are. */
static void same_again(const char *set) {
  ts_config *a, *b;
  ts_str first = {0}, second = {0};
  ck_assert_ok(parse(&a, good, set));
  ck_assert_ok(ts_deck_print(&first, a));
  b = NULL;
  ck_assert_ok(ts_deck_parse(&b, first.text, "/", NULL, 0));
  ck_assert_ok(ts_deck_print(&second, b));
  ck_assert_str_eq(first.text, second.text);
  ck_assert_uint_eq(ts_deck_hash(a), ts_deck_hash(b));
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

START_TEST(deck_in_force) {
  static const char *const sets[] = {
      NULL,
      "checkpoint.dir=none",
      "checkpoint.dir=c",
      "run.epochs=0.1",
      "data.global_batch=64",
      "run.max_time=100:00:01",
      "run.seed=5000000000",
      "optimizer.lr=1e-300",
      "optimizer.lr=0.1",
      "optimizer.lr=0.12345678901234567",
      "optimizer.eps=3e-9",
      "model.tasks=({name=\"x\"; weight=0.3;}, {name=\"y\";})",
      "run.name=\"a\\\"b\\\\c\\n};\\n\\x01\"",
      "data.csv.label_threshold=-4",
      "data.csv.label_true=[\">50K\", \">50K.\"]",
      "tables.u.ranks=[0, 3]",
      "data.synthetic.pooling=[1, 2, 3]",
      "tables.t0.rows=9000000000",
      "dense.reshard_after_forward=false",
      "dense.reshard_after_forward=4",
      "dense.groups=({layers=[\"over_arch.*\", \"b\"];}, {layers=\"c\";})",
      "dense.forward_prefetch=({layer=\"a\"; prefetch=[\"b\", \"c\"];})",
      "dense.backward_prefetch=({layer=\"a\"; prefetch=[];}, {layer=\"c\";})"};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) same_again(sets[i]);
  ts_config *a, *b;
  ck_assert_ok(parse(&a, good, NULL));
  ck_assert_ok(parse(&b, good, "run.seed=2"));
  ck_assert_uint_ne(ts_deck_hash(a), ts_deck_hash(b));
  ts_deck_destroy(a);
  ts_deck_destroy(b);
}
END_TEST

START_TEST(lists_of_layers) {
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
END_TEST

/* Every row of the schema has a default that it takes, and help. */
START_TEST(schema_rows) {
  for (int i = 0; i < ts_schema_n; i++) {
    const ts_key *k = &ts_schema[i];
    ck_assert_msg(*k->help, "%s has no help", k->path);
    ck_assert(ts_schema_find(k->scope, k->path) == k);
  }
}
END_TEST

START_TEST(help) {
  static const char *const words[] = {"deck",
                                      "run",
                                      "run.seed",
                                      "tables.optimizer.lr",
                                      "table_defaults.dim",
                                      "optimizer.overrides.match",
                                      "model.tasks"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    ts_str s = {0};
    ck_assert_ok(ts_deck_help(&s, words[i]));
    ck_assert(s.n_bytes > 20);
    ts_str_reset(&s);
  }
  ts_str s = {0};
  ck_assert_int_eq(ts_deck_help(&s, "run.sead"), TS_ERR_USAGE);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "run.seed"));
  ts_err_clear();
  ck_assert_int_eq(ts_deck_help(&s, "tables.rowz"), TS_ERR_USAGE);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "tables.rows"));
  ts_err_clear();
  ts_str_reset(&s);
}
END_TEST

/* ---- hostile text */

/* Refused or taken, with one message in the first case and no harm. */
static void survived(const char *text) {
  ts_config *c = NULL;
  const ts_err err = ts_deck_parse(&c, text, "/tmp", NULL, 0);
  ck_assert_msg(err == TS_OK || err == TS_ERR_DECK, "%s", ts_err_message());
  ck_assert((err == TS_OK) == (*ts_err_message() == '\0'));
  ts_err_clear();
  if (err == TS_OK) ts_deck_destroy(c);
}

START_TEST(mutations) {
  static const char bytes[] =
      "{}()[]=;,\"'\\$@#*%.0123456789-+eELkMG \n\x01\xff";
  char text[2048];
  uint32_t x = 12345u + (uint32_t)_i;
  for (int round = 0; round < 400; round++) {
    snprintf(text, sizeof text, "%s", good);
    const size_t n = strlen(text);
    for (int k = 0; k < 1 + round % 4; k++) {
      x = x * 1664525u + 1013904223u;
      text[(x >> 8) % n] = bytes[(x >> 4) % (sizeof bytes - 1)];
    }
    survived(text);
  }
}
END_TEST

START_TEST(monsters) {
  enum { N = 10 << 20 };
  char *text = malloc(N + 1);
  ck_assert_ptr_nonnull(text);
  text[N] = '\0';
  memset(text, 'a', N);
  survived(text);
  memset(text, '(', N);
  memcpy(text, "a = ", 4);
  survived(text);
  for (int i = 0; i + 4 <= N; i += 4) memcpy(text + i, "a={ ", 4);
  survived(text);
  memset(text, '9', N);
  memcpy(text, "run={seed=", 10);
  memcpy(text + N - 3, ";};", 3);
  survived(text);
  memset(text, 'x', N);
  memcpy(text, "run={name=\"", 11);
  memcpy(text + N - 4, "\";};", 4);
  survived(text);
  free(text);
  line_refused("metrics = { window = 99999999999999999999999; };", "window");
  line_refused("metrics = { window = 1e300; };", "metrics.window");
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("deck");
  TCase *t = tcase_create("deck");
  tcase_add_test(t, values_and_defaults);
  tcase_add_test(t, long_integers);
  tcase_add_test(t, paths);
  tcase_add_loop_test(t, errors_have_lines, 0,
                      (int)(sizeof faults / sizeof *faults));
  tcase_add_test(t, all_errors_at_once);
  tcase_add_loop_test(t, table_errors, 0, 21);
  tcase_add_test(t, overrides);
  tcase_add_test(t, deck_in_force);
  tcase_add_test(t, lists_of_layers);
  tcase_add_test(t, schema_rows);
  tcase_add_test(t, help);
  tcase_add_loop_test(t, mutations, 0, 5);
  tcase_add_test(t, monsters);
  suite_add_tcase(s, t);
  return s;
}

TS_TEST_MAIN(suite)
