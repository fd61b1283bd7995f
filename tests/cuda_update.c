/* cuda_update.c - cases of row updates: every optimizer, type of rows, way of
 * weight decay, length of runs and width, by the host's reference and by a
 * target; what both leave behind has to be the same bytes. */
#include "cuda_update.h"

#include <stdio.h>

#include "base/rng.h"
#include "sparse_util.h"

static const update_target *target;

/* Four tables, of which one has no rows. */
enum { TABLES = 4, ROWS = 90, PLACES = 120, RUNS_MAX = 32, BAGS = 300 };
static const int64_t row_base[TABLES + 1] = {0, 20, 20, 57, ROWS};

typedef struct spec {
  const char *kind;
  ts_dtype dtype;
  ts_wd_mode decay;
  int32_t dim;
  const int *lengths; /* (n_runs) */
  int n_runs;
  bool weighted, mean, placed, keep;
  int shift; /* floats that gradients are moved by: off multiples of 16 */
} spec;

/* What a case owns; the arrays that a kernel reads or writes, with the bytes
 * that belong to them. */
enum { ARRAYS_MAX = 16 };
typedef struct array {
  void *p;
  size_t bytes;
} array;
typedef struct update_case {
  ts_row_update_args a;
  ts_row_hyper hyper[TABLES];
  int32_t row_dim[TABLES], id[TABLES], first_col[TABLES];
  int64_t first_row[TABLES], n_out;
  array all[ARRAYS_MAX];
  int n_arrays;
} update_case;

static void *add(update_case *c, int64_t n, size_t size) {
  array *x = &c->all[c->n_arrays++];
  ck_assert_int_le(c->n_arrays, ARRAYS_MAX);
  x->bytes = (size_t)n * size;
  x->p = test_alloc(n, size);
  return x->p;
}

