/* test_synthetic.c - synthetic data: ids by their law's own formula, the same
 * bits on any number of threads; batches that come again.
 * ranks: 1 2  fake: 1  emulated: 1 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "io/batch_store.h"
#include "io/deck.h"
#include "tests/support/harness.h"

enum { FEATURES = 3, SAMPLES = 50, BATCH = 8, N = 40 };

static const char *const deck =
    "run = { name = \"t\"; steps = 3; };\n"
    "data = { format = \"synthetic\"; global_batch = 8;\n"
    "  synthetic = { samples = 50; pooling = [1, 3, 40]; hidden_dim = 3; }; "
    "};\n"
    "tables = ( { name = \"a\"; rows = 7; dim = 4; features = [\"f\"]; },\n"
    "  { name = \"b\"; rows = 3000; dim = 4; features = [\"g\"]; },\n"
    "  { name = \"c\"; rows = 5000000; dim = 4; features = [\"h\"]; } );\n"
    "model = { dense_features = 2; dense_arch = [4]; over_arch = [1]; };\n";
static const int64_t rows[] = {7, 3000, 5000000};
static const int pooling[] = {1, 3, 40};

static ts_fixture fixture;

static ts_source *open_data(ts_config **c, const char *set) {
  ts_source *s;
  ck_assert_ok(ts_deck_parse(c, deck, "/tmp", &set, 1));
  ck_assert_ok(ts_source_open(&s, *c, TS_SPLIT_TRAIN, NULL, fixture.comm));
  return s;
}

static void close_data(ts_source *s, ts_config *c) {
  ts_source_close(s);
  ts_deck_destroy(c);
}

/* ---- draws --------------------------------------------------------------- */

static int64_t expected_id(double alpha, int64_t k, int f, int i) {
  uint32_t x[4];
  ts_rng4(x, 8 + 4, TS_RNG_SYNTHETIC, (uint64_t)k, (uint32_t)f, (uint32_t)i);
  const double u = ts_rng_unit64(x[0], x[1]), n = (double)rows[f] + 1;
  if (alpha == 0) return (int64_t)(u * (double)rows[f]);
  const double r = alpha == 1
                       ? pow(n, u)
                       : pow((pow(n, 1 - alpha) - 1) * u + 1, 1 / (1 - alpha));
  int64_t rank = (int64_t)r - 1;
  if (rank < 0) rank = 0;
  if (rank >= rows[f]) rank = rows[f] - 1;
  return (rank * 2654435761 + f * 40503) % rows[f];
}

static void start(void) {
  ts_fixture_start_device(&fixture, false, 1);
}

static void stop(void) {
  ts_fixture_stop(&fixture);
}

TS_TESTS_BETWEEN(start, stop)

TS_TEST(ids_follow_the_law) {
  static const double alphas[] = {0, 0.6, 1, 1.05, 2};
  for (int a = 0; a < 5; a++) {
    char set[64];
    ts_config *c;
    ts_batch_store *store;
    snprintf(set, sizeof set, "data.synthetic.zipf=%g", alphas[a]);
    ts_source *s = open_data(&c, set);
    ck_assert_ok(ts_batch_store_create(&store, c, NULL));
    ck_assert_ok(s->ops->read(s, store, 5, N));
    const ts_kjt *kjt = &ts_batch_store_batch(store)->kjt;
    for (int f = 0; f < FEATURES; f++)
      for (int64_t i = 0; i < N * pooling[f]; i++)
        ck_assert_int_eq(kjt->features[f].ids[i],
                         expected_id(alphas[a], 5 + i / pooling[f], f,
                                     (int)(i % pooling[f])));
    ts_batch_store_destroy(store);
    close_data(s, c);
  }
}

static void check_samples(const ts_batch *x, const ts_batch *y) {
  ck_assert_int_eq(x->n, y->n);
  ck_assert_mem_eq(x->labels, y->labels, (size_t)x->n * 4);
  ck_assert_mem_eq(x->dense, y->dense, (size_t)x->n * 8);
  ck_assert_int_eq(x->kjt.n_ids, y->kjt.n_ids);
  for (int f = 0; f < FEATURES; f++)
    ck_assert_mem_eq(x->kjt.features[f].ids, y->kjt.features[f].ids,
                     (size_t)(x->n * pooling[f]) * 8);
}

TS_TEST(threads_draw_the_same) {
  ts_config *c;
  ts_source *s = open_data(&c, "data.synthetic.zipf=1.05");
  ts_batch_store *store[2];
  ck_assert_int_eq(s->n_threads, 1);
  for (int i = 0; i < 2; i++) {
    s->n_threads = i ? 5 : 1;
    ck_assert_ok(ts_batch_store_create(&store[i], c, NULL));
    ck_assert_ok(s->ops->read(s, store[i], 0, 1000));
  }
  check_samples(ts_batch_store_batch(store[0]), ts_batch_store_batch(store[1]));
  for (int i = 0; i < 2; i++) ts_batch_store_destroy(store[i]);
  close_data(s, c);
}

/* The truth that is known in advance, too. */
TS_TEST(threads_know_the_same) {
  ts_config *c[2];
  ts_source *s[2];
  s[0] = open_data(&c[0], "run.threads=1");
  s[1] = open_data(&c[1], "run.threads=3");
  ck_assert_double_eq(s[0]->info.bayes_logloss, s[1]->info.bayes_logloss);
  ck_assert_double_eq(s[0]->info.bayes_auc, s[1]->info.bayes_auc);
  for (int i = 0; i < 2; i++) close_data(s[i], c[i]);
}

