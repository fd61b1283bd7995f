/* candidates.h - the losses over candidates of model/kernels.h, one score after
 * the other: the same on the host and on GPUs.  All of it is Local. */
#pragma once

#include <math.h>

#include "model/kernels.h"

#ifdef __CUDACC__
#define TS_CANDIDATE_INLINE static inline __host__ __device__
#else
#define TS_CANDIDATE_INLINE static inline
#endif

/* log(1 + exp(x)) and its derivative. */
TS_CANDIDATE_INLINE double ts_softplus(double x) {
  return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}
TS_CANDIDATE_INLINE double ts_softplus_slope(double x) {
  const double e = exp(-fabs(x));
  return (x > 0 ? 1 : e) / (1 + e);
}

/* How much a negative of score S adds to the rank of the wanted row: 1 where it
 * scores more, 1/2 where they are equal.  A wanted score that is NaN ranks
 * last. */
TS_CANDIDATE_INLINE float ts_candidate_above(float s, float wanted) {
  return s < wanted ? 0 : s == wanted ? 0.5f : 1;
}

/* The negatives so far: their sum; of softmax that of exp(s - top), the wanted
 * one's with it. */
typedef struct ts_candidate_sum {
  double wanted, sum, top; /* s_0 */
} ts_candidate_sum;

TS_CANDIDATE_INLINE ts_candidate_sum ts_candidate_begin(int kind,
                                                        double wanted) {
  ts_candidate_sum c = {wanted, 0, wanted};
  if (kind == TS_CANDIDATES_SOFTMAX) c.sum = 1;
  return c;
}

/* A negative of score S. */
TS_CANDIDATE_INLINE void ts_candidate_add(const ts_candidates_args *a,
                                          ts_candidate_sum *c, double s) {
  if (a->kind == TS_CANDIDATES_BCE) {
    c->sum += ts_softplus(s);
  } else if (a->kind == TS_CANDIDATES_BPR) {
    c->sum += ts_softplus(s - c->wanted);
  } else if (a->kind == TS_CANDIDATES_CONTRASTIVE) {
    if (s > a->margin) c->sum += s - a->margin;
  } else if (s > c->top) {
    c->sum = c->sum * exp(c->top - s) + 1;
    c->top = s;
  } else {
    c->sum += exp(s - c->top);
  }
}

/* 1 / N. */
TS_CANDIDATE_INLINE double ts_candidate_share(const ts_candidates_args *a) {
  return a->n_each > 1 ? 1.0 / (a->n_each - 1) : 0;
}

TS_CANDIDATE_INLINE double ts_candidate_loss(const ts_candidates_args *a,
                                             const ts_candidate_sum *c) {
  const double mean = c->sum * ts_candidate_share(a);
  if (a->kind == TS_CANDIDATES_BCE) return ts_softplus(-c->wanted) + mean;
  if (a->kind == TS_CANDIDATES_BPR) return mean;
  if (a->kind == TS_CANDIDATES_CONTRASTIVE)
    return 1 - c->wanted + a->weight * mean;
  return c->top + log(c->sum) - c->wanted;
}

/* The derivative by the score S of a negative. */
TS_CANDIDATE_INLINE double ts_candidate_slope(const ts_candidates_args *a,
                                              const ts_candidate_sum *c,
                                              double s) {
  const double share = ts_candidate_share(a);
  if (a->kind == TS_CANDIDATES_BCE) return share * ts_softplus_slope(s);
  if (a->kind == TS_CANDIDATES_BPR)
    return share * ts_softplus_slope(s - c->wanted);
  if (a->kind == TS_CANDIDATES_CONTRASTIVE)
    return s > a->margin ? share * a->weight : 0;
  return exp(s - c->top) / c->sum;
}

/* By s_0; OTHERS: the sum of those above. */
TS_CANDIDATE_INLINE double ts_candidate_wanted(const ts_candidates_args *a,
                                               const ts_candidate_sum *c,
                                               double others) {
  if (a->kind == TS_CANDIDATES_BCE) return -ts_softplus_slope(-c->wanted);
  if (a->kind == TS_CANDIDATES_CONTRASTIVE) return -1;
  return -others; /* bpr, and softmax, whose sum to 0 */
}
