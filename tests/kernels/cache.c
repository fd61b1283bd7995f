/* cache.c - the contract of the cache of rows in slow memory: batches held
 * ahead, updated, refreshed, released, flushed and read anew; after each step
 * all bytes are the oracle's.
 *
 * What must be resident is also told by a plain model of the policies, and in
 * the end all rows must be those of a table that has no cache.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 600 */
#include "sparse/cache.h"
#include "base/mem.h"
#include "tests/sparse/cache_model.h"
#include "tests/support/contract.h"

enum { ROWS = 900, TABLES = 4, STEPS = 6, IDS = 700, PARTS = 3, SETS = 16 };
enum { LINES = 32 * SETS, FIRST_LINE = 4096 };
/* Rows in pieces of 16, 4 and 2 bytes; the first in more than 128 of them. */
static const int64_t part_bytes[PARTS] = {2064, 20, 6};
static const int64_t row_base[TABLES + 1] = {0, 300, 300, 310, ROWS};

typedef struct spec {
  int n_sets, passes;
  bool lfu;
  int64_t n_ids;
} spec;

typedef struct cache_case {
  spec x;
  ts_cache c;
  uint32_t *slots[STEPS], *keys, *place;
} cache_case;

/* A run: its kernels, its memory, and the rows of a table without a cache. */
typedef struct run {
  const ts_kernels *k;
  const spec *x;
  ts_cache c;
  uint32_t *slots[STEPS], *keys, *place;
  uint8_t *rows[PARTS], *truth[PARTS];
  ts_cache_report report;
} run;

static void make(cache_case *c, const spec *x) {
  const int64_t n_lines = 32 * x->n_sets;
  kt_begin();
  *c = (cache_case){.x = *x};
  c->c = (ts_cache){.tag = kt_zeros(n_lines, 4),
                    .line = kt_zeros(n_lines, sizeof(ts_cache_line)),
                    .n_sets = x->n_sets,
                    .first_line = FIRST_LINE,
                    .lfu = x->lfu,
                    .row_base = kt_copy(row_base, TABLES + 1, 8),
                    .n_tables = TABLES,
                    .counts = kt_zeros(TABLES * TS_CACHE_COUNTS, 8),
                    .locks = kt_zeros(2, 8),
                    .n_parts = PARTS};
  if (x->passes > 1) c->c.through = kt_zeros(ROWS / 32 + 1, 4);
  for (int k = 0; k < PARTS; k++)
    c->c.part[k] = (ts_cache_part){.rows = kt_reached(ROWS, part_bytes[k]),
                                   .lines = kt_zeros(n_lines, part_bytes[k]),
                                   .bytes = part_bytes[k]};
  for (int b = 0; b < STEPS; b++) c->slots[b] = kt_zeros(IDS, 4);
  c->keys = kt_zeros(IDS, 4);
  c->place = kt_zeros(IDS, 4);
}

static void begin(run *r, const cache_case *c, const ts_kernels *k) {
  *r = (run){.k = k, .x = &c->x, .c = c->c};
  KT_AT(r->c.tag), KT_AT(r->c.line), KT_AT(r->c.through), KT_AT(r->c.row_base);
  KT_AT(r->c.counts), KT_AT(r->c.locks);
  for (int i = 0; i < PARTS; i++) {
    const size_t bytes = (size_t)(ROWS * part_bytes[i]);
    KT_AT(r->c.part[i].rows), KT_AT(r->c.part[i].lines);
    r->rows[i] = kt_host(c->c.part[i].rows);
    r->truth[i] = memcpy(test_alloc((int64_t)bytes, 1), r->rows[i], bytes);
  }
  for (int b = 0; b < STEPS; b++) r->slots[b] = kt_at(c->slots[b]);
  r->keys = kt_at(c->keys);
  r->place = kt_at(c->place);
  const ts_cache_args a = {.cache = &r->c};
  ck_assert_ok(k->cache_reload(&a));
}

static void end(run *r) {
  for (int k = 0; k < PARTS; k++) free(r->truth[k]);
  ts_mem_free(r->report.scratch);
}

/* ---- steps --------------------------------------------------------------- */

/* Hot rows and cold ones; some many times. */
static void fill(uint32_t *rows, const spec *x, int step) {
  uint64_t seed = 1000 + (uint64_t)step;
  for (int64_t i = 0; i < x->n_ids; i++) {
    const uint32_t r = test_random(&seed) % (i % 2 ? ROWS / 10 : ROWS);
    rows[i] = i % 5 == 0 ? 17 : r;
  }
}

static void hold(run *r, int step, const uint32_t *rows) {
  const spec *x = r->x;
  const ts_cache_args a = {.cache = &r->c,
                           .now = (uint32_t)step + 1,
                           .slots = r->slots[step],
                           .n = x->n_ids,
                           .pass = (x->n_ids + x->passes - 1) / x->passes,
                           .report = &r->report};
  ck_assert_ok(r->k->put(r->slots[step], rows, (size_t)x->n_ids * 4));
  ck_assert_ok(r->k->cache_hold(&a));
  kt_step(r->k, "hold");
  if (kt_apart() && strcmp(ts_test_backend(), "fake") != 0) {
    ck_assert_int_lt(r->report.launches, TS_CACHE_LAUNCHES_MAX);
    ck_assert_int_le(r->report.launches, 2 + 49 * x->passes);
    if (x->n_ids) ck_assert_int_gt(r->report.launches, 4 * x->passes);
  }
}

