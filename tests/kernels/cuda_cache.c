/* cuda_cache.c - cases of the cache of a device: batches held ahead, updated,
 * refreshed, released, flushed and read anew, by the host's entries and by a
 * target; after each step all that both have must be the same bytes.
 *
 * What must be resident is also told by a plain model of the policies, and in
 * the end all rows must be those of a table that has no cache. */
#include "tests/kernels/cuda_cache_sides.h"
#include "tests/sparse/cache_model.h"

/* ---- steps --------------------------------------------------------------- */

/* Hot rows and cold ones; some many times. */
static void fill(uint32_t *rows, const spec *x, int step) {
  uint64_t seed = 1000 + (uint64_t)step;
  for (int64_t i = 0; i < x->n_ids; i++) {
    const uint32_t r = test_random(&seed) % (i % 2 ? ROWS / 10 : ROWS);
    rows[i] = i % 5 == 0 ? 17 : r;
  }
}

static void hold(side *s, const spec *x, int step, const uint32_t *rows) {
  sides_step = "hold";
  for (int i = 0; i < 2; i++) {
    const int64_t pass = (x->n_ids + x->passes - 1) / x->passes;
    const ts_cache_args a = {.cache = &s[i].c,
                             .now = (uint32_t)step + 1,
                             .slots = s[i].slots[step],
                             .n = x->n_ids,
                             .pass = pass,
                             .report = &s[i].report};
    s[i].t->put(s[i].slots[step], rows, (size_t)x->n_ids * 4);
    ck_assert_ok(s[i].t->kernels.cache_hold(&a));
  }
  sides_same(s, "slots", s[0].slots[step], s[1].slots[step],
             (size_t)x->n_ids * 4);
  sides_compare(s);
  ck_assert_int_lt(s[1].report.launches, TS_CACHE_LAUNCHES_MAX);
  ck_assert_int_le(s[1].report.launches, 2 + 49 * x->passes);
  if (x->n_ids) ck_assert_int_gt(s[1].report.launches, 4 * x->passes);
}

static void again(side *s, const spec *x, int step, uint32_t round,
                  bool refresh) {
  sides_step = refresh ? "refresh" : "release";
  for (int i = 0; i < 2; i++) {
    const ts_kernels *k = &s[i].t->kernels;
    const ts_cache_args a = {.cache = &s[i].c,
                             .round = round,
                             .slots = s[i].slots[step],
                             .n = x->n_ids};
    ck_assert_ok(refresh ? k->cache_refresh(&a) : k->cache_release(&a));
  }
  sides_same(s, "slots", s[0].slots[step], s[1].slots[step],
             (size_t)x->n_ids * 4);
  sides_compare(s);
}

static void whole(side *s, bool out) {
  sides_step = out ? "flush" : "reload";
  for (int i = 0; i < 2; i++) {
    const ts_kernels *k = &s[i].t->kernels;
    const ts_cache_args a = {.cache = &s[i].c};
    ck_assert_ok(out ? k->cache_flush(&a) : k->cache_reload(&a));
  }
  sides_compare(s);
}

static int by_number(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static uint8_t *truth[PARTS];

static void add_to(uint8_t *row, int64_t bytes, int step) {
  for (int64_t i = 0; i < bytes; i++) row[i] = (uint8_t)(row[i] * 3 + step);
}

/* Rows of PLACE where they lie on this side. */
static void update_side(side *s, const uint32_t *keys, const uint32_t *place,
                        int64_t n, int step) {
  static uint8_t lines[LINES * 2064];
  for (int k = 0; k < PARTS; k++) {
    const int64_t bytes = part_bytes[k];
    const size_t all = (size_t)(s->c.n_sets * 32 * bytes);
    s->t->fetch(lines, s->c.part[k].lines, all);
    for (int64_t i = 0; i < n; i++) {
      if (i && keys[i] == keys[i - 1]) continue;
      uint8_t *row = place[i] < FIRST_LINE
                         ? (uint8_t *)s->rows[k] + place[i] * bytes
                         : lines + (place[i] - FIRST_LINE) * bytes;
      add_to(row, bytes, step);
    }
    s->t->put(s->c.part[k].lines, lines, all);
  }
}

static void update(side *s, const spec *x, int step, const uint32_t *rows) {
  static uint32_t keys[IDS], place[IDS];
  const size_t bytes = (size_t)x->n_ids * 4;
  sides_step = "locate";
  memcpy(keys, rows, bytes);
  qsort(keys, (size_t)x->n_ids, 4, by_number);
  memset(place, 0, bytes);
  for (int i = 0; i < 2; i++) {
    const ts_cache_args a = {.cache = &s[i].c,
                             .slots = s[i].place,
                             .keys = s[i].keys,
                             .n = x->n_ids};
    s[i].t->put(s[i].place, place, bytes);
    s[i].t->put(s[i].keys, keys, bytes);
    ck_assert_ok(s[i].t->kernels.cache_locate(&a));
  }
  sides_same(s, "places", s[0].place, s[1].place, bytes);
  sides_compare(s);
  s[0].t->fetch(place, s[0].place, bytes);
  for (int i = 0; i < 2; i++) update_side(&s[i], keys, place, x->n_ids, step);
  for (int k = 0; k < PARTS; k++)
    for (int64_t i = 0; i < x->n_ids; i++)
      if (i == 0 || keys[i] != keys[i - 1])
        add_to(truth[k] + keys[i] * part_bytes[k], part_bytes[k], step);
}

static void true_rows(const side *s) {
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < PARTS; k++)
      ck_assert_msg(
          !memcmp(s[i].rows[k], truth[k], (size_t)(ROWS * part_bytes[k])),
          "rows of side %d are not those of a table without a cache", i);
}

