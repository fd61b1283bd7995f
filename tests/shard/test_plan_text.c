/* test_plan_text.c - plans and topologies as texts, and what is refused of
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shard/planner_setting.h"

/* ---- texts --------------------------------------------------------------- */

/* One table of each kind, names that need care; 4 ranks on 2 nodes. */
static void one_of_each(ts_setting *x, ts_plan **plan) {
  static char odd[] = "a b\t#c%d\n\"e\"\177";
  setting(x, TS_SHARD_COUNT - 1, 4, 2);
  x->tables[2].name = odd;
  know_ids(x, 1);
  for (int t = 0; t < x->config.n_tables; t++)
    x->tables[t].sharding = (ts_shard_kind)(t + 1);
  ck_assert_ok(ts_plan_search(plan, NULL, &x->request));
}

TS_TEST(text_and_back) {
  ts_setting x;
  ts_plan *p = NULL, *q = NULL;
  ts_str text = {0}, again = {0};
  one_of_each(&x, &p);
  ck_assert_ok(ts_plan_check(p, &x.config, x.nodes));
  ck_assert_ok(ts_plan_obeys(p, &x.config, x.nodes));
  ck_assert_ok(ts_plan_print(&text, p, &x.config));
  ck_assert_ptr_nonnull(strstr(text.text, "a%20b%09%23c%25d%0A\"e\"%7F "));
  ck_assert_ok(ts_plan_parse(&q, text.text, &x.config));
  ck_assert(same_plan(p, q));
  ck_assert_int_eq(q->n_nodes, 2);
  ck_assert_ok(ts_plan_print(&again, q, &x.config));
  ck_assert_str_eq(text.text, again.text);
  ts_plan_destroy(p);
  ts_plan_destroy(q);
  ts_str_reset(&text);
  ts_str_reset(&again);
  settle(&x);
}

/* Texts for the two tables t0 and t1 of 10000 x 64 that must be refused, and
 * what the message has to say. */
static const struct {
  const char *text, *says;
} hostile[] = {
    {"", "without a line for table t0"},
    {"t0 table_wise 0:0+10000,0+64\n", "without a line for table t1"},
    {"t0 table_wise 0:0+10000,0+64\nt0 table_wise 0:0+10000,0+64\n",
     "line 2 of the plan: a second line for table t0"},
    {"t9 table_wise 0:0+10000,0+64\n", "no table t9"},
    {"t0 wise 0:0+10000,0+64\n", "no known sharding"},
    {"t0 auto 0:0+10000,0+64\n", "no known sharding"},
    {"t0\n", "no known sharding"},
    {"t0 table_wise\n", "no shards for table t0"},
    {"t0 table_wise 0:0+10001,0+64\n", "larger than its table"},
    {"t0 table_wise 0:1+10000,0+64\n", "larger than its table"},
    {"t0 table_wise 0:0+10000,1+64\n", "larger than its table"},
    {"t0 table_wise 0:0+10000,0+0\n", "larger than its table"},
    {"t0 table_wise 0:9223372036854775807+9223372036854775807,0+64\n",
     "larger than its table"},
    {"t0 table_wise 0:9223372036854775808+1,0+64\n", "which this is not"},
    {"t0 table_wise 0:0+10000,2147483647+2147483647\n",
     "larger than its table"},
    {"t0 table_wise -1:0+10000,0+64\n", "which this is not"},
    {"t0 table_wise 99999999999:0+10000,0+64\n", "which this is not"},
    {"t0 table_wise 0:0+10000,0+64x\n", "which this is not"},
    {"t0 table_wise 0:0+10000\n", "which this is not"},
    {"t0 table_wise 0x0:0+10000,0+64\n", "which this is not"},
    {"t%2 table_wise 0:0+10000,0+64\n", "starts with the name"},
    {"t%00 table_wise 0:0+10000,0+64\n", "starts with the name"},
    {"# tessera plan 2: 4 ranks, 1 nodes\n", "format 1 only"},
    {"# tessera plan 1: many\n", "no numbers of ranks"},
    {"# tessera plan 1: 2 ranks, 1 nodes\nt0 table_wise 2:0+10000,0+64\n"
     "t1 table_wise 0:0+10000,0+64\n",
     "beyond those of the head"},
};

