/* scales.c - what becomes of the numbers of the deck's columns. */
#include "io/scales.h"

#include <string.h>

#include "base/dense_columns.h"
#include "base/features.h"
#include "base/mem.h"
#include "io/columns.h"
#include "io/scales_impl.h"

/* Quantiles of a transform of that name, where the deck does not say. */
enum { QUANTILES = 1000 };

/* ---- from the deck ------------------------------------------------------- */

ts_err ts_scale_set(ts_scale *x, const double *edges, int64_t n) {
  double *own = NULL;
  TS_DO(ts_mem_many(own, n, INPUT));
  if (n) memcpy(own, edges, (size_t)n * sizeof *own);
  ts_mem_free(x->edges);
  x->edges = own;
  x->n_edges = (int32_t)n;
  return TS_OK;
}

static ts_scale_kind kind_of(const char *transform) {
  if (strstr(transform, "standardise")) return TS_SCALE_STANDARDISE;
  if (!strcmp(transform, "quantile")) return TS_SCALE_QUANTILE;
  if (!strcmp(transform, "min_max")) return TS_SCALE_MIN_MAX;
  if (!strcmp(transform, "clip")) return TS_SCALE_CLIP;
  if (!strcmp(transform, "piecewise_linear")) return TS_SCALE_PIECEWISE;
  return TS_SCALE_NONE;
}

static ts_err set_dense(ts_scale *x, const ts_config *c, int32_t d,
                        const char *usual) {
  const bool listed = ts_column_n_dense(c) > d && (!usual || c->data.n_columns);
  const ts_dense_span span = ts_dense_column(c, d);
  *x = (ts_scale){.name = "", .first = span.first, .n = span.n};
  const char *transform = ts_column_transform(c, d, usual);
  x->kind = kind_of(transform);
  x->log = !strncmp(transform, "log1p", 5);
  x->deviation = 1;
  if (!listed) return TS_OK;
  const ts_column_config of = ts_column_of_dense(c, d);
  x->name = of.name;
  if (x->kind == TS_SCALE_CLIP)
    return ts_scale_set(x,
                        (double[]){isnan(of.min) ? -INFINITY : of.min,
                                   isnan(of.max) ? INFINITY : of.max},
                        2);
  if (x->kind == TS_SCALE_QUANTILE) x->bins = of.bins ? of.bins : QUANTILES;
  if (x->kind != TS_SCALE_PIECEWISE) return TS_OK;
  if (!of.edges.n) x->bins = of.bins;
  return ts_scale_set(x, of.edges.item, of.edges.n);
}

static ts_err set_feature(ts_scale *x, const ts_config *c, int32_t f) {
  const ts_column_config of = ts_column_of_feature(c, f);
  *x = (ts_scale){.kind = TS_SCALE_BUCKETS, .name = of.name};
  if (!of.edges.n) x->bins = of.bins;
  return ts_scale_set(x, of.edges.item, of.edges.n);
}

static bool is_bucketised(const ts_config *c, int32_t f) {
  return !strcmp(ts_column_encoding(c, f, ""), "bucketise");
}

/* Something is asked for but USUAL. */
static bool has_work(const ts_config *c, const char *usual, int32_t n_dense) {
  if (!usual) return true;
  for (int32_t d = 0; d < n_dense; d++)
    if (strcmp(ts_column_transform(c, d, usual), usual) != 0) return true;
  for (int32_t f = 0; f < ts_feature_count(c); f++)
    if (is_bucketised(c, f)) return true;
  return false;
}

/* Those of one column have one input. */
static ts_err fill_features(ts_scales *s, const ts_config *c) {
  ts_err err = TS_OK;
  ts_feature_columns m;
  TS_DO(ts_feature_columns_create(&m, c));
  s->n = s->n_dense;
  for (int32_t f = 0; f < s->n_features; f++) {
    s->input[f] = m.first[f] < f        ? s->input[m.first[f]]
                  : is_bucketised(c, f) ? s->n++
                                        : -1;
    if (m.first[f] == f && s->input[f] >= 0)
      TS_TRY(set_feature(&s->of[s->input[f]], c, f));
  }
done:
  ts_feature_columns_reset(&m);
  return err;
}

static ts_err fill(ts_scales *s, const ts_config *c, const char *usual) {
  for (int32_t d = 0; d < s->n_dense; d++) {
    TS_DO(set_dense(&s->of[d], c, d, usual));
    s->standardise |= s->of[d].kind == TS_SCALE_STANDARDISE;
  }
  return fill_features(s, c);
}

