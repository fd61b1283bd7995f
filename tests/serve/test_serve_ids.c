/* test_serve_ids.c - tables of any 64-bit id that are served: finds beside a
 * plain search, with keys that are even and keys that are not; scores by ids;
 * deltas with the same ids and with others; files that are no good.
 * ranks: 1 */
#include <math.h>

#include "base/file.h"
#include "base/mem.h"
#include "serve/keys.h"
#include "serve/tessera_serve.h"
#include "tests/serve/small_model.h"
#include "tests/support/folder.h"

/* ---- finds --------------------------------------------------------------- */

enum { MOST = 5000 };

static int ascending(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static uint64_t draws;
static uint64_t draw(void) {
  return ts_mix64(++draws * UINT64_C(0x9e3779b97f4a7c15));
}

/* The N-th key of a kind: even; all in one run; both ends; dense. */
static uint64_t key_of(int kind, int64_t n) {
  if (n < 2) return n ? UINT64_MAX : 0;
  return kind == 0   ? draw()
         : kind == 1 ? (UINT64_C(0xabcdef) << 40) + draw() % 100000
         : kind == 2 ? draw() >> 40 << (n % 2 * 40)
                     : UINT64_MAX / 2 + (uint64_t)n;
}

static void find_all(int kind, int64_t n) {
  static uint64_t key[MOST + 1];
  static int64_t ids[3 * MOST], want[3 * MOST];
  ts_serve_keys k;
  bool good;
  int64_t m = 0, n_own = 0;
  for (int64_t i = 0; i < n; i++) key[i] = key_of(kind, i);
  qsort(key, (size_t)n, sizeof *key, ascending);
  for (int64_t i = 0; i < n; i++) /* equal ones once */
    if (!i || key[i] != key[n_own - 1]) key[n_own++] = key[i];
  ck_assert_ok(ts_serve_keys_create(&k, key, n_own, &good));
  ck_assert(good);
  for (int64_t i = 0; i < n_own; i++) {
    const int64_t at = (i * 7919) % n_own;
    want[m] = at;
    ids[m++] = (int64_t)ts_unmix64(key[at]);
    ck_assert(ts_serve_keys_id(&k, at) == ids[m - 1]);
    if (at + 1 < n_own && key[at + 1] == key[at] + 1) continue;
    if (key[at] == UINT64_MAX) continue;
    want[m] = n_own; /* beside a key */
    ids[m++] = (int64_t)ts_unmix64(key[at] + 1);
  }
  want[m] = !n_own || key[0] ? n_own : 0;
  ids[m++] = (int64_t)ts_unmix64(0);
  ts_serve_keys_find(&k, ids, m);
  ck_assert(!memcmp(ids, want, (size_t)m * sizeof *ids));
  ts_serve_keys_reset(&k);
}

TS_TESTS(finds, 0, 4) {
  static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 31, 32, 33, 100, 999, MOST};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    find_all(_i, sizes[i]);
}

TS_TEST(keys_that_do_not_ascend) {
  const uint64_t keys[3][3] = {{1, 3, 2}, {5, 5, 6}, {UINT64_MAX, 0, 1}};
  for (int i = 0; i < 3; i++) {
    ts_serve_keys k;
    bool good;
    ck_assert_ok(ts_serve_keys_create(&k, keys[i], 3, &good));
    ck_assert(!good);
    ts_serve_keys_reset(&k);
  }
}

/* ---- scores -------------------------------------------------------------- */

enum { N = 6 };
static char path[3][128];

static void write_file(int k, uint64_t seed, int64_t first, int64_t n,
                       int64_t changed, ts_rows_kind kind, const char *base) {
  small_model m;
  ck_assert_ok(small_create_dynamic(&m, seed, first, n));
  m.changed = changed;
  m.model.step = 7 + k;
  ck_assert_ok(small_write(&m, path[k], kind, base));
  small_destroy(&m);
}

static void start(void) {
  folder_start();
  for (int k = 0; k < 3; k++)
    snprintf(path[k], sizeof path[k], "%s/%c.tserve", dir, "abc"[k]);
}

