/* test_planner_report.c - all that is said of a few plans, against
 * planner_report.txt: every term of an estimate is in it, since no two figures
 * of the machine are alike.  After a change that is meant to alter it: what
 * differs is printed, and TS_WRITE=FILE writes all of it.
 * ranks: 1 */
#include <math.h>
#include <stdlib.h>

#include "tests/shard/planner_setting.h"
#include "tests/support/walk.h"

#define T(kind, n, columns, ...)                                               \
  { .sharding = TS_SHARD_##kind, .rows = n, .dim = columns, __VA_ARGS__ }
#define BY(name) .optimizer = {name}
#define TWO .features = {.n = 2}
#define SLOW(where, factor)                                                    \
  .kernel = "cached",                                                          \
  .cache = {.tier = where, .policy = "lru", .load_factor = factor}
#define HOST(where) .kernel = "host", .cache = {.tier = where}

/* Each kind by itself, with two features, weights, positions, sequences;
 * optimizers with other states; slow memory. */
static const ts_table_config tables[] = {
    T(TABLE_WISE, 3000, 64, .weighted = true),
    T(ROW_WISE, 70000, 32, TWO, BY("adam")),
    T(COLUMN_WISE, 30000, 128, .dtype = TS_BF16),
    T(TABLE_ROW_WISE, 500000, 64, BY("sgd")),
    T(TABLE_COLUMN_WISE, 40000, 96, BY("lamb")),
    T(GRID, 60000, 64, TWO, BY("partial_rowwise_adam"), .max_length = 20),
    T(DATA_PARALLEL, 700, 16, BY("adam"), .weighted = true),
    T(ROW_WISE, 20000, 64, BY("sgd"), .max_length = 1),
    T(TABLE_WISE, 9000, 16, .pooling = TS_POOL_NONE),
    T(ROW_WISE, 90000, 64, BY("adam"), SLOW("file", 0.8)),
    T(TABLE_WISE, 80000, 64, BY("partial_rowwise_adam"), SLOW("host", NAN)),
    T(COLUMN_WISE, 50000, 64, HOST("file")),
    T(TABLE_WISE, 40000, 32, BY("sgd"), HOST("host")),
};
enum { N = sizeof tables / sizeof *tables };
/* Ids of a sample, of the second feature one more, and their law. */
static const double pooling[N] = {3, 2, 1, 5, 1.5, 4, 2.5, 7, 11, 6, 2, 1, 3};
static const double zipf[N] = {0, .7, 0, 1.1, .3, .9, 0, .5, .8, 1.2, .6, 1, 0};
static ts_plan_stats features[2 * N];
static char names[2 * N][16], *item[2 * N];

/* On a machine of primes. */
static void tables_on(ts_setting *x, int n_ranks, int per_node) {
  static char bf16[] = "bf16", int8[] = "int8";
  static const double prime[] = {2,  17, 3,  5,  0.7, 7,  11, 13, 19,
                                 23, 29, 1,  .1, 31,  37, 41, 43, 47,
                                 53, 59, 61, 67, 71,  73, 79, 83};
  int n = 0;
  setting(x, N, n_ranks, per_node);
  for (int t = 0; t < N; t++) {
    ts_table_config *c = &x->tables[t];
    *c = tables[t];
    c->name = x->names[t];
    c->features.item = &item[n]; /* of its own */
    if (!c->features.n) c->features.n = 1;
    if (!c->optimizer.kind) c->optimizer.kind = rowwise;
    c->cache.passes = t == 9 ? 3 : 0;
    for (int k = 0; k < c->features.n; k++, n++) {
      snprintf(names[n], sizeof names[n], "f%d", n);
      item[n] = names[n];
      features[n] = ts_plan_stats_law(c->rows, zipf[t], pooling[t] + k);
      if (t == 9 || t == 10) { /* of a sample, of half of the rows or more */
        features[n].by_law = false;
        features[n].distinct = (t == 9 ? 0.45 : 0.6) * (double)c->rows;
      }
      for (int b = 0; t % 2 && b < TS_STATS_BLOCKS; b++)
        features[n].block[b] = (b + 1.0) / 136;
    }
  }
  for (int i = 0; i < ts_topology_n_figures(); i++)
    *ts_topology_figure(&x->topology, i) = prime[i];
  x->config.sharding.min_column = 16;
  x->config.sharding.comm_dtype_forward = int8;
  x->config.sharding.comm_dtype_backward = bf16;
  x->request.stats = features;
  x->request.batch = 1000;
  x->request.n_ebc_batches = 2;
  x->request.memory_bytes = 1e9;
  x->request.dense = (ts_plan_dense){1e7, 2e7, 3e6, 4e6, 0, 5e5, 0};
}

/* ---- what is said -------------------------------------------------------- */

/* The report of a plan by size on a discrete device, of several ranks as people
 * read it, too; HIDDEN: where input and rows come under the step before. */
static void made(ts_str *s, int n_ranks, int per_node, bool hidden) {
  ts_setting x;
  ts_plan *p = NULL;
  ts_plan_report *r = NULL;
  tables_on(&x, n_ranks, per_node);
  x.request.discrete = !hidden;
  if (hidden) x.config.sharding.comm_dtype_forward = f32;
  x.request.hides_input = x.request.hides_rows = hidden;
  ck_assert_ok(ts_plan_make(&p, &x.config, x.nodes));
  ck_assert_ok(ts_plan_estimate(&r, p, &x.request));
  if (n_ranks == 6) ck_assert_ok(ts_plan_report_print(s, r, p, &x.request, 2));
  json_t *json = ts_plan_report_json(r, p, &x.request);
  char *text =
      json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
  const ts_err err = ts_str_append(s, "%s\n", text);
  ck_assert_ok(err);
  free(text);
  json_decref(json);
  ts_plan_report_destroy(r);
  ts_plan_destroy(p);
  settle(&x);
}

/* The plan that is searched for, its lines and passes. */
static ts_err search(ts_str *s, const ts_setting *x) {
  ts_err err = TS_OK;
  ts_plan *p = NULL, *q = NULL, *by_size = NULL;
  ts_plan_report *r = NULL;
  double factor[N];
  int32_t passes;
  const size_t before = s->n_bytes;
  TS_TRY(ts_plan_make(&by_size, &x->config, x->nodes));
  TS_TRY(ts_plan_search(&p, &r, &x->request));
  TS_TRY(ts_plan_lines(factor, p, &x->request));
  r->limit = r->memory_bytes + 20000;
  TS_TRY(ts_plan_passes(&passes, p, r, &x->request));
  TS_TRY(ts_plan_print(s, p, &x->config));
  TS_TRY(ts_plan_parse(&q, s->text + before, &x->config));
  TS_TRY(ts_plan_check(q, &x->config, x->nodes));
  TS_TRY(ts_plan_obeys(q, &x->config, x->nodes));
  TS_TRY(ts_str_append(s,
                       "tried %d: %.9g ms, %.9g bytes, lines %.9g, passes %d\n",
                       (int)r->n_tried, r->step_ms, r->memory_bytes,
                       factor[p->n_tables * 10 / N], passes));
done:
  ts_plan_report_destroy(r);
  ts_plan_destroy(p);
  ts_plan_destroy(q);
  ts_plan_destroy(by_size);
  return err;
}

/* With all kinds where it is OPEN; or why there is none. */
static void found(ts_str *s, int n_ranks, int per_node, double bytes,
                  bool open) {
  ts_setting x;
  tables_on(&x, n_ranks, per_node);
  x.request.memory_bytes = bytes;
  for (int t = 0; open && t < N; t++) x.tables[t].sharding = TS_SHARD_AUTO;
  if (search(s, &x)) {
    const ts_err err = ts_str_append(s, "%s\n", ts_err_message());
    ck_assert_ok(err);
    ts_err_clear();
  }
  settle(&x);
}

TS_TEST(all_that_is_said) {
  ts_str s = {0}, kept = {0};
  char path[4096];
  made(&s, 6, 3, false);
  made(&s, 3, 1, true);
  made(&s, 1, 0, false);
  found(&s, 7, 3, 145e6, true);
  found(&s, 7, 3, 30e6, true);
  found(&s, 2, 1, 150e6, false);
  const char *out = getenv("TS_WRITE");
  if (out) {
    FILE *f = fopen(out, "w");
    ck_assert(f && fputs(s.text, f) >= 0 && fclose(f) == 0);
  }
  snprintf(path, sizeof path, "%s/tests/shard/planner_report.txt",
           getenv("srcdir"));
  ck_assert_ok(ts_file_read(&kept, path));
  const char *now = s.text, *was = kept.text;
  while (*now && *now == *was) now++, was++;
  ck_assert_msg(*now == *was, "byte %d: \"%.70s\", kept is \"%.70s\"",
                (int)(now - s.text), now, was);
  ts_str_reset(&s);
  ts_str_reset(&kept);
}

#ifdef TS_FAULTS
static ts_err search_all(void *x) {
  ts_str s = {0};
  const ts_err err = search(&s, x);
  ts_str_reset(&s);
  return err;
}

/* Whichever allocation fails, it is said, and nothing is lost: after the last
 * one all is well.  With sanitizers, which are slow, at fewer places. */
TS_TESTS(no_memory, 0, 3) {
  static char open[] = "auto", disk[] = "/disk";
  ts_plan *p = NULL;
  ts_setting x;
  tables_on(&x, 4, 2);
  x.config.n_tables = 1;
  x.tables[0] = x.tables[_i ? 10 : 5];
  x.tables[0].sharding = TS_SHARD_AUTO;
  x.request.memory_bytes = _i ? 55e6 : 1e9;
  if (_i == 2) {
    x.tables[0].kernel = open;
    x.config.run.tier_dir = disk;
    x.request.memory_bytes = 42e6;
    ck_assert_ok(ts_plan_search(&p, NULL, &x.request));
    ck_assert_int_eq(ts_plan_n_kernels(p), 1);
    ts_plan_destroy(p);
  }
  if (getenv("TESSERA_SANITIZED"))
    walk_some(search_all, &x, "alloc", 60, 1u << TS_ERR_NOMEM);
  else
    walk(search_all, &x, "alloc", 1u << TS_ERR_NOMEM);
  settle(&x);
}
#endif
