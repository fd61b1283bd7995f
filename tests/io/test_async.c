/* test_async.c - checkpoints written beside the steps: what is in the file is
 * what was there when the save began, whatever room the copy has; errors,
 * mirrors.  ranks: 1 2 3 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "tests/support/folder.h"
#include "io/checkpoint_writer.h"

/* Rows of 28 bytes, and columns that two ranks exchange in two turns. */
enum { ROWS = 70001, COLS = 7, WIDE_ROWS = 1900001, WIDE = 9, DENSE = 1000 };

static char mirror[300];

static void start(void) {
  folder_start();
  snprintf(mirror, sizeof mirror, "%s/second/mirror", dir);
}

TS_EACH_TEST_BETWEEN(start, folder_stop)

/* ---- content ------------------------------------------------------------- */

/* Rows of a table, columns of a bf16 one, and what rank 0 writes. */
typedef struct ts_content {
  ts_ckpt c;
  float *rows, dense[DENSE];
  uint16_t *columns;
  int64_t from, n;
  int32_t col0, n_cols;
} ts_content;

static uint16_t wide_value(int64_t row, int32_t col, int64_t step) {
  return (uint16_t)((row * 31 + col * 7 + step) % 0x7000);
}

static bool each(ts_content *t, int64_t step, bool set) {
  bool good = true;
  for (int64_t i = 0; i < t->n * COLS; i++) {
    const float v = (float)((t->from + i / COLS) * 8 + i % COLS + step);
    if (set) t->rows[i] = v;
    good &= t->rows[i] == v;
  }
  for (int64_t i = 0; i < WIDE_ROWS * (int64_t)t->n_cols; i++) {
    const uint16_t v =
        wide_value(i / t->n_cols, t->col0 + (int32_t)(i % t->n_cols), step);
    if (set) t->columns[i] = v;
    good &= t->columns[i] == v;
  }
  for (int i = 0; i < DENSE; i++) {
    if (set) t->dense[i] = (float)(i + step);
    good &= t->dense[i] == (float)(i + step);
  }
  return good;
}

static void create(ts_content *t) {
  memset(t, 0, sizeof *t);
  t->from = (int64_t)ROWS * f.rank / f.size;
  t->n = (int64_t)ROWS * (f.rank + 1) / f.size - t->from;
  t->col0 = WIDE * f.rank / f.size;
  t->n_cols = WIDE * (f.rank + 1) / f.size - t->col0;
  ck_assert_ok(ts_mem_many(t->rows, t->n * COLS, MISC));
  ck_assert_ok(ts_mem_array(&t->columns, WIDE_ROWS * (int64_t)t->n_cols, 2,
                            TS_TAG_MISC));
}

static void describe(ts_content *t, int64_t step) {
  ts_ckpt_item *item;
  t->c = (ts_ckpt){.step = step};
  ck_assert_ok(
      ts_ckpt_add_item(&t->c, "model/rows", TS_F32, ROWS, COLS, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, true, true, t->from, t->n, t->rows));
  ck_assert_ok(
      ts_ckpt_add_item(&t->c, "model/wide", TS_BF16, WIDE_ROWS, WIDE, &item));
  for (int r = 0; r < f.size; r++) {
    const int32_t col0 = WIDE * r / f.size, end = WIDE * (r + 1) / f.size;
    ck_assert_ok(ts_ckpt_add_columns(
        item, (ts_ckpt_columns){r, 0, WIDE_ROWS, col0, end - col0,
                                r == f.rank ? t->columns : NULL}));
  }
  ck_assert_ok(ts_ckpt_add_item(&t->c, "model/dense", TS_F32, DENSE, 0, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, f.rank == 0, true, 0, DENSE, t->dense));
}

static void destroy(ts_content *t) {
  ts_ckpt_reset(&t->c);
  ts_mem_free_all(t->rows, t->columns);
}

