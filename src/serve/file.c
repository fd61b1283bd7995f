/* file.c - the file that is served, mapped and looked through. */
#include "serve/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

_Static_assert(sizeof(ts_serve_head) == TS_SERVE_HEAD, "as documented");
_Static_assert(sizeof(ts_serve_entry) == 48, "as documented");

static const int64_t ROWS_MAX = INT64_C(1) << 40, COLS_MAX = 1 << 20;

int64_t ts_serve_bytes(uint32_t kind, int64_t rows, int64_t cols) {
  const bool vector = cols == 0;
  if (rows < 0 || rows > ROWS_MAX || cols < 0 || cols > COLS_MAX) return -1;
  if (kind == TS_PART_BYTES) return vector ? rows : -1;
  if (kind == TS_PART_I64) return vector ? 8 * rows : -1;
  if (kind >= TS_PART_KINDS) return -1;
  if (!vector) return rows * ts_rows_bytes((ts_rows_kind)kind, (int32_t)cols);
  return kind == TS_ROWS_F32 ? 4 * rows : kind == TS_ROWS_BF16 ? 2 * rows : -1;
}

uint64_t ts_serve_seal(uint64_t seal, const char *name,
                       const ts_serve_entry *e) {
  const int64_t shape[] = {e->rows, e->cols, e->kind, e->crc};
  seal = ts_fnv1a(seal, name, strlen(name) + 1);
  return ts_fnv1a(seal, shape, sizeof shape);
}

/* ---- open ---------------------------------------------------------------- */

/* Why this is no part; NULL: it is one. */
static const char *why_not(const ts_serve_file *f, const ts_serve_entry *e) {
  if (e->name >= f->head.names) return "has a name behind all names";
  if (e->at < TS_SERVE_HEAD || e->at % TS_SERVE_ALIGN || e->bytes < 0 ||
      e->at > f->head.index || e->bytes > f->head.index - e->at)
    return "does not lie in the file";
  if (ts_serve_bytes(e->kind, e->rows, e->cols) != e->bytes)
    return "has another size than its shape";
  return NULL;
}

static ts_err check_index(ts_serve_file *f) {
  const ts_serve_head *h = &f->head;
  const int64_t room = h->bytes - h->index;
  const int64_t entries = (int64_t)h->n_parts * (int64_t)sizeof *f->index;
  if (h->index < TS_SERVE_HEAD || h->index % TS_SERVE_ALIGN || room < 0 ||
      entries + h->names != room || !h->names)
    return ts_fail(TS_ERR_CKPT, "%s: is damaged: its index has no place",
                   f->path);
  f->index = (const void *)(f->data + h->index);
  f->names = f->data + h->index + entries;
  if (ts_crc32c(0, f->index, (size_t)room) != h->index_crc ||
      f->names[h->names - 1])
    return ts_fail(TS_ERR_CKPT, "%s: is damaged: its index is not whole",
                   f->path);
  for (uint32_t i = 0; i < h->n_parts; i++) {
    const char *why = why_not(f, &f->index[i]);
    if (!why && i &&
        strcmp(f->names + f->index[i - 1].name, f->names + f->index[i].name) >=
            0)
      why = "is not behind the one before it";
    if (why)
      return ts_fail(TS_ERR_CKPT, "%s: is damaged: part %u %s", f->path, i,
                     why);
  }
  return TS_OK;
}

