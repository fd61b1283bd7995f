/* test_sharding_sequence.c - the contract of sharding types for embeddings
 * without pooling: a row for every id, in the order of the batch; equal ids
 * travel once.
 * ranks: 1 2 3 4  fake: 2  seconds: 300 */
#include <string.h>

#include "shard/message.h"
#include "tests/shard/shard_contract.h"

static ct_deck deck;

static bool has_sequences(ts_shard_kind kind) {
  return kind == TS_SHARD_TABLE_WISE || kind == TS_SHARD_ROW_WISE ||
         kind == TS_SHARD_COLUMN_WISE || kind == TS_SHARD_DATA_PARALLEL;
}

/* Tables without pooling beside one with, which could share their groups. */
static void make_deck(ts_shard_kind kind) {
  static const char *const optimizers[] = {"sgd", "rowwise_adagrad", "adam",
                                           "partial_rowwise_lamb"};
  static const char *const bags[] = {"mo", "l", "er", "mMO"};
  ct_deck_start(&deck);
  for (int i = 0; i < 16; i++)
    ct_deck_add(
        &deck, &(ct_table){.bags = bags[i % 4],
                           .rows = i % 5 ? 7 + 9 * (int64_t)(i % 7) : 3,
                           .dim = i / 4 % 2 ? 12 : 8,
                           .kind = kind,
                           .optimizer = optimizers[(i + i / 4) % 4],
                           .pooling = i / 4 == 3 ? TS_POOL_SUM : TS_POOL_NONE});
}

static bool elementwise(const ts_table_config *t) {
  return !strcmp(t->optimizer.kind, "sgd") ||
         !strcmp(t->optimizer.kind, "adam");
}

static bool without_pooling(const ts_table_config *t) {
  return t->pooling == TS_POOL_NONE;
}

static bool both(const ts_table_config *t) {
  return elementwise(t) && without_pooling(t);
}

/* No row is a partial sum: the same bits as with whole tables.  Replicas sum
 * gradients in an order of their own. */
static void beside_table_wise(const ct_run *run, ts_shard_kind kind) {
  ct_run whole = {.world = run->world, .deck = &deck, .name = "table_wise"};
  ct_deck_shard(&deck, TS_SHARD_TABLE_WISE);
  ct_run_do(&whole);
  ct_deck_shard(&deck, kind);
  ct_same_first(run, &whole);
  ct_same_pooled(run, &whole, 1, 0, without_pooling);
  if (kind != TS_SHARD_DATA_PARALLEL) {
    ct_same_pooled(run, &whole, CT_STEPS, 0, both);
    ct_same_last(run, &whole, 0, both);
  }
}

CT_TEST(a_row_for_every_id, true) {
  if (!has_sequences(kind)) return;
  make_deck(kind);
  ct_run run = ct_run_of(w, &deck, kind);
  ct_run columns = run;
  ct_run_do(&run);
  beside_table_wise(&run, kind);
  columns.columns = columns.ahead = true;
  ct_run_do(&columns);
  ct_same_pooled(&columns, &run, CT_STEPS, 0, NULL);
  ct_same_last(&columns, &run, 0, NULL);
  /* Bags of 256 and 300 ids of tables of a few rows. */
  ck_assert_all(run.stat.n_ids_sent < run.stat.n_ids_in);
}

CT_TEST(batches_smaller_than_ranks, false) {
  if (!has_sequences(kind)) return;
  make_deck(kind);
  for (int r = 0; r < w->size; r++) {
    int sizes[CT_RANKS] = {0};
    sizes[r] = 2;
    ct_run run = ct_run_of(w, &deck, kind);
    run.n_steps = 3;
    run.sizes = sizes;

    ct_run_do(&run);
  }
}

CT_TEST(types_without_sequences_say_so, true) {
  ts_plan *plan;
  ts_ebc *ebc = NULL;
  if (has_sequences(kind)) return;
  make_deck(kind);
  ck_assert_ok(ts_plan_make(&plan, &deck.config, w->nodes));
  ck_assert_all(ts_ebc_create(&ebc, &deck.config, plan, w->nodes, w->world,
                              w->device, &w->kernels) == TS_ERR_DECK);
  ck_assert_all(strstr(ts_err_message(), "table t0: pooling") != NULL);
  ts_err_clear();
  ts_plan_destroy(plan);
}
