/* test_store.c - rows in files: they come and go, names are nobody's, full
 * disks are told. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/harness.h"
#include "runtime/store.h"

/* ---- rows in files ------------------------------------------------------- */

enum { FILE_ROWS = 60000, FILE_BYTES = 300, MOVED = 3000, ALL_PAGES = 5000 };

static char byte_of(int64_t row, int64_t k, int age) {
  return (char)(row * 31 + k * 7 + age * 101);
}

static bool holds(const char *p, int64_t row, int age) {
  for (int64_t k = 0; k < FILE_BYTES; k++)
    if (p[k] != byte_of(row, k, age)) return false;
  return true;
}

/* Rows to lines, changed there, and back. */
static void there_and_back(ts_store *s, const uint32_t *rows,
                           const uint32_t *slots, int age) {
  ck_assert_ok(ts_store_read(s, rows, slots, MOVED));
  for (int i = 0; i < MOVED; i++) {
    char *line = ts_store_at(s, slots[i]);
    ck_assert(holds(line, rows[i], age));
    for (int64_t k = 0; k < FILE_BYTES; k++)
      line[k] = byte_of(rows[i], k, age + 1);
  }
  ck_assert_ok(ts_store_write(s, rows, slots, MOVED));
  for (int i = 0; i < MOVED; i++)
    ck_assert(holds(ts_store_at(s, rows[i]), rows[i], age + 1));
}

static bool lacks_pages(const ts_store *s) {
  static unsigned char there[ALL_PAGES];
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t n = (s->slow_bytes + page - 1) / page;
  bool lacks = false;
  ck_assert_int_le(n, ALL_PAGES);
  ck_assert_int_eq(mincore(s->base, (size_t)s->slow_bytes, there), 0);
  for (int64_t i = 0; i < n; i++) lacks = lacks || !(there[i] & 1);
  return lacks;
}

/* The same rows come and go whether pages are in memory or not; the store
 * finds out which, where the file system lets pages be forgotten. */
TS_TEST(cold_and_warm) {
  static uint32_t rows[MOVED], slots[MOVED];
  ts_store s;
  struct stat st;
  char dir[] = "./tessera-cache-XXXXXX";
  ck_assert_ptr_nonnull(mkdtemp(dir));
  ck_assert_ok(
      ts_store_create(&s, dir, FILE_ROWS, MOVED, FILE_BYTES, TS_TAG_TABLES));
  ck_assert_int_eq(fstat(s.fd, &st), 0);
  ck_assert_int_ge(st.st_blocks * 512, (int64_t)FILE_ROWS * FILE_BYTES);
  for (int i = 0; i < MOVED; i++) {
    rows[i] = (uint32_t)(i * (FILE_ROWS / MOVED) + i % 7);
    slots[i] = (uint32_t)(s.first_line + i * 7 % MOVED);
    for (int64_t k = 0; k < FILE_BYTES; k++)
      ts_store_at(&s, rows[i])[k] = byte_of(rows[i], k, 0);
  }
  for (int age = 0; age < 2; age++) {
    s.cold = age;
    there_and_back(&s, rows, slots, age);
  }
  ck_assert_int_eq(madvise(s.base, (size_t)s.slow_bytes, MADV_DONTNEED), 0);
  ck_assert_int_eq(fdatasync(s.fd), 0);
  (void)posix_fadvise(s.fd, 0, 0, POSIX_FADV_DONTNEED);
  const bool lacks = lacks_pages(&s);
  s.cold = 0;
  there_and_back(&s, rows, slots, 2);
  ck_assert(!lacks || s.cold);
  s.cold = 1;
  ts_store_look(&s, rows, MOVED); /* all of them were moved just now */
  ck_assert(!s.cold);
  ts_store_ask(&s, rows, MOVED);
  there_and_back(&s, rows, slots, 3);
  ts_store_reset(&s);
  ck_assert_int_eq(rmdir(dir), 0);
}

/* Files that others have, or that a killed process left, are in nobody's way.
 */
TS_TEST(names_are_free) {
  enum { LEFT = 2000 };
  char dir[] = "./tessera-cache-XXXXXX", path[80];
  ts_store s;
  ck_assert_ptr_nonnull(mkdtemp(dir));
  for (int i = 0; i < LEFT; i++) {
    snprintf(path, sizeof path, "%s/tessera-%ld-%d.tier", dir, (long)getpid(),
             i);
    const int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
  }
  const ts_err err = ts_store_create(&s, dir, 10, 32, 64, TS_TAG_TABLES);
  for (int i = 0; i < LEFT; i++) {
    snprintf(path, sizeof path, "%s/tessera-%ld-%d.tier", dir, (long)getpid(),
             i);
    unlink(path);
  }
  ck_assert_ok(err);
  ts_store_reset(&s);
  ck_assert_int_eq(rmdir(dir), 0);
}

/* ---- a full disk --------------------------------------------------------- */

TS_TEST(no_room) {
  ts_store s;
  char dir[] = "/tmp/tessera-cache-XXXXXX";
  ts_err_clear();
  ck_assert_ptr_nonnull(mkdtemp(dir));
  ck_assert_int_eq(
      ts_store_create(&s, dir, INT64_C(1) << 32, 32, 4096, TS_TAG_TABLES),
      TS_ERR_IO);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), dir));
  ts_err_clear();
  ck_assert_int_eq(
      ts_store_create(&s, "/nowhere/at/all", 10, 32, 64, TS_TAG_TABLES),
      TS_ERR_IO);
  ts_err_clear();
  ck_assert_int_eq(rmdir(dir), 0);
}
