/* topology.h - CPUs that this rank may use, and what the machine is.
 * All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct ts_cpu {
  char model[128];                     /* from /proc/cpuinfo */
  bool avx2, avx512, avx512_bf16, amx; /* avx512: f, bw, dq and vl */
} ts_cpu;

/* Set once, cheap afterwards.  TESSERA_ISA=ref|avx2|avx512 in the
 * environment lowers what is reported. */
const ts_cpu *ts_cpu_info(void);

/* Threads for a rank: WANTED, or where 0 its share of the node's allowed
 * CPUs, at least 1; widens a launcher's binding to a single core, which all
 * threads of the rank would have to share.  *WIDENED says whether it had to.
 * Call it before other threads start. */
int ts_bind(int wanted, int node_rank, int node_size, bool *widened);

/* The same with what the launcher says of this rank's node: before lanes
 * exist. */
int ts_bind_local(int wanted, bool *widened);

/* Threads that it gives a rank, without binding any. */
int ts_threads_local(int wanted);

/* The CPUs that the launcher gave this rank, before ts_bind widened the mask: a
 * bit for each, their number, and how many the job has on this node. */
typedef struct ts_binding {
  uint64_t cpus[16];
  int32_t n_cpus, n_job;
} ts_binding;
ts_binding ts_binding_found(void); /* of the last ts_bind */

/* This rank's index among those of its node, and how many they are, as the
 * launcher says it (so it is known before ranks talk); -1 and 0: it doesn't. */
void ts_node_place(int *node_rank, int *node_size);

/* Keeps the calling thread, and those that it starts, to this rank's share of
 * the CPUs; nothing where ranks have no cores of their own. */
void ts_bind_compute(void);

/* Peak resident memory of this process, in bytes. */
int64_t ts_peak_rss_bytes(void);
