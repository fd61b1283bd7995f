/* synthetic.c - click logs with a planted truth.
 *
 * Sample k depends on (synthetic.seed, k) alone.  Each id has a hidden vector
 * v of hidden_dim normals and each dense feature a weight; the logit is
 *
 *   z = a + sum_d u_d x_d + mean over bags of v . c_f / sqrt(F h)
 *         + |V|-scaled pair term (V = sum of the bags' v)
 *
 * and the label is 1 with probability sigmoid(z + noise e), e standard normal
 * and unseen by any model.  So the best log loss and AUC that a model can
 * reach are known; they are estimated from the first 200,000 samples, with
 * the noise integrated out.  Several tasks have u, c and e of their own and
 * share the rest; what is known is of the first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/batch_store.h"
#include "base/auc.h"

enum {
  BAYES_SAMPLES = 200000,
  BAYES_PARTS = 8,
  NOISE_POINTS = 16,
  HIDDEN_MAX = 256,
  TASKS_MAX = 32
};

typedef struct ts_synthetic {
  ts_source base;
  int64_t first; /* sample number of the split's first sample */
  int32_t n_tasks, n_dense, n_features, h;
  double *dense_weight; /* (n_tasks, n_dense) */
  float *field;         /* (n_tasks, n_features, h) */
  int64_t *rows;        /* (n_features) */
  int32_t *pooling;     /* (n_features) */
  int64_t *sample_ids;  /* of the sample that is read */
  float *sample_dense;
} ts_synthetic;

enum { USE_LABEL, USE_DENSE, USE_FIELD, USE_DENSE_WEIGHT, USE_ID, USE_HIDDEN };

static void words(uint32_t x[4], const ts_synthetic *s, int use, uint64_t a,
                  uint32_t b, uint32_t c) {
  ts_rng4(x, (uint64_t)s->base.config->data.synthetic.seed * 8 + (uint64_t)use,
          TS_RNG_SYNTHETIC, a, b, c);
}

/* Bounded Zipf by inverse transform, scattered over the rows. */
static int64_t draw_id(const ts_synthetic *s, uint64_t sample, int32_t f,
                       int32_t k) {
  const double alpha = s->base.config->data.synthetic.zipf;
  const int64_t rows = s->rows[f];
  uint32_t x[4];
  words(x, s, USE_ID, sample, (uint32_t)f, (uint32_t)k);
  const double u = ts_rng_unit64(x[0], x[1]);
  if (alpha == 0) return (int64_t)(u * (double)rows);
  double r;
  if (fabs(alpha - 1.0) < 1e-9)
    r = pow((double)rows + 1, u);
  else
    r = pow((pow((double)rows + 1, 1 - alpha) - 1) * u + 1, 1 / (1 - alpha));
  int64_t id = (int64_t)r - 1;
  if (id < 0) id = 0;
  if (id >= rows) id = rows - 1;
  return (int64_t)(((uint64_t)id * UINT64_C(2654435761) +
                    (uint64_t)f * UINT64_C(40503)) %
                   (uint64_t)rows);
}

/* The hidden vector of an id, added to SUM. */
static void add_hidden(const ts_synthetic *s, float *sum, int32_t f,
                       int64_t id) {
  for (int32_t j = 0; j < s->h; j += 4) {
    uint32_t x[4];
    double n[4];
    words(x, s, USE_HIDDEN, (uint64_t)id, (uint32_t)f, (uint32_t)(j / 4));
    ts_rng_normal2(n, x[0], x[1]);
    ts_rng_normal2(n + 2, x[2], x[3]);
    for (int32_t k = 0; k < 4 && j + k < s->h; k++) sum[j + k] += (float)n[k];
  }
}

static void draw_dense(const ts_synthetic *s, float *to, uint64_t sample) {
  for (int32_t d = 0; d < s->n_dense; d += 4) {
    uint32_t x[4];
    double n[4];
    words(x, s, USE_DENSE, sample, (uint32_t)(d / 4), 0);
    ts_rng_normal2(n, x[0], x[1]);
    ts_rng_normal2(n + 2, x[2], x[3]);
    for (int32_t k = 0; k < 4 && d + k < s->n_dense; k++)
      to[d + k] = (float)n[k];
  }
}