/* The source knows the figures of a perfect model, from 4,000 samples at least,
 * else 16 times the split's, fewer where the time is bounded; with other noise,
 * too. */
TS_TESTS(the_best_is_known, 0, 5) {
  static const struct {
    const char *set;
    double logloss, auc;
  } known[] = {
      {"data.synthetic.samples=50", 0.495668203328, 0.834146145391},
      {"data.synthetic.samples=300", 0.496860699635, 0.835178369605},
      {"data.synthetic={samples=20000;hidden_dim=12}", 0.477271642818,
       0.848837854244},
      {"data.synthetic.noise=0.0", 0.459534035293, 0.859088609521},
      {"data.synthetic.zipf=0.0", 0.460009484698, 0.847812808325},
  };
  ts_config *c;
  ts_source *s = open_data(&c, known[_i].set);
  ck_assert_double_eq_tol(s->info.bayes_logloss, known[_i].logloss, 1e-9);
  ck_assert_double_eq_tol(s->info.bayes_auc, known[_i].auc, 1e-9);
  close_data(s, c);
}

/* ---- batches that come again --------------------------------------------- */

static int n_reads;
static const ts_source_ops *under;
static ts_source_ops counted; /* outlives a test that fails */

static ts_err counted_read(ts_source *s, ts_batch_store *b, int64_t first,
                           int32_t n) {
  n_reads++;
  return under->read(s, b, first, n);
}

static ts_loader *load(ts_source *s, int steps, bool drop_last,
                       const ts_loader_state *start) {
  ts_loader *l;
  const ts_loader_options o = {.global_batch = BATCH,
                               .max_steps = steps,
                               .drop_last = drop_last,
                               .rank = fixture.rank,
                               .n_ranks = fixture.size,
                               .depth = 2,
                               .n_threads = 2,
                               .device = fixture.device};
  ck_assert_ok(ts_loader_create(&l, s, &o, start));
  return l;
}

/* What batch B should be: that of sample FIRST of the ring, as a plain source
 * has it. */
static void check_batch(ts_source *plain, const ts_batch *b, int64_t first,
                        int64_t size) {
  ts_batch_store *store;
  const int64_t each = size / fixture.size, more = size % fixture.size;
  const int64_t r = fixture.rank;
  ck_assert_ok(ts_batch_store_create(&store, plain->config, NULL));
  ck_assert_ok(plain->ops->read(plain, store,
                                first + r * each + (r < more ? r : more),
                                (int32_t)(each + (r < more))));
  check_samples(b, ts_batch_store_batch(store));
  ts_batch_store_destroy(store);
}

/* A ring of 3 batches, over three epochs: of whole batches, and with a short
 * one of 2 samples at the end. */
static void check_ring(bool drop_last, int64_t from_step, int most_reads) {
  ts_config *c[2];
  ts_source *plain = open_data(&c[0], "data.synthetic.ring=0");
  ts_source *s = open_data(&c[1], "data.synthetic.ring=3");
  const int64_t per = drop_last ? SAMPLES / BATCH : (SAMPLES + 7) / BATCH;
  const ts_loader_state start = {from_step / per, from_step % per * BATCH,
                                 from_step};
  counted = *s->ops;
  under = s->ops;
  counted.read = counted_read;
  s->ops = &counted;
  n_reads = 0;
  ck_assert_int_eq(s->info.period, 24);
  ts_loader *l = load(s, (int)(3 * per), drop_last, &start);
  for (int64_t k = from_step; k < 3 * per; k++) {
    ts_batch *b;
    const int64_t first = k % per * BATCH;
    const int64_t size = SAMPLES - first < BATCH ? SAMPLES - first : BATCH;
    ck_assert_ok(ts_loader_next(l, &b));
    ck_assert_ptr_nonnull(b);
    ck_assert_int_eq(b->step, k);
    ck_assert_int_eq(b->epoch, k / per);
    ck_assert_int_eq(b->n_global, size);
    check_batch(plain, b, first % 24, size);
    ts_loader_release(l, b);
  }
  ts_loader_destroy(l);
  ck_assert_int_le(n_reads, most_reads);
  s->ops = under;
  close_data(s, c[1]);
  close_data(plain, c[0]);
}

/* 6 batches an epoch: each of the loader's 6 stores is filled once. */
TS_TEST(batches_come_again) {
  check_ring(true, 0, 6);
}

TS_TEST(resumed_runs_get_the_same) {
  check_ring(true, 8, 6);
  check_ring(false, 8, 21);
}

/* The short batch puts the ring out of step. */
TS_TEST(short_batches) {
  check_ring(false, 0, 21);
}

TS_TEST(no_ring_reads_all) {
  ts_config *c;
  ts_source *s = open_data(&c, "data.synthetic.ring=0");
  ck_assert_int_eq(s->info.period, 0);
  counted = *s->ops;
  under = s->ops;
  counted.read = counted_read;
  s->ops = &counted;
  n_reads = 0;
  ts_loader *l = load(s, 12, true, NULL);
  for (int k = 0; k < 12; k++) {
    ts_batch *b;
    ck_assert_ok(ts_loader_next(l, &b));
    ts_loader_release(l, b);
  }
  ts_loader_destroy(l);
  ck_assert_int_eq(n_reads, 12);
  s->ops = under;
  close_data(s, c);
}
