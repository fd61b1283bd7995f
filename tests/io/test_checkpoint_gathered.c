/* test_checkpoint_gathered.c - checkpoints of rows that lie scattered in
 * memory.  ranks: 1 2 4 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config.h"
#include "tests/support/folder.h"
#include "io/checkpoint.h"

#ifdef HAVE_PARALLEL_HDF5
enum { N_IOS = 2 };
#else
enum { N_IOS = 1 };
#endif
static const char *const ios[] = {"pwrite", "mpio"};

TS_EACH_TEST_BETWEEN(folder_start, folder_stop)

/* ---- what is saved ------------------------------------------------------- */

/* The third has more bytes than a bite, which ends inside a row; the last has
 * more than a round of MPI-IO on one rank. */
static const struct {
  const char *name;
  ts_dtype dtype;
  int64_t rows, cols;
} shapes[] = {{"model/numbers", TS_F32, 70001, 0},
              {"model/narrow", TS_BF16, 70001, 1},
              {"optim/table/keys", TS_I64, 170003, 7},
              {"model/table", TS_F32, 70001, 128}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, SPARE = 1000 };

/* This rank's rows of each: n, at random places among SPARE that nobody
 * writes. */
typedef struct content {
  ts_ckpt c;
  char *rows[N_SHAPES], *plain[N_SHAPES]; /* plain: following each other */
  uint32_t *at[N_SHAPES];
  int64_t from[N_SHAPES], n[N_SHAPES], row[N_SHAPES];
} content;

static uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
  return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* A row's elements: all but two bits of each are random. */
static void fill_row(char *to, int s, int64_t row) {
  const int size = (int)ts_dtype_bytes(shapes[s].dtype);
  const int64_t cols = shapes[s].cols ? shapes[s].cols : 1;
  for (int64_t k = 0; k < cols; k++) {
    const uint64_t x =
        mixed((uint64_t)((row * cols + k) * 4 + s)) >> (66 - 8 * size);
    memcpy(to + k * size, &x, (size_t)size);
  }
}

/* The numbers [0, n) in a random order. */
static void draw_places(uint32_t *at, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const int64_t k =
        (int64_t)(mixed((uint64_t)(i * 7 + f.rank)) % (uint64_t)(i + 1));
    at[i] = at[k];
    at[k] = (uint32_t)i;
  }
}

/* The spare ones are no numbers. */
static void scatter(content *t) {
  memset(t, 0, sizeof *t);
  for (int s = 0; s < N_SHAPES; s++) {
    const int64_t k = (int64_t)f.size * (f.size + 1) / 2, all = shapes[s].rows;
    t->from[s] = all * (f.rank * (f.rank + 1) / 2) / k;
    t->n[s] = all * ((f.rank + 1) * (f.rank + 2) / 2) / k - t->from[s];
    t->row[s] = (int64_t)ts_dtype_bytes(shapes[s].dtype) *
                (shapes[s].cols ? shapes[s].cols : 1);
    const int64_t n = t->n[s] + SPARE, row = t->row[s];
    ck_assert_ok(ts_mem_many(t->at[s], n, MISC));
    ck_assert_ok(ts_mem_many(t->rows[s], n * row, MISC));
    ck_assert_ok(ts_mem_many(t->plain[s], t->n[s] * row, MISC));
    memset(t->rows[s], 0xff, (size_t)(n * row));
    draw_places(t->at[s], n);
    for (int64_t i = 0; i < t->n[s]; i++) {
      fill_row(t->plain[s] + i * row, s, t->from[s] + i);
      memcpy(t->rows[s] + t->at[s][i] * row, t->plain[s] + i * row,
             (size_t)row);
    }
  }
}

/* GATHERED: two pieces each, else one to write and to read. */
static void describe(content *t, int64_t step, bool gathered) {
  ts_ckpt_item *item;
  t->c = (ts_ckpt){.step = step};
  for (int s = 0; s < N_SHAPES; s++) {
    const int64_t from = t->from[s], n = t->n[s], cut = n / 40;
    ck_assert_ok(ts_ckpt_add_item(&t->c, shapes[s].name, shapes[s].dtype,
                                  shapes[s].rows, shapes[s].cols, &item));
    if (!gathered) {
      ck_assert_ok(ts_ckpt_add_piece(item, true, true, from, n, t->plain[s]));
      continue;
    }
    ck_assert_ok(ts_ckpt_add_gathered(item, from, cut, t->rows[s], t->at[s]));
    ck_assert_ok(ts_ckpt_add_gathered(item, from + cut, n - cut, t->rows[s],
                                      t->at[s] + cut));
  }
}