static ts_err map(ts_serve_file *f) {
  struct stat st;
  if (fstat(f->fd, &st)) return ts_fail_errno(TS_ERR_IO, f->path);
  if (!S_ISREG(st.st_mode) || st.st_size < TS_SERVE_HEAD)
    return ts_fail(TS_ERR_CKPT, "%s: is no file to serve", f->path);
  TS_DO(ts_pread(f->fd, &f->head, sizeof f->head, 0, f->path, TS_ERR_IO));
  if (memcmp(f->head.magic, TS_SERVE_MAGIC, sizeof f->head.magic) != 0)
    return ts_fail(TS_ERR_CKPT,
                   "%s: is no file to serve; `tessera export --format serve` "
                   "makes one",
                   f->path);
  if (f->head.version != TS_SERVE_VERSION)
    return ts_fail(TS_ERR_CKPT, "%s: is of version %u, and this reads %d",
                   f->path, f->head.version, TS_SERVE_VERSION);
  if (f->head.bytes != st.st_size)
    return ts_fail(TS_ERR_CKPT, "%s: is damaged: it has %lld bytes of %lld",
                   f->path, (long long)st.st_size, (long long)f->head.bytes);
  void *p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_NORESERVE, f->fd, 0);
  if (p == MAP_FAILED) return ts_fail_errno(TS_ERR_IO, f->path);
  f->data = p;
  /* Rows are looked up anywhere: what is read ahead would be for nothing. */
  (void)madvise(p, (size_t)st.st_size, MADV_RANDOM);
  return check_index(f);
}

static ts_err open_fd(ts_serve_file *f, int fd, const char *path) {
  f->fd = fd;
  ts_err err = ts_mem_strdup(&f->path, path);
  if (err == TS_OK) err = map(f);
  if (err != TS_OK) ts_serve_close(f);
  return err;
}

ts_err ts_serve_open(ts_serve_file *f, const char *path) {
  *f = (ts_serve_file){.fd = -1};
  const int fd = ts_file_open(path, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return ts_fail_errno(TS_ERR_IO, path);
  return open_fd(f, fd, path);
}

ts_err ts_serve_open_again(ts_serve_file *f, const ts_serve_file *of) {
  *f = (ts_serve_file){.fd = -1};
  const int fd = fcntl(of->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return ts_fail_errno(TS_ERR_IO, of->path);
  return open_fd(f, fd, of->path);
}

void ts_serve_close(ts_serve_file *f) {
  if (f->data) (void)munmap(f->data, (size_t)f->head.bytes);
  if (f->fd >= 0) (void)close(f->fd);
  ts_mem_free(f->path);
  *f = (ts_serve_file){.fd = -1};
}

/* ---- parts --------------------------------------------------------------- */

/* strcmp of HEAD and NAME behind it with OWN. */
static int compare(const char *head, const char *name, const char *own) {
  const size_t n = strlen(head);
  const int order = strncmp(head, own, n);
  return order ? order : strcmp(name, own + n);
}

const ts_serve_entry *ts_serve_find(const ts_serve_file *f, const char *head,
                                    const char *name) {
  uint32_t low = 0, high = f->head.n_parts;
  while (low < high) {
    const uint32_t mid = low + (high - low) / 2;
    const int order = compare(head, name, f->names + f->index[mid].name);
    if (!order) return &f->index[mid];
    if (order < 0)
      high = mid;
    else
      low = mid + 1;
  }
  return NULL;
}

ts_err ts_serve_check(const ts_serve_file *f, const ts_serve_entry *e) {
  if (ts_crc32c(0, ts_serve_at(f, e), (size_t)e->bytes) == e->crc) return TS_OK;
  return ts_fail(TS_ERR_CKPT, "%s: is damaged: %.200s is not as it was written",
                 f->path, f->names + e->name);
}

ts_err ts_serve_text(const ts_serve_file *f, const char *name,
                     const char **text) {
  const ts_serve_entry *e = ts_serve_find(f, "", name);
  *text = "";
  if (!e) return TS_OK;
  TS_DO(ts_serve_check(f, e));
  const char *p = ts_serve_at(f, e);
  if (e->kind != TS_PART_BYTES || e->bytes < 1 || p[e->bytes - 1])
    return ts_fail(TS_ERR_CKPT, "%s: is damaged: %s is no text", f->path, name);
  *text = p;
  return TS_OK;
}
