/* test_serve.c - libtessera_serve's own calls: what words and numbers become,
 * batches that can't be scored, files that are no good, deltas, and updates
 * while other threads score.
 * ranks: 1 */
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "serve/tessera_serve.h"
#include "tests/serve/small_model.h"
#include "tests/support/folder.h"

static char path[2][128];
static small_model small;

static void name_files(void) {
  snprintf(path[0], sizeof path[0], "%s/a.tserve", dir);
  snprintf(path[1], sizeof path[1], "%s/b.tserve", dir);
}

/* File K serves a model of SEED, whose row CHANGED of table bags is another. */
static void write_file(int k, uint64_t seed, int64_t changed, ts_rows_kind kind,
                       const char *base) {
  ck_assert_ok(small_create(&small, seed));
  small.changed = changed;
  small.model.step = 7 + k;
  ck_assert_ok(small_write(&small, path[k], kind, base));
  small_destroy(&small);
}

static void start(void) {
  folder_start();
  name_files();
  write_file(0, 1, -1, TS_ROWS_F32, NULL);
}

typedef struct scoring {
  tserve_model *model;
  tserve_scorer *scorer;
} scoring;

static scoring begin(const char *file) {
  scoring s;
  ck_assert_msg(tserve_open(&s.model, file) == TSERVE_OK, "%s", tserve_error());
  ck_assert_int_eq(tserve_scorer_open(&s.scorer, s.model, 4, 1), TSERVE_OK);
  return s;
}

static void end(scoring *s) {
  tserve_scorer_close(s->scorer);
  tserve_close(s->model);
}

/* Five samples, more than a scorer takes at a time. */
enum { N = 5 };
static const float dense[2 * N] = {1, 2, 0, 3, NAN, 1, 5, 5, 1, 2};
static const char *const words[N] = {"apple", "cherry", "none", "", "apple"};
static const int64_t ids[8] = {3, 53, -47, 1, 2, 3, 4, 3};
static const int64_t offsets[N + 1] = {0, 1, 2, 3, 7, 8};

static tserve_batch batch_of(tserve_bags b[2]) {
  b[0] = (tserve_bags){.words = words, .n_ids = N};
  b[1] = (tserve_bags){.ids = ids, .offsets = offsets, .n_ids = 8};
  return (tserve_batch){.n = N, .dense = dense, .features = b};
}

static void score(const scoring *s, float out[N]) {
  tserve_bags b[2];
  const tserve_batch batch = batch_of(b);
  ck_assert_msg(tserve_score(s->scorer, &batch, out) == TSERVE_OK, "%s",
                tserve_error());
}

TS_TEST(a_model_says_what_it_is) {
  start();
  scoring s = begin(path[0]);
  ck_assert_int_eq(tserve_abi(), TSERVE_ABI);
  ck_assert_int_eq(tserve_n_dense(s.model), 2);
  ck_assert_int_eq(tserve_n_features(s.model), 2);
  ck_assert_int_eq(tserve_n_outputs(s.model), 1);
  ck_assert_str_eq(tserve_feature(s.model, 1), "bag");
  ck_assert_str_eq(tserve_output(s.model, 0), "label");
  ck_assert_ptr_null(tserve_feature(s.model, 2));
  ck_assert_ptr_null(tserve_output(s.model, -1));
  ck_assert_int_eq(tserve_rows(s.model, 1), 50);
  ck_assert_int_eq(tserve_dim(s.model, 0), 8);
  ck_assert_int_eq(tserve_step(s.model), 7);
  ck_assert_int_eq(tserve_vector_dim(s.model, 0), 0);
  end(&s);
  folder_stop();
}

/* Pieces of a batch are of other sizes, and so are sums of products. */
static bool near(float a, float b) {
  return fabsf(a - b) < 1e-6f;
}

/* Words of the vocabulary differ, others are row 0; remainders are alike; a
 * list keeps its first three; one sample is the same wherever it stands, and
 * as every sample's. */
