/* bench_keys.c - finds of ids that are served (serve/keys.h): nanoseconds an
 * id, one thread, ids all alike or by a power law, and half of them unknown;
 * bytes an id, and what opening takes.  `make tests/serve/bench_keys`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/mem.h"
#include "serve/keys.h"

enum { BATCH = 4096, FINDS = 1 << 22 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* The K-th id. */
static int64_t id_of(int64_t k) {
  return (int64_t)ts_mix64((uint64_t)k ^ UINT64_C(0x1234567800000000));
}

static double find_all(const ts_serve_keys *k, int64_t *ids, int64_t *room) {
  double best = 1e9;
  for (int again = 0; again < 3; again++) {
    double spent = 0;
    for (int64_t at = 0; at < FINDS; at += BATCH) {
      memcpy(room, ids + at, BATCH * sizeof *ids);
      const double begun = now();
      ts_serve_keys_find(k, room, BATCH);
      spent += now() - begun;
    }
    best = spent < best ? spent : best;
  }
  return 1e9 * best / FINDS;
}

static void run(int64_t n) {
  uint64_t *key = malloc((size_t)n * sizeof *key);
  int64_t *ids = malloc(FINDS * sizeof *ids), *room = malloc(BATCH * 8);
  ts_serve_keys k;
  bool good;
  double took[3];
  for (int64_t i = 0; i < n; i++) key[i] = ts_mix64((uint64_t)id_of(i));
  qsort(key, (size_t)n, sizeof *key, ascending);
  double before = now();
  const uint32_t crc = ts_crc32c(0, key, (size_t)n * sizeof *key);
  const double sum = now() - before;
  before = now();
  if (ts_serve_keys_create(&k, key, n, &good) != TS_OK || !good) abort();
  const double made = now() - before;
  for (int how = 0; how < 3; how++) {
    for (int64_t i = 0; i < FINDS; i++) {
      const double u = (double)(ts_mix64((uint64_t)i + 77) >> 11) * 0x1p-53;
      const double x = how == 1   ? pow((double)n, u) - 1
                       : how == 2 ? 2 * u * (double)n
                                  : u * (double)n;
      ids[i] = id_of((int64_t)x);
    }
    took[how] = find_all(&k, ids, room);
  }
  printf("%11lld ids: %.1f ns alike, %.1f skewed, %.1f half unknown; %.2f "
         "bytes an id; opened in %.1f ms, and %.1f to sum up (%08x)\n",
         (long long)n, took[0], took[1], took[2],
         8 + 4 * (double)(k.n_runs + 1) / (double)n, 1e3 * made, 1e3 * sum,
         crc);
  ts_serve_keys_reset(&k);
  free(key);
  free(ids);
  free(room);
}

int main(void) {
  run(100000);
  run(1000000);
  run(10000000);
  run(50000000);
  return 0;
}
