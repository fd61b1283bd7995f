/* test_shuffle.c - the order of an epoch's samples: each once, the same on any
 * number of ranks and from any place on, another in each epoch; what is
 * gathered is what is read; one feature's values in another order. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/batch_store.h"
#include "io/deck.h"
#include "io/order.h"
#include "io/permuted.h"
#include "io/subset.h"
#include "tests/support/harness.h"

enum { SAMPLES = 1003, BATCH = 24, EPOCH_STEPS = 42, MOST = 4000 };

static const char *const deck =
    "run = { name = \"t\"; steps = 3; seed = 5; };\n"
    "data = { format = \"synthetic\"; global_batch = 24;\n"
    "  synthetic = { samples = 1003; pooling = [1, 3]; hidden_dim = 3; }; };\n"
    "tables = ( { name = \"a\"; rows = 7; dim = 4; features = [\"f\"]; },\n"
    "  { name = \"b\"; rows = 3000; dim = 4; features = [\"g\"]; } );\n"
    "model = { dense_features = 2; dense_arch = [4]; over_arch = [1]; };\n";

static ts_fixture fixture;
static ts_config *c;
static ts_source *source;

/* What the loader asked for, in order. */
static const ts_source_ops *under;
static ts_source_ops noted;
static int64_t asked[MOST];
static int n_asked;

static ts_err noted_gather(ts_source *s, ts_batch_store *b,
                           const int64_t *samples, int32_t n) {
  ck_assert_int_le(n_asked + n, MOST);
  memcpy(asked + n_asked, samples, (size_t)n * sizeof *samples);
  n_asked += n;
  return under->gather(s, b, samples, n);
}

static void open_data(const char *const *sets, int n) {
  ts_fixture_start_device(&fixture, false, 1);
  ck_assert_ok(ts_deck_parse(&c, deck, "/tmp", sets, n));
  ck_assert_ok(ts_source_open(&source, c, TS_SPLIT_TRAIN, NULL, fixture.comm));
  under = source->ops;
  noted = *under;
  noted.gather = noted_gather;
  source->ops = &noted;
}

static void close_data(void) {
  source->ops = under;
  ts_source_close(source);
  ts_deck_destroy(c);
  ts_fixture_stop(&fixture);
}

/* The samples of N_STEPS batches of N_RANKS from STEP on, in their order,
 * appended to TO. */
static int take(int64_t *to, int n_ranks, int step, int n_steps,
                bool drop_last) {
  const int per = drop_last ? SAMPLES / BATCH : EPOCH_STEPS;
  ts_loader *l[4];
  int n = 0;
  const ts_loader_state start = {step / per, step % per * BATCH, step};
  for (int r = 0; r < n_ranks; r++) {
    const ts_loader_options o = {.global_batch = BATCH,
                                 .max_steps = step + n_steps,
                                 .drop_last = drop_last,
                                 .shuffle = true,
                                 .rank = r,
                                 .n_ranks = n_ranks,
                                 .depth = 1,
                                 .serial = true};
    ck_assert_ok(ts_loader_create(&l[r], source, &o, &start));
  }
  for (int k = 0; k < n_steps; k++)
    for (int r = 0; r < n_ranks; r++) {
      ts_batch *b;
      n_asked = 0;
      ck_assert_ok(ts_loader_next(l[r], &b));
      ck_assert_ptr_nonnull(b);
      ck_assert_int_eq(b->n, n_asked);
      memcpy(to + n, asked, (size_t)n_asked * sizeof *asked);
      n += n_asked;
      ts_loader_release(l[r], b);
    }
  for (int r = 0; r < n_ranks; r++) ts_loader_destroy(l[r]);
  return n;
}

static void check_once(const int64_t *samples) {
  int count[SAMPLES] = {0};
  for (int i = 0; i < SAMPLES; i++) {
    ck_assert_int_ge(samples[i], 0);
    ck_assert_int_lt(samples[i], SAMPLES);
    count[samples[i]]++;
  }
  for (int i = 0; i < SAMPLES; i++) ck_assert_int_eq(count[i], 1);
}

