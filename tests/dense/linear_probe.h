/* linear_probe.h - a linear layer on the test's device, against sums in double.
 */
#pragma once

#include "dense/linear.h"
#include "tests/support/harness.h"

enum { BATCH_MAX = 70, WIDTH_MAX = 448 };

typedef struct ts_case {
  int in, stride, out;
  bool relu, dx;
} ts_case;

typedef struct ts_probe {
  ts_case c;
  bool half, arrays_half; /* products; and x, y and their gradients */
  uint16_t *x16, *y16, *dy16, *dx16; /* the layer's own then */
  ts_device *device;
  ts_lane *lane;
  ts_kernels k;
  ts_params ps;
  ts_param *W, *b;
  ts_linear *l;
  float *x, *y, *dy, *dx, *masked, *gW, *gb;
} ts_probe;

/* In [-1, 1), by A and B. */
float probe_draw(uint32_t a, uint32_t b);
/* A GPU has one engine, whatever its name. */
bool probe_on_gpu(void);

/* Which arrays are of bf16. */
typedef enum { FLOATS, PRODUCTS, ARRAYS } ts_halves;
void probe_start(ts_probe *, const char *engine, ts_case, ts_halves,
                 int n_threads);
/* Of tokens: batches of narrow rows may be larger than BATCH_MAX. */
void probe_start_tokens(ts_probe *, const char *engine, ts_case, int n_threads,
                        int batch_max);
void probe_stop(ts_probe *);
/* Parts of these; the parameters' memory is the test's. */
void probe_start_device(ts_probe *, int n_threads);
void probe_stop_device(ts_probe *);
void probe_add_params(ts_probe *);
void probe_drop_params(ts_probe *);

/* Forward and backward of one batch, and whether they are right; old gradients
 * must not shine through. */
void probe_pass(ts_probe *, int batch);
/* Forward and backward, with all arrays, of elements of SIZE bytes, where the
 * device has them. */
void probe_run(ts_probe *, void *x, void *y, void *dy, void *dx, int size,
               int batch);
/* X as the matrix products of the layer see it. */
double probe_seen(const ts_probe *, float x);
