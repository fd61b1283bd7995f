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

/* Tables of very different sizes, over several nodes. */
static void mixed(ts_setting *x) {
  setting(x, TABLES_MAX, 8, 4);
  for (int t = 0; t < TABLES_MAX; t++)
    x->tables[t].rows = (int64_t)(100 * pow(3, t % 11));
  know_ids(x, 5);
}

TS_TEST(same_request_same_plan) {
  ts_setting x;
  ts_plan *p = NULL, *q = NULL;
  mixed(&x);
  ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
  ck_assert_ok(ts_plan_search(&q, NULL, &x.request));
  ck_assert_ok(ts_plan_check(p, &x.config, x.nodes));
  ck_assert(same_plan(p, q));
  ts_plan_destroy(p);
  ts_plan_destroy(q);
  settle(&x);
}

/* Whatever the planner finds is no slower, by its own count, than the plan by
 * sizes. */
TS_TEST(better_than_by_size) {
  ts_setting x;
  ts_plan *p = NULL, *q = NULL;
  ts_plan_report *r = NULL, *s = NULL;
  mixed(&x);
  ck_assert_ok(ts_plan_search(&p, &r, &x.request));
  ck_assert_ok(ts_plan_make(&q, &x.config, x.nodes));
  ck_assert_ok(ts_plan_estimate(&s, q, &x.request));
  ck_assert_double_le(r->step_ms, s->step_ms);
  ts_plan_destroy(p);
  ts_plan_destroy(q);
  ts_plan_report_destroy(r);
  ts_plan_report_destroy(s);
  settle(&x);
}

TS_TEST(fits_only_in_parts) {
  ts_setting x;
  ts_plan *p = NULL;
  ts_plan_report *r = NULL;
  setting(&x, 2, 4, 0);
  x.tables[0].rows = 1000000; /* 256 MB and its state on ranks of 100 */
  know_ids(&x, 1);
  x.request.memory_bytes = 100e6;
  ck_assert_ok(ts_plan_search(&p, &r, &x.request));
  ck_assert_int_gt(p->tables[0].n_shards, 2);
  ck_assert_double_le(r->memory_bytes, 100e6);
  ts_plan_destroy(p);
  ts_plan_report_destroy(r);
  settle(&x);
}

TS_TEST(fits_nowhere) {
  ts_setting x;
  ts_plan *p = NULL;
  setting(&x, 2, 4, 0);
  x.tables[1].rows = 1000000;
  x.tables[1].sharding = TS_SHARD_TABLE_WISE;
  know_ids(&x, 1);
  x.request.memory_bytes = 100e6;
  ck_assert_int_eq(ts_plan_search(&p, NULL, &x.request), TS_ERR_DECK);
  const char *says = ts_err_message();
  ck_assert_ptr_nonnull(strstr(says, "no plan fits"));
  ck_assert_ptr_nonnull(strstr(says, "table t1: allow row_wise"));
  ck_assert_ptr_nonnull(strstr(says, "bf16"));
  ck_assert_ptr_null(strstr(says, "table t0"));
  ts_err_clear();
  settle(&x);
}

/* Nothing was measured, on no number of ranks. */
TS_TEST(default_topology) {
  ts_topology t;
  memset(&t, 0x5a, sizeof t);
  ts_topology_default(&t);
  ck_assert(t.ranks == 0 && t.ranks_per_node == 0);
  for (int i = 0; i < ts_topology_n_figures(); i++)
    ck_assert_double_ge(*ts_topology_figure(&t, i), 0);
}

/* ---- ids ----------------------------------------------------------------- */

