/* test_tbe_dynamic.c - ids of tables of any id become rows: in the order in
 * which they come, whatever threads find them, as a plain list of them has it.
 * ranks: 1 */
#include <omp.h>
#include <stdio.h>

#include "base/hash.h"
#include "sparse/index.h"
#include "tests/support/optim_config.h"
#include "tests/support/sparse_util.h"

enum { POOL = 6000, N = 5000, DIM = 4 };

/* A group of one table with two features, and what a list says of its ids. */
typedef struct {
  ts_device *device;
  ts_kernels kernels;
  ts_table_config config;
  ts_tbe *tbe;
  int32_t row[POOL]; /* 0: none */
  int32_t n;
} world;

static char name[] = "users", bytes[8 * N + 1];
static int64_t places[N];
static int32_t rows[N + 1];

/* Ids get a row in the LEAST-th step that they are met in. */
static void start_admitting(world *w, int64_t capacity, int threads,
                            int32_t least) {
  static const int32_t feature_table[] = {0, 0};
  memset(w, 0, sizeof *w);
  ck_assert_ok(ts_test_kernels(&w->kernels));
  ck_assert_ok(ts_test_device(&w->device, true, threads));
  omp_set_num_threads(threads);
  w->config = (ts_table_config){.name = name,
                                .rows = capacity,
                                .capacity = capacity,
                                .dim = DIM,
                                .init_scale = 0.5,
                                .admit.min_count = least};
  w->config.optimizer = test_optim("sgd", 0.1);
  ck_assert_ok(ts_row_optim_check(&w->config.optimizer, "t"));
  ts_tbe_table table = {.config = &w->config,
                        .table_id = 3,
                        .n_rows = ts_tbe_rows_of(&w->config, capacity),
                        .n_cols = DIM,
                        .n_parts = TS_INDEX_PARTS};
  const ts_tbe_spec spec = {.tables = &table,
                            .n_tables = 1,
                            .feature_table = feature_table,
                            .n_features = 2,
                            .seed = 42};
  ck_assert_ok(ts_tbe_create(&w->tbe, w->device, &w->kernels, &spec));
  ck_assert_ok(ts_tbe_init(w->tbe));
}

static void start(world *w, int64_t capacity, int threads) {
  start_admitting(w, capacity, threads, 1);
}

static void stop(world *w) {
  ts_tbe_destroy(w->tbe);
  ts_device_destroy(w->device);
}

static int64_t id_of(int64_t place) {
  static const int64_t some[] = {INT64_MIN, INT64_MAX, -1, 0};
  return place < 4 ? some[place] : (int64_t)ts_mix64((uint64_t)place + 77);
}

/* M ids of the first AMONG of the pool, at an odd address. */
static void draw(uint64_t *seed, int64_t m, int64_t among) {
  for (int64_t k = 0; k < m; k++) {
    places[k] = test_random(seed) % (uint32_t)among;
    const int64_t id = id_of(places[k]);
    memcpy(bytes + 1 + 8 * k, &id, 8);
  }
}

static void check_place(world *w, int feature, int64_t m, uint32_t batch) {
  rows[m] = -5;
  ck_assert_ok(ts_tbe_place(w->tbe, feature, rows, bytes + 1, m, batch, 0));
  ck_assert_int_eq(rows[m], -5);
  for (int64_t k = 0; k < m; k++) {
    int32_t *row = &w->row[places[k]];
    if (!*row && batch) *row = ++w->n;
    ck_assert_int_eq(rows[k], *row);
  }
  const ts_tbe_ids have = ts_tbe_ids_of(w->tbe, 0);
  ck_assert_int_eq(ts_index_n(have.index), w->n);
}

static void check_all(world *w) {
  static const int64_t sizes[] = {0, 1, 1023, 1024, 1025, 2048, 3000, N};
  uint64_t seed = 9;
  uint32_t batch = 0;
  for (int among = 500; among <= POOL; among += 500)
    for (int i = 0; i < 8; i++) {
      draw(&seed, sizes[i], among);
      check_place(w, i % 2, sizes[i], 0);
      check_place(w, i % 2, sizes[i], ++batch);
      check_place(w, i % 2, sizes[i], ++batch);
    }
  ck_assert_int_ge(w->n, POOL * 9 / 10);
}

/* The first rows, which have the weights of their ids on any threads. */
static void check_weights(world *a, world *b) {
  const float *x = ts_tbe_rows(a->tbe, 0, -1, &(int32_t){0}, &(ts_dtype){0});
  const float *y = ts_tbe_rows(b->tbe, 0, -1, &(int32_t){0}, &(ts_dtype){0});
  ck_assert_mem_eq(x, y, (size_t)(a->n + 1) * DIM * 4);
  for (int i = 0; i < DIM; i++) ck_assert(x[i] == 0 && x[DIM + i] != 0);
}

TS_TEST(as_a_list_has_them) {
  world w[3];
  for (int k = 0; k < 3; k++) {
    start(&w[k], 2 * POOL, k == 2 ? 5 : k + 1);
    check_all(&w[k]);
    check_weights(&w[k], &w[0]);
  }
  for (int k = 0; k < 3; k++) stop(&w[k]);
}

