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
 * reach are known; they are estimated from the first 200,000 samples (fewer
 * for small splits, whose own results are less exact), with the noise
 * integrated out.  Several tasks have u, c and e of their own and
 * share the rest; what is known is of the first.
 *
 * With synthetic.ring = N the training part's samples of the first N batches
 * are given again and again (ts_source_info.period). */
#include <math.h>
#include <omp.h>

#include "base/auc.h"
#include "base/mem.h"
#include "io/columns.h"
#include "io/synthetic_impl.h"
#include "runtime/topology.h"

enum {
  BAYES_SAMPLES = 200000,
  BAYES_PARTS = 8,
  BAYES_TIMES = 16, /* as many samples: a quarter of the split's own error */
  NOISE_POINTS = 16
};

/* Mean of sigmoid(z + noise e) over e, at the quantiles' midpoints. */
static double probability(double z, double noise) {
  static const double e[NOISE_POINTS] = {-1.86273, -1.31801, -1.00999, -0.77642,
                                         -0.57913, -0.40225, -0.23720, -0.07841,
                                         0.07841,  0.23720,  0.40225,  0.57913,
                                         0.77642,  1.00999,  1.31801,  1.86273};
  double p = 0;
  if (noise == 0) return ts_synthetic_sigmoid(z);
  for (int i = 0; i < NOISE_POINTS; i++)
    p += ts_synthetic_sigmoid(z + noise * e[i]);
  return p / NOISE_POINTS;
}

/* ---- opening ------------------------------------------------------------- */

/* The parameters of each task. */
static ts_err fill_tasks(ts_synthetic *s) {
  const int64_t n_tasks = s->n_tasks;
  double *u;
  float *c;
  TS_DO(ts_mem_many(s->dense_weight, n_tasks * s->n_dense, INPUT));
  TS_DO(ts_mem_many(s->field, n_tasks * s->n_columns * s->h, INPUT));
  u = s->dense_weight;
  c = s->field;
  for (int32_t k = 0; k < n_tasks; k++) {
    for (int32_t d = 0; d < s->n_dense; d++)
      *u++ = ts_synthetic_normal(s, TS_USE_DENSE_WEIGHT, d, 0, k) /
             sqrt((double)s->n_dense);
    for (int32_t f = 0; f < s->n_columns; f++)
      for (int32_t j = 0; j < s->h; j++)
        *c++ = (float)ts_synthetic_normal(s, TS_USE_FIELD, f, j, k);
  }
  return TS_OK;
}

/* Ids are rows of all tables of their column. */
static void take_rows(ts_synthetic *s, int32_t f, int64_t rows) {
  const int32_t k = s->of.column[f];
  if (s->of.first[f] == f) s->feature[k] = f;
  if (s->of.first[f] == f || rows < s->rows[k]) s->rows[k] = rows;
}

static ts_err fill_truth(ts_synthetic *s) {
  const ts_config *c = s->base.config;
  const ts_ints *pooling = &c->data.synthetic.pooling;
  if (pooling->n != 1 && pooling->n != s->n_columns)
    return ts_fail(TS_ERR_DECK,
                   "data.synthetic.pooling lists %d numbers for %d features",
                   pooling->n, s->n_columns);
  if (s->n_tasks > TS_SYNTHETIC_TASKS)
    return ts_fail(TS_ERR_DECK, "synthetic data has at most %d tasks, not %d",
                   (int)TS_SYNTHETIC_TASKS, s->n_tasks);
  TS_DO(ts_mem_many(s->feature, s->n_columns, INPUT));
  TS_DO(ts_mem_many(s->rows, s->n_columns, INPUT));
  TS_DO(ts_mem_many(s->pooling, s->n_columns, INPUT));
  for (int32_t f = 0; f < s->of.n_features; f++)
    take_rows(s, f, ts_table_whole(ts_feature_table(c, f, NULL))->rows);
  for (int32_t k = 0; k < s->n_columns; k++)
    s->pooling[k] = (int32_t)pooling->item[pooling->n == 1 ? 0 : k];
  TS_DO(fill_tasks(s));
  return ts_synthetic_fill_law(s);
}

static int64_t ids_per_sample(const ts_synthetic *s) {
  int64_t n = 0;
  for (int32_t f = 0; f < s->n_columns; f++) n += s->pooling[f];
  return n;
}

/* One part of the samples: its log loss, summed, and its AUC.  Sums are in the
 * samples' order. */
