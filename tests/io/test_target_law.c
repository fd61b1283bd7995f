/* test_target_law.c - draws as often as items are targets: the counts are those
 * of what is trained on, on any number of ranks; entries of the alias table and
 * draws have each item's share, and no other item.  ranks: 1 2 4 */
#include <math.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/rng.h"
#include "io/batch_store.h"
#include "io/deck.h"
#include "io/target_law.h"
#include "tests/support/folder.h"

enum { SAMPLES = 9001, ITEMS = 60, DRAWS = 1 << 20 };

static const char deck[] =
    "run = { name = \"t\"; steps = 1; seed = 5; };\n"
    "data = { train = \"a.csv\"; format = \"csv\"; global_batch = 8; columns = "
    "(\n"
    "  { name = \"user\"; kind = \"ids\"; encoding = \"none\"; },\n"
    "  { name = \"next\"; kind = \"ids\"; encoding = \"none\";\n"
    "    list_separator = \"|\"; max_length = 2; } ); };\n"
    "tables = ( { name = \"user\"; rows = 70; dim = 4; features = \"user\"; "
    "},\n"
    "  { name = \"item\"; rows = 60; dim = 4; features = \"next\";\n"
    "    pooling = \"none\"; } );\n"
    "model = { layers = ( { name = \"q\"; kind = \"scale\"; in = \"user\"; } "
    ");\n"
    "  outputs = ( { name = \"next\"; in = \"q\"; loss = \"sampled_softmax\";\n"
    "    target = \"next\"; %s } ); };\n";

/* Products of small numbers: few are often, many never. */
static int item_of(int i, int k) {
  return (i * (k + 1) % 7) * (i % 6) + (k ? 0 : 5);
}

/* None to three a sample, of which max_length leaves two. */
static void start(void) {
  char path[96];
  folder_start();
  snprintf(path, sizeof path, "%s/a.csv", dir);
  if (f.rank == 0) {
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    fprintf(out, "user,next\n");
    for (int i = 0; i < SAMPLES; i++) {
      fprintf(out, "%d,", i % 70);
      for (int k = 0; k < i % 4; k++)
        fprintf(out, "%s%d", k ? "|" : "", item_of(i, k));
      fprintf(out, "\n");
    }
    fclose(out);
  }
  ck_assert_ok(ts_comm_barrier(f.comm));
}

TS_EACH_TEST_BETWEEN(start, folder_stop)

static ts_config *c;
static ts_source *source;
static ts_target_law *law;

static const char often[] = "draw = \"frequency\";";

/* The output has KEYS. */
static ts_err take(const char *keys, const char *const *sets, int n_sets) {
  char text[1200];
  law = NULL;
  snprintf(text, sizeof text, deck, keys);
  ck_assert_ok(ts_deck_parse(&c, text, dir, sets, n_sets));
  ck_assert_ok(ts_source_open(&source, c, TS_SPLIT_TRAIN, NULL, f.comm));
  return ts_target_law_take(&law, source, f.comm);
}

static void give_back(void) {
  ts_target_law_destroy(law);
  ts_source_close(source);
  ts_deck_destroy(c);
}

/* Targets of what is trained on that are items; their number. */
static int64_t count(int64_t *counts, int64_t first) {
  ts_batch_store *store;
  int64_t all = 0;
  memset(counts, 0, ITEMS * sizeof *counts);
  ck_assert_ok(ts_batch_store_create(&store, c, NULL));
  ck_assert_ok(
      source->ops->read(source, store, 0, (int32_t)source->info.n_samples));
  const ts_jagged *j = &ts_batch_store_batch(store)->kjt.features[1];
  for (int64_t k = 0; k < j->n_ids; k++)
    if (j->ids[k] >= first) counts[j->ids[k]]++, all++;
  ts_batch_store_destroy(store);
  return all;
}

/* What the entries give each item, and the log of its share. */
static void check_table(const int64_t *counts, int64_t all) {
  double share[ITEMS] = {0};
  for (int64_t k = 0; k < law->n; k++) {
    const double own = (double)law->keep[k] * 0x1p-32;
    share[law->first + k] += own;
    share[law->first + law->other[k]] += 1 - own;
  }
  for (int id = 0; id < ITEMS; id++) {
    const double want = (double)counts[id] / (double)all;
    ck_assert_double_eq_tol(share[id] / (double)law->n, want, 1e-9);
    if (!counts[id]) ck_assert_double_eq(share[id], 0);
    if (counts[id])
      ck_assert_double_eq_tol((double)law->log_q[id], log(want), 1e-6);
  }
}

/* Chi-square of draws: its mean is the degrees of freedom, its variance twice
 * that. */
static void check_draws(const int64_t *counts, int64_t all) {
  int64_t drawn[ITEMS] = {0};
  uint32_t counter[4] = {0}, key[2], word[4];
  double chi = 0;
  int freedom = -1;
  ts_rng_key(key, 3, TS_RNG_CANDIDATES);
  for (; counter[0] < DRAWS / 2; counter[0]++) {
    ts_philox(word, counter, key);
    for (int i = 0; i < 4; i += 2) {
      const int64_t at = (int64_t)((uint64_t)word[i] * (uint64_t)law->n >> 32);
      drawn[ts_target_law_draw(law, at, word[i + 1])]++;
    }
  }
  for (int id = 0; id < ITEMS; id++) {
    const double want = DRAWS * (double)counts[id] / (double)all;
    if (!counts[id]) ck_assert_int_eq(drawn[id], 0);
    if (!counts[id]) continue;
    chi += ((double)drawn[id] - want) * ((double)drawn[id] - want) / want;
    freedom++;
  }
  ck_assert_double_lt(chi, freedom + 5 * sqrt(2.0 * freedom));
}

/* The same counts wherever they were made, so the same table. */
static void check_ranks(void) {
  uint64_t sum = 0;
  for (int64_t k = 0; k < law->n; k++)
    sum = ts_mix64(sum + law->keep[k]) + (uint64_t)law->other[k];
  int64_t most = (int64_t)(sum >> 1), least = -most;
  ck_assert_ok(ts_comm_max_i64(f.comm, &most, 1));
  ck_assert_ok(ts_comm_max_i64(f.comm, &least, 1));
  ck_assert_int_eq(most, -least);
}

static void check_law(const char *keys, const char *const *sets, int n_sets) {
  int64_t counts[ITEMS], none = 0;
  ck_assert_ok(take(keys, sets, n_sets));
  const int64_t all = count(counts, law->first);
  for (int id = 0; id < ITEMS; id++) none += !counts[id];
  ck_assert_int_gt(none, 20);
  ck_assert_int_eq(law->first + law->n, ITEMS);
  ck_assert_int_eq(source->info.n_samples<SAMPLES, n_sets> 0);
  check_table(counts, all);
  check_draws(counts, all);
  check_ranks();
  give_back();
}

TS_TEST(all_samples) {
  check_law(often, NULL, 0);
}

/* Not those for validation. */
TS_TEST(a_part_of_the_samples) {
  static const char *const sets[] = {"run.valid_every=1",
                                     "data.split.valid=0.5"};
  check_law(often, sets, 2);
}

TS_TEST(items_from_the_seventh_on) {
  check_law("draw = \"frequency\"; first_item = 6;", NULL, 0);
}

TS_TEST(nothing_to_take) {
  ck_assert_ok(take("", NULL, 0));
  ck_assert_ptr_null(law);
  give_back();
  ck_assert_int_eq(take("draw = \"frequency\"; first_item = 58;", NULL, 0),
                   TS_ERR_DATA);
  ck_assert_ptr_null(law);
  ts_err_clear();
  give_back();
}
