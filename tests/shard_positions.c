/* shard_positions.c - feature processors of the sharding tests: their weights
 * are held by the deck, trained by a plain rate, and their gradients are
 * those of the reference. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shard_contract.h"

int ct_position_of(const ct_deck *d, int f, int64_t place) {
  const int32_t n = d->max_length[d->table_of[f]];
  return (int)(place < n ? place : n - 1);
}

/* The feature of each parameter, in the collection's order. */
static int next_feature(const ct_deck *d, int f) {
  do f++;
  while (f < d->n_features && !d->tables[d->table_of[f]].max_length);
  return f;
}

void ct_positions_start(ct_deck *d, ts_ebc *ebc) {
  const ts_params *params = ts_ebc_params(ebc);
  int f = -1;
  for (int i = 0; i < d->n_features; i++)
    for (int p = 0; p < CT_POSITIONS; p++)
      d->position[i][p] = 0.5f + (float)((7 * i + 13 * p) % 16) / 16.0f;
  for (int32_t k = 0; k < params->n; k++) {
    ts_param *p = params->item[k];
    f = next_feature(d, f);
    ck_assert_int_lt(f, d->n_features);
    ck_assert_int_eq(p->n, d->max_length[d->table_of[f]]);
    ck_assert_ptr_nonnull(strstr(p->name, d->feature_names[f]));
    for (int64_t i = 0; i < p->n; i++) ck_assert_float_eq(p->w[i], 1.0f);
    memcpy(p->w, d->position[f], (size_t)p->n * sizeof *p->w);
    p->grad = calloc((size_t)p->n, sizeof *p->grad);
    ck_assert_ptr_nonnull(p->grad);
    for (int64_t i = 0; i < p->n; i++) p->grad[i] = NAN;
  }
  ck_assert_int_eq(next_feature(d, f), d->n_features);
  ck_assert(ts_ebc_has_processors(ebc) == (params->n > 0));
}

void ct_positions_stop(ts_ebc *ebc) {
  const ts_params *params = ts_ebc_params(ebc);
  for (int32_t k = 0; k < params->n; k++) free(params->item[k]->grad);
}

void ct_positions_check(const ct_run *r, ts_ebc *ebc, const ct_batch *b,
                        const double *x) {
  const ct_deck *d = r->deck;
  const ts_params *params = ts_ebc_params(ebc);
  int f = -1;
  for (int32_t k = 0; k < params->n; k++) {
    ts_param *param = params->item[k];
    double sum[CT_POSITIONS], size;
    f = next_feature(d, f);
    for (int64_t i = 0; i < param->n; i++) sum[i] = (double)param->grad[i];
    ck_assert_ok(ts_comm_sum_f64(r->world->comm, sum, param->n));
    for (int i = 0; i < param->n; i++) {
      const double want = ct_oracle_position(d, x, b, f, i, &size);
      const double room = b->step ? 1e-5 * fmax(size, 0.1) : 1e-6 * size;
      if (!(fabs(sum[i] - want) <= room))
        ct_fault(r, "step %d %s position %d: gradient %.9g instead of %.9g",
                 b->step, d->feature_names[f], i, sum[i], want);
      param->grad[i] = (float)sum[i];
    }
  }
  ct_settle();
}

void ct_positions_train(ct_deck *d, ts_ebc *ebc) {
  const ts_params *params = ts_ebc_params(ebc);
  int f = -1;
  for (int32_t k = 0; k < params->n; k++) {
    ts_param *p = params->item[k];
    f = next_feature(d, f);
    for (int64_t i = 0; i < p->n; i++) {
      p->w[i] -= d->position_rate * p->grad[i];
      d->position[f][i] = p->w[i];
      p->grad[i] = NAN; /* must be written, not added to */
    }
  }
}
