/* update.c - the contract of row_update and row_stage, bit for bit: every
 * optimizer, type of rows, way of weight decay, length of runs and width.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 600 */
#include <stdlib.h>

#include "tests/kernels/update.h"

enum { ARRAYS = 1 + TS_ROW_STATES_MAX };

/* ---- updates ------------------------------------------------------------- */

static void check_update(const spec *s) {
  update_case c;
  update_make(&c, s);
  kt_check(update_run, &c);
}

/* Arrays that have a row for each place: weights, states. */
static int placed(const update_case *c, void **rows, void **lines,
                  int64_t *bytes) {
  int n = 0;
  rows[n] = c->a.weight;
  lines[n] = c->lines;
  bytes[n++] = ts_row_bytes(c->a.dtype, c->a.dim);
  for (int k = 0; k < c->a.optim->n_states; k++) {
    if (c->a.optim->state[k].per_row) continue;
    rows[n] = c->a.state[k];
    lines[n] = c->line_state[k];
    bytes[n++] = c->a.dim * (int64_t)4;
  }
  return n;
}

/* Places from PLACES / 2 on lie in arrays of their own: there all of them are
 * as the oracle has them; in the first arrays they stay. */
static void look_lines(const void *arg) {
  const update_case *c = arg;
  void *rows[ARRAYS], *lines[ARRAYS];
  int64_t bytes[ARRAYS];
  const int n = placed(c, rows, lines, bytes);
  for (int i = 0; i < n; i++) {
    const size_t half = (size_t)(PLACES / 2 * bytes[i]);
    const char *was = rows[i], *ref = kt_ref(rows[i]), *got = kt_got(rows[i]);
    ck_assert_mem_eq(got, ref, half);
    ck_assert_mem_eq(got + half, kt_apart() ? was + half : ref + half, half);
    if (kt_apart()) ck_assert_mem_eq(kt_got(lines[i]), ref + half, half);
  }
}

static void check_lines(const spec *s) {
  update_case c;
  void *rows[ARRAYS], *lines[ARRAYS];
  int64_t bytes[ARRAYS];
  update_make(&c, s);
  const int n = placed(&c, rows, lines, bytes);
  for (int i = 0, k = 0; i < n; i++) {
    const int64_t half = PLACES / 2 * bytes[i];
    void *copy = kt_copy((char *)rows[i] + half, half, 1);
    while (i && rows[i] != (void *)c.a.state[k]) k++;
    if (i)
      c.line_state[k] = copy;
    else
      c.lines = copy;
    kt_compare(rows[i], KT_OWN);
    kt_compare(copy, KT_OWN);
  }
  kt_look(look_lines);
  kt_check(update_run, &c);
}

static const int32_t dims[] = {1, 4, 20, 64, 100, 128, 260};
static const int short_runs[] = {1, 2, 31, 1, 1, 33, 3, 1};
static const int long_runs[] = {1, 255, 2, 257, 1, 31, 5000, 256, 33, 513, 1};

KT_CONTRACT("row_update row_stage average_rows fetch put")

/* Each setting meets one dim in two; one in four where sanitizers make a case
 * dear. */
static int every(void) {
  return getenv("TESSERA_SANITIZED") ? 4 : 2;
}

/* Every formula on narrow and wide rows; any two settings meet. */
TS_TEST(formulas) {
  for (int k = 0; k < UPDATE_KINDS; k++)
    for (ts_dtype t = TS_F32; t <= TS_INT4; t++)
      for (int decay = 0; decay < 3; decay++)
        for (int d = (k + (int)t + decay) % every(); d < TEST_COUNT(dims);
             d += every())
          check_update(&(spec){.kind = update_kinds[k],
                               .dtype = t,
                               .decay = (ts_wd_mode)decay,
                               .dim = dims[d],
                               .lengths = short_runs,
                               .n_runs = TEST_COUNT(short_runs),
                               .placed = d % 2});
}

/* Rows that are cut to a norm: held by a group of lanes or wide, of one entry
 * or of many, in two places.  Any two settings meet. */
