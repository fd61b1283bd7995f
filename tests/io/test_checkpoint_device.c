/* test_checkpoint_device.c - checkpoints of rows and columns in memory that
 * the host may not touch, and the staging that brings them.  On the fake
 * device unless TESSERA_BACKEND says otherwise.
 * ranks: 1 3 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config.h"
#include "tests/support/folder.h"
#include "io/checkpoint.h"
#include "runtime/staging.h"

/* More than a bite of 8 MiB on one rank. */
enum { ROWS = 200001, COLS = 12, PARTS = 3 };
#ifdef HAVE_PARALLEL_HDF5
enum { N_IOS = 2 };
#else
enum { N_IOS = 1 };
#endif

static ts_device *device;

static void start(void) {
  folder_start();
  ck_assert_ok(ts_test_device(&device, false, 1));
}

static void stop(void) {
  ts_device_destroy(device);
  folder_stop();
}

TS_EACH_TEST_BETWEEN(start, stop)

/* ---- what is saved ------------------------------------------------------- */

/* Whole rows of a table, some columns of another, a number for each row. */
typedef struct content {
  ts_ckpt c;
  ts_buffer part[PARTS];
  int64_t from, n, n_elements[PARTS];
  int32_t col0, n_cols;
} content;

static float value(int64_t row, int col) {
  return (float)((row * 31 + col * 7) % 128);
}

/* This rank's element I of a part. */
static float element(const content *t, int part, int64_t i) {
  if (part == 0) return value(t->from + i / COLS, (int)(i % COLS));
  if (part == 1) return value(i / t->n_cols, t->col0 + (int)(i % t->n_cols));
  return value(t->from + i, 99);
}

static void describe(content *t, ts_dtype dtype) {
  static const char *const names[] = {"model/rows", "model/columns",
                                      "optim/numbers"};
  ts_ckpt_item *item;
  for (int p = 0; p < PARTS; p++) {
    ck_assert_ok(ts_ckpt_add_item(&t->c, names[p], p == 2 ? TS_F32 : dtype,
                                  ROWS, p == 2 ? 0 : COLS, &item));
    if (p != 1)
      ck_assert_ok(
          ts_ckpt_add_piece(item, true, true, t->from, t->n, t->part[p].ptr));
    for (int r = 0; p == 1 && r < f.size; r++) {
      const int32_t a = COLS * r / f.size, z = COLS * (r + 1) / f.size;
      ck_assert_ok(ts_ckpt_add_columns(
          item, (ts_ckpt_columns){r, 0, ROWS, a, z - a,
                                  r == f.rank ? t->part[1].ptr : NULL}));
    }
  }
}

static void set(content *t, int part, const void *from, ts_dtype dtype) {
  ts_test_put(device, t->part[part].ptr, from,
              (size_t)t->n_elements[part] * ts_dtype_bytes(dtype));
}

/* Elements as they should be, or 0. */
static void fill(content *t, ts_dtype dtype, bool values) {
  memset(t, 0, sizeof *t);
  t->c.step = 7;
  t->from = (int64_t)ROWS * f.rank / f.size;
  t->n = (int64_t)ROWS * (f.rank + 1) / f.size - t->from;
  t->col0 = COLS * f.rank / f.size;
  t->n_cols = COLS * (f.rank + 1) / f.size - t->col0;
  t->n_elements[0] = t->n * COLS;
  t->n_elements[1] = (int64_t)ROWS * t->n_cols;
  t->n_elements[2] = t->n;
  for (int p = 0; p < PARTS; p++) {
    float *x;
    ck_assert_ok(ts_mem_many(x, t->n_elements[p], MISC));
    for (int64_t i = 0; values && i < t->n_elements[p]; i++)
      x[i] = element(t, p, i);
    ck_assert_ok(ts_buffer_create(&t->part[p], device,
                                  (size_t)t->n_elements[p] * 4, TS_SPACE_DEVICE,
                                  TS_TAG_MISC));
    if (values) set(t, p, x, TS_F32);
    ts_mem_free(x);
  }
  describe(t, dtype);
  ck_assert_ok(ts_ckpt_on(&t->c, device));
}

static bool right(const content *t, ts_dtype dtype) {
  bool good = true;
  for (int p = 0; p < PARTS; p++) {
    const ts_dtype type = p == 2 ? TS_F32 : dtype;
    const int64_t n = t->n_elements[p];
    float *x, *wide;
    ck_assert_ok(ts_mem_many(x, n, MISC));
    ck_assert_ok(ts_mem_many(wide, n, MISC));
    ts_test_get(device, x, t->part[p].ptr, (size_t)n * ts_dtype_bytes(type));
    ts_to_f32(wide, x, type, n);
    for (int64_t i = 0; i < n; i++) good &= wide[i] == element(t, p, i);
    ts_mem_free_all(x, wide);
  }
  return good;
}

