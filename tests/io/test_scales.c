/* test_scales.c - what numbers become on their way into the model: each
 * transform and bucketise against a plain reference, of all formats; what is
 * learnt is the same on any number of ranks.  ranks: 1 2 4 */
#include "io/scales.h"

#include <math.h>

#include "base/dense_columns.h"
#include "base/hash.h"
#include "io/permuted.h"
#include "tests/io/columns_rig.h"
#include "tests/support/hostile_files.h"

TS_EACH_TEST_BETWEEN(folder_start, folder_stop)

enum { ROWS = 60, WIDTH = 12 };

/* ---- a plain reference --------------------------------------------------- */

static double x[ROWS]; /* of the file; NAN: missing */
static double sorted[ROWS];
static int n_known;

static int rising(const void *first, const void *second) {
  const double p = *(const double *)first, q = *(const double *)second;
  return (p > q) - (p < q);
}

/* The N first are trained on. */
static void learn_from(int n) {
  n_known = 0;
  for (int i = 0; i < n; i++)
    if (!isnan(x[i])) sorted[n_known++] = x[i];
  qsort(sorted, (size_t)n_known, sizeof *sorted, rising);
}

static double percentile(double p) {
  const double at = p * (n_known - 1);
  const int i = (int)floor(at);
  if (i == n_known - 1) return sorted[i];
  return sorted[i] * (1 - (at - i)) + sorted[i + 1] * (at - i);
}

/* numpy's: of points that are alike the last. */
static double interp(double at, const double *xp, const double *fp, int n) {
  int j = -1;
  while (j + 1 < n && xp[j + 1] <= at) j++;
  if (j < 0) return fp[0];
  if (j == n - 1) return fp[n - 1];
  return fp[j] + (fp[j + 1] - fp[j]) * (at - xp[j]) / (xp[j + 1] - xp[j]);
}

/* As scikit-learn's QuantileTransformer has it. */
static double quantile_transform(double at, int bins) {
  double q[64], r[64], back_q[64], back_r[64];
  const int n = bins < n_known ? bins : n_known;
  for (int i = 0; i < n; i++) {
    r[i] = (double)i / (n - 1);
    q[i] = percentile(r[i]);
  }
  for (int i = 0; i < n; i++) {
    back_q[i] = -q[n - 1 - i];
    back_r[i] = -r[n - 1 - i];
  }
  if (at <= q[0]) return 0;
  if (at >= q[n - 1]) return 1;
  return 0.5 * (interp(at, q, r, n) - interp(-at, back_q, back_r, n));
}

static int distinct(double *edges, int n) {
  int to = 0;
  for (int i = 0; i < n; i++)
    if (!to || edges[i] > edges[to - 1]) edges[to++] = edges[i];
  return to;
}

/* rtdl's: the first goes on downwards, the last upwards. */
static void piecewise(double *to, int outputs, double at, const double *edges,
                      int n) {
  for (int t = 0; t < outputs; t++) {
    to[t] = 0;
    if (t + 1 >= n) continue;
    to[t] = (at - edges[t]) / (edges[t + 1] - edges[t]);
    if (t > 0 && to[t] < 0) to[t] = 0;
    if (t + 2 < n && to[t] > 1) to[t] = 1;
  }
}

static void scaled(double *mean, double *deviation, bool log) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n_known; i++)
    sum += log ? log1p(fmax(sorted[i], 0)) : sorted[i];
  *mean = sum / n_known;
  for (int i = 0; i < n_known; i++) {
    const double y = log ? log1p(fmax(sorted[i], 0)) : sorted[i];
    squares += (y - *mean) * (y - *mean);
  }
  *deviation = sqrt(squares / n_known);
}

static const double given[] = {-1, 0.5, 2};

