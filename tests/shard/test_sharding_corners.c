/* test_sharding_corners.c - the contract of sharding types at its borders:
 * tables smaller than the ranks, places that the deck fixes, ranks without
 * tables, batches smaller than the ranks or empty, bags of none and of
 * hundreds.
 * ranks: 1 3 4  sanitized: 3  fake: 2  seconds: 300 */
#include <string.h>

#include "shard/message.h"
#include "tests/shard/shard_contract.h"

static ct_deck deck;

/* The deck on this case's world, by lengths, then by offsets. */
static void run_deck(ct_world *w, ts_shard_kind kind, const int *sizes) {
  for (int columns = 0; columns < 2; columns++) {
    ct_run run = ct_run_of(w, &deck, kind);
    run.columns = columns;
    run.n_steps = 4;
    run.sizes = sizes;

    ct_run_do(&run);
  }
}

/* One table of 8 columns. */
static void add(ts_shard_kind kind, int64_t rows, const char *bags,
                const char *optimizer, bool mean) {
  ct_deck_add(&deck, &(ct_table){.bags = bags,
                                 .rows = rows,
                                 .dim = 8,
                                 .kind = kind,
                                 .optimizer = optimizer,
                                 .pooling = mean ? TS_POOL_MEAN : TS_POOL_SUM,
                                 .weighted = mean});
}

CT_TEST(tables_of_few_rows, true) {
  ct_deck_start(&deck);
  for (int rows = 1; rows <= 5; rows++) {
    add(kind, rows, "mo", "rowwise_adagrad", false);
    add(kind, rows, "Rm", "adam", true);
  }
  run_deck(w, kind, NULL);
}

CT_TEST(bags_of_none_and_of_hundreds, true) {
  ct_deck_start(&deck);
  add(kind, 50, "leo", "sgd", false);
  add(kind, 50, "LE", "sgd", true);
  add(kind, 20, "e", "rowwise_adagrad", true);
  add(kind, 20, "Ee", "rowwise_adagrad", false);
  add(kind, 30, "rLo", "adam", true);
  run_deck(w, kind, NULL);
}

CT_TEST(batches_smaller_than_ranks, true) {
  const int w_ranks = ts_mpi_size();
  ct_deck_start(&deck);
  add(kind, 30, "mO", "sgd", false);
  add(kind, 30, "Rm", "adam", true);
  add(kind, 30, "l", "rowwise_adagrad", true);
  for (int r = -1; r < w_ranks; r++) {
    int sizes[CT_RANKS] = {0};
    if (r >= 0) sizes[r] = 1 + r % 2; /* else nobody has any */
    run_deck(w, kind, sizes);
  }
}

/* Rows travel in 1, 2 or 4 bytes, by the size of the shard; ids of the last
 * rows tell them apart. */
CT_TEST(rows_of_every_width, true) {
  const int64_t rows[] = {256, 257, 256 * w->size, 257 * w->size};
  ct_deck_start(&deck);
  for (int i = 0; i < 4; i++) add(kind, rows[i], "hm", "sgd", i % 2);
  ct_deck_add(&deck, &(ct_table){.bags = "hO",
                                 .rows = 65536,
                                 .dim = 4,
                                 .kind = kind,
                                 .optimizer = "sgd"});
  ct_deck_add(&deck, &(ct_table){.bags = "hm",
                                 .rows = 65537 * w->size,
                                 .dim = 4,
                                 .kind = kind,
                                 .optimizer = "sgd"});
  ct_run run = ct_run_of(w, &deck, kind);
  run.n_steps = 2;

  ct_run_do(&run);
}

/* ---- places -------------------------------------------------------------- */

/* Column shards that can't be as narrow as the deck asks for, and others. */
CT_TEST(wider_columns, true) {
  ct_deck_start(&deck);
  deck.config.sharding.min_column = 8;
  for (int32_t dim = 4; dim <= CT_DIM; dim += 4)
    ct_deck_add(&deck, &(ct_table){.bags = "mO",
                                   .rows = 19,
                                   .dim = dim,
                                   .kind = kind,
                                   .optimizer = "rowwise_adagrad"});
  run_deck(w, kind, NULL);
}

/* Ranks for one table: the last and another, which is on its node where the
 * type wants that; BACK: the other way round.  Returns their number. */
