/* plot.h - the figures of runs, read from their metrics.jsonl, and drawn.
 * All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* X(name, heading, key of progress lines, key of evaluations ("": none)) */
#define TS_PLOT_LIST(X)                                                        \
  X(LOSS, "loss", "loss (nats)", "loss", "logloss")                            \
  X(NE, "ne", "normalised entropy", "window_ne", "ne")                         \
  X(AUC, "auc", "AUC", "window_auc", "auc")                                    \
  X(SPEED, "samples_per_s", "samples/s", "samples_per_s", "")

typedef enum {
#define TS_PLOT_ENUM(id, name, heading, key, of_eval) TS_PLOT_##id,
  TS_PLOT_LIST(TS_PLOT_ENUM)
#undef TS_PLOT_ENUM
      TS_PLOT_COUNT
} ts_plot_what;

const char *ts_plot_name(ts_plot_what);
const char *ts_plot_heading(ts_plot_what);

/* On which data a figure is: those trained on, or a look at others. */
typedef enum { TS_PLOT_TRAIN, TS_PLOT_EVAL, TS_PLOT_VALID } ts_plot_data;

typedef struct ts_plot_point {
  int64_t step;
  double x, y; /* samples seen, the figure */
} ts_plot_point;

/* Steps ascend: what a later line says of a step counts. */
typedef struct ts_plot_series {
  ts_plot_what what;
  ts_plot_data data;
  char *task; /* of an evaluation of several tasks, else NULL */
  ts_plot_point *point;
  int64_t n, capacity;
} ts_plot_series;

typedef struct ts_plot_run {
  char *name, *path;      /* for the legend; of the file */
  ts_plot_series *series; /* those of no points are not there */
  int32_t n_series;
  int64_t n_lines, n_bad; /* lines; those that could not be read */
} ts_plot_run;

/* RUN is an output folder or a file like its metrics.jsonl.  DATA where it
 * can't be read or no line of it is one of a run. */
ts_err ts_plot_read(ts_plot_run *, const char *run);
void ts_plot_run_reset(ts_plot_run *);
/* Progress figures become means of themselves and the N - 1 before. */
void ts_plot_smooth(ts_plot_run *, int64_t n);

/* Draws the figures of WHAT that some run has; the file is written anew. */
ts_err ts_plot_draw(const ts_plot_run *, int32_t n_runs,
                    const bool what[TS_PLOT_COUNT], const char *path);

/* Draws the layers of DECK's model into the file OUT.  DECK and USAGE
 * errors. */
ts_err ts_plot_model(const char *deck, const char *const *sets, int n_sets,
                     const char *out);
