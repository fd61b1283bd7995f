/* test_columns.c - batches as one keyed jagged tensor and as columns: the
 * same bags in one block, bad ids left out, growth, copies counted; the
 * loader's ring.
 * ranks: 1 2  fake: 1  emulated: 2
 * seconds: 400 */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "io/batch_store.h"
#include "io/deck.h"
#include "tests/support/harness.h"

enum { FEATURES = 5, ROWS = 40 };

static const char *const deck =
    "run = { name = \"t\"; steps = 3; };\n"
    "data = { format = \"synthetic\"; global_batch = 6; on_bad_id = \"drop\";\n"
    "  synthetic = { samples = 40; pooling = [1, 3, 2, 1, 4]; }; };\n"
    "tables = ( { name = \"a\"; rows = 40; dim = 4; features = [\"f\", \"g\"]; "
    "},\n"
    "  { name = \"w\"; rows = 40; dim = 4; weighted = true;\n"
    "    features = [\"h\", \"i\"]; },\n"
    "  { name = \"b\"; rows = 40; dim = 4; features = [\"j\"]; } );\n"
    "model = { dense_features = 2; dense_arch = [4]; over_arch = [1]; };\n";

static const char *const inputs[] = {"data.input=kjt", "data.input=columns"};
static ts_fixture fixture;

static ts_config *config_of(int input) {
  ts_config *c;
  ck_assert_ok(ts_deck_parse(&c, deck, "/tmp", &inputs[input], 1));
  return c;
}

/* ---- what the batches should hold ---------------------------------------- */

/* Length of bag B of feature F in batch K, and its id number I (some are no
 * rows of the table); features 0 and 3 have one id a bag. */
static int length_of(int k, int f, int b) {
  return f % 3 == 0 ? 1 : (b * 7 + f * 3 + k) % 5;
}
static int64_t id_of(int k, int f, int b, int i, bool bad) {
  uint32_t x[4];
  ts_rng4(x, 1, TS_RNG_TEST, (uint64_t)(k * 1000 + b), (uint32_t)f,
          (uint32_t)i);
  return bad && x[1] % 4 == 0 ? ROWS + x[2] % 9 : x[0] % ROWS;
}
static float weight_of(int f, int b, int i) {
  return 0.5f + (float)(f * 100 + b * 10 + i);
}

/* As a source does it; features 1 and 4 give offsets, 2 lengths.  Feature 4
 * comes in two parts, and so has to grow after others lie behind it. */
static void fill_feature(ts_batch_store *s, int k, int f, int from, int to,
                         bool bad) {
  ts_feature_store *x = &s->feature[f];
  const bool weighted = f == 2 || f == 3;
  const ts_bag_form bags = f % 3 == 0 ? TS_BAGS_ONE
                           : f == 2   ? TS_BAGS_LENGTHS
                                      : TS_BAGS_OFFSETS;
  int64_t n = from ? s->batch.kjt.features[f].n_ids : 0, at = n;
  for (int b = from; b < to; b++) n += length_of(k, f, b);
  ck_assert_ok(ts_batch_store_feature(s, f, n, bags, weighted));
  if (x->offsets) x->offsets[from] = at;
  for (int b = from; b < to; b++) {
    const int length = length_of(k, f, b);
    for (int i = 0; i < length; i++, at++) {
      x->ids[at] = id_of(k, f, b, i, bad);
      if (weighted) x->weights[at] = weight_of(f, b, i);
    }
    if (x->lengths) x->lengths[b] = length;
    if (x->offsets) x->offsets[b + 1] = at;
  }
}

static void fill(ts_batch_store *s, ts_source *src, int k, int n, bool bad) {
  ck_assert_ok(ts_batch_store_begin(s, n, 1, 2, true));
  for (int b = 0; b < n; b++) {
    s->labels[b] = (float)(b % 2);
    s->dense[2 * b] = (float)b;
    s->dense[2 * b + 1] = -1;
    s->weights[b] = (float)(1 + b % 3);
  }
  fill_feature(s, k, 4, 0, n / 2, bad);
  for (int f = 0; f < 4; f++) fill_feature(s, k, f, 0, n, bad);
  fill_feature(s, k, 4, n / 2, n, bad);
  for (int f = 0; f < FEATURES; f++)
    ck_assert_ok(ts_batch_store_check_ids(src, s, f, "here", 0));
  ck_assert_ok(ts_batch_store_end(s));
}