static void reference(double row[WIDTH], double at) {
  double mean, deviation, edges[4];
  const double log = log1p(fmax(at, 0)), low = sorted[0];
  for (int d = 0; d < WIDTH; d++) row[d] = 0;
  if (isnan(at)) return;
  row[0] = at;
  row[1] = log;
  scaled(&mean, &deviation, false);
  row[2] = (at - mean) / deviation;
  scaled(&mean, &deviation, true);
  row[3] = (log - mean) / deviation;
  row[4] = quantile_transform(at, 7);
  row[5] = (at - low) / (sorted[n_known - 1] - low);
  row[5] = row[5] < 0 ? 0 : row[5] > 1 ? 1 : row[5];
  row[6] = at < -1 ? -1 : at > 2 ? 2 : at;
  for (int i = 0; i <= 3; i++) edges[i] = percentile(i / 3.0);
  piecewise(row + 7, 3, at, edges, distinct(edges, 4));
  piecewise(row + 10, 2, at, given, 3);
}

static int64_t bucket(double at, const double *edges, int n) {
  int64_t row = 1;
  if (isnan(at)) return 0;
  for (int i = 0; i < n; i++) row += edges[i] <= at;
  return row;
}

/* The rows of the batch from FIRST on of AT. */
static void check_rows(const double *at, int n) {
  const ts_batch *r = ts_batch_store_batch(b);
  double row[WIDTH], edges[4];
  ck_assert_int_eq(r->n_dense, WIDTH);
  ck_assert_int_eq(r->n, n);
  for (int i = 0; i < n; i++) {
    reference(row, at[i]);
    for (int d = 0; d < WIDTH; d++) {
      const double is = (double)r->dense[i * WIDTH + d];
      ck_assert_msg(fabs(is - row[d]) <= 1e-6 * fmax(1, fabs(row[d])),
                    "row %d, %g: number %d is %.9g, not %.9g", i, at[i], d, is,
                    row[d]);
    }
    for (int k = 1; k < 5; k++) edges[k - 1] = percentile(k / 5.0);
    ck_assert_int_eq(r->kjt.features[0].ids[i],
                     bucket(at[i], edges, distinct(edges, 4)));
    ck_assert_int_eq(r->kjt.features[1].ids[i], bucket(at[i], given, 3));
  }
}

/* ---- decks --------------------------------------------------------------- */

#define DENSE(name, from, more)                                                \
  "{ name = \"" name "\"; kind = \"dense\"; from = \"" from "\"; " more "}, "
#define BUCKET(name, from, more)                                               \
  "{ name = \"" name "\"; kind = \"ids\"; from = \"" from                      \
  "\"; encoding = \"bucketise\"; " more "}"
#define ALL(from)                                                              \
  DENSE("a", from, "transform = \"none\"; ")                                   \
  DENSE("b", from, "transform = \"log1p\"; ")                                  \
  DENSE("c", from, "transform = \"standardise\"; ")                            \
  DENSE("d", from, "transform = \"log1p_standardise\"; ")                      \
  DENSE("e", from, "transform = \"quantile\"; bins = 7; ")                     \
  DENSE("f", from, "transform = \"min_max\"; ")                                \
  DENSE("g", from, "transform = \"clip\"; min = -1; max = 2; ")                \
  DENSE("h", from, "transform = \"piecewise_linear\"; bins = 3; ")             \
  DENSE("i", from,                                                             \
        "transform = \"piecewise_linear\"; edges = [-1.0, 0.5, "               \
        "2.0]; ")                                                              \
  BUCKET("u", from, "bins = 5; ")                                              \
  ", " BUCKET("v", from, "edges = [-1.0, 0.5, 2.0]; ")
#define TABLES TABLE("auto", "u") ", " TABLE("auto", "v")

static double draw(uint64_t i) {
  return (double)(ts_mix64(i + 77) >> 11) * 0x1p-53;
}

/* X, ROWS of it, to FILE. */
static void write_csv(const char *file) {
  char text[ROWS * 32 + 32];
  char *to = stpcpy(text, "y,x\n");
  for (int i = 0; i < ROWS; i++)
    to += isnan(x[i]) ? sprintf(to, "%d,\n", i % 2)
                      : sprintf(to, "%d,%.17g\n", i % 2, x[i]);
  write_file(file, text);
}

/* Many are alike, some are missing, some less than 0. */
static void make_numbers(uint64_t seed, double scale) {
  for (int i = 0; i < ROWS; i++) {
    const double u = draw(seed + (uint64_t)i);
    x[i] = u < 0.1   ? NAN
           : u < 0.4 ? 0
                     : scale * (5 * draw(seed + 1000u + (uint64_t)i) - 2);
  }
}

