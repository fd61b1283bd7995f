/* layer_rig.h - a graph from a deck's text on any device, against an oracle in
 * double: outputs, and gradients of sum(c * outputs) of every embedding and
 * parameter, by differences of that oracle.
 *
 *   static void oracle(double *out, const lr_point *p, const void *arg) {..}
 *   lr_check(&(lr_case){.layers = "{ name = \"y\"; kind = ..; },",
 *                       .tables = LR_TABLES("0..2", "4"),
 *                       .n_dense = 3, .n_out = 5, .oracle = oracle});
 *
 * The last layer's columns are the graph's outputs. */
#pragma once

#include "model/graph.h"
#include "tests/support/harness.h"

enum { LR_BATCH = 7, LR_FEATURES_MAX = 16, LR_PARAMS_MAX = 64 };

/* Tables t0.. with a feature f0.. each: LR_TABLES("0..2", "4"). */
#define LR_TABLES(range, dim)                                                  \
  "{ name = \"t{" range "}\"; features = [\"f{" range                          \
  "}\"]; rows = 9; dim = " dim "; }"

/* Inputs and parameters in double. */
typedef struct lr_point {
  int32_t batch, n_dense, n_features, n_out;
  int64_t seed; /* the deck's */
  int32_t dim[LR_FEATURES_MAX];
  double *dense; /* (batch, n_dense) */
  /* (batch, dim), in the deck's order; of tables with pooling "none" a row for
   * each of lengths[b] tokens of each sample. */
  double *emb[LR_FEATURES_MAX];
  bool by_token[LR_FEATURES_MAX];
  const int32_t *lengths; /* (batch) */
  const ts_params *params;
  double *w[LR_PARAMS_MAX]; /* of params->item[i] */
  const ts_params *buffers; /* as they were before the forward pass */
  double *buffer[LR_PARAMS_MAX];
} lr_point;
/* The parameter (or buffer) NAME; the test fails where there is none. */
const double *lr_param(const lr_point *, const char *name);
/* The same of a name that is FMT with the number I. */
const double *lr_param_of(const lr_point *, const char *fmt, int32_t i);
/* Y (n_out) = W x + B, of one row; B NULL: 0. */
void lr_affine(double *y, const double *w, const double *b, const double *x,
               int32_t n_out, int32_t n_in);
/* Embeddings side by side (batch, all dims), into X. */
void lr_embeddings(const lr_point *, double *x);

/* OUT (batch, n_out) = */
typedef void (*lr_oracle)(double *out, const lr_point *, const void *arg);

typedef struct lr_case {
  const char *layers; /* elements of model.layers */
  const char *tables; /* elements of tables; NULL: three of dim 4 */
  const char *more;   /* further text of the deck; NULL: none */
  const char *keeps;  /* ts_model_spec.keeps */
  int32_t n_dense, n_out;
  lr_oracle oracle;
  const void *arg;
  double near;            /* of outputs; 0: 1e-5 */
  double tolerance;       /* of gradients; 0: 1e-4 */
  bool eval;              /* outputs alone, with training off */
  bool bf16;              /* run.precision, where this CPU has it */
  const int32_t *lengths; /* (LR_BATCH) tokens of each sample, of all tables
                             with pooling "none"; NULL: there is none */
} lr_case;
/* Rows of feature F. */
int32_t lr_rows(const lr_point *, int32_t f);

/* Batches of LR_BATCH, 1 and 0 samples, several seeds. */
void lr_check(const lr_case *);
/* A deck with these layers is refused, and the message contains TEXT. */
void lr_refused(const lr_case *, const char *text);

/* ---- step by step -------------------------------------------------------- */

typedef struct lr_rig {
  const lr_case *c;
  ts_config *config;
  ts_device *device;
  ts_lane *lane;
  ts_kernels k;
  ts_arrays arrays;
  ts_model *model;
  ts_world *world; /* of the fixture that the test has; NULL */
  uint32_t seed;
  int64_t stride[LR_FEATURES_MAX];
  float *data[LR_FEATURES_MAX], *grad[LR_FEATURES_MAX]; /* the device's */
  ts_jagged tokens[LR_FEATURES_MAX];
  int32_t *lengths; /* the device's */
  float *dense, *dlogits;
  lr_point p; /* of LR_BATCH samples */
  /* The host's, of the last pass. */
  double *c_out;                /* (LR_BATCH, n_out): c */
  float *out;                   /* (LR_BATCH, n_out) */
  float *demb[LR_FEATURES_MAX]; /* (rows, stride) */
  float *dw[LR_PARAMS_MAX];
} lr_rig;

/* On DEVICE's lane and kernels of its own; WORLD may be NULL. */
void lr_start(lr_rig *, const lr_case *, uint32_t seed, ts_world *world,
              ts_device *device);
void lr_stop(lr_rig *);
/* Of the first BATCH samples; model->pass is set by the caller.  Outputs into
 * out; gradients into demb, dw. */
void lr_forward(lr_rig *, int32_t batch);
void lr_backward(lr_rig *, int32_t batch);
