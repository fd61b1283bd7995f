/* shard_positions.c - feature processors of the sharding tests: their weights
 * are held by the deck, trained by a plain rate, and their gradients are
 * those of the reference. */
#include <math.h>
#include <string.h>

#include "tests/shard/shard_contract.h"

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

static ts_buffer grads[CT_FEATURES];

/* P's gradient begins as NaN: it has to be written, not added to. */
static void spoil(ts_param *p, ts_device *device) {
  float nans[CT_POSITIONS];
  for (int64_t i = 0; i < p->n; i++) nans[i] = NAN;
  ts_test_put(device, p->grad, nans, (size_t)p->n * sizeof *nans);
}

static void start_param(ts_param *p, const float *w, ts_device *device,
                        ts_buffer *grad) {
  float was[CT_POSITIONS];
  const size_t bytes = (size_t)p->n * sizeof *w;
  ts_test_get(device, was, p->w, bytes);
  for (int64_t i = 0; i < p->n; i++) ck_assert_float_eq(was[i], 1.0f);
  ts_test_put(device, p->w, w, bytes);
  ck_assert_ok(
      ts_buffer_create(grad, device, bytes, TS_SPACE_DEVICE, TS_TAG_GRADS));
  p->grad = grad->ptr;
  spoil(p, device);
}

void ct_positions_start(ct_deck *d, ts_ebc *ebc, ts_device *device) {
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
    start_param(p, d->position[f], device, &grads[k]);
  }
  ck_assert_int_eq(next_feature(d, f), d->n_features);
  ck_assert(ts_ebc_has_processors(ebc) == (params->n > 0));
}

void ct_positions_stop(void) {
  for (int k = 0; k < CT_FEATURES; k++) ts_buffer_reset(&grads[k]);
}

void ct_positions_check(const ct_run *r, ts_ebc *ebc, const ct_batch *b,
                        const double *x) {
  const ct_deck *d = r->deck;
  const ts_params *params = ts_ebc_params(ebc);
  int f = -1;
  for (int32_t k = 0; k < params->n; k++) {
    ts_param *param = params->item[k];
    double sum[CT_POSITIONS], size;
    float grad[CT_POSITIONS];
    const size_t bytes = (size_t)param->n * sizeof *grad;
    f = next_feature(d, f);
    ts_test_get(r->world->device, grad, param->grad, bytes);
    for (int64_t i = 0; i < param->n; i++) sum[i] = (double)grad[i];
    ck_assert_ok(ts_comm_sum_f64(r->world->comm, sum, param->n));
    for (int i = 0; i < param->n; i++) {
      const double want = ct_oracle_position(d, x, b, f, i, &size);
      const double room = b->step ? 1e-5 * fmax(size, 0.1) : 1e-6 * size;
      if (!(fabs(sum[i] - want) <= room))
        ct_fault(r, "step %d %s position %d: gradient %.9g instead of %.9g",
                 b->step, d->feature_names[f], i, sum[i], want);
      grad[i] = (float)sum[i];
    }
    ts_test_put(r->world->device, param->grad, grad, bytes);
  }
  ct_settle();
}

void ct_positions_train(ct_deck *d, ts_ebc *ebc, ts_device *device) {
  const ts_params *params = ts_ebc_params(ebc);
  int f = -1;
  for (int32_t k = 0; k < params->n; k++) {
    ts_param *p = params->item[k];
    float grad[CT_POSITIONS], *w;
    const size_t bytes = (size_t)p->n * sizeof *w;
    f = next_feature(d, f);
    w = d->position[f];
    ts_test_get(device, grad, p->grad, bytes);
    ts_test_get(device, w, p->w, bytes);
    for (int64_t i = 0; i < p->n; i++) w[i] -= d->position_rate * grad[i];
    ts_test_put(device, p->w, w, bytes);
    spoil(p, device);
  }
}
