/* pack.c - the contract of bags_check, bags_offsets, pack_measure and
 * pack_write: batches for the sending side of input dist, byte by byte.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 600 */
#include "base/hash.h"
#include "shard/message.h"
#include "shard/pack.h"
#include "tests/support/contract.h"

enum { FEATURES = 5, RANKS = 40, ROUTES = 400, MESSAGE = 1 << 20 };

/* ---- features ------------------------------------------------------------ */

typedef struct feature {
  int64_t rows; /* TS_ROWS_DYNAMIC: ids are any, and go by their keys */
  int longest;  /* ids of a bag; 0: exactly one, without lengths; -1: none */
  bool weighted, positions;
  int n_parts;  /* row shards that bags are spread over; 0: one route, whole */
  bool uneven;  /* shards of different sizes */
  int one_long; /* one bag has so many ids */
} feature;

typedef struct spec {
  feature features[FEATURES];
  int n_features, n_ranks;
  int32_t batch;
  int bad; /* feature with bad ids, -1: none */
} spec;

typedef struct pack_case {
  const spec *s;
  int32_t *lengths[FEATURES], *made[FEATURES], *spread;
  int64_t *ids[FEATURES], *offsets[FEATURES], *bad, *words;
  float *weights[FEATURES];
  char *message;
  int64_t n_ids[FEATURES];
  int64_t row0[FEATURES][RANKS + 1];
  ts_route routes[ROUTES];
  int32_t n_routes;
} pack_case;

static void fill_feature(pack_case *c, int f) {
  const feature *x = &c->s->features[f];
  const int32_t n = c->s->batch;
  int32_t *lengths = c->lengths[f] = kt_array(n, 4, 0);
  c->n_ids[f] = 0;
  for (int32_t i = 0; i < n; i++) {
    lengths[i] = x->longest == 0  ? 1
                 : x->longest < 0 ? 0
                                  : kt_below(x->longest + 1);
    if (x->one_long && i == n / 2) lengths[i] = x->one_long;
    c->n_ids[f] += lengths[i];
  }
  int64_t *ids = c->ids[f] = kt_array(c->n_ids[f], 8, 0);
  c->weights[f] = kt_array(c->n_ids[f], 4, 0);
  c->offsets[f] = kt_array(n + 1, 8, 0);
  c->made[f] = kt_array(n, 4, 0);
  for (int64_t k = 0; k < c->n_ids[f]; k++)
    ids[k] = x->rows != TS_ROWS_DYNAMIC
                 ? (int64_t)(kt_bits() % (uint64_t)x->rows)
             : k < 4 ? (int64_t[]){-1, -2, INT64_MIN, INT64_MAX}[k]
                     : (int64_t)ts_mix64(kt_bits());
  if (c->s->bad == f) { /* the first of them is to be found */
    ck_assert_int_gt(c->n_ids[f], 20);
    ids[c->n_ids[f] / 2] = x->rows;
    ids[c->n_ids[f] / 2 + 7] = -1;
    ids[c->n_ids[f] - 1] = INT64_MAX;
  }
}

/* Shards of feature F: routes of it, first rows. */
static void cut(pack_case *c, int f) {
  const feature *x = &c->s->features[f];
  const int n = x->n_parts ? x->n_parts : 1;
  const int64_t size = (x->rows + n - 1) / n;
  int64_t at = 0;
  for (int p = 0; p < n; p++) {
    int64_t rows = x->uneven ? size - (p % 3 - 1) * (size / 4) : size;
    if (p == n - 1 || rows > x->rows - at) rows = x->rows - at;
    if (x->rows == TS_ROWS_DYNAMIC) rows = at = 0;
    c->row0[f][p] = at;
    c->routes[c->n_routes++] = (ts_route){.feature = f,
                                          .rank = p % c->s->n_ranks,
                                          .row0 = at,
                                          .n_rows = rows,
                                          .dynamic = x->rows == TS_ROWS_DYNAMIC,
                                          .split = x->n_parts > 0,
                                          .weighted = x->weighted,
                                          .positions = x->positions};
    at += rows;
  }
}

static void make(pack_case *c, const spec *s) {
  kt_begin();
  memset(c, 0, sizeof *c);
  c->s = s;
  for (int f = 0; f < s->n_features; f++) {
    fill_feature(c, f);
    cut(c, f);
  }
  ck_assert_int_le(c->n_routes, ROUTES);
  c->bad = kt_array(1, 8, 0);
  c->words = kt_array(c->n_routes, 8, 0);
  c->spread = kt_array((int64_t)c->n_routes * (s->batch + 1), 4, 0);
  c->message = kt_zeros(MESSAGE, 1);
  kt_compare(c->spread, KT_OWN);
}

/* ---- a run --------------------------------------------------------------- */