static int choose_ranks(int *ranks, ts_shard_kind kind, const ct_world *w,
                        bool back) {
  const int last = w->size - 1, node = w->nodes->node[last];
  const bool one_node =
      kind == TS_SHARD_TABLE_ROW_WISE || kind == TS_SHARD_TABLE_COLUMN_WISE;
  const int other = one_node ? w->nodes->member[w->nodes->start[node]] : 0;
  const bool twice =
      kind == TS_SHARD_COLUMN_WISE || kind == TS_SHARD_TABLE_COLUMN_WISE;
  ranks[0] = back ? other : last;
  ranks[1] = back ? last : other;
  if (kind == TS_SHARD_TABLE_WISE || (last == other && !twice)) return 1;
  return 2;
}

/* Whether the shards of table T are where RANKS says. */
static bool placed(const ts_plan *plan, int32_t t, const int *ranks, int n,
                   const ct_world *w) {
  const ts_table_plan *p = &plan->tables[t];
  bool ok = p->n_shards > 0;
  for (int k = 0; k < p->n_shards; k++) {
    const ts_shard *s = &p->shards[k];
    const int *node = w->nodes->node;
    if (p->kind == TS_SHARD_GRID)
      ok = ok && node[s->rank] == node[ranks[s->col0 / s->n_cols]];
    else
      ok = ok && p->n_shards == n && s->rank == ranks[k];
  }
  return ok;
}

CT_TEST(ranks_fix_places, true) {
  int ranks[2], n = 0;
  ts_plan *plan;
  if (kind == TS_SHARD_DATA_PARALLEL) return;
  ct_deck_start(&deck);
  for (int t = 0; t < 6; t++) {
    add(kind, 30, t % 2 ? "mO" : "Rm", t % 2 ? "adam" : "rowwise_adagrad",
        t % 2);
    if (t < 4) {
      n = choose_ranks(ranks, kind, w, t >= 2);
      ct_deck_ranks(&deck, ranks, n);
    }
  }
  ck_assert_ok(ts_plan_make(&plan, &deck.config, w->nodes));
  for (int t = 0; t < 4; t++) {
    n = choose_ranks(ranks, kind, w, t >= 2);
    ck_assert_all(placed(plan, t, ranks, n, w));
  }
  ts_plan_destroy(plan);
  run_deck(w, kind, NULL);
}

/* All that there is lies on the first rank, or those of the first node. */
CT_TEST(ranks_without_tables, true) {
  const int first[] = {0};
  if (kind == TS_SHARD_DATA_PARALLEL) return;
  ct_deck_start(&deck);
  add(kind, 30, "mO", "adam", true);
  ct_deck_ranks(&deck, first, 1);
  add(kind, 30, "R", "rowwise_adagrad", false);
  ct_deck_ranks(&deck, first, 1);
  run_deck(w, kind, NULL);
}

/* ---- faults -------------------------------------------------------------- */

/* Every rank hears of an id that is no row, and nobody waits for ever. */
static void run_bad_id(ct_world *w, ts_ebc *ebc, int feature) {
  static ct_batch b;
  static const char *const said[] = {"feature t0_f0: id 30 ",
                                     "feature t0_f1: id 30 "};
  ts_ebc_batch *fl;
  const ts_status *all;
  ck_assert_ok(ts_ebc_batch_create(&fl, ebc, CT_BATCH, true));
  ct_batch_draw(&b, &deck, w, 0, NULL, false);
  const ts_status own = {.n = b.n, .weight_sum = b.n};
  const ts_jagged *j = &b.jagged[feature];
  int64_t *ids = (int64_t *)(uintptr_t)j->ids;
  if (w->rank == 0) { /* the first one is named */
    ck_assert_int_gt(j->n_ids, 2);
    ids[j->n_ids / 2] = 30;
    ids[j->n_ids - 1] = -1;
  }
  ck_assert_ok(ts_ebc_input_begin(fl, &b.kjt, &own, w->data));
  /* Where the fault is its message is at hand, too. */
  ck_assert_ok(ts_ebc_statuses(fl, &all));
  ck_assert_all(all[0].err == TS_ERR_DATA);
  ck_assert_all(w->rank > 0 || strstr(ts_err_message(), said[feature]));
  ts_err_clear();
  ts_ebc_batch_destroy(fl);
}

CT_TEST(ids_that_are_no_rows, true) {
  ts_plan *plan;
  ts_ebc *ebc;
  ct_deck_start(&deck);
  add(kind, 30, "oR", "sgd", false);
  ck_assert_ok(ts_plan_make(&plan, &deck.config, w->nodes));
  ck_assert_ok(ts_ebc_create(&ebc, &deck.config, plan, w->nodes, w->world,
                             w->device, &w->kernels));
  for (int f = 0; f < 2; f++) run_bad_id(w, ebc, f);
  ts_ebc_destroy(ebc);
  ts_plan_destroy(plan);
}
