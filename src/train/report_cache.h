/* report_cache.h - what tables in slow memory cost a run: per table, from
 * line to line of the log, and over all of it.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/metrics_log.h"
#include "train/trainer.h"

/* Counts of all ranks together. */
typedef struct ts_cache_sums {
  ts_tier_count *count; /* (n_tables) */
  double *table_s;      /* (n_tables) of hold_s; the slowest rank's */
  double hold_s, exposed_s, t;
  int64_t step;
} ts_cache_sums;

typedef struct ts_slow_report {
  ts_cache_sums first, last, now;
  int32_t n_slow; /* tables; 0: nothing to report */
} ts_slow_report;

/* Counting begins here. */
ts_err ts_slow_report_create(ts_slow_report *, ts_trainer *);
void ts_slow_report_reset(ts_slow_report *);
/* A line per table to LOG (rank 0's), per step since the line before; and
 * the table at the end with its NOTEs.  Collective. */
ts_err ts_slow_report_step(ts_slow_report *, ts_trainer *, ts_metrics_log *);
ts_err ts_slow_report_end(ts_slow_report *, ts_trainer *);
/* Around what is no training: it is not counted. */
ts_err ts_slow_report_pause(ts_slow_report *, ts_trainer *);
ts_err ts_slow_report_go_on(ts_slow_report *, ts_trainer *);