ts_err ts_scales_create(ts_scales **out, const ts_config *c,
                        const char *usual) {
  ts_err err = TS_OK;
  ts_scales *s = NULL;
  const int32_t n_dense =
      usual ? c->model.dense_features : ts_column_n_dense(c);
  *out = NULL;
  if (!has_work(c, usual, n_dense)) return TS_OK;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  s->n_dense = n_dense;
  s->n_features = ts_feature_count(c);
  TS_TRY(ts_mem_many(s->of, n_dense + s->n_features, INPUT));
  TS_TRY(ts_mem_many(s->input, s->n_features, INPUT));
  TS_TRY(fill(s, c, usual));
  *out = s;
done:
  if (err != TS_OK) ts_scales_destroy(s);
  return err;
}

void ts_scales_destroy(ts_scales *s) {
  if (!s) return;
  for (int32_t i = 0; s->of && i < s->n; i++)
    ts_mem_free_all(s->of[i].edges, s->of[i].sample.item);
  ts_mem_free_all(s->of, s->input, s->parts, s);
}

int32_t ts_scales_count(const ts_scales *s) {
  return s ? s->n : 0;
}

int32_t ts_scales_n_dense(const ts_scales *s) {
  return s->n_dense;
}

int32_t ts_scales_of_feature(const ts_scales *s, int32_t feature) {
  return s ? s->input[feature] : -1;
}

bool ts_scales_is_plain(const ts_scales *s, int32_t i) {
  return s->of[i].kind == TS_SCALE_NONE && !s->of[i].log;
}

const char *ts_scales_name(const ts_scales *s, int32_t i) {
  return s->of[i].name;
}

/* ---- to the model -------------------------------------------------------- */

/* Where X is between A and B, 0 to 1; halves, as the whole may be too long for
 * a number. */
static double share_of(double x, double a, double b) {
  return (x / 2 - a / 2) / (b / 2 - a / 2);
}

/* How many edges are less than X, or (OR_EQUAL) not more. */
static int32_t count_below(const ts_scale *s, double x, bool or_equal) {
  int32_t first = 0, end = s->n_edges;
  while (first < end) {
    const int32_t middle = first + (end - first) / 2;
    if (s->edges[middle] < x || (or_equal && s->edges[middle] == x))
      first = middle + 1;
    else
      end = middle;
  }
  return first;
}

/* The share of the training numbers that are less; in the middle of those
 * quantiles that are alike. */
static double quantile_of(const ts_scale *s, double x) {
  const double last = s->n_edges - 1;
  if (s->n_edges < 1 || x <= s->edges[0]) return 0;
  if (x >= s->edges[s->n_edges - 1]) return 1;
  const int32_t from = count_below(s, x, false), to = count_below(s, x, true);
  if (from < to) return (from + to - 1) / (2 * last);
  return (from - 1 + share_of(x, s->edges[from - 1], s->edges[from])) / last;
}

static double between_limits(const ts_scale *s, double x) {
  if (s->n_edges < 2 || s->edges[0] >= s->edges[1]) return 0;
  return fmin(fmax(share_of(x, s->edges[0], s->edges[1]), 0), 1);
}

/* The first bin goes on below its edges, the last one above: what lies out
 * there is told apart. */
static void put_bins(const ts_scale *s, double x, float *to) {
  for (int32_t t = 0; t + 1 < s->n_edges; t++) {
    double y = share_of(x, s->edges[t], s->edges[t + 1]);
    if (t > 0) y = fmax(y, 0);
    if (t + 2 < s->n_edges) y = fmin(y, 1);
    to[t] = (float)y;
  }
}

void ts_scales_put(const ts_scales *scales, int32_t i, double x, float *row) {
  const ts_scale *s = &scales->of[i];
  float *to = row + s->first;
  for (int32_t k = 0; k < s->n; k++) to[k] = 0;
  if (isnan(x)) return;
  if (s->log) x = log1p(fmax(x, 0));
  switch (s->kind) {
  case TS_SCALE_STANDARDISE:
    x = (x - s->mean) / s->deviation;
    break;
  case TS_SCALE_QUANTILE:
    x = quantile_of(s, x);
    break;
  case TS_SCALE_MIN_MAX:
    x = between_limits(s, x);
    break;
  case TS_SCALE_CLIP:
    x = fmin(fmax(x, s->edges[0]), s->edges[1]);
    break;
  case TS_SCALE_PIECEWISE:
    put_bins(s, x, to);
    return;
  case TS_SCALE_NONE:
  case TS_SCALE_BUCKETS:
    break;
  }
  *to = (float)x;
}

int64_t ts_scales_bucket(const ts_scales *s, int32_t i, double x) {
  return isnan(x) ? 0 : 1 + count_below(&s->of[i], x, true);
}

int64_t ts_scales_rows(const ts_scales *s, int32_t feature) {
  const int32_t i = ts_scales_of_feature(s, feature);
  return i < 0 ? 0 : s->of[i].n_edges + 2;
}
