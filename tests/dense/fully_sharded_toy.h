/* fully_sharded_toy.h - a model of layers that sleep instead of computing and
 * make up their gradients, trained under a strategy of dense/parallel.h: what
 * is gathered, reduced and updated when can be seen in its events, times and
 * weights. */
#pragma once

#include "dense/fully_sharded.h"
#include "tests/support/harness.h"

enum { TOY_LAYERS_MAX = 32, TOY_ENTRIES_MAX = 16, TOY_EVENTS_MAX = 1024 };

typedef struct toy_spec {
  int n_layers;
  int rows, cols;           /* of each layer's weight; the bias has rows */
  const int *rows_of;       /* (n_layers) instead of rows, or NULL */
  bool serial;              /* all lanes are one */
  double comm_ms;           /* of each collective */
  double comm_gbytes_per_s; /* 0: no matter how many bytes */
  double forward_ms, backward_ms; /* work of a layer */
  const double *ms_of;            /* (n_layers) for both instead, or NULL */
  double optimizer_ms;            /* of each parameter */
  bool late;                      /* a parameter whose gradient comes last */
  bool evaluation;                /* no training */
  bool check;                   /* whole weights are looked at in each layer */
  void (*prepare)(ts_params *); /* of the layers, before they are shared */
  int64_t infinite; /* step whose gradients are in one place; 0: none */
  ts_config config; /* toy_config's and what the test sets */
} toy_spec;

typedef struct toy {
  toy_spec spec;
  ts_device *device;
  ts_world *world;
  ts_lane *lane;
  ts_kernels kernels;
  ts_params params;
  ts_param *W[TOY_LAYERS_MAX], *b[TOY_LAYERS_MAX], *late;
  ts_parallel *parallel;
  ts_fully_sharded *fs; /* NULL under other strategies */
  float *want;          /* weights that layers must find; or NULL */
  int bad; /* weights that were not as they should be; the lane's */
  /* what the watch has seen */
  char events[TOY_EVENTS_MAX]; /* "U1 U2 R1 ..." */
  ts_fully_sharded_live peak;
  int flats_and_wholes, all; /* peaks of sums */
  int n_gathered, n_reduced, n_drained;
} toy;

/* sgd at 0.1, in backward, default gathering. */
ts_config toy_config(const char *parallel);
/* Lists for CONFIG: layer i gathers its K next ones of the pass early. */
void toy_lists(ts_config *, int n_layers, int forward_k, int backward_k);
/* Layer AT (from 1) gathers those of LIST, ended by 0, early. */
void toy_list(ts_config *, ts_pass, int at, const int *list);

ts_err toy_try(toy *, const toy_spec *);
void toy_start(toy *, const toy_spec *);
void toy_stop(toy *);
void toy_forward(toy *);
/* Gradients are those of STEP; of micro-batch MICRO (-1: the whole). */
void toy_backward(toy *, int64_t step, bool sync, int micro, double *norm);
void toy_step(toy *, int64_t step);
void toy_sync(toy *);
/* Whole weights of all layers and the late one, in order, into OUT; returns
 * their number.  Collective. */
int64_t toy_weights(toy *, float *out);
/* Forgets what the watch has seen. */
void toy_forget(toy *);
double toy_gradient(int64_t step, int param, int64_t i);
void toy_sleep(double ms);

/* Four layers of 5 x 3. */
toy_spec toy_small(const char *parallel);
/* STEPS steps of a toy of its own; its weights to OUT. */
void toy_train(const toy_spec *, int steps, float *out);
int64_t toy_n_weights(const toy_spec *);
/* Weights X and Y are the same, bit for bit. */
bool toy_same(const toy_spec *, const float *x, const float *y);
