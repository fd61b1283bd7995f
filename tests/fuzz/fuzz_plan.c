/* fuzz_plan.c - plans and topologies.  A plan that is taken and fits the ranks
 * is printed, read again, and must print the same. */
#include <string.h>

#include "io/deck.h"
#include "shard/plan.h"
#include "shard/topology.h"
#include "tests/fuzz/fuzz.h"

static const char deck[] =
    "run = { steps = 1; };\n"
    "data = { format = \"synthetic\"; global_batch = 8; };\n"
    "tables = ( { name = \"a b%\"; rows = 1000; dim = 16; features = \"f\"; "
    "},\n"
    "  { name = \"t{0..2}\"; rows = 100; dim = 16; features = \"g{0..2}\"; } "
    ");\n";

static void read_back(const ts_plan *plan, const ts_config *c) {
  ts_plan *again = NULL;
  ts_str one = {0}, two = {0};
  FUZZ_CHECK(ts_plan_print(&one, plan, c) == TS_OK);
  FUZZ_CHECK(ts_plan_parse(&again, one.text, c) == TS_OK);
  FUZZ_CHECK(ts_plan_print(&two, again, c) == TS_OK);
  FUZZ_CHECK(!strcmp(one.text, two.text));
  ts_plan_destroy(again);
  ts_str_reset(&one);
  ts_str_reset(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ts_config *c;
  static ts_nodes *nodes;
  ts_plan *plan = NULL;
  ts_topology t;
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
  if (!c) c = fuzz_deck(deck, NULL, 0);
  if (!nodes) FUZZ_CHECK(ts_nodes_create(&nodes, 4, 2, NULL) == TS_OK);
  if (ts_plan_parse(&plan, text, c) == TS_OK) {
    read_back(plan, c);
    (void)ts_plan_check(plan, c, nodes);
  }
  ts_plan_destroy(plan);
  ts_err_clear();
  (void)ts_topology_parse(&t, text, "topology");
  ts_err_clear();
  free(text);
  return 0;
}
