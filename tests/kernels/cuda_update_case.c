/* cuda_update_case.c - cases of row updates: tables, rows, runs of entries. */
#include "tests/kernels/cuda_update_case.h"

#include <stdio.h>

const update_target *update_tested;

static const int64_t row_base[TABLES + 1] = {0, 20, 20, 57, ROWS};

void *update_add(update_case *c, int64_t n, size_t size) {
  array *x = &c->all[c->n_arrays++];
  ck_assert_int_le(c->n_arrays, ARRAYS_MAX);
  x->bytes = (size_t)n * size;
  x->p = test_alloc(n, size);
  return x->p;
}

void update_drop(update_case *c) {
  for (int i = 0; i < c->n_arrays; i++) free(c->all[i].p);
}

static void fill_tables(update_case *c, const spec *s) {
  for (int t = 0; t < TABLES; t++) {
    c->hyper[t] = (ts_row_hyper){.lr = 0.03f + 0.01f * (float)t,
                                 .eps = 1e-5f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.99f - 0.1f * (float)t,
                                 .momentum = 0.8f,
                                 .eta = 0.01f,
                                 .weight_decay = s->decay ? 0.02f : 0,
                                 .weight_decay_mode = s->decay,
                                 .correction1 = 1.7f,
                                 .correction2 = 3.1f};
    c->row_dim[t] = s->dim * (1 + t % 2);
    c->id[t] = 7 * t + 1;
    c->first_col[t] = 4 * (t % 3) * s->dim;
    c->first_row[t] = INT64_C(5000000000) * t;
  }
  c->a.hyper = c->hyper;
  c->a.row_base = row_base;
  c->a.n_tables = TABLES;
  c->a.row_dim = c->row_dim;
  c->a.table_id = c->id;
  c->a.first_row = c->first_row;
  c->a.first_col = c->first_col;
  c->a.seed = UINT64_C(0x123456789abcdef);
  c->a.step = (INT64_C(1) << 32) + 11;
}

static void fill_rows(update_case *c, const spec *s) {
  const int64_t n = (int64_t)PLACES * s->dim;
  float *w = test_alloc(n, 4);
  test_floats(w, n, 5);
  memset(w + s->dim * 3, 0, (size_t)s->dim * 4);
  c->a.weight = update_add(c, n, ts_dtype_bytes(s->dtype));
  ts_from_f32(c->a.weight, w, s->dtype, n);
  for (int k = 0; k < c->a.optim->n_states; k++) {
    const int64_t m = c->a.optim->state[k].per_row ? ROWS : n;
    c->a.state[k] = update_add(c, m, 4);
    test_floats(c->a.state[k], m, (uint64_t)(k + 17));
    for (int64_t i = 0; i < m; i++)
      c->a.state[k][i] = fabsf(c->a.state[k][i]) * 0.1f;
  }
  free(w);
}

static void fill_keys(update_case *c, const spec *s) {
  uint64_t seed = 3;
  int64_t n = 0;
  for (int r = 0; r < s->n_runs; r++) n += s->lengths[r];
  uint32_t *keys = update_add(c, n, 4),
           *place = s->placed ? update_add(c, n, 4) : NULL;
  ck_assert_int_le(s->n_runs, RUNS_MAX);
  for (int64_t j = 0, r = 0, left = s->lengths[0]; j < n; j++, left--) {
    while (left == 0) left = s->lengths[++r];
    keys[j] = (uint32_t)(r * (ROWS - 1) / RUNS_MAX + r % 2);
    /* only that of a run's first entry counts */
    if (place)
      place[j] = j && keys[j] == keys[j - 1] ? test_random(&seed)
                                             : (keys[j] * 7 + 50) % PLACES;
  }
  c->a.n = n;
  c->a.keys = keys;
  c->a.place = place;
}

