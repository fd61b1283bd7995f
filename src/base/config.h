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

#include "base/dtype.h"

typedef struct ts_strings {
  char **item;
  int32_t n;
} ts_strings;
typedef struct ts_ints {
  int64_t *item;
  int32_t n;
} ts_ints;
typedef struct ts_floats {
  double *item;
  int32_t n;
} ts_floats;

typedef enum {
  TS_BACKEND_AUTO,
  TS_BACKEND_HOST,
  TS_BACKEND_CUDA,
  TS_BACKEND_EMULATED /* of tests */
} ts_backend_choice;
typedef enum {
  TS_PRECISION_F32,
  TS_PRECISION_TF32,
  TS_PRECISION_BF16
} ts_precision;
typedef enum { TS_INPUT_AUTO, TS_INPUT_EXACT, TS_INPUT_BOUNDED } ts_input_dist;
typedef enum { TS_ON_NAN_STOP, TS_ON_NAN_SKIP, TS_ON_NAN_ROLLBACK } ts_on_nan;
typedef enum { TS_ON_BAD_STOP, TS_ON_BAD_DROP } ts_on_bad; /* DROP: also skip */
typedef enum { TS_POOL_SUM, TS_POOL_MEAN, TS_POOL_NONE } ts_pooling;
typedef enum { TS_WD_NONE, TS_WD_L2, TS_WD_DECOUPLED } ts_wd_mode;
typedef int ts_shard_kind; /* TS_SHARD_AUTO, ... of base/kinds.h */

/* The optimizer of a table or of the dense parameters.  A float that is NAN was
 * not given: the optimizer's default holds. */
typedef struct ts_optim_config {
  char *kind;
  double lr, eps, beta1, beta2, momentum, eta, weight_decay;
  double clip_value; /* of the deck's; 0: none */
  ts_wd_mode weight_decay_mode;
} ts_optim_config;

/* rows = "auto", as long as nobody has looked at the data (io/rows.h).
 * DYNAMIC: any id is one; of tables only while the deck is read. */
enum { TS_ROWS_AUTO = -1, TS_ROWS_DYNAMIC = -2 };

typedef struct ts_table_config {
  char *name;
  int64_t rows;
  int64_t capacity; /* of a dynamic table, which has so many rows; else 0 */
  int32_t dim;
  ts_strings features;
  ts_pooling pooling;
  bool weighted;
  bool weighted_apart; /* so named in checkpoints: the model's say; no key */
  ts_dtype dtype;
  char *group;       /* of inputs of a graph that it is in; "": the main one */
  bool wide;         /* its features are in a table NAME_wide, dim 1, too */
  bool is_wide;      /* that table; no key */
  double max_norm;   /* of a row, after its update; 0: none */
  bool ema;          /* its weights' average is kept, too */
  char *init_kind;   /* uniform | normal | constant | file */
  char *init_path;   /* of file; "": none */
  double init_scale; /* 0: 1/sqrt(rows) */
  ts_optim_config optimizer;
  ts_shard_kind sharding;
  ts_ints ranks;
  ts_strings allow;
  char *kernel; /* auto | fused | dense | cached | host */
  /* Of "auto" where memory doesn't suffice for all rows: the planner's kernel
   * ("cached", "host") and tier (NULL: the deck's); no keys. */
  const char *auto_kernel, *auto_tier;
  struct {
    double load_factor; /* NAN: the planner's */
    double auto_factor; /* what that is, 0: not known yet; no key */
    char *policy;       /* lru | lfu */
    int32_t depth;
    int32_t passes;      /* 0: auto */
    int32_t auto_passes; /* what that is; no key */
    int64_t min_pass_size;
    char *tier; /* host | file */
  } cache;
  /* Which ids of a dynamic table lose their rows (shard/evict.c). */
  struct {
    char *kind;    /* none | lru | lfu | ttl */
    int64_t every; /* steps */
    int64_t ttl;   /* steps */
    double keep;   /* of the capacity */
  } evict;
  char *feature_processor; /* none | position_weighted */
  int32_t max_length;      /* weights per feature; 0: not position_weighted */
  int line;                /* in the deck, for messages */
} ts_table_config;

/* Ids are any 64-bit number, and get a row when they are first met
 * (sparse/index.h). */
static inline bool ts_table_is_dynamic(const ts_table_config *t) {
  return t->capacity > 0;
}

static inline bool ts_table_evicts(const ts_table_config *t) {
  return ts_table_is_dynamic(t) && t->evict.kind &&
         strcmp(t->evict.kind, "none") != 0;
}

/* Ids of the table are in [0, this), or TS_ROWS_DYNAMIC. */
static inline int64_t ts_table_ids(const ts_table_config *t) {
  if (ts_table_is_dynamic(t)) return TS_ROWS_DYNAMIC;
  return t->rows;
}
static inline bool ts_id_is_row(int64_t id, int64_t ids) {
  return ids == TS_ROWS_DYNAMIC || (uint64_t)id < (uint64_t)ids;
}

/* The deck leaves the kernel to the planner. */
static inline bool ts_table_kernel_is_open(const ts_table_config *t) {
  return t->kernel && !strcmp(t->kernel, "auto");
}

/* The kernel in force: fused | cached | host. */
static inline const char *ts_table_kernel(const ts_table_config *t) {
  if (t->auto_kernel) return t->auto_kernel;
  return t->kernel && !ts_table_kernel_is_open(t) ? t->kernel : "fused";
}

/* The slow memory of a table whose rows are in some: host | file. */
static inline const char *ts_table_tier(const ts_table_config *t) {
  if (t->auto_tier) return t->auto_tier;
  return t->cache.tier ? t->cache.tier : "host";
}

static inline bool ts_table_is_cached(const ts_table_config *t) {
  return !strcmp(ts_table_kernel(t), "cached");
}

/* Rows live in slow memory. */
static inline bool ts_table_is_slow(const ts_table_config *t) {
  return ts_table_is_cached(t) || !strcmp(ts_table_kernel(t), "host");
}

/* Lines per row of kernel "cached". */
static inline double ts_table_load_factor(const ts_table_config *t) {
  const double usual = 0.2;
  if (t->cache.load_factor == t->cache.load_factor) return t->cache.load_factor;
  return t->cache.auto_factor > 0 ? t->cache.auto_factor : usual;
}

/* The planner says how many lines it has. */
static inline bool ts_table_is_open(const ts_table_config *t) {
  return ts_table_is_cached(t) && t->cache.load_factor != t->cache.load_factor;
}

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
  } metrics;
} ts_config;
