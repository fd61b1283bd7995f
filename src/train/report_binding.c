/* report_binding.c - the cores that ranks were given, and whether some of them
 * were given the same by mistake. */
#include "base/log.h"
#include "base/mem.h"
#include "runtime/topology.h"
#include "train/report.h"

typedef struct ts_place {
  int32_t node, n_threads;
  ts_binding binding;
} ts_place;

static bool overlap(const ts_binding *a, const ts_binding *b) {
  for (int i = 0; i < 16; i++)
    if (a->cpus[i] & b->cpus[i]) return true;
  return false;
}

/* Threads that want to compute on rank R's CPUs and those that they reach
 * over, and how many CPUs these are. */
static void count_crowd(const ts_place *all, int n, int r, int *threads,
                        int *cpus) {
  uint64_t joint[16] = {0};
  *threads = *cpus = 0;
  for (int k = 0; k < n; k++) {
    if (all[k].node != all[r].node ||
        !overlap(&all[k].binding, &all[r].binding))
      continue;
    *threads += all[k].n_threads;
    for (int i = 0; i < 16; i++) joint[i] |= all[k].binding.cpus[i];
  }
  for (int i = 0; i < 16; i++) *cpus += __builtin_popcountll(joint[i]);
}

static void say(const ts_place *all, int n) {
  int least = INT32_MAX, most = 0, n_bound = 0, threads, cpus;
  for (int r = 0; r < n; r++) {
    const ts_binding *b = &all[r].binding;
    if (b->n_cpus < least) least = b->n_cpus;
    if (b->n_cpus > most) most = b->n_cpus;
    n_bound += b->n_cpus < b->n_job;
  }
  if (n_bound == 0)
    ts_info("  binding: none, %d CPUs for the ranks of a node", most);
  else
    ts_info("  binding: %d to %d CPUs for a rank, of %d that the job has on "
            "its node",
            least, most, all[0].binding.n_job);
  for (int r = 0; r < n; r++) {
    count_crowd(all, n, r, &threads, &cpus);
    if (threads <= cpus) continue;
    ts_note("rank %d shares %d CPUs with other ranks, which run %d threads on "
            "them in all; fewer ranks or threads, or another binding, give "
            "each its own",
            r, cpus, threads);
    return;
  }
}

ts_err ts_report_binding(ts_trainer *t) {
  ts_err err = TS_OK;
  ts_place *all = NULL;
  const ts_place own = {.node = ts_world_node(t->world),
                        .n_threads = t->n_threads,
                        .binding = ts_binding_found()};
  TS_TRY(ts_mem_array(&all, t->n_ranks, sizeof *all, TS_TAG_MISC));
  TS_TRY(ts_comm_gather_all(t->control, all, &own, sizeof own));
  if (t->n_ranks > 1) say(all, t->n_ranks);
done:
  ts_mem_free(all);
  return err;
}
