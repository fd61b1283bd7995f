/* param.h - dense parameters.
 *
 * A parameter has a full view that is valid for work enqueued between acquire
 * and release of its group (always, when it is replicated), a gradient that is
 * valid from acquire for the backward pass until it is given up as ready, and
 * optimizer state.  W and GRAD may point elsewhere in the next step or pass:
 * tasks take the pointers with them when they are enqueued.
 *
 * All arrays are memory of the model's device (TS_SPACE_DEVICE), which the host
 * may not touch where it is discrete: kernels, copies and staging do.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/config.h"
#include "base/dtype.h"
#include "base/err.h"
#include "runtime/staging.h"

enum {
  TS_PARAM_STATES_MAX = 2,
  TS_PARAM_ALIGN = 16 /* floats: where arrays of parameters lie side by side
                         each begins on a border of 64 bytes, or vectors and
                         products go by single floats */
};

/* Floats that N of them take up there, with padding. */
static inline int64_t ts_param_room(int64_t n) {
  return (n + TS_PARAM_ALIGN - 1) / TS_PARAM_ALIGN * TS_PARAM_ALIGN;
}

typedef enum { TS_INIT_CONSTANT, TS_INIT_UNIFORM, TS_INIT_NORMAL } ts_init_kind;

typedef struct ts_param_init {
  ts_init_kind kind;
  uint64_t seed;
  double scale; /* the constant; +-bound; the deviation */
} ts_param_init;

typedef struct ts_param {
  char *name;    /* full name, as in checkpoints (doc/formats) */
  char *group;   /* the layer that it is gathered and reduced with, such as
                    "over_arch.0"; consecutive parameters */
  int32_t index; /* in creation order: key of its initial values; of its own
                    among all that one ts_parallel holds */
  int32_t rows;  /* (rows, cols) row-major; a vector has cols 0 */
  int32_t cols;
  int64_t n;   /* elements */
  float *w;    /* (n) f32, the full view */
  float *grad; /* (n) f32, set by ts_parallel; written (=) by backward */
  float *state[TS_PARAM_STATES_MAX]; /* f32, by the optimizer: (n), or this
                                        rank's part of it */
  /* Grows with each update: packed weights carry it.  In the task that
   * updates, so tasks behind that one see it, on the host as it runs and on a
   * GPU as it is enqueued. */
  uint64_t version;
  struct ts_linear *layer; /* whose weight it is, NULL: none's; the layer sets
                              it */
  bool half; /* all who read w round it to bf16 first: so it may come rounded.
                The layer sets it */
  ts_param_init init; /* of its values, wherever they are kept */
  /* Its gradient comes after the model's backward pass: so it shares no
   * bucket of the reduction with those that come early. */
  bool late;
  bool below;  /* in layers that embeddings do not reach */
  bool frozen; /* no optimizer touches it */
  bool keyed;  /* its initial values are drawn by KEY, not by index: so that
                  they are the same wherever it stands */
  uint32_t key;
  ts_buffer own; /* memory of w, where it has some of its own */
  /* Its own, as an entry of optimizer.overrides has them (those of the deck
   * come after, and win): kind NULL and NAN are the deck's; whoever sets it
   * keeps it.  NULL: the deck's. */
  const ts_optim_config *optimizer;
  double l2; /* added to that weight decay, in its mode; "l2" where that is
                "none" */
  /* f32, as STATE: the running mean of w (optimizer.ema); NULL: none. */
  float *ema;
} ts_param;

/* All parameters of a model in creation order (forward order). */
typedef struct ts_params {
  ts_param **item; /* owned */
  int32_t n;
  bool deferred; /* parameters get no w: who shards them never has the whole
                    model in memory */
} ts_params;

/* Adds a zeroed parameter to GROUP, in the device's memory.  cols 0: vector.
 * Local. */
ts_err ts_params_add(ts_params *, ts_device *, ts_param **, const char *name,
                     const char *group, int32_t rows, int32_t cols);
void ts_params_reset(ts_params *);
ts_param *ts_params_find(const ts_params *, const char *name);
int64_t ts_params_count(const ts_params *); /* elements in all */
int64_t ts_params_room(const ts_params *);  /* and side by side */
/* An eighth of them or more are below the embeddings: their backward pass is
 * worth to hide messages under, one of the gradients above among them. */
bool ts_params_heavy_below(const ts_params *);

/* Initial values from (seed, index, element) only: Linear layers as PyTorch,
 * uniform +-1/sqrt(fan_in) for weight and bias.  The host draws them; no lane
 * runs. */
ts_err ts_param_init_uniform(ts_param *, uint64_t seed, double bound);
/* Normal with mean 0. */
ts_err ts_param_init_normal(ts_param *, uint64_t seed, double deviation);
ts_err ts_param_init_constant(ts_param *, float value);
/* Initial values of elements [first, first + n) into TO, memory of the host. */
void ts_param_init_part(const ts_param *, float *to, int64_t first, int64_t n);
/* The same into any memory, piece by piece through the staging. */
ts_err ts_param_init_put(const ts_param *, ts_staging *, float *to,
                         int64_t first, int64_t n);