static ts_err estimate_part(const ts_synthetic *s, int64_t from, int64_t to,
                            double result[2]) {
  ts_err err = TS_OK;
  const double noise = s->base.config->data.synthetic.noise;
  const int64_t n = to - from;
  float *p = NULL, *y = NULL, *dense = NULL;
  double *q = NULL;
  TS_TRY(ts_mem_many(p, n, INPUT));
  TS_TRY(ts_mem_many(y, n, INPUT));
  TS_TRY(ts_mem_many(q, n, INPUT));
  TS_TRY(
      ts_mem_many(dense, (int64_t)s->base.n_threads * (s->n_dense + 1), INPUT));
#pragma omp parallel for schedule(dynamic, 64) num_threads(s->base.n_threads)
  for (int64_t i = 0; i < n; i++) {
    const int64_t mine = (int64_t)omp_get_thread_num() * (s->n_dense + 1);
    const ts_place place = {.dense = dense + mine};
    double z[TS_SYNTHETIC_TASKS];
    ts_synthetic_draw(s, z, (uint64_t)(from + i), &place);
    q[i] = probability(z[0], noise);
    p[i] = (float)q[i];
    y[i] = ts_synthetic_label(s, z[0], (uint64_t)(from + i), 0);
  }
  for (int64_t i = 0; i < n; i++) /* its expectation */
    result[0] -= q[i] * log(q[i]) + (1 - q[i]) * log1p(-q[i]);
  TS_TRY(ts_auc(&result[1], p, y, n));
done:
  ts_mem_free_all(p, y, q, dense);
  return err;
}

/* Ranks share the parts, whose number is fixed: the same bits on any number
 * of ranks. */
static ts_err estimate_bayes(ts_synthetic *s, ts_comm *comm) {
  ts_err err = TS_OK;
  double part[BAYES_PARTS][2] = {{0}}, loss = 0, auc = 0;
  const int64_t cost = ids_per_sample(s) * s->h + 1;
  int64_t n = BAYES_SAMPLES;
  if (s->base.info.n_samples < n / BAYES_TIMES)
    n = BAYES_TIMES * s->base.info.n_samples;
  if (n > 60000000 / cost) n = 60000000 / cost; /* bounded time */
  if (n < 4000) n = 4000;
  for (int i = ts_comm_rank(comm); i < BAYES_PARTS && err == TS_OK;
       i += ts_comm_size(comm))
    err = estimate_part(s, n * i / BAYES_PARTS, n * (i + 1) / BAYES_PARTS,
                        part[i]);
  TS_DO(ts_agree(comm, err));
  TS_DO(ts_comm_sum_f64(comm, &part[0][0], 2 * BAYES_PARTS));
  for (int i = 0; i < BAYES_PARTS; i++) {
    loss += part[i][0];
    auc += part[i][1]; /* parts are alike: the mean of theirs */
  }
  s->base.info.bayes_logloss = loss / (double)n;
  s->base.info.bayes_auc = auc / BAYES_PARTS;
  return TS_OK;
}

static void close_source(ts_source *src) {
  ts_synthetic *s = (ts_synthetic *)src;
  if (!s) return;
  ts_mem_free_all(s->dense_weight, s->field, s->rows, s->pooling, s->reach);
  for (int32_t f = 0; s->hot && f < s->n_columns; f++) ts_mem_free(s->hot[f]);
  ts_feature_columns_reset(&s->of);
  ts_mem_free_all(s->hot, s->n_hot, s->feature, s);
}

/* Samples after which those of a split are given again; 0: none are. */
static int64_t period(const ts_config *c, ts_split split, int n_ranks) {
  const int64_t batch = c->data.global_batch ? c->data.global_batch
                                             : c->data.batch_per_rank * n_ranks;
  return split == TS_SPLIT_TRAIN ? c->data.synthetic.ring * batch : 0;
}

extern const ts_source_ops ts_source_synthetic;