/* The logits of all tasks without noise; IDS: all bags of the sample, one
 * after another. */
static void logits(const ts_synthetic *s, double z[TASKS_MAX],
                   const float *dense, const int64_t *ids) {
  float hidden[HIDDEN_MAX], total[HIDDEN_MAX] = {0};
  double single[TASKS_MAX] = {0}, square = 0;
  for (int32_t f = 0; f < s->n_features; f++) {
    memset(hidden, 0, sizeof hidden);
    for (int32_t k = 0; k < s->pooling[f]; k++)
      add_hidden(s, hidden, f, *ids++);
    const float scale = 1.0f / sqrtf((float)s->pooling[f]);
    for (int32_t j = 0; j < s->h; j++) {
      hidden[j] *= scale;
      square += hidden[j] * hidden[j];
      total[j] += hidden[j];
    }
    for (int32_t k = 0; k < s->n_tasks; k++)
      for (int32_t j = 0; j < s->h; j++)
        single[k] +=
            hidden[j] * s->field[((int64_t)k * s->n_features + f) * s->h + j];
  }
  double pairs = -square;
  for (int32_t j = 0; j < s->h; j++) pairs += (double)total[j] * total[j];
  const double F = s->n_features, H = s->h;
  for (int32_t k = 0; k < s->n_tasks; k++) {
    z[k] = -1.0;
    for (int32_t d = 0; d < s->n_dense; d++)
      z[k] += s->dense_weight[k * s->n_dense + d] * dense[d];
    z[k] += 1.5 * single[k] / sqrt(F * H);
    if (F > 1) z[k] += 0.5 * pairs / sqrt(2 * F * (F - 1) * H);
  }
}

static double sigmoid(double z) {
  return z >= 0 ? 1 / (1 + exp(-z)) : exp(z) / (1 + exp(z));
}

/* Mean of sigmoid(z + noise e) over e, at the quantiles' midpoints. */
static double probability(double z, double noise) {
  static const double e[NOISE_POINTS] = {-1.86273, -1.31801, -1.00999, -0.77642,
                                         -0.57913, -0.40225, -0.23720, -0.07841,
                                         0.07841,  0.23720,  0.40225,  0.57913,
                                         0.77642,  1.00999,  1.31801,  1.86273};
  double p = 0;
  if (noise == 0) return sigmoid(z);
  for (int i = 0; i < NOISE_POINTS; i++) p += sigmoid(z + noise * e[i]);
  return p / NOISE_POINTS;
}

static float draw_label(const ts_synthetic *s, double z, uint64_t sample,
                        int32_t task) {
  uint32_t x[4];
  double e[2];
  words(x, s, USE_LABEL, sample, 0, (uint32_t)task);
  ts_rng_normal2(e, x[0], x[1]);
  const double noise = s->base.config->data.synthetic.noise;
  return ts_rng_unit64(x[2], x[3]) < sigmoid(z + noise * e[0]) ? 1.0f : 0.0f;
}

/* ---- opening ------------------------------------------------------------- */

static double draw_normal(const ts_synthetic *s, int use, int64_t a, int32_t b,
                          int32_t c) {
  uint32_t x[4];
  double n[2];
  words(x, s, use, (uint64_t)a, (uint32_t)b, (uint32_t)c);
  ts_rng_normal2(n, x[0], x[1]);
  return n[0];
}

/* What a task has of its own. */
static ts_err fill_tasks(ts_synthetic *s) {
  ts_err err = TS_OK;
  const int64_t n_tasks = s->n_tasks;
  double *u;
  float *c;
  TS_TRY(ts_mem_array(&s->dense_weight, n_tasks * s->n_dense, 8, TS_TAG_INPUT));
  TS_TRY(
      ts_mem_array(&s->field, n_tasks * s->n_features * s->h, 4, TS_TAG_INPUT));
  u = s->dense_weight;
  c = s->field;
  for (int32_t k = 0; k < n_tasks; k++) {
    for (int32_t d = 0; d < s->n_dense; d++)
      *u++ =
          draw_normal(s, USE_DENSE_WEIGHT, d, 0, k) / sqrt((double)s->n_dense);
    for (int32_t f = 0; f < s->n_features; f++)
      for (int32_t j = 0; j < s->h; j++)
        *c++ = (float)draw_normal(s, USE_FIELD, f, j, k);
  }
done:
  return err;
}

