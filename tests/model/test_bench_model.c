/* test_bench_model.c - bytes that `tessera bench step` counts for what models
 * do by element, against sums by hand.
 * ranks: 1 */
#include <stdio.h>

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
    "  dcn = { layers = 3; rank = 2; }; over_arch = [1]; };\n";

static ts_model_bytes bytes_of(int layers, bool half) {
  ts_config *c;
  char set[32];
  const char *sets[] = {set};
  snprintf(set, sizeof set, "model.dcn.layers=%d", layers);
  ck_assert_ok(ts_deck_parse(&c, deck, "/tmp", sets, 1));
  const ts_model_bytes x = ts_bench_model_bytes(c, 10, half);
  ts_deck_destroy(c);
  return x;
}

/* 250 elements. */
TS_TEST(by_hand) {
  ts_model_bytes x = bytes_of(1, false);
  ck_assert_double_eq(x.join, 2000);           /* read, written */
  ck_assert_double_eq(x.cross, 3000);          /* x_0, t; y */
  ck_assert_double_eq(x.cross_backward, 9000); /* dy, t, x_0; dx_0, dt; at the
                                                * end dy, add, dx_0; dx_0 */
  x = bytes_of(3, false);
  ck_assert_double_eq(x.join, 2000);
  ck_assert_double_eq(x.cross, 3000 + 2 * 4000);
  /* In between: add, dy, dx_0, t, x_0; dy, dx_0, dt. */
  ck_assert_double_eq(x.cross_backward, 9000 + 2 * 8000);
}

/* All of 2 bytes but the embeddings. */
TS_TEST(by_hand_half) {
  const ts_model_bytes x = bytes_of(2, true);
  ck_assert_double_eq(x.join, 1500);
  ck_assert_double_eq(x.cross, 1500 + 2000); /* x_0, t; y; x_0, x, t; y */
  /* dy, t, x_0; dx_0, dt; add, dy, dx_0, t, x_0; dy, dx_0, dt; dy, add, dx_0;
   * dx_0 */
  ck_assert_double_eq(x.cross_backward, 250 * (10 + 16 + 8));
}
