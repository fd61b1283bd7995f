/* test_split.c - data.split: each sample is on one side, the same on any number
 * of ranks, with those of its key, after a time; data.negatives: all positives
 * and a share of the others.  ranks: 1 2 4 */
#include <stdio.h>

#include "base/hash.h"
#include "io/batch_store.h"
#include "io/deck.h"
#include "io/split.h"
#include "tests/support/folder.h"
#include "tests/support/hostile_files.h"

/* More than one block of bits, and no whole number of words. */
enum { SAMPLES = 1234, KEYS = 40 };

static const char deck[] =
    "run = { name = \"t\"; steps = 1; seed = 5; valid_every = 1; };\n"
    "data = { train = [\"a.csv\", \"b.csv\"]; format = \"csv\";\n"
    "  global_batch = 8; csv = { dense = [\"n\"]; sparse = [\"user\"]; }; };\n"
    "tables = ( { name = \"user\"; rows = 7; dim = 4; features = \"user\"; } "
    ");\n"
    "model = { dense_features = 1; dense_arch = [4]; over_arch = [1]; };\n";

static int user_of(int i) {
  return i * 7 % KEYS;
}
static int minute_of(int i) {
  return i * 611 % SAMPLES / 2;
}
static int label_of(int i) {
  return i % 5 == 0;
}

/* Column n is the sample's number; two have the same time. */
static void write_file(const char *name, int first, int end) {
  static const char *const parts[] = {"", "0", "Train", "valid", "FALSE", "1"};
  char path[96];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  if (f.rank == 0) {
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    fprintf(out, "label,n,user,when,number,part\n");
    for (int i = first; i < end; i++)
      fprintf(out, "%d,%d,\"u%d\",2014-10-%02d %02d:%02d:00,%d,%s\n",
              label_of(i), i, user_of(i), 1 + minute_of(i) / 1440,
              minute_of(i) / 60 % 24, minute_of(i) % 60, minute_of(i) - 300,
              parts[i % 6]);
    fclose(out);
  }
  ck_assert_ok(ts_comm_barrier(f.comm));
}

static void start(void) {
  folder_start();
  write_file("a.csv", 0, 500);
  write_file("b.csv", 500, SAMPLES);
}

TS_EACH_TEST_BETWEEN(start, folder_stop)

static ts_config *c;
static ts_source *source;

static ts_err open_it(ts_split split, const char *const *sets, int n_sets) {
  source = NULL;
  ck_assert_ok(ts_deck_parse(&c, deck, dir, sets, n_sets));
  return ts_source_open(&source, c, split, NULL, f.comm);
}

static void close_it(void) {
  ts_source_close(source);
  ts_deck_destroy(c);
}

/* Users u0, u7 ... and means, of the samples on one side alone. */
TS_TEST(learnt_from_the_train_part) {
  static const char *const sets[] = {
      "data.split.valid=0.5", "data.split.key=user",
      "data.csv.encoding=vocabulary", "data.csv.dense_transform=standardise",
      "tables.user.rows=auto"};
  ts_str state = {0};
  ts_words words;
  int n = 0;
  ck_assert_ok(open_it(TS_SPLIT_TRAIN, sets, 5));
  const int64_t n_train = source->info.n_samples;
  ck_assert(ts_source_words(source, 0, &words));
  int64_t met = 0;
  for (int64_t i = 0; i < words.n; i++) met += words.times[i];
  ck_assert_int_eq(met, n_train); /* each sample has one */
  ck_assert_int_lt(words.n, KEYS);
  ck_assert_int_eq(c->tables[0].rows, words.n + 1);
  ck_assert_ok(source->ops->state_save(source, &state));
  double mean = 0, sum = 0;
  for (int i = 0; i < SAMPLES; i++)
    for (int64_t k = 0; k < words.n; k++)
      if (atoi(ts_words_at(&words, k) + 1) == user_of(i)) sum += i, n++;
  ck_assert_int_eq(n, n_train);
  ck_assert_int_eq(sscanf(state.text, "D %lf", &mean), 1);
  ck_assert_double_eq_tol(mean, sum / n, 1e-9);
  close_it();
  /* Nobody of the other side has a row. */
  ts_batch_store *store;
  ck_assert_ok(ts_deck_parse(&c, deck, dir, sets, 5));
  ck_assert_ok(ts_source_open(&source, c, TS_SPLIT_VALID, state.text, f.comm));
  ck_assert_int_eq(source->info.n_samples, SAMPLES - n_train);
  ck_assert_ok(ts_batch_store_create(&store, c, NULL));
  ck_assert_ok(source->ops->read(source, store, 0, 8));
  const ts_jagged *ids = &ts_batch_store_batch(store)->kjt.features[0];
  for (int i = 0; i < 8; i++) ck_assert_int_eq(ids->ids[i], 0);
  ts_batch_store_destroy(store);
  ts_str_reset(&state);
  close_it();
}