static void reset(content *t) {
  ts_ckpt_reset(&t->c);
  for (int p = 0; p < PARTS; p++) ts_buffer_reset(&t->part[p]);
}

/* The newest, with tables of DTYPE. */
static bool newest_is_right(ts_dtype dtype) {
  content t;
  ts_str path = {0};
  fill(&t, dtype, false);
  ck_assert_ok(ts_ckpt_load_newest(&t.c, &path, dir, NULL, NULL, NULL, f.comm));
  const bool good = t.c.step == 7 && right(&t, dtype);
  ts_str_reset(&path);
  reset(&t);
  return good;
}

/* ---- tests --------------------------------------------------------------- */

TS_TESTS(round_trip, 0, N_IOS) {
  static const char *const ios[] = {"pwrite", "mpio"};
  content t;
  fill(&t, TS_F32, true);
  ck_assert_ok(ts_ckpt_save(&t.c, dir, 2, ios[_i], f.comm));
  reset(&t);
  ck_assert_all(newest_is_right(TS_F32));
  ck_assert_all(newest_is_right(TS_BF16));
}

/* What training does meanwhile. */
static void overwrite(void *arg) {
  content *t = arg;
  float *none;
  for (int p = 0; p < PARTS; p++) {
    ck_assert_ok(ts_mem_many(none, t->n_elements[p], MISC));
    set(t, p, none, TS_F32);
    ts_mem_free(none);
  }
}

/* Room for nothing, for some of it, for all. */
TS_TESTS(copies, 0, 3) {
  content t;
  void *room;
  int64_t copied;
  fill(&t, TS_F32, true);
  const int64_t all = ts_ckpt_own_room(&t.c, f.rank), some = all * _i / 2;
  const ts_ckpt_hooks hooks = {.read = overwrite, .arg = &t};
  ck_assert_ok(ts_mem_alloc(&room, (size_t)some + 64, TS_TAG_MISC));
  ck_assert_ok(ts_ckpt_copy(&t.c, room, some, 2, &copied, f.comm));
  ck_assert(_i < 2 ? copied <= some
                   : copied == ts_ckpt_own_bytes(&t.c, f.rank));
  ck_assert_ok(ts_ckpt_save_hooked(&t.c, dir, 2, f.comm, &hooks));
  reset(&t);
  ts_mem_free(room);
  ck_assert_all(newest_is_right(TS_F32));
}

/* Rows are others in the file, or none; it is read from two places, as some
 * are of its beginning. */
static int64_t row_there(int64_t row) {
  return row % 1000 == 1 || row / 1000 % 7 == 0 ? -1 : (row + 50000) % ROWS;
}

/* This rank's element I of a part where its rows are those of row_there. */
static float moved(const content *t, int part, int64_t i) {
  const int64_t width = part == 0 ? COLS : part == 1 ? t->n_cols : 1;
  const int64_t first = part == 1 ? 0 : t->from;
  const int64_t row = row_there(first + i / width);
  if (row < 0) return 0;
  return part == 2 ? value(row, 99)
                   : value(row, (part == 1 ? t->col0 : 0) + (int)(i % width));
}

static void take_from(content *t, int64_t (*from)(int64_t)) {
  for (int32_t k = 0; k < t->c.n_items; k++) {
    int64_t **to = &t->c.items[k].from;
    ck_assert_ok(ts_mem_many(*to, ROWS, MISC));
    for (int64_t row = 0; row < ROWS; row++) (*to)[row] = from(row);
  }
}

static int64_t row_behind(int64_t row) {
  return row + 1;
}

TS_TESTS(rows_that_are_others_in_the_file, 0, N_IOS) {
  static const char *const ios[] = {"pwrite", "mpio"};
  content t;
  ts_str path = {0};
  fill(&t, TS_F32, true);
  ck_assert_ok(ts_ckpt_save(&t.c, dir, 2, ios[_i], f.comm));
  overwrite(&t);
  take_from(&t, row_there);
  ck_assert_ok(ts_ckpt_load_newest(&t.c, &path, dir, NULL, NULL, NULL, f.comm));
  for (int p = 0; p < PARTS; p++) {
    float *x;
    bool good = true;
    ck_assert_ok(ts_mem_many(x, t.n_elements[p], MISC));
    ts_test_get(device, x, t.part[p].ptr, (size_t)t.n_elements[p] * 4);
    for (int64_t i = 0; i < t.n_elements[p]; i++)
      good &= x[i] == moved(&t, p, i);
    ck_assert_all(good);
    ts_mem_free(x);
  }
  reset(&t);
  fill(&t, TS_F32, false);
  take_from(&t, row_behind);
  ck_assert_all(ts_ckpt_load(&t.c, path.text, false, NULL, f.comm) ==
                TS_ERR_CKPT);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "and words for more"));
  ts_err_clear();
  reset(&t);
  ts_str_reset(&path);
}

