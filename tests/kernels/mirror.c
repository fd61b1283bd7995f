/* mirror.c - the contract of index_find, put_rows and meet_rows, byte by byte;
 * what is found is what the index itself finds.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "sparse/index_impl.h"
#include "sparse/mirror.h"
#include "base/hash.h"
#include "tests/support/contract.h"

enum { TABLES = 3, PARTS = 40 };

/* ---- index_find ---------------------------------------------------------- */

typedef struct find_spec {
  int64_t n_rows, n_ids; /* of each table; ids that have a row */
  int n_parts;
  int64_t most; /* ids of a part */
  bool crowd;   /* ids are at home in few buckets */
  uint32_t ahead;
  bool missed;
} find_spec;

typedef struct find_case {
  const find_spec *s;
  ts_index *index[TABLES];
  bucket *buckets[TABLES];
  int64_t base[TABLES], n_group;
  char *bytes; /* ids of the parts */
  ts_mirror_part parts[PARTS];
  ts_mirror_table *tables;
  ts_mirror_part *list;
  ts_index_find_args a;
} find_case;

static int64_t id_of(const find_spec *s, int table, int64_t k) {
  static const int64_t some[] = {0, -1, INT64_MIN, INT64_MAX};
  if (k < 4) return some[k];
  const uint64_t x = ts_mix64((uint64_t)k * TABLES + (uint64_t)table);
  /* Low halves of keys say where their home is. */
  const uint64_t home = x % 5 == 4 ? UINT32_MAX : (x % 5) << 30; /* last */
  return (int64_t)(s->crowd ? ts_unmix64(x >> 32 << 32 | home) : x);
}

static void fill_table(find_case *c, int t) {
  const find_spec *s = c->s;
  const int64_t base = c->base[t] = c->n_group;
  int64_t *fresh = kt_array(s->n_ids + 1, 8, 0), n;
  uint32_t *row = kt_array(s->n_ids + 1, 4, 0);
  int64_t *ids = kt_array(s->n_ids + 1, 8, 0);
  c->n_group += s->n_rows + TS_INDEX_FIRST_ROW;
  ck_assert_ok(ts_index_create(&c->index[t], TS_INDEX_FIRST_ROW, s->n_rows));
  for (int64_t k = 0; k < s->n_ids; k++) ids[k] = id_of(s, t, k);
  ck_assert_ok(ts_index_insert(c->index[t], row, ids, s->n_ids, fresh, &n));
  c->buckets[t] =
      kt_copy(c->index[t]->buckets, c->index[t]->n_buckets, sizeof(bucket));
  for (int64_t k = 0; k < s->n_ids; k++)
    ((int64_t *)(uintptr_t)c->a.ids)[base + row[k]] = ids[k];
}

static void fill_parts(find_case *c) {
  const find_spec *s = c->s;
  c->bytes = kt_array(s->n_parts * (8 * s->most + 4), 1, 4);
  char *to = c->bytes;
  c->a.n = 0;
  for (int p = 0; p < s->n_parts; p++) {
    const int64_t n = 1 + kt_below((int32_t)s->most);
    const int t = p * TABLES / s->n_parts;
    c->parts[p] = (ts_mirror_part){to, c->a.n, n, t};
    for (int64_t k = 0; k < n; k++, to += 8) {
      const int64_t id = id_of(s, t, kt_below((int32_t)(s->n_ids * 3 / 2 + 5)));
      memcpy(to, &id, 8);
    }
    c->a.n += n;
    to += kt_bits() % 2 * 4;
  }
  c->a.n_parts = s->n_parts;
}

static void make(find_case *c, const find_spec *s) {
  const int64_t n_group = TABLES * (s->n_rows + TS_INDEX_FIRST_ROW);
  memset(c, 0, sizeof *c);
  kt_begin();
  c->s = s;
  c->a.ids = kt_zeros(n_group, 8);
  uint32_t *born = kt_array(n_group, 4, 0);
  for (int64_t k = 0; k < n_group; k++) born[k] = kt_bits() % 20;
  for (int t = 0; t < TABLES; t++) born[t * (n_group / TABLES)] = 0;
  c->a.born = born;
  c->a.ahead = s->ahead;
  for (int t = 0; t < TABLES; t++) fill_table(c, t);
  fill_parts(c);
  c->a.rows = kt_array(c->a.n, 4, kt_off());
  c->tables = kt_array(TABLES, sizeof *c->tables, 0);
  c->list = kt_array(PARTS, sizeof *c->list, 0);
  kt_compare(c->tables, KT_OWN);
  kt_compare(c->list, KT_OWN);
  if (!s->missed) return;
  c->a.n_missed = kt_array(1, 4, 0);
  c->a.missed = kt_zeros(c->a.n, 4);
  c->a.missed_ids = kt_zeros(c->a.n, 8);
  kt_compare(c->a.rows, KT_OWN);
}