/* The numbers of the source's samples, read by threes and gathered backwards,
 * counted in SEEN. */
static void read_all(int *seen) {
  static int64_t back[SAMPLES];
  static float numbers[SAMPLES];
  ts_batch_store *store;
  const int n = (int)source->info.n_samples;
  ck_assert_ok(ts_batch_store_create(&store, c, NULL));
  for (int at = 0; at < n; at += 3) {
    const int here = n - at < 3 ? n - at : 3;
    ck_assert_ok(source->ops->read(source, store, at, here));
    const ts_batch *b = ts_batch_store_batch(store);
    ck_assert_int_eq(b->n, here);
    for (int i = 0; i < here; i++) numbers[at + i] = b->dense[i];
  }
  for (int i = 0; i < n; i++) {
    back[i] = n - 1 - i;
    seen[(int)numbers[i]]++;
    ck_assert_float_eq((float)(int)numbers[i], numbers[i]);
    ck_assert(!i || numbers[i] > numbers[i - 1]);
  }
  ck_assert_ok(source->ops->gather(source, store, back, n));
  const ts_batch *b = ts_batch_store_batch(store);
  for (int i = 0; i < n; i++) {
    ck_assert_float_eq(b->dense[i], numbers[n - 1 - i]);
    ck_assert_float_eq(b->labels[i], (float)label_of((int)b->dense[i]));
  }
  ck_assert_ok(source->ops->read(source, store, 0, 0));
  ts_batch_store_destroy(store);
}

/* SIDE: 1 for each sample for validation.  Each is on one side. */
static void part(int *side, const char *const *sets, int n_sets) {
  int train[SAMPLES] = {0};
  memset(side, 0, SAMPLES * sizeof *side);
  ck_assert_ok(open_it(TS_SPLIT_VALID, sets, n_sets));
  read_all(side);
  close_it();
  ck_assert_ok(open_it(TS_SPLIT_TRAIN, sets, n_sets));
  read_all(train);
  close_it();
  for (int i = 0; i < SAMPLES; i++) ck_assert_int_eq(train[i] + side[i], 1);
}

static int count(const int *side) {
  int n = 0;
  for (int i = 0; i < SAMPLES; i++) n += side[i];
  return n;
}

static uint32_t sum_of(const int *side) {
  return ts_crc32c(0, side, SAMPLES * sizeof *side);
}

/* What it is on one rank it is on all. */
TS_TEST(by_hash) {
  static int side[SAMPLES], other[SAMPLES];
  static const char *const sets[] = {"data.split.valid=0.25", "run.seed=6"};
  part(side, sets, 1);
  ck_assert_int_gt(count(side), SAMPLES / 5);
  ck_assert_int_lt(count(side), SAMPLES * 3 / 10);
  ck_assert_uint_eq(sum_of(side), 1051502693);
  part(other, sets, 2);
  ck_assert_int_ne(memcmp(side, other, sizeof side), 0);
}

TS_TEST(by_hash_of_a_key) {
  static int side[SAMPLES];
  int of_key[KEYS];
  static const char *const sets[] = {"data.split.valid=0.5",
                                     "data.split.key=user"};
  part(side, sets, 2);
  for (int i = 0; i < KEYS; i++) of_key[user_of(i)] = side[i];
  for (int i = 0; i < SAMPLES; i++)
    ck_assert_int_eq(side[i], of_key[user_of(i)]);
  ck_assert_int_gt(count(side), SAMPLES / 4);
  ck_assert_int_lt(count(side), SAMPLES * 3 / 4);
  ck_assert_uint_eq(sum_of(side), 2301986443);
}

/* 0.1001 of the samples end between the two of one minute. */
TS_TESTS(by_time, 0, 2) {
  static int side[SAMPLES];
  const char *sets[] = {"data.split.valid=0.1001", "data.split.by=time",
                        _i ? "data.split.key=number" : "data.split.key=when"};
  part(side, sets, 3);
  ck_assert_int_eq(count(side), 124);
  for (int i = 0; i < SAMPLES; i++)
    ck_assert_int_eq(side[i], minute_of(i) >= SAMPLES / 2 - 62);
}

