/* shard_oracle.c - embedding tables in double, whole, in one place.
 *
 * Pooled: sum of weight times row; a mean is that sum divided by the number
 * of ids in the bag, whatever the weights are; without pooling each id has a
 * row of its own.  Updates: lazy, one a row,
 * by the formulas of the row optimizers written out once more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shard/shard_contract.h"

/* What the id at PLACE of feature F's bag, which begins at FROM, adds, as a
 * factor. */
static double factor(const ct_deck *d, const ct_batch *batch, int f,
                     int64_t from, int64_t place, int64_t length) {
  const ts_table_config *t = &d->tables[d->table_of[f]];
  double weight = 1;
  if (t->weighted) weight = batch->features[f].weights[from + place];
  if (t->max_length) weight = d->position[f][ct_position_of(d, f, place)];
  return t->pooling == TS_POOL_MEAN ? weight / (double)length : weight;
}

/* Ids [from, to) that output row ROW is made of. */
static void ids_of(const ct_deck *d, const ct_batch *b, int f, int row,
                   int64_t *from, int64_t *to) {
  const ct_bags *bags = &b->features[f];
  const bool sequence = d->tables[d->table_of[f]].pooling == TS_POOL_NONE;
  *from = sequence ? row : bags->start[row];
  *to = sequence ? row + 1 : bags->start[row + 1];
}

double ct_oracle_row(const ct_deck *d, const double *x, const ct_batch *b,
                     int f, int row, int column, double *size) {
  const int32_t t = d->table_of[f];
  const ct_bags *bags = &b->features[f];
  int64_t from, to;
  double sum = 0;
  ids_of(d, b, f, row, &from, &to);
  *size = 0;
  for (int64_t i = from; i < to; i++) {
    const double part =
        factor(d, b, f, from, i - from, to - from) *
        x[d->at[t][0] + bags->ids[i] * d->tables[t].dim + column];
    sum += part;
    *size += fabs(part);
  }
  return sum;
}

double ct_oracle_position(const ct_deck *d, const double *x, const ct_batch *b,
                          int f, int position, double *size) {
  const ts_table_config *t = &d->tables[d->table_of[f]];
  const ct_bags *bags = &b->features[f];
  double sum = 0;
  *size = 0;
  for (int s = 0; s < b->n_global; s++)
    for (int64_t i = bags->start[s]; i < bags->start[s + 1]; i++) {
      const int64_t length = bags->start[s + 1] - bags->start[s];
      if (ct_position_of(d, f, i - bags->start[s]) != position) continue;
      for (int c = 0; c < t->dim; c++) {
        const double part =
            ct_grad(b->step, f, s, c) /
            (t->pooling == TS_POOL_MEAN ? (double)length : 1.0) *
            x[d->at[d->table_of[f]][0] + bags->ids[i] * t->dim + c];
        sum += part;
        *size += fabs(part);
      }
    }
  return sum;
}

/* ---- row optimizers ------------------------------------------------------ */

typedef struct ct_row {
  double *w, *s[2], g[CT_DIM];
  int dim;
  double lr, eps, b1, b2, momentum, eta, decay, c1, c2;
} ct_row;

static double sum_squares(const double *x, int n) {
  double sum = 0;
  for (int d = 0; d < n; d++) sum += x[d] * x[d];
  return sum;
}

static void sgd(ct_row *r) {
  for (int d = 0; d < r->dim; d++) r->w[d] -= r->lr * r->g[d];
}

static void adagrad(ct_row *r) {
  for (int d = 0; d < r->dim; d++) {
    r->s[0][d] += r->g[d] * r->g[d];
    r->w[d] -= r->lr * r->g[d] / (sqrt(r->s[0][d]) + r->eps);
  }
}

static void rowwise_adagrad(ct_row *r) {
  *r->s[0] += sum_squares(r->g, r->dim) / r->dim;
  for (int d = 0; d < r->dim; d++)
    r->w[d] -= r->lr * r->g[d] / (sqrt(*r->s[0]) + r->eps);
}

/* Both moments; the second of the row's mean where PARTIAL. */
static void moments(ct_row *r, bool partial) {
  const double mean = sum_squares(r->g, r->dim) / r->dim;
  for (int d = 0; d < r->dim; d++)
    r->s[0][d] = r->b1 * r->s[0][d] + (1 - r->b1) * r->g[d];
  for (int d = 0; d < (partial ? 1 : r->dim); d++)
    r->s[1][d] =
        r->b2 * r->s[1][d] + (1 - r->b2) * (partial ? mean : r->g[d] * r->g[d]);
}

static double adam_direction(const ct_row *r, int d, bool partial) {
  const double v = r->s[1][partial ? 0 : d];
  return r->s[0][d] * r->c1 / (sqrt(v * r->c2) + r->eps);
}