TS_TEST(norms) {
  for (int k = 0; k < UPDATE_KINDS; k++)
    for (ts_dtype t = TS_F32; t <= TS_INT4; t++)
      for (int d = (k + (int)t) % every(); d < TEST_COUNT(dims); d += every()) {
        const bool longer = (d / 2 + k) % 2;
        const spec s = {.kind = update_kinds[k],
                        .dtype = t,
                        .decay = (ts_wd_mode)(d % 3),
                        .dim = dims[d],
                        .lengths = longer ? long_runs : short_runs,
                        .n_runs = longer ? TEST_COUNT(long_runs)
                                         : TEST_COUNT(short_runs),
                        .placed = true,
                        .shift = d % 4 == 1,
                        .caps = true,
                        .scores = (d / 2 + (int)t) % 2};
        check_update(&s);
        if (d % 3 == 0) check_lines(&s);
      }
}

/* Rows in few bits whose last byte or word is not whole, held or wide. */
TS_TEST(odd_rows) {
  static const int32_t odd[] = {3, 5, 34, 61, 127, 131, 190};
  for (int d = 0; d < TEST_COUNT(odd); d++)
    for (ts_dtype t = TS_INT8; t <= TS_INT4; t++)
      for (int means = 0; means < 2; means++) {
        const spec s = {.kind = update_kinds[(d + means) % UPDATE_KINDS],
                        .dtype = t,
                        .dim = odd[d],
                        .lengths = d % 2 ? long_runs : short_runs,
                        .n_runs = d % 2 ? TEST_COUNT(long_runs)
                                        : TEST_COUNT(short_runs),
                        .placed = true,
                        .caps = d % 3 == 0,
                        .means = means};
        check_update(&s);
        check_lines(&s);
      }
}

/* Rows with running means: of every optimizer, held or wide, in two places;
 * any two settings meet. */
TS_TEST(means) {
  for (int k = 0; k < UPDATE_KINDS; k++)
    for (ts_dtype t = TS_F32; t <= TS_INT4; t++)
      for (int d = (k + (int)t) % every(); d < TEST_COUNT(dims); d += every()) {
        const bool longer = (d / 2 + k) % 2;
        const spec s = {.kind = update_kinds[k],
                        .dtype = t,
                        .dim = dims[d],
                        .lengths = longer ? long_runs : short_runs,
                        .n_runs = longer ? TEST_COUNT(long_runs)
                                         : TEST_COUNT(short_runs),
                        .placed = d % 3,
                        .keep = d % 5 == 4,
                        .caps = d % 2,
                        .means = true};
        check_update(&s);
        if (d % 3 == 1) check_lines(&s);
      }
}

/* Every way to name entries, with runs of many pieces. */
TS_TEST(long_sums) {
  for (int d = 0; d < TEST_COUNT(dims); d++)
    for (int mode = 0; mode < 16; mode++)
      check_update(&(spec){.kind = update_kinds[2 + (mode + d) % 6],
                           .dtype = (ts_dtype)(mode % 5),
                           .decay = (ts_wd_mode)(mode % 2),
                           .dim = dims[d],
                           .lengths = long_runs,
                           .n_runs = TEST_COUNT(long_runs),
                           .weighted = mode & 1,
                           .mean = mode & 2,
                           .placed = mode & 4,
                           .keep = mode & 8,
                           .scores = mode % 3,
                           .shift = mode % 5});
}

/* Every optimizer ends runs of many pieces. */
TS_TEST(long_ends) {
  for (int k = 0; k < UPDATE_KINDS; k++)
    for (int d = 0; d < TEST_COUNT(dims); d += 2)
      check_update(&(spec){.kind = update_kinds[k],
                           .dtype = (ts_dtype)(k % 5),
                           .decay = TS_WD_L2,
                           .dim = dims[d],
                           .lengths = (const int[]){257, 1, 600},
                           .n_runs = 3,
                           .scores = true,
                           .placed = true});
}

/* Rows of a grid that goes on with its stride, or need not. */
TS_TEST(grids) {
  for (int d = 0; d < TEST_COUNT(dims); d++)
    for (int keep = 0; keep < 2; keep++)
      check_update(&(spec){.kind = "rowwise_adagrad",
                           .dim = dims[d],
                           .lengths = long_runs,
                           .n_runs = TEST_COUNT(long_runs),
                           .keep = keep});
}

