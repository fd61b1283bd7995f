/* cuda_pack.c - batches for the sending side of input dist: what the host's
 * kernels and a target's make of them has to be the same bytes.  All of a case
 * lies in one block, of which the target has a copy. */
#include "tests/kernels/cuda_pack.h"

#include "tests/kernels/cuda_pack_block.h"
#include "shard/message.h"

const pack_target *pack_tested;
pack_target pack_host;

enum { FEATURES = 5, RANKS = 40, PARTS = 2 * RANKS, ROUTES = 400 };

/* ---- features ------------------------------------------------------------ */

typedef struct feature {
  int64_t rows;
  int longest; /* ids of a bag; 0: exactly one, without lengths; -1: none */
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
  block b;
  size_t lengths[FEATURES], ids[FEATURES], weights[FEATURES], offsets[FEATURES],
      made[FEATURES], bad, words, spread, message;
  int64_t n_ids[FEATURES], message_bytes;
  int64_t row0[FEATURES][RANKS + 1];
  ts_route routes[ROUTES];
  int32_t n_routes;
  ts_pack_feature raw[FEATURES], back[FEATURES];
  ts_pack_section sections[ROUTES];
  ts_pack_split splits[FEATURES];
  ts_pack_part parts[FEATURES * RANKS];
  int32_t n_sections, n_splits, n_parts;
} pack_case;

static void fill_feature(pack_case *c, int f, uint64_t *seed) {
  const feature *x = &c->s->features[f];
  const int32_t n = c->s->batch;
  block *b = &c->b;
  c->lengths[f] = take(b, n, 4);
  int32_t *lengths = (int32_t *)(void *)(b->image + c->lengths[f]);
  c->n_ids[f] = 0;
  for (int32_t i = 0; i < n; i++) {
    lengths[i] =
        x->longest == 0 ? 1
        : x->longest < 0
            ? 0
            : (int32_t)(test_random(seed) % (uint32_t)(x->longest + 1));
    if (x->one_long && i == n / 2) lengths[i] = x->one_long;
    c->n_ids[f] += lengths[i];
  }
  c->ids[f] = take(b, c->n_ids[f], 8);
  c->weights[f] = take(b, c->n_ids[f], 4);
  c->offsets[f] = take_out(b, n + 1, 8);
  c->made[f] = take_out(b, n, 4);
  int64_t *ids = (int64_t *)(void *)(b->image + c->ids[f]);
  float *weights = (float *)(void *)(b->image + c->weights[f]);
  for (int64_t k = 0; k < c->n_ids[f]; k++) {
    ids[k] = (int64_t)(test_random(seed) % (uint64_t)x->rows);
    weights[k] = test_float(seed);
  }
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
    c->row0[f][p] = at;
    c->routes[c->n_routes++] = (ts_route){.feature = f,
                                          .rank = p % c->s->n_ranks,
                                          .row0 = at,
                                          .n_rows = rows,
                                          .split = x->n_parts > 0,
                                          .weighted = x->weighted,
                                          .positions = x->positions};
    at += rows;
  }
}

static void make(pack_case *c, const spec *s) {
  uint64_t seed = 77;
  memset(c, 0, sizeof *c);
  c->s = s;
  block_start(&c->b, 4 << 20);
  for (int f = 0; f < s->n_features; f++) {
    fill_feature(c, f, &seed);
    cut(c, f);
  }
  ck_assert_int_le(c->n_routes, ROUTES);
  c->bad = take_out(&c->b, 1, 8);
  c->words = take_out(&c->b, c->n_routes, 8);
  c->spread = take_out(&c->b, (int64_t)c->n_routes * (s->batch + 1), 4);
  c->message = c->b.used; /* to the block's end, zeros */
}

static void *at(const pack_case *c, size_t offset) {
  return c->b.base + offset;
}

static ts_jagged bags_of(const pack_case *c, int f) {
  const feature *x = &c->s->features[f];
  return (ts_jagged){.lengths = x->longest ? at(c, c->lengths[f]) : NULL,
                     .ids = at(c, c->ids[f]),
                     .weights = x->weighted ? at(c, c->weights[f]) : NULL,
                     .n_ids = c->n_ids[f]};
}

