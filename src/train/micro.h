/* micro.h - run.accumulate: a step's batch, cut into micro-batches.
 *
 * data.global_batch is the whole step.  Each rank reads its part of it as
 * ever and cuts that into run.accumulate runs of samples, as even as they
 * can be (of a short last batch some may be empty); every micro-batch goes
 * through the pipeline as a batch of its own.  The whole weight of the step
 * is known before its first loss, so gradients of micro-batches simply add
 * up, and parameters and tables are updated once, by the last one.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/source.h"

/* One micro-batch: a batch whose arrays are parts of another's. */
typedef struct ts_micro ts_micro;
ts_err ts_micro_create(ts_micro **, int32_t n_features);
void ts_micro_destroy(ts_micro *);
/* Number I of N of BATCH; holds while BATCH does and until the next cut. */
ts_err ts_micro_cut(ts_micro *, const ts_batch *batch, int32_t i, int32_t n);
ts_batch *ts_micro_batch(ts_micro *);
