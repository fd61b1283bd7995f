/* test_sequence.c - embeddings per id (pooling = "none") beyond the contract:
 * numbers of 16 bits, lanes, batches that outgrow all before them, tables of
 * other kinds beside them, how often an id travels, what is refused.
 * ranks: 1 3 4  fake: 1  emulated: 1 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shard/shard_contract.h"

static const ts_shard_kind kinds[] = {TS_SHARD_TABLE_WISE, TS_SHARD_ROW_WISE,
                                      TS_SHARD_COLUMN_WISE,
                                      TS_SHARD_DATA_PARALLEL};
static const char *const optimizers[] = {"sgd", "rowwise_adagrad", "adam"};
enum { N_KINDS = 4, N_OPTIMIZERS = 3 };

static ct_deck deck; /* large, and pointed into */

static void add(ts_shard_kind kind, const char *bags, int64_t rows, int32_t dim,
                const char *optimizer, ts_dtype dtype) {
  ct_deck_add(&deck, &(ct_table){.bags = bags,
                                 .rows = rows,
                                 .dim = dim,
                                 .kind = kind,
                                 .optimizer = optimizer,
                                 .pooling = TS_POOL_NONE,
                                 .dtype = dtype});
}

/* Tables of one and of several features, of differing dim, rows and
 * optimizer; fewer rows than ranks; hundreds of ids a sample, and none. */
static void start_deck(ts_shard_kind kind, ts_dtype dtype) {
  static const char *const bags[] = {"m", "or", "lme"};
  ct_deck_start(&deck);
  for (int o = 0; o < N_OPTIMIZERS; o++) {
    for (int i = 0; i < 3; i++)
      add(kind, bags[i], 17 + 23 * i, 4 + 4 * (i + o) % 16, optimizers[o],
          dtype);
    add(kind, "mo", 3, 8, optimizers[o], dtype);
  }
}

/* ---- counters ------------------------------------------------------------ */

