/* linear_mask.h - one pass over the gradient of a layer's output: ReLU's
 * mask, the bias' gradient, the conversion to bf16; private to linear*.c.
 * All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A matrix of f32, or of bf16 where half. */
typedef struct ts_rows_view {
  void *at;
  int64_t stride; /* elements */
  bool half;
} ts_rows_view;

typedef struct ts_mask_args {
  ts_rows_view g;   /* (batch, n) dy */
  ts_rows_view y;   /* (batch, n), at NULL: no ReLU */
  ts_rows_view out; /* (batch, n) = g * (y > 0); may be g, not half where g
                       is half */
  float *db;        /* (n) = sum of out's rows before it is rounded, or NULL */
  float *parts;     /* (ts_mask_parts(batch), n) scratch */
  int32_t batch, n;
} ts_mask_args;

int64_t ts_mask_parts(int32_t batch);
/* Sums of fixed blocks of rows: bits don't depend on threads. */
void ts_mask_and_sum(const ts_mask_args *);