static void adam(ct_row *r, bool partial) {
  moments(r, partial);
  for (int d = 0; d < r->dim; d++)
    r->w[d] -= r->lr * adam_direction(r, d, partial);
}

static void lamb(ct_row *r, bool partial) {
  double u[CT_DIM];
  moments(r, partial);
  for (int d = 0; d < r->dim; d++)
    u[d] = adam_direction(r, d, partial) + r->decay * r->w[d];
  const double ww = sum_squares(r->w, r->dim), uu = sum_squares(u, r->dim);
  const double ratio = ww > 0 && uu > 0 ? sqrt(ww / uu) : 1;
  for (int d = 0; d < r->dim; d++) r->w[d] -= r->lr * ratio * u[d];
}

static void lars(ct_row *r) {
  const double w = sqrt(sum_squares(r->w, r->dim));
  const double g = sqrt(sum_squares(r->g, r->dim));
  const double a =
      w > 0 && g > 0 ? r->lr * r->eta * w / (g + r->decay * w) : r->lr;
  for (int d = 0; d < r->dim; d++) {
    r->s[0][d] = r->momentum * r->s[0][d] + a * (r->g[d] + r->decay * r->w[d]);
    r->w[d] -= r->s[0][d];
  }
}

/* Decays of the kinds whose direction has none. */
static void decay(ct_row *r, ts_wd_mode mode) {
  for (int d = 0; d < r->dim; d++) {
    if (mode == TS_WD_L2) r->g[d] += r->decay * r->w[d];
    if (mode == TS_WD_DECOUPLED) r->w[d] -= r->lr * r->decay * r->w[d];
  }
}

static void update(ct_row *r, const ts_optim_config *c) {
  const char *kind = c->kind;
  const bool norms = strstr(kind, "lamb") || strstr(kind, "lars");
  const bool partial = strstr(kind, "partial") != NULL;
  if (!norms) decay(r, c->weight_decay_mode);
  if (!strcmp(kind, "sgd"))
    sgd(r);
  else if (!strcmp(kind, "adagrad"))
    adagrad(r);
  else if (!strcmp(kind, "rowwise_adagrad"))
    rowwise_adagrad(r);
  else if (!strcmp(kind, "lars_sgd"))
    lars(r);
  else if (strstr(kind, "lamb"))
    lamb(r, partial);
  else
    adam(r, partial);
}

/* ---- a step -------------------------------------------------------------- */

/* G (rows, dim) += the gradient of FEATURE's table; touched rows are noted. */
static void add_gradient(const ct_deck *d, const ct_batch *b, int f, double *g,
                         bool *touched) {
  const ts_table_config *t = &d->tables[d->table_of[f]];
  const ct_bags *bags = &b->features[f];
  const int n = ct_rows_of(d, b, f).n_global;
  for (int row = 0; row < n; row++) {
    int64_t from, to;
    ids_of(d, b, f, row, &from, &to);
    for (int64_t i = from; i < to; i++) {
      const double a = factor(d, b, f, from, i - from, to - from);
      touched[bags->ids[i]] = true;
      for (int c = 0; c < t->dim; c++)
        g[bags->ids[i] * t->dim + c] += a * ct_grad(b->step, f, row, c);
    }
  }
}

static void step_table(const ct_deck *d, double *x, const ct_batch *b,
                       int32_t t) {
  const ts_table_config *c = &d->tables[t];
  const ts_optim_config *o = &c->optimizer;
  const int pass = b->step + 1;
  double *g = calloc((size_t)(c->rows * c->dim), sizeof *g);
  bool *touched = calloc((size_t)c->rows, sizeof *touched);
  ck_assert(g && touched);
  for (int f = 0; f < d->n_features; f++)
    if (d->table_of[f] == t) add_gradient(d, b, f, g, touched);
  for (int64_t row = 0; row < c->rows; row++) {
    ct_row r = {.dim = c->dim,
                .lr = o->lr,
                .eps = o->eps,
                .b1 = o->beta1,
                .b2 = o->beta2,
                .momentum = o->momentum,
                .eta = o->eta,
                .decay = o->weight_decay,
                .c1 = 1 / (1 - pow(o->beta1, pass)),
                .c2 = 1 / (1 - pow(o->beta2, pass))};
    if (!touched[row]) continue;
    memcpy(r.g, g + row * c->dim, (size_t)c->dim * sizeof *g);
    r.w = x + d->at[t][0] + row * c->dim;
    for (int k = 1; k < d->n_parts[t]; k++)
      r.s[k - 1] = x + d->at[t][k] + row * d->cols[t][k];
    update(&r, o);
  }
  free(g);
  free(touched);
}

void ct_oracle_step(const ct_deck *d, double *x, const ct_batch *b) {
  for (int32_t t = 0; t < d->config.n_tables; t++) step_table(d, x, b, t);
}
