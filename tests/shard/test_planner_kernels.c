/* test_planner_kernels.c - tables that the planner puts into slow memory, where
 * the deck leaves the kernel open, beside the same tables whose kernels a deck
 * names.
 * ranks: 1 */
#include <math.h>

#include "tests/shard/planner_setting.h"

enum { N = 4 };
static char open_kernel[] = "auto", fused[] = "fused", cached[] = "cached";
static char sgd[] = "sgd", file[] = "file", tier_host[] = "host", lru[] = "lru";
static char disk[] = "/disk";
static const double many[N] = {4, 4, 0.1, 1};

/* Four tables on N_RANKS: a large one, two alike of which the second gets few
 * ids, and one too small to be worth anything. */
static void open_tables(ts_setting *x, int n_ranks) {
  static const int64_t rows[N] = {200000, 100000, 100000, 400};
  setting(x, N, n_ranks, 0);
  x->config.run.tier_dir = disk;
  for (int t = 0; t < N; t++) {
    ts_table_config *c = &x->tables[t];
    c->rows = rows[t];
    c->kernel = open_kernel;
    c->optimizer.kind = sgd;
    c->cache.tier = tier_host;
    c->cache.policy = lru;
    c->cache.passes = 1;
    c->cache.load_factor = NAN;
    c->sharding = n_ranks > 1 ? TS_SHARD_ROW_WISE : TS_SHARD_TABLE_WISE;
    x->stats[t] = ts_plan_stats_law(c->rows, 1.05, many[t]);
  }
}

/* Bytes of the fullest rank when a deck names the kernels: the tables of SET
 * (bits) cached in files, with next to no lines. */
static double named(ts_setting *x, const ts_plan *p, unsigned set) {
  static const double few[N] = {0.001, 0.001, 0.001, 0.001};
  ts_table_config kept[N];
  ts_plan_report *r = NULL;
  memcpy(kept, x->tables, sizeof kept);
  for (int t = 0; t < N; t++) {
    x->tables[t].auto_kernel = x->tables[t].auto_tier = NULL;
    x->tables[t].kernel = set >> t & 1 ? cached : fused;
    x->tables[t].cache.tier = file;
  }
  x->request.load_factor = few;
  ck_assert_ok(ts_plan_estimate(&r, p, &x->request));
  x->request.load_factor = NULL;
  memcpy(x->tables, kept, sizeof kept);
  const double bytes = r->memory_bytes;
  ts_plan_report_destroy(r);
  return bytes;
}

static unsigned chosen(const ts_plan *p) {
  unsigned set = 0;
  for (int t = 0; t < N; t++)
    if (p->tables[t].kernel) {
      ck_assert_str_eq(p->tables[t].kernel, "cached");
      set |= 1u << t;
    }
  return set;
}

/* First goes the table that gets few ids, then the largest, the smallest not
 * at all; they suffice, and without the last one they would not.  Lines then
 * fill the memory, and the report says why. */
TS_TESTS(as_memory_asks, 1, 3) {
  static const double share[] = {1.01, 0.9, 0.7, 0.5, 0.3, 0.05, 0.02};
  static const unsigned expected[] = {0, 4, 5, 5, 5, 7, 7};
  for (size_t i = 0; i < sizeof share / sizeof *share; i++) {
    ts_setting x;
    ts_plan *p = NULL;
    ts_plan_report *r = NULL;
    ts_str text = {0};
    double f[N];
    open_tables(&x, _i);
    ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
    ck_assert_uint_eq(chosen(p), 0);
    x.request.memory_bytes = share[i] * named(&x, p, 0);
    ts_plan_destroy(p);
    ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
    const unsigned set = chosen(p);
    ck_assert_double_le(named(&x, p, set), x.request.memory_bytes);
    ck_assert(set == 0 || set == 4 || set == 5 || set == 7);
    const unsigned last = set == 4 ? 4 : set == 5 ? 1 : 2;
    if (set)
      ck_assert_double_gt(named(&x, p, set & ~last), x.request.memory_bytes);
    ck_assert_uint_eq(set, expected[i]);
    ts_plan_apply(&x.config, p, false);
    ck_assert_ok(ts_plan_lines(f, p, &x.request));
    x.request.load_factor = f;
    ck_assert_ok(ts_plan_estimate(&r, p, &x.request));
    ck_assert_double_le(r->memory_bytes, x.request.memory_bytes);
    ck_assert(!set || r->memory_bytes > 0.97 * x.request.memory_bytes);
    ck_assert_ok(ts_plan_report_print(&text, r, p, &x.request, 0));
    ck_assert((set != 0) == (strstr(text.text, "kernel chosen for") != NULL));
    ck_assert((set != 0) == (strstr(text.text, "cached planner file") != NULL));
    ts_str_reset(&text);
    ts_plan_report_destroy(r);
    ts_plan_destroy(p);
    settle(&x);
  }
}

/* A plan that somebody else made gets kernels, too, and keeps its shards; it
 * loses them where the folder is gone. */
TS_TEST(plans_of_others) {
  ts_setting x;
  ts_plan *p = NULL, *q = NULL;
  open_tables(&x, 2);
  ck_assert_ok(ts_plan_make(&p, &x.config, x.nodes));
  ck_assert_ok(ts_plan_make(&q, &x.config, x.nodes));
  ck_assert_ok(ts_plan_kernels(p, &x.request));
  ck_assert_int_eq(ts_plan_n_kernels(p), 0);
  x.request.memory_bytes = 0.7 * named(&x, p, 0);
  ck_assert_ok(ts_plan_kernels(p, &x.request));
  ck_assert_uint_eq(chosen(p), 5);
  ck_assert(same_plan(p, q));
  x.config.run.tier_dir = NULL;
  ck_assert_ok(ts_plan_kernels(p, &x.request));
  ck_assert_int_eq(ts_plan_n_kernels(p), 0);
  ts_plan_destroy(p);
  ts_plan_destroy(q);
  settle(&x);
}

