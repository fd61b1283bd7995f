/* test_damage.c - every byte of a checkpoint counts: bits flipped all over
 * the file, files cut short, marks taken away, links planted.  What is wrong is
 * always said, and the checkpoint before is taken.  TESSERA_SWEEP=long flips
 * at 64 times as many places; TESSERA_SEED chooses them.  ranks: 1 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "config.h"
#include "tests/support/folder.h"
#include "io/checkpoint.h"
#include "io/hdf5.h"

enum { ROWS = 9001, COLS = 4 };

static char first[300], second[300];
static const char *const ios[] = {"pwrite", "mpio"};
#ifdef HAVE_PARALLEL_HDF5
enum { N_IOS = 2 };
#else
enum { N_IOS = 1 };
#endif

typedef struct ts_content {
  ts_ckpt c;
  float table[ROWS * COLS], bias[50];
} ts_content;

static ts_content content;
static int n_named; /* refusals that named a dataset */

/* What step STEP has; without VALUES room for it. */
static ts_ckpt *describe(int64_t step, bool values) {
  ts_content *t = &content;
  ts_ckpt_item *item;
  const int64_t next = 1000 * step;
  ts_ckpt_reset(&t->c);
  t->c.step = step;
  for (int i = 0; i < ROWS * COLS; i++)
    t->table[i] = values ? (float)i * 0.25f + (float)step : 0;
  for (int i = 0; i < 50; i++) t->bias[i] = values ? (float)i : 0;
  ck_assert_ok(
      ts_ckpt_add_item(&t->c, "model/table.weight", TS_F32, ROWS, COLS, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, true, true, 0, ROWS, t->table));
  ck_assert_ok(
      ts_ckpt_add_item(&t->c, "model/dense.bias", TS_F32, 50, 0, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, true, true, 0, 50, t->bias));
  if (!values) return &t->c;
  ck_assert_ok(ts_ckpt_add_text(&t->c, "meta/deck", "a = 1;\n"));
  ck_assert_ok(
      ts_ckpt_add_value(&t->c, "loader/next_sample", TS_I64, 1, &next));
  return &t->c;
}

static bool right(int64_t step) {
  const ts_content *t = &content;
  const ts_ckpt_value *v = ts_ckpt_value_of(&t->c, "loader/next_sample");
  bool good = t->c.step == step && v && *(int64_t *)v->ptr == 1000 * step;
  for (int i = 0; i < ROWS * COLS; i++)
    good &= t->table[i] == (float)i * 0.25f + (float)step;
  for (int i = 0; i < 50; i++) good &= t->bias[i] == (float)i;
  v = ts_ckpt_value_of(&t->c, "meta/deck");
  return good && v && !strcmp(v->ptr, "a = 1;\n");
}

/* Steps 1 and 2, written by IO. */
static void make_steps(const char *io) {
  ts_log_quiet(1);
  snprintf(first, sizeof first, "%s/step-00000001.h5", dir);
  snprintf(second, sizeof second, "%s/step-00000002.h5", dir);
  for (int64_t step = 1; step <= 2; step++)
    ck_assert_ok(ts_ckpt_save(describe(step, true), dir, 2, io, f.comm));
}

static void stop(void) {
  ts_ckpt_reset(&content.c);
  folder_stop();
}

TS_EACH_TEST_BETWEEN(folder_start, stop)

/* The second is refused with a message that names it and has WORDS; the first
 * is taken for it. */
static void refused(const char *words, const char *what) {
  ts_str path = {0};
  ts_err err = ts_ckpt_load(describe(0, false), second, false, NULL, f.comm);
  ck_assert_msg(err == TS_ERR_CKPT, "%s: code %d: %s", what, (int)err,
                ts_err_message());
  ck_assert_msg(strstr(ts_err_message(), second) &&
                    (!words || strstr(ts_err_message(), words)),
                "%s: %s", what, ts_err_message());
  n_named += strstr(ts_err_message(), "dataset model/") != NULL;
  ts_err_clear();
  err = ts_ckpt_load_newest(describe(0, false), &path, dir, NULL, NULL, NULL,
                            f.comm);
  ck_assert_msg(err == TS_OK && !strcmp(path.text, first) && right(1),
                "%s: the first is not taken: %s", what, ts_err_message());
  ts_str_reset(&path);
}

static void flip(int64_t at, int bit) {
  const int fd = open(second, O_RDWR);
  unsigned char byte;
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
  byte ^= (unsigned char)(1 << bit);
  ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
  close(fd);
}

static int64_t size_of(const char *path) {
  struct stat st;
  ck_assert_int_eq(stat(path, &st), 0);
  return st.st_size;
}