/* The newest of both folders is whole, and of STEP. */
static bool newest_is(ts_content *t, int64_t step) {
  ts_str path = {0};
  each(t, 77, true);
  describe(t, 0);
  const ts_err err =
      ts_ckpt_load_newest(&t->c, &path, dir, mirror, NULL, NULL, f.comm);
  const bool good = err == TS_OK && t->c.step == step && each(t, step, false);
  ts_err_clear();
  ts_str_reset(&path);
  ts_ckpt_reset(&t->c);
  return ts_test_all(good);
}

/* ---- the writer ---------------------------------------------------------- */

/* The copy has room for PERCENT of what this rank has. */
static ts_ckpt_writer *writer_of(ts_content *t, int percent,
                                 const char *second) {
  ts_ckpt_writer *w;
  int64_t needed, room;
  const char *why;
  describe(t, 0);
  const int64_t buffer = ts_ckpt_own_room(&t->c, f.rank) * percent / 100;
  const ts_ckpt_writer_options o = {.dir = dir,
                                    .io = "pwrite",
                                    .mirror = second,
                                    .keep = 2,
                                    .mirror_every = 2,
                                    .beside = true,
                                    .buffer_bytes = buffer + 1,
                                    .node_size = f.size,
                                    .n_threads = 2};
  ck_assert_ok(ts_ckpt_writer_create(&w, &o, f.world));
  ck_assert_ok(ts_ckpt_writer_prepare(w, &t->c, &needed, &room, &why));
  ck_assert_msg(!why, "%s", why);
  ck_assert((room < needed) == (percent < 100));
  ts_ckpt_reset(&t->c);
  return w;
}

/* Saves STEP, and changes all of it as soon as that is allowed. */
static ts_err save(ts_ckpt_writer *w, ts_content *t, int64_t step,
                   ts_ckpt_saved *saved) {
  each(t, step, true);
  describe(t, step);
  ck_assert_ok(ts_ckpt_writer_save(w, &t->c, false, false));
  each(t, 1000 + step, true);
  return ts_ckpt_writer_finish(w, saved);
}

/* All of it, most, rows and no columns, nothing. */
static const int percents[] = {100, 70, 12, 0};

TS_TESTS(the_file_is_what_was_there, 0, sizeof percents / sizeof *percents) {
  ts_content t;
  ts_ckpt_saved saved;
  create(&t);
  ts_ckpt_writer *w = writer_of(&t, percents[_i], NULL);
  for (int64_t step = 1; step <= 2; step++) {
    ck_assert_ok(save(w, &t, step, &saved));
    ck_assert(saved.beside && saved.step == step);
    ck_assert_int_le(saved.copied, saved.bytes * percents[_i] / 100 + 65);
    ck_assert(percents[_i] < 100 || saved.copied == saved.bytes);
    ck_assert_all(percents[_i] == 0 || saved.copied > 0);
    ck_assert(newest_is(&t, step));
  }
  ts_ckpt_writer_destroy(w);
  destroy(&t);
}

TS_TESTS(errors_come_to_all_and_leave_what_was, 0, 2) {
  ts_content t;
  ts_ckpt_saved saved;
  create(&t);
  ts_ckpt_writer *w = writer_of(&t, percents[_i], NULL);
  ck_assert_ok(save(w, &t, 1, &saved));
#ifdef TS_FAULTS
  char fault[32];
  snprintf(fault, sizeof fault, "write:%d:1", f.size - 1);
  ts_fault_set(fault, f.rank);
  ck_assert_all(save(w, &t, 2, &saved) == TS_ERR_CKPT);
  ck_assert_all(strstr(ts_err_message(), "No space left"));
  ts_fault_set(NULL, f.rank);
  ts_err_clear();
  ck_assert(newest_is(&t, 1));
#endif
  /* A weight that is not a number, on one rank. */
  each(&t, 3, true);
  if (f.rank == f.size - 1) t.rows[t.n * COLS - 1] = NAN;
  describe(&t, 3);
  ck_assert_ok(ts_ckpt_writer_save(w, &t.c, false, false));
  ck_assert_all(ts_ckpt_writer_finish(w, &saved) == TS_ERR_NAN);
  ck_assert_all(strstr(ts_err_message(), "near row"));
  ts_err_clear();
  ck_assert(newest_is(&t, 1));
  ck_assert_ok(save(w, &t, 4, &saved));
  ck_assert(newest_is(&t, 4));
  ts_ckpt_writer_destroy(w);
  destroy(&t);
}