/* The ids from FIRST on, one a sample. */
static void score_by(tserve_model *m, int64_t first, float out[N]) {
  tserve_scorer *s;
  const char *words[N];
  int64_t ids[N];
  float dense[2 * N];
  for (int i = 0; i < N; i++) {
    words[i] = "apple";
    ids[i] = small_id(first + i);
    dense[2 * i] = 1, dense[2 * i + 1] = 2;
  }
  const tserve_bags b[2] = {{.words = words, .n_ids = N},
                            {.ids = ids, .n_ids = N}};
  const tserve_batch batch = {.n = N, .dense = dense, .features = b};
  ck_assert_int_eq(tserve_scorer_open(&s, m, N, 1), TSERVE_OK);
  ck_assert_int_eq(tserve_score(s, &batch, out), TSERVE_OK);
  tserve_scorer_close(s);
}

static tserve_model *opened(int k) {
  tserve_model *m;
  ck_assert_msg(tserve_open(&m, path[k]) == TSERVE_OK, "%s", tserve_error());
  return m;
}

/* Rows are those of their ids, whichever others there are, and ids that the
 * table has not are all alike: as no id. */
TS_TESTS(rows_are_of_ids, 0, TS_ROWS_KINDS) {
  float a[N], b[N];
  start();
  write_file(0, 1, 0, 40, -1, (ts_rows_kind)_i, NULL);
  write_file(1, 1, 20, 40, -1, (ts_rows_kind)_i, NULL);
  tserve_model *first = opened(0), *second = opened(1);
  ck_assert_int_eq(tserve_rows(first, 1), 40);
  uint64_t sum = 0, want = 0; /* any order; they wrap */
  for (int64_t k = 0; k < 40; k++) {
    sum += (uint64_t)tserve_id(first, 1, k);
    want += (uint64_t)small_id(k);
  }
  ck_assert(sum == want && tserve_id(first, 1, 40) == 40);
  ck_assert_int_eq(tserve_id(first, 0, 2), 2);
  score_by(first, 30, a);
  score_by(second, 30, b);
  ck_assert(!memcmp(a, b, sizeof a));
  score_by(first, 37, a); /* three are there */
  score_by(first, -100, b);
  for (int i = 0; i < N; i++)
    ck_assert((fabsf(a[i] - b[0]) < 1e-6f) == (i >= 3));
  tserve_close(first);
  tserve_close(second);
  folder_stop();
}

static int64_t bytes_of(int k) {
  ts_serve_file file;
  ck_assert_ok(ts_serve_open(&file, path[k]));
  const int64_t bytes = file.head.bytes;
  ts_serve_close(&file);
  return bytes;
}

/* A delta makes of the file what a whole one would be: with the same ids, with
 * one row that changed, with other ids of which some were there, with none. */
TS_TESTS(deltas, 0, 5) {
  static const struct {
    int64_t first, n, changed;
  } next[] = {{0, 40, -1}, {0, 40, 3}, {10, 60, 3}, {99, 40, -1}, {0, 0, -1}};
  float whole[N], got[N];
  for (int kind = 0; kind < TS_ROWS_KINDS; kind++) {
    int64_t changed = next[_i].changed;
    start();
    /* That of a row is its id's. */
    if (changed >= 0)
      changed = (int64_t)(ts_mix64((uint64_t)small_id(20)) % 1000);
    write_file(0, 1, 0, 40, -1, (ts_rows_kind)kind, NULL);
    write_file(1, 1, next[_i].first, next[_i].n, changed, (ts_rows_kind)kind,
               NULL);
    write_file(2, 1, next[_i].first, next[_i].n, changed, (ts_rows_kind)kind,
               path[0]);
    ck_assert_int_lt(bytes_of(2), bytes_of(1));
    tserve_model *all = opened(1), *m = opened(0);
    ck_assert_msg(!tserve_update(m, path[2]), "%s", tserve_error());
    ck_assert_int_eq(tserve_rows(m, 1), next[_i].n);
    for (int64_t first = -3; first < 120; first += N) {
      score_by(all, first, whole);
      score_by(m, first, got);
      ck_assert(!memcmp(got, whole, sizeof got));
    }
    tserve_close(all);
    tserve_close(m);
    folder_stop();
  }
}

/* ---- files that are no good ---------------------------------------------- */