static ts_err open_source(ts_source **out, const ts_config *c, ts_split split,
                          const char *state, const ts_strings *paths,
                          ts_comm *comm) {
  ts_err err = TS_OK;
  ts_synthetic *s = NULL;
  const int64_t n = c->data.synthetic.samples;
  const int64_t n_eval = c->data.synthetic.eval_samples
                             ? c->data.synthetic.eval_samples
                             : (n + 9) / 10;
  const int64_t first[] = {0, n, n + n_eval, n};
  (void)state, (void)paths;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  s->base =
      (ts_source){.ops = &ts_source_synthetic, .config = c, .split = split};
  s->first = first[split];
  s->n_tasks = c->model.n_tasks;
  s->n_dense = c->model.dense_features;
  TS_TRY(ts_agree(comm, ts_feature_columns_create(&s->of, c)));
  s->n_columns = s->of.n;
  s->h = c->data.synthetic.hidden_dim;
  s->alpha = c->data.synthetic.zipf;
  ts_synthetic_keys(s);
  s->base.info =
      (ts_source_info){.n_samples = split == TS_SPLIT_TRAIN ? n : n_eval,
                       .n_dense = s->n_dense,
                       .n_tasks = s->n_tasks,
                       .n_features = s->of.n_features,
                       .period = period(c, split, ts_comm_size(comm))};
  TS_TRY(ts_agree(comm, fill_truth(s)));
  s->base.n_threads = ts_threads_local(c->run.threads); /* none computes now */
  TS_TRY(estimate_bayes(s, comm));
  s->base.n_threads = 1;
  *out = &s->base;
done:
  if (err != TS_OK) close_source((ts_source *)s);
  return err;
}

/* ---- reading ------------------------------------------------------------- */

/* Room for N samples in B, and how long their bags are. */
static ts_err begin_batch(const ts_synthetic *s, ts_batch_store *b, int32_t n) {
  TS_DO(ts_batch_store_begin(b, n, s->n_tasks, s->n_dense,
                             s->base.info.has_weights));
  for (int32_t k = 0; k < s->n_columns; k++) {
    const int32_t f = s->feature[k], length = s->pooling[k];
    const bool weighted = b->of[f].table->weighted;
    const int64_t n_ids = (int64_t)n * length;
    TS_DO(ts_batch_store_feature(
        b, f, n_ids, length == 1 ? TS_BAGS_ONE : TS_BAGS_LENGTHS, weighted));
    for (int64_t i = 0; weighted && i < n_ids; i++)
      b->feature[f].weights[i] = 1.0f;
    for (int32_t i = 0; length != 1 && i < n; i++)
      b->feature[f].lengths[i] = length;
  }
  return TS_OK;
}

/* Samples SAMPLES (n), or those from FIRST on where that is NULL. */
static ts_err draw_batch(ts_source *src, ts_batch_store *b,
                         const int64_t *samples, int64_t first, int32_t n) {
  const ts_synthetic *s = (const ts_synthetic *)src;
  const int64_t period = s->base.info.period;
  TS_DO(begin_batch(s, b, n));
#pragma omp parallel for schedule(dynamic, 64) num_threads(s->base.n_threads)
  for (int32_t i = 0; i < n; i++) {
    const int64_t sample = samples ? samples[i] : first + i;
    const int64_t at = period ? sample % period : sample;
    const uint64_t k = (uint64_t)(s->first + at);
    const ts_place place = {b->feature, i, b->dense + (int64_t)i * s->n_dense};
    double z[TS_SYNTHETIC_TASKS];
    ts_synthetic_draw(s, z, k, &place);
    for (int32_t t = 0; t < s->n_tasks; t++) {
      const int32_t of = ts_column_first_label(s->base.config, t);
      b->labels[(int64_t)i * s->n_tasks + t] =
          ts_synthetic_label(s, z[of], k, of);
    }
  }
  for (int32_t f = 0; f < s->of.n_features; f++)
    if (s->of.first[f] != f && !ts_batch_store_is_same(b, f))
      TS_DO(ts_batch_store_copy(b, f));
  return ts_batch_store_end(b);
}

static ts_err read_batch(ts_source *src, ts_batch_store *b, int64_t first,
                         int32_t n) {
  return draw_batch(src, b, NULL, first, n);
}

static ts_err gather(ts_source *src, ts_batch_store *b, const int64_t *samples,
                     int32_t n) {
  return draw_batch(src, b, samples, 0, n);
}

static void law(const ts_config *c, int32_t feature, double *ids,
                double *zipf) {
  const ts_ints *pooling = &c->data.synthetic.pooling;
  const int32_t k =
      pooling->n > 1 ? ts_feature_column(c, feature, pooling->n) : 0;
  *ids = !pooling->n      ? 1
         : pooling->n > k ? (double)pooling->item[k]
                          : (double)pooling->item[0];
  *zipf = c->data.synthetic.zipf;
}

const ts_source_ops ts_source_synthetic = {.format = "synthetic",
                                           .no_files = true,
                                           .law = law,
                                           .open = open_source,
                                           .close = close_source,
                                           .read = read_batch,
                                           .gather = gather};
