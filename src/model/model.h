/* model.h - the model of a deck: its graph of layers (model/graph.h), those of
 * model.layers or those that model.kind stands for (model/named.h).
 *
 * A step calls dense_forward while embeddings are on their way, over_forward
 * when they are there, over_backward (which gives their gradients), then
 * dense_backward.  All enqueue on the compute lane; arrays are device memory,
 * belong to the model and hold until the next dense_forward.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/balance.h"
#include "dense/mlp.h"
#include "kernel_table.h"
#include "sparse/kjt.h"

typedef struct ts_model ts_model;

/* Pooled embeddings of this rank's samples: row b of feature f at
 * data[f] + b * stride[f], dim floats.  grad has the same strides, and may
 * lie over data: a sample's embeddings are read before its gradients are
 * written.  The pointers must stay as they are until the step is over. */
typedef struct ts_emb_views {
  const float *const *data; /* (n_features) of device memory */
  float *const *grad;       /* (n_features), written (=) by over_backward */
  const int64_t *stride;    /* (n_features) floats */
  int32_t n_features;
  /* (n_features) Of features whose table has pooling "none" this rank's bags:
   * row b is id b, and arrays lie where kernels see them; NULL: there is no
   * such table. */
  const ts_jagged *tokens;
  /* (n_features) Of candidates (shard/ebc.h), whose rows are there once each;
   * n_rows 0 of other features; NULL: there are none. */
  const ts_spread *spread;
} ts_emb_views;

typedef struct ts_model_spec {
  const ts_config *config;
  int32_t n_features;  /* features of all tables, the deck's order */
  int32_t batch_max;   /* local samples at most */
  int32_t batch_share; /* local samples whose tokens there is room for where
                          nothing but max_length says how many; 0: batch_max */
  bool training;       /* false: no gradients are allocated */
  bool deferred;       /* parameters get no memory: ts_params.deferred */
  const char *engine;  /* of ts_linear, NULL: auto */
  const ts_kernels *kernels; /* the device's */
  struct ts_world *world;    /* for layers that add over ranks; NULL: one */
  int n_ranks; /* without a world: the ranks that memory is planned for; 0: 1 */
  const char *keeps; /* a graph's layer: its values stay until the next pass */
} ts_model_spec;

/* The pass that begins with dense_forward. */
typedef struct ts_model_pass {
  bool training; /* else dropout and the like are off */
  /* Of the data's order, which a resumed run and any number of ranks share:
   * the epoch, and the first local sample's place in it. */
  int64_t epoch, first;
  int64_t n_global; /* samples of all ranks in this (micro-)batch */
  /* For a loss over all items, or those of the batch: what samples bring along,
   * and the targets of each rank (host memory; NULL: there is one rank). */
  ts_slices slices;
  const int64_t *n_targets;
  /* By id the log of its share of the targets, memory of the device; NULL:
   * nothing wants it. */
  const float *log_q;
  ts_event_times times; /* memory of the device */
  /* Samples have no targets: outputs over items give their vectors alone, as
   * one who serves wants them. */
  bool no_targets;
} ts_model_pass;

struct ts_model {
  ts_params params; /* creation order = forward order */
  /* What layers keep besides, such as batch norm's running statistics: vectors
   * in checkpoints, the same on all ranks, never given to ts_parallel. */
  ts_params buffers;
  ts_model_pass pass; /* set by who calls dense_forward */
  /* Batches are items, not samples: forward passes run the layers that make
   * their vectors (ts_task_has_tower) and no others, so that there are no
   * logits.  Set by who makes them (train/topk_tower.c). */
  bool items_only;
};

/* DECK errors for shapes that do not fit, naming keys or layers.  Collective
 * where layers add over ranks. */
ts_err ts_model_create(ts_model **, const ts_model_spec *, ts_device *,
                       ts_lane *);
void ts_model_destroy(ts_model *); /* Collective likewise; NULL: nothing */
/* Whether a batch that was read has no more tokens than there is room for, and
 * equally many where layers join them, a time for each where layers ask for
 * these, or one more, and no more targets of outputs over items, or one
 * where that is the item of a vector that layers make.  TRAINING:
 * negatives are those of training.  TIMES: host memory.  DATA errors. */
ts_err ts_model_check_tokens(const ts_model *, const ts_kjt *, bool training,
                             ts_slices, ts_event_times times);
/* What samples cost by their tokens, for ts_balance_cut; costs->of is the
 * caller's.  Local. */
ts_err ts_model_costs(const ts_model *, ts_sample_costs *costs);
/* dense (batch, width: base/dense_columns.h), device memory, or NULL where
 * there are none.  Enqueues. */
ts_err ts_model_dense_forward(ts_model *, const float *dense, int32_t batch,
                              const ts_layer_hooks *, ts_lane *);
/* *LOGITS (batch, n_tasks).  Enqueues. */
ts_err ts_model_over_forward(ts_model *, float **logits, const ts_emb_views *,
                             int32_t batch, const ts_layer_hooks *, ts_lane *);
/* dlogits (batch, n_tasks), may be overwritten.  Enqueues. */
ts_err ts_model_over_backward(ts_model *, float *dlogits, const ts_emb_views *,
                              int32_t batch, const ts_layer_hooks *, ts_lane *);
/* Enqueues. */
ts_err ts_model_dense_backward(ts_model *, int32_t batch,
                               const ts_layer_hooks *, ts_lane *);

/* Numbers of a model's layers, and for a sample: of their outputs and of the
 * outputs' gradients; multiplications of the forward pass besides one for each
 * weight. */
typedef struct ts_model_count {
  double weights, largest; /* of linear layers; of that which has most */
  double activations, products;
} ts_model_count;
/* Makes nothing; weights where all layers that have some count them
 * (ts_layer_ops.count).  DECK errors as create's. */
ts_err ts_model_counted(ts_model_count *, const ts_model_spec *);