static void again(run *r, int step, uint32_t round, bool refresh) {
  const ts_cache_args a = {.cache = &r->c,
                           .round = round,
                           .slots = r->slots[step],
                           .n = r->x->n_ids};
  ck_assert_ok(refresh ? r->k->cache_refresh(&a) : r->k->cache_release(&a));
  kt_step(r->k, refresh ? "refresh" : "release");
}

static void whole(run *r, bool out) {
  const ts_cache_args a = {.cache = &r->c};
  ck_assert_ok(out ? r->k->cache_flush(&a) : r->k->cache_reload(&a));
  kt_step(r->k, out ? "flush" : "reload");
}

static int by_number(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static void add_to(uint8_t *row, int64_t bytes, int step) {
  for (int64_t i = 0; i < bytes; i++) row[i] = (uint8_t)(row[i] * 3 + step);
}

/* Rows where they lie, and those of the table without a cache. */
static void update_part(run *r, int k, const uint32_t *keys,
                        const uint32_t *place, int step) {
  static uint8_t lines[LINES * 2064];
  const int64_t bytes = part_bytes[k];
  const size_t all = (size_t)(r->c.n_sets * 32 * bytes);
  ck_assert_ok(r->k->fetch(lines, r->c.part[k].lines, all));
  for (int64_t i = 0; i < r->x->n_ids; i++) {
    if (i && keys[i] == keys[i - 1]) continue;
    add_to(place[i] < FIRST_LINE ? r->rows[k] + place[i] * bytes
                                 : lines + (place[i] - FIRST_LINE) * bytes,
           bytes, step);
    add_to(r->truth[k] + keys[i] * bytes, bytes, step);
  }
  ck_assert_ok(r->k->put(r->c.part[k].lines, lines, all));
}

static void update(run *r, int step, const uint32_t *rows) {
  static uint32_t keys[IDS], place[IDS];
  const size_t bytes = (size_t)r->x->n_ids * 4;
  const ts_cache_args a = {
      .cache = &r->c, .slots = r->place, .keys = r->keys, .n = r->x->n_ids};
  memcpy(keys, rows, bytes);
  qsort(keys, (size_t)r->x->n_ids, 4, by_number);
  memset(place, 0, bytes);
  ck_assert_ok(r->k->put(r->place, place, bytes));
  ck_assert_ok(r->k->put(r->keys, keys, bytes));
  ck_assert_ok(r->k->cache_locate(&a));
  kt_step(r->k, "locate");
  ck_assert_ok(r->k->fetch(place, r->place, bytes));
  for (int k = 0; k < PARTS; k++) update_part(r, k, keys, place, step);
}

static void true_rows(const run *r) {
  for (int k = 0; k < PARTS; k++)
    ck_assert_msg(
        !memcmp(r->rows[k], r->truth[k], (size_t)(ROWS * part_bytes[k])),
        "%s: rows are not those of a table without a cache", kt_who());
}

/* Rows are written by who reads a checkpoint. */
static void rewrite(run *r) {
  for (int k = 0; k < PARTS; k++) {
    add_to(r->truth[k], ROWS * part_bytes[k], 3);
    add_to(r->rows[k], ROWS * part_bytes[k], 3);
  }
}

/* ---- trains -------------------------------------------------------------- */

static uint64_t count(const run *r, int which) {
  uint64_t all[TABLES * TS_CACHE_COUNTS], sum = 0;
  ck_assert_ok(r->k->fetch(all, r->c.counts, sizeof all));
  for (int t = 0; t < TABLES; t++) sum += all[t * TS_CACHE_COUNTS + which];
  return sum;
}

static void finish(const run *r) {
  uint64_t locks[2];
  ck_assert_ok(r->k->fetch(locks, r->c.locks, sizeof locks));
  ck_assert_uint_eq(locks[0], 0);
  ck_assert_uint_eq(count(r, TS_CACHE_IDS), (uint64_t)(STEPS * r->x->n_ids));
  if (r->x->n_ids < IDS) return;
  ck_assert_uint_gt(count(r, TS_CACHE_HITS), 0);
  ck_assert_uint_gt(count(r, TS_CACHE_MISSES), 0);
  ck_assert_uint_gt(count(r, TS_CACHE_WRITTEN), 0);
  ck_assert_uint_ge(count(r, TS_CACHE_EVICTED), count(r, TS_CACHE_WRITTEN));
  if (r->x->n_sets < 8) ck_assert_uint_gt(count(r, TS_CACHE_CONFLICTS), 0);
}

/* As the prefetch pipeline has it: the next batch is held before this one is
 * updated and released. */
static ts_err run_train(const ts_kernels *k, const void *arg) {
  static uint32_t rows[STEPS][IDS];
  uint32_t round = 0;
  run r;
  begin(&r, arg, k);
  for (int b = 0; b < STEPS; b++) fill(rows[b], r.x, b);
  hold(&r, 0, rows[0]);
  for (int b = 0; b < STEPS; b++) {
    if (b + 1 < STEPS) hold(&r, b + 1, rows[b + 1]);
    if (b % 2) again(&r, b, ++round, true);
    if (b != 1) update(&r, b, rows[b]); /* that one's lines stay clean */
    again(&r, b, ++round, false);
    if (b != STEPS / 2) continue;
    whole(&r, true);
    true_rows(&r);
    rewrite(&r);
    whole(&r, false);
  }
  finish(&r);
  whole(&r, true);
  true_rows(&r);
  end(&r);
  return TS_OK;
}

static void train(const spec *x) {
  static cache_case c;
  make(&c, x);
  kt_check(run_train, &c);
}

KT_CONTRACT("cache_rows cache_hold cache_release cache_refresh cache_locate "
            "cache_flush cache_reload fetch put")

TS_TESTS(trains, 0, 18) {
  static const int sets[] = {1, 4, SETS}, passes[] = {1, 3, 16};
  train(&(spec){.n_sets = sets[_i % 3],
                .passes = passes[_i / 3 % 3],
                .lfu = _i / 9,
                .n_ids = IDS});
}

TS_TESTS(sizes, 0, 6) {
  static const int64_t n_ids[] = {0, 1, 31, 32, 33, 257};
  for (int passes = 1; passes < 3; passes++)
    train(&(spec){.n_sets = 2, .passes = passes, .n_ids = n_ids[_i]});
}

/* ---- a plain model ------------------------------------------------------- */

static ts_err run_policy(const ts_kernels *k, const void *arg) {
  static uint32_t rows[IDS], tags[LINES];
  static bool held[IDS];
  run r;
  begin(&r, arg, k);
  const spec *x = r.x;
  cache_model m = model_open(ROWS, x->n_sets, x->lfu, true);
  for (int step = 0; step < 70; step++) {
    fill(rows, x, step);
    model_hold(&m, rows, x->n_ids, x->n_ids, held);
    model_release(&m, rows, x->n_ids, held);
    const ts_cache_args a = {.cache = &r.c,
                             .now = (uint32_t)step + 1,
                             .round = (uint32_t)step + 1,
                             .slots = r.slots[0],
                             .n = x->n_ids,
                             .pass = x->n_ids,
                             .report = &r.report};
    ck_assert_ok(k->put(r.slots[0], rows, (size_t)x->n_ids * 4));
    ck_assert_ok(k->cache_hold(&a));
    ck_assert_ok(k->cache_release(&a));
    ck_assert_ok(k->fetch(tags, r.c.tag, (size_t)x->n_sets * 32 * 4));
    for (int i = 0; i < 32 * x->n_sets; i++)
      ck_assert_msg(tags[i] == (m.line[i].full ? m.line[i].row : TS_CACHE_NONE),
                    "batch %d: line %d has row %u", step, i, tags[i]);
  }
  ck_assert_uint_eq(count(&r, TS_CACHE_HITS), (uint64_t)m.count.n_hits);
  ck_assert_uint_eq(count(&r, TS_CACHE_EVICTED), (uint64_t)m.count.n_evicted);
  ck_assert_uint_gt(count(&r, TS_CACHE_EVICTED), 0);
  model_close(&m);
  end(&r);
  return TS_OK;
}

/* Rows have the lines that the model gives them, over many batches. */
TS_TESTS(policies, 0, 4) {
  static cache_case c;
  make(&c, &(spec){.n_sets = _i / 2 ? SETS : 2,
                   .passes = 1,
                   .lfu = _i % 2,
                   .n_ids = 200});
  kt_check(run_policy, &c);
}

/* ---- rows of the group --------------------------------------------------- */

KT_CALL(run_rows, cache_rows, ts_cache_rows_args)

TS_TESTS(rows, 0, 5) {
  enum { MOST = 300, EACH = 3 };
  static const int32_t n_features[] = {1, 5, 128, 129, MOST};
  static int64_t start_of[MOST + 1], base[MOST];
  const int32_t f = n_features[_i];
  int64_t *offsets = kt_zeros(MOST * EACH + 1, 8);
  for (int32_t i = 0; i < f; i++) {
    base[i] = 1000 * i;
    start_of[i + 1] = start_of[i] + i % (EACH + 1);
    for (int64_t b = start_of[i]; b < start_of[i + 1]; b++)
      offsets[b + 1] = offsets[b] + kt_below(5);
  }
  const int64_t n = offsets[start_of[f]];
  int32_t *ids = kt_array(n, 4, 0);
  for (int64_t i = 0; i < n; i++) ids[i] = kt_below(900);
  const ts_cache_rows_args a = {.out = kt_array(n, 4, 0),
                                .offsets = offsets,
                                .rows = ids,
                                .bag_start = start_of,
                                .row_base = base,
                                .n_features = f,
                                .n = n};
  kt_check(run_rows, &a);
}
