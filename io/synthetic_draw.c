/* synthetic_draw.c - a sample of synthetic data (what it is made of:
 * io/synthetic.c), and the label that it gets. */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "io/synthetic_impl.h"

enum {
  HIDDEN_MAX = 256,
  HOT_FLOATS = 16384 /* hidden vectors kept of a feature */
};

static void words(uint32_t x[4], const ts_synthetic *s, int use, uint64_t a,
                  uint32_t b, uint32_t c) {
  const uint32_t counter[4] = {(uint32_t)a, (uint32_t)(a >> 32), b, c};
  ts_philox(x, counter, s->key[use]);
}

static bool harmonic(double alpha) {
  return fabs(alpha - 1.0) < 1e-9;
}

/* The whole part of X^Y < 2^40.  Good to 1e-13 by logarithms, which takes a
 * third of pow's time; where that does not settle it pow has the word. */
static int64_t whole_power(double x, double y) {
  const double r = exp2(y * log2(x)), part = r - (double)(int64_t)r;
  const double least = 1e-12 * r;
  return part > least && part < 1 - least ? (int64_t)r : (int64_t)pow(x, y);
}

/* How popular an id is, from 0: bounded Zipf by inverse transform. */
static int64_t draw_rank(const ts_synthetic *s, uint64_t sample, int32_t f,
                         int32_t k) {
  const int64_t rows = s->rows[f];
  uint32_t x[4];
  words(x, s, TS_USE_ID, sample, (uint32_t)f, (uint32_t)k);
  const double u = ts_rng_unit64(x[0], x[1]);
  if (s->alpha == 0) return (int64_t)(u * (double)rows);
  const int64_t r = harmonic(s->alpha)
                        ? whole_power(s->reach[f], u)
                        : whole_power(s->reach[f] * u + 1, 1 / (1 - s->alpha));
  return r < 1 ? 0 : r > rows ? rows - 1 : r - 1;
}

/* Ids of a Zipf law are scattered over the rows. */
static int64_t id_of(const ts_synthetic *s, int64_t rank, int32_t f) {
  if (s->alpha == 0) return rank;
  return (int64_t)(((uint64_t)rank * UINT64_C(2654435761) +
                    (uint64_t)f * UINT64_C(40503)) %
                   (uint64_t)s->rows[f]);
}

/* The hidden vector of an id, added to SUM. */
static void add_hidden(const ts_synthetic *s, float *sum, int32_t f,
                       int64_t id) {
  for (int32_t j = 0; j < s->h; j += 4) {
    const int32_t m = s->h - j < 4 ? s->h - j : 4;
    uint32_t x[4];
    double n[4];
    words(x, s, TS_USE_HIDDEN, (uint64_t)id, (uint32_t)f, (uint32_t)(j / 4));
    if (m == 1)
      n[0] = ts_rng_normal(x[0], x[1]);
    else
      ts_rng_normal2(n, x[0], x[1]);
    if (m > 2) ts_rng_normal2(n + 2, x[2], x[3]);
    for (int32_t k = 0; k < m; k++) sum[j + k] += (float)n[k];
  }
}

static void draw_dense(const ts_synthetic *s, float *to, uint64_t sample) {
  for (int32_t d = 0; d < s->n_dense; d += 4) {
    uint32_t x[4];
    double n[4];
    words(x, s, TS_USE_DENSE, sample, (uint32_t)(d / 4), 0);
    ts_rng_normal2(n, x[0], x[1]);
    ts_rng_normal2(n + 2, x[2], x[3]);
    for (int32_t k = 0; k < 4 && d + k < s->n_dense; k++)
      to[d + k] = (float)n[k];
  }
}

/* Sample K's bag of feature F, and SUM (h), the sum of its hidden vectors. */
static void draw_bag(const ts_synthetic *s, float *sum, uint64_t k, int32_t f,
                     const ts_place *to) {
  const int32_t n = s->pooling[f];
  int64_t *ids =
      to->feature ? to->feature[s->feature[f]].ids + to->i * n : NULL;
  for (int32_t j = 0; j < s->h; j++) sum[j] = 0;
  for (int32_t i = 0; i < n; i++) {
    const int64_t rank = draw_rank(s, k, f, i), id = id_of(s, rank, f);
    if (ids) ids[i] = id;
    if (rank >= s->n_hot[f]) {
      add_hidden(s, sum, f, id);
      continue;
    }
    const float *hot = s->hot[f] + rank * s->h;
    for (int32_t j = 0; j < s->h; j++) sum[j] += hot[j];
  }
}

