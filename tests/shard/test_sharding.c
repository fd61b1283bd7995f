/* test_sharding.c - the contract of sharding types: every type, pooling,
 * weights, data.dedup, input and optimizer trains as whole tables in one
 * place would, on one node and on two.
 * ranks: 1 3 4  sanitized: 3  fake: 1  seconds: 300 */
#include <stdio.h>
#include <string.h>

#include "shard/sharding.h"
#include "tests/shard/shard_contract.h"

/* Types that are there, in the order of the enum. */
static int kinds(ts_shard_kind *out) {
  int n = 0;
  for (int k = 0; k < TS_SHARD_COUNT; k++)
    if (ts_sharding_find((ts_shard_kind)k)) out[n++] = (ts_shard_kind)k;
  return n;
}

/* None of these got lost; more may come. */
TS_TEST(types_of_the_deck) {
  static const char *const names[] = {
      "data_parallel",  "table_wise",        "row_wise", "column_wise",
      "table_row_wise", "table_column_wise", "grid"};
  ts_shard_kind k[TS_SHARD_COUNT];
  const int n = kinds(k), wanted = sizeof names / sizeof *names;
  for (int i = 0; i < wanted; i++) {
    int found = 0;
    for (int j = 0; j < n; j++)
      found += !strcmp(names[i], ts_shard_kind_name(k[j]));
    ck_assert_msg(found == 1, "%d types are %s", found, names[i]);
  }
}

/* ---- the matrix ---------------------------------------------------------- */

static ct_deck deck; /* large, and pointed into */

/* A table for every pooling, optimizer, and plain, weighted, dedup or both:
 * for each of these there are tables that differ in it alone. */
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
                                .dim = dims[o],
                                .kind = kind,
                                .optimizer = optimizers[o],
                                .pooling = pooling ? TS_POOL_MEAN : TS_POOL_SUM,
                                .weighted = mode % 2});
}

/* Rows that updates make too long, by every optimizer; what cuts rows or copies
 * them is refused. */
CT_TEST(norms_of_rows, false) {
  static const char *const optimizers[] = {
      "sgd",  "adagrad",  "rowwise_adagrad",      "adam",
      "lamb", "lars_sgd", "partial_rowwise_adam", "partial_rowwise_lamb"};
  const ts_sharding_ops *ops = ts_sharding_find(kind);
  const bool refused = ops->split_columns || !ops->remote;
  ct_deck_start(&deck);
  for (int o = 0; o < 8; o++)
    ct_deck_add(&deck, &(ct_table){.bags = "mo",
                                   .rows = 17,
                                   .dim = o % 2 ? 16 : 12,
                                   .kind = kind,
                                   .optimizer = optimizers[o],
                                   .max_norm = 1.0625});
  ck_assert(ts_plan_allowed(&deck.tables[0], kind) == !refused);
  if (refused) {
    ck_assert_int_eq(ts_plan_check_kind(&deck.tables[0], kind), TS_ERR_DECK);
    ck_assert_ptr_nonnull(strstr(ts_err_message(), "t0: max_norm is not with"));
    ts_err_clear();
    return;
  }
  ct_run run = {.world = w, .deck = &deck, .name = "max_norm"};
  ct_run_do(&run);
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
}

/* RUN's deck by columns: the same bits. */
static void beside_columns(ct_run *run) {
  ct_run columns = {.world = run->world,
                    .deck = run->deck,
                    .name = run->name,
                    .columns = true};
  ct_run_do(&columns);
  ct_same_pooled(&columns, run, CT_STEPS, 0, NULL);
  ct_same_last(&columns, run, 0, NULL);
}

/* Each id is copied once for every rank that has columns of its row, and on
 * one rank none is; with data.dedup fewer are. */
static void check_counters(const ct_run *plain, const ct_run *dedup) {
  int64_t n[] = {dedup->stat.n_ids, plain->stat.n_ids};
  const int64_t n_ways = plain->world->size > 1 ? plain->n_ways : 0;
  ck_assert_all(plain->stat.n_copied == n_ways);
  ck_assert_all(dedup->stat.n_copied <= dedup->n_ways);
  ck_assert_all(dedup->stat.n_bags_sent < dedup->stat.n_bags_in);
  ck_assert_all(dedup->stat.n_ids_sent < dedup->stat.n_ids_in);
  ck_assert_ok(ts_comm_sum_i64(plain->world->comm, n, 2));
  ck_assert_int_lt(n[0], n[1]);
}

CT_TEST(trains_as_unsharded, true) {
  matrix_deck(kind);
  ct_run run = ct_run_of(w, &deck, kind);
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
  check_counters(&run, &dedup);
  beside_columns(&dedup);
}

/* ---- other optimizers, other types of numbers ---------------------------- */

