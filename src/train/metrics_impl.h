/* metrics_impl.h - inside a metric; private to metrics*.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "dense/tally.h"
#include "train/metrics.h"

enum {
  TS_FRESH_STEPS = 1024, /* of this rank until they are gathered */
  TS_WINDOW_PARTS = 4096 /* at most so many, and 1, hold a window */
};

/* The newest steps, as sums over all ranks; the same on every rank.  Where a
 * window has more steps than parts, a part holds several that follow each
 * other: what it holds depends on the samples alone, not on when it is looked
 * at. */
typedef struct ts_metric_window {
  ts_metric_sums *part; /* a ring */
  int64_t first, n, capacity;
  double samples;       /* in all parts */
  double least, enough; /* samples of a part and of the window */
} ts_metric_window;

struct ts_metrics {
  bool keep_all;
  ts_metric_sums sums; /* over all ranks, of all steps that were gathered */
  ts_metric_window window;
  ts_metric_sums *fresh; /* (n_fresh) this rank's steps since then */
  int64_t n_fresh, at;   /* the step under way among them */
  /* The newest samples of this rank, for AUC; a copy as of the last fetch,
   * where they are on a device. */
  int64_t limit; /* 0: none */
  ts_metric_place place;
  ts_metric_sample *ring; /* (capacity) */
  int64_t capacity;
  struct ts_metrics_device *on_device; /* where it is placed; NULL: here */
};

/* Room for N samples in the ring, as far as the limit allows. */
ts_err ts_metrics_reserve(ts_metrics *, int64_t n);

/* metrics_window.c: SAMPLES as of ts_metrics_create. */
ts_err ts_metric_window_create(ts_metric_window *, int64_t samples);
void ts_metric_window_push(ts_metric_window *, const ts_metric_sums *);
/* The I-th part, the oldest first. */
const ts_metric_sums *ts_metric_window_part(const ts_metric_window *,
                                            int64_t i);
void ts_metric_sums_join(ts_metric_sums *, const ts_metric_sums *);

/* metrics_device.c: a placed metric's fresh steps come here and begin anew
 * there; its samples come, and go back; the host waits.  Of others nothing. */
ts_err ts_metrics_fetch_fresh(ts_metrics *);
ts_err ts_metrics_fetch(ts_metrics *);
ts_err ts_metrics_put(ts_metrics *);
void ts_metrics_leave(ts_metrics *);

/* Log loss over that of always saying the share of positives. */
double ts_metric_ne(const ts_metric_sums *);

/* metrics_auc.c: R's auc and pr_auc, of all samples that the ranks keep.
 * Collective. */
ts_err ts_metrics_auc(const ts_metrics *, ts_metrics_result *r, ts_comm *);
/* All of these in the order of their predictions: this rank's range of it into
 * RANGE, N of them, greater ones on the ranks behind; equal ones are together.
 * Collective. */
ts_err ts_metrics_sort(const ts_metrics *, ts_buffer *range, int64_t *n,
                       ts_comm *);
