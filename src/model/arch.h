/* arch.h - the two MLPs that models have around their middle, from the deck:
 * dense_arch below, over_arch above; private to src/model.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "model/model.h"

/* The first member of every model. */
typedef struct ts_arch {
  ts_model base;
  ts_mlp *bottom; /* NULL without dense features */
  ts_mlp *over;
  float *b;  /* bottom's output (batch, width), its own */
  float *db; /* (batch_max, width), its gradient: the model's */
} ts_arch;

/* Models' dense_forward and dense_backward.  Enqueues; arrays in device
 * memory. */
ts_err ts_arch_dense_forward(ts_model *, const float *dense, int32_t batch,
                             const ts_layer_hooks *, ts_lane *);
ts_err ts_arch_dense_backward(ts_model *, int32_t batch, const ts_layer_hooks *,
                              ts_lane *);
/* Both MLPs, and the parameters. */
void ts_arch_reset(ts_arch *);

/* DECK error where the deck lacks what all models need: pooled tables, one
 * output per task. */
ts_err ts_arch_check(const ts_model_spec *);
/* Adds the layers of an MLP with N_IN inputs, of these SIZES. */
void ts_arch_count(ts_model_count *, double n_in, const ts_ints *sizes);
/* *WIDTH of dense_arch's output, 0 without dense features; DECK error where
 * there are such, but no layers. */
ts_err ts_arch_bottom_width(int32_t *width, const ts_model_spec *);
/* Makes bottom, which stays NULL without dense features. */
ts_err ts_arch_bottom(ts_arch *, const ts_model_spec *, ts_lane *);
/* Makes over, which takes (batch, stride) of which WIDTH columns are used;
 * HALF: its rows are of bf16. */
ts_err ts_arch_over(ts_arch *, const ts_model_spec *, int32_t width,
                    int32_t stride, bool half, ts_lane *);
/* Whether rows are bf16: run.precision asks for it and the CPU has it. */
bool ts_arch_half(const ts_model_spec *);