/* Row norms, row-wise moments and decays: of the whole row, however many
 * shards it has. */
static void norms_deck(ts_shard_kind kind) {
  static const struct {
    const char *optimizer;
    ts_wd_mode decay;
  } list[] = {{"adagrad", TS_WD_NONE},
              {"lamb", TS_WD_NONE},
              {"lamb", TS_WD_DECOUPLED},
              {"partial_rowwise_adam", TS_WD_NONE},
              {"partial_rowwise_adam", TS_WD_L2},
              {"partial_rowwise_lamb", TS_WD_NONE},
              {"partial_rowwise_lamb", TS_WD_DECOUPLED},
              {"lars_sgd", TS_WD_NONE},
              {"lars_sgd", TS_WD_L2},
              {"rowwise_adagrad", TS_WD_L2},
              {"rowwise_adagrad", TS_WD_DECOUPLED},
              {"adam", TS_WD_L2},
              {"sgd", TS_WD_DECOUPLED}};
  ct_deck_start(&deck);
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    for (int mean = 0; mean < 2; mean++)
      ct_deck_add(&deck,
                  &(ct_table){.bags = mean ? "Rm" : "m",
                              .rows = 11 + 7 * (int64_t)(i % 3),
                              .dim = i % 2 ? 16 : 12,
                              .kind = kind,
                              .optimizer = list[i].optimizer,
                              .pooling = mean ? TS_POOL_MEAN : TS_POOL_SUM,
                              .weighted = mean,
                              .weight_decay = 0.0625,
                              .decay = list[i].decay});
}

CT_TEST(rows_are_whole_to_their_optimizers, true) {
  norms_deck(kind);
  ct_run run = ct_run_of(w, &deck, kind);
  ct_run_do(&run);
}

static void narrow_deck(ts_shard_kind kind) {
  static const char *const optimizers[] = {"sgd", "rowwise_adagrad", "adam"};
  static const ts_dtype types[] = {TS_BF16, TS_F16, TS_F32, TS_INT8, TS_INT4};
  const int n = ts_sharding_find(kind)->split_columns ? 3 : 5;
  ct_deck_start(&deck);
  for (int t = 0; t < n; t++)
    for (int i = 0; i < 6; i++)
      ct_deck_add(&deck,
                  &(ct_table){.bags = i % 2 ? "mR" : "lo",
                              .rows = 20 + i,
                              .dim = i % 4 < 2 ? 8 : 16,
                              .kind = kind,
                              .optimizer = optimizers[i % 3],
                              .pooling = i % 4 < 2 ? TS_POOL_SUM : TS_POOL_MEAN,
                              .weighted = i % 2,
                              .dtype = types[t]});
}

/* Rounding goes by the row and column of the whole table. */
CT_TEST(sixteen_bits, true) {
  narrow_deck(kind);
  ct_run run = ct_run_of(w, &deck, kind);
  ct_run_do(&run);
  beside_table_wise(&run, kind);
}

/* ---- all together -------------------------------------------------------- */

/* Every type has tables that would share a group, were they of one type. */
static void mixed_deck(void) {
  static const char *const optimizers[] = {"adam", "rowwise_adagrad"};
  ts_shard_kind k[TS_SHARD_COUNT];
  const int n = kinds(k);
  ct_deck_start(&deck);
  for (int i = 0; i < 4 * n; i++)
    ct_deck_add(&deck,
                &(ct_table){.bags = i / n % 2 ? "mRo" : "Om",
                            .rows = 9 + 4 * (i % 6),
                            .dim = i / n < 2 ? 12 : 8,
                            .kind = k[i % n],
                            .optimizer = optimizers[i / n % 2],
                            .pooling = i / n % 2 ? TS_POOL_MEAN : TS_POOL_SUM,
                            .weighted = i / n == 3});
}

TS_TESTS(types_side_by_side, 0, 2) {
  ct_world w;
  if (_i + 1 > ts_mpi_size()) return;
  ct_world_start(&w, _i + 1, false);
  mixed_deck();
  ct_run run = {.world = &w, .deck = &deck, .name = "all types"};
  ct_run_do(&run);
  beside_columns(&run);
  ct_world_stop(&w);
}

/* A pipeline's order of stages, and lanes of their own, change nothing. */
CT_TEST(ids_ahead_of_backward, true) {
  matrix_deck(kind);
  ct_run run = ct_run_of(w, &deck, kind);
  ct_run ahead = run;
  ct_run_do(&run);
  ct_world_restart(w, false);
  ahead.ahead = true;
  ahead.columns = true;
  ct_run_do(&ahead);
  ct_same_pooled(&ahead, &run, CT_STEPS, 0, NULL);
  ct_same_last(&ahead, &run, 0, NULL);
}