TS_TEST(inputs_follow_the_data) {
  float out[N], same[N];
  tserve_bags b[2];
  start();
  scoring s = begin(path[0]);
  score(&s, out);
  ck_assert(near(out[0], out[4]));
  ck_assert(!near(out[0], out[1]) && !near(out[1], out[2]));
  tserve_batch batch = batch_of(b);
  const char *const others[N] = {"apple", "apple", "apple", "zebra", "nobody"};
  const int64_t alike[N] = {3, 53, -47, 3, 3};
  const float one[2] = {1, 2};
  b[0].words = others;
  b[1] = (tserve_bags){.ids = alike, .n_ids = N};
  batch.dense = one;
  batch.same_dense = 1;
  ck_assert_int_eq(tserve_score(s.scorer, &batch, same), TSERVE_OK);
  for (int i = 0; i < 3; i++) ck_assert(near(same[i], out[0]));
  ck_assert(near(same[3], same[4]) && !near(same[3], out[0]));
  b[0] = (tserve_bags){.words = words, .n_ids = 1, .same = 1};
  b[1] = (tserve_bags){.ids = ids + 3, .n_ids = 4, .same = 1};
  ck_assert_int_eq(tserve_score(s.scorer, &batch, same), TSERVE_OK);
  b[1].n_ids = 3;
  ck_assert_int_eq(tserve_score(s.scorer, &batch, out), TSERVE_OK);
  for (int i = 0; i < N; i++) ck_assert(near(same[i], out[0]));
  end(&s);
  folder_stop();
}

/* bf16 matrices are near f32's, and not the same. */
TS_TEST(matrices_of_bf16) {
  float out[N], few[N];
  start();
  scoring s = begin(path[0]);
  score(&s, out);
  end(&s);
  ck_assert_ok(small_create(&small, 1));
  small.dense = TS_ROWS_BF16;
  ck_assert_ok(small_write(&small, path[1], TS_ROWS_F32, NULL));
  small_destroy(&small);
  s = begin(path[1]);
  score(&s, few);
  end(&s);
  for (int i = 0; i < N; i++) ck_assert(fabsf(out[i] - few[i]) < 0.02f);
  ck_assert(memcmp(out, few, sizeof out) != 0);
  folder_stop();
}

/* CHANGE of a right batch: code INPUT, and a message with WORDS. */
static void refuse(const scoring *s, const tserve_batch *batch,
                   const char *text) {
  float out[N];
  ck_assert_int_eq(tserve_score(s->scorer, batch, out), TSERVE_INPUT);
  ck_assert_msg(strstr(tserve_error(), text) != NULL, "%s", tserve_error());
}

TS_TEST(bad_batches_are_refused) {
  tserve_bags b[2];
  const char *const nulls[N] = {"apple", NULL, "a", "a", "a"};
  const int64_t falls[N + 1] = {0, 2, 1, 3, 4, 8};
  const int64_t below[N + 1] = {-1, 2, 2, 3, 4, 8};
  tserve_scorer *none;
  start();
  scoring s = begin(path[0]);
  tserve_batch batch = batch_of(b);
  b[0].words = nulls;
  refuse(&s, &batch, "feature word: word 1 is NULL");
  batch = batch_of(b);
  b[0].n_ids = 4;
  refuse(&s, &batch, "feature word: has 5 ids, and there are 4");
  batch = batch_of(b);
  b[1].offsets = falls;
  refuse(&s, &batch, "feature bag: offsets[2]");
  b[1].offsets = below;
  refuse(&s, &batch, "feature bag: offsets[0]");
  batch = batch_of(b);
  b[1].n_ids = 7;
  refuse(&s, &batch, "feature bag: offsets[");
  batch = batch_of(b);
  b[1].ids = NULL;
  refuse(&s, &batch, "feature bag");
  batch = batch_of(b);
  b[1] = (tserve_bags){.words = words, .n_ids = N};
  refuse(&s, &batch, "feature bag: \"apple\"");
  batch.dense = NULL;
  refuse(&s, &batch, "no dense numbers");
  batch.features = NULL;
  refuse(&s, &batch, "no features");
  batch.n = -1;
  refuse(&s, &batch, "a batch of -1");
  ck_assert_int_eq(tserve_scorer_open(&none, s.model, 0, 1), TSERVE_INPUT);
  float out[N];
  score(&s, out); /* and goes on */
  end(&s);
  folder_stop();
}

/* ---- deltas and updates -------------------------------------------------- */

