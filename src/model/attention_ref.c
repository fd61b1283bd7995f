/* attention_ref.c - attention in plain C, in double: the oracle of all others.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/attention.h"
#include "runtime/backends.h"

static const float edges[] = {TS_TIME_EDGES};

/* A head of a sequence; rows of its first token. */
typedef struct head {
  const ts_attention_args *t;
  int64_t s, begin, length;
  int32_t h;
} head;

static head head_of(const ts_attention_args *t, int64_t s, int32_t h) {
  return (head){t, s, t->offsets[s], t->offsets[s + 1] - t->offsets[s], h};
}

/* Start of row I in an array with N columns for each head. */
static int64_t row(const head *s, int64_t stride, int32_t n, int64_t i) {
  return (s->begin + i) * stride + (int64_t)s->h * n;
}

/* The same of q and o. */
static int64_t query_row(const head *s, int64_t stride, int32_t n, int64_t i) {
  const ts_attention_args *t = s->t;
  const int64_t *at = t->kept + s->s;
  if (!t->kept || !t->kept_alone) return row(s, stride, n, i);
  return (at[1] - (s->length - i)) * stride + (int64_t)s->h * n;
}

static double dot(const float *x, const float *y, int32_t n) {
  double sum = 0;
  for (int32_t c = 0; c < n; c++) sum += (double)x[c] * (double)y[c];
  return sum;
}

static int32_t time_of(const head *s, int64_t i, int64_t j) {
  return ts_attention_time(s->t, edges, s->begin + i, s->begin + j);
}

static double score(const head *s, int64_t i, int64_t j) {
  const ts_attention_args *t = s->t;
  double x = t->scale * dot(t->q + query_row(s, t->q_stride, t->dim, i),
                            t->k + row(s, t->k_stride, t->dim, j), t->dim);
  if (t->bias)
    x += (double)t->bias[s->h * ts_attention_buckets(t) +
                         ts_attention_bucket(t, i - j)];
  if (t->time_bias)
    x += (double)t->time_bias[s->h * t->n_times + time_of(s, i, j)];
  return t->slopes ? x - (double)t->slopes[s->h] * fabs((double)(i - j)) : x;
}

/* m_ij. */
static double kept(const head *s, int64_t i, int64_t j) {
  const ts_attention_args *t = s->t;
  const uint64_t row = ts_attention_counter(t, s->s, s->h);
  const uint32_t at[4] = {(uint32_t)row, (uint32_t)(row >> 32),
                          (uint32_t)(i / 4), (uint32_t)j};
  uint32_t word[4];
  if (t->drop == 0) return 1;
  ts_philox(word, at, t->key);
  return ts_rng_unit(word[i % 4]) < t->drop ? 0 : 1 / (1 - (double)t->drop);
}

/* Keys of query I: those before. */
static int64_t end_of(const head *s, int64_t i) {
  return ts_attention_is_open(s->t, i) ? s->length : i + 1;
}

static double norm_of(const head *s) {
  return s->t->norm != 0 ? (double)s->t->norm : (double)s->length;
}

static void forward_row(const head *s, int64_t i) {
  const ts_attention_args *t = s->t;
  const int64_t end = end_of(s, i);
  const bool soft = t->kind == TS_ATTENTION_SOFTMAX;
  float *o = t->o + query_row(s, t->o_stride, t->v_dim, i);
  double most = -INFINITY, sum = 0, to[t->v_dim];
  memset(to, 0, (size_t)t->v_dim * sizeof *to);
  for (int64_t j = 0; soft && j < end; j++) most = fmax(most, score(s, i, j));
  for (int64_t j = 0; j < end; j++) {
    const float *v = t->v + row(s, t->v_stride, t->v_dim, j);
    const double x = score(s, i, j);
    const double p = soft ? exp(x - most) : x / (1 + exp(-x));
    sum += p;
    const double m = kept(s, i, j);
    for (int32_t c = 0; c < t->v_dim; c++) to[c] += m * p * (double)v[c];
  }
  const double by = soft ? sum : norm_of(s);
  for (int32_t c = 0; c < t->v_dim; c++) o[c] = (float)(to[c] / by);
  if (soft)
    t->lse[(s->begin + i) * t->n_heads + s->h] = (float)(most + log(sum));
}

static ts_err attention(const ts_attention_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t at = 0; at < t->n_sequences * t->n_heads; at++) {
    const head s = head_of(t, at / t->n_heads, (int32_t)(at % t->n_heads));
    int64_t i = t->kept ? s.length - (t->kept[s.s + 1] - t->kept[s.s]) : 0;
    for (; i < s.length; i++) forward_row(&s, i);
  }
  return TS_OK;
}

