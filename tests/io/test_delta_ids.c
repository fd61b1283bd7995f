/* test_delta_ids.c - checkpoints of a dynamic table that build on others,
 * against a plain model: ids go, come and come again, more than a block of
 * them; any windows, in any order; compacted; an id that nobody has.
 * ranks: 1 2 3 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "io/checkpoint.h"
#include "io/checkpoint_impl.h"
#include "tests/support/folder.h"

enum { POOL = 400000, COLS = 2, STEPS = 6 };
#define TABLE "sparse_arch.embedding_bag_collection.embedding_bags.t.weight"

/* By keys: their ids, and the step that each one's row is of; 0: it has none.
 */
static uint64_t keys[POOL];
static int8_t written[STEPS + 1][POOL];

static int by_key(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static int64_t id_of(int64_t p) {
  return (int64_t)ts_unmix64(keys[p]);
}

/* Some come, some go, some are updated; in step 3 nearly all go. */
static int8_t next(int8_t before, int64_t p, int step) {
  const uint64_t x = ts_mix64((uint64_t)(p * 8 + step)) % 100;
  if (step == 1) return x < 80;
  if (step == 3 && p > 10 && p < POOL - 10) return x == 5 ? before : 0;
  if (!before) return x < 30 ? (int8_t)step : 0;
  if (x < 10) return 0;
  return x < 20 ? (int8_t)step : before;
}

static void begin(void) {
  for (int64_t p = 0; p < POOL; p++) keys[p] = ts_mix64((uint64_t)p * 3 + 5);
  qsort(keys, POOL, sizeof *keys, by_key);
  for (int s = 1; s <= STEPS; s++)
    for (int64_t p = 0; p < POOL; p++)
      written[s][p] = next(written[s - 1][p], p, s);
  folder_start();
}

TS_EACH_TEST_BETWEEN(begin, folder_stop)

static float value(int64_t p, int64_t col, int step) {
  return (float)(p % 100000 * COLS + col) + (float)written[step][p] * 0.125f;
}

/* ---- saving -------------------------------------------------------------- */

/* Places in the pool of this rank's part of the ids of STEP, or of those whose
 * rows are of it; of all there are ALL, BEFORE are other ranks'. */
typedef struct ts_part {
  int64_t *p, *ids;
  int64_t n, before, all;
} ts_part;

static void part_start(ts_part *x, int step, bool changed) {
  const int64_t from = (int64_t)POOL * f.rank / f.size;
  const int64_t to = (int64_t)POOL * (f.rank + 1) / f.size;
  *x = (ts_part){.p = calloc(POOL, 8), .ids = calloc(POOL, 8)};
  for (int64_t p = 0; p < POOL; p++) {
    if (!written[step][p] || (changed && written[step][p] != step)) continue;
    x->all++;
    x->before += p < from;
    if (p < from || p >= to) continue;
    x->p[x->n] = p;
    x->ids[x->n++] = id_of(p);
  }
}

static void part_reset(ts_part *x) {
  free(x->p);
  free(x->ids);
}

static ts_err add(ts_ckpt *c, const char *name, const ts_part *x, float *rows) {
  ts_ckpt_item *item;
  TS_DO(ts_ckpt_add_item(c, name, rows ? TS_F32 : TS_I64, x->all,
                         rows ? COLS : 0, &item));
  return ts_ckpt_add_piece(item, true, false, x->before, x->n,
                           rows ? (void *)rows : x->ids);
}

/* STRANGE: the list of ids has another in the place of its middle one. */
static ts_ckpt_point saved(int step, const ts_ckpt_point *parent,
                           bool strange) {
  ts_ckpt c = {.step = step};
  ts_part all, some;
  part_start(&all, step, false);
  part_start(&some, step, parent != NULL);
  float *rows = calloc((size_t)some.n * COLS + 1, sizeof *rows);
  for (int64_t i = 0; i < some.n * COLS; i++)
    rows[i] = value(some.p[i / COLS], i % COLS, step);
  if (strange && f.rank == f.size / 2) {
    int64_t *id = &all.ids[all.n / 2];
    *id = (int64_t)ts_unmix64(ts_mix64((uint64_t)*id) + 1);
  }
  ck_assert_ok(add(&c, "dynamic/t/ids", &all, NULL));
  if (parent) {
    c.kind = TS_CKPT_DELTA;
    c.parent = *parent;
    ck_assert_ok(add(&c, "delta/rows/" TABLE, &some, NULL));
  }
  ck_assert_ok(add(&c, "model/" TABLE, &some, rows));
  ck_assert_ok(ts_ckpt_save(&c, dir, 9, "pwrite", f.comm));
  ts_ckpt_point point = {step, c.seal, parent ? parent->number + 1 : 0};
  ck_assert_ok(ts_comm_bcast(f.comm, &point, sizeof point, 0));
  ts_ckpt_reset(&c);
  part_reset(&all);
  part_reset(&some);
  free(rows);
  return point;
}

static ts_ckpt_point chain(int last) {
  ts_ckpt_point at = saved(1, NULL, false);
  for (int s = 2; s <= last; s++) at = saved(s, &at, false);
  return at;
}

static const char *path_of(const char *kind, int step) {
  static char path[600];
  snprintf(path, sizeof path, "%s/%s-%08d.h5", dir, kind, step);
  return path;
}

/* ---- loading ------------------------------------------------------------- */

/* The place in STEP of an id that is the first one of a block in the full file,
 * where its row is; 0: there is none. */
static int64_t first_of_block(int step) {
  int64_t n = 0, k = 0;
  for (int64_t p = 0; p < POOL; p++) {
    const bool first = written[1][p] && n && n % (TS_BLOCK_BYTES / 8) == 0;
    if (first && written[step][p] == 1) return k;
    n += written[1][p] > 0;
    k += written[step][p] > 0;
  }
  return 0;
}

/* N_WINDOWS of the rows, in no order, which overlap; true where all are those
 * of STEP, as are the ids. */
static bool is_of(const char *path, int step, int n_windows) {
  ts_ckpt c = {0};
  ts_ckpt_item *ids, *item;
  ts_part all;
  int64_t from[8], m[8];
  float *x[8];
  uint64_t seed = (uint64_t)(f.rank + step);
  part_start(&all, step, false);
  int64_t *list = calloc((size_t)all.all, 8);
  ck_assert_ok(ts_ckpt_add_item(&c, "dynamic/t/ids", TS_I64, all.all, 0, &ids));
  ck_assert_ok(ts_ckpt_add_piece(ids, false, true, 0, all.all, list));
  ck_assert_ok(
      ts_ckpt_add_item(&c, "model/" TABLE, TS_F32, all.all, COLS, &item));
  for (int w = 0; w < n_windows; w++) {
    seed = ts_mix64(seed + 7);
    from[w] = w > 1 ? (int64_t)(seed % (uint64_t)all.all) : 0;
    if (!w) from[w] = first_of_block(step);
    m[w] = w == 1 ? all.all - from[w] : (all.all - from[w]) / (1 + w % 3);
    x[w] = calloc((size_t)m[w] * COLS, sizeof **x);
    ck_assert_ok(ts_ckpt_add_piece(item, false, true, from[w], m[w], x[w]));
  }
  ck_assert_ok(ts_ckpt_load(&c, path, false, NULL, f.comm));
  bool good = c.step == step;
  int64_t k = 0;
  for (int64_t p = 0; p < POOL; p++) {
    if (!written[step][p]) continue;
    good &= list[k] == id_of(p);
    for (int w = 0; w < n_windows; w++)
      for (int64_t i = 0; k >= from[w] && k < from[w] + m[w] && i < COLS; i++)
        good &= x[w][(k - from[w]) * COLS + i] == value(p, i, step);
    k++;
  }
  for (int w = 0; w < n_windows; w++) free(x[w]);
  free(list);
  part_reset(&all);
  ts_ckpt_reset(&c);
  return ts_test_all(good && k == all.all);
}

TS_TEST(rows_are_the_newest) {
  chain(STEPS);
  ck_assert(is_of(path_of("step", 1), 1, 3));
  for (int s = 2; s <= STEPS; s++) ck_assert(is_of(path_of("delta", s), s, 8));
}

TS_TEST(compacted) {
  int64_t n;
  bool broken;
  const ts_ckpt_point fourth = chain(4);
  ck_assert_ok(ts_ckpt_compact(path_of("delta", 4), 9, &n, &broken, f.comm));
  ck_assert_int_eq(n, 3);
  ck_assert(is_of(path_of("step", 4), 4, 2));
  saved(5, &fourth, false);
  ck_assert(is_of(path_of("delta", 5), 5, 4));
  ck_assert_ok(ts_ckpt_compact(path_of("delta", 5), 1, &n, &broken, f.comm));
  ck_assert(is_of(path_of("step", 5), 5, 4));
}

TS_TEST(an_id_that_nobody_has) {
  int64_t n;
  bool broken;
  ts_ckpt_point at = chain(2);
  at = saved(3, &at, false);
  (void)saved(4, &at, true);
  ck_assert_int_eq(ts_ckpt_compact(path_of("delta", 4), 9, &n, &broken, f.comm),
                   TS_ERR_CKPT);
  ck_assert(broken);
  ck_assert_ptr_nonnull(
      strstr(ts_err_message(), "the ids of table t are damaged"));
  ts_err_clear();
}