/* All bytes of part HEAD NAME, and its entry, for EDIT; sums are made right. */
static void edit(int k, const char *head, const char *name,
                 void (*how)(char *data, ts_serve_entry *)) {
  ts_str s = {0};
  ts_serve_file file;
  ck_assert_ok(ts_serve_open(&file, path[k]));
  const ts_serve_entry *e = ts_serve_find(&file, head, name);
  ck_assert_ptr_nonnull(e);
  const size_t at =
      (size_t)file.head.index + (size_t)(e - file.index) * sizeof *e;
  ts_serve_close(&file);
  ck_assert_ok(ts_file_read(&s, path[k]));
  ts_serve_entry own;
  memcpy(&own, s.text + at, sizeof own);
  how(s.text + own.at, &own);
  memcpy(s.text + at, &own, sizeof own);
  small_seal_parts(s.text, s.n_bytes);
  small_seal(s.text, s.n_bytes);
  FILE *to = fopen(path[k], "wb");
  ck_assert_ptr_nonnull(to);
  ck_assert_uint_eq(fwrite(s.text, 1, s.n_bytes, to), s.n_bytes);
  ck_assert_int_eq(fclose(to), 0);
  ts_str_reset(&s);
}

static void swap(char *data, ts_serve_entry *e) {
  char x[8];
  (void)e;
  memcpy(x, data, 8);
  memcpy(data, data + 8, 8);
  memcpy(data + 8, x, 8);
}
static void shorten(char *data, ts_serve_entry *e) {
  (void)data;
  e->rows--, e->bytes -= 8;
}
static void as_bytes(char *data, ts_serve_entry *e) {
  (void)data;
  e->kind = TS_PART_BYTES;
  e->rows *= 8;
}
/* Ids that neither file has rows of, with such that they have behind them. */
static void as_others(char *data, ts_serve_entry *e) {
  for (int64_t i = 0; i < e->rows - 10; i++) data[8 * i] ^= 1;
}
static void first_is_beyond(char *data, ts_serve_entry *e) {
  const int64_t beyond = 1 << 20;
  (void)e;
  memcpy(data, &beyond, 8);
}

TS_TESTS(bad_ids_are_told, 0, 3) {
  void (*const how[])(char *, ts_serve_entry *) = {swap, shorten, as_bytes};
  tserve_model *m;
  start();
  write_file(0, 1, 0, 40, -1, TS_ROWS_INT8, NULL);
  edit(0, "ids/", "bags", how[_i]);
  ck_assert_int_eq(tserve_open(&m, path[0]), TSERVE_FILE);
  ck_assert_msg(strstr(tserve_error(), "the ids of a table") != NULL, "%s",
                tserve_error());
  folder_stop();
}

TS_TESTS(bad_deltas_are_told, 0, 5) {
  static const char table[] =
      "sparse_arch.embedding_bag_collection.embedding_bags.bags.weight";
  start();
  write_file(0, 1, 0, 40, -1, TS_ROWS_INT8, NULL);
  write_file(1, 1, 20, 40, -1, TS_ROWS_INT8, path[0]);
  tserve_model *m = opened(0);
  if (_i == 0) edit(1, "ids/", "bags", swap);
  if (_i == 1) edit(1, "ids/", "bags", shorten);
  if (_i == 2) edit(1, "rows/", table, swap);
  if (_i == 4) edit(1, "ids/", "bags", as_others);
  if (_i == 3) edit(1, "rows/", table, first_is_beyond);
  ck_assert_int_eq(tserve_update(m, path[1]), TSERVE_FILE);
  ck_assert(strstr(tserve_error(), path[1]) != NULL);
  tserve_close(m);
  folder_stop();
}

/* What a checkpoint and a deck say differs. */
TS_TEST(what_cannot_be_written) {
  small_model m;
  start();
  ck_assert_ok(small_create_dynamic(&m, 1, 0, 40));
  const int64_t id = m.id[3];
  m.id[3] = m.id[4];
  ck_assert_int_eq(small_write(&m, path[0], TS_ROWS_F32, NULL), TS_ERR_CKPT);
  ck_assert(strstr(ts_err_message(), "ids of table bags are damaged") != NULL);
  ts_err_clear();
  m.id[3] = id;
  m.model.n--; /* the ids */
  ck_assert_int_eq(small_write(&m, path[0], TS_ROWS_F32, NULL), TS_ERR_CKPT);
  ck_assert(strstr(ts_err_message(), "or the checkpoint alone") != NULL);
  ts_err_clear();
  m.model.n++;
  m.model.item[m.model.n - 1].rows--;
  ck_assert_int_eq(small_write(&m, path[0], TS_ROWS_F32, NULL), TS_ERR_CKPT);
  ck_assert(strstr(ts_err_message(), "table bags has 40 rows") != NULL);
  ts_err_clear();
  small_destroy(&m);
  folder_stop();
}
