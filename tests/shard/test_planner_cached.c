/* test_planner_cached.c - lines and passes that the planner gives tables in
 * slow memory. */
#include <math.h>

#include "base/rng.h"
#include "sparse/cache.h"
#include "tests/shard/planner_setting.h"

static char sgd[] = "sgd", adam[] = "adam";

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
TS_TEST(lines_fill_memory) {
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

/* Tables of a group have one load factor; and the report says which,
 * and who chose it. */
TS_TEST(lines_of_groups) {
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

/* The fewest passes whose scratch fits what is left; where lines fill the
 * memory, too, one pass still has room. */
TS_TEST(passes_fit) {
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
  x.request.discrete = true; /* all that a device takes */
  ck_assert_ok(ts_plan_passes(&passes, p, r, &x.request));
  ck_assert_int_eq(passes, TS_CACHE_PASSES_MAX);
  x.request.discrete = false;
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

/* A sample of ids says about as much as the law that they were drawn by, of
 * tables with more rows than the sample has ids, too. */
TS_TEST(hits_by_sample) {
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

/* Whoever makes the plan. */
TS_TEST(replicas_have_no_cache) {
  static const char text[] = "t0 data_parallel 0:0+1000000,0+64 "
                             "1:0+1000000,0+64";
  ts_setting x;
  ts_plan *p = NULL;
  cached_tables(&x);
  x.config.n_tables = 1;
  x.tables[0].sharding = TS_SHARD_DATA_PARALLEL;
  ck_assert_ok(ts_plan_parse(&p, text, &x.config));
  for (int way = 0; way < 3; way++) {
    ts_plan *made = NULL;
    const ts_err err = way == 0   ? ts_plan_search(&made, NULL, &x.request)
                       : way == 1 ? ts_plan_make(&made, &x.config, x.nodes)
                                  : ts_plan_check(p, &x.config, x.nodes);
    ck_assert_int_eq(err, TS_ERR_DECK);
    ck_assert_ptr_nonnull(strstr(ts_err_message(),
                                 "table t0: every rank has all of a "
                                 "data_parallel table: it can't be cached"));
    ts_err_clear();
  }
  ts_plan_destroy(p);
  settle(&x);
}
