/* parallel_impl.h - what strategies of parallel.h are; private to them.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "dense/parallel.h"

typedef struct ts_parallel_ops {
  const char *kind;
  bool defers; /* takes parameters without w */
  ts_err (*create)(ts_parallel **, const ts_parallel_spec *);
  void (*destroy)(ts_parallel *);
  ts_layer_hooks hooks; /* arg is the ts_parallel */
  ts_err (*begin)(ts_parallel *, int64_t step, bool sync);
  ts_err (*end)(ts_parallel *, double *grad_norm, ts_lane *);
  void (*drop)(ts_parallel *);
  ts_err (*stash)(ts_parallel *, bool on); /* NULL: refused */
  ts_err (*unstash)(ts_parallel *, int64_t step, ts_lane *);
  bool (*stash_finite)(const ts_parallel *);
  ts_parallel_stat (*stat)(const ts_parallel *);
  ts_param_piece (*piece)(const ts_parallel *, const ts_param *);
} ts_parallel_ops;

/* The first member of each strategy's own struct. */
struct ts_parallel {
  const ts_parallel_ops *ops;
  ts_parallel_spec spec;
  ts_param_optims *optims;
  double rate; /* ts_parallel_slow's */
};

/* Parameters are updated within the backward pass; a note where clipping
 * forbids what the deck asks for. */
bool ts_parallel_in_backward(const ts_config *);
/* P has an average: optimizer.ema. */
static inline bool ts_parallel_averages(const ts_config *c, const ts_param *p) {
  return c->optimizer.ema > 0 && !p->frozen;
}
/* The arguments of P's update in STEP, all but w, grad and n.  NORM: (2) in
 * device memory, the second is the factor of clipping; NULL: no clipping. */
ts_dense_update_args ts_parallel_update_args(const ts_parallel *,
                                             const ts_param *p, int64_t step,
                                             double lr_factor,
                                             const double *norm);

/* Enqueue: N gradients in device memory become WIRE in the first half of their
 * room; or f32 again.  Nothing where WIRE is f32. */
ts_err ts_parallel_shorten(const ts_kernels *, float *x, int64_t n,
                           ts_dtype wire, ts_lane *);
ts_err ts_parallel_widen(const ts_kernels *, float *x, int64_t n, ts_dtype wire,
                         ts_lane *);
/* Enqueue: TO = FROM where FIRST, else TO += FROM; A and B change places. */
ts_err ts_parallel_fold(const ts_kernels *, float *to, const float *from,
                        int64_t n, bool first, ts_lane *);
ts_err ts_parallel_swap(const ts_kernels *, float *a, float *b, int64_t n,
                        ts_lane *);
/* None of N looks finds anything; BAD: (1) of the device.  At once, while lanes
 * are idle; false where the device fails, too. */
bool ts_parallel_finite(const ts_kernels *, int32_t *bad,
                        const ts_check_finite_args *, int32_t n);
