/* test_delta.c - checkpoints that build on others, against a plain model of
 * the rows: any split, rows that are others in the file, columns; compacted;
 * lists and parents that are wrong.  ranks: 1 2 3 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "io/checkpoint.h"
#include "io/checkpoint_impl.h"
#include "tests/support/folder.h"

enum { ROWS = 50003, COLS = 8, STEPS = 6 };
static const char TABLE[] = "model/t.weight", LIST[] = "delta/rows/t.weight";

static int keep = 9;

/* The table as it is after each step: the step that a row is of. */
static int32_t newest[STEPS + 1][ROWS];

static bool changes(int64_t row, int64_t step) {
  const uint64_t x = (uint64_t)row * 2654435761u + (uint64_t)step * 40503u;
  return x % 97 < 9 || (step == 3 && row / 1000 == 7) || row == ROWS - 1;
}

static float value(int64_t row, int64_t col, int64_t step) {
  return (float)(row % 1000 * 16 + col) + (float)newest[step][row] * 0.125f;
}

static void model_start(void) {
  for (int64_t r = 0; r < ROWS; r++)
    for (int s = 1; s <= STEPS; s++)
      newest[s][r] = s > 1 && !changes(r, s) ? newest[s - 1][r] : s;
}

static void begin(void) {
  model_start();
  folder_start();
}

TS_EACH_TEST_BETWEEN(begin, folder_stop)

/* ---- saving -------------------------------------------------------------- */

/* This rank's part of what a checkpoint of STEP holds. */
typedef struct ts_part {
  ts_ckpt c;
  float *rows;
  int64_t *list;
  int64_t n, place, all;
} ts_part;

static void cut(int rank, int64_t *from, int64_t *to) {
  *from = (int64_t)ROWS * rank / f.size;
  *to = (int64_t)ROWS * (rank + 1) / f.size;
}

static bool holds(int64_t row, int64_t step) {
  return step == 1 || changes(row, step);
}

static void part_start(ts_part *p, int64_t step) {
  int64_t from, to;
  *p = (ts_part){.c = {.step = step}};
  cut(f.rank, &from, &to);
  p->rows = calloc((size_t)(ROWS * COLS), sizeof *p->rows);
  p->list = calloc((size_t)(ROWS), sizeof *p->list);
  for (int64_t r = 0; r < ROWS; r++) {
    if (!holds(r, step)) continue;
    p->place += r < from;
    p->all++;
    if (r < from || r >= to) continue;
    p->list[p->n] = r;
    for (int64_t k = 0; k < COLS; k++)
      p->rows[p->n * COLS + k] = value(r, k, step);
    p->n++;
  }
}

static void part_reset(ts_part *p) {
  ts_ckpt_reset(&p->c);
  free(p->rows);
  free(p->list);
}

static ts_err save(ts_part *p, const ts_ckpt_point *parent, int64_t all) {
  ts_ckpt_item *item;
  if (parent) {
    p->c.kind = TS_CKPT_DELTA;
    p->c.parent = *parent;
    ck_assert_ok(ts_ckpt_add_item(&p->c, LIST, TS_I64, all, 0, &item));
    ck_assert_ok(ts_ckpt_add_piece(item, true, false, p->place, p->n, p->list));
  }
  ck_assert_ok(ts_ckpt_add_item(&p->c, TABLE, TS_F32, p->all, COLS, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, true, false, p->place, p->n, p->rows));
  if (parent) ts_ckpt_is_copy(item, f.size);
  return ts_ckpt_save(&p->c, dir, keep, "pwrite", f.comm);
}

static ts_ckpt_point saved(int64_t step, const ts_ckpt_point *parent) {
  ts_part p;
  part_start(&p, step);
  ck_assert_ok(save(&p, parent, p.all));
  ts_ckpt_point point = {step, p.c.seal, parent ? parent->number + 1 : 0};
  ck_assert_ok(ts_comm_bcast(f.comm, &point, sizeof point, 0));
  part_reset(&p);
  return point;
}

static ts_ckpt_point chain(int64_t last) {
  ts_ckpt_point at = saved(1, NULL);
  for (int64_t s = 2; s <= last; s++) at = saved(s, &at);
  return at;
}

static const char *path_of(const char *kind, int64_t step) {
  static char path[600];
  snprintf(path, sizeof path, "%s/%s-%08lld.h5", dir, kind, (long long)step);
  return path;
}