static int same(const int64_t *x, const int64_t *y) {
  int n = 0;
  for (int i = 0; i < SAMPLES; i++) n += x[i] == y[i];
  return n;
}

/* As of a file of columns. */
enum { GROUPS = 7 };
static const int64_t groups[GROUPS + 1] = {0,   7,   8,   300,
                                           301, 640, 700, SAMPLES};

static void have_groups(void) {
  source->info.groups = groups;
  source->info.n_groups = GROUPS;
}

/* A sample counts as 28 bytes: full; blocks of 2, of 9 and, in one window, of
 * all samples; groups of a source that has such; streams of blocks and groups.
 */
enum { SETS = 3, IN_GROUPS = 4 };
static const char *const orders[][SETS] = {
    {"data.shuffle=full", "data.shuffle_window=64", "data.streams=1"},
    {"data.shuffle=block", "data.shuffle_window=0.001", "data.streams=1"},
    {"data.shuffle=block", "data.shuffle_window=0.004", "data.streams=1"},
    {"data.shuffle=block", "data.shuffle_window=64", "data.streams=1"},
    {"data.shuffle=block", "data.shuffle_window=0.004", "data.streams=1"},
    {"data.shuffle=block", "data.shuffle_window=0.004", "data.streams=3"},
    {"data.shuffle=block", "data.shuffle_window=0.004", "data.streams=4"}};
enum { ORDERS = sizeof orders / sizeof *orders };

TS_TESTS(each_sample_once, 0, ORDERS) {
  static int64_t whole[2 * SAMPLES], other[2 * SAMPLES], moved[2 * SAMPLES];
  open_data(orders[_i], SETS);
  if (_i == IN_GROUPS || _i == ORDERS - 1) have_groups();
  ck_assert_int_eq(take(whole, 1, 0, 2 * EPOCH_STEPS, false), 2 * SAMPLES);
  check_once(whole);
  check_once(whole + SAMPLES);
  ck_assert_int_lt(same(whole, whole + SAMPLES), 20);
  for (int w = 2; w <= 4; w += 2) {
    ck_assert_int_eq(take(other, w, 0, 2 * EPOCH_STEPS, false), 2 * SAMPLES);
    ck_assert_mem_eq(whole, other, sizeof whole);
  }
  /* Stopped in the middle of the second epoch, on other ranks from there on. */
  int n = take(moved, 2, 0, EPOCH_STEPS + 17, false);
  n += take(moved + n, 4, EPOCH_STEPS + 17, 3, false);
  n += take(moved + n, 3, EPOCH_STEPS + 20, EPOCH_STEPS - 20, false);
  ck_assert_int_eq(n, 2 * SAMPLES);
  ck_assert_mem_eq(whole, moved, sizeof whole);
  /* Without the short last batch: the same places of the same order. */
  const int whole_batches = SAMPLES / BATCH * BATCH;
  n = take(moved, 2, 0, 2 * (SAMPLES / BATCH), true);
  ck_assert_int_eq(n, 2 * whole_batches);
  ck_assert_mem_eq(whole, moved, (size_t)whole_batches * sizeof *whole);
  ck_assert_mem_eq(whole + SAMPLES, moved + whole_batches,
                   (size_t)whole_batches * sizeof *whole);
  close_data();
}

/* Samples of a batch in blocks come from few places, in full from all. */
TS_TEST(blocks_stay_together) {
  for (int k = 0; k < IN_GROUPS; k += 2) {
    int64_t samples[144];
    int together = 0;
    ts_order o;
    open_data(orders[k], SETS);
    ck_assert_ok(ts_order_set(&o, source, BATCH));
    ck_assert_int_eq(o.block, k ? 9 : SAMPLES);
    ts_order_samples(&o, samples, 0, 0, 144);
    for (int i = 0; i < 144; i++)
      for (int j = 0; j < 144; j++) together += samples[j] == samples[i] + 1;
    if (k)
      ck_assert_int_gt(together, 40);
    else
      ck_assert_int_lt(together, 30);
    close_data();
  }
}

