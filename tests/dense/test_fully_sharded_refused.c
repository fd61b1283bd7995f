/* test_fully_sharded_refused.c - decks and calls that fully_sharded refuses.
 * ranks: 1 2 3 4  fake: 1 2  emulated: 1 */
#include <string.h>

#include "tests/dense/fully_sharded_toy.h"

static void refused(const toy_spec *s, const char *words) {
  static toy t;
  ck_assert_all(toy_try(&t, s) == TS_ERR_DECK);
  ck_assert_msg(strstr(ts_err_message(), words) != NULL, "%s: %s", words,
                ts_err_message());
  ts_err_clear();
  toy_stop(&t);
}

TS_TEST(decks_that_are_refused) {
  static char unknown[] = "over_arch.9", one[] = "layer.1", three[] = "layer.3",
              int8[] = "int8";
  char *discrete[] = {one, three}, *none[] = {unknown}, *again[] = {one};
  ts_layers_config groups[] = {{{discrete, 2}}, {{again, 1}}};
  ts_prefetch_config list = {one, {none, 1}};
  const char *known = "\"over_arch.9\"; there are: layer.1, layer.2, layer.3, "
                      "layer.4";
  toy_spec s = toy_small("fully_sharded");
  s.config.dense.forward_prefetch = &list;
  s.config.dense.n_forward_prefetch = 1;
  refused(&s, known);
  refused(&s, "dense.forward_prefetch");
  list = (ts_prefetch_config){unknown, {again, 1}};
  refused(&s, known);
  s = toy_small("fully_sharded");
  s.config.dense.groups = groups;
  s.config.dense.n_groups = 1;
  refused(&s, "layer.1 and layer.3 are not neighbours");
  s.config.dense.n_groups = 2;
  refused(&s, "layer.1 is in two groups");
  groups[0].layers = (ts_strings){none, 1};
  refused(&s, known);
  s = toy_small("fully_sharded");
  s.config.dense.reshard = ts_mpi_size() + 1;
  refused(&s, "do not make up");
  s = toy_small("fully_sharded");
  s.config.dense.comm_dtype = int8;
  refused(&s, "dense.comm_dtype: no \"int8\"");
}

static void fails(ts_err err, const char *words) {
  ck_assert_all(err == TS_ERR_INTERNAL);
  ck_assert_msg(strstr(ts_err_message(), words) != NULL, "%s: %s", words,
                ts_err_message());
  ts_err_clear();
}

/* Models that do not keep to hooks.h are told, not left to hang or to train
 * on stale gradients. */
TS_TEST(misuse) {
  toy_spec s = toy_small("fully_sharded");
  static toy t;
  toy_start(&t, &s);
  const ts_layer_hooks h = ts_parallel_hooks(t.parallel);
  ts_lane *l = t.lane;
  toy_forward(&t);
  fails(ts_layer_release(&h, t.W[0], TS_FORWARD, l), "not acquired");
  fails(ts_layer_acquire(&h, t.W[0], TS_BACKWARD, l), "no backward pass");
  fails(ts_layer_ready(&h, t.W[0], l), "outside its layer");
  fails(ts_parallel_begin(t.parallel, 1, false), "without run.accumulate");
  ck_assert_ok(ts_parallel_begin(t.parallel, 1, true));
  fails(ts_layer_ready(&h, t.W[3], l), "outside its layer");
  ck_assert_ok(ts_layer_acquire(&h, t.W[3], TS_BACKWARD, l));
  fails(ts_layer_acquire(&h, t.W[2], TS_BACKWARD, l), "within layer layer.4");
  fails(ts_layer_release(&h, t.W[2], TS_BACKWARD, l), "not acquired");
  fails(ts_layer_ready(&h, t.W[2], l), "outside its layer");
  ck_assert_ok(ts_layer_ready(&h, t.b[3], l));
  ck_assert_ok(ts_layer_ready(&h, t.W[3], l));
  fails(ts_layer_ready(&h, t.W[3], l), "came twice");
  fails(ts_parallel_end(t.parallel, NULL, l), "got no gradient");
  ck_assert_ok(ts_layer_release(&h, t.W[3], TS_BACKWARD, l));
  fails(ts_layer_acquire(&h, t.W[3], TS_BACKWARD, l), "no backward pass");
  toy_sync(&t);
  toy_stop(&t);
}
