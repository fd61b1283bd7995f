/* model.h - models: wiring only.  One file each (dlrm.c, ...), listed in
 * base/kinds.h.
 *
 * A step calls dense_forward while embeddings are on their way, over_forward
 * when they are there, over_backward (which gives their gradients), then
 * dense_backward.  All enqueue on the compute lane; arrays are device memory,
 * belong to the model and hold until the next dense_forward. */
#pragma once

#include "dense/mlp.h"
#include "kernel_table.h"

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
} ts_emb_views;

typedef struct ts_model_spec {
  const ts_config *config;
  int32_t n_features;        /* features of all tables, the deck's order */
  int32_t dim;               /* of every table, unless ops->any_dims */
  int32_t batch_max;         /* local samples at most */
  bool training;             /* false: no gradients are allocated */
  bool deferred;             /* parameters get no memory: ts_params.deferred */
  const char *engine;        /* of ts_linear, NULL: auto */
  const ts_kernels *kernels; /* the device's */
  struct ts_world *world;    /* for layers that add over ranks; NULL: one */
  const char *keeps; /* a graph's layer: its values stay until the next pass */
} ts_model_spec;

/* Numbers of a model's layers and, for a sample, of their outputs and of the
 * outputs' gradients. */
typedef struct ts_model_count {
  double weights, largest; /* of all layers, and of the one that has most */
  double activations;
} ts_model_count;

typedef struct ts_model_ops {
  const char *kind;
  bool any_dims; /* tables may differ in dim */
  /* Weighted tables are a collection of their own in the names of checkpoints,
   * "weighted_embedding_bag_collection". */
  bool weighted_apart;
  /* Multiplications of a sample's forward pass outside the layers, for the
   * planner; NULL: none. */
  double (*products)(const ts_model_spec *);
  /* Counts what create would make, without making it: for models whose layers
   * grow so fast with the number of features that the planner should not build
   * them just to look; NULL: it builds them. */
  void (*count)(ts_model_count *, const ts_model_spec *);
  /* DECK errors for shapes that do not fit, naming the keys. */
  ts_err (*create)(ts_model **, const ts_model_spec *, ts_device *, ts_lane *);
  void (*destroy)(ts_model *);
  /* dense (batch, width: base/dense_columns.h), device memory, or NULL where
   * there are none. */
  ts_err (*dense_forward)(ts_model *, const float *dense, int32_t batch,
                          const ts_layer_hooks *, ts_lane *);
  /* *LOGITS (batch, n_tasks). */
  ts_err (*over_forward)(ts_model *, float **logits, const ts_emb_views *,
                         int32_t batch, const ts_layer_hooks *, ts_lane *);
  /* dlogits (batch, n_tasks), may be overwritten. */
  ts_err (*over_backward)(ts_model *, float *dlogits, const ts_emb_views *,
                          int32_t batch, const ts_layer_hooks *, ts_lane *);
  ts_err (*dense_backward)(ts_model *, int32_t batch, const ts_layer_hooks *,
                           ts_lane *);
} ts_model_ops;

/* The pass that begins with dense_forward. */
typedef struct ts_model_pass {
  bool training; /* else dropout and the like are off */
  /* Of the data's order, which a resumed run and any number of ranks share:
   * the epoch, and the first local sample's place in it. */
  int64_t epoch, first;
  int64_t n_global; /* samples of all ranks in this (micro-)batch */
} ts_model_pass;

struct ts_model {
  const ts_model_ops *ops;
  ts_params params; /* creation order = forward order */
  /* What layers keep besides, such as batch norm's running statistics: vectors
   * in checkpoints, the same on all ranks, never given to ts_parallel. */
  ts_params buffers;
  ts_model_pass pass; /* set by who calls dense_forward */
};

const ts_model_ops *ts_model_find(const char *kind);
/* What the deck says: that of its layers, else model.kind's; NULL: there is no
 * such kind. */
const ts_model_ops *ts_model_of(const ts_config *);