/* ---- loading ------------------------------------------------------------- */

/* Rows of another split, from PATH; true where they are those of STEP. */
static bool is_of(const char *path, int64_t step) {
  ts_ckpt c = {0};
  ts_ckpt_item *item;
  float *x = calloc((size_t)(ROWS * COLS), sizeof *x);
  const int64_t from = f.rank * 1234, to = ROWS - f.rank * 77;
  ck_assert_ok(ts_ckpt_add_item(&c, TABLE, TS_F32, ROWS, COLS, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, false, true, from, to - from, x));
  ck_assert_ok(ts_ckpt_load(&c, path, false, NULL, f.comm));
  bool good = c.step == step;
  for (int64_t i = 0; i < (to - from) * COLS; i++)
    good &= x[i] == value(from + i / COLS, i % COLS, step);
  ts_ckpt_reset(&c);
  free(x);
  return ts_test_all(good);
}

TS_TEST(rows_are_the_newest) {
  chain(STEPS);
  ck_assert(is_of(path_of("step", 1), 1));
  for (int64_t s = 2; s <= STEPS; s++) ck_assert(is_of(path_of("delta", s), s));
}

TS_TEST(columns_are_the_newest) {
  ts_ckpt c = {0};
  ts_ckpt_item *item;
  float *x = calloc((size_t)(ROWS * 3), sizeof *x);
  chain(STEPS);
  ck_assert_ok(ts_ckpt_add_item(&c, TABLE, TS_F32, ROWS, COLS, &item));
  ck_assert_ok(ts_ckpt_add_columns(
      item, (ts_ckpt_columns){f.rank, 500, ROWS - 501, 2, 3, x}));
  ck_assert_ok(ts_ckpt_load(&c, path_of("delta", STEPS), false, NULL, f.comm));
  bool good = true;
  for (int64_t i = 0; i < (ROWS - 501) * 3; i++)
    good &= x[i] == value(500 + i / 3, 2 + i % 3, STEPS);
  ck_assert_all(good);
  ts_ckpt_reset(&c);
  free(x);
}

/* Rows from behind to the front, every fifth none of the file's, in a type of
 * its own. */
TS_TEST(rows_that_are_others_in_the_file) {
  enum { HERE = 30000 };
  ts_ckpt c = {0};
  ts_ckpt_item *item;
  double *x = calloc((size_t)(HERE * COLS), sizeof *x);
  float *y = (float *)x;
  chain(STEPS);
  for (int64_t i = 0; i < HERE * COLS; i++) y[i] = -1;
  ck_assert_ok(ts_ckpt_add_item(&c, TABLE, TS_F32, HERE, COLS, &item));
  ck_assert_ok(ts_mem_many(item->from, HERE, MISC));
  for (int64_t i = 0; i < HERE; i++)
    item->from[i] = i % 5 == 4 ? -1 : ROWS - 1 - i;
  ck_assert_ok(ts_ckpt_add_piece(item, false, true, 11, HERE - 11, y));
  ck_assert_ok(ts_ckpt_load(&c, path_of("delta", STEPS), false, NULL, f.comm));
  bool good = true;
  for (int64_t i = 11; i < HERE; i++)
    for (int64_t k = 0; k < COLS; k++)
      good &= y[(i - 11) * COLS + k] ==
              (i % 5 == 4 ? -1 : value(ROWS - 1 - i, k, STEPS));
  ck_assert_all(good);
  ts_ckpt_reset(&c);
  free(x);
}

TS_TEST(compacted) {
  int64_t n;
  bool broken;
  const ts_ckpt_point third = chain(3);
  ck_assert_ok(ts_ckpt_compact(path_of("delta", 3), 9, &n, &broken, f.comm));
  ck_assert_int_eq(n, 2);
  ck_assert(is_of(path_of("step", 3), 3));
  ck_assert_all(access(path_of("delta", 3), F_OK) != 0);
  saved(4, &third); /* knows nothing of it */
  ck_assert(is_of(path_of("delta", 4), 4));
  ck_assert_ok(ts_ckpt_compact(path_of("delta", 4), 1, &n, &broken, f.comm));
  ck_assert_int_eq(n, 1);
  ck_assert_all(access(path_of("step", 3), F_OK) != 0); /* one is kept */
  ck_assert(is_of(path_of("step", 4), 4));
}

/* ---- what is refused ----------------------------------------------------- */

