/* fuzz_delta.c - a delta of the program's own, of a plain table and of one
 * whose rows are ids', edited, on a checkpoint that is whole: loaded, and
 * compacted, which leaves the checkpoint as it was. */
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "io/checkpoint.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hdf5_edit.h"

enum { ROWS = 10, COLS = 4, CHANGED = 3, IDS = 6 };
#define NAME "sparse_arch.embedding_bag_collection.embedding_bags.d.weight"

static const char *const links[] = {"delta/rows/t.weight",
                                    "check/delta/rows/t.weight",
                                    "model/t.weight",
                                    "check/model/t.weight",
                                    "optim/t.weight/sum",
                                    "check/optim/t.weight/sum",
                                    "dynamic/d/ids",
                                    "check/dynamic/d/ids",
                                    "delta/rows/" NAME,
                                    "check/delta/rows/" NAME,
                                    "model/" NAME,
                                    "check/model/" NAME,
                                    "model/b",
                                    "meta/ranks",
                                    "delta/rows",
                                    "delta",
                                    "model",
                                    "check"};
static const char *const attributes[] = {"version", "step",        "parent",
                                         "number",  "parent_seal", "weights",
                                         "complete"};

/* By ascending keys; ids [0, IDS) are the full one's, [2, IDS + 2) the
 * delta's. */
static int64_t id_of(int64_t i) {
  return (int64_t)ts_unmix64((uint64_t)(i + 1) << 60);
}

/* N rows of the table. */
static void describe_ids(ts_ckpt *c, int64_t *ids, float *values, int64_t n,
                         bool write) {
  ts_ckpt_item *item;
  FUZZ_CHECK(ts_ckpt_add_item(c, "dynamic/d/ids", TS_I64, IDS, 0, &item) ==
             TS_OK);
  FUZZ_CHECK(ts_ckpt_add_piece(item, write, !write, 0, IDS, ids) == TS_OK);
  FUZZ_CHECK(ts_ckpt_add_item(c, "model/" NAME, TS_F32, n, COLS, &item) ==
             TS_OK);
  FUZZ_CHECK(ts_ckpt_add_piece(item, write, !write, 0, n, values) == TS_OK);
}

/* N rows over VALUES. */
static void describe(ts_ckpt *c, float *values, int64_t n, bool write) {
  ts_ckpt_item *item;
  FUZZ_CHECK(ts_ckpt_add_item(c, "model/t.weight", TS_F32, n, COLS, &item) ==
             TS_OK);
  FUZZ_CHECK(ts_ckpt_add_piece(item, write, !write, 0, n, values) == TS_OK);
  FUZZ_CHECK(ts_ckpt_add_item(c, "optim/t.weight/sum", TS_F32, n, 0, &item) ==
             TS_OK);
  FUZZ_CHECK(ts_ckpt_add_piece(item, write, !write, 0, n,
                               values + ROWS * COLS) == TS_OK);
  FUZZ_CHECK(ts_ckpt_add_item(c, "model/b", TS_F32, COLS, 0, &item) == TS_OK);
  FUZZ_CHECK(ts_ckpt_add_piece(item, write, !write, 0, COLS, values) == TS_OK);
}

static void save(ts_ckpt *c, const char *folder) {
  const int64_t ranks = 1;
  FUZZ_CHECK(ts_ckpt_add_value(c, "meta/ranks", TS_I64, 1, &ranks) == TS_OK);
  FUZZ_CHECK(ts_ckpt_save(c, folder, 9, "pwrite", fuzz_comm()) == TS_OK);
}