TS_TEST(hostile_texts) {
  ts_setting x;
  setting(&x, 2, 4, 0);
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
    ts_plan *p = NULL;
    ck_assert_msg(ts_plan_parse(&p, hostile[i].text, &x.config) == TS_ERR_CKPT,
                  "taken: %s", hostile[i].text);
    ck_assert_ptr_null(p);
    ck_assert_msg(strstr(ts_err_message(), hostile[i].says) != NULL,
                  "%s: says %s", hostile[i].text, ts_err_message());
    ts_err_clear();
  }
  settle(&x);
}

/* Plans that parse but may not run on 4 ranks of 2 nodes. */
static const struct {
  const char *text, *says;
} wrong[] = {
    {"t0 table_wise 4:0+10000,0+64", "ranks 0 to 3"},
    {"t0 table_wise 0:0+9999,0+64", "blocks of ceil"},
    {"t0 table_wise 0:0+10000,0+32", "lacks some of the columns"},
    {"t0 table_wise 0:0+10000,0+64 1:0+10000,0+64", "is cut by rows"},
    {"t0 row_wise 0:0+5000,0+64 0:5000+5000,0+64", "two blocks of rows"},
    {"t0 row_wise 0:0+5000,0+64 1:4000+6000,0+64", "blocks of ceil"},
    {"t0 row_wise 0:0+5000,0+64 1:5000+4000,0+64", "blocks of ceil"},
    {"t0 row_wise 1:5000+5000,0+64 0:0+5000,0+64", "blocks of ceil"},
    {"t0 column_wise 0:0+10000,0+32 1:0+10000,0+32", "cut by"},
    {"t0 column_wise 0:0+10000,0+48 1:0+10000,48+16", "equal slices"},
    {"t0 column_wise 0:0+10000,32+32 1:0+10000,0+32", "equal slices"},
    {"t0 table_column_wise 0:0+10000,0+32 2:0+10000,32+32", "several nodes"},
    {"t0 table_row_wise 1:0+5000,0+64 2:5000+5000,0+64", "several nodes"},
    {"t0 grid 1:0+5000,0+64 2:5000+5000,0+64", "several nodes"},
    {"t0 data_parallel 0:0+10000,0+64", "1 copies"},
    {"t0 data_parallel 1:0+10000,0+64 0:0+10000,0+64 2:0+10000,0+64 "
     "3:0+10000,0+64",
     "in order"},
};

TS_TEST(wrong_plans) {
  ts_setting x;
  setting(&x, 1, 4, 2);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ts_plan *p = NULL;
    ck_assert_ok(ts_plan_parse(&p, wrong[i].text, &x.config));
    p->n_ranks = 4;
    const ts_err err = ts_plan_check(p, &x.config, x.nodes);
    ck_assert_msg(err == TS_ERR_DECK, "passes: %s", wrong[i].text);
    ck_assert_msg(strstr(ts_err_message(), wrong[i].says) != NULL,
                  "%s: says %s", wrong[i].text, ts_err_message());
    ts_err_clear();
    ts_plan_destroy(p);
  }
  settle(&x);
}

static bool obeys(ts_setting *x, const char *text) {
  ts_plan *p = NULL;
  ck_assert_ok(ts_plan_parse(&p, text, &x->config));
  p->n_ranks = 4;
  ck_assert_ok(ts_plan_check(p, &x->config, x->nodes));
  const bool yes = ts_plan_obeys(p, &x->config, x->nodes) == TS_OK;
  ts_err_clear();
  ts_plan_destroy(p);
  return yes;
}

TS_TEST(deck_has_the_say) {
  static char name[] = "row_wise";
  static char *names[] = {name};
  static int64_t ranks[] = {3, 1};
  ts_setting x;
  const char *whole = "t0 table_wise 2:0+10000,0+64";
  const char *halves = "t0 row_wise 3:0+5000,0+64 1:5000+5000,0+64";
  setting(&x, 1, 4, 2);
  ck_assert(obeys(&x, whole) && obeys(&x, halves));
  x.tables[0].sharding = TS_SHARD_ROW_WISE;
  ck_assert(!obeys(&x, whole) && obeys(&x, halves));
  x.tables[0].sharding = TS_SHARD_AUTO;
  x.tables[0].allow = (ts_strings){names, 1};
  ck_assert(!obeys(&x, whole) && obeys(&x, halves));
  x.tables[0].allow.n = 0;
  x.tables[0].ranks = (ts_ints){ranks, 2};
  ck_assert(obeys(&x, halves));
  ck_assert(!obeys(&x, "t0 row_wise 1:0+5000,0+64 3:5000+5000,0+64"));
  settle(&x);
}

