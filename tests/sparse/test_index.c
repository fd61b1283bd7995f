/* test_index.c - rows of ids beside a plain model of them: which rows ids get,
 * what is found, erased and listed, in any order; memory and probes at the
 * highest load and after long use; memory that fails. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sparse/index.h"
#include "tests/support/walk.h"

enum { SEEDS = 1000, POOL = 4000, BATCH = 2500, OPS = 40 };

static uint64_t draws;

static uint64_t draw(uint64_t below) {
  return ts_mix64(++draws * UINT64_C(0x9e3779b97f4a7c15)) % below;
}

/* The id that has KEY: ts_mix64 the other way. */
static int64_t id_of_key(uint64_t x) {
  x ^= x >> 33;
  x *= UINT64_C(0x9cb4b2f8129337db);
  x ^= x >> 33;
  x *= UINT64_C(0x4f74430c22a54005);
  x ^= x >> 33;
  return (int64_t)x;
}

/* ---- the model ----------------------------------------------------------- */

/* Ids of a test are a pool, and known by their places in it. */
typedef struct model {
  ts_index *x;
  int64_t id[POOL];
  uint32_t row[POOL];
  uint32_t freed[POOL];
  int64_t n_pool, first_row, n_rows, n, n_used, n_freed;
} model;

typedef enum { SMALL, WIDE, ONE_HOME, ONE_RUN, KINDS } ids_kind;

static int64_t id_of(ids_kind kind, uint64_t k) {
  static const int64_t ends[] = {0, -1, INT64_MIN, INT64_MAX};
  if (k < 4 && kind <= WIDE) return ends[k];
  switch (kind) {
  case SMALL:
    return (int64_t)k - 3;
  case WIDE:
    return (int64_t)ts_mix64(k ^ UINT64_C(0x1234567800000000));
  /* All are at home in the last bucket, with a few fingerprints. */
  case ONE_HOME:
    return id_of_key(k << 34 | (k & 3) << 32 | UINT32_MAX);
  /* All are in one part, and in one run of its list. */
  default:
    return id_of_key(UINT64_C(0xabcdef) << 40 | ts_mix64(k) >> 24);
  }
}

static int64_t size_up_to(int64_t most) {
  return (int64_t)draw(((uint64_t)most >> draw(11)) + 1) + 1;
}

static void model_start(model *m, uint64_t seed) {
  const ids_kind kind = (ids_kind)(seed % KINDS);
  draws = seed << 32;
  memset(m, 0, sizeof *m);
  m->n_pool = size_up_to(kind == ONE_HOME ? 600 : POOL - 1);
  m->n_rows = size_up_to(POOL - 1);
  m->first_row =
      draw(2) ? (int64_t)draw(1000000) : (int64_t)TS_INDEX_NONE - m->n_rows;
  for (int64_t k = 0; k < m->n_pool; k++) {
    m->id[k] = id_of(kind, (uint64_t)k);
    m->row[k] = TS_INDEX_NONE;
  }
  ck_assert_ok(ts_index_create(&m->x, m->first_row, m->n_rows));
}

static bool model_insert(model *m, int64_t k) {
  if (m->row[k] != TS_INDEX_NONE || m->n == m->n_rows) return false;
  m->n++;
  m->row[k] = m->n_freed ? m->freed[--m->n_freed]
                         : (uint32_t)(m->first_row + m->n_used++);
  return true;
}

/* ---- one step of both ---------------------------------------------------- */

static int64_t ids[BATCH], fresh[BATCH], places[BATCH];
static uint32_t row[BATCH];

static int64_t draw_batch(const model *m) {
  const int64_t n = (int64_t)draw((uint64_t)BATCH >> draw(12));
  const uint64_t among = (uint64_t)size_up_to(m->n_pool - 1);
  for (int64_t i = 0; i < n; i++) {
    places[i] = (int64_t)draw(among);
    ids[i] = m->id[places[i]];
  }
  return n;
}

static void step_find(model *m) {
  const int64_t n = draw_batch(m);
  ts_index_find(m->x, row, ids, n);
  for (int64_t i = 0; i < n; i++) ck_assert_uint_eq(row[i], m->row[places[i]]);
}

/* Memory fails at the first, second or third block, in builds where it can:
 * the steps that follow find whether all is as before.  True: it did not come
 * to that, and the step is done. */
