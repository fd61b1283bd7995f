/* test_faults.c - every passage through every point of failure of a save and
 * of a load, on either rank: all ranks get the error of a checkpoint, nothing
 * half-written stays, and the checkpoint before is whole.  ranks: 2 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "tests/support/folder.h"
#include "tests/support/walk.h"
#include "io/checkpoint.h"

#ifdef TS_FAULTS
enum { ROWS = 5000, COLS = 4 };

typedef struct ts_content {
  ts_ckpt c;
  float rows[ROWS * COLS];
} ts_content;

static ts_content content;

/* Each rank has a half of the rows. */
static ts_ckpt *describe(int64_t step, bool values) {
  ts_content *t = &content;
  ts_ckpt_item *item;
  const int64_t half = ROWS / 2, row0 = f.rank * half;
  ts_ckpt_reset(&t->c);
  t->c.step = step;
  for (int i = 0; i < ROWS * COLS; i++)
    t->rows[i] = values ? (float)i + (float)step : 0;
  ck_assert_ok(
      ts_ckpt_add_item(&t->c, "model/table.weight", TS_F32, ROWS, COLS, &item));
  ck_assert_ok(
      ts_ckpt_add_piece(item, true, true, row0, half, t->rows + row0 * COLS));
  if (values) ck_assert_ok(ts_ckpt_add_text(&t->c, "meta/deck", "a = 1;\n"));
  return &t->c;
}

static bool right(int64_t step) {
  const int from = ROWS / 2 * COLS * f.rank;
  bool good = content.c.step == step;
  for (int i = from; i < from + ROWS / 2 * COLS; i++)
    good &= content.rows[i] == (float)i + (float)step;
  return good;
}

/* FAULT (NULL: none) is met from where the save begins, and stays armed. */
static ts_err save(int64_t step, int keep, const char *fault) {
  ts_ckpt *c = describe(step, true);
  ck_assert_ok(ts_fault_set(fault, f.rank));
  return ts_ckpt_save(c, dir, keep, "pwrite", f.comm);
}

static ts_err load(ts_str *path) {
  return ts_ckpt_load_newest(describe(0, false), path, dir, NULL, NULL, NULL,
                             f.comm);
}

static void start(void) {
  folder_start();
  ts_log_quiet(1);
}

static void stop(void) {
  ts_ckpt_reset(&content.c);
  folder_stop();
}

TS_EACH_TEST_BETWEEN(start, stop)

static void name_fault(char text[64], const char *what, int rank, int nth) {
  snprintf(text, 64, "%s:rank%d:nth%d:EDQUOT", what, rank, nth);
}

/* All ranks have one error, which says why. */
static bool refused(ts_err err, const char *what) {
  const char *text = ts_err_message();
  const ts_err wanted = strcmp(what, "alloc") ? TS_ERR_CKPT : TS_ERR_NOMEM;
  const bool good = err == wanted && ts_err_agreed() && *text;
  if (!good) printf("code %d: %s\n", (int)err, text);
  ts_err_clear();
  return ts_test_all(good);
}

static bool none_like(const char *pattern) {
  char path[300];
  glob_t g;
  snprintf(path, sizeof path, "%s/%s", dir, pattern);
  const bool none = glob(path, GLOB_PERIOD, NULL, &g) == GLOB_NOMATCH;
  if (!none) globfree(&g);
  return none;
}

/* Passage after passage, until a save meets the fault no more; how many.  The
 * save would leave no other checkpoint: that is for it to be whole first. */
