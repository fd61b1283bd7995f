/* cross_forms.h - the forms of kind cross that dense/cross.h has not: vector
 * and moe.  As a kind's functions; cross.c alone calls them.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "model/layer_ops.h"

enum { TS_CROSS_FULL, TS_CROSS_LOW_RANK, TS_CROSS_VECTOR, TS_CROSS_MOE };

typedef struct ts_cross_options {
  int form;
  int32_t layers, rank, experts;
} ts_cross_options;

typedef struct ts_cross_forms ts_cross_forms;

ts_err ts_cross_forms_create(ts_cross_forms **, ts_layer *, ts_lane *);
void ts_cross_forms_destroy(ts_cross_forms *);
/* Sets out[0].x.  Enqueue. */
ts_err ts_cross_forms_forward(ts_cross_forms *, ts_layer *,
                              const ts_layer_run *);
ts_err ts_cross_forms_backward(ts_cross_forms *, ts_layer *,
                               const ts_layer_run *);