static ts_err fill_truth(ts_synthetic *s) {
  ts_err err = TS_OK;
  const ts_config *c = s->base.config;
  const ts_ints *pooling = &c->data.synthetic.pooling;
  if (pooling->n != 1 && pooling->n != s->n_features)
    TS_THROW(TS_ERR_DECK,
             "data.synthetic.pooling lists %d numbers for %d features",
             pooling->n, s->n_features);
  if (s->n_tasks > TASKS_MAX)
    TS_THROW(TS_ERR_DECK, "synthetic data has at most %d tasks, not %d",
             (int)TASKS_MAX, s->n_tasks);
  TS_TRY(ts_mem_array(&s->rows, s->n_features, 8, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&s->pooling, s->n_features, 4, TS_TAG_INPUT));
  for (int32_t f = 0; f < s->n_features; f++) {
    s->rows[f] = ts_feature_table(c, f, NULL)->rows;
    s->pooling[f] = (int32_t)pooling->item[pooling->n == 1 ? 0 : f];
  }
  TS_TRY(fill_tasks(s));
done:
  return err;
}

static int64_t ids_per_sample(const ts_synthetic *s) {
  int64_t n = 0;
  for (int32_t f = 0; f < s->n_features; f++) n += s->pooling[f];
  return n;
}

static void truth(const ts_synthetic *s, double z[TASKS_MAX], uint64_t k,
                  float *dense, int64_t *ids) {
  int64_t n = 0;
  draw_dense(s, dense, k);
  for (int32_t f = 0; f < s->n_features; f++)
    for (int32_t i = 0; i < s->pooling[f]; i++) ids[n++] = draw_id(s, k, f, i);
  logits(s, z, dense, ids);
}

/* One part of the samples: its log loss, summed, and its AUC. */
static ts_err estimate_part(const ts_synthetic *s, int64_t from, int64_t to,
                            double result[2]) {
  ts_err err = TS_OK;
  const double noise = s->base.config->data.synthetic.noise;
  float *p = NULL, *y = NULL, *dense = NULL;
  int64_t *ids = NULL;
  TS_TRY(ts_mem_array(&p, to - from, 4, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&y, to - from, 4, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&dense, s->n_dense + 4, 4, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&ids, ids_per_sample(s) + 1, 8, TS_TAG_INPUT));
  for (int64_t k = from; k < to; k++) {
    double z[TASKS_MAX];
    truth(s, z, (uint64_t)k, dense, ids);
    const double q = probability(z[0], noise);
    p[k - from] = (float)q;
    y[k - from] = draw_label(s, z[0], (uint64_t)k, 0);
    result[0] -= q * log(q) + (1 - q) * log1p(-q); /* its expectation */
  }
  result[1] = ts_auc(p, y, NULL, to - from);
done:
  ts_mem_free(p);
  ts_mem_free(y);
  ts_mem_free(dense);
  ts_mem_free(ids);
  return err;
}

/* Ranks share the parts, whose number is fixed: the same bits on any number
 * of ranks. */
static ts_err estimate_bayes(ts_synthetic *s, ts_comm *comm) {
  ts_err err = TS_OK;
  double part[BAYES_PARTS][2] = {{0}}, loss = 0, auc = 0;
  const int64_t cost = ids_per_sample(s) * s->h + 1;
  int64_t n = BAYES_SAMPLES;
  if (n > 60000000 / cost) n = 60000000 / cost; /* bounded time */
  if (n < 4000) n = 4000;
  for (int i = ts_comm_rank(comm); i < BAYES_PARTS && err == TS_OK;
       i += ts_comm_size(comm))
    err = estimate_part(s, n * i / BAYES_PARTS, n * (i + 1) / BAYES_PARTS,
                        part[i]);
  TS_TRY(ts_agree(comm, err));
  TS_TRY(ts_comm_sum_f64(comm, &part[0][0], 2 * BAYES_PARTS));
  for (int i = 0; i < BAYES_PARTS; i++) {
    loss += part[i][0];
    auc += part[i][1]; /* parts are alike: the mean of theirs */
  }
  s->base.info.bayes_logloss = loss / (double)n;
  s->base.info.bayes_auc = auc / BAYES_PARTS;
done:
  return err;
}