/* What S has learnt is what one rank alone learns. */
static void as_alone(void) {
  ts_comm *own;
  ts_source *alone;
  ts_str text = {0};
  said.n_bytes = 0;
  ck_assert_ok(s->ops->state_save(s, &said));
  ck_assert_ok(ts_comm_create_block(f.world, &own, 1, "own"));
  ck_assert_ok(ts_source_open_only(&alone, c, TS_SPLIT_TRAIN, NULL, own));
  ck_assert_ok(alone->ops->state_save(alone, &text));
  ck_assert_str_eq(text.text, said.text);
  ck_assert_ptr_nonnull(strstr(text.text, "\nB "));
  ts_source_close(alone);
  ts_comm_destroy(own);
  ts_str_reset(&text);
}

/* ---- formats ------------------------------------------------------------- */

TS_TEST(csv) {
  make_numbers(0, 1);
  write_csv("a.csv");
  ck_assert_ok(take_deck(CSV "eval = \"b.csv\"; csv = { label = \"y\"; };",
                         ALL("x"), TABLES, 9));
  ck_assert_int_eq(ts_dense_width(c), WIDTH);
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_int_eq(c->tables[0].rows, 6);
  ck_assert_int_eq(c->tables[1].rows, 5);
  learn_from(ROWS);
  ck_assert_ok(read_all());
  check_rows(x, ROWS);
  const int64_t some[] = {59, 3, 17};
  const double those[] = {x[59], x[3], x[17]};
  ck_assert_ok(s->ops->gather(s, b, some, 3));
  check_rows(those, 3);
  as_alone();
  /* Other data: what the first ones have taught holds. */
  make_numbers(5000, 3);
  write_csv("b.csv");
  for (int again = 0; again < 2; again++) {
    open_again();
    ck_assert_ok(s->ops->read(s, b, 0, ROWS));
    check_rows(x, ROWS);
  }
  close_it();
}

/* What is for validation teaches nothing. */
TS_TEST(split) {
  make_numbers(100, 1);
  write_csv("a.csv");
  one_set = "run.valid_every=1";
  ck_assert_ok(
      take_deck(CSV "csv = { label = \"y\"; }; split = { valid = 0.5; by = "
                    "\"tail\"; };",
                ALL("x"), TABLES, 9));
  one_set = NULL;
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  learn_from(ROWS / 2);
  ck_assert_ok(read_all());
  check_rows(x, ROWS / 2);
  as_alone();
  close_it();
}

static void make_dataset(const double at[N], bool transformed) {
  char path[96];
  const hsize_t two = 2;
  const int64_t one = 1;
  ck_assert_ok(ts_comm_barrier(f.comm));
  snprintf(path, sizeof path, "%s/a.h5", dir);
  if (f.rank == 0) {
    const hid_t file = hostile_make(path, false);
    float rows[N][2];
    for (int i = 0; i < N; i++) rows[i][0] = -9, rows[i][1] = (float)at[i];
    const hid_t set = H5Dopen2(file, "dense", H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows);
    const hid_t text = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &two, 0);
    H5Tset_size(text, 2);
    const hid_t attr = H5Acreate2(set, "names", text, space, H5P_DEFAULT, 0);
    H5Awrite(attr, text, "w\0x");
    H5Aclose(attr);
    H5Sclose(space);
    H5Tclose(text);
    H5Dclose(set);
    if (transformed)
      ck_assert_ok(ts_hdf5_put_attr(file, "transformed", H5T_NATIVE_INT64, &one,
                                    TS_ERR_DATA));
    H5Fclose(file);
  }
  ck_assert_ok(ts_comm_barrier(f.comm));
}

#define HDF "train = \"a.h5\"; format = \"dataset\";"

