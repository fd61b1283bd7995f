/* importance.h - how much an evaluation loses by each feature alone, whose
 * values are given to other samples (io/permuted.h): `tessera eval
 * --importance`.
 *
 * L. Breiman, "Random forests", Machine Learning 45 (2001), for the measure.
 * Functions are Local unless they say Collective. */
#pragma once

#include "io/source.h"
#include "train/trainer.h"

typedef struct ts_importance {
  const ts_strings *features; /* or dense inputs; none: all */
  int32_t repeats;            /* 0: nothing is asked for */
} ts_importance;

/* An error where the deck has no feature of a name. */
ts_err ts_importance_check(const ts_config *, const ts_importance *);
/* As many passes over PERMUTED as features times repeats, and a table of what
 * they lose of WHOLE (n_tasks), the result without.  Collective. */
ts_err ts_importance_report(ts_trainer *, ts_source *permuted,
                            const ts_importance *,
                            const ts_metrics_result *whole);