/* The bytes of a right delta, of step 5, on the checkpoint of step 3. */
static ts_str make(const char *folder) {
  float values[ROWS * COLS + ROWS] = {0};
  int64_t rows[CHANGED] = {2, 5, 9}, ids[IDS + 2];
  ts_ckpt_item *item;
  ts_str bytes = {0};
  char path[300];
  ts_ckpt full = {.step = 3}, delta = {.step = 5, .kind = TS_CKPT_DELTA};
  for (int i = 0; i < IDS + 2; i++) ids[i] = id_of(i);
  describe(&full, values, ROWS, true);
  describe_ids(&full, ids, values, IDS, true);
  save(&full, folder);
  delta.parent = (ts_ckpt_point){3, full.seal, 0};
  for (int i = 0; i < ROWS * COLS + ROWS; i++) values[i] = 7;
  FUZZ_CHECK(ts_ckpt_add_item(&delta, "delta/rows/t.weight", TS_I64, CHANGED, 0,
                              &item) == TS_OK);
  FUZZ_CHECK(ts_ckpt_add_piece(item, true, false, 0, CHANGED, rows) == TS_OK);
  describe(&delta, values, CHANGED, true);
  /* One that was updated, and those that came. */
  ids[0] = ids[3];
  FUZZ_CHECK(ts_ckpt_add_item(&delta, "delta/rows/" NAME, TS_I64, CHANGED, 0,
                              &item) == TS_OK);
  FUZZ_CHECK(ts_ckpt_add_piece(item, true, false, 0, 1, ids) == TS_OK);
  FUZZ_CHECK(ts_ckpt_add_piece(item, true, false, 1, 2, ids + IDS) == TS_OK);
  describe_ids(&delta, ids + 2, values, CHANGED, true);
  save(&delta, folder);
  snprintf(path, sizeof path, "%.250s/delta-00000005.h5", folder);
  FUZZ_CHECK(ts_file_read(&bytes, path) == TS_OK);
  ts_ckpt_reset(&full);
  ts_ckpt_reset(&delta);
  return bytes;
}

/* What was compacted has the step that the delta says. */
static void check_compacted(const char *folder, const char *path) {
  char name[300];
  int64_t n;
  bool broken;
  glob_t full;
  const ts_err err = ts_ckpt_compact(path, 9, &n, &broken, fuzz_comm());
  FUZZ_CHECK(err == TS_OK || err == TS_ERR_CKPT || err == TS_ERR_NAN);
  FUZZ_CHECK(err != TS_OK || n == 1);
  ts_err_clear();
  snprintf(name, sizeof name, "%.250s/step-*.h5", folder);
  FUZZ_CHECK(glob(name, 0, NULL, &full) == 0);
  FUZZ_CHECK(full.gl_pathc == 1 + (size_t)(err == TS_OK));
  FUZZ_CHECK(strstr(full.gl_pathv[0], "step-00000003.h5") != NULL);
  if (err == TS_OK) unlink(full.gl_pathv[1]);
  globfree(&full);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ts_str right;
  static char folder[256];
  const fuzz_names names = {links, attributes, sizeof links / sizeof *links,
                            sizeof attributes / sizeof *attributes};
  float values[ROWS * COLS + ROWS] = {0}, of_ids[IDS * COLS] = {0};
  int64_t ids[IDS];
  ts_ckpt c = {0};
  const char *path;
  if (!right.text) {
    snprintf(folder, sizeof folder, "%s", fuzz_path("checkpoints"));
    FUZZ_CHECK(mkdir(folder, 0777) == 0);
    right = make(folder);
  }
  path = fuzz_file("checkpoints/delta-00000005.h5", right.text, right.n_bytes);
  fuzz_hdf5_edit(path, data, size, &names);
  if (size % 16 != 15) fuzz_seal(path);
  describe(&c, values, ROWS, false);
  describe_ids(&c, ids, of_ids, IDS, false);
  const ts_err err = ts_ckpt_load(&c, path, false, NULL, fuzz_comm());
  FUZZ_CHECK(err == TS_OK || err == TS_ERR_CKPT);
  FUZZ_CHECK(size || (err == TS_OK && values[5 * COLS] == 7));
  FUZZ_CHECK(size || (values[4 * COLS] == 0 && values[ROWS * COLS + 9] == 7));
  for (int i = 0; !size && i < IDS; i++)
    FUZZ_CHECK(ids[i] == id_of(i + 2) &&
               of_ids[i * COLS] == (i == 1 || i > 3 ? 7 : 0));
  ts_err_clear();
  ts_ckpt_reset(&c);
  check_compacted(folder, path);
  return 0;
}
