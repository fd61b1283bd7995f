/* scales_impl.h - inside scales; private to the scales files.
 * Functions are Local unless they say Collective. */
#pragma once

#include "io/scales.h"

typedef enum {
  TS_SCALE_NONE,
  TS_SCALE_STANDARDISE,
  TS_SCALE_QUANTILE,
  TS_SCALE_MIN_MAX,
  TS_SCALE_CLIP,
  TS_SCALE_PIECEWISE,
  TS_SCALE_BUCKETS
} ts_scale_kind;

/* Mean and spread of the numbers so far.  Distances are squared, not numbers:
 * squares of a date's seconds leave no digits for the differences. */
typedef struct ts_moments {
  double n, mean, squares; /* sum of the squares of distances from the mean */
} ts_moments;

typedef struct ts_scale_pick {
  uint64_t hash; /* of the sample's position */
  double x;
} ts_scale_pick;

/* Numbers of the samples with the lowest hashes; twice as many as count. */
typedef struct ts_scale_sample {
  ts_scale_pick *item;
  int64_t n, capacity;
  uint64_t most; /* higher hashes do not count */
} ts_scale_sample;

/* What an input's numbers go through. */
typedef struct ts_scale {
  ts_scale_kind kind;
  bool log;
  const char *name; /* the deck's */
  int32_t first, n; /* places in the dense row */
  int32_t bins;     /* quantiles that are learnt; 0: edges are given */
  double mean, deviation;
  double *edges; /* (n_edges) rising; of min_max and clip the two limits */
  int32_t n_edges;
  double low, high; /* while it is learnt */
  ts_scale_sample sample;
} ts_scale;

struct ts_scales {
  ts_scale *of; /* (n) */
  int32_t n, n_dense, n_features;
  int32_t *input;    /* (n_features) of buckets; -1 */
  bool standardise;  /* some of them */
  int64_t per_part;  /* samples of a part; parts of a rank are its own */
  int64_t n_parts;   /* whose moments are added in their order */
  ts_moments *parts; /* (n_parts, n_dense) */
  const uint64_t *kept;
};

/* The numbers are learnt that X->edges have. */
static inline bool ts_scale_has_sample(const ts_scale *x) {
  return x->bins > 0;
}
static inline bool ts_scale_has_edges(const ts_scale *x) {
  return x->bins > 0 || x->kind == TS_SCALE_MIN_MAX;
}

/* N EDGES become X's. */
ts_err ts_scale_set(ts_scale *x, const double *edges, int64_t n);

/* ---- scales_sample.c ----------------------------------------------------- */

ts_err ts_scale_sample_add(ts_scale_sample *, int64_t position, double x);
/* Those of all ranks that count, sorted: *X is the caller's.  Collective. */
ts_err ts_scale_sample_settle(ts_scale_sample *, double **x, int64_t *n,
                              ts_comm *);
/* Of N numbers X, sorted, at least one, the quantile P in 0 to 1, between two
 * of them by how near each is. */
double ts_scale_quantile(const double *x, int64_t n, double p);