/* The kernels' arguments, in this run's memory. */
typedef struct given {
  ts_pack_feature raw[FEATURES], back[FEATURES];
  ts_pack_section sections[ROUTES];
  ts_pack_split splits[FEATURES];
  ts_pack_part parts[FEATURES * RANKS];
  int32_t n_sections, n_splits, n_parts;
} given;

static ts_jagged bags_of(const pack_case *c, int f) {
  const feature *x = &c->s->features[f];
  return (ts_jagged){.lengths = x->longest ? kt_at(c->lengths[f]) : NULL,
                     .ids = kt_at(c->ids[f]),
                     .weights = x->weighted ? kt_at(c->weights[f]) : NULL,
                     .n_ids = c->n_ids[f]};
}

static void add_section(const pack_case *c, given *g, int32_t i) {
  const ts_route *r = &c->routes[i];
  g->sections[g->n_sections++] =
      (ts_pack_section){.bags = bags_of(c, r->feature),
                        .n_bags = c->s->batch,
                        .route = i,
                        .row0 = r->row0};
}

static void add_split(const pack_case *c, given *g, int f) {
  const feature *x = &c->s->features[f];
  g->splits[g->n_splits++] = (ts_pack_split){
      .bags = bags_of(c, f),
      .offsets = kt_at(c->offsets[f]),
      .n_bags = c->s->batch,
      .first = g->n_parts,
      .n_parts = x->n_parts,
      .n_all = x->n_parts,
      .hashed = x->rows == TS_ROWS_DYNAMIC,
      .block = x->uneven ? 0 : (x->rows + x->n_parts - 1) / x->n_parts,
      .row0 = c->row0[f]};
}

/* All descriptions but where sections lie. */
static void describe(const pack_case *c, given *g) {
  int32_t *start = kt_at(c->spread);
  memset(g, 0, sizeof *g);
  for (int f = 0; f < c->s->n_features; f++) {
    g->raw[f] = (ts_pack_feature){.bags = bags_of(c, f),
                                  .rows = c->s->features[f].rows,
                                  .offsets = kt_at(c->offsets[f]),
                                  .n_bags = c->s->batch};
    /* Lengths again, as of a batch that came with these offsets. */
    g->back[f] = g->raw[f];
    g->back[f].lengths = kt_at(c->made[f]);
  }
  for (int32_t i = 0; i < c->n_routes; i++) {
    const ts_route *r = &c->routes[i];
    if (!c->s->features[r->feature].n_parts) {
      add_section(c, g, i);
      continue;
    }
    if (r->row0 == 0 && r->rank == 0) add_split(c, g, r->feature);
    g->parts[g->n_parts++] =
        (ts_pack_part){.row0 = r->row0, .route = i, .start = start};
    start += c->s->batch + 1;
  }
}

/* Sections as WORDS say; one more for what stands for a head. */
static void place(const pack_case *c, given *g, const int64_t *words) {
  char *head = kt_at(c->message), *to = head + 64;
  for (int32_t i = 0, s = 0, p = 0; i < c->n_routes; i++) {
    const ts_route *r = &c->routes[i];
    const int64_t n = words[i] >> TS_FORM_BITS;
    const int form = (int)(words[i] & 3);
    const ts_layout l = ts_section_layout(r, n, form, c->s->batch, to);
    to += ts_section_bytes(r, n, form, c->s->batch);
    if (c->s->features[r->feature].n_parts) {
      g->parts[p].n_ids = n;
      g->parts[p++].to = l;
    } else {
      g->sections[s++].to = l;
    }
  }
  ck_assert_int_le(to - head, MESSAGE);
  g->sections[g->n_sections++] = (ts_pack_section){
      .bags = {.weights = kt_at(c->ids[0]), .n_ids = c->n_ids[0] > 8 ? 16 : 0},
      .route = -1,
      .to = {head, head, head + 64, (float *)(void *)head, NULL, TS_FORM_ONE,
             0}};
}

static ts_pack_args args_of(const pack_case *c, const given *g) {
  return (ts_pack_args){kt_pin(g->sections, sizeof g->sections),
                        kt_pin(g->splits, sizeof g->splits),
                        kt_pin(g->parts, sizeof g->parts),
                        g->n_sections,
                        g->n_splits,
                        g->n_parts,
                        kt_at(c->bad),
                        kt_at(c->words)};
}

static ts_err run(const ts_kernels *k, const void *arg) {
  static given g;
  static int64_t words[ROUTES];
  const pack_case *c = arg;
  describe(c, &g);
  const ts_pack_feature *raw = kt_pin(g.raw, sizeof g.raw);
  const ts_bags_args bags = {raw, c->s->n_features, NULL};
  const ts_bags_args back = {kt_pin(g.back, sizeof g.back), c->s->n_features,
                             NULL};
  const ts_bags_args bad = {raw, c->s->n_features, kt_at(c->bad)};
  TS_DO(k->bags_offsets(&bags));
  TS_DO(k->bags_offsets(&back));
  TS_DO(k->bags_check(&bad));
  const ts_pack_args measure = args_of(c, &g);
  TS_DO(k->pack_measure(&measure));
  TS_DO(k->fetch(words, kt_at(c->words), (size_t)c->n_routes * 8));
  if (c->s->bad < 0) place(c, &g, words);
  const ts_pack_args write = args_of(c, &g);
  return k->pack_write(&write);
}