static int by_id(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int64_t distinct(const ts_jagged *j) {
  static int64_t ids[CT_IDS];
  int64_t n = 0;
  if (j->n_ids) memcpy(ids, j->ids, (size_t)j->n_ids * sizeof *ids);
  qsort(ids, (size_t)j->n_ids, sizeof *ids, by_id);
  for (int64_t i = 0; i < j->n_ids; i++) n += i == 0 || ids[i] != ids[i - 1];
  return n;
}

/* Each distinct id of a feature and rank is sent once, as a bag, and looked
 * up once for each slice of columns. */
static void check_counters(const ct_run *r, ts_shard_kind kind) {
  static ct_batch b;
  int64_t ids = 0, sent = 0;
  for (int i = 0; i < r->n_steps; i++) {
    ct_batch_draw(&b, &deck, r->world, i, r->sizes, r->columns);
    for (int f = 0; f < deck.n_features; f++) {
      ids += b.kjt.features[f].n_ids;
      sent += distinct(&b.kjt.features[f]);
    }
  }
  ck_assert_all(r->stat.n_ids_in == ids && r->stat.n_bags_in == ids);
  ck_assert_all(r->stat.n_ids_sent == sent && r->stat.n_bags_sent == sent);
  int64_t n[] = {r->stat.n_ids, sent, r->stat.n_copied};
  ck_assert_ok(ts_comm_sum_i64(r->world->comm, n, 3));
  ck_assert_int_lt(0, n[1]);
  if (kind == TS_SHARD_COLUMN_WISE) {
    ck_assert_int_ge(n[0], n[1]);
    return;
  }
  ck_assert_int_eq(n[0], n[1]);
  const bool stay = kind == TS_SHARD_DATA_PARALLEL || r->world->size == 1;
  ck_assert_int_eq(n[2], stay ? 0 : n[1]);
}

/* ---- the matrix ---------------------------------------------------------- */

/* Case I: kind, type of numbers, lanes. */
static void start_case(ct_world *w, int i, ts_shard_kind *kind) {
  static const ts_dtype types[] = {TS_F32, TS_BF16, TS_F16};
  *kind = kinds[i % N_KINDS];
  ct_world_start(w, 1, i / N_KINDS % 2 == 0);
  start_deck(*kind, types[i / N_KINDS / 2]);
}
enum { N_CASES = N_KINDS * 2 * 3 };

TS_TESTS(rows_in_the_order_of_the_batch, 0, N_CASES) {
  ct_world w;
  ts_shard_kind kind;
  start_case(&w, _i, &kind);
  for (int columns = 0; columns < 2; columns++) {
    ct_run run = ct_run_of(&w, &deck, kind);
    run.columns = run.ahead = columns;
    run.n_steps = 5;
    ct_run_do(&run);
    check_counters(&run, kind);
  }
  ct_world_stop(&w);
}

/* Batches that outgrow all before them, on both batches in flight; and ranks
 * that come late. */
TS_TESTS(batches_grow, 0, 2 * N_KINDS) {
  static const int sizes[][CT_RANKS] = {
      {1, 0, 0, 0}, {0, 1, 0, 0}, {2, 1, 0, 1}, {3, 0, 2, 2},
      {8, 8, 8, 8}, {4, 8, 8, 8}, {1, 1, 0, 0}, {8, 8, 8, 8}};
  ct_world w;
  ts_shard_kind kind;
  start_case(&w, _i, &kind);
  ct_run run = ct_run_of(&w, &deck, kind);
  run.sizes = sizes[0];
  run.n_sizes = run.n_steps = 8;
  run.ahead = true;
  ct_run_do(&run);
  ct_world_stop(&w);
}

/* ---- beside others ------------------------------------------------------- */

/* Sequences of every kind, pooled tables that differ in no more than the
 * pooling, distinct bags. */
TS_TESTS(beside_pooled_tables, 0, 2) {
  ct_world w;
  ct_world_start(&w, _i && ts_mpi_size() > 1 ? 2 : 1, _i == 0);
  ct_deck_start(&deck);
  for (int k = 0; k < N_KINDS; k++)
    for (int pooling = TS_POOL_SUM; pooling <= TS_POOL_NONE; pooling++)
      for (int o = 1; o < N_OPTIMIZERS; o++)
        ct_deck_add(&deck, &(ct_table){.bags = o == 1 ? "mR" : "Om",
                                       .rows = 9 + 4 * k,
                                       .dim = o == 1 ? 16 : 8,
                                       .kind = kinds[k],
                                       .optimizer = optimizers[o],
                                       .pooling = (ts_pooling)pooling,
                                       .weighted = pooling == TS_POOL_MEAN});
  for (int columns = 0; columns < 2; columns++) {
    ct_run run = {.world = &w,
                  .deck = &deck,
                  .name = "sequences beside pooled tables",
                  .columns = columns,
                  .ahead = columns,
                  .n_steps = 5};
    ct_run_do(&run);
  }
  ct_world_stop(&w);
}

/* ---- refused ------------------------------------------------------------- */

static void refused(ct_world *w, const char *why) {
  ts_plan *plan;
  ts_ebc *ebc = NULL;
  ck_assert_ok(ts_plan_make(&plan, &deck.config, w->nodes));
  const ts_err err = ts_ebc_create(&ebc, &deck.config, plan, w->nodes, w->world,
                                   w->device, &w->kernels);
  ck_assert_all(err == TS_ERR_DECK && !ebc);
  ck_assert_msg(!strcmp(ts_err_message(), why), "%s", ts_err_message());
  ts_err_clear();
  ts_plan_destroy(plan);
}

TS_TESTS(kinds_without_sequences, 0, 3) {
  static const ts_shard_kind others[] = {
      TS_SHARD_TABLE_ROW_WISE, TS_SHARD_TABLE_COLUMN_WISE, TS_SHARD_GRID};
  char why[200];
  ct_world w;
  ct_world_start(&w, 1, true);
  ct_deck_start(&deck);
  add(TS_SHARD_ROW_WISE, "m", 30, 8, "sgd", TS_F32);
  add(others[_i], "m", 30, 8, "sgd", TS_F32);
  snprintf(why, sizeof why,
           "table t1: pooling = \"none\" can't be sharded %s; it takes one of: "
           "data_parallel, table_wise, row_wise, column_wise",
           ts_shard_kind_name(others[_i]));
  refused(&w, why);
  ct_world_stop(&w);
}

TS_TESTS(weights, 0, N_KINDS) {
  ct_world w;
  ct_world_start(&w, 1, true);
  ct_deck_start(&deck);
  add(kinds[_i], "m", 30, 8, "sgd", TS_F32);
  deck.tables[0].weighted = true;
  refused(&w, "table t0: pooling = \"none\" gives rows as they are and takes "
              "no weights");
  ct_world_stop(&w);
}