/* Rows are written by who reads a checkpoint. */
static void rewrite(side *s) {
  for (int k = 0; k < PARTS; k++) {
    add_to(truth[k], ROWS * part_bytes[k], 3);
    for (int i = 0; i < 2; i++) add_to(s[i].rows[k], ROWS * part_bytes[k], 3);
  }
}

/* ---- trains -------------------------------------------------------------- */

static uint64_t count(const side *s, int which) {
  uint64_t all[TABLES * TS_CACHE_COUNTS], sum = 0;
  s[1].t->fetch(all, s[1].c.counts, sizeof all);
  for (int t = 0; t < TABLES; t++) sum += all[t * TS_CACHE_COUNTS + which];
  return sum;
}

static void finish(side *s, const spec *x) {
  uint64_t locks[2];
  s[1].t->fetch(locks, s[1].c.locks, 16);
  ck_assert_uint_eq(locks[0], 0);
  ck_assert_uint_eq(count(s, TS_CACHE_IDS), (uint64_t)(STEPS * x->n_ids));
  if (x->n_ids < IDS) return;
  ck_assert_uint_gt(count(s, TS_CACHE_HITS), 0);
  ck_assert_uint_gt(count(s, TS_CACHE_MISSES), 0);
  ck_assert_uint_gt(count(s, TS_CACHE_WRITTEN), 0);
  ck_assert_uint_ge(count(s, TS_CACHE_EVICTED), count(s, TS_CACHE_WRITTEN));
  if (x->n_sets < 8) ck_assert_uint_gt(count(s, TS_CACHE_CONFLICTS), 0);
}

static void open_both(side *s, const spec *x) {
  if (cache_tested->set_blocks) cache_tested->set_blocks(x->blocks);
  side_open(&s[0], &cache_plain, x);
  side_open(&s[1], cache_tested, x);
  for (int k = 0; k < PARTS; k++)
    truth[k] = memcpy(test_alloc(ROWS * part_bytes[k], 1), s[0].rows[k],
                      (size_t)(ROWS * part_bytes[k]));
}

static void close_both(side *s) {
  for (int k = 0; k < PARTS; k++) free(truth[k]);
  for (int i = 0; i < 2; i++) side_close(&s[i]);
}

/* As the prefetch pipeline has it: the next batch is held before this one is
 * updated and released. */
static void train(const spec *x) {
  static uint32_t rows[STEPS][IDS];
  static side s[2];
  uint32_t round = 0;
  open_both(s, x);
  for (int b = 0; b < STEPS; b++) fill(rows[b], x, b);
  hold(s, x, 0, rows[0]);
  for (int b = 0; b < STEPS; b++) {
    if (b + 1 < STEPS) hold(s, x, b + 1, rows[b + 1]);
    if (b % 2) again(s, x, b, ++round, true);
    if (b != 1) update(s, x, b, rows[b]); /* that one's lines stay clean */
    again(s, x, b, ++round, false);
    if (b != STEPS / 2) continue;
    whole(s, true);
    true_rows(s);
    rewrite(s);
    whole(s, false);
  }
  finish(s, x);
  whole(s, true);
  true_rows(s);
  close_both(s);
}

START_TEST(trains) {
  static const int sets[] = {1, 4, SETS}, passes[] = {1, 3, 16};
  const spec x = {.n_sets = sets[_i % 3],
                  .passes = passes[_i / 3 % 3],
                  .blocks = _i % 2 ? 1 : 3,
                  .lfu = _i / 9,
                  .n_ids = IDS};
  train(&x);
}
END_TEST

