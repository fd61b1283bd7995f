/* config.h - the deck in force, as plain data.
 *
 * io/deck.c fills it from the deck, the command line and the defaults by the
 * one schema table in io/schema.c (which also makes `help deck` and
 * doc/deck); all strings are owned by it, all paths absolute.  Everything
 * else only reads it.  Keys that belong to later work are kept in the schema
 * and refused with a value that this version lacks.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/table_config.h"

typedef struct ts_optim_override {
  char *match;
  ts_optim_config optimizer;
} ts_optim_override;

/* A column of the input, as data.columns says (io/columns.h). */
typedef enum {
  TS_COLUMN_DENSE,
  TS_COLUMN_IDS,
  TS_COLUMN_LABEL,
  TS_COLUMN_WEIGHT,
  TS_COLUMN_TIME,
  TS_COLUMN_KEY
} ts_column_kind;

typedef struct ts_column_config {
  char *name; /* in the model: a feature's, a task's */
  ts_column_kind kind;
  char *from;           /* in the files; "": name */
  char *encoding;       /* of ids: "" | hash | vocabulary | modulo | none */
  char *list_separator; /* "": a field is one id */
  int64_t min_count;    /* of a vocabulary: rarer words are unknown */
  char *transform;      /* of dense: as data.csv.dense_transform */
  double min, max;      /* of transform clip; NAN: no limit */
  ts_floats edges;      /* of bucketise and piecewise_linear; none: bins */
  int32_t bins;         /* quantiles that take the edges' place */
  char *source;         /* of ids with edges: the dense column; "": its own */
  char *part;           /* of a date and time */
  ts_strings cross;     /* columns whose values together are the id */
  int64_t seed;         /* of encoding hash */
  char *missing;        /* of ids: unknown | word */
  char *label;          /* of labels: binary | soft | count | real */
  char *group;          /* of features */
  int64_t max_length;   /* of a bag: so many ids; 0: all */
  char *truncate;       /* which go: newest, the last ones | oldest */
} ts_column_config;

/* An element of model.outputs; of model.tasks name and weight alone, with loss
 * bce of the model's logits in their order. */
typedef struct ts_task_config {
  char *name;
  char *label;      /* column of labels; NULL, "": name */
  char *in;         /* of a graph: the layer, "" its last */
  char *loss;       /* bce | mse | mae | huber | poisson | .. */
  char *from;       /* of bce: logit | probability */
  int32_t classes;  /* of softmax_cross_entropy: how wide `in` is, once the
                       graph is made, before it 0; no key */
  char *where;      /* column: samples in which it is 0 don't count; "": none */
  double weight;    /* of its loss */
  bool uncertainty; /* weight is learnt instead */
  double smoothing; /* of bce and softmax_cross_entropy */
  double delta;     /* of huber */
  /* What follows is for losses over items (base/tasks.h). */
  char *items;        /* the table whose rows they are; "": the one of target;
                         or a layer (ts_task_has_tower) */
  char *target;       /* the feature whose ids are wanted */
  int32_t negatives;  /* that are drawn for each of them in training */
  int32_t given;      /* that stand behind each of them in evaluation data */
  char *draw;         /* of negatives: uniform | frequency | batch */
  bool log_q;         /* scores less the log of the items' shares of targets */
  int64_t first_item; /* ids below it are none */
  ts_strings exclude; /* features of a sample whose ids are not drawn, and
                         not ranked */
  bool draw_excluded; /* in training they are drawn */
  char *masked;       /* feature whose ids it finds again; "": none */
  double mask_share;  /* of them that are hidden in training */
  int64_t mask_id;    /* what stands there then */
  double temperature; /* scores are divided by it */
  bool normalise;     /* scores are cosines */
  double margin, negative_weight; /* of cosine_contrastive */
} ts_task_config;

/* An element of model.layers: what all kinds have (doc/models.md). */
typedef struct ts_layer_config {
  char *name, *kind;
  ts_strings in;                         /* inputs or layers above */
  ts_strings query, gate, items, before; /* the same, in other roles */
  char *times; /* feature whose ids are times of the tokens; "": none */
  /* Names of its parameters, and group, where NAME.i is not wanted; "". */
  char *parameters, *last_parameters, *parameter_group;
  ts_optim_config optimizer; /* kind NULL: the deck's */
  double l2;                 /* weight decay of its weights, not biases */
  char *init_kind;           /* "": as the kind has it */
  double init_scale;
  bool frozen;
  void *options; /* the kind's own keys: model/layer.h; owned */
  int line;      /* in the deck, for messages */
  char *file;    /* NULL: the deck */
} ts_layer_config;

/* Layers that are gathered and reduced as one; and what is gathered early
 * when LAYER has been. */
typedef struct ts_layers_config {
  ts_strings layers;
} ts_layers_config;

typedef struct ts_prefetch_config {
  char *layer;
  ts_strings prefetch;
} ts_prefetch_config;

