/* model_oracle.c - doc/models.texi, line by line. */
#include "tests/model/model_oracle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/harness.h"

enum { WIDE = 512 };

typedef struct ts_vector {
  double at[WIDE];
  int n;
} ts_vector;

static const ts_param *find(const ts_oracle *o, const double **w,
                            const char *name) {
  const ts_param *p = ts_params_find(o->params, name);
  ck_assert_msg(p != NULL, "no parameter %s", name);
  *w = o->w[p->index];
  return p;
}

/* W x of the parameter NAME. */
static ts_vector product(const ts_oracle *o, const char *name,
                         const ts_vector *x) {
  const double *w;
  const ts_param *p = find(o, &w, name);
  ts_vector y = {.n = p->rows};
  ck_assert_int_eq(p->cols, x->n);
  for (int i = 0; i < p->rows; i++)
    for (int k = 0; k < p->cols; k++) y.at[i] += w[i * p->cols + k] * x->at[k];
  return y;
}

static ts_vector linear(const ts_oracle *o, const char *prefix,
                        const ts_vector *x, bool relu) {
  char name[128];
  const double *b;
  snprintf(name, sizeof name, "%s.weight", prefix);
  ts_vector y = product(o, name, x);
  snprintf(name, sizeof name, "%s.bias", prefix);
  ck_assert_int_eq(find(o, &b, name)->rows, y.n);
  for (int i = 0; i < y.n; i++) {
    y.at[i] += b[i];
    if (relu && y.at[i] < 0) y.at[i] = 0;
  }
  return y;
}

static ts_vector bottom(const ts_oracle *o, int sample) {
  const ts_config *c = o->config;
  const int n = c->model.dense_features;
  ts_vector x = {.n = n};
  char name[128];
  for (int k = 0; k < n; k++) x.at[k] = o->dense[sample * n + k];
  if (!n) return x;
  if (!strcmp(c->model.kind, "deepfm")) {
    x = linear(o, "dense_arch.model.0", &x, true);
    return linear(o, "dense_arch.model.2", &x, true);
  }
  for (int i = 0; i < c->model.dense_arch.n; i++) {
    snprintf(name, sizeof name, "dense_arch.model._mlp.%d._linear", i);
    x = linear(o, name, &x, true);
  }
  return x;
}

static ts_vector over(const ts_oracle *o, ts_vector x) {
  const int n = o->config->model.over_arch.n;
  char name[128];
  for (int i = 0; i + 1 < n; i++) {
    snprintf(name, sizeof name, "over_arch.model.0._mlp.%d._linear", i);
    x = linear(o, name, &x, true);
  }
  return linear(o, "over_arch.model.1", &x, false);
}

static void append(ts_vector *to, const double *from, int n) {
  memcpy(to->at + to->n, from, (size_t)n * sizeof *from);
  to->n += n;
}

static ts_vector side_by_side(const ts_oracle *o, const ts_vector *b,
                              int sample) {
  const bool two = !strcmp(o->config->model.kind, "sparsenn");
  ts_vector x = *b;
  for (int weighted = 0; weighted < 1 + two; weighted++)
    for (int f = 0; f < o->n_features; f++) {
      const int dim = o->config->tables[f].dim;
      if (!two || o->config->tables[f].weighted == weighted)
        append(&x, o->emb[f] + sample * dim, dim);
    }
  return x;
}

/* B, and behind it the products of all pairs of X's vectors of DIM. */
static ts_vector dots(const ts_vector *x, const ts_vector *b, int dim) {
  ts_vector y = *b;
  for (int i = 0; i < x->n; i += dim)
    for (int j = i + dim; j < x->n; j += dim) {
      double sum = 0;
      for (int k = 0; k < dim; k++) sum += x->at[i + k] * x->at[j + k];
      append(&y, &sum, 1);
    }
  return y;
}

static ts_vector cross(const ts_oracle *o, const ts_vector *x0) {
  ts_vector x = *x0;
  char name[128];
  const double *b;
  for (int l = 0; l < o->config->model.dcn_layers; l++) {
    snprintf(name, sizeof name, "inter_arch.crossnet.V_kernels.%d", l);
    const ts_vector u = product(o, name, &x);
    snprintf(name, sizeof name, "inter_arch.crossnet.W_kernels.%d", l);
    const ts_vector t = product(o, name, &u);
    snprintf(name, sizeof name, "inter_arch.crossnet.bias.%d", l);
    ck_assert_int_eq(find(o, &b, name)->rows, x.n);
    for (int k = 0; k < x.n; k++) x.at[k] += x0->at[k] * (t.at[k] + b[k]);
  }
  return x;
}

static double machine(const ts_vector *x, int dim) {
  double fm = 0;
  for (int d = 0; d < dim; d++) {
    double sum = 0, square = 0;
    for (int k = d; k < x->n; k += dim) {
      sum += x->at[k];
      square += x->at[k] * x->at[k];
    }
    fm += (sum * sum - square) / 2;
  }
  return fm;
}

static ts_vector deepfm(const ts_oracle *o, const ts_vector *b,
                        const ts_vector *x) {
  const bool flat = !strcmp(o->config->model.deepfm_fm, "flat");
  const ts_vector deep =
      linear(o, "inter_arch.deep_fm.dense_module.0", x, true);
  const double fm = machine(x, flat ? 1 : o->config->tables[0].dim);
  ts_vector h = *b;
  append(&h, deep.at, deep.n);
  append(&h, &fm, 1);
  return linear(o, "over_arch.model.0", &h, false);
}

static ts_vector logits_of(const ts_oracle *o, int sample) {
  const char *kind = o->config->model.kind;
  const ts_vector b = bottom(o, sample), x = side_by_side(o, &b, sample);
  if (!strcmp(kind, "dlrm"))
    return over(o, dots(&x, &b, o->config->tables[0].dim));
  if (!strcmp(kind, "dcnv2")) return over(o, cross(o, &x));
  if (!strcmp(kind, "deepfm")) return deepfm(o, &b, &x);
  return over(o, x);
}

double ts_oracle_loss(const ts_oracle *o) {
  const int n = o->config->model.n_tasks;
  double sum = 0;
  for (int i = 0; i < o->batch; i++) {
    const ts_vector z = logits_of(o, i);
    ck_assert_int_eq(z.n, n);
    for (int k = 0; k < n; k++)
      sum += o->config->model.tasks[k].weight *
             (fmax(z.at[k], 0) - z.at[k] * o->labels[i * n + k] +
              log1p(exp(-fabs(z.at[k]))));
  }
  return sum / o->batch;
}
