/* linear_impl.h - what engines of matrix products are; private to linear*.c.
 */
#ifndef TS_DENSE_LINEAR_IMPL_H
#define TS_DENSE_LINEAR_IMPL_H

#include "dense/linear.h"

typedef struct ts_engine {
  const char *name;
  /* Engine's own data behind linear->data; runs on the lane. */
  ts_err (*create)(ts_linear *);
  void (*destroy)(ts_linear *);
  /* y = act(x W^T + b) */
  ts_err (*forward)(ts_linear *, float *y, const float *x, int32_t batch);
  /* dx = dy W unless NULL; dW = dy^T x.  dy is masked already. */
  ts_err (*backward)(ts_linear *, float *dx, const float *dy, const float *x,
                     int32_t batch);
  /* The products of the last pass again, alone; NULL: has none. */
  ts_err (*repeat)(ts_linear *, ts_pass);
} ts_engine;

/* Where the parameters lie for the task that runs: they may lie elsewhere for
 * the next one. */
typedef struct ts_linear_at {
  const float *W, *b;
  float *dW, *db;
} ts_linear_at;

struct ts_linear {
  ts_linear_spec spec;
  const ts_engine *engine;
  ts_param *W, *b;
  ts_linear_at at;
  void *data;
  float *bias_parts; /* (parts, n_out) column sums of fixed blocks of rows */
};

extern const ts_engine ts_engine_ref;
#ifdef HAVE_ONEDNN
extern const ts_engine ts_engine_onednn;
const char *ts_engine_onednn_version(void);
#endif
#ifdef HAVE_CBLAS
extern const ts_engine ts_engine_cblas;
#endif
/* Layers with few outputs: dot products, memory-bound (linear_narrow.c). */
extern const ts_engine ts_engine_narrow;

#endif
