/* topology.c - the CPU, and the threads that a rank may have. */
#include "runtime/topology.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static ts_cpu cpu;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_model(void) {
  char line[512];
  FILE *f = fopen("/proc/cpuinfo", "r");
  strcpy(cpu.model, "unknown CPU");
  while (f && fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    line[strcspn(line, "\n")] = '\0';
    snprintf(cpu.model, sizeof cpu.model, "%s", colon + 2);
    break;
  }
  if (f) fclose(f);
}

static void find_cpu(void) {
  const char *lower = getenv("TESSERA_ISA");
  read_model();
#if defined(__x86_64__)
  __builtin_cpu_init();
  cpu.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  cpu.avx512 = cpu.avx2 && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
  cpu.avx512_bf16 = cpu.avx512 && __builtin_cpu_supports("avx512bf16");
#endif
  if (lower && !strcmp(lower, "ref")) cpu.avx2 = false;
  if (!cpu.avx2 || (lower && !strcmp(lower, "avx2")))
    cpu.avx512 = cpu.avx512_bf16 = cpu.amx = false;
  if (lower && !strcmp(lower, "avx512")) cpu.avx512_bf16 = false;
}

const ts_cpu *ts_cpu_info(void) {
  pthread_once(&once, find_cpu);
  return &cpu;
}

/* CPUs of a process by /proc/PID/status: what a launcher that is our parent
 * may use is what the job may use. */
static int status_cpus(pid_t pid, cpu_set_t *set) {
  char path[64], line[8192];
  int n = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *f = fopen(path, "r");
  CPU_ZERO(set);
  while (f && fgets(line, sizeof line, f)) {
    if (strncmp(line, "Cpus_allowed_list:", 18) != 0) continue;
    for (char *p = line + 18; *p && *p != '\n';) {
      char *end;
      long a = strtol(p, &end, 10), b = a;
      if (end == p) break;
      if (*end == '-') b = strtol(end + 1, &end, 10);
      for (long i = a; i <= b && i < CPU_SETSIZE; i++) CPU_SET((int)i, set);
      p = *end == ',' ? end + 1 : end;
    }
    n = CPU_COUNT(set);
  }
  if (f) fclose(f);
  return n;
}

/* CPUs that the control group's quota allows, 0: no quota. */
static int quota_cpus(void) {
  double quota = 0, period = 0;
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
  if (f) {
    if (fscanf(f, "%lf %lf", &quota, &period) != 2) quota = 0;
    fclose(f);
  } else {
    FILE *q = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r");
    FILE *p = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r");
    if (!q || !p || fscanf(q, "%lf", &quota) != 1 ||
        fscanf(p, "%lf", &period) != 1)
      quota = 0;
    if (q) fclose(q);
    if (p) fclose(p);
  }
  if (quota <= 0 || period <= 0) return 0;
  int n = (int)(quota / period + 0.999);
  return n < 1 ? 1 : n;
}

/* The CPUs of the job on this node: our own, or our parent's where a
 * launcher has bound us to fewer. */
static int job_cpus(cpu_set_t *set) {
  cpu_set_t parent;
  sched_getaffinity(0, sizeof *set, set);
  bool launched = getenv("OMPI_COMM_WORLD_RANK") || getenv("PMIX_RANK");
  if (launched && status_cpus(getppid(), &parent) > CPU_COUNT(set))
    *set = parent;
  return CPU_COUNT(set);
}

/* CPUs that the cgroup and the affinity of the job allow on this node (a
 * launcher's binding to one core is not counted: see ts_bind). */
static int cpus_allowed(void) {
  cpu_set_t set;
  int n = job_cpus(&set), quota = quota_cpus();
  return quota && quota < n ? quota : n;
}

static cpu_set_t compute_set;
static bool compute_bound;

void ts_bind_compute(void) {
  if (compute_bound)
    (void)sched_setaffinity(0, sizeof compute_set, &compute_set);
}

/* CPUs number FROM to FROM + N of SET. */
static cpu_set_t slice(const cpu_set_t *set, int from, int n) {
  cpu_set_t out;
  int seen = 0;
  CPU_ZERO(&out);
  for (int i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, set)) continue;
    if (seen >= from && seen < from + n) CPU_SET(i, &out);
    seen++;
  }
  return out;
}

static ts_binding found;

static void keep_binding(const cpu_set_t *own, int n_job) {
  found = (ts_binding){.n_cpus = CPU_COUNT(own), .n_job = n_job};
  for (int i = 0; i < 1024 && i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, own)) found.cpus[i / 64] |= UINT64_C(1) << i % 64;
}

ts_binding ts_binding_found(void) {
  return found;
}

/* A rank's share of N CPUs. */
static int fair_share(int n, int node_size) {
  return n / node_size > 0 ? n / node_size : 1;
}

int ts_bind(int wanted, int node_rank, int node_size, bool *widened) {
  cpu_set_t job, own;
  *widened = false;
  const int fair = fair_share(cpus_allowed(), node_size);
  const int n_threads = wanted > 0 ? wanted : fair;
  sched_getaffinity(0, sizeof own, &own);
  const int total = job_cpus(&job), bound = CPU_COUNT(&own);
  keep_binding(&own, total);
  if (bound < total && bound < (n_threads > 2 ? n_threads : 2)) {
    /* All threads of a rank on one core would take turns. */
    *widened = sched_setaffinity(0, sizeof job, &job) == 0;
  }
  /* Computing threads keep to the rank's own cores, where no other rank
   * computes; readers, services and waits go wherever there is room. */
  compute_bound = node_size > 1 && n_threads <= fair && node_size <= total;
  if (compute_bound) compute_set = slice(&job, node_rank * fair, fair);
  return n_threads;
}

static int local_number(const char *const *names, int otherwise) {
  for (; *names; names++)
    if (getenv(*names)) return atoi(getenv(*names));
  return otherwise;
}

void ts_node_place(int *node_rank, int *node_size) {
  static const char *const rank[] = {"OMPI_COMM_WORLD_LOCAL_RANK",
                                     "MPI_LOCALRANKID", "SLURM_LOCALID", NULL};
  static const char *const size[] = {"OMPI_COMM_WORLD_LOCAL_SIZE",
                                     "MPI_LOCALNRANKS", NULL};
  *node_rank = local_number(rank, -1);
  *node_size = local_number(size, 0);
}

int ts_bind_local(int wanted, bool *widened) {
  int rank, size;
  ts_node_place(&rank, &size);
  if (size < 1) size = 1;
  return ts_bind(wanted, rank > 0 ? rank % size : 0, size, widened);
}

int ts_threads_local(int wanted) {
  int rank, size;
  ts_node_place(&rank, &size);
  return wanted > 0 ? wanted : fair_share(cpus_allowed(), size ? size : 1);
}

int64_t ts_peak_rss_bytes(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (int64_t)usage.ru_maxrss * 1024;
}
