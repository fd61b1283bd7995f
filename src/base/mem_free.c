/* mem_free.c - free memory, as the kernel tells. */
#include "base/mem_free.h"

#include <stdio.h>
#include <string.h>

/* The number behind the word NAME of FILE, -1: not there. */
static int64_t number_of(const char *file, const char *name) {
  char line[256];
  long long x = -1;
  FILE *f = fopen(file, "r");
  while (f && fgets(line, sizeof line, f)) {
    if (strncmp(line, name, strlen(name)) != 0) continue;
    if (sscanf(line + strlen(name), "%lld", &x) != 1) x = -1;
    break;
  }
  if (f) fclose(f);
  return x;
}

/* LIMIT less what of USED is no page cache; -1: no limit. */
static int64_t left_of(int64_t limit, int64_t used, int64_t cache) {
  if (limit < 0 || used < 0) return -1;
  if (cache > 0) used = used > cache ? used - cache : 0;
  return limit > used ? limit - used : 0;
}

static int64_t smaller(int64_t a, int64_t b) {
  if (a < 0) return b;
  return b < 0 || a < b ? a : b;
}

#define V2 "/sys/fs/cgroup/"
#define V1 "/sys/fs/cgroup/memory/"

int64_t ts_mem_free_bytes(void) {
  int64_t n = number_of("/proc/meminfo", "MemAvailable:");
  if (n >= 0) n *= 1024;
  n = smaller(n, left_of(number_of(V2 "memory.max", ""),
                         number_of(V2 "memory.current", ""),
                         number_of(V2 "memory.stat", "inactive_file ")));
  return smaller(n,
                 left_of(number_of(V1 "memory.limit_in_bytes", ""),
                         number_of(V1 "memory.usage_in_bytes", ""),
                         number_of(V1 "memory.stat", "total_inactive_file ")));
}