/* Skewed rows: the part with the hot ones costs more. */
TS_TEST(skew_counts) {
  ts_setting x;
  ts_cost c;
  setting(&x, 1, 4, 0);
  know_ids(&x, 1);
  for (int b = 0; b < TS_STATS_BLOCKS; b++)
    x.stats[0].block[b] = b == 0 ? 0.85 : 0.01;
  ck_assert_ok(ts_cost_create(&c, &x.request));
  const ts_shard first = {0, 0, 2500, 0, 64}, last = {3, 7500, 2500, 0, 64};
  ck_assert_double_eq_tol(ts_cost_ids(&c, 0, TS_SHARD_ROW_WISE, &first),
                          512 * 0.88, 1e-6);
  ck_assert_double_eq_tol(ts_cost_ids(&c, 0, TS_SHARD_ROW_WISE, &last),
                          512 * 0.04, 1e-6);
  ts_cost_reset(&c);
  settle(&x);
}

/* 2 nodes of 2 ranks, 512 samples of 64 columns in f32: a quarter goes to the
 * rank beside, a half to the other node; a link of 1 GB/s takes 1 ms for each
 * 1e6 bytes, one of 2 a half. */
TS_TEST(two_nodes_by_hand) {
  static const ts_shard_kind kinds[] = {TS_SHARD_TABLE_WISE, TS_SHARD_ROW_WISE,
                                        TS_SHARD_TABLE_ROW_WISE};
  static char bf16[] = "bf16";
  const double there = 512 * 64 * 4.0, back = there / 2;
  ts_setting x;
  ts_cost c;
  ts_load l;
  setting(&x, 1, 4, 2);
  know_ids(&x, 1);
  x.config.sharding.comm_dtype_backward = bf16;
  for (int use = 0; use < TS_LINK_COUNT; use++) {
    x.topology.link[TS_REACH_NODE][use].gbytes_per_s = 2;
    x.topology.link[TS_REACH_CROSS][use].gbytes_per_s = 1;
  }
  x.topology.stream_gbytes_per_s = 1e12;
  ck_assert_ok(ts_cost_create(&c, &x.request));
  for (int k = 0; k < 3; k++) {
    const ts_shard s = {0, 0, k ? 2500 : 10000, 0, 64};
    ts_cost_shard(&l, &c, 0, kinds[k], &s);
    /* In two steps: in f32 the half within a node, then of each of its two
     * ranks' halves a half across. */
    const double near[] = {k < 2 ? there / 4 : there / 2,
                           k < 2 ? back / 4 : there / 2};
    const double far[] = {k < 2 ? there / 2 : there / 4,
                          k < 2 ? back / 2 : back / 4};
    ck_assert_double_eq_tol(l.sent.output, near[0] + far[0], 1e-6);
    ck_assert_double_eq_tol(l.sent.gradient, near[1] + far[1], 1e-6);
    ck_assert_double_eq_tol(l.sent.cross, far[0] + far[1], 1e-6);
    ck_assert_double_eq_tol(l.time.output, near[0] / 2e6 + far[0] / 1e6, 1e-9);
    ck_assert_double_eq_tol(l.time.gradient, near[1] / 2e6 + far[1] / 1e6,
                            1e-9);
  }
  ts_cost_reset(&c);
  settle(&x);
}

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

/* ---- a feature in several tables ----------------------------------------- */

/* t1 has t0's feature. */
static void share(ts_setting *x, int n_ranks) {
  setting(x, 2, n_ranks, n_ranks);
  x->feature[1] = x->features[0];
  know_ids(x, 3);
}

static double sent(const ts_cost *c, const ts_plan *p, int32_t t, int32_t n) {
  ts_load l;
  ts_cost_everywhere(&l, c, t, p, n);
  return l.sent.input;
}

/* 128 samples of 3 ids of 2 bytes and a length, half of which goes to the other
 * rank: for t1 nothing where t0 brings them there. */