/* A delta makes of the file what a whole one would be; it is small. */
TS_TESTS(deltas, 0, TS_ROWS_KINDS) {
  float whole[N], got[N], first[N];
  ts_serve_file file;
  start();
  write_file(0, 1, -1, (ts_rows_kind)_i, NULL);
  scoring s = begin(path[0]);
  score(&s, first);
  write_file(1, 1, 3, (ts_rows_kind)_i, NULL);
  ck_assert_ok(ts_serve_open(&file, path[1]));
  const uint64_t seal = file.head.seal;
  const int64_t bytes = file.head.bytes;
  ts_serve_close(&file);
  scoring other = begin(path[1]);
  score(&other, whole);
  end(&other);
  ck_assert(whole[0] != first[0]);
  write_file(1, 1, 3, (ts_rows_kind)_i, path[0]);
  ck_assert_ok(ts_serve_open(&file, path[1]));
  ck_assert(file.head.seal == seal && file.head.bytes < bytes);
  const ts_serve_entry *rows = ts_serve_find(
      &file, "rows/",
      "sparse_arch.embedding_bag_collection.embedding_bags.bags.weight");
  ck_assert(rows && rows->rows == 1);
  ts_serve_close(&file);
  tserve_model *alone;
  ck_assert_int_eq(tserve_open(&alone, path[1]), TSERVE_FILE);
  ck_assert(strstr(tserve_error(), "is a delta") != NULL);
  ck_assert_int_eq(tserve_update(s.model, path[1]), TSERVE_OK);
  ck_assert_int_eq(tserve_step(s.model), 8);
  score(&s, got);
  ck_assert(!memcmp(got, whole, sizeof got));
  write_file(0, 2, -1, (ts_rows_kind)_i, NULL); /* of another file */
  scoring wrong = begin(path[0]);
  ck_assert_int_eq(tserve_update(wrong.model, path[1]), TSERVE_FILE);
  ck_assert(strstr(tserve_error(), "over another file") != NULL);
  end(&wrong);
  end(&s);
  folder_stop();
}

enum { THREADS = 4, UPDATES = 40 };
static float right[2][N];
static bool stop;

static void *score_on(void *arg) {
  tserve_scorer *scorer;
  tserve_bags b[2];
  float out[N];
  intptr_t n = 0;
  const tserve_batch batch = batch_of(b);
  if (tserve_scorer_open(&scorer, arg, 4, 1)) return NULL;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED) || n < 3) {
    if (tserve_score(scorer, &batch, out) != TSERVE_OK ||
        (memcmp(out, right[0], sizeof out) &&
         memcmp(out, right[1], sizeof out)))
      break;
    n++;
  }
  tserve_scorer_close(scorer);
  return (void *)(__atomic_load_n(&stop, __ATOMIC_RELAXED) ? n : 0);
}

/* Each score is that of one of the files, whole. */
TS_TEST(updates_under_way) {
  pthread_t thread[THREADS];
  start();
  write_file(1, 2, -1, TS_ROWS_F32, NULL);
  for (int k = 0; k < 2; k++) {
    scoring s = begin(path[k]);
    score(&s, right[k]);
    end(&s);
  }
  ck_assert(memcmp(right[0], right[1], sizeof right[0]) != 0);
  scoring s = begin(path[0]);
  stop = false;
  for (int t = 0; t < THREADS; t++)
    ck_assert_int_eq(pthread_create(&thread[t], NULL, score_on, s.model), 0);
  for (int i = 0; i < UPDATES; i++)
    ck_assert_int_eq(tserve_update(s.model, path[(i + 1) % 2]), TSERVE_OK);
  ck_assert_int_eq(tserve_update(s.model, "/nowhere"), TSERVE_FILE);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (int t = 0; t < THREADS; t++) {
    void *n;
    ck_assert_int_eq(pthread_join(thread[t], &n), 0);
    ck_assert_int_gt((intptr_t)n, 0);
  }
  end(&s);
  folder_stop();
}

/* ---- files that are no good ---------------------------------------------- */

/* Any byte that is another one: it is told, or scores are numbers of a table
 * whose bytes are nobody's to check; nothing is read beside the file. */
TS_TEST(damage_is_told) {
  ts_str right_file = {0};
  char bad[160];
  int told = 0, tried = 0;
  float out[N];
  start();
  ck_assert_ok(ts_file_read(&right_file, path[0]));
  snprintf(bad, sizeof bad, "%s/bad.tserve", dir);
  for (size_t at = 0; at < right_file.n_bytes; at += at < 64 ? 1 : 37) {
    right_file.text[at] ^= 0x55;
    FILE *file = fopen(bad, "wb");
    ck_assert_ptr_nonnull(file);
    fwrite(right_file.text, 1, right_file.n_bytes, file);
    fclose(file);
    right_file.text[at] ^= 0x55;
    tserve_model *m = NULL;
    tserve_scorer *s = NULL;
    tserve_bags b[2];
    const tserve_batch batch = batch_of(b);
    tried++;
    if (tserve_open(&m, bad) || tserve_scorer_open(&s, m, 4, 1))
      told += strstr(tserve_error(), bad) != NULL;
    else
      ck_assert_int_eq(tserve_score(s, &batch, out), TSERVE_OK);
    tserve_scorer_close(s);
    tserve_close(m);
  }
  ck_assert_int_gt(told, tried / 2);
  ts_str_reset(&right_file);
  folder_stop();
}