static ts_err run_find(const ts_kernels *k, const void *arg) {
  const find_case *c = arg;
  ts_mirror_table tables[TABLES];
  ts_mirror_part parts[PARTS];
  ts_index_find_args a = c->a;
  for (int t = 0; t < TABLES; t++)
    tables[t] = (ts_mirror_table){kt_at(c->buckets[t]), c->index[t]->n_buckets,
                                  c->base[t]};
  memcpy(parts, c->parts, sizeof parts);
  for (int p = 0; p < a.n_parts; p++) KT_AT(parts[p].ids);
  kt_at_all(&a, sizeof a);
  a.tables = kt_at(c->tables);
  a.parts = kt_at(c->list);
  TS_DO(k->put(kt_at(c->tables), tables, sizeof tables));
  TS_DO(k->put(kt_at(c->list), parts, sizeof parts));
  return k->index_find(&a);
}

/* The run has found for the K-th id of part P what the index finds. */
static void look_at(const find_case *c, const ts_mirror_part *p, int64_t k,
                    int64_t *n_missed) {
  const int32_t *rows = kt_got(c->a.rows);
  const uint32_t *born = c->a.born + c->base[p->table];
  const int64_t at = p->first + k;
  int64_t id;
  uint32_t row;
  memcpy(&id, (const char *)p->ids + 8 * k, 8);
  ts_index_find(c->index[p->table], &row, &id, 1);
  if (row == TS_INDEX_NONE && c->s->missed) {
    const int64_t m = (*n_missed)++;
    ck_assert_uint_eq(((const uint32_t *)kt_got(c->a.missed))[m], at);
    ck_assert_int_eq(((const int64_t *)kt_got(c->a.missed_ids))[m], id);
    return;
  }
  if (row == TS_INDEX_NONE || (c->s->ahead && born[row] >= c->s->ahead))
    row = 0;
  ck_assert_int_eq(rows[at], row);
}

static void look(const void *arg) {
  const find_case *c = arg;
  int64_t n = 0;
  for (int p = 0; p < c->a.n_parts; p++)
    for (int64_t k = 0; k < c->parts[p].n; k++) look_at(c, &c->parts[p], k, &n);
  if (c->s->missed)
    ck_assert_uint_eq(*(const uint32_t *)kt_got(c->a.n_missed), n);
}

static void check_find(const find_spec *s) {
  static find_case c;
  make(&c, s);
  kt_look(look);
  kt_check(run_find, &c);
  for (int t = 0; t < TABLES; t++) ts_index_destroy(c.index[t]);
}

/* ---- put_rows, meet_rows ------------------------------------------------- */

KT_CALL(run_put, put_rows, ts_put_rows_args)
KT_CALL(run_meet, meet_rows, ts_meet_rows_args)

/* N numbers below MOST, ascending, each STEP or less behind the last. */
static uint32_t *ascending(int64_t n, int step, bool distinct) {
  uint32_t *x = kt_array(n, 4, 0);
  uint32_t at = 0;
  for (int64_t k = 0; k < n; k++)
    x[k] = at += (uint32_t)kt_below(step) + (distinct && k);
  return x;
}

static void check_put(int64_t n, int64_t row_bytes, bool zeros, bool some) {
  kt_begin();
  const ts_put_rows_args a = {.to = kt_array(4 * n + 4, (size_t)row_bytes, 0),
                              .rows = ascending(n, 3, true),
                              .from = zeros ? NULL
                                            : kt_array(n, (size_t)row_bytes, 0),
                              .n = n,
                              .row_bytes = row_bytes,
                              .low = some ? (uint32_t)n / 2 : 0,
                              .high = some ? (uint32_t)n * 3 / 2 : 0};
  kt_check(run_put, &a);
}

static void check_meet(int64_t n, int step) {
  kt_begin();
  const ts_meet_rows_args a = {.seen = kt_array(step * n + 1, 4, 0),
                               .last = kt_array(step * n + 1, 4, 0),
                               .keys = ascending(n, step, false),
                               .n = n,
                               .pass = 77};
  kt_check(run_meet, &a);
}

KT_CONTRACT("index_find put_rows meet_rows put")

TS_TESTS(finds, 0, 2) {
  const bool missed = _i;
  const find_spec s[] = {{3000, 3000, 40, 700, false, 0, missed},
                         {500, 200, 3, 5000, false, missed ? 0 : 7, missed},
                         {60, 40, 6, 1, false, 0, missed},
                         {900, 700, 9, 300, true, missed ? 0 : 12, missed},
                         {40, 0, 3, 100, false, 0, missed}};
  for (int i = 0; i < TEST_COUNT(s); i++) check_find(&s[i]);
}

TS_TEST(rows_put) {
  static const int64_t widths[] = {2, 4, 6, 8, 64, 512, 1022};
  static const int64_t sizes[] = {0, 1, 3, 255, 257, 1024};
  for (int w = 0; w < TEST_COUNT(widths); w++)
    for (int i = 0; i < TEST_COUNT(sizes); i++)
      check_put(sizes[i], widths[w], (w + i) % 3 == 0, (w + i) % 2);
}

TS_TEST(rows_met) {
  static const int64_t sizes[] = {0, 1, 2, 31, 255, 256, 257, 5000};
  for (int i = 0; i < TEST_COUNT(sizes); i++)
    for (int step = 1; step < 4; step++) check_meet(sizes[i], step);
}
