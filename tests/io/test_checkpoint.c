/* test_checkpoint.c - saving and loading: any split of rows, damage,
 * hostile files, faults.  ranks: 1 2 4 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "tests/support/folder.h"
#include "base/file.h"
#include "io/checkpoint.h"
#include "io/checkpoint_impl.h"

enum { ROWS = 70001, COLS = 12 };

TS_EACH_TEST_BETWEEN(folder_start, folder_stop)

static float value(int64_t row, int col, int64_t step) {
  return (float)(row * 16 + col) * 0.5f + (float)step;
}

/* This rank's rows of a table that is cut unevenly, and a replicated array. */
typedef struct ts_content {
  ts_ckpt c;
  float *rows, *all;
  int64_t from, n;
} ts_content;

static void fill(ts_content *t, int64_t step, bool values) {
  ts_ckpt_item *item;
  const int64_t k = (int64_t)f.size * (f.size + 1) / 2;
  t->from = (int64_t)ROWS * (f.rank * (f.rank + 1) / 2) / k;
  t->n = (int64_t)ROWS * ((f.rank + 1) * (f.rank + 2) / 2) / k - t->from;
  t->c = (ts_ckpt){.step = step};
  ck_assert_ok(ts_mem_many(t->rows, t->n * COLS, MISC));
  ck_assert_ok(ts_mem_many(t->all, 1000, MISC));
  for (int64_t i = 0; values && i < t->n * COLS; i++)
    t->rows[i] = value(t->from + i / COLS, (int)(i % COLS), step);
  for (int i = 0; values && i < 1000; i++) t->all[i] = (float)i;
  ck_assert_ok(
      ts_ckpt_add_item(&t->c, "model/table.weight", TS_F32, ROWS, COLS, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, true, true, t->from, t->n, t->rows));
  ck_assert_ok(
      ts_ckpt_add_item(&t->c, "model/dense.bias", TS_F32, 1000, 0, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, f.rank == 0, true, 0, 1000, t->all));
  if (values) ck_assert_ok(ts_ckpt_add_text(&t->c, "meta/deck", "a = 1;\n"));
}

static bool right(const ts_content *t, int64_t step) {
  bool good = t->c.step == step;
  for (int64_t i = 0; i < t->n * COLS; i++)
    good &= t->rows[i] == value(t->from + i / COLS, (int)(i % COLS), step);
  for (int i = 0; i < 1000; i++) good &= t->all[i] == (float)i;
  const ts_ckpt_value *v = ts_ckpt_value_of(&t->c, "meta/deck");
  return good && v && !strcmp(v->ptr, "a = 1;\n");
}

static void reset(ts_content *t) {
  ts_ckpt_reset(&t->c);
  ts_mem_free_all(t->rows, t->all);
}

static void save_step(int64_t step, const char *io) {
  ts_content t;
  fill(&t, step, true);
  ck_assert_ok(ts_ckpt_save(&t.c, dir, 2, io, f.comm));
  reset(&t);
}

/* Loads the newest; true where it is whole and of STEP. */
static bool newest_is(int64_t step) {
  ts_content t;
  ts_str path = {0};
  fill(&t, 0, false);
  const ts_err err =
      ts_ckpt_load_newest(&t.c, &path, dir, NULL, NULL, NULL, f.comm);
  const bool good = err == TS_OK && right(&t, step);
  ts_err_clear();
  ts_str_reset(&path);
  reset(&t);
  return ts_test_all(good);
}

TS_TESTS(round_trip_and_keep, 0, 2) {
  static const char *const ios[] = {"pwrite", "mpio"};
  for (int64_t step = 1; step <= 4; step++) save_step(step, ios[_i]);
  ck_assert(newest_is(4));
  char path[512];
  snprintf(path, sizeof path, "%s/step-00000002.h5", dir);
  ck_assert_all(access(path, F_OK) != 0); /* two are kept */
  snprintf(path, sizeof path, "%s/step-00000003.h5", dir);
  ck_assert_all(access(path, F_OK) == 0);
}