/* All of P's BYTES are in the batch's block. */
static bool inside(const ts_batch *b, const void *p, int64_t bytes) {
  const char *at = p, *arena = b->arena;
  return at >= arena && at + bytes <= arena + b->arena_bytes;
}

static void check_bags(const ts_batch *batch, int k, bool bad) {
  for (int f = 0; f < FEATURES; f++) {
    const ts_jagged *j = &batch->kjt.features[f];
    int64_t at = 0;
    ck_assert_int_eq(j->weights != NULL, f == 2 || f == 3);
    for (int b = 0; b < batch->n; b++) {
      int64_t left = ts_jagged_length(j, b);
      for (int i = 0; i < length_of(k, f, b); i++) {
        const int64_t id = id_of(k, f, b, i, bad);
        if (id >= ROWS) continue;
        ck_assert_int_gt(left--, 0);
        ck_assert_int_eq(j->ids[at], id);
        if (j->weights)
          ck_assert_msg(j->weights[at] == weight_of(f, b, i), "a weight");
        at++;
      }
      ck_assert_int_eq(left, 0);
    }
    ck_assert_int_eq(j->n_ids, at);
    if (j->offsets && batch->n) ck_assert_int_eq(j->offsets[0], 0);
    ck_assert(inside(batch, j->ids, j->n_ids * 8));
    if (j->weights) ck_assert(inside(batch, j->weights, j->n_ids * 4));
    if (j->lengths) ck_assert(inside(batch, j->lengths, batch->n * 4));
    if (j->offsets) ck_assert(inside(batch, j->offsets, batch->n * 8 + 8));
  }
}

static void check_samples(const ts_batch *batch) {
  double sum = 0;
  for (int b = 0; b < batch->n; b++) {
    ck_assert(batch->labels[b] == (float)(b % 2));
    ck_assert(batch->dense[2 * b] == (float)b);
    ck_assert(batch->dense[2 * b + 1] == -1);
    ck_assert(batch->weights[b] == (float)(1 + b % 3));
    sum += 1 + b % 3;
  }
  ck_assert(batch->weight_sum == sum);
  ck_assert(inside(batch, batch->labels, batch->n * 4));
  ck_assert(inside(batch, batch->dense, batch->n * 8));
  ck_assert(inside(batch, batch->weights, batch->n * 4));
}

/* One array each, in the order of the features. */
static void check_keyed(const ts_batch *b) {
  const int64_t *values = b->kjt.values;
  const int32_t *lengths = b->kjt.lengths;
  const float *weights = b->kjt.weights;
  for (int f = 0; f < FEATURES; f++) {
    const ts_jagged *j = &b->kjt.features[f];
    ck_assert_ptr_eq(j->ids, values);
    ck_assert_ptr_null(j->offsets);
    if (j->lengths) ck_assert_ptr_eq(j->lengths, lengths);
    if (j->weights) ck_assert_ptr_eq(j->weights, weights);
    values += j->n_ids;
    lengths += j->lengths ? b->n : 0;
    weights += j->weights ? j->n_ids : 0;
  }
  ck_assert_int_eq(b->kjt.n_ids, values - b->kjt.values);
}

/* Columns keep the offsets that they came with. */
static void check_columns(const ts_batch *b) {
  ck_assert_ptr_null(b->kjt.values);
  ck_assert_ptr_nonnull(b->kjt.features[1].offsets);
  ck_assert_ptr_nonnull(b->kjt.features[2].lengths);
  ck_assert_ptr_nonnull(b->kjt.features[4].offsets);
}

static const int sizes[] = {7, 33, 0, 5, 33, 300};

static void start(void) {
  ts_fixture_start_device(&fixture, false, 1);
}

static void stop(void) {
  ts_fixture_stop(&fixture);
}

TS_TESTS_BETWEEN(start, stop)