static int group_of(int64_t sample) {
  int g = 0;
  while (groups[g + 1] <= sample) g++;
  return g;
}

/* Each group comes once, mixed, and the one that is said to come next does. */
TS_TEST(groups_stay_together) {
  static int64_t samples[SAMPLES];
  ts_order o;
  int n_groups = 0, n_next = 0, n_rising = 0;
  int64_t next = -1;
  open_data(orders[IN_GROUPS], SETS);
  have_groups();
  ck_assert_ok(ts_order_set(&o, source, BATCH));
  for (int i = 0; i < SAMPLES; i++) {
    ts_order_samples(&o, samples + i, 2, i, 1);
    const bool begins = !i || group_of(samples[i]) != group_of(samples[i - 1]);
    n_groups += begins;
    n_next += begins && i && group_of(samples[i]) == group_of(next);
    n_rising += i && samples[i] == samples[i - 1] + 1;
    next = o.ahead;
  }
  check_once(samples);
  ck_assert_int_eq(n_groups, GROUPS);
  ck_assert_int_eq(n_next, GROUPS - 1);
  ck_assert_int_lt(n_rising, 30);
  ck_assert_int_eq(group_of(next), group_of(samples[SAMPLES - 1]));
  ts_order_reset(&o);
  close_data();
}

/* ---- streams ------------------------------------------------------------- */

/* Whole batches, and what a stream has of them. */
enum { DEALT = SAMPLES / BATCH * BATCH };

/* The place in the order without streams of place P in that with N. */
static int undealt(int p, int n) {
  const int in = p % BATCH, piece = BATCH / n;
  return p < DEALT ? in / piece * (DEALT / n) + p / BATCH * piece + in % piece
                   : p;
}

/* The samples of all places of epoch 1, in pieces of PIECE. */
static void all_samples(int64_t *samples, const char *kind, int n_streams,
                        bool in_groups, int piece) {
  char shuffle[32], streams[32];
  const char *sets[] = {shuffle, streams, "data.shuffle_window=0.004"};
  ts_order o;
  snprintf(shuffle, sizeof shuffle, "data.shuffle=%s", kind);
  snprintf(streams, sizeof streams, "data.streams=%d", n_streams);
  open_data(sets, 3);
  if (in_groups) have_groups();
  ck_assert_ok(ts_order_set(&o, source, BATCH));
  for (int i = 0; i < SAMPLES; i++) samples[i] = i;
  for (int i = 0; o.n && i < SAMPLES; i += piece)
    ts_order_samples(&o, samples + i, 1, i,
                     SAMPLES - i < piece ? SAMPLES - i : piece);
  ts_order_reset(&o);
  close_data();
}

/* Batches take their samples from places that are as far from each other. */
TS_TESTS(streams_are_dealt, 0, 4) {
  static int64_t one[SAMPLES], dealt[SAMPLES];
  const char *kind = _i / 2 ? "block" : "none";
  const int pieces[] = {1, 5, BATCH, SAMPLES}, streams[] = {2, 3, 8, BATCH};
  all_samples(one, kind, 1, _i % 2, SAMPLES);
  for (int k = 0; k < 4; k++) {
    all_samples(dealt, kind, streams[k], _i % 2, pieces[k]);
    check_once(dealt);
    for (int p = 0; p < SAMPLES; p++)
      ck_assert_int_eq(dealt[p], one[undealt(p, streams[k])]);
  }
}

/* Rank R of FOUR, of which each has a stream, is told of its next group. */
TS_TEST(streams_tell_what_is_next) {
  enum { FOUR = 4, PIECE = BATCH / FOUR, LENGTH = DEALT / FOUR };
  const char *sets[] = {"data.streams=4"};
  int64_t samples[PIECE];
  ts_order o;
  open_data(sets, 1);
  have_groups();
  ck_assert_ok(ts_order_set(&o, source, BATCH));
  for (int r = 0; r < FOUR; r++)
    for (int b = 0; b < DEALT / BATCH; b++) {
      ts_order_samples(&o, samples, 0, b * BATCH + r * PIECE, PIECE);
      const int g = group_of(samples[PIECE - 1]);
      const int64_t next = groups[g + 1];
      ck_assert_int_eq(samples[0], r * LENGTH + b * PIECE);
      ck_assert_int_eq(o.ahead, next < (r + 1) * LENGTH ? next : groups[g]);
    }
  ts_order_reset(&o);
  close_data();
}