/* One run alone, of each length; one entry; none. */
TS_TEST(corners) {
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

/* Rows in two places, of every optimizer. */
TS_TEST(lines) {
  for (int k = 0; k < UPDATE_KINDS; k++)
    for (ts_dtype t = TS_F32; t <= TS_INT4; t++)
      for (int d = 0; d < TEST_COUNT(dims); d += 2)
        check_lines(&(spec){.kind = update_kinds[k],
                            .dtype = t,
                            .dim = dims[d],
                            .lengths = d % 4 ? short_runs : long_runs,
                            .n_runs = TEST_COUNT(short_runs),
                            .scores = k % 2,
                            .placed = true});
}

/* ---- stages -------------------------------------------------------------- */

typedef struct stage_case {
  update_case u;
  float *stats;
  uint32_t *place;
  int64_t n;
} stage_case;

/* After each round statistics grow, as if by another shard's. */
static ts_err grow(const ts_kernels *k, float *stats, int64_t n) {
  float own[RUNS_MAX * TS_ROW_STATS_MAX];
  const ts_err err = k->fetch(own, stats, (size_t)n * 4);
  for (int64_t i = 0; i < n; i++) own[i] *= 1.25f;
  return err == TS_OK ? k->put(stats, own, (size_t)n * 4) : err;
}

static ts_err run_stages(const ts_kernels *k, const void *arg) {
  const stage_case *c = arg;
  const ts_row_update_args a = update_args(&c->u);
  float *stats = kt_at(c->stats);
  ts_row_stage_args x = {&a,   a.key_out, a.sum_out, kt_at(c->place),
                         c->n, stats,     0};
  ts_err err = k->row_update(&a);
  for (int r = 0; r <= a.optim->n_rounds && err == TS_OK; r++) {
    x.round = r < a.optim->n_rounds ? r : -1;
    TS_TRY(k->row_stage(&x));
    kt_step(k, "a stage");
    TS_TRY(grow(k, stats, c->n * TS_ROW_STATS_MAX));
  }
done:
  return err;
}

static void check_stages(const spec *s) {
  stage_case c = {.n = s->n_runs};
  update_make(&c.u, s);
  const ts_row_update_args *a = &c.u.a;
  c.stats = kt_zeros(c.n * TS_ROW_STATS_MAX, 4);
  uint32_t *place = kt_array(c.n, 4, 0);
  for (int64_t j = 0, r = 0; j < a->n; j++)
    if (!j || a->keys[j] != a->keys[j - 1])
      place[r++] = (a->keys[j] * 7 + 50) % PLACES;
  c.place = s->placed ? place : NULL;
  kt_check(run_stages, &c);
  ck_assert_int_eq(*(int64_t *)kt_ref(a->n_out), c.n);
}

TS_TEST(stages) {
  for (int k = 0; k < UPDATE_KINDS; k++)
    for (ts_dtype t = TS_F32; t <= TS_F16; t++)
      for (int d = 0; d < TEST_COUNT(dims); d++)
        check_stages(&(spec){.kind = update_kinds[k],
                             .dtype = t,
                             .decay = (ts_wd_mode)((d + (int)t) % 3),
                             .dim = dims[d],
                             .lengths = short_runs,
                             .n_runs = TEST_COUNT(short_runs),
                             .placed = d % 2,
                             .keep = true});
}

TS_TEST(stages_of_means) {
  for (int k = 0; k < UPDATE_KINDS; k++)
    for (int d = 0; d < TEST_COUNT(dims); d++)
      check_stages(&(spec){.kind = update_kinds[k],
                           .dtype = (ts_dtype)((d + k) % 3),
                           .dim = dims[d],
                           .lengths = short_runs,
                           .n_runs = TEST_COUNT(short_runs),
                           .placed = d % 2,
                           .keep = true,
                           .means = true});
}

/* ---- means --------------------------------------------------------------- */

static ts_err run_means(const ts_kernels *k, const void *arg) {
  const ts_average_rows_args *c = arg;
  ts_average_rows_args a = *c;
  if (!kt_apart()) a.lines = NULL, a.ema_lines = NULL;
  kt_at_all(&a, sizeof a);
  return k->average_rows(&a);
}

/* Rows of U by KEYS, by PLACE, in two places, or all in order where they lie.
 */
static void check_means(const update_case *u, bool keys, bool place,
                        bool lines) {
  enum { N = 200 };
  const ts_row_update_args *x = &u->a;
  const int64_t n = keys ? N : ROWS, dim = x->dim, half = PLACES / 2;
  const int64_t row = ts_row_bytes(x->dtype, x->dim);
  ts_average_rows_args a = {.weight = x->weight,
                            .ema = x->state[u->own.n_states - 2],
                            .ema_pass = x->state[u->own.n_states - 1],
                            .n = n,
                            .dtype = x->dtype,
                            .dim = x->dim,
                            .decay = 0.95,
                            .pass = 1004};
  uint32_t *k = kt_array(n, 4, 0), *p = kt_array(n, 4, 0);
  for (int64_t i = 0; i < n; i++) k[i] = (uint32_t)(i * 31 % ROWS);
  for (int64_t i = 0; i < n; i++) p[i] = (k[i] * 7 + 50) % PLACES;
  a.out = keys ? kt_zeros(n, (int)row) : x->weight;
  a.index = keys ? kt_zeros(n, 4) : NULL;
  a.keys = keys ? k : NULL;
  a.place = place ? p : NULL;
  if (lines) {
    a.first_line = PLACES / 2;
    a.lines = kt_copy((char *)x->weight + half * row, half * row, 1);
    a.ema_lines = kt_copy((float *)a.ema + half * dim, half * dim, 4);
  }
  kt_check(run_means, &a);
  for (int64_t i = 0; keys && i < n; i++)
    ck_assert_int_eq(((uint32_t *)kt_ref(a.index))[i], i);
}

TS_TEST(means_of_rows) {
  for (ts_dtype t = TS_F32; t <= TS_INT4; t++)
    for (int d = 0; d < TEST_COUNT(dims); d++)
      for (int way = 0; way < 4; way++) {
        update_case u;
        update_make(&u, &(spec){.kind = update_kinds[d],
                                .dtype = t,
                                .dim = dims[d],
                                .lengths = short_runs,
                                .n_runs = TEST_COUNT(short_runs),
                                .means = true});
        check_means(&u, way > 0, way > 1, way > 2);
      }
}

/* Tables [0, MANY), some of them without rows. */
static void check_many_tables(int many) {
  enum { MOST = 300, DIM = 20 };
  update_case c;
  int64_t base[MOST + 1], first_row[MOST];
  int32_t row_dim[MOST], id[MOST], first_col[MOST];
  ts_row_hyper hyper[MOST];
  update_make(&c, &(spec){.kind = "partial_rowwise_adam",
                          .dtype = TS_F16,
                          .dim = DIM,
                          .lengths = short_runs,
                          .n_runs = TEST_COUNT(short_runs)});
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
  kt_check(update_run, &c);
}

/* As many as go with a small launch, with a large one, with more of them. */
TS_TEST(many_tables) {
  static const int n[] = {32, 33, 75, 256, 300};
  for (int i = 0; i < TEST_COUNT(n); i++) check_many_tables(n[i]);
}

/* N numbers, none below zero. */
static float *many_floats(int64_t n, uint64_t seed) {
  float *x = kt_array(n, 4, 0);
  test_floats(x, n, seed);
  for (int64_t i = 0; i < n; i++) x[i] = fabsf(x[i]);
  return x;
}

/* More runs than a grid has groups of lanes, 32 times over: each has many, of
 * several tables, and goes on with its stride.  Some have more entries. */
static void check_many_runs(const char *kind, int32_t dim) {
  enum { MANY = 2300, ENTRIES = 3 * MANY };
  static const int64_t base[TABLES + 1] = {0, 100, 100, 1337, MANY};
  update_case c;
  update_make(&c, &(spec){.kind = kind,
                          .dim = dim,
                          .lengths = short_runs,
                          .n_runs = TEST_COUNT(short_runs)});
  uint32_t *keys = kt_array(ENTRIES, 4, 0), *order = kt_array(ENTRIES, 4, 0);
  int64_t n = 0;
  for (uint32_t r = 0; r < MANY; r++)
    for (int k = r % 7 == 3 ? (r % 5 ? 2 : 35) : 1; k > 0; k--, n++) {
      ck_assert_int_lt(n, ENTRIES);
      keys[n] = r;
      order[n] = (uint32_t)(n * 7919 % BAGS);
    }
  c.a.row_base = base;
  c.a.keys = keys, c.a.order = order, c.a.n = n;
  c.a.weight = many_floats((int64_t)MANY * dim, 31);
  for (int k = 0; k < c.a.optim->n_states; k++)
    c.a.state[k] =
        many_floats(c.a.optim->state[k].per_row ? MANY : MANY * dim, 32);
  kt_check(update_run, &c);
}

TS_TEST(many_runs) {
  check_many_runs("rowwise_adagrad", 8);
  check_many_runs("rowwise_adagrad", 36);
  check_many_runs("rowwise_adagrad", 128);
  check_many_runs("adam", 100);
}