/* No table is cached where the deck names the kernel (0), has copies (1), lets
 * the dense optimizer train the rows (2) or gives no folder (3).  A device with
 * memory of its own needs no folder (4), but a host that has room (5, 6). */
TS_TESTS(left_as_they_are, 0, 7) {
  static char none[] = "none";
  ts_setting x;
  ts_plan *p = NULL;
  open_tables(&x, 1);
  ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
  x.request.memory_bytes = (_i == 5 ? 0.6 : 0.5) * named(&x, p, 0);
  ts_plan_destroy(p);
  p = NULL;
  for (int t = 0; t < N; t++) {
    if (_i == 0) x.tables[t].kernel = fused;
    if (_i == 1) x.tables[t].sharding = TS_SHARD_DATA_PARALLEL;
    if (_i == 2) x.tables[t].optimizer.kind = none;
  }
  if (_i >= 3) x.config.run.tier_dir = NULL;
  x.request.discrete = _i >= 4;
  if (_i == 5) x.request.host_bytes = 52e6;
  if (_i == 6) x.request.host_bytes = 20e6;
  const ts_err err = ts_plan_search(&p, NULL, &x.request);
  ck_assert_int_eq(err, _i == 4 || _i == 5 ? TS_OK : TS_ERR_DECK);
  if (_i == 4) ck_assert_uint_ne(chosen(p), 0);
  if (_i == 5) ck_assert_uint_eq(chosen(p), 6); /* all but the largest */
  if (_i == 4) ts_plan_apply(&x.config, p, true);
  if (_i == 4) ck_assert_str_eq(ts_table_tier(&x.tables[2]), "host");
  if (_i == 3) ck_assert_ptr_nonnull(strstr(ts_err_message(), "run.tier_dir"));
  ts_err_clear();
  ts_plan_destroy(p);
  settle(&x);
}

/* Slots of a batch's ids alone are more than there is: no cache, then. */
TS_TEST(without_a_cache) {
  ts_setting x;
  ts_plan *p = NULL;
  open_tables(&x, 1);
  x.config.n_tables = 1;
  x.request.batch = 1 << 16;
  ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
  const double least = named(&x, p, 1);
  ts_plan_destroy(p);
  x.request.memory_bytes = least + 1;
  ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
  ck_assert_str_eq(p->tables[0].kernel, "cached");
  ts_plan_destroy(p);
  x.request.memory_bytes = least - 100;
  ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
  ck_assert_str_eq(p->tables[0].kernel, "host");
  ts_plan_destroy(p);
  x.request.memory_bytes = 1e6;
  ck_assert_int_eq(ts_plan_search(&p, NULL, &x.request), TS_ERR_DECK);
  ts_err_clear();
  settle(&x);
}

/* A plan's text has the kernels; the deck's word goes before it; copies are
 * refused. */
TS_TEST(kernels_as_text) {
  static const char text[] =
      "t0 table_wise cached 0:0+200000,0+64\nt1 table_wise 0:0+100000,0+64\n"
      "t2 table_wise host 0:0+100000,0+64\nt3 table_wise 0:0+400,0+64\n";
  static const char copies[] =
      "t0 table_wise 0:0+200000,0+64\nt1 table_wise 0:0+100000,0+64\n"
      "t2 data_parallel cached 0:0+100000,0+64\nt3 table_wise 0:0+400,0+64\n";
  ts_setting x;
  ts_plan *p = NULL;
  ts_str again = {0};
  open_tables(&x, 1);
  ck_assert_ok(ts_plan_parse(&p, text, &x.config));
  ck_assert_ok(ts_plan_check(p, &x.config, x.nodes));
  ck_assert_ok(ts_plan_print(&again, p, &x.config));
  ck_assert_ptr_nonnull(strstr(again.text, text));
  ck_assert_int_eq(ts_plan_n_kernels(p), 2);
  ts_plan_apply(&x.config, p, false);
  ck_assert(ts_table_is_open(&x.tables[0]) && ts_table_is_slow(&x.tables[2]));
  ck_assert(!ts_table_is_slow(&x.tables[1]) &&
            !ts_table_is_cached(x.tables + 2));
  ck_assert_str_eq(ts_table_tier(&x.tables[2]), "file");
  ts_plan_apply(&x.config, NULL, false);
  ck_assert(!ts_table_is_slow(&x.tables[0]));
  ts_plan_destroy(p);
  x.tables[0].kernel = fused;
  ck_assert_ok(ts_plan_parse(&p, text, &x.config));
  ck_assert_ptr_null(p->tables[0].kernel);
  ck_assert_str_eq(p->tables[2].kernel, "host");
  ts_plan_destroy(p);
  for (int t = 0; t < N; t++) x.tables[t].sharding = TS_SHARD_AUTO;
  ck_assert_ok(ts_plan_parse(&p, copies, &x.config));
  ck_assert_int_eq(ts_plan_check(p, &x.config, x.nodes), TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "can't be in slow memory"));
  ts_err_clear();
  ts_plan_destroy(p);
  ts_str_reset(&again);
  settle(&x);
}
