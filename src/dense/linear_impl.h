/* linear_impl.h - what engines of matrix products are; for linear*.c and for
 * engines of other devices, which their table of kernels names.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "dense/linear.h"

enum { TS_NARROW_MAX = 4 }; /* outputs of layers that are dot products */

typedef struct ts_engine {
  const char *name;
  const char *(*version)(void); /* NULL: the name says all */
  /* Whether it has products in bf16 for layers with N_OUT outputs, or that
   * take their inputs in bf16 (N_OUT INT32_MAX).  NULL: none. */
  bool (*has_bf16)(int32_t n_out);
  bool has_tf32;
  /* Engine's own data behind linear->data; runs on the lane. */
  ts_err (*create)(ts_linear *);
  void (*destroy)(ts_linear *); /* NULL: an engine without data */
  /* y = act(x W^T + b); at.b may be NULL.  batch > 0, as in backward. */
  ts_err (*forward)(ts_linear *, void *y, const void *x, int32_t batch);
  /* The same with N rows of W alone, which begin at at.W and at.b: y (batch,
   * n).  has_some: whether layer L can; NULL: none can. */
  ts_err (*forward_some)(ts_linear *, float *y, const float *x, int32_t batch,
                         int32_t n);
  bool (*has_some)(const ts_linear *);
  /* From dy, which it may overwrite: with g = dy * (y > 0) where the spec has
   * relu, else dy, dx = g W unless NULL, dW = g^T x and, unless at.db is NULL,
   * db = the sum of g's rows. */
  ts_err (*backward)(ts_linear *, void *dx, void *dy, const void *x,
                     const void *y, int32_t batch);
  /* The products of the last pass again, alone; NULL: has none. */
  ts_err (*repeat)(ts_linear *, ts_pass);
  ts_err (*unfused)(ts_str *text); /* ts_linear_unfused; NULL: none are */
  /* ts_linear_choices, ts_linear_choose; NULL: it has no choice. */
  ts_err (*save)(ts_str *text);
  ts_err (*restore)(const char *text);
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
  ts_linear *before; /* the one before of other rows of W; NULL: none */
  void *data;
  bool half;            /* products in bf16 */
  int32_t k_pad, n_pad; /* n_in, n_out up to multiples of 32 */
  /* For engines of the host (ts_linear_masked). */
  uint16_t *g16;     /* (batch, n_pad) dy in bf16 where half and y is not */
  float *bias_parts; /* (parts, n_out) column sums of fixed blocks of rows */
};

/* The host's engine of that name (NULL: the first), its own for layers with
 * few outputs; NULL: there is none. */
const ts_engine *ts_engine_host(const char *name, int32_t n_out);

/* Engines of the host call it in create: it makes what ts_linear_masked needs.
 */
ts_err ts_linear_mask_create(ts_linear *);
/* The g of backward, in bf16 where linear->half: dy's own array or
 * linear->g16.  Computes db, too. */
const void *ts_linear_masked(ts_linear *, void *dy, const void *y,
                             int32_t batch);

extern const ts_engine ts_engine_ref;
#ifdef HAVE_ONEDNN
extern const ts_engine ts_engine_onednn;
#endif
#ifdef HAVE_CBLAS
extern const ts_engine ts_engine_cblas;
#endif
/* Layers with few outputs: dot products, memory-bound (linear_narrow.c). */
extern const ts_engine ts_engine_narrow;
