/* concat.h - [b, e_1 .. e_F] side by side, for models that take embeddings as
 * one wide row; private to src/model.
 *
 * One copy of what output dist brought, which several layers then read in
 * place: products want one matrix, and embeddings come in as many pieces as
 * there are shardings.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "model/model.h"
#include "runtime/arrays.h"

typedef struct ts_concat {
  int32_t n_features;
  int32_t b_width;       /* 0: there is no b */
  int32_t width, stride; /* of a row: used and padded to 32 */
  int32_t *at, *dim;     /* (n_features) columns of a feature: from, number */
  bool half;
  void *x, *dx; /* (batch_max, stride) f32, or bf16 where HALF; padding
                   stays 0 */
  float *db;    /* (batch_max, b_width) */
  const ts_kernels *kernels;
  ts_arrays arrays; /* x, dx, db */
} ts_concat;

/* Where columns are.  Features in the deck's order; WEIGHTED_LAST: those of
 * weighted tables after all others. */
ts_err ts_concat_init(ts_concat *, const ts_model_spec *, int32_t b_width,
                      bool weighted_last);
/* Its arrays. */
ts_err ts_concat_take(ts_concat *, const ts_model_spec *, ts_device *,
                      bool half);
void ts_concat_reset(ts_concat *);
/* x from b (batch, b_width) and the embeddings.  Enqueues. */
ts_err ts_concat_forward(ts_concat *, const float *b, const ts_emb_views *,
                         int32_t batch, ts_lane *);
/* db and the embeddings' gradients from dx.  Enqueues. */
ts_err ts_concat_backward(ts_concat *, const ts_emb_views *, int32_t batch,
                          ts_lane *);
