/* cuda_pack_distinct.c - batches for the kernel bags_distinct. */
#include "tests/kernels/cuda_pack_block.h"

enum { FEATURES = 5 };

typedef struct bags_spec {
  int32_t n;
  int kinds, longest;             /* bags that there are; ids of one at most */
  bool weighted, sequence, apart; /* apart: with members */
  int n_parts;
} bags_spec;

typedef struct distinct_case {
  const bags_spec *s;
  size_t lengths, from_ids, from_weights, from_offsets, ids, start, weights,
      to_lengths, inverse, slot, member_start, member, row0, found;
  int64_t n_ids;
  int64_t n_slots;
} distinct_case;

/* Bag KIND: ids, and signs of zeros as weights, which count. */
static void fill_bags(block *b, distinct_case *c) {
  const bags_spec *s = c->s;
  uint64_t seed = 5;
  c->lengths = take(b, s->n, 4);
  c->from_offsets = take(b, s->n + 1, 8);
  c->from_ids = take(b, (int64_t)s->n * s->longest, 8);
  c->from_weights = take(b, (int64_t)s->n * s->longest, 4);
  int32_t *lengths = (int32_t *)(void *)(b->image + c->lengths);
  int64_t *offsets = (int64_t *)(void *)(b->image + c->from_offsets);
  int64_t *ids = (int64_t *)(void *)(b->image + c->from_ids);
  float *weights = (float *)(void *)(b->image + c->from_weights);
  for (int32_t i = 0; i < s->n; i++) {
    uint64_t kind = test_random(&seed) % (uint32_t)s->kinds;
    lengths[i] = s->sequence ? 1 : (int32_t)(kind % (uint64_t)(s->longest + 1));
    kind = kind * 977 + 13;
    for (int32_t k = 0; k < lengths[i]; k++) {
      ids[c->n_ids] = (int64_t)(test_random(&kind) % 1000);
      weights[c->n_ids++] = test_random(&kind) % 2 ? 0.0f : -0.0f;
    }
    offsets[i + 1] = c->n_ids;
  }
}

static void lay_out(block *b, distinct_case *c) {
  const bags_spec *s = c->s;
  c->n_slots = 16;
  while (c->n_slots < 2 * (int64_t)s->n) c->n_slots *= 2;
  c->ids = take_out(b, c->n_ids + 1, 8);
  c->start = take_out(b, s->n + 1, 8);
  c->weights = take_out(b, c->n_ids + 1, 4);
  c->to_lengths = take_out(b, s->n + 1, 4);
  c->inverse = take_out(b, s->n + 1, 4);
  c->slot = take_out(b, c->n_slots, 4);
  c->member_start = take_out(b, s->n + 1, 4);
  c->member = take_out(b, s->n + 1, 4);
  c->row0 = take(b, s->n_parts + 1, 8);
  c->found = take_out(b, s->n_parts + 3, 8);
  int64_t *row0 = (int64_t *)(void *)(b->image + c->row0);
  for (int p = 0; p < s->n_parts; p++)
    row0[p] = (int64_t)p * 1100 / s->n_parts; /* the last ones have none */
}

static ts_distinct distinct_of(const distinct_case *c, char *base) {
  const bags_spec *s = c->s;
  return (ts_distinct){
      .from = {.lengths = (int32_t *)(void *)(base + c->lengths),
               .ids = (int64_t *)(void *)(base + c->from_ids),
               .weights = s->weighted
                              ? (float *)(void *)(base + c->from_weights)
                              : NULL,
               .n_ids = c->n_ids},
      .from_offsets = (int64_t *)(void *)(base + c->from_offsets),
      .n_out = s->n,
      .sequence = s->sequence,
      .ids = (int64_t *)(void *)(base + c->ids),
      .start = (int64_t *)(void *)(base + c->start),
      .weights = (float *)(void *)(base + c->weights),
      .lengths = (int32_t *)(void *)(base + c->to_lengths),
      .inverse = (int32_t *)(void *)(base + c->inverse),
      .slot = (uint32_t *)(void *)(base + c->slot),
      .mask = (uint64_t)c->n_slots - 1,
      .member_start =
          s->apart ? (int32_t *)(void *)(base + c->member_start) : NULL,
      .member = (int32_t *)(void *)(base + c->member),
      .row0 = (int64_t *)(void *)(base + c->row0),
      .n_parts = s->n_parts,
      .found = (int64_t *)(void *)(base + c->found)};
}

