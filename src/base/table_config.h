/* table_config.h - a table's part of the deck in force (base/config.h).
 * All of it is Local. */
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
typedef enum { TS_CHECK_NONE, TS_CHECK_SUMS, TS_CHECK_ROWS } ts_check_kind;
typedef enum { TS_ON_FAULT_STOP, TS_ON_FAULT_ROLLBACK } ts_on_fault;
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
  double grow;      /* memory for them comes in steps, each so many times what
                       there was; 0: it is there from the start */
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
  /* Which ids of a dynamic table get rows (sparse/admit.h). */
  struct {
    int32_t min_count;    /* steps; 1: all do */
    int64_t window_steps; /* counts are halved; 0: never */
    double sketch_mib;    /* of all ranks; 0: by the capacity */
  } admit;
  /* Which ids of a dynamic table lose their rows (shard/evict.c). */
  struct {
    char *kind;    /* none | lru | lfu | ttl | score */
    int64_t every; /* steps */
    int64_t ttl;   /* steps */
    double keep;   /* of the capacity */
    /* none: rows are lost; file: they are kept there.  The deck's reader makes
     * a cached table of the second, whose kind and to are "none" then
     * (io/deck_dynamic.c). */
    char *to;     /* none | file */
    int64_t rows; /* of file: those in memory and file */
  } evict;
  /* Fewer rows than ids (base/compress.h). */
  struct {
    char *kind;         /* none | one of base/compress.c's */
    char *combine;      /* of quotient_remainder: multiply | add | concat */
    int64_t collisions; /* of quotient_remainder */
    int64_t rows;       /* of hashes: of each */
    int32_t hashes, rank;
    ts_ints starts, dims; /* of blocks */
  } compress;
  /* It is part K of the table WHOLE, which has `compress` and is none of the
   * deck's in force itself; NULL: it is no part.  No keys. */
  struct ts_table_config *whole;
  int32_t part;
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

/* Its rows add up norms of their gradients. */
static inline bool ts_table_scores(const ts_table_config *t) {
  return ts_table_evicts(t) && !strcmp(t->evict.kind, "score");
}

static inline bool ts_table_admits(const ts_table_config *t) {
  return ts_table_is_dynamic(t) && t->admit.min_count > 1;
}
/* Lines that the sketch of each of an index's parts has (sparse/admit.h). */
static inline int64_t ts_table_sketch_lines(const ts_table_config *t) {
  const double usual = 8, mib = 1 << 20, of_parts = 64 * 4096;
  const double bytes = t->admit.sketch_mib > 0 ? t->admit.sketch_mib * mib
                                               : usual * (double)t->capacity;
  return 1 + (int64_t)((bytes - 1) / of_parts);
}

/* After STEP: evicts: ids lose their rows.  halves: the counts of ids without a
 * row are halved.  looks: one of the two. */
static inline bool ts_table_evicts_at(const ts_table_config *t, int64_t step) {
  return ts_table_evicts(t) && step % t->evict.every == 0;
}
static inline bool ts_table_halves_at(const ts_table_config *t, int64_t step) {
  return ts_table_admits(t) && t->admit.window_steps > 0 &&
         step % t->admit.window_steps == 0;
}
static inline bool ts_table_looks_at(const ts_table_config *t, int64_t step) {
  return ts_table_evicts_at(t, step) || ts_table_halves_at(t, step);
}

/* The table as the deck says it, of whose parts T may be one. */
static inline const ts_table_config *ts_table_whole(const ts_table_config *t) {
  return t->whole ? t->whole : t;
}

/* It is no part, or the first one of its table. */
static inline bool ts_table_is_first(const ts_table_config *t) {
  return !t->part;
}

/* Ids of the table are in [0, this), or TS_ROWS_DYNAMIC. */
static inline int64_t ts_table_ids(const ts_table_config *t) {
  if (ts_table_is_dynamic(t)) return TS_ROWS_DYNAMIC;
  return ts_table_whole(t)->rows;
}

/* The same of rows, which ids of a part have become. */
static inline int64_t ts_table_row_ids(const ts_table_config *t) {
  if (ts_table_is_dynamic(t)) return TS_ROWS_DYNAMIC;
  return t->rows;
}

/* A feature of both has the same ids in X as in Y. */
static inline bool ts_table_same_ids(const ts_table_config *x,
                                     const ts_table_config *y) {
  return x->rows == y->rows && x->capacity == y->capacity &&
         x->weighted == y->weighted && !x->whole && !y->whole;
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