TS_TESTS(what_is_no_number_is_found, 0, N_IOS) {
  static const char *const ios[] = {"pwrite", "mpio"};
  const float bad = NAN;
  content t;
  fill(&t, TS_F32, true);
  if (f.rank == f.size - 1)
    ts_test_put(device, (float *)t.part[0].ptr + t.n * COLS - 5, &bad, 4);
  ck_assert_all(ts_ckpt_save(&t.c, dir, 2, ios[_i], f.comm) == TS_ERR_NAN);
  ts_err_clear();
  reset(&t);
}

/* Rows in a device's memory that lie scattered, there in another order than in
 * the file: all of them, but the first and the last. */
TS_TESTS(scattered, 0, N_IOS + 1) {
  static const char *const ios[] = {"pwrite", "mpio"};
  enum { N = 501, THERE = N + 2 };
  ts_buffer there;
  ts_ckpt c = {.step = 1};
  ts_ckpt_item *item;
  float x[THERE * COLS], room[N * COLS];
  uint32_t at[N];
  int64_t copied;
  const char *io = ios[_i % N_IOS];
  for (int i = 0; i < THERE * COLS; i++)
    x[i] = i / COLS % (N + 1) ? value(i / COLS, i % COLS) : NAN;
  for (int i = 0; i < N; i++) at[i] = 1 + (uint32_t)(i * 200 % N);
  ck_assert_ok(
      ts_buffer_create(&there, device, sizeof x, TS_SPACE_DEVICE, TS_TAG_MISC));
  ts_test_put(device, there.ptr, x, sizeof x);
  ck_assert_ok(ts_ckpt_on(&c, device));
  ck_assert_ok(ts_ckpt_add_item(&c, "model/rows", TS_F32, N, COLS, &item));
  if (f.rank == 0)
    ck_assert_ok(ts_ckpt_add_gathered(item, 0, N, there.ptr, at));
  if (_i == N_IOS) { /* half of them as a copy */
    ck_assert_ok(ts_ckpt_copy(&c, room, sizeof room / 2, 2, &copied, f.comm));
    ck_assert((copied > 0) == (f.rank == 0));
  }
  ck_assert_ok(ts_ckpt_save(&c, dir, 2, io, f.comm));
  ts_ckpt_reset(&c);
  ts_str path = {0};
  ck_assert_ok(ts_ckpt_add_item(&c, "model/rows", TS_F32, N, COLS, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, false, true, 0, N, room));
  ck_assert_ok(ts_ckpt_load_newest(&c, &path, dir, NULL, NULL, NULL, f.comm));
  bool good = c.step == 1;
  for (int i = 0; i < N * COLS; i++)
    good &= room[i] == value(at[i / COLS], i % COLS);
  ck_assert_all(good);
  ts_str_reset(&path);
  ts_ckpt_reset(&c);
  ts_buffer_reset(&there);
}

TS_TEST(staging) {
  enum { P = TS_STAGING_PIECE };
  static const size_t sizes[] = {0, 1, P - 1, P, P + 1, 2 * P, 3 * P + 5};
  const size_t most = 3 * P + 16;
  ts_staging s;
  ts_buffer there;
  unsigned char *a, *b;
  ck_assert_ok(ts_staging_create(&s, device));
  ck_assert_ok(
      ts_buffer_create(&there, device, most, TS_SPACE_DEVICE, TS_TAG_MISC));
  ck_assert_ok(ts_mem_alloc(&a, most, TS_TAG_MISC));
  ck_assert_ok(ts_mem_alloc(&b, most, TS_TAG_MISC));
  ck_assert(ts_staging_is_remote(&s, there.ptr) ==
            ts_device_is_discrete(device));
  ck_assert(!ts_staging_is_remote(&s, a));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const size_t n = sizes[i];
    for (size_t k = 0; k < most; k++)
      a[k] = (unsigned char)(k * (i + 3) + (k >> 12));
    memset(b, 0xee, most);
    ck_assert_ok(ts_staging_put(&s, (char *)there.ptr + 3, a, n));
    ck_assert_ok(ts_staging_get(&s, b, (char *)there.ptr + 3, n));
    ck_assert(!memcmp(a, b, n) && b[n] == 0xee);
    ck_assert_ok(ts_staging_get(NULL, b, a, n + 1)); /* the host's own */
    ck_assert(!memcmp(a, b, n + 1));
  }
  ts_mem_free_all(a, b);
  ts_buffer_reset(&there);
  ts_staging_reset(&s);
}

int main(int argc, char **argv) {
  (void)setenv("TESSERA_BACKEND", "fake", 0);
  return ts_test_main(argc, argv);
}