/* An evaluation's ranks have a stream each, whatever the deck says, where the
 * data have groups and the batch can be cut so. */
TS_TEST(spread_is_a_stream_a_rank) {
  static int64_t dealt[SAMPLES], spread[SAMPLES];
  const char *sets[] = {"data.shuffle=full"};
  ts_order o = {0};
  all_samples(dealt, "none", 4, true, SAMPLES);
  open_data(sets, 1);
  ts_order_spread(&o, source, BATCH, 4);
  ck_assert_int_eq(o.n, 0);
  have_groups();
  const int none[] = {1, 5, 7};
  for (int k = 0; k < 3; k++) ts_order_spread(&o, source, BATCH, none[k]);
  ck_assert_int_eq(o.n, 0);
  ts_order_spread(&o, source, BATCH, 4);
  ts_order_samples(&o, spread, 0, 0, SAMPLES);
  ck_assert_mem_eq(dealt, spread, sizeof dealt);
  ts_order_reset(&o);
  close_data();
}

/* A batch has to fall into as many pieces; full is mixed already. */
TS_TESTS(streams_are_refused, 0, 3) {
  static const struct {
    const char *shuffle, *streams, *says;
  } cases[] = {{"data.shuffle=block", "data.streams=5", "24 samples can't be"},
               {"data.shuffle=full", "data.streams=4", "from anywhere already"},
               {"data.shuffle=none", "data.streams=24", NULL}};
  const char *sets[] = {cases[_i].shuffle, cases[_i].streams};
  const ts_err err = ts_deck_parse(&c, deck, "/tmp", sets, 2);
  ck_assert_int_eq(err, cases[_i].says ? TS_ERR_DECK : TS_OK);
  if (err != TS_OK)
    ck_assert_ptr_nonnull(strstr(ts_err_message(), cases[_i].says));
  else
    ts_deck_destroy(c);
  ts_err_clear();
}

/* A part of the samples has groups, too: every other one, none of group 2. */
TS_TEST(groups_of_a_part) {
  uint64_t *kept = NULL;
  open_data(orders[IN_GROUPS], SETS);
  have_groups();
  ck_assert_ok(ts_mem_array(&kept, ts_bits_words(SAMPLES), 8, TS_TAG_INPUT));
  for (int i = 1; i < SAMPLES; i += 2)
    if (group_of(i) != 2) ts_bits_set(kept, i);
  ck_assert_ok(ts_subset_take(&source, kept));
  const int64_t *of = source->info.groups, ends[] = {3, 4, 174, 204, 355};
  ck_assert_int_eq(source->info.n_groups, 5);
  for (int g = 0; g < 5; g++) ck_assert_int_eq(of[g + 1], ends[g]);
  ck_assert_int_eq(of[5], source->info.n_samples);
  ts_source_close(source);
  ts_deck_destroy(c);
  ts_fixture_stop(&fixture);
}

TS_TEST(seeds_differ) {
  static int64_t x[SAMPLES], y[SAMPLES];
  const char *sets[] = {"data.shuffle=full", "run.seed=6"};
  open_data(sets, 1);
  take(x, 1, 0, EPOCH_STEPS, false);
  close_data();
  open_data(sets, 2);
  take(y, 1, 0, EPOCH_STEPS, false);
  ck_assert_int_lt(same(x, y), 20);
  close_data();
}

/* ---- what is gathered ---------------------------------------------------- */

