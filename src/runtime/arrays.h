/* arrays.h - arrays of a device that one owner takes one by one and gives
 * back together: activations, parameters, gradients, optimizer state.
 * All of it is Local. */
#pragma once

#include "runtime/device.h"

/* Zero: none yet. */
typedef struct ts_arrays {
  ts_buffer *items; /* (n) */
  int32_t n;
} ts_arrays;

/* *P (a T**) = N elements of SIZE bytes in D's memory (TS_SPACE_DEVICE),
 * zeroed, aligned like ts_mem_alloc's; NULL for none.  NOMEM where n * size is
 * more than there is.  Not while lanes run.  Local. */
ts_err ts_arrays_take(ts_arrays *, ts_device *d, void *p, int64_t n,
                      size_t size, ts_tag);
/* Gives all back; once no lane uses them. */
void ts_arrays_reset(ts_arrays *);
