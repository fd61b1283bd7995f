/* fuzz_checkpoint.c - checkpoints: one of the program's own, edited; loaded
 * with items of its names, and looked at as `tessera inspect` does. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/checkpoint.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hdf5_edit.h"

enum { ROWS = 10, COLS = 4 };

static const char *const links[] = {"model/t.weight",
                                    "check/model/t.weight",
                                    "model/b",
                                    "check/model/b",
                                    "optim/t/sum",
                                    "meta/plan",
                                    "meta/ranks",
                                    "loader/epoch",
                                    "metrics/a/sums",
                                    "optim/step",
                                    "model",
                                    "check",
                                    "meta"};
static const char *const attributes[] = {"format", "version", "step",
                                         "complete"};

/* The items of the checkpoint over VALUES. */
static void describe(ts_ckpt *c, float *values, bool write) {
  ts_ckpt_item *item;
  *c = (ts_ckpt){.step = 3};
  FUZZ_CHECK(ts_ckpt_add_item(c, "model/t.weight", TS_F32, ROWS, COLS, &item) ==
             TS_OK);
  FUZZ_CHECK(ts_ckpt_add_piece(item, write, !write, 0, ROWS, values) == TS_OK);
  FUZZ_CHECK(ts_ckpt_add_item(c, "model/b", TS_F32, ROWS, 0, &item) == TS_OK);
  FUZZ_CHECK(ts_ckpt_add_piece(item, write, !write, 0, ROWS,
                               values + ROWS * COLS) == TS_OK);
}

/* The bytes of a right checkpoint. */
static ts_str make(void) {
  float values[ROWS * COLS + ROWS] = {1, 2, 3};
  const int64_t ranks = 1;
  ts_ckpt c;
  ts_str bytes = {0};
  char folder[256], path[300];
  snprintf(folder, sizeof folder, "%s", fuzz_path("checkpoints"));
  FUZZ_CHECK(mkdir(folder, 0777) == 0);
  describe(&c, values, true);
  FUZZ_CHECK(ts_ckpt_add_text(&c, "meta/plan", "a plan\n") == TS_OK);
  FUZZ_CHECK(ts_ckpt_add_value(&c, "meta/ranks", TS_I64, 1, &ranks) == TS_OK);
  FUZZ_CHECK(ts_ckpt_save(&c, folder, 1, "pwrite", fuzz_comm()) == TS_OK);
  snprintf(path, sizeof path, "%s/step-00000003.h5", folder);
  FUZZ_CHECK(ts_file_read(&bytes, path) == TS_OK);
  ts_ckpt_reset(&c);
  return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ts_str right;
  const fuzz_names names = {links, attributes, sizeof links / sizeof *links,
                            sizeof attributes / sizeof *attributes};
  float values[ROWS * COLS + ROWS] = {0};
  ts_ckpt c;
  char path[256];
  if (!right.text) {
    right = make();
    FUZZ_CHECK(freopen("/dev/null", "w", stdout) != NULL);
  }
  snprintf(path, sizeof path, "%s",
           fuzz_file("in.h5", right.text, right.n_bytes));
  fuzz_hdf5_edit(path, data, size, &names);
  if (size % 16 != 15) fuzz_seal(path);
  describe(&c, values, false);
  const ts_err err = ts_ckpt_load(&c, path, false, NULL, fuzz_comm());
  FUZZ_CHECK(size || (err == TS_OK && values[2] == 3));
  FUZZ_CHECK(err == TS_OK || err == TS_ERR_CKPT);
  ts_err_clear();
  ts_ckpt_reset(&c);
  (void)ts_inspect(path, true);
  ts_err_clear();
  return 0;
}
