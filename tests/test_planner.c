/* test_planner.c - plans as text, checks, storage by hand, the search.
 * ranks: 1 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "harness.h"
#include "shard/cost.h"
#include "shard/sharding.h"
#include "planner_setting.h"
#include "sparse/row_optim.h"

static bool same_plan(const ts_plan *a, const ts_plan *b) {
  if (a->n_tables != b->n_tables || a->n_ranks != b->n_ranks) return false;
  for (int32_t t = 0; t < a->n_tables; t++) {
    const ts_table_plan *p = &a->tables[t], *q = &b->tables[t];
    if (p->kind != q->kind || p->n_shards != q->n_shards) return false;
    for (int32_t k = 0; k < p->n_shards; k++) {
      const ts_shard *s = &p->shards[k], *u = &q->shards[k];
      if (s->rank != u->rank || s->row0 != u->row0 || s->n_rows != u->n_rows ||
          s->col0 != u->col0 || s->n_cols != u->n_cols)
        return false;
    }
  }
  return true;
}

/* ---- texts --------------------------------------------------------------- */

/* One table of each kind, names that need care; 4 ranks on 2 nodes. */
static void one_of_each(ts_setting *x, ts_plan **plan) {
  static char odd[] = "a b\t#c%d\n\"e\"";
  setting(x, TS_SHARD_COUNT - 1, 4, 2);
  x->tables[2].name = odd;
  know_ids(x, 1);
  for (int t = 0; t < x->config.n_tables; t++)
    x->tables[t].sharding = (ts_shard_kind)(t + 1);
  ck_assert_ok(ts_plan_search(plan, NULL, &x->request));
}