/* At first the file that was loaded gets another name before more of it is
 * read, or is damaged there. */
typedef struct ts_reading {
  bool moved;
  int n;
  char path[512];
} ts_reading;

static ts_err read_more(void *arg, const char *path, bool mirrored) {
  ts_reading *x = arg;
  char other[512];
  ck_assert(!mirrored);
  snprintf(x->path, sizeof x->path, "%s", path);
  snprintf(other, sizeof other, "%s/step-00000005.h5", dir);
  if (x->n++) return TS_OK;
  if (f.rank == 0 && x->moved) ck_assert_int_eq(rename(path, other), 0);
  return ts_agree(f.comm, ts_fail(TS_ERR_CKPT, "%s: no such file", path));
}

TS_TESTS(more_of_the_newest, 0, 2) {
  ts_reading x = {.moved = _i};
  ts_content t;
  ts_str path = {0};
  for (int64_t step = 2; step <= 3; step++) save_step(step, "pwrite");
  fill(&t, 0, false);
  ck_assert_ok(
      ts_ckpt_load_newest(&t.c, &path, dir, NULL, read_more, &x, f.comm));
  ck_assert_int_eq(x.n, 2);
  ck_assert_str_eq(path.text, x.path);
  ck_assert_ptr_nonnull(strstr(x.path, x.moved ? "00000005" : "00000002"));
  ck_assert_all(right(&t, x.moved ? 3 : 2));
  ts_str_reset(&path);
  reset(&t);
}

/* Files are written and read in bites of 8 MiB: here in four, from byte 5 on.
 */
TS_TEST(bites_follow_each_other) {
  enum { N = 30 << 18, AT = 5 };
  char path[] = "/tmp/tessera-bitesXXXXXX";
  uint32_t *from, *to;
  const int fd = mkstemp(path);
  (void)unlink(path);
  ck_assert_ok(ts_mem_many(from, N, MISC));
  ck_assert_ok(ts_mem_many(to, N, MISC));
  for (uint32_t i = 0; i < N; i++) from[i] = i;
  ck_assert_ok(ts_pwrite(fd, from, 4 * N, AT, path, TS_ERR_IO));
  ck_assert_int_eq(lseek(fd, 0, SEEK_END), AT + 4 * N);
  ck_assert_int_eq(pread(fd, to, 4 * N, AT), 4 * N);
  ck_assert_mem_eq(from, to, 4 * N);
  memset(to, 0, 4 * N);
  ck_assert_ok(ts_pread(fd, to, 4 * N, AT, path, TS_ERR_IO));
  ck_assert_mem_eq(from, to, 4 * N);
  (void)close(fd);
  ts_mem_free_all(from, to);
}

TS_TEST(steps_may_outgrow_their_digits) {
  char path[512];
  for (int64_t step = 99999998; step <= 100000001; step++) {
    save_step(step, "pwrite");
    ck_assert(newest_is(step));
  }
  snprintf(path, sizeof path, "%s/step-100000000.h5", dir);
  ck_assert_all(access(path, F_OK) == 0);
  snprintf(path, sizeof path, "%s/step-99999999.h5", dir);
  ck_assert_all(access(path, F_OK) != 0); /* two are kept */
}

/* A folder that isn't there has none yet; one that can't be read may have
 * some: a run that took it for empty would begin anew.  Rank 0 alone looks. */
TS_TEST(a_folder_that_cannot_be_read) {
  char path[512];
  ts_str newest = {0};
  snprintf(path, sizeof path, "%s/nowhere", dir);
  ck_assert_ok(ts_ckpt_newest(&newest, path, path, f.comm));
  ck_assert_ptr_null(newest.text);
  save_step(7, "pwrite");
  snprintf(path, sizeof path, "%s/step-00000007.h5", dir);
  for (int mirror = 0; mirror < 2; mirror++) {
    const ts_err err = ts_ckpt_newest(&newest, mirror ? "/nowhere" : path,
                                      mirror ? path : NULL, f.comm);
    ck_assert_all(err == TS_ERR_CKPT);
    ck_assert_ptr_nonnull(strstr(ts_err_message(), "Not a directory"));
    ts_err_clear();
  }
  ck_assert_ok(ts_ckpt_newest(&newest, dir, path, f.comm));
  ck_assert_str_eq(newest.text, path); /* the folder's, without the mirror */
  ts_str_reset(&newest);
}

