/* cuda_update.c - cases of row updates: every optimizer, type of rows, way of
 * weight decay, length of runs and width, by the host's reference and by a
 * target; what both leave behind has to be the same bytes. */
#include "tests/kernels/cuda_update_case.h"

/* ---- updates ------------------------------------------------------------- */

static void check_update(const spec *s) {
  ts_kernels ref;
  update_case c;
  void *copies[ARRAYS_MAX];
  test_kernels(&ref, 0);
  update_make(&c, s);
  const ts_row_update_args a = update_send(&c, copies);
  ck_assert_ok(update_tested->row_update(&a));
  ck_assert_ok(ref.row_update(&c.a));
  update_compare(&c, copies, s);
  for (int i = 0; i < c.n_arrays; i++) update_tested->drop(copies[i]);
  update_drop(&c);
}

/* Places from PLACES / 2 on lie in arrays of their own: there all of them are
 * as the reference has them, the others as they were; in the first arrays it
 * is the other way. */
static void same_parts(const void *before, const void *after, const void *got,
                       const void *lines, int64_t bytes, const spec *s) {
  char *x = test_alloc(PLACES * bytes, 1);
  const size_t half = (size_t)(PLACES / 2 * bytes);
  update_tested->fetch(x, got, 2 * half);
  update_same(x, after, half, "rows", s);
  update_same(x + half, (const char *)before + half, half, "rows behind", s);
  update_tested->fetch(x, lines, 2 * half);
  update_same(x, before, half, "lines before", s);
  update_same(x + half, (const char *)after + half, half, "lines", s);
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
  for (int i = 0; i < n; i++) got[i] = update_sent(c, copies, rows[i]);
  return n;
}

static void check_lines(const spec *s) {
  ts_kernels ref;
  update_case c;
  void *copies[ARRAYS_MAX], *rows[3], *before[3], *lines[3];
  const void *got[3];
  int64_t bytes[3];
  test_kernels(&ref, 0);
  update_make(&c, s);
  ts_row_update_args a = update_send(&c, copies);
  const int n = placed(&c, copies, rows, got, bytes);
  for (int i = 0; i < n; i++) {
    before[i] = test_alloc(PLACES * bytes[i], 1);
    memcpy(before[i], rows[i], (size_t)(PLACES * bytes[i]));
    lines[i] = update_tested->send(rows[i], (size_t)(PLACES * bytes[i]));
    void *first = (char *)lines[i] + PLACES / 2 * bytes[i];
    if (i == 0) a.lines = first;
    for (int k = 0; i && k < c.a.optim->n_states; k++)
      if (rows[i] == (void *)c.a.state[k]) a.line_state[k] = first;
  }
  a.first_line = PLACES / 2;
  ck_assert_ok(update_tested->row_update(&a));
  ck_assert_ok(ref.row_update(&c.a));
  for (int i = 0; i < n; i++) {
    same_parts(before[i], rows[i], got[i], lines[i], bytes[i], s);
    update_tested->drop(lines[i]);
    free(before[i]);
  }
  for (int i = 0; i < c.n_arrays; i++) update_tested->drop(copies[i]);
  update_drop(&c);
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
  if (!update_tested->set_blocks) return;
  for (int blocks = 1; blocks < 12; blocks += 2) {
    update_tested->set_blocks(blocks);
    for (int d = 0; d < TEST_COUNT(dims); d++)
      check_update(&(spec){.kind = "rowwise_adagrad",
                           .dim = dims[d],
                           .lengths = long_runs,
                           .n_runs = TEST_COUNT(long_runs),
                           .keep = blocks == 5});
  }
  update_tested->set_blocks(3);
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
  update_make(&c, s);
  ck_assert_ok(ref.row_update(&c.a));
  const int64_t n = *c.a.n_out, n_stats = n * TS_ROW_STATS_MAX;
  float *stats = update_add(&c, n_stats, 4);
  uint32_t *place = update_add(&c, n, 4);
  for (int64_t r = 0; r < n; r++) place[r] = (c.a.key_out[r] * 7 + 50) % PLACES;
  const ts_row_update_args a = update_send(&c, copies);
  ts_row_stage_args x = {&c.a, c.a.key_out, c.a.sum_out, place, n, stats, 0};
  ts_row_stage_args y = {.update = &a,
                         .keys = a.key_out,
                         .sums = a.sum_out,
                         .place = update_sent(&c, copies, place),
                         .n = n,
                         .stats = update_sent(&c, copies, stats)};
  if (!s->placed) x.place = y.place = NULL;
  for (int round = 0; round <= c.a.optim->n_rounds; round++) {
    x.round = y.round = round < c.a.optim->n_rounds ? round : -1;
    ck_assert_ok(ref.row_stage(&x));
    ck_assert_ok(update_tested->row_stage(&y));
    update_compare(&c, copies, s);
    grow(stats, n_stats);
    update_tested->drop(copies[c.n_arrays - 2]);
    copies[c.n_arrays - 2] = update_tested->send(stats, (size_t)n_stats * 4);
    y.stats = copies[c.n_arrays - 2];
  }
  for (int i = 0; i < c.n_arrays; i++) update_tested->drop(copies[i]);
  update_drop(&c);
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
  update_make(&c, &s);
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
  const ts_row_update_args a = update_send(&c, copies);
  ck_assert_ok(update_tested->row_update(&a));
  ck_assert_ok(ref.row_update(&c.a));
  update_compare(&c, copies, &s);
  for (int i = 0; i < c.n_arrays; i++) update_tested->drop(copies[i]);
  update_drop(&c);
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
  for (int i = 0; i < 4; i++) y[i] = update_tested->send(x[i], (size_t)n * 4);
  ts_sort_args a = {.keys = x[0],
                    .keys_scratch = x[1],
                    .values = x[2],
                    .values_scratch = x[3],
                    .n = n,
                    .n_bits = bits};
  ck_assert_ok(ref.sort(&a));
  a.keys = y[0], a.keys_scratch = y[1];
  a.values = y[2], a.values_scratch = y[3];
  ck_assert_ok(update_tested->sort(&a));
  for (int i = 0; i < 4; i += 2) {
    update_tested->fetch(x[i + 1], y[i], (size_t)n * 4);
    ck_assert_mem_eq(x[i], x[i + 1], (size_t)n * 4);
  }
  for (int i = 0; i < 4; i++) {
    update_tested->drop(y[i]);
    free(x[i]);
  }
}

START_TEST(sorts) {
  static const int bits[] = {0, 1, 7, 8, 9, 16, 20, 24, 25, 31, 32};
  static const int64_t sizes[] = {0, 1, 2, 100, 5000, 300000, 1000001};
  if (!update_tested->sort) return;
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
  update_tested = t;
  for (int i = 0; i < TEST_COUNT(tests); i++) tcase_add_test(all, tests[i]);
  if (t->start) tcase_add_unchecked_fixture(all, t->start, t->stop);
  suite_add_tcase(suite, all);
  return suite;
}