START_TEST(sizes) {
  static const int64_t n_ids[] = {0, 1, 31, 32, 33, 257};
  for (int passes = 1; passes < 3; passes++) {
    const spec x = {
        .n_sets = 2, .passes = passes, .blocks = 2, .n_ids = n_ids[_i]};
    train(&x);
  }
}
END_TEST

/* ---- a plain model ------------------------------------------------------- */

/* Rows have the lines that the model gives them, over many batches. */
START_TEST(policies) {
  const spec x = {.n_sets = _i / 2 ? SETS : 2,
                  .passes = 1,
                  .blocks = 3,
                  .lfu = _i % 2,
                  .n_ids = 200};
  static uint32_t rows[IDS], tags[LINES];
  static bool held[IDS];
  static side s[2];
  open_both(s, &x);
  cache_model m = model_open(ROWS, (32.0 * x.n_sets - 1) / ROWS, x.lfu, true);
  for (int step = 0; step < 70; step++) {
    fill(rows, &x, step);
    model_hold(&m, rows, x.n_ids, x.n_ids, held);
    model_release(&m, rows, x.n_ids, held);
    const ts_cache_args a = {.cache = &s[1].c,
                             .now = (uint32_t)step + 1,
                             .round = (uint32_t)step + 1,
                             .slots = s[1].slots[0],
                             .n = x.n_ids,
                             .pass = x.n_ids};
    s[1].t->put(s[1].slots[0], rows, (size_t)x.n_ids * 4);
    ck_assert_ok(s[1].t->kernels.cache_hold(&a));
    ck_assert_ok(s[1].t->kernels.cache_release(&a));
    s[1].t->fetch(tags, s[1].c.tag, (size_t)x.n_sets * 32 * 4);
    for (int i = 0; i < 32 * x.n_sets; i++)
      ck_assert_msg(m.line[i].full ? tags[i] == m.line[i].row
                                   : tags[i] == TS_CACHE_NONE,
                    "batch %d: line %d has row %u", step, i, tags[i]);
  }
  ck_assert_uint_eq(count(s, TS_CACHE_HITS), (uint64_t)m.count.n_hits);
  ck_assert_uint_eq(count(s, TS_CACHE_EVICTED), (uint64_t)m.count.n_evicted);
  ck_assert_uint_gt(count(s, TS_CACHE_EVICTED), 0);
  model_close(&m);
  close_both(s);
}
END_TEST

/* ---- rows of the group --------------------------------------------------- */

START_TEST(rows) {
  enum { MOST = 300, EACH = 3 };
  static const int32_t n_features[] = {1, 5, 128, 129, MOST};
  const int32_t f = n_features[_i];
  static int64_t start_of[MOST + 1], base[MOST], offsets[MOST * EACH + 1];
  static int32_t ids[MOST * EACH * 4];
  static uint32_t out[2][MOST * EACH * 4];
  uint64_t seed = 9;
  int64_t n = 0;
  for (int32_t i = 0; i < f; i++) {
    base[i] = 1000 * i;
    start_of[i + 1] = start_of[i] + i % (EACH + 1);
    for (int64_t b = start_of[i]; b < start_of[i + 1]; b++)
      offsets[b + 1] = offsets[b] + test_random(&seed) % 5;
  }
  n = offsets[start_of[f]];
  for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)(test_random(&seed) % 900);
  const cache_target *const t[2] = {&cache_plain, cache_tested};
  if (cache_tested->set_blocks) cache_tested->set_blocks(3);
  for (int k = 0; k < 2; k++) {
    void *sent[3] = {t[k]->send(out[k], sizeof out[k]),
                     t[k]->send(offsets, sizeof offsets),
                     t[k]->send(ids, sizeof ids)};
    const ts_cache_rows_args a = {.out = sent[0],
                                  .offsets = sent[1],
                                  .rows = sent[2],
                                  .bag_start = start_of,
                                  .row_base = base,
                                  .n_features = f,
                                  .n = n};
    ck_assert_ok(t[k]->kernels.cache_rows(&a));
    t[k]->fetch(out[k], sent[0], sizeof out[k]);
    for (int i = 0; i < 3; i++) t[k]->drop(sent[i]);
  }
  ck_assert_int_eq(memcmp(out[0], out[1], sizeof out[0]), 0);
}
END_TEST

Suite *cuda_cache_suite(const char *name, const cache_target *t) {
  Suite *suite = suite_create(name);
  TCase *c = tcase_create("cache");
  cache_tested = t;
  tcase_add_unchecked_fixture(c, sides_start, sides_stop);
  tcase_add_loop_test(c, trains, 0, 18);
  tcase_add_loop_test(c, sizes, 0, 6);
  tcase_add_loop_test(c, policies, 0, 4);
  tcase_add_loop_test(c, rows, 0, 5);
  suite_add_tcase(suite, c);
  return suite;
}