static void fill_entries(update_case *c, const spec *s) {
  uint64_t seed = 8;
  const int64_t n = c->a.n, wide = (int64_t)BAGS * s->dim + s->shift;
  uint32_t *order = update_add(c, n, 4), *bag_of = NULL;
  float *weights = NULL, *scale = NULL, *grad = update_add(c, wide, 4);
  int64_t *at = update_add(c, BAGS, 8);
  if (s->weighted) {
    bag_of = update_add(c, n, 4);
    weights = update_add(c, n, 4);
    test_floats(weights, n, 21);
  }
  if (s->mean) {
    scale = update_add(c, BAGS, 4);
    for (int b = 0; b < BAGS; b++) scale[b] = 1.0f / (float)(b % 7 + 1);
  }
  for (int64_t j = 0; j < n; j++) {
    order[j] =
        s->weighted ? (uint32_t)((j * 7919) % n) : test_random(&seed) % BAGS;
    if (bag_of) bag_of[j] = test_random(&seed) % BAGS;
  }
  for (int b = 0; b < BAGS; b++)
    at[b] = (int64_t)(BAGS - 1 - b) * s->dim + s->shift;
  test_floats(grad, wide, 9);
  /* The first run is of one gradient of nothing, whose signs stay. */
  for (int32_t d = 0; d < s->dim; d++) grad[at[0] + d] = -0.0f;
  if (n > 0) order[0] = 0;
  if (bag_of) bag_of[0] = 0;
  c->a.order = order;
  c->a.bag_of = bag_of;
  c->a.weights = weights;
  c->a.bag_scale = scale;
  c->a.grad = grad;
  c->a.grad_at = at;
}

void update_make(update_case *c, const spec *s) {
  memset(c, 0, sizeof *c);
  c->a.optim = ts_row_optim_find(s->kind);
  c->a.dtype = s->dtype;
  c->a.dim = s->dim;
  fill_tables(c, s);
  fill_rows(c, s);
  fill_keys(c, s);
  fill_entries(c, s);
  if (!s->keep) return;
  c->a.sum_out = update_add(c, (int64_t)s->n_runs * s->dim, 4);
  c->a.key_out = update_add(c, s->n_runs, 4);
  c->a.n_out = update_add(c, 1, 8);
}

/* ---- both ways ----------------------------------------------------------- */

void *update_sent(const update_case *c, void *const *copies, const void *p) {
  for (int i = 0; p && i < c->n_arrays; i++)
    if (c->all[i].p == p) return copies[i];
  return NULL;
}

ts_row_update_args update_send(const update_case *c, void **copies) {
  ts_row_update_args a = c->a;
  for (int i = 0; i < c->n_arrays; i++)
    copies[i] = update_tested->send(c->all[i].p, c->all[i].bytes);
#define SENT(field) a.field = update_sent(c, copies, a.field)
  SENT(weight), SENT(keys), SENT(place), SENT(order), SENT(grad);
  SENT(grad_at), SENT(bag_of), SENT(weights), SENT(bag_scale), SENT(sum_out);
  SENT(key_out), SENT(n_out), SENT(state[0]), SENT(state[1]);
#undef SENT
  return a;
}

void update_same(const void *x, const void *y, size_t bytes, const char *what,
                 const spec *s) {
  const uint8_t *a = x, *b = y;
  size_t i = 0;
  while (i < bytes && a[i] == b[i]) i++;
  ck_assert_msg(i == bytes,
                "%s, rows of %s, decay %d, dim %d, weighted %d, mean %d, "
                "place %d, keep %d, shift %d: %s differs at byte %zu of %zu",
                s->kind, ts_dtype_name(s->dtype), (int)s->decay, s->dim,
                s->weighted, s->mean, s->placed, s->keep, s->shift, what, i,
                bytes);
}

void update_compare(const update_case *c, void **copies, const spec *s) {
  for (int i = 0; i < c->n_arrays; i++) {
    char *got = test_alloc((int64_t)c->all[i].bytes, 1), what[40];
    snprintf(what, sizeof what, "array %d", i);
    update_tested->fetch(got, copies[i], c->all[i].bytes);
    update_same(got, c->all[i].p, c->all[i].bytes, what, s);
    free(got);
  }
}
