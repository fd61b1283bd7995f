/* bench_limits.h - what the machine gives at most, by the clock of a lane, and
 * a table of a step's phases beside it.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "train/trainer.h"

/* Bytes per second, read and written, of copying BYTES within the device's
 * memory.  The lane must have nothing else to do. */
ts_err ts_bench_copy_rate(double *rate, ts_device *, ts_lane *, int64_t bytes);
/* Operations per second of a large product, in run.precision. */
ts_err ts_bench_product_rate(double *rate, ts_trainer *);

/* Bytes that a model's passes by element have to move in a step of BATCH
 * samples; HALF: its cross layers keep bf16 (dense/cross.h). */
typedef struct ts_model_bytes {
  double join;                  /* embeddings side by side, and back again */
  double cross, cross_backward; /* dcnv2 */
} ts_model_bytes;
ts_model_bytes ts_bench_model_bytes(const ts_config *, double batch, bool half);

/* The timers' phases of STEPS steps, each of SECONDS, with the bytes and
 * operations that BATCH needs of this rank.  Collective. */
ts_err ts_bench_phases_print(ts_trainer *, const ts_batch *batch, int steps,
                             double seconds);
