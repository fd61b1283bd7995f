/* synthetic_impl.h - samples of synthetic data; private to io/synthetic*.c.
 * All of it is Local. */
#pragma once

#include "io/batch_store.h"

enum { TS_SYNTHETIC_TASKS = 32 };

/* The use of a number: part of its key. */
enum {
  TS_USE_LABEL,
  TS_USE_DENSE,
  TS_USE_FIELD,
  TS_USE_DENSE_WEIGHT,
  TS_USE_ID,
  TS_USE_HIDDEN,
  TS_USES
};

/* Numbers go from sample to sample: what they share is found once. */
typedef struct ts_synthetic {
  ts_source base;
  int64_t first; /* sample number of the split's first sample */
  int32_t n_tasks, n_dense, h;
  int32_t n_columns; /* features, but for those that are in several tables */
  ts_feature_columns of;
  int32_t *feature;     /* (n_columns) the first of each */
  double *dense_weight; /* (n_tasks, n_dense) */
  float *field;         /* (n_tasks, n_columns, h) */
  int64_t *rows;        /* (n_columns) */
  int32_t *pooling;     /* (n_columns) */
  double alpha;         /* of the ids' Zipf law */
  double *reach;        /* (n_columns) of the law, for draw_rank */
  int64_t *n_hot; /* (n_columns) most popular ids whose hidden vectors are */
  float **hot;    /* kept, (n_columns) of (n_hot, h) */
  uint32_t key[TS_USES][2];
} ts_synthetic;

/* Where a sample goes: its place in the ids of each column's feature, unless
 * FEATURE is NULL, and (n_dense). */
typedef struct ts_place {
  const ts_feature_store *feature;
  int64_t i;
  float *dense;
} ts_place;

/* The keys, from the deck's seed. */
void ts_synthetic_keys(ts_synthetic *);
/* reach and hot. */
ts_err ts_synthetic_fill_law(ts_synthetic *);
/* A standard normal of the planted truth. */
double ts_synthetic_normal(const ts_synthetic *, int use, int64_t a, int32_t b,
                           int32_t c);

/* Draws sample K but for its labels; Z: the logits of all tasks without
 * noise.  The same on any thread. */
void ts_synthetic_draw(const ts_synthetic *, double z[TS_SYNTHETIC_TASKS],
                       uint64_t k, const ts_place *to);
float ts_synthetic_label(const ts_synthetic *, double z, uint64_t sample,
                         int32_t task);
double ts_synthetic_sigmoid(double z);