static void reset(content *t) {
  ts_ckpt_reset(&t->c);
  for (int s = 0; s < N_SHAPES; s++)
    ts_mem_free_all(t->rows[s], t->plain[s], t->at[s]);
}

/* What training does once it may: rows move, and are no numbers. */
static void move_rows(void *arg) {
  content *t = arg;
  for (int s = 0; s < N_SHAPES; s++) {
    memset(t->rows[s], 0xff, (size_t)((t->n[s] + SPARE) * t->row[s]));
    memset(t->at[s], 0, (size_t)t->n[s] * sizeof *t->at[s]);
  }
}

/* ---- tests --------------------------------------------------------------- */

/* The file of STEP has all rows, and their checksums.  (Files of equal rows
 * are not equal themselves: HDF5 notes the second.) */
static bool comes_back(content *t, int64_t step) {
  char path[512], *row;
  bool good = true;
  for (int s = 0; s < N_SHAPES; s++)
    memset(t->plain[s], 0xee, (size_t)(t->n[s] * t->row[s]));
  describe(t, 0, false);
  snprintf(path, sizeof path, "%s/step-%08lld.h5", dir, (long long)step);
  ck_assert_ok(ts_ckpt_load(&t->c, path, false, NULL, f.comm));
  ck_assert_int_eq(t->c.step, step);
  ts_ckpt_reset(&t->c);
  ck_assert_ok(ts_mem_many(row, 1 << 10, MISC));
  for (int s = 0; s < N_SHAPES; s++)
    for (int64_t i = 0; i < t->n[s]; i++) {
      fill_row(row, s, t->from[s] + i);
      good &= !memcmp(row, t->plain[s] + i * t->row[s], (size_t)t->row[s]);
    }
  ts_mem_free(row);
  return good;
}

TS_TESTS(rows_are_written_in_order, 0, N_IOS) {
  content t;
  scatter(&t);
  describe(&t, 5, true);
  ck_assert_ok(ts_ckpt_save(&t.c, dir, 2, ios[_i], f.comm));
  ts_ckpt_reset(&t.c);
  ck_assert_all(comes_back(&t, 5));
  reset(&t);
}

/* Room for nothing, for half of it, for all; what moves then is not read. */
TS_TESTS(rows_are_copied, 0, 3 * N_IOS) {
  const int part = _i % 3;
  content t;
  void *room;
  int64_t copied;
  scatter(&t);
  describe(&t, 6, true);
  const int64_t all = ts_ckpt_own_room(&t.c, f.rank), some = all * part / 2;
  const ts_ckpt_hooks hooks = {.read = move_rows, .arg = &t};
  ck_assert_ok(ts_mem_alloc(&room, (size_t)some + 64, TS_TAG_MISC));
  ck_assert_ok(ts_ckpt_copy(&t.c, room, some, 2, &copied, f.comm));
  if (part == 2)
    ck_assert_int_eq(copied, ts_ckpt_own_bytes(&t.c, f.rank));
  else
    ck_assert(copied <= some && (copied > 0) == (part > 0));
  if (_i < 3) {
    ck_assert_ok(ts_ckpt_save_hooked(&t.c, dir, 2, f.comm, &hooks));
  } else {
    if (part == 2) move_rows(&t);
    ck_assert_ok(ts_ckpt_save(&t.c, dir, 2, ios[1], f.comm));
  }
  ts_ckpt_reset(&t.c);
  ts_mem_free(room);
  ck_assert_all(comes_back(&t, 6));
  reset(&t);
}

/* The last row that is written, wherever it lies: it is said which, to the
 * 4096 elements that are judged at once. */
TS_TESTS(what_is_no_number_is_found, 0, N_IOS) {
  const float bad = NAN;
  const int s = N_SHAPES - 1;
  content t;
  scatter(&t);
  if (f.rank == f.size - 1)
    memcpy(t.rows[s] + t.at[s][t.n[s] - 1] * t.row[s], &bad, sizeof bad);
  describe(&t, 7, true);
  ck_assert_all(ts_ckpt_save(&t.c, dir, 2, ios[_i], f.comm) == TS_ERR_NAN);
  const char *said = strstr(ts_err_message(), " table has weights");
  ck_assert_ptr_nonnull(said);
  said = strstr(said, "near row ");
  ck_assert_ptr_nonnull(said);
  const int64_t row = strtoll(said + 9, NULL, 10), last = shapes[s].rows - 1;
  ck_assert(row <= last && row > last - 4096 / shapes[s].cols);
  ts_err_clear();
  reset(&t);
}
