/* param.h - dense parameters.
 *
 * A parameter has a full view that is valid between acquire and release
 * (always, when it is replicated), a gradient that lives in a bucket of the
 * data-parallel reduction, and optimizer state. */
#ifndef TS_DENSE_PARAM_H
#define TS_DENSE_PARAM_H

#include "base/config.h"
#include "base/dtype.h"
#include "base/err.h"
#include "runtime/device.h"

enum { TS_PARAM_STATES_MAX = 2 };

typedef struct ts_param {
  char *name;    /* full name, as in checkpoints (doc/formats) */
  int32_t index; /* in creation order: key of its initial values; of its own
                    among all that one ts_ddp holds */
  int32_t rows;  /* (rows, cols) row-major; a vector has cols 0 */
  int32_t cols;
  int64_t n;   /* elements */
  float *w;    /* (n) f32, the full view */
  float *grad; /* (n) f32, set by ts_ddp; written (=) by backward */
  float *state[TS_PARAM_STATES_MAX]; /* (n) f32, by the optimizer */
  uint64_t version; /* grows with each update: packed weights carry it */
  bool late;        /* its gradient comes after the model's backward pass, so it
                       shares no bucket of the reduction with those that come early */
} ts_param;

/* All parameters of a model in creation order (forward order). */
typedef struct ts_params {
  ts_param **item; /* owned */
  int32_t n;
} ts_params;

/* Adds a zeroed parameter.  cols 0: vector.  Local. */
ts_err ts_params_add(ts_params *, ts_device *, ts_param **, const char *name,
                     int32_t rows, int32_t cols);
void ts_params_reset(ts_params *);
ts_param *ts_params_find(const ts_params *, const char *name);
int64_t ts_params_count(const ts_params *); /* elements in all */

/* Initial values from (seed, index, element) only: Linear layers as PyTorch,
 * uniform +-1/sqrt(fan_in) for weight and bias. */
void ts_param_init_uniform(ts_param *, uint64_t seed, double bound);
void ts_param_init_constant(ts_param *, float value);

#endif