/* The first id that there is no row for is named; those before it have theirs.
 */
TS_TEST(full) {
  enum { CAPACITY = 2500 };
  world w;
  char said[200];
  uint64_t seed = 4;
  int64_t first = 0;
  start(&w, CAPACITY, 3);
  draw(&seed, N, POOL);
  for (; w.n < CAPACITY || w.row[places[first]]; first++)
    if (!w.row[places[first]]) w.row[places[first]] = ++w.n;
  ck_assert_int_eq(ts_tbe_place(w.tbe, 0, rows, bytes + 1, N, 1, 0),
                   TS_ERR_NOMEM);
  snprintf(said, sizeof said, "there is no row for id %lld (capacity = 2500",
           (long long)id_of(places[first]));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), said));
  ts_err_clear();
  check_place(&w, 1, first, 2);
  stop(&w);
}

/* ---- batches that are taken back ----------------------------------------- */

static const float *weights_of(const world *w, int64_t place) {
  const float *x = ts_tbe_rows(w->tbe, 0, -1, &(int32_t){0}, &(ts_dtype){0});
  uint32_t row;
  const int64_t id = id_of(place);
  ts_index_find(ts_tbe_ids_of(w->tbe, 0).index, &row, &id, 1);
  return row == TS_INDEX_NONE ? NULL : x + (size_t)row * DIM;
}

/* Ids that a forgotten batch has brought have no row; when they come again they
 * get the weights of their id.  Ids that were there before keep theirs. */
TS_TEST(forgotten) {
  enum { OLD = 400, AMONG = 900, M = 2500 };
  world w, other;
  uint64_t seed = 6, same = 6;
  start(&w, 2 * POOL, 2);
  start(&other, 2 * POOL, 2);
  draw(&seed, M, OLD);
  check_place(&w, 0, M, 1);
  const int32_t n = w.n;
  draw(&seed, M, AMONG);
  ck_assert_ok(ts_tbe_place(w.tbe, 1, rows, bytes + 1, M, 2, 0));
  ck_assert_int_gt(ts_index_n(ts_tbe_ids_of(w.tbe, 0).index), n);
  ck_assert_ok(ts_tbe_forget(w.tbe, 2));
  check_place(&w, 0, M, 0); /* as the model has it, which knows no batch 2 */
  ck_assert_int_eq(w.n, n);
  ck_assert_ok(ts_tbe_place(w.tbe, 1, rows, bytes + 1, M, 3, 0));
  for (int64_t k = 0; k < M; k++)
    ck_assert_int_eq(ts_tbe_ids_of(w.tbe, 0).born[rows[k]] == 3,
                     w.row[places[k]] == 0);
  draw(&same, M, OLD);
  draw(&same, M, AMONG);
  ck_assert_ok(ts_tbe_place(other.tbe, 0, rows, bytes + 1, M, 1, 0));
  for (int64_t k = 0; k < M; k++)
    ck_assert_mem_eq(weights_of(&w, places[k]), weights_of(&other, places[k]),
                     DIM * 4);
  stop(&w);
  stop(&other);
}

/* In how many steps ids were met, and whether they have a row. */
typedef struct {
  int32_t met[POOL];
  bool has[POOL], now[POOL];
} sights;

enum { LEAST = 3, SEEN = 300, BATCH = 200 };

/* A batch comes, whose ids count once for its step, with those before AGAIN. */
static void check_step(world *w, sights *s, uint64_t *seed, uint32_t batch,
                       bool again) {
  if (!again) memset(s->now, 0, sizeof s->now);
  draw(seed, BATCH, SEEN);
  ts_tbe_come(w->tbe, batch, again);
  ck_assert_ok(ts_tbe_place(w->tbe, 0, rows, bytes + 1, BATCH, batch, 0));
  for (int64_t k = 0; k < BATCH; k++) {
    const int64_t p = places[k];
    s->met[p] += !s->has[p] && !s->now[p];
    s->now[p] = true;
    s->has[p] |= s->met[p] >= LEAST;
    ck_assert_int_eq(rows[k] != 0, s->has[p]);
  }
}

TS_TEST(admitted) {
  static sights s, before;
  world w;
  uint64_t seed = 12;
  uint32_t batch = 0;
  memset(&s, 0, sizeof s);
  start_admitting(&w, 2 * POOL, 2, LEAST);
  for (int i = 0; i < 8; i++) {
    check_step(&w, &s, &seed, ++batch, false);
    before = s;
    const uint64_t then = seed;
    check_step(&w, &s, &seed, batch + 1, false);
    if (i % 2) { /* it, and what its step had more, are taken back */
      check_step(&w, &s, &seed, batch + 2, true);
      ck_assert_ok(ts_tbe_forget(w.tbe, batch + 1));
      s = before;
      seed = then;
      continue;
    }
    batch++;
  }
  for (int64_t p = 0; p < SEEN; p++)
    ck_assert_int_eq(weights_of(&w, p) != NULL, s.has[p]);
  stop(&w);
}