/* ---- topologies ---------------------------------------------------------- */

TS_TEST(topology_texts) {
  ts_topology t, u;
  ts_str text = {0};
  static const double usual[] = {4,  20, 4, 6,   8,  5,   5, 25, 5,
                                 40, 40, 2, 0.2, 16, 5,   4, 5,  3,
                                 5,  4,  5, 1.5, 5,  1.5, 5, 1.5};
  ts_topology_default(&t);
  for (int i = 0; i < ts_topology_n_figures(); i++)
    ck_assert_double_eq(*ts_topology_figure(&t, i), usual[i]);
  t.lookup_ns = 7.5;
  t.ranks = 4;
  t.ranks_per_node = 2;
  t.link[TS_REACH_CROSS][TS_LINK_ALL_GATHER].latency_us = 3.25;
  ck_assert_ok(ts_topology_print(&text, &t));
  ck_assert_ok(ts_topology_parse(&u, text.text, "x"));
  ck_assert_mem_eq(&t, &u, sizeof t);
  ts_str_reset(&text);
  const char *bad[] = {"speed = 3\n",       "lookup_ns = fast\n",
                       "lookup_ns = -1\n",  "lookup_ns = 0\n",
                       "lookup_ns = inf\n", "lookup_ns = 3 4\n",
                       "lookup_ns\n",       "= 3\n"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ck_assert_msg(ts_topology_parse(&u, bad[i], "file") == TS_ERR_DECK, "%s",
                  bad[i]);
    ck_assert_ptr_nonnull(strstr(ts_err_message(), "file:1: "));
    ts_err_clear();
  }
}

/* Passes that take what the figures say, of ids of 64 and 512 bytes, give the
 * figures back; where they make no sense, figures that do. */
TS_TEST(figures_of_passes) {
  const double n = 2048 * 8, narrow = 64, wide = 512;
  const ts_topology_passes x = {
      .narrow = {1e-9 * n * (7 + narrow / 3), 1e-9 * n * (11 + 2 * narrow / 5)},
      .wide = {1e-9 * n * (7 + wide / 3), 1e-9 * n * (11 + 2 * wide / 5)},
      .cached = {1e-9 * n * (7 + wide / 40), 0},
      .single = {1e-9 * 2048 * (13 + 7 + narrow / 3), 0},
      .n_bags = 2048};
  const ts_topology_passes none = {.narrow = {1e-9, 1e-9}, .n_bags = 2048};
  const double want[2][6] = {{7, 3, 40, 13, 11, 5},
                             {0.5, 448e3, 200, 1, 1, 896e3}};
  for (int i = 0; i < 2; i++) {
    ts_topology t;
    ts_topology_of_passes(&t, i ? &none : &x);
    const double got[] = {t.lookup_ns,          t.read_gbytes_per_s,
                          t.cache_gbytes_per_s, t.bag_ns,
                          t.update_ns,          t.write_gbytes_per_s};
    for (int k = 0; k < 6; k++)
      ck_assert_double_eq_tol(got[k], want[i][k], 1e-9 * want[i][k]);
  }
  /* 3 others, 4000 bytes each: 12 us a small one, 60 us at 0.2 GB/s. */
  ts_link link;
  double call_us = 5;
  ts_topology_of_link(&link, &call_us, 3, 4000, 12e-6, 72e-6);
  ck_assert_double_eq_tol(call_us, 5 + 2, 1e-9);
  ck_assert_double_eq_tol(link.latency_us, 2, 1e-9);
  ck_assert_double_eq_tol(link.gbytes_per_s, 0.2, 1e-9);
  ts_topology_of_link(&link, &call_us, 3, 4000, 0, 0);
  ck_assert_double_eq_tol(link.latency_us, 0.1, 1e-9);
  ck_assert_double_eq_tol(link.gbytes_per_s, 120, 1e-9);
}