typedef struct ts_config {
  char *deck_path, *deck_dir;
  struct {
    char *name, *output;
    int64_t seed;
    ts_backend_choice backend;
    int64_t steps; /* 0: by epochs */
    double epochs; /* 0: by steps */
    int32_t threads;
    ts_precision precision;
    int32_t serial_lanes; /* 0 or 1 */
    int32_t graph;        /* 0 or 1: steps as graphs of the device */
    int64_t log_every, eval_every, valid_every;
    struct {
      char *metric, *task; /* task: "" the first */
      int32_t patience;    /* validations; 0: never */
      double min_delta;
      char *restore; /* best | last */
    } stop;
    double max_time_s; /* 0: none */
    int32_t accumulate;
    ts_on_nan on_nan;
    int64_t max_skips;
    ts_check_kind check; /* for silent faults */
    int64_t check_every;
    ts_on_fault on_fault;
    char *tier_dir;
    double deadline_s; /* of every section; 0: learnt */
    struct {
      double setup_s, step_s, eval_s, save_s, load_s, input_s;
    } deadlines; /* of one; 0: deadline_s */
    char *trace; /* file name, "" off */
  } run;
  struct {
    ts_strings train, valid, eval, items; /* absolute paths or globs */
    char *format;                         /* auto, or one of TS_DATA_FORMATS */
    int64_t global_batch;                 /* 0: batch_per_rank */
    int64_t batch_per_rank;               /* 0: global_batch */
    bool pin_memory;
    char *input; /* kjt | columns */
    ts_strings dedup;
    char *shuffle;         /* none | block | full */
    double shuffle_window; /* MiB */
    int64_t streams;       /* of the data, that batches are made of */
    struct {
      double valid; /* share for validation; 0: by a column, or none */
      char *by;     /* hash | time | tail | column:NAME */
      char *key;    /* column of hash and time, "": none */
    } split;
    double negatives;       /* share that is trained on; 1: all */
    double positive_weight; /* a sample with label 1 counts as so many */
    int64_t max_tokens; /* ids of a sequence in a rank's batch; 0: not said */
    char *balance;      /* samples | tokens */
    bool drop_last;
    ts_on_bad on_bad_id, on_bad_record;
    int64_t max_bad;
    char *categorical; /* criteo: modulo | hash */
    ts_column_config *columns;
    int32_t n_columns; /* 0: as the format and data.csv say */
    struct {
      int64_t samples;      /* training part */
      int64_t eval_samples; /* 0: samples / 10 */
      double zipf;
      ts_ints pooling; /* one number, or one per feature */
      int32_t hidden_dim;
      double noise;
      int64_t seed; /* of the planted truth; independent of run.seed */
      int64_t ring; /* batches that are given in turns; 0: all are new */
    } synthetic;
    struct {
      char *label, *separator;
      ts_strings missing;     /* fields that mean it, besides the empty one */
      char *list_separator;   /* "": a field is one id */
      ts_strings lists;       /* columns that have lists; empty: all of ids */
      ts_strings labels;      /* one per task; empty: label */
      ts_strings label_true;  /* these label strings are 1 ... */
      double label_threshold; /* ... or labels >= this (NAN: not given) */
      ts_strings dense, sparse;
      char
          *dense_transform; /* log1p | standardise | log1p_standardise | none */
      char *encoding;       /* hash | vocabulary */
    } csv;
  } data;
  ts_table_config *tables; /* {a..b} expanded, defaults applied */
  int32_t n_tables;
  struct {
    char *kind;
    int32_t dense_features;
    ts_ints dense_arch, over_arch;
    int32_t dcn_layers, dcn_rank;
    int32_t deepfm_hidden, deepfm_fm_dim;
    char *deepfm_fm;
    ts_task_config *tasks; /* one of name "label", weight 1 by default */
    int32_t n_tasks;
    bool has_outputs;        /* tasks are model.outputs; no key */
    ts_layer_config *layers; /* of a graph, blocks rolled out */
    int32_t n_layers;        /* 0: kind says what is computed */
  } model;
  struct {
    ts_optim_config base;
    bool in_backward;
    ts_optim_override *overrides;
    int32_t n_overrides;
    char *schedule; /* constant | linear | cosine | inverse_sqrt | polynomial |
                       step | one_cycle | plateau */
    int64_t warmup, schedule_steps;
    int32_t schedule_patience; /* of plateau, validations */
    double power, floor;
    double clip_norm;
    double ema; /* decay of the dense weights' average; 0: none is kept */
  } optimizer;
  struct {
    char *parallel;
    double bucket_mb;
    char *comm_dtype;
    ts_layers_config *groups;
    int32_t n_groups;
    /* Ranks that keep a group together from forward to backward: 0 all (true),
     * 1 each rank the whole of it (false). */
    int32_t reshard;
    ts_prefetch_config *forward_prefetch, *backward_prefetch;
    int32_t n_forward_prefetch, n_backward_prefetch;
    int32_t reduce_inputs;
    bool post_optimizer_event;
  } dense;
  struct {
    char *backend;
    int32_t ordered; /* comm.reduce: 0 or 1 */
    ts_input_dist input_dist;
    double timeout_s, delay_us, delay_gbytes_per_s;
  } comm;
  struct {
    char *plan, *topology;
    int32_t ranks_per_node;
    double memory_gib;
    int32_t min_column;
    char *comm_dtype_forward, *comm_dtype_backward;
  } sharding;
  struct {
    char *kind, *lookup, *lookup_lane;
    int64_t start_batch;
    bool stash_gradients;
  } pipeline;
  struct {
    char *dir; /* absolute; NULL: no checkpoints ("none") */
    int64_t every, delta_every;
    int32_t keep;
    bool delta_state; /* deltas have the optimizers' state, too */
    bool best;        /* best.h5 is kept, too */
    bool async;
    int64_t buffer_mib; /* of a rank; 0: by what memory is free */
    char *mirror;       /* absolute, "": none */
    int32_t mirror_every;
    char *io, *resume, *init_from;
    bool init_state;
  } checkpoint;
  struct {
    int64_t window; /* samples, global */
    ts_strings report;
    double threshold;
    char *group; /* feature, "": none */
    int64_t k;
    double rotate_mib; /* of metrics.jsonl, 0: never */
  } metrics;
} ts_config;