TS_TEST(the_tail) {
  static int side[SAMPLES];
  static const char *const sets[] = {"data.split.valid=0.1",
                                     "data.split.by=tail"};
  part(side, sets, 2);
  for (int i = 0; i < SAMPLES; i++)
    ck_assert_int_eq(side[i], i >= SAMPLES - 124);
}

TS_TEST(by_a_column) {
  static int side[SAMPLES];
  static const char *const sets[] = {"data.split.by=column:part"};
  part(side, sets, 1);
  for (int i = 0; i < SAMPLES; i++)
    ck_assert_int_eq(side[i], i % 6 == 3 || i % 6 == 5);
}

/* Packed files are read in order, and have the same samples. */
TS_TEST(of_packed_files) {
  static int side[SAMPLES];
  char command[96];
  static const char *const sets[] = {
      "data.split.valid=0.5", "data.split.key=user", "data.train=*.csv.gz"};
  snprintf(command, sizeof command, "gzip -k %s/*.csv", dir);
  ck_assert(f.rank != 0 || system(command) == 0);
  ck_assert_ok(ts_comm_barrier(f.comm));
  part(side, sets, 3);
  ck_assert_uint_eq(sum_of(side), 2301986443);
}

/* Ids of u, and the numbers t, are 0 to 7. */
static void make_data_set(void) {
  char path[96];
  snprintf(path, sizeof path, "%s/in.h5", dir);
  if (f.rank == 0) {
    const hid_t file = hostile_make(path, false);
    hostile_put(file, "t", H5T_IEEE_F64LE, 1, N, 0);
    hostile_put(file, "few", H5T_IEEE_F64LE, 1, N - 1, 0);
    H5Fclose(file);
  }
  ck_assert_ok(ts_comm_barrier(f.comm));
}

static const char *const as_data_set[] = {
    "data.train=in.h5", "data.format=dataset", "model.dense_features=2",
    "tables.user.features=u"};
enum { AS = sizeof as_data_set / sizeof *as_data_set, MORE = 3 };

static ts_err open_data_set(ts_split split, const char *const *more) {
  const char *sets[AS + MORE];
  int n = AS;
  memcpy(sets, as_data_set, sizeof as_data_set);
  for (int i = 0; i < MORE && more[i]; i++) sets[n++] = more[i];
  return open_it(split, sets, n);
}

static const struct {
  int n_valid;
  const char *sets[MORE];
} of_sets[] = {
    {2, {"data.split.valid=0.25", "data.split.by=time", "data.split.key=u"}},
    {2, {"data.split.valid=0.25", "data.split.by=time", "data.split.key=t"}},
    {7, {"data.split.by=column:t", NULL, NULL}},
    {7, {"data.split.by=column:u", NULL, NULL}}};

TS_TESTS(of_a_data_set, 0, sizeof of_sets / sizeof *of_sets) {
  make_data_set();
  ck_assert_ok(open_data_set(TS_SPLIT_VALID, of_sets[_i].sets));
  ck_assert_int_eq(source->info.n_samples, of_sets[_i].n_valid);
  close_it();
  ck_assert_ok(open_data_set(TS_SPLIT_TRAIN, of_sets[_i].sets));
  ck_assert_int_eq(source->info.n_samples, N - of_sets[_i].n_valid);
  close_it();
}

TS_TEST(of_a_short_column) {
  static const char *const sets[MORE] = {"data.split.valid=0.25",
                                         "data.split.key=few", NULL};
  make_data_set();
  ck_assert_int_eq(open_data_set(TS_SPLIT_TRAIN, sets), TS_ERR_DATA);
  ck_assert_ptr_nonnull(
      strstr(ts_err_message(), "column \"few\" has 7 values, the data 8"));
  ts_err_clear();
  ts_deck_destroy(c);
}

TS_TEST(negatives) {
  static int side[SAMPLES], seen[SAMPLES];
  static const char *const sets[] = {"data.split.valid=0.25",
                                     "data.negatives=0.3"};
  int kept = 0, n = 0;
  memset(seen, 0, sizeof seen);
  memset(side, 0, sizeof side);
  ck_assert_ok(open_it(TS_SPLIT_VALID, sets, 2));
  read_all(side);
  close_it();
  ck_assert_uint_eq(sum_of(side), 1051502693); /* as without data.negatives */
  ck_assert_ok(open_it(TS_SPLIT_TRAIN, sets, 2));
  ck_assert_ok(ts_negatives_take(&source, f.comm));
  read_all(seen);
  ck_assert_int_eq(source->info.n_dropped, SAMPLES - count(side) - count(seen));
  close_it();
  for (int i = 0; i < SAMPLES; i++) {
    ck_assert_int_le(seen[i] + side[i], 1);
    if (label_of(i)) ck_assert_int_eq(seen[i] + side[i], 1);
    kept += !label_of(i) && seen[i];
    n += !label_of(i) && !side[i];
  }
  ck_assert_int_gt(kept, n / 4);
  ck_assert_int_lt(kept, n * 7 / 20);
  ck_assert_uint_eq(sum_of(seen), 1715745731);
}