/* All descriptions but where sections lie. */
static void describe(pack_case *c) {
  int32_t *start = at(c, c->spread);
  c->n_sections = c->n_splits = c->n_parts = 0;
  for (int f = 0; f < c->s->n_features; f++)
    c->raw[f] = (ts_pack_feature){.bags = bags_of(c, f),
                                  .rows = c->s->features[f].rows,
                                  .offsets = at(c, c->offsets[f]),
                                  .n_bags = c->s->batch};
  /* Lengths again, as of a batch that came with these offsets. */
  for (int f = 0; f < c->s->n_features; f++) {
    c->back[f] = c->raw[f];
    c->back[f].lengths = at(c, c->made[f]);
  }
  for (int32_t i = 0; i < c->n_routes; i++) {
    const int f = c->routes[i].feature;
    const feature *x = &c->s->features[f];
    if (!x->n_parts) {
      c->sections[c->n_sections++] =
          (ts_pack_section){.bags = bags_of(c, f),
                            .n_bags = c->s->batch,
                            .route = i,
                            .row0 = c->routes[i].row0};
      continue;
    }
    if (c->routes[i].row0 == 0 && c->routes[i].rank == 0)
      c->splits[c->n_splits++] = (ts_pack_split){
          .bags = bags_of(c, f),
          .offsets = at(c, c->offsets[f]),
          .n_bags = c->s->batch,
          .first = c->n_parts,
          .n_parts = x->n_parts,
          .n_all = x->n_parts,
          .block = x->uneven ? 0 : (x->rows + x->n_parts - 1) / x->n_parts,
          .row0 = c->row0[f]};
    c->parts[c->n_parts++] =
        (ts_pack_part){.row0 = c->routes[i].row0, .route = i, .start = start};
    start += c->s->batch + 1;
  }
}

static ts_pack_args args_of(pack_case *c) {
  return (ts_pack_args){c->sections,   c->splits,      c->parts,
                        c->n_sections, c->n_splits,    c->n_parts,
                        at(c, c->bad), at(c, c->words)};
}

/* Sections as WORDS say; one more for what stands for a head. */
static void place(pack_case *c, const int64_t *words) {
  size_t to = c->message + 64;
  for (int32_t i = 0, s = 0, p = 0; i < c->n_routes; i++) {
    const int64_t n = words[i] >> TS_FORM_BITS;
    const int form = (int)(words[i] & 3);
    const ts_layout l =
        ts_section_layout(&c->routes[i], n, form, c->s->batch, at(c, to));
    to += (size_t)ts_section_bytes(&c->routes[i], n, form, c->s->batch);
    if (c->s->features[c->routes[i].feature].n_parts) {
      c->parts[p].n_ids = n;
      c->parts[p++].to = l;
    } else {
      c->sections[s++].to = l;
    }
  }
  char *head = at(c, c->message);
  c->sections[c->n_sections++] = (ts_pack_section){
      .bags = {.weights = at(c, c->ids[0]), .n_ids = c->n_ids[0] > 8 ? 16 : 0},
      .route = -1,
      .to = {head, head, head + 64, (float *)(void *)head, NULL, TS_FORM_ONE,
             0}};
  ck_assert_uint_le(to, c->b.bytes);
  c->message_bytes = (int64_t)(to - c->message);
}

/* What T makes of the case; its block afterwards. */
static char *run(pack_case *c, const pack_target *t) {
  const ts_bags_args bags = {c->raw, c->s->n_features, NULL};
  const ts_bags_args back = {c->back, c->s->n_features, NULL};
  ts_bags_args check = bags;
  char *end = test_alloc((int64_t)c->b.bytes, 1);
  c->b.base = t->send(c->b.image, c->b.bytes);
  describe(c);
  check.bad = at(c, c->bad);
  ck_assert_ok(t->bags_offsets(&bags));
  ck_assert_ok(t->bags_offsets(&back));
  ck_assert_ok(t->bags_check(&check));
  const ts_pack_args measure = args_of(c);
  ck_assert_ok(t->pack_measure(&measure));
  t->fetch(end, c->b.base, c->b.bytes);
  if (c->s->bad < 0) place(c, (const int64_t *)(void *)(end + c->words));
  const ts_pack_args write = args_of(c);
  ck_assert_ok(t->pack_write(&write));
  t->fetch(end, c->b.base, c->b.bytes);
  t->drop(c->b.base);
  return end;
}