/* Once any rank's save has ended, the mirror has its file. */
static bool is_mirrored(int64_t step) {
  char path[512];
  snprintf(path, sizeof path, "%s/step-%08lld.h5", mirror, (long long)step);
  return access(path, F_OK) == 0;
}

static void truncate_step(int64_t step) {
  char path[512];
  snprintf(path, sizeof path, "%s/step-%08lld.h5", dir, (long long)step);
  if (f.rank == 0) ck_assert_int_eq(truncate(path, 3000), 0);
  ck_assert_ok(ts_comm_barrier(f.comm));
}

TS_TEST(mirrors_are_written_and_read) {
  ts_content t;
  ts_ckpt_saved saved;
  create(&t);
  ts_ckpt_writer *w = writer_of(&t, 100, mirror);
  for (int64_t step = 1; step <= 4; step++) {
    ck_assert_ok(save(w, &t, step, &saved));
    const bool there = is_mirrored(step);
    const bool even = step % 2 == 0;
    const int wanted = f.rank == 0 && even;
    ck_assert_all(there == even);
    ck_assert_int_eq(saved.mirrored, wanted);
  }
  truncate_step(3);
  ck_assert(newest_is(&t, 4));
  truncate_step(4);
  ck_assert(newest_is(&t, 4));
  ts_ckpt_writer_destroy(w);
  /* A folder that can't be: told, and no error of the save. */
  w = writer_of(&t, 100, "/dev/null/x");
  ck_assert_ok(save(w, &t, 5, &saved));
  ck_assert_ok(save(w, &t, 6, &saved));
  ck_assert_int_eq(saved.mirrored, f.rank == 0 ? -1 : 0);
  ck_assert(newest_is(&t, 6));
  ts_ckpt_writer_destroy(w);
  destroy(&t);
}

/* ---- overdue exchanges --------------------------------------------------- */

/* The last rank sleeps in its first turn. */
static void sleep_in_turn(void *arg) {
  if (f.rank == f.size - 1 && ++*(int *)arg == 2) sleep(5);
}

/* The others give the exchange up; what comes later all the same must not meet
 * memory that is somebody else's by then. */
TS_TEST(an_overdue_exchange_keeps_its_memory) {
  ts_content t;
  ts_world *world;
  ts_comm *comm;
  create(&t);
  int n = 0;
  const ts_ckpt_hooks hooks = {.beat = sleep_in_turn, .arg = &n};
  const ts_world_options o = {.ordered = true, .timeout_s = 2};
  if (f.size > 1) {
    ck_assert_ok(ts_world_create(&world, f.device, &o));
    ck_assert_ok(ts_comm_create(world, &comm, TS_GROUP_WORLD, "overdue"));
    each(&t, 1, true);
    describe(&t, 1);
    const ts_err err = ts_ckpt_save_hooked(&t.c, dir, 1, comm, &hooks);
    ck_assert_all(err == TS_ERR_COMM && !ts_err_agreed());
    ck_assert_all(strstr(ts_err_message(), "was not done within 2 s"));
    ts_err_clear();
    ts_ckpt_reset(&t.c);
    /* Lets messages arrive. */
    for (int i = 0; i < 20; i++) ck_assert_ok(ts_comm_barrier(f.comm));
    ts_comm_destroy(comm);
    ts_world_destroy(world);
  }
  destroy(&t);
}
