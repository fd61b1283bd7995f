/* bench_memory.c - what memory gives to simple loops, to set lookups beside.
 * They are built for the widest vectors and run on all threads, so that
 * little but memory holds them up; a loop that keeps more reads in flight can
 * still be faster than the one over rows. */
#include "commands/bench.h"
#include "runtime/trace.h"

enum { PARTS = 64, AHEAD = 16, WORDS = 64 };

/* Tables may hold anything: rows of an odd number of 16-bit floats, too. */
typedef uint32_t ts_word __attribute__((aligned(2), may_alias));

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) /* base/clones.h */
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

/* The sum keeps the reads from being left out. */
static volatile uint32_t sink;

static const char *row_of(const ts_bench_rows *r, int64_t i) {
  return (const char *)r->first +
         (i / r->ids_per_table * r->rows_per_table + r->ids[i]) * r->row_bytes;
}

WIDE static uint32_t read_ids(const ts_bench_rows *r, int64_t from,
                              int64_t to) {
  const int64_t n = r->row_bytes / 4;
  uint32_t sum[WORDS] = {0}, total = 0;
  for (int64_t i = from; i < to; i++) {
    if (i + AHEAD < to)
      for (int64_t k = 0; k < r->row_bytes; k += 64)
        __builtin_prefetch(row_of(r, i + AHEAD) + k);
    const ts_word *row = (const ts_word *)row_of(r, i);
    int64_t d = 0;
    for (; d + WORDS <= n; d += WORDS)
      for (int v = 0; v < WORDS; v++) sum[v] += row[d + v];
    for (; d < n; d++) sum[d % WORDS] += row[d];
  }
  for (int v = 0; v < WORDS; v++) total += sum[v];
  return total;
}

double ts_bench_read_rows(const ts_bench_rows *r) {
  uint32_t total = 0;
  const double start = ts_now();
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (int p = 0; p < PARTS; p++)
    total += read_ids(r, r->n_ids * p / PARTS, r->n_ids * (p + 1) / PARTS);
  sink += total;
  return ts_now() - start;
}

WIDE static uint32_t read_words(const ts_word *x, int64_t n) {
  uint32_t sum[WORDS] = {0}, total = 0;
  for (int64_t i = 0; i + WORDS <= n; i += WORDS)
    for (int v = 0; v < WORDS; v++) sum[v] += x[i + v];
  for (int v = 0; v < WORDS; v++) total += sum[v];
  return total;
}

double ts_bench_read_stream(const void *data, int64_t bytes) {
  const ts_word *x = data;
  const int64_t n = bytes / 4;
  uint32_t total = 0;
  const double start = ts_now();
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (int p = 0; p < PARTS; p++) {
    const int64_t from = n * p / PARTS;
    total += read_words(x + from, n * (p + 1) / PARTS - from);
  }
  sink += total;
  return ts_now() - start;
}

/* Nothing, which the compiler does not know. */
static volatile uint32_t nothing;

WIDE static void rewrite(char *first, int64_t row_bytes, const uint32_t *rows,
                         int64_t n) {
  const uint32_t add = nothing;
  for (int64_t i = 0; i < n; i++) {
    ts_word *row = (ts_word *)(first + rows[i] * row_bytes);
    if (i + AHEAD < n)
      for (int64_t k = 0; k < row_bytes; k += 64)
        __builtin_prefetch(first + rows[i + AHEAD] * row_bytes + k, 1);
    for (int64_t d = 0; d < row_bytes / 4; d++) row[d] += add;
  }
}

double ts_bench_rewrite_rows(void *first, int64_t row_bytes,
                             const uint32_t *rows, int64_t n) {
  const double start = ts_now();
#pragma omp parallel for schedule(static)
  for (int p = 0; p < PARTS; p++) {
    const int64_t from = n * p / PARTS;
    rewrite(first, row_bytes, rows + from, n * (p + 1) / PARTS - from);
  }
  return ts_now() - start;
}