TS_TESTS(every_bit_counts, 0, N_IOS) {
  const char *seed_text = getenv("TESSERA_SEED"),
             *how = getenv("TESSERA_SWEEP");
  const uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 1;
  const int n = how && !strcmp(how, "long") ? 4096 : 64;
  char what[100];
  make_steps(ios[_i]);
  const int64_t size = size_of(second);
  printf("%s: a bit flipped at %d places of %lld bytes, seed %llu\n", ios[_i],
         n, (long long)size, (unsigned long long)seed);
  n_named = 0;
  /* Places spread over the file, then its first and last bytes. */
  for (int i = 0; i < n + 64; i++) {
    const uint64_t x = ts_mix64(seed * 1000003 + (uint64_t)i);
    int64_t at = size * i / n + (int64_t)(x % (uint64_t)(size / n));
    if (i >= n) at = i < n + 32 ? i - n : size - 1 - (i - n - 32);
    if (at >= size) continue;
    const int bit = (int)(x >> 61);
    snprintf(what, sizeof what, "bit %d of byte %lld", bit, (long long)at);
    flip(at, bit);
    refused(NULL, what);
    flip(at, bit);
  }
  /* Most of the file is the table. */
  ck_assert_int_ge(n_named, n * 3 / 4);
  ck_assert_ok(ts_ckpt_load(describe(0, false), second, false, NULL, f.comm));
  ck_assert(right(2));
}

TS_TESTS(every_length_counts, 0, N_IOS) {
  make_steps(ios[_i]);
  const int64_t size = size_of(second);
  /* Nothing, inside of the superblock, after it, in the header's objects,
   * small values, datasets, checksums, the seal. */
  const int64_t lengths[] = {
      size - 1,   size - 12,   size - 24, size - 25, size - 60, size - 100,
      size - 500, size - 2000, size / 2,  size / 3,  size / 7,  4096,
      2048,       1000,        300,       100,       96,        48,
      47,         9,           8,         7,         1,         0};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    char what[60];
    snprintf(what, sizeof what, "%lld of %lld bytes", (long long)lengths[i],
             (long long)size);
    ck_assert_int_eq(truncate(second, lengths[i]), 0);
    refused(NULL, what);
  }
}

/* Opens the second with HDF5, which takes its seal away. */
static hid_t unsealed(const char *path) {
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  ck_assert(file >= 0 && H5Adelete(file, "sealed") >= 0);
  return file;
}

TS_TESTS(marks, 0, N_IOS) {
  const int64_t newer = 3;
  make_steps(ios[_i]);
  ts_hdf5_lock();
  hid_t file = unsealed(second);
  ck_assert_int_ge(H5Fclose(file), 0);
  ts_hdf5_unlock();
  /* Nothing else was changed: files without a seal are read, too. */
  ck_assert_ok(ts_ckpt_load(describe(0, false), second, false, NULL, f.comm));
  ck_assert(right(2));
  ts_hdf5_lock();
  file = H5Fopen(second, H5F_ACC_RDWR, H5P_DEFAULT);
  ck_assert_int_ge(H5Adelete(file, "complete"), 0);
  ck_assert_int_ge(H5Fclose(file), 0);
  ts_hdf5_unlock();
  refused("was not finished", "no mark");
  ts_ckpt none = {0};
  ck_assert_int_eq(ts_ckpt_load_items(&none, second, f.comm), TS_ERR_CKPT);
  ts_err_clear();
  ck_assert_int_eq(ts_ckpt_peek(&none, second), TS_ERR_CKPT);
  ts_err_clear();
  ck_assert_ok(ts_ckpt_save(describe(2, true), dir, 2, ios[_i], f.comm));
  ts_hdf5_lock();
  file = unsealed(second);
  ck_assert_int_ge(H5Adelete(file, "version"), 0);
  ck_assert_ok(
      ts_hdf5_put_attr(file, "version", H5T_NATIVE_INT64, &newer, TS_ERR_CKPT));
  ck_assert_int_ge(H5Fclose(file), 0);
  ts_hdf5_unlock();
  refused("version 3 of the checkpoint format; this program reads", "3");
}

/* Links at the names that a save uses lead nowhere. */
TS_TESTS(planted_links, 0, N_IOS) {
  char other[300], temp[300], text[8] = "";
  make_steps(ios[_i]);
  snprintf(other, sizeof other, "%s/other", dir);
  snprintf(temp, sizeof temp, "%s/.step-00000003.h5.part", dir);
  int fd = open(other, O_CREAT | O_WRONLY, 0666);
  ck_assert_int_eq(write(fd, "secret", 6), 6);
  close(fd);
  ck_assert_int_eq(symlink(other, temp), 0);
  snprintf(second, sizeof second, "%s/step-00000003.h5", dir);
  ck_assert_int_eq(symlink(other, second), 0);
  ck_assert_ok(ts_ckpt_save(describe(3, true), dir, 2, ios[_i], f.comm));
  ck_assert_ok(ts_ckpt_load(describe(0, false), second, false, NULL, f.comm));
  ck_assert(right(3));
  fd = open(other, O_RDONLY);
  ck_assert_int_eq(read(fd, text, 7), 6);
  ck_assert_str_eq(text, "secret");
  close(fd);
}