static int walk_saves(const char *what, int rank) {
  ts_str path = {0};
  int64_t held;
  char fault[64];
  for (int nth = 1;; nth++) {
    name_fault(fault, what, rank, nth);
    const ts_err err = save(2, 1, fault);
    /* A save that comes through has met none: no error is swallowed. */
    const bool hidden = err == TS_OK && f.rank == rank && walk_met(what, nth);
    ck_assert_ok(ts_fault_set(NULL, f.rank));
    ck_assert_msg(ts_test_all(!hidden), "%s is met, and no error", fault);
    if (nth < 3) held = walk_held(); /* what is kept for later is made now */
    ck_assert_msg(ts_test_all(walk_held() == held), "%s stays", fault);
    if (err == TS_OK) return nth - 1;
    ck_assert_msg(refused(err, what), "save: %s %d on %d", what, nth, rank);
    ck_assert_all(none_like(".*part"));
    /* A name may be there before its folder is on the disk, and before old ones
     * are looked for, which needs memory. */
    ck_assert_ok(load(&path));
    ck_assert_all(right(content.c.step) && content.c.step >= 1);
    ck_assert_all(content.c.step == 1 || !strcmp(what, "fsync") ||
                  !strcmp(what, "open") || !strcmp(what, "alloc"));
    ts_str_reset(&path);
  }
}

/* A load that fails goes back to the one before, which is met no fault. */
static int walk_loads(const char *what, int rank) {
  ts_str path = {0};
  int64_t held;
  char fault[64];
  for (int nth = 1;; nth++) {
    name_fault(fault, what, rank, nth);
    ck_assert_ok(ts_fault_set(fault, f.rank));
    const ts_err err = load(&path);
    ck_assert_ok(ts_fault_set(NULL, f.rank));
    ck_assert_ok(err);
    ck_assert_all(right(content.c.step));
    ts_str_reset(&path);
    if (nth < 3) held = walk_held();
    ck_assert_msg(ts_test_all(walk_held() == held), "%s stays", fault);
    if (ts_test_all(content.c.step == 2)) return nth - 1;
    ck_assert_all(content.c.step == 1);
  }
}

TS_TEST(saves) {
  static const char *const points[] = {"open",   "read",    "write", "fsync",
                                       "rename", "reserve", "hdf5",  "alloc"};
  /* Whether each rank passes it at all. */
  static const bool passed[][2] = {{1, 1}, {1, 0}, {1, 1}, {1, 1},
                                   {1, 0}, {1, 0}, {1, 0}, {1, 1}};
  char name[300];
  ck_assert_ok(save(1, 2, NULL));
  for (int i = 0; i < 8; i++)
    for (int rank = 0; rank < 2; rank++) {
      const int n = walk_saves(points[i], rank);
      if (f.rank == 0)
        printf("save: %s on rank %d, %d passages\n", points[i], rank, n);
      ck_assert_all((n > 0) == passed[i][rank]);
      snprintf(name, sizeof name, "%s/step-00000002.h5", dir);
      if (f.rank == 0) ck_assert_int_eq(unlink(name), 0);
      ck_assert_ok(save(1, 1, NULL));
    }
}

TS_TEST(loads) {
  static const char *const points[] = {"open", "read", "hdf5"};
  ck_assert_ok(save(1, 2, NULL));
  ck_assert_ok(save(2, 2, NULL));
  for (int i = 0; i < 3; i++)
    for (int rank = 0; rank < 2; rank++) {
      const int n = walk_loads(points[i], rank);
      if (f.rank == 0)
        printf("load: %s on rank %d, %d passages\n", points[i], rank, n);
      ck_assert_all(n > 0);
    }
}

TS_TEST(several_at_once) {
  ck_assert_ok(ts_fault_set("write:1:1,fsync:rank0:nth2:EIO,rename:0:1", 0));
  ck_assert(!ts_fault("write"));
  ck_assert(!ts_fault("fsync") && ts_fault("fsync") && !ts_fault("fsync"));
  ck_assert(ts_fault("rename"));
  ck_assert_int_eq(ts_fault_set("write:1", 0), TS_ERR_USAGE);
  ts_err_clear();
  ck_assert_int_eq(ts_fault_set("write:1:2:EWHAT", 0), TS_ERR_USAGE);
  ts_err_clear();
  ck_assert_int_eq(ts_fault_set("wrote:1:2", 0), TS_ERR_USAGE);
  ts_err_clear();
  ck_assert_ok(ts_fault_set(NULL, 0));
}

#else
int main(void) {
  printf("needs faults on purpose: configure --enable-faults\n");
  return 77;
}
#endif