static bool insert_fails(model *m, int64_t n) {
#ifdef TS_FAULTS
  char fault[32];
  int64_t n_fresh;
  if (draw(2)) return false;
  snprintf(fault, sizeof fault, "alloc:rank0:nth%d", (int)draw(3) + 1);
  ck_assert_ok(ts_fault_set(fault, 0));
  const ts_err err = ts_index_insert(m->x, row, ids, n, fresh, &n_fresh);
  ck_assert_ok(ts_fault_set(NULL, 0));
  ts_err_clear();
  if (err != TS_OK) {
    ck_assert_int_eq(err, TS_ERR_NOMEM);
    ck_assert_int_eq(ts_index_n(m->x), m->n);
    return false;
  }
  for (int64_t i = 0, k = 0; i < n; i++)
    if (model_insert(m, places[i])) ck_assert_int_eq(fresh[k++], i);
  return true;
#else
  return (void)m, (void)n, false;
#endif
}

static void step_insert(model *m) {
  int64_t n_fresh = -1, n_model = 0;
  const int64_t n = draw_batch(m);
  if (insert_fails(m, n)) return;
  ck_assert_ok(ts_index_insert(m->x, row, ids, n, fresh, &n_fresh));
  for (int64_t i = 0; i < n; i++) {
    if (model_insert(m, places[i])) {
      ck_assert_int_lt(n_model, n_fresh);
      ck_assert_int_eq(fresh[n_model++], i);
    }
    ck_assert_uint_eq(row[i], m->row[places[i]]);
  }
  ck_assert_int_eq(n_fresh, n_model);
}

static void step_erase(model *m) {
  const int64_t n = draw_batch(m);
  for (int64_t i = 0; i < n; i++) {
    const int64_t k = places[i];
    const bool had = m->row[k] != TS_INDEX_NONE;
    ck_assert_int_eq(ts_index_erase(m->x, ids[i]), had);
    if (!had) continue;
    m->n--;
    m->freed[m->n_freed++] = m->row[k];
    m->row[k] = TS_INDEX_NONE;
  }
}

/* Ascending by key, as many as there are, each with its row: all of them. */
static void step_list(model *m) {
  static int64_t all[POOL];
  static uint32_t of[POOL], found[POOL];
  static bool taken[POOL];
  ck_assert_int_eq(ts_index_n(m->x), m->n);
  ck_assert_ok(ts_index_list(m->x, all, of));
  memset(taken, 0, sizeof taken);
  for (int64_t i = 0; i < m->n; i++) {
    const int64_t at = (int64_t)of[i] - m->first_row;
    ck_assert(at >= 0 && at < m->n_rows && !taken[at]);
    taken[at] = true;
    if (i > 0)
      ck_assert_uint_lt(ts_index_key(all[i - 1]), ts_index_key(all[i]));
  }
  ts_index_find(m->x, found, all, m->n);
  ck_assert(memcmp(found, of, (size_t)m->n * sizeof *of) == 0);
  ts_index_find(m->x, found, m->id, m->n_pool);
  ck_assert(memcmp(found, m->row, (size_t)m->n_pool * sizeof *of) == 0);
}

TS_TESTS(any_order, 0, SEEDS) {
  static model m;
  static void (*const steps[])(model *) = {step_insert, step_insert, step_find,
                                           step_erase, step_list};
  model_start(&m, (uint64_t)_i);
  for (int i = 0; i < OPS; i++) steps[draw(5)](&m);
  step_list(&m);
  ts_index_destroy(m.x);
}

/* ---- its size, and what a find takes ------------------------------------- */

enum { ROWS = 300000, CHURN = 50 };
static int64_t many[ROWS], many_fresh[ROWS];
static uint32_t many_row[ROWS];

static ts_index *full(int64_t n) {
  ts_index *x;
  int64_t n_fresh;
  ck_assert_ok(ts_index_create(&x, 0, n));
  for (int64_t i = 0; i < n; i++) many[i] = id_of(WIDE, (uint64_t)i);
  ck_assert_ok(ts_index_insert(x, many_row, many, n, many_fresh, &n_fresh));
  ck_assert_int_eq(n_fresh, n);
  return x;
}

