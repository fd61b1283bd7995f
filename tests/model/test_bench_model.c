/* test_bench_model.c - bytes that `tessera bench step` counts for what models
 * do by element where they keep bf16, against sums by hand; of floats:
 * tests/train/test_bench.c.
 * ranks: 1 */
#include "commands/bench_limits.h"
#include "io/deck.h"
#include "tests/support/harness.h"

/* 6 numbers from below, features of 8, 8 and 3: rows of 25. */
static const char *const deck =
    "run = { name = \"t\"; steps = 3; };\n"
    "data = { format = \"synthetic\"; global_batch = 6; };\n"
    "tables = ( { name = \"a\"; rows = 40; dim = 8; features = [\"f\", \"g\"]; "
    "},\n"
    "  { name = \"b\"; rows = 40; dim = 3; features = [\"h\"]; } );\n"
    "model = { kind = \"dcnv2\"; dense_features = 2; dense_arch = [4, 6];\n"
    "  dcn = { layers = 2; rank = 2; }; over_arch = [1]; };\n";

/* 250 elements; t, dt, add and copies of x of 2 bytes. */
TS_TEST(by_hand_half) {
  ts_config *c;
  ck_assert_ok(ts_deck_parse(&c, deck, "/tmp", NULL, 0));
  const ts_model_bytes x = ts_bench_model_bytes(c, 10, true);
  ts_deck_destroy(c);
  ck_assert_double_eq(x.join, 2000);
  /* x_0; its copy; x_0, t; y and copy; x_0, x, t; y */
  ck_assert_double_eq(x.cross, 250 * ((4 + 2) + (4 + 2 + 4 + 2) + (12 + 2)));
  ck_assert_double_eq(
      x.cross_backward,
      250 * ((12 + 2 + 2) + (2 + 4 + 4 + 2 + 4 + 4 + 4 + 2) + (4 + 2 + 4 + 4)));
}