/* *P: m_ij p_ij; the gradient of x. */
static double grad_of(const head *s, int64_t i, int64_t j, double *p) {
  const ts_attention_args *t = s->t;
  const int64_t to = row(s, t->o_stride, t->v_dim, i);
  const float *d_o = t->d_o + to;
  const double x = score(s, i, j);
  const double m = kept(s, i, j);
  const double dp =
      m * dot(d_o, t->v + row(s, t->v_stride, t->v_dim, j), t->v_dim);
  if (t->kind == TS_ATTENTION_SILU) {
    const double f = 1 / (1 + exp(-x)), by = norm_of(s);
    *p = m * x * f / by;
    return dp * f * (1 + x * (1 - f)) / by;
  }
  const double own =
      exp(x - (double)t->lse[(s->begin + i) * t->n_heads + s->h]);
  *p = m * own;
  return own * (dp - dot(d_o, t->out + to, t->v_dim));
}

static void put(float *to, const double *from, int32_t n) {
  for (int32_t c = 0; c < n; c++) to[c] = (float)from[c];
}

static void query_grad(const head *s, int64_t i) {
  const ts_attention_args *t = s->t;
  double dq[t->dim], p;
  memset(dq, 0, sizeof dq);
  for (int64_t j = 0; j < end_of(s, i); j++) {
    const float *k = t->k + row(s, t->k_stride, t->dim, j);
    const double dx = t->scale * grad_of(s, i, j, &p);
    for (int32_t c = 0; c < t->dim; c++) dq[c] += dx * (double)k[c];
  }
  put(t->dq + row(s, t->q_stride, t->dim, i), dq, t->dim);
}

static void key_grad(const head *s, int64_t j) {
  const ts_attention_args *t = s->t;
  double dk[t->dim], dv[t->v_dim], p;
  memset(dk, 0, sizeof dk);
  memset(dv, 0, sizeof dv);
  for (int64_t i = 0; i < s->length; i++) {
    if (!ts_attention_sees(t, i, j)) continue;
    const float *q = t->q + row(s, t->q_stride, t->dim, i);
    const float *d_o = t->d_o + row(s, t->o_stride, t->v_dim, i);
    const double dx = t->scale * grad_of(s, i, j, &p);
    for (int32_t c = 0; c < t->dim; c++) dk[c] += dx * (double)q[c];
    for (int32_t c = 0; c < t->v_dim; c++) dv[c] += p * (double)d_o[c];
  }
  put(t->dk + row(s, t->k_stride, t->dim, j), dk, t->dim);
  put(t->dv + row(s, t->v_stride, t->v_dim, j), dv, t->v_dim);
}

/* dbias and dtime_bias of head H: SUM, zero at first, has both. */
static void bias_grad(const ts_attention_args *t, int32_t h, double *sum) {
  const int64_t times = ts_attention_times(t);
  double p;
  for (int64_t at = 0; at < t->n_sequences; at++) {
    const head s = head_of(t, at, h);
    for (int64_t i = 0; i < s.length; i++)
      for (int64_t j = 0; j < end_of(&s, i); j++) {
        const double dx = grad_of(&s, i, j, &p);
        if (t->dbias) sum[ts_attention_bucket(t, i - j)] += dx;
        if (t->dtime_bias) sum[times + time_of(&s, i, j)] += dx;
      }
  }
  if (t->dbias) put(t->dbias + h * times, sum, (int32_t)times);
  if (t->dtime_bias)
    put(t->dtime_bias + (int64_t)h * t->n_times, sum + times, t->n_times);
}

static ts_err attention_grad(const ts_attention_args *t) {
  const int64_t n = t->dbias || t->dtime_bias ? ts_attention_biases(t) : 0;
  double *sums;
  TS_DO(ts_mem_many(sums, t->n_heads * n, ACTIVATIONS));
#pragma omp parallel for schedule(static)
  for (int64_t at = 0; at < t->n_sequences * t->n_heads; at++) {
    const head s = head_of(t, at / t->n_heads, (int32_t)(at % t->n_heads));
    for (int64_t i = 0; i < s.length; i++) query_grad(&s, i);
    for (int64_t j = 0; j < s.length; j++) key_grad(&s, j);
  }
#pragma omp parallel for schedule(static)
  for (int32_t h = 0; h < (n ? t->n_heads : 0); h++)
    bias_grad(t, h, sums + h * n);
  ts_mem_free(sums);
  return TS_OK;
}

void ts_attention_kernels_ref(ts_kernels *k) {
  k->attention = attention;
  k->attention_grad = attention_grad;
  k->attention_half = attention;
  k->attention_half_grad = attention_grad;
}
