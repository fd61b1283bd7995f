/* test_sharding.c - the contract of sharding types: every type, pooling,
 * weights, data.dedup, input and optimizer trains as whole tables in one
 * place would, on one node and on two.
 * ranks: 1 2 3 4 */
#include <stdio.h>
#include <string.h>

#include "shard/sharding.h"
#include "shard_contract.h"

/* Types that are there, in the order of the enum. */
static int kinds(ts_shard_kind *out) {
  int n = 0;
  for (int k = 0; k < TS_SHARD_COUNT; k++)
    if (ts_sharding_find((ts_shard_kind)k)) out[n++] = (ts_shard_kind)k;
  return n;
}

/* Loops go over 2 K + nodes - 1; false where there is no such case. */
static bool case_of(int i, ts_shard_kind *kind, int *n_nodes) {
  *kind = (ts_shard_kind)(i / 2);
  *n_nodes = 1 + i % 2;
  return ts_sharding_find(*kind) && *n_nodes <= ts_mpi_size();
}

START_TEST(kinds_of_this_build) {
  ts_shard_kind k[TS_SHARD_COUNT];
  const int n = kinds(k);
  ck_assert_int_ge(n, 3);
  for (int i = 0; i < n && ts_mpi_rank() == 0; i++)
    printf("%s%s", ts_shard_kind_name(k[i]), i + 1 < n ? " " : "\n");
}
END_TEST

/* Input dist takes bags by lengths only, so far. */
static const bool takes_columns = false;

/* ---- the matrix ---------------------------------------------------------- */

static ct_deck deck; /* large, and pointed into */

/* A table for every pooling, optimizer, and plain, weighted, dedup or both;
 * plain ones and those with dedup share groups. */
static void matrix_deck(ts_shard_kind kind) {
  static const char *const optimizers[] = {"sgd", "rowwise_adagrad", "adam"};
  static const char *const bags[] = {"mo", "mr", "RO", "mR"};
  static const int32_t dims[] = {8, 12, 16};
  static const int64_t rows[] = {17, 40, 5, 33, 26};
  int n = 0;
  ct_deck_start(&deck);
  for (int mode = 0; mode < 4; mode++)
    for (int pooling = 0; pooling < 2; pooling++)
      for (int o = 0; o < 3; o++, n++)
        ct_deck_add(&deck,
                    &(ct_table){.bags = bags[mode],
                                .rows = rows[n % 5],
                                .dim = dims[(o + pooling) % 3],
                                .kind = kind,
                                .optimizer = optimizers[o],
                                .pooling = pooling ? TS_POOL_MEAN : TS_POOL_SUM,
                                .weighted = mode % 2});
}

/* Optimizers that go by no more than an element. */
static bool elementwise(const ts_table_config *t) {
  const char *kind = t->optimizer.kind;
  return !strcmp(kind, "sgd") || !strcmp(kind, "adam") ||
         !strcmp(kind, "adagrad");
}

static bool is_column(ts_shard_kind k) {
  return k == TS_SHARD_COLUMN_WISE || k == TS_SHARD_TABLE_COLUMN_WISE;
}

/* RUN's type beside table_wise: the same initial weights, and where no
 * partial sums are involved the same bits. */
static void beside_table_wise(ct_run *run, ts_shard_kind kind) {
  ct_run whole = {.world = run->world, .deck = &deck, .name = "table_wise"};
  ct_deck_shard(&deck, TS_SHARD_TABLE_WISE);
  ct_run_do(&whole);
  ct_deck_shard(&deck, kind);
  ct_same_first(run, &whole);
  if (is_column(kind) || kind == TS_SHARD_DATA_PARALLEL)
    ct_same_pooled(run, &whole, 1, 0, NULL);
  if (is_column(kind)) {
    ct_same_pooled(run, &whole, CT_STEPS, 0, elementwise);
    ct_same_last(run, &whole, 0, elementwise);
  }
  ct_run_reset(&whole);
}

/* RUN's deck by columns: the same bits. */
static void beside_columns(ct_run *run) {
  ct_run columns = {.world = run->world,
                    .deck = run->deck,
                    .name = run->name,
                    .columns = true};
  if (!takes_columns) return;
  ct_run_do(&columns);
  ct_same_pooled(&columns, run, CT_STEPS, 0, NULL);
  ct_same_last(&columns, run, 0, NULL);
  ct_run_reset(&columns);
}

START_TEST(trains_as_unsharded) {
  ts_shard_kind kind;
  int n_nodes;
  ct_world w;
  if (!case_of(_i, &kind, &n_nodes)) return;
  ct_world_start(&w, n_nodes, true);
  matrix_deck(kind);
  ct_run run = {.world = &w, .deck = &deck, .name = ts_shard_kind_name(kind)};
  ct_run dedup = run;
  ct_deck_dedup(&deck, false);
  ct_run_do(&run);
  beside_table_wise(&run, kind);
  beside_columns(&run);
  ct_deck_dedup(&deck, true);
  ct_run_do(&dedup);
  ct_same_pooled(&dedup, &run, 1, 0, NULL);
  ct_same_pooled(&dedup, &run, CT_STEPS, 1e-6, NULL);
  ct_same_last(&dedup, &run, 1e-6, NULL);
  beside_columns(&dedup);
  ct_run_reset(&dedup);
  ct_run_reset(&run);
  ct_world_stop(&w);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("sharding");
  TCase *c = tcase_create("contract");
  tcase_add_test(c, kinds_of_this_build);
  tcase_add_loop_test(c, trains_as_unsharded, 0, 2 * TS_SHARD_COUNT);
  suite_add_tcase(s, c);
  return s;
}
TS_TEST_MAIN(suite)