/* FROM gives way to TO, as long, in file K, whose sums are made right where
 * SEALED. */
static void edit_file(int k, const char *from, const char *to, size_t n,
                      bool sealed) {
  ts_str s = {0};
  ck_assert_ok(ts_file_read(&s, path[k]));
  char *at = memmem(s.text, s.n_bytes, from, n);
  ck_assert_ptr_nonnull(at);
  memcpy(at, to, n);
  if (sealed) small_seal_parts(s.text, s.n_bytes);
  if (sealed) small_seal(s.text, s.n_bytes);
  FILE *file = fopen(path[k], "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(s.text, 1, s.n_bytes, file), s.n_bytes);
  ck_assert_int_eq(fclose(file), 0);
  ts_str_reset(&s);
}

/* What a deck in a file may not do, and shapes that are no longer the same:
 * the old is served on. */
TS_TESTS(bad_updates_leave_the_old, 0, 6) {
  static const struct {
    const char *from, *to, *says;
    size_t n;
  } edits[] = {
#define EDIT(from, to, says) {from, to, says, sizeof from - 1}
      EDIT("name = \"words\";", "name = \"${HO}\";", "damaged"),
      EDIT("feature", "faeture", "b.tserve: its deck"),
      EDIT("\0csv\0", "\0npz\0", "which this version does not know"),
      EDIT("dense_features = 2", "dense_features = 3", "b.tserve"),
      EDIT("rows = 50;", "rows = 51;", "damaged"),
      EDIT("over_arch.model.1.bias", "over_arch.model.1.bibs", "damaged")};
  float before[N], after[N];
  start();
  write_file(1, 2, -1, TS_ROWS_F32, NULL);
  scoring s = begin(path[0]);
  score(&s, before);
  edit_file(1, edits[_i].from, edits[_i].to, edits[_i].n, true);
  ck_assert_int_eq(tserve_update(s.model, path[1]), TSERVE_FILE);
  ck_assert_msg(strstr(tserve_error(), edits[_i].says) != NULL, "%s",
                tserve_error());
  score(&s, after);
  ck_assert(!memcmp(before, after, sizeof before));
  tserve_model *m;
  ck_assert_int_eq(tserve_open(&m, path[1]), TSERVE_FILE);
  end(&s);
  folder_stop();
}

/* A weight whose bits have changed is found as the file is opened. */
TS_TEST(weights_are_looked_at) {
  ts_serve_file file;
  tserve_model *m;
  start();
  ck_assert_ok(ts_serve_open(&file, path[0]));
  const ts_serve_entry *e =
      ts_serve_find(&file, "model/", "over_arch.model.1.weight");
  ck_assert_ptr_nonnull(e);
  char old[9] = {0}, new[9] = "xxxxxxxx";
  memcpy(old, ts_serve_at(&file, e), 8);
  ts_serve_close(&file);
  if (!memchr(old, 0, 8)) edit_file(0, old, new, 8, false);
  ck_assert_int_eq(tserve_open(&m, path[0]),
                   memchr(old, 0, 8) ? TSERVE_OK : TSERVE_FILE);
  tserve_close(m);
  folder_stop();
}

TS_TEST(cut_files_are_told) {
  start();
  for (off_t n = 0; n < 300; n += 13) {
    tserve_model *m;
    ck_assert_int_eq(truncate(path[0], n), 0);
    ck_assert_int_eq(tserve_open(&m, path[0]), TSERVE_FILE);
    ck_assert_ptr_nonnull(strstr(tserve_error(), path[0]));
  }
  folder_stop();
}

/* What can't be written leaves nothing. */
TS_TEST(writing_is_whole_or_nothing) {
  char part[160];
  start();
  ck_assert_ok(small_create(&small, 1));
  snprintf(part, sizeof part, "%s.part", path[1]);
  ck_assert_int_eq(small_write(&small, path[1], TS_ROWS_INT8, path[0]),
                   TS_ERR_USAGE);
  ck_assert(strstr(ts_err_message(), "another shape or type") != NULL);
  ts_err_clear();
  ck_assert(access(part, F_OK) && access(path[1], F_OK));
  small_destroy(&small);
  folder_stop();
}