/* ---- what can't be ------------------------------------------------------- */

static const struct {
  ts_err code;
  const char *words, *sets[3];
} refusals[] = {
    {TS_ERR_DATA,
     "data.split: the header has no column \"nix\"",
     {"data.split.valid=0.1", "data.split.key=nix", NULL}},
    {TS_ERR_DATA,
     "column \"user\" of sample 0 (from 0, over all files of "
     "data.train) has \"u0\", neither a number nor a date",
     {"data.split.valid=0.1", "data.split.by=time", "data.split.key=user"}},
    {TS_ERR_DATA,
     "leaves nothing to validate on",
     {"data.split.valid=1e-9", NULL, NULL}},
    {TS_ERR_DATA,
     "leaves nothing to train on",
     {"data.split.valid=0.9999", "data.split.by=tail", NULL}},
    {TS_ERR_DATA,
     "leaves nothing to train on",
     {"data.split.by=column:when", NULL, NULL}}};

TS_TESTS(refused, 0, sizeof refusals / sizeof *refusals) {
  int n = 0;
  while (n < 3 && refusals[_i].sets[n]) n++;
  ck_assert_int_eq(open_it(TS_SPLIT_TRAIN, refusals[_i].sets, n),
                   refusals[_i].code);
  /* One rank has seen it, and says so. */
  const bool says = strstr(ts_err_message(), refusals[_i].words) != NULL;
  int64_t said = says;
  ts_err_clear();
  ck_assert_ok(ts_comm_sum_i64(f.comm, &said, 1));
  ck_assert_int_ge(said, 1);
  ts_deck_destroy(c);
}

static const struct {
  const char *words, *sets[3];
} decks[] = {
    {"is none of hash, time, tail, column:NAME",
     {"data.split.by=random", NULL, NULL}},
    {"is a share over 0 and under 1", {"data.split.valid=1", NULL, NULL}},
    {"data.split.valid", {"data.split.valid=1.5", NULL, NULL}},
    {"needs data.split.key, the column of the time",
     {"data.split.valid=0.1", "data.split.by=time", NULL}},
    {"data.split.key is for \"hash\" and \"time\", not for \"tail\"",
     {"data.split.valid=0.1", "data.split.by=tail", "data.split.key=user"}},
    {"the column says which samples are for validation",
     {"data.split.valid=0.1", "data.split.by=column:part", NULL}},
    {"data.split splits nothing", {"data.split.key=user", NULL, NULL}},
    {"data.valid and data.split are both given",
     {"data.split.valid=0.1", "data.valid=x.csv", NULL}},
    {"data.split has samples that are never looked at",
     {"data.split.valid=0.1", "run.valid_every=0", NULL}},
    {"data.negatives", {"data.negatives=0", NULL, NULL}}};

TS_TESTS(no_such_deck, 0, sizeof decks / sizeof *decks) {
  int n = 0;
  while (n < 3 && decks[_i].sets[n]) n++;
  c = NULL;
  ck_assert_int_eq(ts_deck_parse(&c, deck, dir, decks[_i].sets, n),
                   TS_ERR_DECK);
  ck_assert_msg(strstr(ts_err_message(), decks[_i].words) != NULL, "%s",
                ts_err_message());
  ts_err_clear();
  ts_deck_destroy(c);
}

TS_TEST(times) {
  double t;
  ck_assert(ts_split_time("1970-01-02", 10, &t) && t == 86400);
  ck_assert(ts_split_time("2000/03/01T00:00:01.5Z", 22, &t) &&
            t == 951868801.5);
  ck_assert(ts_split_time("2014-10-21 07:30xx", 16, &t) && t == 1413876600);
  ck_assert(ts_split_time("2014-10-21 07:30 +01:30", 23, &t) &&
            t == 1413876600 - 5400);
  ck_assert(ts_split_time("2014-10-21T07:30:30.25-01", 25, &t) &&
            t == 1413876630.25 + 3600);
  ck_assert(ts_split_time("-1.5e3", 6, &t) && t == -1500);
  static const char *const none[] = {
      "", "nan", "2014-13-01", "2014-10-21 24:00", "2014-10-21x", "inf"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    ck_assert_msg(!ts_split_time(none[i], strlen(none[i]), &t), "%s", none[i]);
}
