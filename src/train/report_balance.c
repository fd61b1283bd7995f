/* report_balance.c - ranks that are at work on their tables much longer than
 * the others. */
#include <string.h>

#include "base/log.h"
#include "runtime/trace.h"
#include "train/report.h"

/* Times the mean, and of the run's time, from which it is worth a note. */
static const double MUCH = 1.25, WORTH = 0.05;

static void add_sparse(const char *phase, double seconds, int64_t calls,
                       void *arg) {
  double *sum = arg;
  (void)calls;
  if (!strcmp(phase, "lookup") || !strcmp(phase, "fused backward"))
    *sum += seconds;
}

ts_err ts_report_balance(ts_trainer *t, double seconds) {
  double own = 0, mean = 0, all[t->n_ranks];
  int most = 0;
  ts_timers_each(add_sparse, &own);
  TS_DO(ts_comm_gather_all(t->control, all, &own, sizeof own));
  for (int r = 0; r < t->n_ranks; r++) {
    mean += all[r] / t->n_ranks;
    if (all[r] > all[most]) most = r;
  }
  if (all[most] > MUCH * mean && all[most] - mean > WORTH * seconds)
    ts_note("rank %d was at work on its tables for %.1f s, %.2f times the mean "
            "of ranks, and others waited: `tessera plan` says which tables it "
            "has; sharding = \"auto\", row_wise or column_wise spreads them",
            most, all[most], all[most] / mean);
  return TS_OK;
}