TS_TEST(datasets) {
  const double at[N] = {0.5, 0, -1.5, 2.25, 0, 7, 0, 1};
  for (int i = 0; i < N; i++) x[i] = at[i];
  learn_from(N);
  make_dataset(at, false);
  for (int shuffled = 0; shuffled < 2; shuffled++) { /* it is mapped then */
    ck_assert_ok(take_deck(shuffled ? HDF "shuffle = \"full\";" : HDF, ALL("x"),
                           TABLES, 9));
    ck_assert_ok(open_it(TS_SPLIT_TRAIN));
    ck_assert_int_eq(c->tables[0].rows, 5); /* 0 is two quantiles */
    ck_assert_ok(read_all());
    check_rows(x, N);
    const int64_t some[] = {7, 2, 5};
    const double those[] = {x[7], x[2], x[5]};
    ck_assert_ok(s->ops->gather(s, b, some, 3));
    check_rows(those, 3);
    as_alone();
    close_it();
  }
  /* What is for validation teaches nothing. */
  one_set = "run.valid_every=1";
  ck_assert_ok(take_deck(HDF "split = { valid = 0.5; by = \"tail\"; };",
                         ALL("x"), TABLES, 9));
  one_set = NULL;
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  learn_from(N / 2);
  ck_assert_ok(read_all());
  check_rows(x, N / 2);
  close_it();
  /* Buckets alone, of a column that is no dense input. */
  ck_assert_ok(take_deck(HDF, BUCKET("u", "x", "edges = [0.0, 1.0];"),
                         TABLE("auto", "u"), 0));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(),
                   "0 (2); 1 (2); 2 (1); 3 (3); 4 (2); 5 (3); 6 (2); 7 (3)");
  close_it();
}

TS_TEST(criteo) {
  char text[ROWS * 64], *to = text;
  for (int i = 0; i < ROWS; i++) {
    const double u = draw(300 + (uint64_t)i);
    x[i] = u < 0.1 ? NAN : floor(40 * u * u) - 3;
    to += sprintf(to, "%d\t5\t", i % 2);
    if (!isnan(x[i])) to += sprintf(to, "%.0f", x[i]);
    to += sprintf(to, "\t\t\t\t\t\t\t\t\t\t\t\ta\n");
  }
  write_file("a.tsv", text);
  learn_from(ROWS);
  ck_assert_ok(take_deck("train = \"a.tsv\"; format = \"criteo_tsv\";",
                         ALL("I2"), TABLES, 9));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_int_le(c->tables[0].rows, 6);
  ck_assert_ok(read_all());
  check_rows(x, ROWS);
  as_alone();
  close_it();
}

/* ---- what is learnt ------------------------------------------------------ */

/* More samples than a sample has, and more than a part: by several ranks and by
 * one alone. */
static void learn_many(ts_str *text, ts_comm *comm, int64_t n) {
  const double golden = 0.6180339887498949; /* steps that fill 0 to 1 evenly */
  ts_scales *many;
  int64_t first, end;
  ck_assert_ok(ts_scales_create(&many, c, NULL));
  ck_assert(ts_scales_learn_some(many));
  ck_assert_ok(ts_scales_begin(many, n, NULL, comm, &first, &end));
  for (int64_t i = first; i < end; i++)
    for (int32_t k = 0; k < ts_scales_count(many); k++)
      ck_assert_ok(
          ts_scales_learn(many, k, i, exp(fmod((double)i * golden, 1))));
  ck_assert_ok(ts_scales_settle(many, comm));
  ck_assert_ok(ts_scales_save(many, text));
  /* e^u, u in 0 to 1: the share of a number that is less is its logarithm. */
  float row[3];
  double worst = 0;
  for (double u = 0.001; u < 1; u += 0.001) {
    ts_scales_put(many, 1, exp(u), row);
    worst = fmax(worst, fabs((double)row[1] - u));
  }
  ck_assert_msg(worst < (n > TS_SCALES_SAMPLE ? 0.006 : 0.001), "off by %g",
                worst);
  ts_scales_put(many, 0, exp(1) - 1, row);
  ck_assert(fabs((double)row[0]) < 0.01);
  ts_scales_destroy(many);
}

