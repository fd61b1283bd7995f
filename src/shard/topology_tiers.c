/* topology_tiers.c - how fast rows come from slow memory. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/store.h"
#include "runtime/trace.h"
#include "shard/topology.h"

enum { ROWS = 65536, ROW_BYTES = 256, MOVED = 8192, MOVED_DISK = 1024 };

/* Bytes per ns of N rows, ascending, a fixed step apart. */
static ts_err time_rows(double *rate, ts_store *s, int64_t n) {
  uint32_t rows[MOVED], lines[MOVED];
  for (int64_t i = 0; i < n; i++) {
    rows[i] = (uint32_t)(i * (ROWS / n));
    lines[i] = (uint32_t)(s->first_line + i * 7919 % n);
  }
  const double t0 = ts_now();
  ts_store_look(s, rows, n);
  ts_store_ask(s, rows, n);
  TS_DO(ts_store_read(s, rows, lines, n));
  const double seconds = ts_now() - t0;
  *rate = 1e-9 * (double)n * ROW_BYTES / (seconds > 1e-7 ? seconds : 1e-7);
  return TS_OK;
}

static void touch(ts_store *s) {
  for (int64_t at = 0; at < (int64_t)ROWS * ROW_BYTES; at += 4096)
    s->base[at] = 1;
}

ts_err ts_topology_tiers(ts_topology *t, const char *dir) {
  ts_err err = TS_OK;
  ts_store s = {.fd = -1};
  TS_TRY(ts_store_create(&s, NULL, ROWS, MOVED, ROW_BYTES, TS_TAG_MISC));
  touch(&s);
  TS_TRY(time_rows(&t->slow_gbytes_per_s, &s, MOVED));
  TS_TRY(time_rows(&t->slow_gbytes_per_s, &s, MOVED)); /* lines are there */
  ts_store_reset(&s);
  if (!dir || !*dir) goto done;
  TS_TRY(ts_store_create(&s, dir, ROWS, MOVED, ROW_BYTES, TS_TAG_MISC));
  touch(&s);
  (void)madvise(s.base, (size_t)s.slow_bytes, MADV_DONTNEED);
  (void)fdatasync(s.fd);
  (void)posix_fadvise(s.fd, 0, 0, POSIX_FADV_DONTNEED);
  TS_TRY(time_rows(&t->disk_gbytes_per_s, &s, MOVED_DISK));
done:
  ts_store_reset(&s);
  return err;
}
