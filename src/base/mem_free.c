/* mem_free.c - free memory, as the kernel tells. */
#include "base/mem_free.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

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

static int64_t smaller(int64_t a, int64_t b) {
  if (a < 0) return b;
  return b < 0 || a < b ? a : b;
}

/* ---- control groups ------------------------------------------------------ */

/* Names of files in a group's folder: version 2, version 1. */
typedef struct ts_group_files {
  const char *root, *limit, *used, *cache;
} ts_group_files;

static const ts_group_files versions[2] = {
    {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file "}};

static int64_t group_number(const ts_group_files *v, const char *path,
                            const char *file, const char *name) {
  char full[2048];
  snprintf(full, sizeof full, "%s%.1500s/%s", v->root, path, file);
  return number_of(full, name);
}

/* Limit less use; pages of files that nobody uses are thrown out first. */
static int64_t left_in(const ts_group_files *v, const char *path) {
  const int64_t limit = group_number(v, path, v->limit, "");
  const int64_t cache = group_number(v, path, "memory.stat", v->cache);
  int64_t used = group_number(v, path, v->used, "");
  if (limit < 0 || used < 0) return -1;
  if (cache > 0) used = used > cache ? used - cache : 0;
  return limit > used ? limit - used : 0;
}

/* The least memory that is left in the group PATH and in each group above it.
 */
static int64_t left_in_all(const ts_group_files *v, char *path) {
  int64_t n = -1;
  for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
    *end = '\0';
    n = smaller(n, left_in(v, path));
    if (end == path) break;
  }
  return n;
}

static int64_t left_in_groups(void) {
  char line[2048];
  int64_t n = -1;
  FILE *f = fopen("/proc/self/cgroup", "r");
  while (f && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = '\0';
    char *path = strstr(line, ":/");
    if (!path) continue;
    const int version = strncmp(line, "0::", 3) != 0;
    if (version && !strstr(line, ":memory:")) continue;
    n = smaller(n, left_in_all(&versions[version], path + 1));
  }
  if (f) fclose(f);
  return n;
}

int64_t ts_mem_free_bytes(void) {
  const int64_t n = number_of("/proc/meminfo", "MemAvailable:");
  return smaller(n < 0 ? n : n * 1024, left_in_groups());
}

/* ---- this process -------------------------------------------------------- */

static int64_t left_of(int resource, const char *name) {
  struct rlimit r;
  const int64_t used = number_of("/proc/self/status", name);
  if (getrlimit((__rlimit_resource_t)resource, &r) != 0) return -1;
  if (r.rlim_cur == RLIM_INFINITY || used < 0) return -1;
  const int64_t limit = (int64_t)r.rlim_cur;
  return limit > used * 1024 ? limit - used * 1024 : 0;
}

int64_t ts_mem_left_bytes(void) {
  return smaller(left_of(RLIMIT_AS, "VmSize:"),
                 left_of(RLIMIT_DATA, "VmData:"));
}
