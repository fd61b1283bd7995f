/* fuzz_deck.c - decks.  First lines "--set KEY=VALUE" are overrides.  What is
 * taken is printed, read again, and must be the same deck; layers of a model
 * are put into their order, or refused. */
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "io/deck.h"
#include "model/graph.h"
#include "tests/fuzz/fuzz.h"

enum { SETS_MAX = 4 };

/* The first lines cut off into SETS; the rest. */
static char *take_sets(char *text, const char **sets, int *n) {
  while (*n < SETS_MAX && !strncmp(text, "--set ", 6)) {
    char *end = strchr(text, '\n');
    if (!end) break;
    *end = '\0';
    sets[(*n)++] = text + 6;
    text = end + 1;
  }
  return text;
}

static void read_back(const ts_config *c) {
  ts_config *again = NULL;
  ts_str print = {0};
  FUZZ_CHECK(ts_deck_print(&print, c) == TS_OK);
  FUZZ_CHECK(ts_deck_parse(&again, print.text, c->deck_dir, NULL, 0) == TS_OK);
  uint64_t first = 0, second = 1;
  FUZZ_CHECK(ts_deck_hash(&first, c) == TS_OK);
  FUZZ_CHECK(ts_deck_hash(&second, again) == TS_OK && first == second);
  ts_deck_destroy(again);
  ts_str_reset(&print);
}

static void plan(const ts_config *c) {
  ts_graph g = {0};
  const ts_model_spec spec = {.config = c,
                              .n_features = ts_feature_count(c),
                              .batch_max = 2,
                              .training = true};
  if (!c->n_tables) return;
  if (ts_graph_plan(&g, &spec) == TS_OK)
    FUZZ_CHECK(ts_graph_place(&g) == TS_OK);
  ts_graph_reset(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ts_config *c = NULL;
  const char *sets[SETS_MAX];
  char *text = malloc(size + 1);
  int n = 0;
  memcpy(text, data, size);
  text[size] = '\0';
  const char *rest = take_sets(text, sets, &n);
  if (ts_deck_parse(&c, rest, "/tmp", sets, n) == TS_OK && !strstr(text, "${"))
    read_back(c);
  if (c) plan(c);
  ts_deck_destroy(c);
  ts_err_clear();
  free(text);
  return 0;
}