TS_TEST(many) {
  ts_comm *own;
  ck_assert_ok(take_deck(CSV,
                         DENSE("c", "x", "transform = \"standardise\"; ")
                             DENSE("e", "x", "transform = \"quantile\"; ")
                                 BUCKET("u", "x", "bins = 9; "),
                         TABLE("auto", "u"), 2));
  ck_assert_ok(ts_comm_create_block(f.world, &own, 1, "own"));
  static const int64_t sizes[] = {2000, 70000, 300001};
  for (int i = 0; i < 3; i++) {
    ts_str all = {0}, alone = {0};
    learn_many(&all, f.comm, sizes[i]);
    learn_many(&alone, own, sizes[i]);
    ck_assert_str_eq(all.text, alone.text);
    ts_str_reset(&all);
    ts_str_reset(&alone);
  }
  ts_comm_destroy(own);
  close_it();
}

/* ---- feature importance -------------------------------------------------- */

/* What a column becomes goes to another sample together. */
TS_TEST(permuted) {
  make_numbers(900, 1);
  write_csv("a.csv");
  ck_assert_ok(take_deck(CSV "csv = { label = \"y\"; };", ALL("x"), TABLES, 9));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  learn_from(ROWS);
  ts_source *other;
  ck_assert_ok(ts_permuted_open(&other, s, "this test"));
  ck_assert_ok(ts_batch_store_create(&b, c, NULL));
  ts_permuted_choose(other, 2 + 7, 0); /* "h" */
  ck_assert_ok(other->ops->read(other, b, 0, ROWS));
  const ts_batch *r = ts_batch_store_batch(b);
  int moved = 0;
  for (int i = 0; i < ROWS; i++) {
    double own[WIDTH], row[WIDTH];
    bool found = false;
    reference(own, x[i]);
    for (int k = 0; k < ROWS && !found; k++) {
      reference(row, x[k]);
      found = true;
      for (int d = 7; d < 10; d++)
        found &= fabs((double)r->dense[i * WIDTH + d] - row[d]) < 1e-5;
      if (found) moved += fabs(row[7] + row[8] - own[7] - own[8]) > 1e-5;
    }
    ck_assert(found);
    for (int d = 0; d < WIDTH; d++)
      if (d < 7 || d >= 10)
        ck_assert(fabs((double)r->dense[i * WIDTH + d] - own[d]) < 1e-5);
  }
  ck_assert_int_gt(moved, ROWS / 4);
  ts_source_close(other);
  close_it();
}

/* ---- what can't be ------------------------------------------------------- */

TS_TEST(decks) {
#define X(more) "{ name = \"x\"; kind = \"dense\"; " more " }"
#define U(more)                                                                \
  "{ name = \"u\"; kind = \"ids\"; encoding = \"bucketise\"; " more " }"
  static const struct {
    const char *columns, *words;
  } bad[] = {
      {X("transform = \"piecewise_linear\";"), "\"x\" takes edges, or bins"},
      {X("transform = \"piecewise_linear\"; bins = 3; edges = [0.0, 1.0];"),
       "\"x\" takes edges, or bins"},
      {X("transform = \"piecewise_linear\"; bins = 1;"), "or 2 bins or more"},
      {X("transform = \"piecewise_linear\"; edges = [1.0];"),
       "\"x\" takes 2 edges or more"},
      {X("transform = \"piecewise_linear\"; edges = [0.0, 0.0];"),
       "edges of \"x\" are to rise"},
      {X("transform = \"clip\";"), "takes min, max or both"},
      {X("transform = \"clip\"; min = 2; max = 1;"), "min less than max"},
      {X("transform = \"log1p\"; min = 2;"),
       "\"x\" has min and max, which is for transform = \"clip\""},
      {X("transform = \"log1p\"; bins = 2;"), "\"x\" has bins, which is for"},
      {X("transform = \"quantile\"; edges = [0.0];"), "\"x\" has edges, which"},
      {X("transform = \"quantile\"; bins = 1;"), "takes 2 bins or more"},
      {X("encoding = \"bucketise\"; bins = 3;"),
       "encoding of \"x\" is for kind \"ids\""},
      {U(""), "\"u\" takes edges, or bins"},
      {U("bins = 3; edges = [0.0];"), "\"u\" takes edges, or bins"},
      {U("edges = [1.0, 0.0];"), "edges of \"u\" are to rise"},
      {U("bins = 3; part = \"hour\";"), "takes one number and no part"},
      {U("bins = 3; list_separator = \"|\";"), "and no list_separator"},
      {U("bins = 3; missing = \"word\";"), "and no missing"},
      {U("bins = 3; group = \"g\";"), "is for a vocabulary"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const bool dense = strstr(bad[i].columns, "\"dense\"") != NULL;
    const ts_err err =
        take_deck(CSV, bad[i].columns, TABLE(3, "u"), dense ? 1 : 0);
    ck_assert_msg(err == TS_ERR_DECK, "taken: %s", bad[i].columns);
    ck_assert_msg(strstr(ts_err_message(), bad[i].words), "\"%s\" not in: %s",
                  bad[i].words, ts_err_message());
    ck_assert_msg(!strchr(ts_err_message(), '\n'), "not one: %s",
                  ts_err_message());
    ts_err_clear();
    ts_deck_destroy(c);
  }
  ck_assert_int_eq(
      take_deck(CSV, U("bins = 3;"),
                "{ name = \"t\"; rows = 9; dim = 4; features = \"u\"; weighted "
                "= true; }",
                0),
      TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "no a weighted table"));
  ts_err_clear();
  ts_deck_destroy(c);
}