static void drop(update_case *c) {
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
  c->a.weight = add(c, n, ts_dtype_bytes(s->dtype));
  ts_from_f32(c->a.weight, w, s->dtype, n);
  for (int k = 0; k < c->a.optim->n_states; k++) {
    const int64_t m = c->a.optim->state[k].per_row ? ROWS : n;
    c->a.state[k] = add(c, m, 4);
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
  uint32_t *keys = add(c, n, 4), *place = s->placed ? add(c, n, 4) : NULL;
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
  uint32_t *order = add(c, n, 4), *bag_of = NULL;
  float *weights = NULL, *scale = NULL, *grad = add(c, wide, 4);
  int64_t *at = add(c, BAGS, 8);
  if (s->weighted) {
    bag_of = add(c, n, 4);
    weights = add(c, n, 4);
    test_floats(weights, n, 21);
  }
  if (s->mean) {
    scale = add(c, BAGS, 4);
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

static void make(update_case *c, const spec *s) {
  memset(c, 0, sizeof *c);
  c->a.optim = ts_row_optim_find(s->kind);
  c->a.dtype = s->dtype;
  c->a.dim = s->dim;
  fill_tables(c, s);
  fill_rows(c, s);
  fill_keys(c, s);
  fill_entries(c, s);
  if (!s->keep) return;
  c->a.sum_out = add(c, (int64_t)s->n_runs * s->dim, 4);
  c->a.key_out = add(c, s->n_runs, 4);
  c->a.n_out = add(c, 1, 8);
}

/* ---- both ways ----------------------------------------------------------- */

/* The target's copy of what starts at P. */
static void *sent(const update_case *c, void *const *copies, const void *p) {
  for (int i = 0; p && i < c->n_arrays; i++)
    if (c->all[i].p == p) return copies[i];
  return NULL;
}

static ts_row_update_args send_all(const update_case *c, void **copies) {
  ts_row_update_args a = c->a;
  for (int i = 0; i < c->n_arrays; i++)
    copies[i] = target->send(c->all[i].p, c->all[i].bytes);
#define SENT(field) a.field = sent(c, copies, a.field)
  SENT(weight), SENT(keys), SENT(place), SENT(order), SENT(grad);
  SENT(grad_at), SENT(bag_of), SENT(weights), SENT(bag_scale), SENT(sum_out);
  SENT(key_out), SENT(n_out), SENT(state[0]), SENT(state[1]);
#undef SENT
  return a;
}

static void same(const void *x, const void *y, size_t bytes, const char *what,
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

/* The case has been through the reference: the target has left the same. */
static void compare(const update_case *c, void **copies, const spec *s) {
  for (int i = 0; i < c->n_arrays; i++) {
    char *got = test_alloc((int64_t)c->all[i].bytes, 1), what[40];
    snprintf(what, sizeof what, "array %d", i);
    target->fetch(got, copies[i], c->all[i].bytes);
    same(got, c->all[i].p, c->all[i].bytes, what, s);
    free(got);
  }
}

static void check_update(const spec *s) {
  ts_kernels ref;
  update_case c;
  void *copies[ARRAYS_MAX];
  test_kernels(&ref, 0);
  make(&c, s);
  const ts_row_update_args a = send_all(&c, copies);
  ck_assert_ok(target->row_update(&a));
  ck_assert_ok(ref.row_update(&c.a));
  compare(&c, copies, s);
  for (int i = 0; i < c.n_arrays; i++) target->drop(copies[i]);
  drop(&c);
}

/* Places from PLACES / 2 on lie in arrays of their own: there all of them are
 * as the reference has them, the others as they were; in the first arrays it
 * is the other way. */
static void same_parts(const void *before, const void *after, const void *got,
                       const void *lines, int64_t bytes, const spec *s) {
  char *x = test_alloc(PLACES * bytes, 1);
  const size_t half = (size_t)(PLACES / 2 * bytes);
  target->fetch(x, got, 2 * half);
  same(x, after, half, "rows", s);
  same(x + half, (const char *)before + half, half, "rows behind", s);
  target->fetch(x, lines, 2 * half);
  same(x, before, half, "lines before", s);
  same(x + half, (const char *)after + half, half, "lines", s);
  free(x);
}

/* Arrays of an update that have a row for each place: weights, states. */
static int placed(const update_case *c, void *const *copies, void **rows,
                  const void **got, int64_t *bytes) {
  int n = 0;
  rows[n] = c->a.weight;
  bytes[n++] = c->a.dim * (int64_t)ts_dtype_bytes(c->a.dtype);
  for (int k = 0; k < c->a.optim->n_states; k++) {
    if (c->a.optim->state[k].per_row) continue;
    rows[n] = c->a.state[k];
    bytes[n++] = c->a.dim * (int64_t)4;
  }
  for (int i = 0; i < n; i++) got[i] = sent(c, copies, rows[i]);
  return n;
}

static void check_lines(const spec *s) {
  ts_kernels ref;
  update_case c;
  void *copies[ARRAYS_MAX], *rows[3], *before[3], *lines[3];
  const void *got[3];
  int64_t bytes[3];
  test_kernels(&ref, 0);
  make(&c, s);
  ts_row_update_args a = send_all(&c, copies);
  const int n = placed(&c, copies, rows, got, bytes);
  for (int i = 0; i < n; i++) {
    before[i] = test_alloc(PLACES * bytes[i], 1);
    memcpy(before[i], rows[i], (size_t)(PLACES * bytes[i]));
    lines[i] = target->send(rows[i], (size_t)(PLACES * bytes[i]));
    void *first = (char *)lines[i] + PLACES / 2 * bytes[i];
    if (i == 0) a.lines = first;
    for (int k = 0; i && k < c.a.optim->n_states; k++)
      if (rows[i] == (void *)c.a.state[k]) a.line_state[k] = first;
  }
  a.first_line = PLACES / 2;
  ck_assert_ok(target->row_update(&a));
  ck_assert_ok(ref.row_update(&c.a));
  for (int i = 0; i < n; i++) {
    same_parts(before[i], rows[i], got[i], lines[i], bytes[i], s);
    target->drop(lines[i]);
    free(before[i]);
  }
  for (int i = 0; i < c.n_arrays; i++) target->drop(copies[i]);
  drop(&c);
}

static const char *const kinds[] = {"sgd",
                                    "adagrad",
                                    "rowwise_adagrad",
                                    "adam",
                                    "partial_rowwise_adam",
                                    "lamb",
                                    "partial_rowwise_lamb",
                                    "lars_sgd"};
static const int32_t dims[] = {1, 4, 20, 64, 100, 128, 260};
static const int short_runs[] = {1, 2, 31, 1, 1, 33, 3, 1};
static const int long_runs[] = {1, 255, 2, 257, 1, 31, 5000, 256, 33, 513, 1};

/* Every formula on every width of rows. */
START_TEST(formulas) {
  for (int k = 0; k < TEST_COUNT(kinds); k++)
    for (ts_dtype t = TS_F32; t <= TS_F16; t++)
      for (int decay = 0; decay < 3; decay++)
        for (int d = 0; d < TEST_COUNT(dims); d++)
          check_update(&(spec){.kind = kinds[k],
                               .dtype = t,
                               .decay = (ts_wd_mode)decay,
                               .dim = dims[d],
                               .lengths = short_runs,
                               .n_runs = TEST_COUNT(short_runs),
                               .placed = d % 2});
}
END_TEST

/* Every way to name entries, with runs of many pieces. */
START_TEST(long_sums) {
  for (int d = 0; d < TEST_COUNT(dims); d++)
    for (int mode = 0; mode < 16; mode++)
      check_update(&(spec){.kind = kinds[2 + (mode + d) % 6],
                           .dtype = (ts_dtype)(mode % 3),
                           .decay = (ts_wd_mode)(mode % 2),
                           .dim = dims[d],
                           .lengths = long_runs,
                           .n_runs = TEST_COUNT(long_runs),
                           .weighted = mode & 1,
                           .mean = mode & 2,
                           .placed = mode & 4,
                           .keep = mode & 8,
                           .shift = mode % 5});
}
END_TEST

/* Every optimizer ends runs of many pieces. */
START_TEST(long_ends) {
  for (int k = 0; k < TEST_COUNT(kinds); k++)
    for (int d = 0; d < TEST_COUNT(dims); d += 2)
      check_update(&(spec){.kind = kinds[k],
                           .dtype = (ts_dtype)(k % 3),
                           .decay = TS_WD_L2,
                           .dim = dims[d],
                           .lengths = (const int[]){257, 1, 600},
                           .n_runs = 3,
                           .placed = true});
}
END_TEST

/* No bit depends on the grid. */
START_TEST(grids) {
  if (!target->set_blocks) return;
  for (int blocks = 1; blocks < 12; blocks += 2) {
    target->set_blocks(blocks);
    for (int d = 0; d < TEST_COUNT(dims); d++)
      check_update(&(spec){.kind = "rowwise_adagrad",
                           .dim = dims[d],
                           .lengths = long_runs,
                           .n_runs = TEST_COUNT(long_runs),
                           .keep = blocks == 5});
  }
  target->set_blocks(3);
}
END_TEST

/* One run alone, of each length; one entry; none. */
START_TEST(corners) {
  static const int lengths[] = {0, 1, 2, 31, 32, 33, 255, 256, 257, 512, 5000};
  for (int i = 0; i < TEST_COUNT(lengths); i++)
    for (int d = 0; d < TEST_COUNT(dims); d += 3)
      for (int keep = 0; keep < 2; keep++)
        check_update(&(spec){.kind = "rowwise_adagrad",
                             .dim = dims[d],
                             .lengths = &lengths[i],
                             .n_runs = lengths[i] > 0,
                             .keep = keep});
}
END_TEST

/* Rows in two places, of every optimizer. */
START_TEST(lines) {
  for (int k = 0; k < TEST_COUNT(kinds); k++)
    for (ts_dtype t = TS_F32; t <= TS_F16; t++)
      for (int d = 0; d < TEST_COUNT(dims); d += 2)
        check_lines(&(spec){.kind = kinds[k],
                            .dtype = t,
                            .dim = dims[d],
                            .lengths = d % 4 ? short_runs : long_runs,
                            .n_runs = TEST_COUNT(short_runs),
                            .placed = true});
}
END_TEST

/* ---- stages -------------------------------------------------------------- */

/* After each round statistics grow, as if by another shard's. */
static void grow(float *stats, int64_t n) {
  for (int64_t i = 0; i < n; i++) stats[i] *= 1.25f;
}

static void check_stages(const spec *s) {
  ts_kernels ref;
  update_case c;
  void *copies[ARRAYS_MAX];
  test_kernels(&ref, 0);
  make(&c, s);
  ck_assert_ok(ref.row_update(&c.a));
  const int64_t n = *c.a.n_out, n_stats = n * TS_ROW_STATS_MAX;
  float *stats = add(&c, n_stats, 4);
  uint32_t *place = add(&c, n, 4);
  for (int64_t r = 0; r < n; r++) place[r] = (c.a.key_out[r] * 7 + 50) % PLACES;
  const ts_row_update_args a = send_all(&c, copies);
  ts_row_stage_args x = {&c.a, c.a.key_out, c.a.sum_out, place, n, stats, 0};
  ts_row_stage_args y = {.update = &a,
                         .keys = a.key_out,
                         .sums = a.sum_out,
                         .place = sent(&c, copies, place),
                         .n = n,
                         .stats = sent(&c, copies, stats)};
  if (!s->placed) x.place = y.place = NULL;
  for (int round = 0; round <= c.a.optim->n_rounds; round++) {
    x.round = y.round = round < c.a.optim->n_rounds ? round : -1;
    ck_assert_ok(ref.row_stage(&x));
    ck_assert_ok(target->row_stage(&y));
    compare(&c, copies, s);
    grow(stats, n_stats);
    target->drop(copies[c.n_arrays - 2]);
    copies[c.n_arrays - 2] = target->send(stats, (size_t)n_stats * 4);
    y.stats = copies[c.n_arrays - 2];
  }
  for (int i = 0; i < c.n_arrays; i++) target->drop(copies[i]);
  drop(&c);
}

START_TEST(stages) {
  for (int k = 0; k < TEST_COUNT(kinds); k++)
    for (ts_dtype t = TS_F32; t <= TS_F16; t++)
      for (int d = 0; d < TEST_COUNT(dims); d++)
        check_stages(&(spec){.kind = kinds[k],
                             .dtype = t,
                             .decay = (ts_wd_mode)((d + (int)t) % 3),
                             .dim = dims[d],
                             .lengths = short_runs,
                             .n_runs = TEST_COUNT(short_runs),
                             .placed = d % 2,
                             .keep = true});
}
END_TEST

/* Tables [0, MANY), some of them without rows. */
static void check_many_tables(int many) {
  enum { MOST = 300, DIM = 20 };
  ts_kernels ref;
  update_case c;
  void *copies[ARRAYS_MAX];
  int64_t base[MOST + 1], first_row[MOST];
  int32_t row_dim[MOST], id[MOST], first_col[MOST];
  ts_row_hyper hyper[MOST];
  const spec s = {.kind = "partial_rowwise_adam",
                  .dtype = TS_F16,
                  .dim = DIM,
                  .lengths = short_runs,
                  .n_runs = TEST_COUNT(short_runs)};
  test_kernels(&ref, 0);
  make(&c, &s);
  for (int t = 0; t < many; t++) {
    base[t] = many <= ROWS ? t : t * ROWS / many;
    first_row[t] = 1000 * t;
    row_dim[t] = DIM, id[t] = t, first_col[t] = 0;
    hyper[t] = c.hyper[0];
    hyper[t].lr = 0.01f * (float)(t + 1);
  }
  base[many] = ROWS;
  c.a.row_base = base, c.a.n_tables = many, c.a.hyper = hyper;
  c.a.row_dim = row_dim, c.a.table_id = id;
  c.a.first_row = first_row, c.a.first_col = first_col;
  const ts_row_update_args a = send_all(&c, copies);
  ck_assert_ok(target->row_update(&a));
  ck_assert_ok(ref.row_update(&c.a));
  compare(&c, copies, &s);
  for (int i = 0; i < c.n_arrays; i++) target->drop(copies[i]);
  drop(&c);
}

/* As many as go with a small launch, with a large one, with more of them. */
START_TEST(many_tables) {
  static const int n[] = {32, 33, 75, 256, 300};
  for (int i = 0; i < TEST_COUNT(n); i++) check_many_tables(n[i]);
}
END_TEST

/* ---- sort ---------------------------------------------------------------- */

static void check_sort(int64_t n, int bits) {
  uint64_t seed = (uint64_t)n + (uint64_t)bits;
  ts_kernels ref;
  uint32_t *x[4];
  void *y[4];
  test_kernels(&ref, 0);
  for (int i = 0; i < 4; i++) x[i] = test_alloc(n, 4);
  for (int64_t i = 0; i < n; i++) {
    x[0][i] = bits ? test_random(&seed) >> (32 - bits) : 0;
    x[2][i] = (uint32_t)i;
  }
  for (int i = 0; i < 4; i++) y[i] = target->send(x[i], (size_t)n * 4);
  ts_sort_args a = {.keys = x[0],
                    .keys_scratch = x[1],
                    .values = x[2],
                    .values_scratch = x[3],
                    .n = n,
                    .n_bits = bits};
  ck_assert_ok(ref.sort(&a));
  a.keys = y[0], a.keys_scratch = y[1];
  a.values = y[2], a.values_scratch = y[3];
  ck_assert_ok(target->sort(&a));
  for (int i = 0; i < 4; i += 2) {
    target->fetch(x[i + 1], y[i], (size_t)n * 4);
    ck_assert_mem_eq(x[i], x[i + 1], (size_t)n * 4);
  }
  for (int i = 0; i < 4; i++) {
    target->drop(y[i]);
    free(x[i]);
  }
}

START_TEST(sorts) {
  static const int bits[] = {0, 1, 7, 8, 9, 16, 20, 24, 25, 31, 32};
  static const int64_t sizes[] = {0, 1, 2, 100, 5000, 300000, 1000001};
  if (!target->sort) return;
  for (int b = 0; b < TEST_COUNT(bits); b++)
    for (int s = 0; s < TEST_COUNT(sizes); s++) check_sort(sizes[s], bits[b]);
}
END_TEST

Suite *cuda_update_suite(const char *name, const update_target *t) {
  const TTest *const tests[] = {formulas, long_sums,   long_ends,
                                grids,    corners,     lines,
                                stages,   many_tables, sorts};
  Suite *suite = suite_create(name);
  TCase *all = tcase_create(name);
  target = t;
  for (int i = 0; i < TEST_COUNT(tests); i++) tcase_add_test(all, tests[i]);
  if (t->start) tcase_add_unchecked_fixture(all, t->start, t->stop);
  suite_add_tcase(suite, all);
  return suite;
}
