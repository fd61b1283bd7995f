/* test_planner.c - the search for a plan, and what it counts.
 * ranks: 1 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shard/planner_setting.h"

/* ---- the search ---------------------------------------------------------- */

TS_TEST(balances_by_hand) {
  /* 6 tables as 5, 4, 3, 3, 2, 1 ids a sample: two ranks can have 9 each. */
  const double ids[] = {5, 4, 3, 3, 2, 1};
  static char name[] = "table_wise";
  static char *names[] = {name};
  ts_setting x;
  ts_plan *p = NULL;
  ts_plan_report *r = NULL;
  double sum[2] = {0};
  setting(&x, 6, 2, 0);
  for (int t = 0; t < 6; t++) {
    x.tables[t].allow = (ts_strings){names, 1};
    x.stats[t] = ts_plan_stats_law(10000, 0, ids[t]);
  }
  ck_assert_ok(ts_plan_search(&p, &r, &x.request));
  for (int t = 0; t < 6; t++) {
    ck_assert_int_eq(p->tables[t].kind, TS_SHARD_TABLE_WISE);
    sum[p->tables[t].shards[0].rank] += ids[t];
  }
  ck_assert_double_eq(sum[0], 9);
  ck_assert_double_lt(r->imbalance, 1.02);
  ts_plan_destroy(p);
  ts_plan_report_destroy(r);
  settle(&x);
}

TS_TEST(constraints_hold) {
  static char row[] = "row_wise", column[] = "column_wise";
  static char *names[] = {row, column};
  static int64_t ranks[] = {2, 3}, one[] = {1};
  ts_setting x;
  ts_plan *p = NULL;
  setting(&x, 8, 4, 2);
  x.tables[0].sharding = TS_SHARD_TABLE_WISE;
  x.tables[0].ranks = (ts_ints){one, 1};
  x.tables[1].ranks = (ts_ints){ranks, 2};
  x.tables[2].allow = (ts_strings){names, 2};
  x.tables[3].allow = (ts_strings){names + 1, 1};
  x.tables[3].sharding = TS_SHARD_COLUMN_WISE;
  x.tables[4].sharding = TS_SHARD_DATA_PARALLEL;
  know_ids(&x, 3);
  ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
  ck_assert_ok(ts_plan_check(p, &x.config, x.nodes));
  ck_assert_ok(ts_plan_obeys(p, &x.config, x.nodes));
  ck_assert_int_eq(p->tables[0].shards[0].rank, 1);
  ck_assert_int_eq(p->tables[1].n_shards, 2);
  ck_assert_int_ge(p->tables[3].shards[0].n_cols, 32);
  ts_plan_destroy(p);
  p = NULL;
  /* Nothing is left. */
  x.tables[2].ranks = (ts_ints){one, 1};
  ck_assert_int_eq(ts_plan_search(&p, NULL, &x.request), TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "t2"));
  ts_err_clear();
  settle(&x);
}

/* ---- ids ----------------------------------------------------------------- */

TS_TEST(counts_a_sample) {
  const int64_t ids[] = {0, 0, 1, 0, 1599, 0, 2, 0};
  ts_plan_stats s;
  ck_assert_ok(ts_plan_stats_count(&s, 1600, ids, 8, 4));
  ck_assert_double_eq(s.pooling, 2);
  ck_assert_double_eq(s.distinct, 4);
  ck_assert_double_eq_tol(s.block[0], 7.0 / 8, 1e-12);
  ck_assert_double_eq_tol(s.block[15], 1.0 / 8, 1e-12);
  ck_assert_double_eq_tol(s.hot, 1, 1e-12);    /* 16 rows are 1% */
  ck_assert_double_eq_tol(s.growth, 1, 1e-12); /* 2 of 4, then 4 of 8 */
  const ts_plan_stats even = ts_plan_stats_law(1000, 0, 1);
  /* 1000 (1 - e^-0.5) different ones among 500. */
  ck_assert_double_eq_tol(ts_plan_stats_distinct(&even, 65536, 1000), 1000,
                          1e-3);
  /* 65536 ids of a million rows, and a half of them. */
  const ts_plan_stats wide = ts_plan_stats_law(1000000, 0, 1);
  ck_assert_double_eq_tol(wide.distinct, 1e6 * -expm1(-0.065536), 1);
  ck_assert_double_eq_tol(wide.growth,
                          log2(expm1(-0.065536) / expm1(-0.032768)), 1e-6);
}

/* "by_size" wants t0 everywhere, since it is tiny; of what `allow` leaves it
 * takes what this order has first. */
TS_TEST(by_size_falls_back) {
  static const char *const order[] = {
      "table_wise", "column_wise", "table_column_wise", "table_row_wise",
      "row_wise",   "grid",        "data_parallel"};
  enum { N = sizeof order / sizeof *order };
  ts_setting x;
  setting(&x, 1, 4, 2);
  x.tables[0].rows = 100;
  for (int i = 0; i < N - 1; i++) {
    for (int k = i; k < N - 1; k++) {
      char *allow[] = {(char *)order[k], (char *)order[i]};
      ts_plan *p = NULL;
      x.tables[0].allow = (ts_strings){allow, 2};
      ck_assert_ok(ts_plan_make(&p, &x.config, x.nodes));
      ck_assert_str_eq(ts_shard_kind_name(p->tables[0].kind), order[i]);
      ts_plan_destroy(p);
    }
  }
  settle(&x);
}