static void close_source(ts_source *src) {
  ts_synthetic *s = (ts_synthetic *)src;
  if (!s) return;
  ts_mem_free(s->dense_weight);
  ts_mem_free(s->field);
  ts_mem_free(s->rows);
  ts_mem_free(s->pooling);
  ts_mem_free(s->sample_ids);
  ts_mem_free(s->sample_dense);
  ts_mem_free(s);
}

static ts_err open_source(ts_source **out, const ts_config *c, ts_split split,
                          const char *state, const ts_strings *paths,
                          ts_comm *comm) {
  extern const ts_source_ops ts_source_synthetic;
  ts_err err = TS_OK;
  ts_synthetic *s = NULL;
  const int64_t n = c->data.synthetic.samples;
  const int64_t n_eval = c->data.synthetic.eval_samples
                             ? c->data.synthetic.eval_samples
                             : (n + 9) / 10;
  (void)state, (void)paths;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  s->base =
      (ts_source){.ops = &ts_source_synthetic, .config = c, .split = split};
  s->first = split == TS_SPLIT_EVAL ? n : 0;
  s->n_tasks = c->model.n_tasks;
  s->n_dense = c->model.dense_features;
  s->n_features = ts_feature_count(c);
  s->h = c->data.synthetic.hidden_dim;
  s->base.info =
      (ts_source_info){.n_samples = split == TS_SPLIT_EVAL ? n_eval : n,
                       .n_dense = s->n_dense,
                       .n_tasks = s->n_tasks,
                       .n_features = s->n_features};
  TS_TRY(ts_agree(comm, fill_truth(s)));
  TS_TRY(ts_mem_array(&s->sample_ids, ids_per_sample(s) + 1, 8, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&s->sample_dense, s->n_dense + 4, 4, TS_TAG_INPUT));
  TS_TRY(estimate_bayes(s, comm));
  *out = &s->base;
  s = NULL;
done:
  close_source((ts_source *)s);
  return err;
}

/* ---- reading ------------------------------------------------------------- */

static ts_err read_batch(ts_source *src, ts_batch_store *b, int64_t first,
                         int32_t n) {
  ts_err err = TS_OK;
  ts_synthetic *s = (ts_synthetic *)src;
  int64_t *ids = s->sample_ids;
  float *dense = s->sample_dense;
  TS_TRY(ts_batch_store_begin(b, n, s->n_tasks, s->n_dense, false));
  for (int32_t f = 0; f < s->n_features; f++) {
    const bool weighted = b->of[f].table->weighted;
    const int64_t n_ids = (int64_t)n * s->pooling[f];
    TS_TRY(ts_batch_store_feature(
        b, f, n_ids, s->pooling[f] == 1 ? TS_BAGS_ONE : TS_BAGS_LENGTHS,
        weighted));
    for (int64_t k = 0; weighted && k < n_ids; k++)
      b->feature[f].weights[k] = 1.0f;
    for (int32_t i = 0; s->pooling[f] != 1 && i < n; i++)
      b->feature[f].lengths[i] = s->pooling[f];
  }
  for (int32_t i = 0; i < n; i++) {
    const uint64_t k = (uint64_t)(s->first + first + i);
    double z[TASKS_MAX];
    int64_t at = 0;
    truth(s, z, k, dense, ids);
    for (int32_t t = 0; t < s->n_tasks; t++)
      b->labels[(int64_t)i * s->n_tasks + t] = draw_label(s, z[t], k, t);
    if (s->n_dense)
      memcpy(b->dense + (int64_t)i * s->n_dense, dense, (size_t)s->n_dense * 4);
    for (int32_t f = 0; f < s->n_features; at += s->pooling[f++])
      memcpy(b->feature[f].ids + (int64_t)i * s->pooling[f], ids + at,
             (size_t)s->pooling[f] * 8);
  }
  TS_TRY(ts_batch_store_end(b));
done:
  return err;
}

extern const ts_source_ops ts_source_synthetic;
const ts_source_ops ts_source_synthetic = {.format = "synthetic",
                                           .open = open_source,
                                           .close = close_source,
                                           .read = read_batch};
