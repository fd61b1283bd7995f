/* shard_oracle.c - embedding tables in double, whole, in one place.
 *
 * Pooled: sum of weight times row; a mean is that sum divided by the number
 * of ids in the bag, whatever the weights are; without pooling each id has a
 * row of its own.  Updates: lazy, one a row. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shard/shard_contract.h"
#include "tests/support/optim_config.h"

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

static void cap(double *w, const ts_table_config *c) {
  double squares = 0;
  for (int k = 0; k < c->dim; k++) squares += w[k] * w[k];
  const double norm = sqrt(squares);
  for (int k = 0; c->max_norm > 0 && norm > c->max_norm && k < c->dim; k++)
    w[k] *= c->max_norm / (norm + 1e-7);
}

static void step_table(const ct_deck *d, double *x, const ct_batch *b,
                       int32_t t) {
  const ts_table_config *c = &d->tables[t];
  double *g = calloc((size_t)(c->rows * c->dim), sizeof *g);
  bool *touched = calloc((size_t)c->rows, sizeof *touched);
  ck_assert(g && touched);
  for (int f = 0; f < d->n_features; f++)
    if (d->table_of[f] == t) add_gradient(d, b, f, g, touched);
  for (int64_t row = 0; row < c->rows; row++) {
    test_step r = {.config = &c->optimizer,
                   .lr = c->optimizer.lr,
                   .w = x + d->at[t][0] + row * c->dim,
                   .g = g + row * c->dim,
                   .n = c->dim,
                   .pass = b->step + 1};
    if (!touched[row]) continue;
    for (int k = 1; k < d->n_parts[t]; k++)
      r.s[k - 1] = x + d->at[t][k] + row * d->cols[t][k];
    test_optim_step(&r);
    cap(r.w, c);
  }
  free(g);
  free(touched);
}

void ct_oracle_step(const ct_deck *d, double *x, const ct_batch *b) {
  for (int32_t t = 0; t < d->config.n_tables; t++) step_table(d, x, b, t);
}