TS_TEST(same_bags) {
  for (int input = 0; input < 2; input++)
    for (int bad = 0; bad < 2; bad++) {
      ts_config *c = config_of(input);
      ts_source src = {.config = c};
      ts_batch_store *s;
      ck_assert_ok(ts_batch_store_create(&s, c, bad ? fixture.device : NULL));
      for (int k = 0; k < 6; k++) {
        fill(s, &src, k, sizes[k], bad);
        const ts_batch *b = ts_batch_store_batch(s);
        ck_assert_int_eq(b->kjt.batch, sizes[k]);
        check_bags(b, k, bad);
        check_samples(b);
        if (input == 0 && sizes[k]) check_keyed(b);
        if (input == 1 && sizes[k] && !bad) check_columns(b);
      }
      ck_assert_int_eq(src.n_bad_ids > 0, bad);
      ts_batch_store_destroy(s);
      ts_deck_destroy(c);
    }
}

/* Once the block has its size: kjt copies each id once, columns none. */
TS_TEST(copies) {
  for (int input = 0; input < 2; input++) {
    ts_config *c = config_of(input);
    ts_batch_store *s;
    ck_assert_ok(ts_batch_store_create(&s, c, NULL));
    for (int k = 0; k < 3; k++) {
      ck_assert_ok(ts_batch_store_begin(s, 200, 1, 2, false));
      for (int f = 0; f < FEATURES; f++) fill_feature(s, 0, f, 0, 200, false);
      ck_assert_ok(ts_batch_store_end(s));
    }
    const ts_batch *b = ts_batch_store_batch(s);
    ck_assert_int_gt(b->kjt.n_ids, 400);
    ck_assert_int_eq(b->n_copied, input == 0 ? b->kjt.n_ids : 0);
    ts_batch_store_destroy(s);
    ts_deck_destroy(c);
  }
}

/* ---- through the loader -------------------------------------------------- */

enum { BATCHES = 9 };

static void check_same(const ts_batch *x, const ts_batch *y) {
  ck_assert_int_eq(x->step, y->step);
  ck_assert_int_eq(x->n, y->n);
  ck_assert_mem_eq(x->labels, y->labels, (size_t)x->n * 4);
  ck_assert_mem_eq(x->dense, y->dense, (size_t)x->n * 8);
  for (int f = 0; f < FEATURES; f++) {
    const ts_jagged *i = &x->kjt.features[f], *j = &y->kjt.features[f];
    ck_assert_int_eq(i->n_ids, j->n_ids);
    ck_assert_mem_eq(i->ids, j->ids, (size_t)i->n_ids * 8);
    ck_assert_int_eq(ts_jagged_is_one(i), ts_jagged_is_one(j));
    for (int b = 0; b < x->n; b++)
      ck_assert_int_eq(ts_jagged_length(i, b), ts_jagged_length(j, b));
  }
}

TS_TEST(loaders_agree) {
  ts_config *c[2];
  ts_source *source[2];
  ts_loader *loader[2];
  for (int i = 0; i < 2; i++) {
    c[i] = config_of(i);
    ck_assert_ok(
        ts_source_open(&source[i], c[i], TS_SPLIT_TRAIN, NULL, fixture.comm));
    const ts_loader_options o = {.global_batch = 6,
                                 .max_steps = BATCHES,
                                 .rank = fixture.rank,
                                 .n_ranks = fixture.size,
                                 .depth = i ? 2 : BATCHES,
                                 .device = fixture.device};
    ck_assert_ok(ts_loader_create(&loader[i], source[i], &o, NULL));
  }
  ts_loader_fill(loader[0]);
  for (int k = 0; k <= BATCHES; k++) {
    ts_batch *b[2];
    for (int i = 0; i < 2; i++) ck_assert_ok(ts_loader_next(loader[i], &b[i]));
    ck_assert_int_eq(b[0] == NULL, k == BATCHES);
    ck_assert_int_eq(b[1] == NULL, k == BATCHES);
    if (k < BATCHES) check_same(b[0], b[1]);
    for (int i = 0; i < 2 && b[i]; i++) ts_loader_release(loader[i], b[i]);
  }
  for (int i = 0; i < 2; i++) {
    ts_loader_destroy(loader[i]);
    ts_source_close(source[i]);
    ts_deck_destroy(c[i]);
  }
}