static char *find(const block *b, const distinct_case *c, int n,
                  const pack_target *t) {
  ts_distinct d[FEATURES];
  const ts_distinct_args a = {d, n};
  char *end = test_alloc((int64_t)b->bytes, 1), *base;
  base = t->send(b->image, b->bytes);
  for (int i = 0; i < n; i++) d[i] = distinct_of(&c[i], base);
  ck_assert_ok(t->bags_distinct(&a));
  t->fetch(end, base, b->bytes);
  t->drop(base);
  return end;
}

/* Whole arrays: nobody writes beyond what is distinct. */
static void compare(const distinct_case *c, const char *a, const char *b) {
  const bags_spec *s = c->s;
  const size_t n = (size_t)s->n + 1, n_ids = (size_t)c->n_ids + 1;
  check_same(a, b, c->found, 8 * (size_t)(s->n_parts + 3), "found");
  check_same(a, b, c->start, 8 * n, "starts, or ids by parts");
  check_same(a, b, c->ids, 8 * n_ids, "ids");
  check_same(a, b, c->weights, 4 * n_ids, "weights");
  if (!s->sequence) check_same(a, b, c->to_lengths, 4 * n, "lengths");
  check_same(a, b, c->inverse, 4 * n, "inverse");
  check_same(a, b, c->member_start, 4 * n, "starts of members");
  check_same(a, b, c->member, 4 * n, "members");
  check_same(a, b, c->lengths, c->ids - c->lengths, "what came");
}

static void check_distinct(const bags_spec *s, int n) {
  distinct_case c[FEATURES] = {{0}};
  block b;
  block_start(&b, 4 << 20);
  for (int i = 0; i < n; i++) {
    c[i].s = &s[i];
    fill_bags(&b, &c[i]);
    lay_out(&b, &c[i]);
  }
  char *expected = find(&b, c, n, &pack_host),
       *found = find(&b, c, n, pack_tested);
  for (int i = 0; i < n; i++) compare(&c[i], expected, found);
  free(expected);
  free(found);
  free(b.image);
}

START_TEST(distinct) {
  const bags_spec s[] = {{1000, 300, 4, false, false, true, 0},
                         {1300, 300, 4, true, false, true, 0},
                         {900, 1, 3, false, false, true, 0},
                         {700, 100000, 3, false, false, false, 0},
                         {0, 5, 3, true, false, true, 0}};
  check_distinct(s, TEST_COUNT(s));
}
END_TEST

START_TEST(distinct_ids) {
  const bags_spec s[] = {{2000, 400, 1, false, true, true, 0},
                         {2000, 400, 1, false, true, true, 3},
                         {1500, 5000, 1, false, true, false, 12},
                         {0, 1, 1, false, true, true, 4},
                         {1, 1, 1, false, true, true, 1}};
  check_distinct(s, TEST_COUNT(s));
}
END_TEST

START_TEST(distinct_sizes) {
  static const int32_t sizes[] = {1, 2, 255, 256, 257, 1023, 1024, 1025};
  for (int i = 0; i < TEST_COUNT(sizes); i++) {
    const bags_spec s[] = {{sizes[i], 40, 5, true, false, true, 0},
                           {sizes[i], 40, 1, false, true, true, 2}};
    check_distinct(s, 2);
  }
}
END_TEST

void pack_add_distinct(TCase *tcase) {
  tcase_add_test(tcase, distinct);
  tcase_add_test(tcase, distinct_ids);
  tcase_add_test(tcase, distinct_sizes);
}
