/* checkpoint_seal.c - a checksum of what lies between the datasets. */
#include "io/checkpoint_seal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"

static const char MAGIC[] = "tessera-seal";

/* The end of the file, behind the holes. */
typedef struct ts_seal_end {
  int64_t n;
  uint32_t crc;
  char magic[sizeof MAGIC - 1];
} ts_seal_end;
_Static_assert(sizeof(ts_seal_end) == 24, "of the format");

static int by_place(const void *a, const void *b) {
  const ts_seal_hole *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

/* Goes on with *CRC over bytes [from, to). */
static ts_err sum(int fd, const char *path, int64_t from, int64_t to,
                  void *block, uint32_t *crc) {
  for (int64_t at = from; at < to; at += TS_BLOCK_BYTES) {
    const int64_t n = to - at < TS_BLOCK_BYTES ? to - at : TS_BLOCK_BYTES;
    TS_DO(ts_pread(fd, block, n, at, path, TS_ERR_CKPT));
    *crc = ts_crc32c(*crc, block, (size_t)n);
  }
  return TS_OK;
}

/* *CRC = the checksum of all that is sealed: bytes [0, end) less the holes,
 * then the holes' places and their number. */
static ts_err sum_all(int fd, const char *path, const ts_seal_hole *holes,
                      int64_t n, int64_t end, uint32_t *crc) {
  ts_err err = TS_OK;
  int64_t at = 0;
  void *block = NULL;
  TS_TRY(ts_mem_alloc(&block, TS_BLOCK_BYTES, TS_TAG_CHECKPOINT));
  *crc = 0;
  for (int64_t i = 0; i < n; i++) {
    TS_TRY(sum(fd, path, at, holes[i].at, block, crc));
    at = holes[i].at + holes[i].n_bytes;
  }
  TS_TRY(sum(fd, path, at, end, block, crc));
  *crc = ts_crc32c(*crc, holes, (size_t)n * sizeof *holes);
  *crc = ts_crc32c(*crc, &n, sizeof n);
done:
  ts_mem_free(block);
  return err;
}

/* *SIZE = bytes of the file; 0 where FD is not a regular file, such as a pipe,
 * which has no size. */
static ts_err size_of(int fd, const char *path, int64_t *size) {
  struct stat st;
  if (fstat(fd, &st) != 0) return ts_fail_errno(TS_ERR_CKPT, path);
  *size = S_ISREG(st.st_mode) ? st.st_size : 0;
  return TS_OK;
}

ts_err ts_seal_write(int fd, const char *path, ts_seal_hole *holes, int64_t n,
                     int64_t *seal) {
  int64_t size = 0;
  ts_seal_end end = {.n = n};
  memcpy(end.magic, MAGIC, sizeof end.magic);
  if (n) qsort(holes, (size_t)n, sizeof *holes, by_place);
  TS_DO(size_of(fd, path, &size));
  TS_DO(sum_all(fd, path, holes, n, size, &end.crc));
  *seal = end.crc;
  TS_DO(ts_pwrite(fd, holes, 16 * n, size, path, TS_ERR_CKPT));
  return ts_pwrite(fd, &end, sizeof end, size + 16 * n, path, TS_ERR_CKPT);
}

/* ---- files of parallel HDF5 ---------------------------------------------- */

/* Chunks have checksums of HDF5's; those that can't be found are sealed. */
static int64_t n_chunks(hid_t set, hid_t space) {
  hsize_t n = 0;
#if H5_VERSION_GE(1, 10, 5)
  if (H5Dget_num_chunks(set, space, &n) < 0) return 0;
#endif
  (void)set, (void)space;
  return (int64_t)n;
}

static ts_err add_chunks(ts_seal_hole **holes, int64_t *n, hid_t set) {
  ts_err err = TS_OK;
  hid_t space = H5Dget_space(set);
  const int64_t more = n_chunks(set, space);
  if (more == 0) goto done;
  TS_TRY(
      ts_mem_extend(holes, *n, *n + more, sizeof **holes, TS_TAG_CHECKPOINT));
#if H5_VERSION_GE(1, 10, 5)
  for (int64_t i = 0; i < more; i++) {
    haddr_t at;
    hsize_t bytes;
    if (H5Dget_chunk_info(set, space, (hsize_t)i, NULL, NULL, &at, &bytes) >=
            0 &&
        at != HADDR_UNDEF)
      (*holes)[(*n)++] = (ts_seal_hole){(int64_t)at, (int64_t)bytes};
  }
#endif
done:
  H5Sclose(space);
  return err;
}

static ts_err find_chunks(const ts_ckpt *c, const char *path,
                          ts_seal_hole **holes, int64_t *n) {
  ts_err err = TS_OK;
  hid_t set = -1;
  ts_hdf5_lock();
  hid_t file = TS_HDF5(H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
  if (file < 0) TS_THROW(TS_ERR_CKPT, "%s: %s", path, ts_hdf5_why());
  for (int32_t i = 0; i < c->n_items; i++) {
    if (!c->items[i].rows) continue;
    set = H5Dopen2(file, c->items[i].name, H5P_DEFAULT);
    if (set < 0) TS_THROW(TS_ERR_CKPT, "%s: %s", path, ts_hdf5_why());
    TS_TRY(add_chunks(holes, n, set));
    H5Dclose(set);
    set = -1;
  }
done:
  if (set >= 0) H5Dclose(set);
  if (file >= 0) H5Fclose(file);
  ts_hdf5_unlock();
  return err;
}

ts_err ts_seal_chunked(ts_ckpt *c, const char *path) {
  ts_err err = TS_OK;
  ts_seal_hole *holes = NULL;
  int64_t n = 0;
  int fd = -1;
  TS_TRY(find_chunks(c, path, &holes, &n));
  fd = ts_file_open(path, O_RDWR);
  if (fd < 0) TS_TRY(ts_fail_errno(TS_ERR_CKPT, path));
  TS_TRY(ts_seal_write(fd, path, holes, n, &c->seal));
  if (ts_file_sync(fd) != 0) TS_TRY(ts_fail_errno(TS_ERR_CKPT, path));
done:
  if (fd >= 0) close(fd);
  ts_mem_free(holes);
  return err;
}

/* ---- checking ------------------------------------------------------------ */

static ts_err damaged(const char *path) {
  return ts_fail(TS_ERR_CKPT,
                 "%s: is damaged in its structure or small values, outside "
                 "of the datasets of tables and layers",
                 path);
}

/* Holes follow each other, before END. */
static bool are_holes(const ts_seal_hole *holes, int64_t n, int64_t end) {
  int64_t at = 0;
  for (int64_t i = 0; i < n; at = holes[i].at + holes[i].n_bytes, i++)
    if (holes[i].at < at || holes[i].at > end || holes[i].n_bytes < 0 ||
        holes[i].n_bytes > end - holes[i].at)
      return false;
  return true;
}

/* The seal's end; its number of holes fits the file. */
static ts_err read_end(int fd, const char *path, int64_t size, bool *found,
                       ts_seal_end *end) {
  const int64_t rest = size - (int64_t)sizeof *end;
  *found = false;
  if (rest < 0) return TS_OK;
  ts_err err = ts_pread(fd, end, sizeof *end, rest, path, TS_ERR_CKPT);
  if (err != TS_OK || memcmp(end->magic, MAGIC, sizeof end->magic) != 0)
    return err;
  *found = true;
  return end->n < 0 || end->n > rest / 16 ? damaged(path) : TS_OK;
}

static ts_err check_file(int fd, const char *path, int64_t *seal) {
  ts_err err = TS_OK;
  ts_seal_hole *holes = NULL;
  ts_seal_end end;
  int64_t size = 0;
  uint32_t crc;
  bool found;
  *seal = -1;
  TS_TRY(size_of(fd, path, &size));
  TS_TRY(read_end(fd, path, size, &found, &end));
  if (!found) goto done;
  const int64_t from = size - ts_seal_bytes(end.n);
  TS_TRY(ts_mem_many(holes, end.n, CHECKPOINT));
  TS_TRY(ts_pread(fd, holes, 16 * end.n, from, path, TS_ERR_CKPT));
  if (!are_holes(holes, end.n, from)) TS_TRY(damaged(path));
  TS_TRY(sum_all(fd, path, holes, end.n, from, &crc));
  if (crc != end.crc) TS_TRY(damaged(path));
  *seal = crc;
done:
  ts_mem_free(holes);
  return err;
}

ts_err ts_seal_check(const char *path, int64_t *seal) {
  /* Pipes have nobody to wait for. */
  const int fd = ts_file_open(path, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return ts_fail_errno(TS_ERR_CKPT, path);
  const ts_err err = check_file(fd, path, seal);
  close(fd);
  return err;
}