TS_TEST(ids_cross_once) {
  static const struct {
    ts_shard_kind kind[2];
    int n_shards;
    int64_t rows; /* of t1 */
    double share; /* of t1's ids that is sent for it */
    ts_shard shard[2][2];
  } cases[] = {
#define WHOLE(rank) {{rank, 0, 10000, 0, 64}}
#define ROWS(n)                                                                \
  {                                                                            \
    {0, 0, n, 0, 64}, {                                                        \
      1, n, 10000 - (n), 0, 64                                                 \
    }                                                                          \
  }
#define HALVES(a, b)                                                           \
  {                                                                            \
    {a, 0, 10000, 0, 32}, {                                                    \
      b, 0, 10000, 32, 32                                                      \
    }                                                                          \
  }
      {{TS_SHARD_TABLE_WISE, TS_SHARD_TABLE_WISE},
       1,
       10000,
       0,
       {WHOLE(1), WHOLE(1)}},
      {{TS_SHARD_TABLE_WISE, TS_SHARD_TABLE_WISE},
       1,
       10000,
       1,
       {WHOLE(0), WHOLE(1)}},
      {{TS_SHARD_TABLE_WISE, TS_SHARD_TABLE_WISE},
       1,
       9999,
       1,
       {WHOLE(1), WHOLE(1)}},
      {{TS_SHARD_DATA_PARALLEL, TS_SHARD_TABLE_WISE},
       1,
       10000,
       1,
       {WHOLE(1), WHOLE(1)}},
      {{TS_SHARD_ROW_WISE, TS_SHARD_ROW_WISE},
       2,
       10000,
       0,
       {ROWS(5000), ROWS(5000)}},
      {{TS_SHARD_ROW_WISE, TS_SHARD_ROW_WISE},
       2,
       10000,
       1,
       {ROWS(5000), ROWS(4000)}},
      {{TS_SHARD_TABLE_WISE, TS_SHARD_COLUMN_WISE},
       2,
       10000,
       1,
       {WHOLE(1), HALVES(0, 1)}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ts_setting x;
    ts_cost c;
    ts_plan *p;
    share(&x, 2);
    x.tables[1].rows = cases[i].rows;
    ck_assert_ok(ts_cost_create(&c, &x.request));
    ck_assert_ok(ts_plan_create(&p, 2, 2));
    for (int t = 0; t < 2; t++) {
      const int n = cases[i].shard[t][1].n_rows ? 2 : 1;
      ck_assert_ok(ts_mem_many(p->tables[t].shards, n, MISC));
      memcpy(p->tables[t].shards, cases[i].shard[t],
             (size_t)n * sizeof(ts_shard));
      p->tables[t].n_shards = n;
      p->tables[t].kind = cases[i].kind[t];
    }
    /* Of rows that are cut lengths go to both parts. */
    const bool cut = cases[i].kind[1] == TS_SHARD_ROW_WISE;
    const double alone = 128 * (3 * 2 + (cut ? 2 : 1)) / 2.0;
    const double slices = cases[i].kind[1] == TS_SHARD_COLUMN_WISE ? 2 : 1;
    ck_assert_double_eq_tol(sent(&c, p, 1, 0), slices * alone, 1e-9);
    ck_assert_double_eq_tol(sent(&c, p, 1, 2), cases[i].share * alone, 1e-9);
    ts_plan_destroy(p);
    ts_cost_reset(&c);
    settle(&x);
  }
}

/* Of those that could go anywhere each goes where its feature's other table is.
 */
TS_TEST(tables_of_a_feature_together) {
  enum { N = 4 };
  ts_plan *p;
  ts_setting x;
  setting(&x, 2 * N, N, N);
  for (int t = 0; t < 2 * N; t++) {
    x.tables[t].rows = 10000 + t % N;
    x.tables[t].sharding = TS_SHARD_TABLE_WISE;
    if (t < N) continue;
    x.tables[t].dim = 1;
    x.feature[t] = x.features[t - N];
  }
  for (int t = 0; t < 2 * N; t++)
    x.stats[t] = ts_plan_stats_law(x.tables[t].rows, 0, 20 + 0.01 * (t % N));
  ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
  for (int t = 0; t < N; t++)
    ck_assert_int_eq(p->tables[t].shards[0].rank,
                     p->tables[t + N].shards[0].rank);
  ts_plan_destroy(p);
  settle(&x);
}
