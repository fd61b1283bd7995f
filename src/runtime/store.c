/* store.c - the range of addresses, and rows in host memory. */
#include "runtime/store.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

static const ts_store_ops host = {.map = host_map, .unmap = host_unmap};

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

/* ---- moving rows --------------------------------------------------------- */

enum {
  FEW = 256,      /* rows that one thread moves sooner than several */
  EXPECT = 6,     /* rows ahead whose memory is asked for */
  LARGE_PART = 8, /* of the machine's memory: a large file */
  NEAR = 512,     /* bytes of them; what follows the processor sees coming */
  LATE_PART = 64  /* one row in so many that a disk has to bring is too much */
};

void ts_store_look(ts_store *s, const uint32_t *rows, int64_t n) {
  if (s->ops->look && n) s->ops->look(s, rows, n);
}

void ts_store_ask(ts_store *s, const uint32_t *rows, int64_t n) {
  if (s->ops->ask && s->cold && n) s->ops->ask(s, rows, n);
}

void ts_store_forget(ts_store *s) {
  const int64_t all = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  if (s->base && s->ops->forget && s->slow_bytes > all / LARGE_PART)
    s->ops->forget(s);
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

/* The rows of N, and the lines for them. */
typedef struct ts_moving {
  ts_store *s;
  const uint32_t *rows, *slots;
  int64_t n;
  bool out; /* from lines to rows */
} ts_moving;

static void expect(const ts_moving *m, int64_t i) {
  const char *row = ts_store_at(m->s, m->rows[i]);
  const char *line = ts_store_at(m->s, m->slots[i]);
  const int64_t bytes = m->s->row_bytes < NEAR ? m->s->row_bytes : NEAR;
  for (int64_t k = 0; k < bytes; k += 64) {
    __builtin_prefetch(row + k, 0, 0);
    __builtin_prefetch(line + k, 0, 0);
  }
}

/* Pages that this thread had to wait for a disk for, so far. */
static int64_t waits(const ts_store *s) {
  struct rusage u;
  return s->ops->read && !getrusage(RUSAGE_THREAD, &u) ? u.ru_majflt : 0;
}

/* Returns how many of the rows a disk had to bring. */
static int64_t copy(const ts_moving *m) {
  int64_t late = 0;
#pragma omp parallel if (m->n >= FEW) reduction(+ : late)
  {
    const int64_t before = waits(m->s);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < m->n; i++) {
      char *row = ts_store_at(m->s, m->rows[i]);
      char *line = ts_store_at(m->s, m->slots[i]);
      if (i + EXPECT < m->n) expect(m, i + EXPECT);
      memcpy(m->out ? row : line, m->out ? line : row, (size_t)m->s->row_bytes);
    }
    late = waits(m->s) - before;
  }
  return late;
}

static ts_err move_cold(const ts_moving *m) {
  ts_err_record fault = {.code = TS_OK};
  ts_store *s = m->s;
#pragma omp parallel for schedule(static) if (m->n >= FEW)
  for (int64_t i = 0; i < m->n; i++) {
    char *line = ts_store_at(s, m->slots[i]);
    if ((m->out ? s->ops->write(s, m->rows[i], line)
                : s->ops->read(s, m->rows[i], line)) != TS_OK)
      keep(&fault);
  }
  return hand_over(&fault);
}

static ts_err move(const ts_moving *m) {
  if (m->s->cold) return move_cold(m);
  if (copy(m) > m->n / LATE_PART) m->s->cold = 1;
  return TS_OK;
}

ts_err ts_store_read(ts_store *s, const uint32_t *rows, const uint32_t *slots,
                     int64_t n) {
  return move(&(ts_moving){s, rows, slots, n, false});
}

ts_err ts_store_write(ts_store *s, const uint32_t *rows, const uint32_t *slots,
                      int64_t n) {
  return move(&(ts_moving){s, rows, slots, n, true});
}