void ts_synthetic_draw(const ts_synthetic *s, double z[TS_SYNTHETIC_TASKS],
                       uint64_t k, const ts_place *to) {
  float hidden[HIDDEN_MAX], total[HIDDEN_MAX] = {0};
  double single[TS_SYNTHETIC_TASKS] = {0}, square = 0;
  draw_dense(s, to->dense, k);
  for (int32_t f = 0; f < s->n_columns; f++) {
    draw_bag(s, hidden, k, f, to);
    const float scale = 1.0f / sqrtf((float)s->pooling[f]);
    for (int32_t j = 0; j < s->h; j++) {
      hidden[j] *= scale;
      square += hidden[j] * hidden[j];
      total[j] += hidden[j];
    }
    for (int32_t t = 0; t < s->n_tasks; t++)
      for (int32_t j = 0; j < s->h; j++)
        single[t] +=
            hidden[j] * s->field[((int64_t)t * s->n_columns + f) * s->h + j];
  }
  double pairs = -square;
  for (int32_t j = 0; j < s->h; j++) pairs += (double)total[j] * total[j];
  const double F = s->n_columns, H = s->h;
  for (int32_t t = 0; t < s->n_tasks; t++) {
    z[t] = -1.0;
    for (int32_t d = 0; d < s->n_dense; d++)
      z[t] += s->dense_weight[t * s->n_dense + d] * to->dense[d];
    z[t] += 1.5 * single[t] / sqrt(F * H);
    if (F > 1) z[t] += 0.5 * pairs / sqrt(2 * F * (F - 1) * H);
  }
}

double ts_synthetic_sigmoid(double z) {
  return z >= 0 ? 1 / (1 + exp(-z)) : exp(z) / (1 + exp(z));
}

float ts_synthetic_label(const ts_synthetic *s, double z, uint64_t sample,
                         int32_t task) {
  uint32_t x[4];
  double e[2];
  words(x, s, TS_USE_LABEL, sample, 0, (uint32_t)task);
  ts_rng_normal2(e, x[0], x[1]);
  const double noise = s->base.config->data.synthetic.noise;
  return ts_rng_unit64(x[2], x[3]) < ts_synthetic_sigmoid(z + noise * e[0])
             ? 1.0f
             : 0.0f;
}

double ts_synthetic_normal(const ts_synthetic *s, int use, int64_t a, int32_t b,
                           int32_t c) {
  uint32_t x[4];
  double n[2];
  words(x, s, use, (uint64_t)a, (uint32_t)b, (uint32_t)c);
  ts_rng_normal2(n, x[0], x[1]);
  return n[0];
}

/* Keeps the hidden vectors of the most frequent ids, so that they need not be
 * drawn again for each sample. */
static ts_err fill_hot(ts_synthetic *s) {
  TS_DO(ts_mem_many(s->n_hot, s->n_columns, INPUT));
  TS_DO(ts_mem_many(s->hot, s->n_columns, INPUT));
  for (int32_t f = 0; f < s->n_columns; f++) {
    const int64_t most = HOT_FLOATS / s->h;
    const int64_t n = s->rows[f] < most ? s->rows[f] : most;
    TS_DO(ts_mem_many(s->hot[f], n * s->h, INPUT));
    for (int64_t rank = 0; rank < n; rank++) {
      float *to = s->hot[f] + rank * s->h;
      for (int32_t j = 0; j < s->h; j++) to[j] = 0;
      add_hidden(s, to, f, id_of(s, rank, f));
    }
    s->n_hot[f] = n;
  }
  return TS_OK;
}

ts_err ts_synthetic_fill_law(ts_synthetic *s) {
  TS_DO(ts_mem_many(s->reach, s->n_columns, INPUT));
  for (int32_t f = 0; f < s->n_columns; f++) {
    const double x = (double)s->rows[f] + 1;
    s->reach[f] = harmonic(s->alpha) ? x : pow(x, 1 - s->alpha) - 1;
  }
  return fill_hot(s);
}

void ts_synthetic_keys(ts_synthetic *s) {
  for (int use = 0; use < TS_USES; use++)
    ts_rng_key(s->key[use],
               (uint64_t)s->base.config->data.synthetic.seed * 8 +
                   (uint64_t)use,
               TS_RNG_SYNTHETIC);
}
