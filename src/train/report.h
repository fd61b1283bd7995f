/* report.h - what a run tells its user: header, progress, the table at the
 * end.  Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/metrics_log.h"
#include "train/trainer.h"

/* Which backend it is and why, where the deck has not named it; a NOTE where
 * the job has GPUs that are not used. */
void ts_report_backend(const ts_trainer *);
/* Version, libraries, CPU, ranks, threads, deck hash, plan.  Collective. */
ts_err ts_report_header(ts_trainer *);
/* Which CPUs the launcher gave the ranks; a note where several compute on the
 * same ones (report_binding.c).  Collective. */
ts_err ts_report_binding(ts_trainer *);
/* The GPUs, in a run that has some (report_device.c).  Collective. */
ts_err ts_report_device(ts_trainer *);
void ts_report_plan(ts_trainer *);
/* The table of a graph's layers; nothing where the model is none.  Local. */
ts_err ts_report_layers(ts_trainer *);
/* One line of the log. */
typedef struct ts_progress_line {
  int64_t step, last;
  double epoch; /* passes over the data so far: 1.5 is in the second */
  double loss, samples_per_s;
  double gone_s, left_s; /* since this start; until the last step */
} ts_progress_line;
/* Of the first task; NULL: its predictions are no probabilities. */
void ts_report_progress(const ts_progress_line *, const ts_metrics_result *);
/* A look at other data than those trained on: its name, and its event in
 * metrics.jsonl. */
typedef struct ts_look {
  const char *name, *event;
} ts_look;
extern const ts_look ts_is_evaluation, ts_is_validation;
/* Of task K: what metrics.report asks for, in the log and in metrics.jsonl, LOG
 * (NULL: none; rank 0's alone). */
ts_err ts_report_eval(const ts_trainer *, const ts_look *, int32_t k,
                      const ts_metrics_result *, ts_metrics_log *log);
/* Memory of batches under way, as predicted: before the first step; and at the
 * end what of it was in use at most (alloc), what was held for it (reserved),
 * by tag, with the peaks of all memory (report_memory.c).  Collective. */
ts_err ts_report_in_flight(ts_trainer *);
ts_err ts_report_memory(ts_trainer *);
/* Bytes on the wire and what distinct bags saved, per step (report_traffic.c).
 * Collective. */
ts_err ts_report_traffic(ts_trainer *, int64_t n_steps);
/* report_balance.c: a note where a rank's tables kept the others waiting;
 * SECONDS: of the run.  Collective. */
ts_err ts_report_balance(ts_trainer *, double seconds);
/* Time per phase with min, avg, max over ranks; memory; performance last.
 * Collective. */
ts_err ts_report_end(ts_trainer *, double seconds, int64_t n_samples,
                     int64_t n_steps);