/* Columns that say nothing are 0, and there are bins enough. */
TS_TEST(that_say_nothing) {
  static const char columns[] = DENSE("c", "n", "transform = \"standardise\"; ")
      DENSE("e", "n", "transform = \"quantile\"; ")
          DENSE("f", "n", "transform = \"min_max\"; ")
              DENSE("h", "n", "transform = \"piecewise_linear\"; bins = 2; ")
                  BUCKET("u", "n", "bins = 3; ");
  write_file("a.csv", "label,n\n1,\n0,\n");
  ck_assert_ok(
      take_deck(CSV "eval = \"a.csv\";", columns, TABLE("auto", "u"), 4));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "1 0 0 0 0 0 (0); 0 0 0 0 0 0 (0)");
  write_file("a.csv", "label,n\n1,7\n0,8\n");
  open_again();
  ck_assert_ok(s->ops->read(s, b, 0, 2));
  ck_assert_str_eq(batch(), "1 7 0 0 0 0 (1); 0 8 0 0 0 0 (1)");
  close_it();
  write_file("a.csv", "label,n\n1,7\n0,7\n");
  ck_assert_ok(take_deck(CSV, columns, TABLE("auto", "u"), 4));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "1 0 0 0 0 0 (2); 0 0 0 0 0 0 (2)");
  close_it();
  /* Numbers that are too far apart for their difference. */
  write_file("a.csv", "label,n\n1,-1.5e308\n0,1.5e308\n1,0\n");
  ck_assert_ok(take_deck(CSV,
                         DENSE("f", "n", "transform = \"min_max\"; ")
                             DENSE("e", "n", "transform = \"quantile\"; ")
                                 BUCKET("u", "n", "bins = 2; "),
                         TABLE("auto", "u"), 2));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  ck_assert_ok(read_all());
  ck_assert_str_eq(batch(), "1 0 0 (1); 0 1 1 (2); 1 0.5 0.5 (2)");
  close_it();
}

static void refused(ts_err err, int code, const char *words) {
  ck_assert_msg(err != TS_OK, "taken, and not: %s", words);
  ck_assert_msg(strstr(ts_err_message(), words), "\"%s\" is not in: %s", words,
                ts_err_message());
  ck_assert_int_eq(ts_err_exit_code(err), code);
  ts_err_clear();
}