START_TEST(text_and_back) {
  ts_setting x;
  ts_plan *p = NULL, *q = NULL;
  ts_str text = {0}, again = {0};
  one_of_each(&x, &p);
  ck_assert_ok(ts_plan_check(p, &x.config, x.nodes));
  ck_assert_ok(ts_plan_obeys(p, &x.config, x.nodes));
  ck_assert_ok(ts_plan_print(&text, p, &x.config));
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
END_TEST

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

START_TEST(hostile_texts) {
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
END_TEST

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

START_TEST(wrong_plans) {
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
END_TEST

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

START_TEST(deck_has_the_say) {
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
END_TEST

/* ---- the search ---------------------------------------------------------- */

START_TEST(balances_by_hand) {
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
END_TEST

START_TEST(constraints_hold) {
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
END_TEST

/* Tables of very different sizes, over several nodes. */
static void mixed(ts_setting *x) {
  setting(x, TABLES_MAX, 8, 4);
  for (int t = 0; t < TABLES_MAX; t++)
    x->tables[t].rows = (int64_t)(100 * pow(3, t % 11));
  know_ids(x, 5);
}

START_TEST(same_request_same_plan) {
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
END_TEST

/* Whatever the planner finds is no slower, by its own count, than the plan by
 * sizes. */
START_TEST(better_than_by_size) {
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
END_TEST

START_TEST(fits_only_in_parts) {
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
END_TEST

START_TEST(fits_nowhere) {
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
END_TEST

/* ---- lines of cached tables ---------------------------------------------- */

/* Tables of a million rows in files: skewed ids, few of them, of narrower
 * rows; the last one's load factor is the deck's. */
static void cached_tables(ts_setting *x) {
  static char cached[] = "cached", file[] = "file", lru[] = "lru";
  static const double pooling[] = {8, 1, 2, 4};
  setting(x, 4, 2, 0);
  for (int t = 0; t < 4; t++) {
    ts_table_config *c = &x->tables[t];
    c->rows = 1000000;
    c->dim = t == 2 ? 32 : 64;
    c->kernel = cached;
    c->optimizer.kind = t == 1 ? adam : sgd;
    c->cache.tier = file;
    c->cache.policy = lru;
    c->cache.passes = 1;
    c->cache.load_factor = t == 3 ? 0.05 : NAN;
    x->stats[t] = ts_plan_stats_law(c->rows, 1.05, pooling[t]);
  }
}

/* ms of fetching in a step with the first three tables' load factors. */
static double fetch_ms(const ts_setting *x, const ts_plan *p, const double *f) {
  ts_cost c;
  double ms = 0;
  ck_assert_ok(ts_cost_create(&c, &x->request));
  for (int t = 0; t < 3; t++)
    for (int32_t k = 0; k < p->tables[t].n_shards; k++) {
      const ts_shard *s = &p->tables[t].shards[k];
      const double line = ts_storage_line(&c, t, s);
      ms += ts_cost_fetch_ms(
          &c, t, line * ts_cost_misses(&c, t, p->tables[t].kind, s, f[t]));
    }
  ts_cost_reset(&c);
  return ms;
}

static double fullest(ts_setting *x, const ts_plan *p, const double *f) {
  ts_plan_report *r = NULL;
  x->request.load_factor = f;
  ck_assert_ok(ts_plan_estimate(&r, p, &x->request));
  x->request.load_factor = NULL;
  const double bytes = r->memory_bytes;
  ts_plan_report_destroy(r);
  return bytes;
}

/* No other load factors of a grid that fit save much more. */
static void none_better(ts_setting *x, const ts_plan *p, const double *found) {
  const double own = fetch_ms(x, p, found);
  double f[4] = {0, 0, 0, 0.05};
  for (f[0] = 0.002; f[0] <= 1; f[0] *= 1.5)
    for (f[1] = 0.002; f[1] <= 1; f[1] *= 1.5)
      for (f[2] = 0.002; f[2] <= 1; f[2] *= 1.5)
        if (fullest(x, p, f) <= x->request.memory_bytes)
          ck_assert_double_ge(fetch_ms(x, p, f), 0.97 * own);
}

/* All of the memory is used, where it saves most; what the deck fixes stays;
 * with more memory no table gets less. */
START_TEST(lines_fill_memory) {
  static const double mib[] = {60, 100, 200, 400, 4000};
  double before[4] = {0};
  for (size_t i = 0; i < sizeof mib / sizeof *mib; i++) {
    ts_setting x;
    ts_plan *p = NULL;
    double f[4];
    cached_tables(&x);
    x.request.memory_bytes = mib[i] * (1 << 20);
    ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
    ck_assert_ok(ts_plan_lines(f, p, &x.request));
    ck_assert_double_eq(f[3], 0.05);
    for (int t = 0; t < 4; t++) ck_assert_double_ge(f[t], before[t]);
    const double used = fullest(&x, p, f) / x.request.memory_bytes;
    if (i == 4) {
      for (int t = 0; t < 3; t++) ck_assert_double_eq(f[t], 1);
    } else {
      ck_assert_double_le(used, 1);
      ck_assert_double_ge(used, 0.97);
      none_better(&x, p, f);
    }
    if (i == 0) ck_assert_double_lt(f[1], 0.2); /* less than without it */
    if (i == 1) ck_assert_double_gt(f[0], 2 * f[1]);
    memcpy(before, f, sizeof f);
    ts_plan_destroy(p);
    settle(&x);
  }
}
END_TEST

/* What a group holds together has one load factor; and the report says which,
 * and who chose it. */
START_TEST(lines_of_groups) {
  ts_setting x;
  ts_plan *p = NULL;
  ts_plan_report *r = NULL;
  ts_str text = {0};
  double f[4];
  cached_tables(&x);
  x.tables[1].optimizer.kind = sgd;
  for (int t = 0; t < 4; t++) x.tables[t].sharding = TS_SHARD_ROW_WISE;
  x.request.memory_bytes = 100 << 20;
  ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
  ck_assert_ok(ts_plan_lines(f, p, &x.request));
  ck_assert_double_eq(f[0], f[1]);
  ck_assert_double_ne(f[0], f[2]);
  x.request.load_factor = f;
  ck_assert_ok(ts_plan_estimate(&r, p, &x.request));
  ck_assert_ok(ts_plan_report_print(&text, r, p, &x.request, 0));
  const char *says = strstr(text.text, "in slow memory");
  ck_assert_ptr_nonnull(says);
  ck_assert_ptr_nonnull(strstr(says, "planner"));
  ck_assert_ptr_nonnull(strstr(says, "0.05 deck"));
  ts_str_reset(&text);
  ts_plan_report_destroy(r);
  ts_plan_destroy(p);
  settle(&x);
}
END_TEST

/* The fewest passes whose scratch fits what is left; where lines fill the
 * memory, too, one pass still has room. */
START_TEST(passes_fit) {
  static const double parts[] = {0.9, 1.1, 3.5, 11.5, 2000};
  static const int32_t want[] = {1, 2, 4, 12, 1000};
  ts_setting x;
  ts_plan *p = NULL;
  ts_plan_report *r = NULL;
  int32_t passes = 0;
  double f[4];
  cached_tables(&x);
  for (int t = 0; t < 4; t++) {
    x.tables[t].sharding = TS_SHARD_ROW_WISE;
    x.tables[t].cache.passes = t == 3; /* 0: auto */
  }
  x.request.batch = 8192;
  ck_assert_ok(ts_plan_search(&p, &r, &x.request));
  const double scratch = 6 * 4 * (8 + 1 + 2) * 8192.0;
  for (int i = 0; i < 5; i++) {
    r->limit = r->memory_bytes + scratch / parts[i];
    ck_assert_ok(ts_plan_passes(&passes, p, r, &x.request));
    ck_assert_int_eq(passes, want[i]);
  }
  r->limit = r->memory_bytes - 1;
  ck_assert_ok(ts_plan_passes(&passes, p, r, &x.request));
  ck_assert_int_eq(passes, 1000);
  ts_plan_report_destroy(r);
  r = NULL;
  x.request.memory_bytes = 200 << 20;
  ck_assert_ok(ts_plan_lines(f, p, &x.request));
  x.request.load_factor = f;
  ck_assert_ok(ts_plan_estimate(&r, p, &x.request));
  ck_assert_double_gt(r->memory_bytes, 0.95 * x.request.memory_bytes);
  ck_assert_ok(ts_plan_passes(&passes, p, r, &x.request));
  ck_assert_int_eq(passes, 1);
  ts_plan_report_destroy(r);
  ts_plan_destroy(p);
  settle(&x);
}
END_TEST

/* A sample of ids says about as much as the law that they were drawn by, of
 * tables with more rows than the sample has ids, too. */
START_TEST(hits_by_sample) {
  enum { N = 20000 };
  static int64_t ids[N];
  static const int64_t rows[] = {3000, 1000000};
  for (int i = 0; i < 2; i++)
    for (int zipf = 0; zipf < 2; zipf++) {
      const double n = (double)rows[i];
      ts_plan_stats law = ts_plan_stats_law(rows[i], zipf, 1), s;
      uint32_t x[4];
      for (int k = 0; k < N; k++) {
        ts_rng4(x, 1, TS_RNG_TEST, (uint64_t)k, 0, 0);
        const double u = ts_rng_unit64(x[0], x[1]);
        ids[k] = (int64_t)(zipf ? pow(n, u) - 1 : u * n);
      }
      ck_assert_ok(ts_plan_stats_count(&s, rows[i], ids, N, N));
      const double power = ts_cost_power(&law, n);
      ck_assert_double_eq_tol(pow(0.01, power), law.hot, 1e-9);
      ck_assert_double_eq_tol(power, ts_cost_power(&s, n), 0.2);
    }
}
END_TEST

/* Skewed rows: the part with the hot ones costs more. */
START_TEST(skew_counts) {
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
END_TEST

START_TEST(counts_a_sample) {
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
}
END_TEST

/* ---- topologies ---------------------------------------------------------- */

START_TEST(topology_texts) {
  ts_topology t, u;
  ts_str text = {0};
  ts_topology_default(&t);
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
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("planner");
  TCase *c = tcase_create("planner");
  tcase_add_test(c, text_and_back);
  tcase_add_test(c, hostile_texts);
  tcase_add_test(c, wrong_plans);
  tcase_add_test(c, deck_has_the_say);
  tcase_add_test(c, balances_by_hand);
  tcase_add_test(c, constraints_hold);
  tcase_add_test(c, same_request_same_plan);
  tcase_add_test(c, better_than_by_size);
  tcase_add_test(c, fits_only_in_parts);
  tcase_add_test(c, fits_nowhere);
  tcase_add_test(c, lines_fill_memory);
  tcase_add_test(c, lines_of_groups);
  tcase_add_test(c, passes_fit);
  tcase_add_test(c, hits_by_sample);
  tcase_add_test(c, skew_counts);
  tcase_add_test(c, counts_a_sample);
  tcase_add_test(c, topology_texts);
  suite_add_tcase(s, c);
  return s;
}

TS_TEST_MAIN(suite)