static void check_refused(int64_t step, const char *words) {
  ts_ckpt c = {0};
  ts_ckpt_item *item;
  float *x = calloc((size_t)(ROWS * COLS), sizeof *x);
  ck_assert_ok(ts_ckpt_add_item(&c, TABLE, TS_F32, ROWS, COLS, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, false, true, 0, ROWS, x));
  const ts_err err =
      ts_ckpt_load(&c, path_of("delta", step), false, NULL, f.comm);
  ck_assert_int_eq(err, TS_ERR_CKPT);
  if (!strstr(ts_err_message(), words))
    ck_abort_msg("\"%s\" lacks \"%s\"", ts_err_message(), words);
  ts_err_clear();
  ts_ckpt_reset(&c);
  free(x);
}

typedef enum { LOW, TWICE, HIGH, MORE, FEWER, WRONGS } ts_wrong;

TS_TESTS(lists_that_are_wrong, 0, WRONGS) {
  ts_part p;
  const ts_ckpt_point first = saved(1, NULL);
  part_start(&p, 2);
  const bool last = f.rank == f.size - 1;
  if (_i == LOW && f.rank == 0) p.list[0] = -1;
  if (_i == TWICE) p.list[p.n / 2] = p.list[p.n / 2 - 1];
  if (_i == HIGH && last) p.list[p.n - 1] = ROWS;
  const int64_t all = p.all + (_i == MORE) - (_i == FEWER);
  if (_i == MORE || _i == FEWER) { /* the list alone, by rank 0 */
    ts_ckpt_item *item;
    const int64_t n = p.n;
    p.c.kind = TS_CKPT_DELTA;
    p.c.parent = first;
    ck_assert_ok(ts_ckpt_add_item(&p.c, LIST, TS_I64, all, 0, &item));
    if (f.rank == 0)
      ck_assert_ok(ts_ckpt_add_piece(item, true, false, 0, n, p.list));
    ck_assert_ok(ts_ckpt_add_item(&p.c, TABLE, TS_F32, p.all, COLS, &item));
    ck_assert_ok(ts_ckpt_add_piece(item, true, false, p.place, n, p.rows));
    ck_assert_ok(ts_ckpt_save(&p.c, dir, 9, "pwrite", f.comm));
  } else {
    ck_assert_ok(save(&p, &first, all));
  }
  part_reset(&p);
  check_refused(2, "rows of model/t.weight are not those of a table of 50003");
}

TS_TEST(parents_that_are_wrong) {
  ts_ckpt_point first = saved(1, NULL), second = saved(2, &first);
  ts_ckpt_point wrong = second;
  wrong.seal ^= 1;
  saved(3, &wrong);
  check_refused(3, "another step 2 than that of ");
  wrong = second;
  wrong.number = 5; /* a link of another chain */
  saved(3, &wrong);
  check_refused(3, "another step 2 than that of ");
  wrong = second;
  wrong.step = 3; /* itself */
  saved(3, &wrong);
  check_refused(3, "does not say what it builds on");
  wrong.step = -2;
  saved(3, &wrong);
  check_refused(3, "does not say what it builds on");
  saved(3, &second);
  ck_assert(is_of(path_of("delta", 3), 3));
  if (f.rank == 0) unlink(path_of("step", 1));
  ck_assert_ok(ts_comm_barrier(f.comm));
  check_refused(3, "whose checkpoint is not beside it");
}

/* The newest full one need not be what a delta builds on. */
TS_TEST(deltas_remove_no_full_one) {
  ts_part p;
  const ts_ckpt_point first = saved(1, NULL);
  if (f.rank == 0) fclose(fopen(path_of("step", 9), "w"));
  part_start(&p, 2);
  keep = 1;
  ck_assert_ok(save(&p, &first, p.all));
  keep = 9;
  part_reset(&p);
  ck_assert(is_of(path_of("delta", 2), 2));
}

TS_TEST(not_compacted) {
  int64_t n;
  bool broken;
  saved(1, NULL);
  ck_assert_int_eq(ts_ckpt_compact(path_of("step", 1), 9, &n, &broken, f.comm),
                   TS_ERR_CKPT);
  ck_assert_ptr_nonnull(
      strstr(ts_err_message(), "is a full checkpoint already"));
  ts_err_clear();
  ck_assert_all(access(path_of("step", 1), F_OK) == 0);
}
