/* test_deck_faults.c - every kind of error of a deck, with its line; hostile
 * text.
 * seconds: 400 */
#include <stdlib.h>

#include "tests/support/deck_text.h"

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
    {"metrics = { report = [\"auc\", \"rmse\"]; };",
     "deck:9: metrics.report: \"rmse\" is not one of: auc, logloss, ne, "},
    {"metrics = { report = [1]; };", "deck:9: metrics.report takes texts"},
    {"metrics = { report = [\"auc\", \"mrr\"]; };",
     "deck:9: metrics.report: mrr needs metrics.group"},
    {"metrics = { group = \"nobody\"; };",
     "deck:9: metrics.group: no table has a feature \"nobody\""},
    {"metrics = { threshold = 1.5; };", "deck:9: metrics.threshold = 1.5 is"},
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
    {"checkpoint = { delta_state = false; };", "give checkpoint.delta_every"},
    {"checkpoint = { delta_every = 5; delta_state = false; };",
     "full checkpoints alone: give checkpoint.every"},
    {"checkpoint = { async = 1; };", "takes true or false"},
    {"checkpoint = { dir = 1; };", "takes a text in quotes"},
    {"sharding = { memory_gib = -4; };", "is out of range"},
    {"run = { steps = 1; };", "deck:9: duplicate"},
    {"metrics = { window = 1; window = 2; };", "deck:9: duplicate"},
    {"metrics = { window = ", "syntax error"},
    {"@include \"no/such/file\"\n", "no/such/file"},
};

TS_TESTS(errors_have_lines, 0, (int)(sizeof faults / sizeof *faults)) {
  line_refused(faults[_i][0], faults[_i][1]);
}

/* Where there are no groups, and where nothing is better. */
TS_TEST(stop_metrics) {
  refused(good, "run.stop.metric=ndcg",
          "run.stop.metric: ndcg needs metrics.group");
  refused(good, "run.stop.metric=calibration",
          "\"calibration\" is not one of: auc, logloss, ne, accuracy, pr_auc");
}

TS_TEST(all_errors_at_once) {
  const char *deck =
      "run = { sead = 1; };\n"
      "data = { format = \"synthetic\"; batch_per_rank = -1; };\n"
      "tables = ( { name = \"a\"; rows = 1; features = \"f\"; },\n"
      "  { name = \"a\"; rows = 1; features = [\"f\", \"f\"]; } );\n";
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

static const char *const table_faults[][2] = {
    {"();", "there are no tables"},
    {"3;", "deck:3: tables is a list of groups"},
    {"( 3 );", "deck:3: tables is a list of groups"},
    {"( { rows = 3; } );", "deck:3: a table has no name"},
    {"( { name = \"a\"; features = \"f\"; } );", "deck:3: table a has no rows"},
    {"( { name = \"a\"; rows = 1; } );", "deck:3: table a has no features"},
    {"( { name = \"a{3..1}\"; rows = 1; features = \"f\"; } );",
     "deck:3: name = \"a{3..1}\""},
    {"( { name = \"a{0..9999999}\"; rows = 1; features = \"f\"; } );",
     "tables at most"},
    {"( { name = \"a{0..1}\"; rows = [1]; features = \"f{0..1}\"; } );",
     "rows lists 1 numbers, the name counts 2"},
    {"( { name = \"a{0..1}\"; rows = 1; features = \"f{0..2}\"; } );",
     "counts 3, the name counts 2"},
    {"( { name = \"a\"; rows = 1; features = [\"f\", \"g\", \"f\"]; } );",
     "feature \"f\" of table a is already in table a"},
    {"( { name = \"a\"; rows = 1; features = \"f\"; group = \"b@c\"; } );",
     "\"b@c\" is no name for a group"},
    {"( { name = \"a\"; rows = 1; features = \"f\"; wide = true; },\n"
     "  { name = \"a_wide\"; rows = 1; features = \"g\"; } );",
     "deck:3: there are two tables named a_wide"},
    {"( { name = \"a\"; rows = 1; features = \"f\"; kernel = \"dense\"; } "
     ");",
     "\"dense\" is not in this version; it has: auto, fused, cached, host"},
    {"( { name = \"a\"; rows = 1; features = \"f\"; cache = { depth = 5; }; "
     "} );",
     "cache.depth = 5 is out of range: 1 to 4"},
    {"( { name = \"a\"; rows = 1; features = \"f\"; cache = { "
     "prefetch_passes = \"some\"; }; } );",
     "cache.prefetch_passes takes an integer"},
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

TS_TESTS(table_errors, 0, sizeof table_faults / sizeof *table_faults) {
  static const char head[] =
      "run = { steps = 1; };\n"
      "data = { format = \"synthetic\"; global_batch = 4; };\ntables = ";
  char text[1024];
  snprintf(text, sizeof text, "%s%s", head, table_faults[_i][0]);
  refused(text, NULL, table_faults[_i][1]);
}

/* ---- hostile text -------------------------------------------------------- */

/* Refused or taken, with one message in the first case and no harm. */
static void survived(const char *text) {
  ts_config *c = NULL;
  const ts_err err = ts_deck_parse(&c, text, "/tmp", NULL, 0);
  ck_assert_msg(err == TS_OK || err == TS_ERR_DECK, "%s", ts_err_message());
  ck_assert((err == TS_OK) == (*ts_err_message() == '\0'));
  ts_err_clear();
  if (err == TS_OK) ts_deck_destroy(c);
}

TS_TESTS(mutations, 0, 5) {
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

TS_TEST(monsters) {
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
