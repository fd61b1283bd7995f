/* layer_values.h - what a layer of the model gave for a batch, on the host.
 * All of it is Local. */
#pragma once

#include "model/graph.h"
#include "train/trainer.h"

/* Zero: none. */
typedef struct ts_layer_values {
  ts_trainer *t;
  const ts_value *value;
  float *wide; /* (batch_max, stride) */
  float *rows; /* (batch_max, n) */
  int32_t n;
} ts_layer_values;

/* Of the value that trainer->keeps names ("deep", "mix@ctr"), which the model
 * was built with; USAGE error where there is none. */
ts_err ts_layer_values_open(ts_layer_values *, ts_trainer *);
/* Of VALUE, a vector a sample, whose memory outlives a pass. */
ts_err ts_layer_values_of(ts_layer_values *, ts_trainer *,
                          const ts_value *value);
void ts_layer_values_close(ts_layer_values *);
/* *ROWS (N, n): of the last batch, once it is finished; until the next one. */
ts_err ts_layer_values_take(ts_layer_values *, int32_t n, const float **rows);
