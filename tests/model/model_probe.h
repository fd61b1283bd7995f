/* model_probe.h - a small model of each kind on any device, its deck and one
 * step of it, beside the oracle's copy in double. */
#pragma once

#include "runtime/arrays.h"
#include "tests/model/model_oracle.h"
#include "tests/support/harness.h"

enum { MB = 6, MF = 3, MD = 17, MN = 4, MT = 2, PARAMS_MAX = 24 };

/* A model of KIND on tables of DIMS, and its deck. */
typedef struct ts_model_case {
  const char *kind;
  int32_t dims[MF];
  int64_t bottom[2]; /* 0: no dense features */
  int32_t n_tasks;
  int32_t layers, rank;   /* dcnv2 */
  int32_t hidden, fm_dim; /* deepfm: has dense features where hidden > 0 */
  const char *fm;
  bool weighted; /* the first table, whose place in sparsenn is the last */
} ts_model_case;

enum { N_MODELS = 10, DCNV2 = 4 };
extern const ts_model_case model_cases[N_MODELS];

/* A deck and what belongs to it. */
typedef struct ts_plain_deck {
  ts_config c;
  char kind[16], fm[16], task[8], table[MF][16], feature[MF][16];
  char *features[MF];
  int64_t bottom[2], over[2];
  ts_task_config tasks[MT];
  ts_table_config tables[MF];
} ts_plain_deck;

void make_deck(ts_plain_deck *, const ts_model_case *);

/* On any device: what kernels touch is its memory. */
typedef struct ts_probe {
  const ts_model_case *m;
  ts_plain_deck deck;
  ts_device *device;
  ts_lane *lane;
  ts_kernels k;
  ts_arrays arrays;
  ts_model *model;
  float emb[MF][MB * MD], grad[MF][MB * MD], dense[MB * MN], label[MB * MT];
  float *data[MF], *grads[MF], *inputs, *labels, *dlogits; /* the device's */
  double *loss;
  int64_t stride[MF];
  float *dw[PARAMS_MAX]; /* gradients of parameters, for the host */
  ts_oracle oracle;
  double *w[PARAMS_MAX], *demb[MF], emb64[MF][MB * MD];
} ts_probe;

void start_in(ts_probe *, const ts_model_case *, const char *engine,
              ts_precision);
void start(ts_probe *, const ts_model_case *, const char *engine); /* f32 */
void stop(ts_probe *);
/* One step over the first BATCH samples; the loss. */
double step(ts_probe *, int32_t batch, const ts_layer_hooks *);
