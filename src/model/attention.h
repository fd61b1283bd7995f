/* attention.h - what all versions of attention share: buckets of biases, and
 * the scratch of the backward pass.  All of it is Local. */
#pragma once

#include "model/kernels.h"
#include "model/time_bucket.h"

#ifdef __CUDACC__
#define TS_ATTENTION_BOTH __host__ __device__
#else
#define TS_ATTENTION_BOTH
#endif

/* A part of biases' gradients is of one sequence's keys: so many or more. */
enum { TS_ATTENTION_PART = 48 };

/* The upper 64 bits of a pair's counter (ts_attention_args.drop). */
TS_ATTENTION_BOTH static inline uint64_t
ts_attention_counter(const ts_attention_args *t, int64_t s, int32_t h) {
  return (uint64_t)(t->first + s) | (uint64_t)h << 48;
}

/* Query I looks at all keys; or some query does of a tile or a group that
 * begins with it, the first ones being those that may. */
TS_ATTENTION_BOTH static inline bool
ts_attention_is_open(const ts_attention_args *t, int64_t i) {
  return !t->causal || i < t->context;
}

/* Query I looks at key J; or some of tiles, or groups, that begin with them. */
TS_ATTENTION_BOTH static inline bool
ts_attention_sees(const ts_attention_args *t, int64_t i, int64_t j) {
  return j <= i || ts_attention_is_open(t, i);
}

/* The least i - j that has a bucket of its own. */
TS_ATTENTION_BOTH static inline int32_t
ts_attention_least(const ts_attention_args *t) {
  return t->causal ? 0 : 1 - t->n_buckets;
}

/* Number of a head's buckets. */
TS_ATTENTION_BOTH static inline int64_t
ts_attention_buckets(const ts_attention_args *t) {
  return t->n_buckets - ts_attention_least(t);
}

TS_ATTENTION_BOTH static inline int32_t
ts_attention_bucket(const ts_attention_args *t, int32_t distance) {
  const int32_t least = ts_attention_least(t), most = t->n_buckets - 1;
  return (distance < least ? least : distance > most ? most : distance) - least;
}

/* Number of a head's biases: by distance, then by time. */
TS_ATTENTION_BOTH static inline int64_t
ts_attention_biases(const ts_attention_args *t) {
  return (t->bias ? ts_attention_buckets(t) : 0) +
         (t->time_bias ? t->n_times : 0);
}

/* The number of the first bias by time among a head's. */
TS_ATTENTION_BOTH static inline int64_t
ts_attention_times(const ts_attention_args *t) {
  return t->bias ? ts_attention_buckets(t) : 0;
}

/* Bucket of the time from token J to when I is asked; EDGE: TS_TIME_EDGES. */
TS_ATTENTION_BOTH static inline int32_t
ts_attention_time(const ts_attention_args *t, const float *edge, int64_t i,
                  int64_t j) {
  const double by = t->asked[i] - t->when[j];
  return ts_time_bucket((float)(by < 0 ? -by : by), edge, t->n_times);
}

/* Parts of the biases' gradients (n_heads, ts_attention_biases) that a sequence
 * with its first token at BEGIN has from here on, one for so many KEYS: room
 * for n_tokens / KEYS + n_sequences parts is enough for all. */
TS_ATTENTION_BOTH static inline int64_t
ts_attention_part(int64_t s, int64_t begin, int64_t keys) {
  return begin / keys + s;
}

/* These parts, behind o's gradient times o (tokens, n_heads). */
TS_ATTENTION_BOTH static inline float *
ts_attention_parts(const ts_attention_args *t) {
  return (float *)t->work + t->n_tokens * t->n_heads;
}

/* Bytes of WORK, where bias and time_bias say whether there are gradients of
 * them: a number for each token and head, and biases for each 48 tokens. */
static inline int64_t ts_attention_work_bytes(const ts_attention_args *t) {
  const int64_t parts = t->n_tokens / TS_ATTENTION_PART + t->n_sequences;
  return 4 * t->n_heads * (t->n_tokens + parts * ts_attention_biases(t));
}
