/* bench_memory.c - what memory gives to simple loops, to set lookups beside.
 * They are built for the widest vectors and run on all threads, so that
 * little but memory holds them up; a loop that keeps more reads in flight can
 * still be faster than the one over rows. */
#include "commands/bench.h"
#include "runtime/trace.h"

enum { PARTS = 64, AHEAD = 16, WORDS = 64 };
/* Into the second cache, where more reads may wait; outputs. */
enum { FAR = 32, STORE_AHEAD = 8 };

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

/* ---- with outputs and gradients ------------------------------------------ */

/* The rest of bags [FROM, TO), of one table: rows of 16 bits are widened as
 * bf16 is. */
WIDE static void pool_table(const ts_bench_bags *b, int64_t from, int64_t to) {
  const ts_bench_rows *r = b->rows;
  const int64_t n = b->dim, end = to * b->pool;
  const char *table =
      row_of(r, from * b->pool) - r->ids[from * b->pool] * r->row_bytes;
  const char *after = table + r->rows_per_table * r->row_bytes;
  for (int64_t bag = from, i = from * b->pool; bag < to; bag++) {
    uint32_t *out = (uint32_t *)b->out + b->at[bag];
    for (int64_t d = 0; d < n && bag + STORE_AHEAD < to; d += 16)
      __builtin_prefetch(b->out + b->at[bag + STORE_AHEAD] + d, 1);
    for (int64_t k = 0; k < b->pool; k++, i++) {
      const char *next = i + FAR < end ? table : after;
      const char *row = table + r->ids[i] * r->row_bytes;
      if (i + FAR < r->n_ids)
        for (int64_t byte = 0; byte < r->row_bytes; byte += 64)
          __builtin_prefetch(next + r->ids[i + FAR] * r->row_bytes + byte, 0,
                             2);
      if (r->row_bytes == 4 * n)
        for (int64_t d = 0; d < n; d++)
          out[d] = (k ? out[d] : 0) + ((const ts_word *)row)[d];
      else
        for (int64_t d = 0; d < n; d++)
          out[d] =
              (k ? out[d] : 0) + ((uint32_t)((const uint16_t *)row)[d] << 16);
    }
  }
}

static void pool_bags(const ts_bench_bags *b, int64_t from, int64_t to) {
  const int64_t bags = b->rows->ids_per_table / b->pool;
  while (from < to) {
    const int64_t border = (from / bags + 1) * bags;
    const int64_t end = border < to ? border : to;
    pool_table(b, from, end);
    from = end;
  }
}

double ts_bench_pool_rows(const ts_bench_bags *b) {
  const int64_t n = b->rows->n_ids / b->pool;
  const double start = ts_now();
#pragma omp parallel for schedule(static)
  for (int p = 0; p < PARTS; p++)
    pool_bags(b, n * p / PARTS, n * (p + 1) / PARTS);
  return ts_now() - start;
}

WIDE static void rewrite(const ts_bench_rewrite *u, int64_t from, int64_t to) {
  const uint32_t mask = nothing;
  const int64_t n = u->dim;
  const bool wide = u->row_bytes == 4 * n;
  for (int64_t i = from; i < to; i++) {
    const int64_t key = (int64_t)(u->entries[i] >> 32);
    const uint32_t *g =
        (const uint32_t *)u->grad + u->at[(uint32_t)u->entries[i]];
    if (i + FAR < to) {
      const int64_t next = (int64_t)(u->entries[i + FAR] >> 32);
      const float *far = u->grad + u->at[(uint32_t)u->entries[i + FAR]];
      for (int64_t d = 0; d < n; d += 16) __builtin_prefetch(far + d, 0, 2);
      for (int64_t k = 0; k < u->row_bytes; k += 64)
        __builtin_prefetch(u->first + next * u->row_bytes + k, 0, 2);
      for (int k = 0; k < u->n_states; k++)
        for (int64_t d = 0; d < u->cols[k]; d += 16)
          __builtin_prefetch(u->state[k] + next * u->cols[k] + d, 0, 2);
    }
    ts_word *row = (ts_word *)(u->first + key * u->row_bytes);
    uint16_t *half = (uint16_t *)row;
    if (wide)
      for (int64_t d = 0; d < n; d++) row[d] += g[d] & mask;
    else
      for (int64_t d = 0; d < n; d++) half[d] += (uint16_t)(g[d] & mask);
    for (int k = 0; k < u->n_states; k++)
      for (int64_t d = 0; d < u->cols[k]; d++)
        ((ts_word *)u->state[k])[key * u->cols[k] + d] += mask;
  }
}

/* Parts end where rows do: no two threads have the same one. */
static int64_t row_border(const ts_bench_rewrite *u, int64_t i) {
  while (i > 0 && i < u->n && u->entries[i] >> 32 == u->entries[i - 1] >> 32)
    i++;
  return i;
}

double ts_bench_rewrite_rows(const ts_bench_rewrite *u) {
  const double start = ts_now();
#pragma omp parallel for schedule(static)
  for (int p = 0; p < PARTS; p++)
    rewrite(u, row_border(u, u->n * p / PARTS),
            row_border(u, u->n * (p + 1) / PARTS));
  return ts_now() - start;
}