TS_TEST(data) {
  const double bad[N] = {1, 2, 3, INFINITY, 5, 6, 7, 8};
  make_dataset(bad, false);
  ck_assert_ok(take_deck(HDF, ALL("x"), TABLES, 9));
  refused(open_it(TS_SPLIT_TRAIN), 3,
          "sample 3: column \"a\" is inf, and transforms take finite numbers");
  close_it();
  make_dataset(bad, true);
  ck_assert_ok(take_deck(HDF, ALL("x"), TABLES, 9));
  refused(open_it(TS_SPLIT_TRAIN), 3, "went through transforms when it was");
  close_it();
  write_file("a.csv", "label,x\n1,2\n0,nan\n");
  ck_assert_ok(take_deck(CSV, ALL("x"), TABLES, 9));
  ck_assert_ok(open_it(TS_SPLIT_TRAIN));
  refused(read_all(), 3,
          "a.csv:3: column \"x\": a numeric field is no number: \"nan\"");
  close_it();
  ck_assert_ok(take_deck(CSV, ALL("x"), TABLE(5, "u") ", " TABLE(5, "v"), 9));
  write_file("a.csv", "label,x\n1,2\n0,3\n0,4\n0,5\n0,6\n0,7\n0,8\n0,9\n");
  refused(open_it(TS_SPLIT_TRAIN), 3,
          "feature u has 5 values and needs 6 rows; table u has 5");
  close_it();
}

TS_TEST(states) {
  static const char *const columns =
      DENSE("e", "x", "transform = \"quantile\"; bins = 3; ")
          DENSE("h", "x", "transform = \"piecewise_linear\"; bins = 2; ")
              DENSE("f 1", "x", "transform = \"min_max\"; ")
                  BUCKET("u", "x", "bins = 3; ");
#define QUANTILES "S 3 1 1 2 e\n"
#define PIECES "S 2 1 2 h\n"
#define LIMITS "S 2 -1 2 f 1\n"
#define EDGES "B 2 0 1 u\n"
  static const struct {
    const char *text, *words;
  } bad[] = {
      {"", "no scale for column \"e\""},
      {"V 0 u\n", "no scale for column \"e\""},
      {QUANTILES LIMITS EDGES, "no scale for column \"h\""},
      {QUANTILES PIECES LIMITS "S 2 0 1 u\n", "no scale for column \"u\""},
      {"S 3 1 2 1 e\n" PIECES LIMITS EDGES, "scale of column \"e\" is damaged"},
      {"S 1 nan e\n" PIECES LIMITS EDGES, "scale of column \"e\" is damaged"},
      {QUANTILES "S 4 1 2 3 4 h\n" LIMITS EDGES,
       "scale of column \"h\" is damaged"},
      {QUANTILES "S 2 1 1 h\n" LIMITS EDGES,
       "scale of column \"h\" is damaged"},
      {QUANTILES PIECES "S 1 1 f 1\n" EDGES,
       "scale of column \"f 1\" is damaged"},
      {"S 9999999999 e\n" PIECES LIMITS EDGES, "for column \"e\""},
      {"S 3 1 1 e\n" PIECES LIMITS EDGES, "for column \"e\""}};
  ts_scales *scales;
  ck_assert_ok(take_deck(CSV, columns, TABLE("auto", "u"), 3));
  ck_assert_ok(ts_scales_create(&scales, c, NULL));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refused(ts_scales_load(scales, bad[i].text), 4, bad[i].words);
  ck_assert_ok(
      ts_scales_load(scales, EDGES LIMITS PIECES QUANTILES "V 1 w\na\n"));
  ts_str text = {0};
  ck_assert_ok(ts_scales_save(scales, &text));
  ck_assert_str_eq(text.text, QUANTILES PIECES LIMITS EDGES);
  ts_str_reset(&text);
  ts_scales_destroy(scales);
  close_it();
  /* Of versions that had means and deviations alone. */
  ck_assert_ok(take_deck(
      CSV,
      DENSE("a", "x", "transform = \"log1p\"; ") DENSE(
          "c", "x", "transform = \"standardise\"; ") "{ name = \"label\"; kind "
                                                     "= \"label\"; }",
      TABLE(9, "u"), 2));
  ck_assert_ok(ts_scales_create(&scales, c, NULL));
  refused(ts_scales_load(scales, "D 1 2\n"), 4, "scale for numeric column 2");
  ck_assert_ok(ts_scales_load(scales, "D 1 2\nD 3 4\nV 1 w\na\n"));
  float row[2];
  ts_scales_put(scales, 1, 11, row);
  ck_assert(row[1] == 2);
  ts_scales_destroy(scales);
  close_it();
}