/* Forms of lengths and widths of rows that were met. */
static unsigned met_forms, met_widths;

static void check(const spec *s) {
  static pack_case c;
  make(&c, s);
  kt_check(run, &c);
  ck_assert_int_eq(*(int64_t *)kt_ref(c.bad) != TS_NO_BAD_ID, s->bad >= 0);
  for (int f = 0; f < s->n_features; f++)
    if (s->features[f].longest)
      ck_assert_mem_eq(kt_ref(c.made[f]), c.lengths[f], 4 * (size_t)s->batch);
  const int64_t *words = kt_ref(c.words);
  for (int32_t i = 0; s->bad < 0 && i < c.n_routes; i++) {
    met_forms |= 1u << (words[i] & 3);
    met_widths |= 1u << ts_id_bytes(c.routes[i].n_rows);
  }
}

/* ---- cases of sections --------------------------------------------------- */

KT_CONTRACT("bags_check bags_offsets pack_measure pack_write fetch")

TS_TEST(sections) {
  const spec s = {{{200, 3, false, false, 0, false, 0},
                   {60000, 0, true, false, 0, false, 0},
                   {1000000, 5, true, false, 0, false, 0},
                   {77, -1, false, false, 0, false, 0},
                   {256, 2, false, false, 0, false, 300}},
                  5,
                  3,
                  1500,
                  -1};
  met_forms = met_widths = 0;
  check(&s);
  ck_assert_uint_eq(met_forms, 7);
  ck_assert_uint_eq(met_widths, 1u << 1 | 1u << 2 | 1u << 4);
}

TS_TEST(spread) {
  const spec s = {{{1000, 4, true, true, 4, false, 0},
                   {65536 * 4, 6, false, true, 4, true, 0},
                   {9000000, 0, true, false, 3, false, 0},
                   {50, -1, false, false, 2, false, 0},
                   {100, 2, false, true, 2, false, 900}},
                  5,
                  4,
                  700,
                  -1};
  met_forms = met_widths = 0;
  check(&s);
  ck_assert_uint_eq(met_forms, 6);
  ck_assert_uint_eq(met_widths, 1u << 1 | 1u << 2 | 1u << 4);
}

/* Ids of dynamic tables: none is bad, all 64 bits travel. */
TS_TEST(any_ids) {
  for (int n = 1; n <= 4; n++) {
    const spec s = {{{TS_ROWS_DYNAMIC, 3, false, false, 0, false, 0},
                     {TS_ROWS_DYNAMIC, 4, true, true, n, true, 0},
                     {1000, 4, true, true, n, true, 0},
                     {TS_ROWS_DYNAMIC, 0, false, false, n, true, 0}},
                    4,
                    4,
                    700,
                    -1};
    check(&s);
  }
}

/* Lengths about those that a byte holds. */
TS_TEST(longest) {
  for (int n = 254; n < 258; n++) {
    const spec s = {{{100, 2, false, false, 0, false, n},
                     {1000, 2, true, true, 2, false, 2 * n},
                     {100, -1, false, true, 1, false, n}},
                    3,
                    2,
                    50,
                    -1};
    check(&s);
  }
}

TS_TEST(many_ranks) {
  const spec s = {{{4000, 3, true, false, RANKS, false, 0},
                   {100000, 20, false, true, RANKS - 1, true, 0},
                   {5, 2, false, false, 0, false, 0}},
                  3,
                  RANKS,
                  200,
                  -1};
  check(&s);
}

/* Sizes about those of tiles and blocks, and none at all. */
TS_TEST(batch_sizes) {
  static const int32_t sizes[] = {0, 1, 2, 3, 255, 256, 257, 1023, 1025, 2500};
  for (int i = 0; i < TEST_COUNT(sizes); i++) {
    const spec s = {{{300, 2, true, false, 0, false, 0},
                     {300, 2, true, true, 3, false, 0},
                     {70000, 0, false, false, 0, false, 0}},
                    3,
                    2,
                    sizes[i],
                    -1};
    check(&s);
  }
}

TS_TEST(bad_ids) {
  for (int bad = 0; bad < 3; bad++) {
    const spec s = {{{300, 2, true, false, 0, false, 0},
                     {300, 2, true, true, 3, false, 0},
                     {70000, 0, false, false, 5, true, 0}},
                    3,
                    2,
                    600,
                    bad};
    check(&s);
  }
}
