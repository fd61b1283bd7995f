/* forward.h - evaluation and prediction with a checkpoint. */
#pragma once

#include "base/config.h"
#include "base/err.h"
#include "base/str.h"
#include "train/calibration.h"
#include "train/importance.h"

/* Each may be NULL or 0. */
typedef struct ts_forward {
  const char *checkpoint; /* a file, or "best"; NULL: the newest of the run */
  const char *out;        /* predictions, "-": on stdout; NULL: none */
  const char *data;       /* instead of data.eval; "-": from stdin */
  const ts_strings *keys; /* columns of the data beside them */
  const char *layer;      /* its values in the place of predictions */
  int64_t k;      /* so many of the best items in their place; 0: none */
  const char *by; /* a column by whose values figures are told, too */
  ts_importance importance;
  int32_t n_bins;      /* of --calibration */
  const char *drawing; /* of it, by DRAW; "": none */
  ts_err (*draw)(const char *path, const ts_calibration *);
} ts_forward;

/* Evaluates DECK's data.eval, and writes predictions.  Collective. */
ts_err ts_run_forward(const char *deck, const char *const *sets, int n_sets,
                      const ts_forward *);

/* The file that --checkpoint GIVEN means, NULL where that is the newest of the
 * run; BEST is where its name is kept.  Local. */
ts_err ts_forward_checkpoint(const char **path, ts_str *best, const ts_config *,
                             const char *given);
/* The error that the deck's folder has none.  Local. */
ts_err ts_forward_none(const ts_config *);
/* FILES take data.eval's place; names are of the folder that the program is in.
 * Local. */
ts_err ts_forward_data(ts_config *, const ts_strings *files);
/* An error where a task's predictions are no probabilities, which WHO is for.
 * Local. */
ts_err ts_tasks_of_probabilities(const ts_config *, const char *who);
/* OUT is no file to read, and its name's end is one that is known.  Local. */
ts_err ts_forward_check_out(const ts_config *, const char *out);