/* Forms of lengths and widths of rows that were met. */
static unsigned met_forms, met_widths;

static void check(const spec *s) {
  pack_case *c = test_alloc(1, sizeof *c);
  make(c, s);
  char *expected = run(c, &pack_host), *found = run(c, pack_tested);
  check_same(expected, found, c->bad, 8, "bad");
  ck_assert_int_eq(*(int64_t *)(void *)(found + c->bad) != TS_NO_BAD_ID,
                   s->bad >= 0);
  for (int f = 0; f < s->n_features; f++) {
    const size_t bytes = 4 * (size_t)s->batch;
    check_same(expected, found, c->offsets[f], 8 * (size_t)(s->batch + 1),
               "offsets");
    check_same(expected, found, c->made[f], bytes, "lengths of offsets");
    if (s->features[f].longest)
      ck_assert(!memcmp(found + c->made[f], c->b.image + c->lengths[f], bytes));
  }
  check_same(expected, found, c->words, 8 * (size_t)c->n_routes, "words");
  check_same(expected, found, c->message, c->b.bytes - c->message, "message");
  check_same(expected, found, 0, c->spread, "anything");
  const int64_t *words = (const int64_t *)(void *)(found + c->words);
  for (int32_t i = 0; s->bad < 0 && i < c->n_routes; i++) {
    met_forms |= 1u << (words[i] & 3);
    met_widths |= 1u << ts_id_bytes(c->routes[i].n_rows);
  }
  free(expected);
  free(found);
  free(c->b.image);
  free(c);
}

/* ---- cases of sections --------------------------------------------------- */

START_TEST(sections) {
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
END_TEST

START_TEST(spread) {
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
END_TEST

/* Lengths about those that a byte holds. */
START_TEST(longest) {
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
END_TEST

START_TEST(many_ranks) {
  const spec s = {{{4000, 3, true, false, RANKS, false, 0},
                   {100000, 20, false, true, RANKS - 1, true, 0},
                   {5, 2, false, false, 0, false, 0}},
                  3,
                  RANKS,
                  200,
                  -1};
  check(&s);
}
END_TEST

/* Sizes about those of tiles and blocks, and none at all. */
START_TEST(batch_sizes) {
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
END_TEST

START_TEST(bad_ids) {
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
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static void *host_send(const void *p, size_t bytes) {
  void *to = test_alloc((int64_t)bytes, 1);
  memcpy(to, p, bytes);
  return to;
}

static void host_fetch(void *to, const void *sent, size_t bytes) {
  memcpy(to, sent, bytes);
}

static void start_host(void) {
  ts_kernels host;
  ck_assert_ok(ts_kernels_fill(&host, "host", NULL));
  pack_host = (pack_target){host.bags_check,
                            host.bags_offsets,
                            host.bags_distinct,
                            host.pack_measure,
                            host.pack_write,
                            host_send,
                            host_fetch,
                            free,
                            NULL,
                            NULL};
}

Suite *cuda_pack_suite(const char *name, const pack_target *t) {
  const TTest *tests[] = {sections,   spread,      longest,
                          many_ranks, batch_sizes, bad_ids};
  Suite *suite = suite_create(name);
  TCase *tcase = tcase_create(name);
  pack_tested = t;
  for (int i = 0; i < TEST_COUNT(tests); i++) tcase_add_test(tcase, tests[i]);
  pack_add_distinct(tcase);
  tcase_add_unchecked_fixture(tcase, start_host, NULL);
  if (t->start) tcase_add_unchecked_fixture(tcase, t->start, t->stop);
  suite_add_tcase(suite, tcase);
  return suite;
}
