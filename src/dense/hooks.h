/* hooks.h - what a model says of its layers while it enqueues a step, so that
 * parameters are there in time and gradients leave as they come.
 *
 * For each layer, in the order of the forward pass: acquire, its work,
 * release; in the backward pass, in the reverse order: acquire, its work,
 * ready for each of its parameters (last one first), release.  All on the
 * scheduling thread. */
#pragma once

#include "dense/param.h"

typedef enum { TS_FORWARD, TS_BACKWARD } ts_pass;

typedef struct ts_layer_hooks {
  /* From here on work enqueued on LANE finds the parameters of P's group
   * whole at their w and, in the backward pass, room for gradients at their
   * grad. */
  ts_err (*acquire)(void *arg, const ts_param *p, ts_pass, ts_lane *lane);
  /* All reads of the group's w in this pass have been enqueued on LANE. */
  ts_err (*release)(void *arg, const ts_param *p, ts_pass, ts_lane *lane);
  /* The gradient of P has been enqueued on LANE. */
  ts_err (*ready)(void *arg, ts_param *p, ts_lane *lane);
  void *arg;
} ts_layer_hooks; /* HOOKS, or one of its functions, may be NULL */

static inline ts_err ts_layer_acquire(const ts_layer_hooks *h,
                                      const ts_param *p, ts_pass pass,
                                      ts_lane *lane) {
  return h && h->acquire ? h->acquire(h->arg, p, pass, lane) : TS_OK;
}

static inline ts_err ts_layer_release(const ts_layer_hooks *h,
                                      const ts_param *p, ts_pass pass,
                                      ts_lane *lane) {
  return h && h->release ? h->release(h->arg, p, pass, lane) : TS_OK;
}

static inline ts_err ts_layer_ready(const ts_layer_hooks *h, ts_param *p,
                                    ts_lane *lane) {
  return h && h->ready ? h->ready(h->arg, p, lane) : TS_OK;
}
