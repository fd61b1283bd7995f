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
  /* y = act(x W^T + b); at.b may be NULL */
  ts_err (*forward)(ts_linear *, void *y, const void *x, int32_t batch);
  /* dx = dy W unless NULL; dW = dy^T x.  dy is masked already and of bf16
   * where linear->half: y's own array or linear->g16. */
  ts_err (*backward)(ts_linear *, void *dx, const void *dy, const void *x,
                     int32_t batch);
  /* The products of the last pass again, alone; NULL: has none. */
  ts_err (*repeat)(ts_linear *, ts_pass);
} ts_engine;

/* Where the parameters lie for the task that runs: they may lie elsewhere for
 * the next one. */
typedef struct ts_linear_at {
  const float *W, *b; /* b, db: NULL without bias */
  float *dW, *db;
} ts_linear_at;

struct ts_linear {
  ts_linear_spec spec;
  const ts_engine *engine;
  ts_param *W, *b;
  ts_linear_at at;
  void *data;
  bool half;            /* products in bf16 */
  int32_t k_pad, n_pad; /* n_in, n_out up to multiples of 32 */
  uint16_t *g16;        /* (batch, n_pad) dy in bf16 where half and y is not */
  float *bias_parts;    /* (parts, n_out) column sums of fixed blocks of rows */
};

extern const ts_engine ts_engine_ref;
#ifdef HAVE_ONEDNN
extern const ts_engine ts_engine_onednn;
const char *ts_engine_onednn_version(void);
bool ts_engine_onednn_has_bf16(void); /* the CPU, for oneDNN */
#endif
#ifdef HAVE_CBLAS
extern const ts_engine ts_engine_cblas;
#endif
/* Layers with few outputs: dot products, memory-bound (linear_narrow.c). */
extern const ts_engine ts_engine_narrow;

#endif
