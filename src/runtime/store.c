/* store.c - the range of addresses, and rows in host memory. */
#include "runtime/store.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern const ts_store_ops ts_store_file;

/* ---- host memory --------------------------------------------------------- */

/* Anonymous memory in place of what was reserved. */
static ts_err place(void *address, int64_t bytes) {
  if (!bytes) return TS_OK;
  if (mmap(address, (size_t)bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
           0) == MAP_FAILED)
    return ts_fail(TS_ERR_NOMEM, "out of memory: %lld bytes for tables",
                   (long long)bytes);
  (void)madvise(address, (size_t)bytes, MADV_HUGEPAGE);
  return TS_OK;
}

static ts_err host_map(ts_store *s, void *address, int64_t bytes,
                       const char *dir) {
  (void)dir;
  const ts_err err = place(address, bytes);
  if (err == TS_OK) ts_mem_count(TS_TAG_SLOW, TS_SPACE_HOST, bytes);
  if (err == TS_OK) s->slow_bytes = bytes;
  return err;
}

static void host_unmap(ts_store *s) {
  ts_mem_count(TS_TAG_SLOW, TS_SPACE_HOST, -s->slow_bytes);
}

static ts_err host_read(ts_store *s, uint32_t row, char *line) {
  memcpy(line, ts_store_at(s, row), (size_t)s->row_bytes);
  return TS_OK;
}

static ts_err host_write(ts_store *s, uint32_t row, const char *line) {
  memcpy(ts_store_at(s, row), line, (size_t)s->row_bytes);
  return TS_OK;
}

static const ts_store_ops host = {.map = host_map,
                                  .unmap = host_unmap,
                                  .read = host_read,
                                  .write = host_write};

/* ---- the range ----------------------------------------------------------- */

static int64_t up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

int64_t ts_store_first_line(int64_t n_rows) {
  return up(n_rows, sysconf(_SC_PAGESIZE));
}

ts_err ts_store_create(ts_store *s, const char *dir, int64_t n_rows,
                       int64_t n_lines, int64_t row_bytes, ts_tag lines) {
  ts_err err = TS_OK;
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t fast = up(n_lines * row_bytes, page);
  *s = (ts_store){.ops = dir ? &ts_store_file : &host,
                  .row_bytes = row_bytes,
                  .n_rows = n_rows,
                  .first_line = ts_store_first_line(n_rows),
                  .n_lines = n_lines,
                  .tag = lines,
                  .fd = -1};
  s->range_bytes = s->first_line * row_bytes + fast;
  if (!s->range_bytes) return TS_OK;
  s->base = mmap(NULL, (size_t)s->range_bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (s->base == MAP_FAILED) {
    s->base = NULL;
    TS_THROW(TS_ERR_NOMEM, "out of memory: %lld bytes of addresses for tables",
             (long long)s->range_bytes);
  }
  ts_mem_count(s->tag, TS_SPACE_HOST, fast);
  TS_TRY(place(ts_store_at(s, s->first_line), fast));
  TS_TRY(s->ops->map(s, s->base, up(n_rows * row_bytes, page), dir));
done:
  if (err != TS_OK) ts_store_reset(s);
  return err;
}

void ts_store_reset(ts_store *s) {
  if (!s->base) return;
  ts_mem_count(s->tag, TS_SPACE_HOST,
               s->first_line * s->row_bytes - s->range_bytes);
  s->ops->unmap(s);
  munmap(s->base, (size_t)s->range_bytes);
  *s = (ts_store){.fd = -1};
}

enum { FEW = 256 }; /* rows that one thread moves sooner than several */

/* ---- moving rows --------------------------------------------------------- */

void ts_store_ask(ts_store *s, const uint32_t *rows, int64_t n) {
  if (s->ops->ask) s->ops->ask(s, rows, n);
}

void ts_store_forget(ts_store *s) {
  if (s->base && s->ops->forget) s->ops->forget(s);
}

/* A thread's error is handed to the caller. */
static void keep(ts_err_record *fault) {
  ts_err_record own;
  ts_err_take(&own);
#pragma omp critical(ts_store_fault)
  if (fault->code == TS_OK) *fault = own;
}

static ts_err hand_over(const ts_err_record *fault) {
  if (fault->code != TS_OK) ts_err_put(fault);
  return fault->code;
}

ts_err ts_store_read(ts_store *s, const uint32_t *rows, const uint32_t *slots,
                     int64_t n) {
  ts_err_record fault = {.code = TS_OK};
#pragma omp parallel for schedule(static) if (n >= FEW)
  for (int64_t i = 0; i < n; i++)
    if (s->ops->read(s, rows[i], ts_store_at(s, slots[i])) != TS_OK)
      keep(&fault);
  return hand_over(&fault);
}

ts_err ts_store_write(ts_store *s, const uint32_t *rows, const uint32_t *slots,
                      int64_t n) {
  ts_err_record fault = {.code = TS_OK};
#pragma omp parallel for schedule(static) if (n >= FEW)
  for (int64_t i = 0; i < n; i++)
    if (s->ops->write(s, rows[i], ts_store_at(s, slots[i])) != TS_OK)
      keep(&fault);
  return hand_over(&fault);
}
