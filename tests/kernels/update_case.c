/* update_case.c - cases of row updates: tables, rows, runs of entries. */
#include "tests/kernels/update.h"

const char *const update_kinds[] = {"sgd",
                                    "adagrad",
                                    "rowwise_adagrad",
                                    "adam",
                                    "partial_rowwise_adam",
                                    "lamb",
                                    "partial_rowwise_lamb",
                                    "lars_sgd"};

static const int64_t row_base[TABLES + 1] = {0, 20, 20, 57, ROWS};

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
    /* of rows of about sqrt(dim) / 2: some are longer */
    if (s->caps && t != 2)
      c->hyper[t].max_norm = 0.5f * sqrtf((float)s->dim) + 0.05f * (float)t;
    c->hyper[t].ema = 0.9 + 0.02 * t;
    if (s->exact) c->hyper[t].lr = t % 2 ? 0.5f : 0.25f;
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

/* Multiples of 1 / PARTS in [-4, 4], where they have to be EXACT. */
static void numbers(float *x, int64_t n, uint64_t seed, bool exact, int parts) {
  test_floats(x, n, seed);
  for (int64_t i = 0; exact && i < n; i++)
    x[i] = rintf(x[i] * 4 * (float)parts) / (float)parts;
}

static void fill_rows(update_case *c, const spec *s) {
  const int64_t n = (int64_t)PLACES * s->dim;
  float *w = test_alloc(n, 4);
  numbers(w, n, 5, s->exact, 8);
  memset(w + s->dim * 3, 0, (size_t)s->dim * 4);
  c->a.weight = kt_array(PLACES, (size_t)ts_row_bytes(s->dtype, s->dim), 0);
  ts_rows_from_f32(c->a.weight, w, s->dtype, PLACES, s->dim);
  for (int k = 0; k < c->a.optim->n_states; k++) {
    const int64_t m = c->a.optim->state[k].per_row ? ROWS : n;
    c->a.state[k] = kt_array(m, 4, 0);
    test_floats(c->a.state[k], m, (uint64_t)(k + 17));
    for (int64_t i = 0; i < m; i++)
      c->a.state[k][i] = fabsf(c->a.state[k][i]) * 0.1f;
    /* The last pass, of some rows long ago; of every third there was none. */
    for (int64_t i = 0; s->means && k == c->own.n_states - 1 && i < m; i++)
      c->a.state[k][i] = i % 3 ? (float)(i % 2 ? 999 : 10 * i) : 0;
  }
  free(w);
  if (s->scores) {
    c->a.score = kt_array(ROWS, 4, 0);
    test_floats(c->a.score, ROWS, 77);
  }
  if (s->dtype == TS_F32 || kt_bits() % 2) return;
  int64_t *ids = kt_array(ROWS, 8, 0); /* of a dynamic table's rows */
  for (int64_t i = 0; i < ROWS; i++) ids[i] = (int64_t)kt_bits() << 31 | i;
  c->a.row_id = ids;
}

static void fill_keys(update_case *c, const spec *s) {
  uint64_t seed = 3;
  int64_t n = 0;
  for (int r = 0; r < s->n_runs; r++) n += s->lengths[r];
  uint32_t *keys = kt_array(n, 4, 0),
           *place = s->placed ? kt_array(n, 4, 0) : NULL;
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
  uint32_t *order = kt_array(n, 4, 0), *bag_of = NULL;
  float *weights = NULL, *scale = NULL, *grad = kt_array(wide, 4, 0);
  int64_t *at = kt_array(BAGS, 8, 0);
  if (s->weighted) {
    bag_of = kt_array(n, 4, 0);
    weights = kt_array(n, 4, 0);
    numbers(weights, n, 21, s->exact, 2);
  }
  if (s->mean) {
    scale = kt_array(BAGS, 4, 0);
    for (int b = 0; b < BAGS; b++)
      scale[b] = 1.0f / (float)(s->exact ? 1 << b % 3 : b % 7 + 1);
  }
  for (int64_t j = 0; j < n; j++) {
    order[j] =
        s->weighted ? (uint32_t)((j * 7919) % n) : test_random(&seed) % BAGS;
    if (bag_of) bag_of[j] = test_random(&seed) % BAGS;
  }
  for (int b = 0; b < BAGS; b++)
    at[b] = (int64_t)(BAGS - 1 - b) * s->dim + s->shift;
  numbers(grad, wide, 9, s->exact, 1);
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

ts_row_optim update_optim(const char *kind, bool means) {
  const ts_table_config t = {.optimizer = {.kind = (char *)kind}, .ema = means};
  return ts_row_optim_of(&t);
}

void update_make(update_case *c, const spec *s) {
  kt_begin();
  memset(c, 0, sizeof *c);
  c->own = update_optim(s->kind, s->means);
  c->a.optim = &c->own;
  c->a.dtype = s->dtype;
  c->a.dim = s->dim;
  fill_tables(c, s);
  if (s->means) c->a.step = 1000;
  fill_rows(c, s);
  fill_keys(c, s);
  fill_entries(c, s);
  if (!s->keep) return;
  c->a.sum_out = kt_array((int64_t)s->n_runs * s->dim, 4, 0);
  c->a.key_out = kt_array(s->n_runs, 4, 0);
  c->a.n_out = kt_array(1, 8, 0);
}

/* ---- a run --------------------------------------------------------------- */

ts_row_update_args update_args(const update_case *c) {
  ts_row_update_args a = c->a;
  if (c->lines && kt_apart()) {
    a.lines = c->lines;
    a.first_line = PLACES / 2;
    memcpy(a.line_state, c->line_state, sizeof a.line_state);
  }
  kt_at_all(&a, sizeof a);
  return a;
}

ts_err update_run(const ts_kernels *k, const void *arg) {
  const ts_row_update_args a = update_args(arg);
  return k->row_update(&a);
}