static void check_samples(const ts_batch *x, const ts_batch *one, int i) {
  ck_assert_mem_eq(&x->labels[i], one->labels, 4);
  ck_assert_mem_eq(&x->dense[2 * i], one->dense, 8);
  for (int f = 0; f < 2; f++) {
    const ts_jagged *j = &x->kjt.features[f], *k = &one->kjt.features[f];
    int64_t from = 0;
    for (int b = 0; b < i; b++) from += ts_jagged_length(j, b);
    const int32_t n = ts_jagged_length(j, i);
    ck_assert_int_eq(n, f ? 3 : 1);
    ck_assert_int_eq(n, ts_jagged_length(k, 0));
    ck_assert_mem_eq(j->ids + from, k->ids, (size_t)n * 8);
    if (f) ck_assert_mem_eq(j->weights + from, k->weights, (size_t)n * 4);
  }
}

/* A data set of two files with bags and weights: neighbours, the last sample
 * and the first, one twice, and none. */
TS_TEST(gathered_is_read) {
  const int64_t wanted[] = {1500, 3, 1002, 1003, 2005, 0, 4, 3, 700, 1004};
  const int n = sizeof wanted / sizeof *wanted;
  char path[64], train[160];
  const char *sets[] = {"tables.b.weighted=true", "data.shuffle=full",
                        "data.format=dataset", train};
  ts_batch_store *all, *one;
  snprintf(path, sizeof path, "/tmp/shuffle-%d.h5", (int)getpid());
  snprintf(train, sizeof train, "data.train=[\"%s\",\"%s\"]", path, path);
  open_data(sets, 1);
  ck_assert_ok(ts_source_find("dataset")->write(path, source, fixture.comm));
  close_data();
  open_data(sets, 4);
  ck_assert_int_eq(source->info.n_samples, 2 * SAMPLES);
  ck_assert_ok(ts_batch_store_create(&all, c, NULL));
  ck_assert_ok(ts_batch_store_create(&one, c, NULL));
  ck_assert_ok(under->gather(source, all, wanted, 0));
  ck_assert_int_eq(ts_batch_store_batch(all)->n, 0);
  ck_assert_ok(under->gather(source, all, wanted, n));
  for (int i = 0; i < n; i++) {
    ck_assert_ok(under->read(source, one, wanted[i], 1));
    check_samples(ts_batch_store_batch(all), ts_batch_store_batch(one), i);
  }
  ts_batch_store_destroy(all);
  ts_batch_store_destroy(one);
  close_data();
  remove(path);
}

/* ---- one feature's values, of other samples ------------------------------ */

/* f, g, g in another table, two numbers */
enum { LINES = 101, FEATURES = 3, AGAIN = 2, SUBJECTS = 5 };

/* Lists of none to three words with weights; a line in ten can't be read. */
static void write_lists(const char *path) {
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  fputs("label,x,z,f,g\n", f);
  for (int i = 0; i < LINES; i++) {
    fprintf(f, "%d,%d,%s%d,%d,", i % 2, i, i % 10 == 4 ? "bad" : "", 7 * i, i);
    for (int k = 0; k < i % 4; k++)
      fprintf(f, "%sw%d:%d.5", k ? "|" : "", i + 200 * k, i + k);
    fputs("\n", f);
  }
  ck_assert_int_eq(fclose(f), 0);
}

/* Bag I of X's feature F is bag K of Y's. */
static void check_bag(const ts_batch *x, int i, const ts_batch *y, int k,
                      int f) {
  const ts_jagged *a = &x->kjt.features[f], *b = &y->kjt.features[f];
  const size_t n = (size_t)ts_jagged_length(a, i);
  int64_t at = 0, from = 0;
  for (int l = 0; l < i; l++) at += ts_jagged_length(a, l);
  for (int l = 0; l < k; l++) from += ts_jagged_length(b, l);
  ck_assert_int_eq((long)n, ts_jagged_length(b, k));
  if (n) ck_assert_mem_eq(a->ids + at, b->ids + from, n * 8);
  ck_assert(!a->weights == !f && !b->weights == !f);
  if (n && f) ck_assert_mem_eq(a->weights + at, b->weights + from, n * 4);
}