/* In thousandths, of ids that have a row. */
static int64_t mean_steps(const ts_index *x, int64_t n, int64_t *most) {
  int64_t sum;
  ts_index_probes(x, many, n, &sum, most);
  ck_assert_int_le(*most, sum);
  return 1000 * sum / n;
}

/* 16 bytes an id when nine tenths of the rows are used; while it grows, those
 * of twice as many ids. */
TS_TESTS(memory_when_full, 0, 5) {
  const int64_t n = (const int64_t[]){100000, 130000, 177777, 262144, ROWS}[_i];
  int64_t most;
  ts_index *x = full(n);
  ck_assert_int_le(ts_index_bytes(x), 16 * (9 * n / 10));
  ck_assert_int_le(mean_steps(x, n, &most), 300);
  ck_assert_int_le(most, 120);
  ts_index_destroy(x);
  int64_t n_fresh;
  ck_assert_ok(ts_index_create(&x, 0, INT64_C(4000000000)));
  ck_assert_int_le(ts_index_bytes(x), 16384);
  ck_assert_ok(ts_index_insert(x, many_row, many, n, many_fresh, &n_fresh));
  ck_assert_int_le(ts_index_bytes(x), 2 * 16 * n);
  ts_index_destroy(x);
}

/* As many ids are there all the time, but others: a find takes no more steps
 * than about what it took. */
TS_TEST(long_use) {
  const int64_t n = 20000;
  int64_t most, n_fresh, next = n;
  ts_index *x = full(n);
  const int64_t before = mean_steps(x, n, &most);
  const int64_t bytes = ts_index_bytes(x);
  draws = 1;
  for (int64_t k = 0; k < CHURN * n; k++) {
    int64_t *id = &many[draw((uint64_t)n)];
    ck_assert(ts_index_erase(x, *id));
    *id = id_of(WIDE, (uint64_t)next++);
    ck_assert_ok(ts_index_insert(x, row, id, 1, fresh, &n_fresh));
    ck_assert_int_eq(n_fresh, 1);
  }
  ck_assert_int_le(mean_steps(x, n, &most), before + 50);
  ck_assert_int_le(most, 120);
  ck_assert_int_eq(ts_index_bytes(x), bytes);
  for (int64_t i = 0; i < n; i++) ck_assert(ts_index_erase(x, many[i]));
  ck_assert_int_eq(ts_index_n(x), 0);
  ck_assert_int_eq(mean_steps(x, n, &most), 0); /* nothing is left behind */
  ts_index_destroy(x);
}

/* ---- odd ones ------------------------------------------------------------ */

TS_TEST(no_rows) {
  ts_index *x;
  int64_t n_fresh = 1;
  const int64_t id = 7;
  ck_assert_ok(ts_index_create(&x, 5, 0));
  ck_assert_ok(ts_index_insert(x, row, &id, 1, fresh, &n_fresh));
  ck_assert_int_eq(n_fresh, 0);
  ck_assert_uint_eq(row[0], TS_INDEX_NONE);
  ts_index_find(x, row, NULL, 0);
  ck_assert_ok(ts_index_list(x, ids, row));
  ck_assert(!ts_index_erase(x, id));
  ts_index_destroy(x);
  ts_index_destroy(NULL);
}

TS_TEST(rows_beyond_32_bits) {
  ts_index *x;
  const int64_t n[][2] = {
      {-1, 5}, {0, -1}, {1, TS_INDEX_NONE}, {0, INT64_MAX}, {INT64_MAX, 5}};
  for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
    ck_assert_int_eq(ts_index_create(&x, n[i][0], n[i][1]), TS_ERR_INTERNAL);
    ck_assert_ptr_null(x);
    ts_err_clear();
  }
}

#ifdef TS_FAULTS
static ts_err life(void *arg) {
  ts_index *x;
  int64_t n_fresh;
  (void)arg;
  TS_DO(ts_index_create(&x, 0, BATCH));
  for (int64_t i = 0; i < BATCH; i++) ids[i] = i;
  ts_err err = ts_index_insert(x, row, ids, BATCH, fresh, &n_fresh);
  if (err == TS_OK) err = ts_index_list(x, ids, row);
  ts_index_destroy(x);
  return err;
}

TS_TEST(memory_fails) {
  walk(life, NULL, "alloc", 1 << TS_ERR_NOMEM);
}
#endif