/* Overwrites 8 bytes at AT of a checkpoint. */
static void damage(const char *name, int64_t at) {
  char path[512];
  const unsigned char bad[8] = {0x5a, 0xa5, 0x5a, 0xa5, 0x5a, 0xa5, 0x5a, 1};
  snprintf(path, sizeof path, "%s/%s", dir, name);
  if (f.rank == 0) {
    const int fd = open(path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bad, 8, at), 8);
    close(fd);
  }
  ck_assert_ok(ts_comm_barrier(f.comm));
}

TS_TEST(damage_is_found_and_the_one_before_taken) {
  for (int part = 1; part <= 3; part++) {
    save_step(10, "pwrite");
    save_step(20, "pwrite");
    /* The table is nearly all of the file. */
    damage("step-00000020.h5", (int64_t)ROWS * COLS * part);
    ck_assert(newest_is(10));
  }
  /* Cut short: HDF5 can't open it. */
  save_step(20, "pwrite");
  char path[512];
  snprintf(path, sizeof path, "%s/step-00000020.h5", dir);
  ck_assert_ok(ts_comm_barrier(f.comm));
  if (f.rank == 0) ck_assert_int_eq(truncate(path, 5000), 0);
  ck_assert_ok(ts_comm_barrier(f.comm));
  ck_assert(newest_is(10));
}

#ifdef TS_FAULTS
TS_TEST(a_fault_on_one_rank_leaves_what_was) {
  ts_content t;
  char fault[32];
  save_step(1, "pwrite");
  snprintf(fault, sizeof fault, "write:%d:%d", f.size - 1, 1);
  ck_assert_ok(ts_fault_set(fault, f.rank));
  fill(&t, 2, true);
  const ts_err err = ts_ckpt_save(&t.c, dir, 2, "pwrite", f.comm);
  ck_assert_ok(ts_fault_set(NULL, f.rank));
  /* The counter of faults is the process's: only the first save meets it. */
  ck_assert_all(err == TS_ERR_CKPT);
  ts_err_clear();
  reset(&t);
  ck_assert(newest_is(1));
  save_step(3, "pwrite");
  ck_assert(newest_is(3));
}
#endif

TS_TEST(shapes_and_names_must_fit) {
  ts_ckpt c = {0};
  ts_ckpt_item *item;
  char path[512];
  float x[50];
  save_step(1, "pwrite");
  snprintf(path, sizeof path, "%s/step-00000001.h5", dir);
  ck_assert_ok(ts_ckpt_add_item(&c, "model/dense.bias", TS_F32, 50, 0, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, false, true, 0, 50, x));
  ck_assert_all(ts_ckpt_load(&c, path, false, NULL, f.comm) == TS_ERR_CKPT);
  ck_assert(strstr(ts_err_message(), "model/") != NULL);
  ts_err_clear();
  ts_ckpt_reset(&c);
  ck_assert_ok(ts_ckpt_add_item(&c, "model/table.weight", TS_F32, ROWS,
                                COLS + 1, &item));
  ck_assert_ok(
      ts_ckpt_add_item(&c, "model/dense.bias", TS_F32, 1000, 0, &item));
  ck_assert_all(ts_ckpt_load(&c, path, false, NULL, f.comm) == TS_ERR_CKPT);
  ck_assert(strstr(ts_err_message(), "(70001, 12)") != NULL &&
            strstr(ts_err_message(), "(70001, 13)") != NULL);
  ts_err_clear();
  ts_ckpt_reset(&c);
}