/* Samples [first, first + n) with subject WHAT in the order of ASKED. */
static void check_moved(ts_source *moved, ts_batch_store *store,
                        const ts_batch *whole, int what, int first, int n) {
  n_asked = 0;
  ck_assert_ok(moved->ops->read(moved, store, first, n));
  ck_assert_int_eq(n_asked, n);
  const ts_batch *x = ts_batch_store_batch(store);
  for (int i = 0; i < n; i++) {
    const int own = first + i, other = (int)asked[i];
    ck_assert(x->labels[i] == whole->labels[own]);
    ck_assert(x->weights[i] == whole->weights[own]);
    for (int f = 0; f < FEATURES; f++)
      check_bag(x, i, whole,
                f == what || (f == AGAIN && what == 1) ? other : own, f);
    for (int d = 0; d < 2; d++)
      ck_assert(x->dense[2 * i + d] ==
                whole->dense[2 * (FEATURES + d == what ? other : own) + d]);
  }
}

TS_TESTS(one_feature_moves, 0, 2) {
  static int64_t first[LINES], second[LINES];
  char path[64], train[160];
  const char *sets[] = {"tables.b.weighted=true",
                        "tables.b.wide=true",
                        _i ? "tables.b_wide.rows=7" : "run.seed=5",
                        "data.format=csv",
                        "data.csv.list_separator=|",
                        "data.csv.lists=[\"g\"]",
                        "data.csv.encoding=hash",
                        "data.csv.dense=[\"x\",\"z\"]",
                        "data.on_bad_record=skip",
                        "data.max_bad=11",
                        "data.csv.dense_transform=none",
                        train,
                        _i ? "data.input=columns" : "data.input=kjt"};
  ts_batch_store *all, *store;
  ts_source *moved;
  snprintf(path, sizeof path, "/tmp/moved-%d.csv", (int)getpid());
  snprintf(train, sizeof train, "data.train=%s", path);
  write_lists(path);
  open_data(sets, sizeof sets / sizeof *sets);
  ck_assert_ok(ts_batch_store_create(&all, c, NULL));
  ck_assert_ok(ts_batch_store_create(&store, c, NULL));
  ck_assert_ok(under->read(source, all, 0, LINES));
  ck_assert_ok(ts_permuted_open(&moved, source, "--importance"));
  for (int what = 0; what < SUBJECTS; what++)
    for (int repeat = 0; what != AGAIN && repeat < 2; repeat++) {
      ts_permuted_choose(moved, what, repeat);
      memcpy(second, first, sizeof first);
      check_moved(moved, store, ts_batch_store_batch(all), what, 0, LINES);
      memcpy(first, asked, sizeof first);
      int stay = 0, again = 0, count[LINES] = {0};
      for (int i = 0; i < LINES; i++) {
        count[first[i]]++;
        stay += first[i] == i;
        again += first[i] == second[i];
      }
      for (int i = 0; i < LINES; i++) ck_assert_int_eq(count[i], 1);
      ck_assert_int_lt(stay, 10);
      ck_assert_int_lt(again, 10);
      check_moved(moved, store, ts_batch_store_batch(all), what, 40, 13);
      ck_assert_mem_eq(asked, first + 40, 13 * sizeof *asked);
      ck_assert_ok(moved->ops->read(moved, store, 40, 0));
      ck_assert_int_eq(source->n_bad_records, 11); /* 10 of all, 1 of 13 */
    }
  ts_source_close(moved);
  ts_batch_store_destroy(all);
  ts_batch_store_destroy(store);
  close_data();
  remove(path);
}

TS_TEST(packed_text_is_refused) {
  const char *sets[] = {"data.shuffle=full"};
  ts_order o;
  open_data(sets, 1);
  source->info.packed = "log.tsv.gz";
  ck_assert_int_eq(ts_order_set(&o, source, BATCH), TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "log.tsv.gz"));
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "tessera convert"));
  ts_err_clear();
  ck_assert_int_eq(ts_permuted_open(&source, source, "--importance"),
                   TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "log.tsv.gz"));
  close_data();
}
