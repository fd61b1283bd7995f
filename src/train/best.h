/* best.h - what validations say of a run: its best step, how long ago that
 * was, and how far the rates have fallen on a plateau.
 *
 * All ranks hold the same values; a checkpoint has them (loader/valid_...), so
 * a resumed run decides as a straight one.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "train/metrics.h"

typedef struct ts_best {
  double value;     /* of run.stop.metric */
  int64_t step;     /* after it; 0: there was no validation yet */
  int64_t at;       /* step of the newest validation */
  int64_t n_since;  /* validations since the best one */
  int64_t n_flat;   /* and since then, or since the rates fell last */
  double rate;      /* of schedule "plateau": from 1 down; 0: as 1 */
  int64_t restored; /* the weights are the best step's: at this step; 0: no */
} ts_best;

/* run.stop.metric of R. */
double ts_best_metric(const ts_config *, const ts_metrics_result *r);

/* Takes the validation after STEP.  Whether it is the best so far: better than
 * the best by more than run.stop.min_delta; a value that is no number never
 * is. */
bool ts_best_take(ts_best *, const ts_config *, int64_t step, double value);

/* run.stop.patience is over. */
bool ts_best_stops(const ts_best *, const ts_config *);
/* The run keeps best.h5, and ends with its weights. */
bool ts_best_is_kept(const ts_config *);
bool ts_best_is_restored(const ts_config *);
/* Factor of all rates beside the schedule's. */
double ts_best_rate(const ts_best *);
