/* cuda_unpack.c - sections of every form, as the host makes bags of them, and
 * a target of the same sections cut into parts; what both write has to be the
 * same bytes. */
#include "tests/kernels/cuda_unpack.h"

#include <stdio.h>

#include "tests/support/sparse_util.h"

static const unpack_target *target;

/* ---- cases --------------------------------------------------------------- */

/* What the bags of a section are like. */
typedef enum { ONE, BYTES, INTS, OFFSETS, EMPTY, LONG, KINDS } kind;

typedef struct spec {
  int n_sections;
  int64_t most_bags; /* of a section */
  int id_bytes;      /* 0: all kinds */
  int only;          /* a kind, -1: all */
  bool weighted, positions, number;
} spec;

enum { SECTIONS = 600 };
typedef struct unpack_case {
  ts_unpack_part sections[SECTIONS];
  char *memory; /* of the sections */
  size_t bytes;
  ts_unpack_args a; /* of the host */
} unpack_case;

static int64_t length_of(kind k, uint64_t *seed) {
  const uint32_t x = test_random(seed);
  if (k == ONE) return 1;
  if (k == EMPTY) return x % 50 == 0;
  if (k == LONG) return x % 40 == 0 ? 3000 + x % 2000 : x % 3;
  if (k == INTS) return x % 9 == 0 ? 300 : x % 4;
  return x % 6;
}

/* Lengths of section P at its place, or only counted where MEMORY is not
 * there yet; the same each time. */
static void put_lengths(ts_unpack_part *p, kind k, uint64_t seed, char *to) {
  int64_t total = 0;
  for (int64_t b = 0; b < p->n_bags; b++) {
    const int64_t n = length_of(k, &seed);
    if (to && p->form == TS_FORM_BYTES) ((uint8_t *)to)[b] = (uint8_t)n;
    if (to && p->form == TS_FORM_INTS) ((int32_t *)(void *)to)[b] = (int32_t)n;
    if (to && p->form == TS_FORM_OFFSETS) ((int64_t *)(void *)to)[b] = total;
    total += n;
  }
  p->n_ids = total;
}

static int64_t length_bytes(const ts_unpack_part *p, int64_t n) {
  return p->form == TS_FORM_ONE     ? 0
         : p->form == TS_FORM_BYTES ? n
         : p->form == TS_FORM_INTS  ? 4 * n
                                    : 8 * n;
}

/* The section of number I from *BYTES of the case's memory on, which comes
 * into being after all are measured. */
static void place(unpack_case *c, const spec *s, int i, size_t *bytes) {
  static const int widths[] = {1, 2, 4, 8};
  static const int forms[KINDS] = {TS_FORM_ONE,   TS_FORM_BYTES,
                                   TS_FORM_INTS,  TS_FORM_OFFSETS,
                                   TS_FORM_BYTES, TS_FORM_INTS};
  uint64_t seed = (uint64_t)i + 1;
  const kind k =
      s->only >= 0 ? (kind)s->only : (kind)(test_random(&seed) % KINDS);
  ts_unpack_part *p = &c->sections[i];
  char *to = c->memory ? c->memory + *bytes : NULL;
  p->form = forms[k];
  p->id_bytes = s->id_bytes ? s->id_bytes : widths[test_random(&seed) % 4];
  p->n_bags = i % 5 == 3 ? 0 : test_random(&seed) % (s->most_bags + 1);
  put_lengths(p, k, seed, to);
  p->n_listed = p->form == TS_FORM_OFFSETS ? -1 : p->n_ids;
  p->lengths = to;
  const size_t ids = (size_t)(length_bytes(p, p->n_bags) + 7) / 8 * 8;
  const size_t weights = ids + (size_t)(p->n_ids * p->id_bytes + 7) / 8 * 8;
  const size_t positions = weights + (size_t)(p->n_ids * 4 + 7) / 8 * 8;
  *bytes += positions + (size_t)(p->n_ids * 2 + 7) / 8 * 8;
  if (!to) return;
  p->ids = to + ids;
  if (s->weighted) p->weights = (float *)(void *)(to + weights);
  if (s->positions) p->positions = (uint16_t *)(void *)(to + positions);
  for (size_t x = ids; x < *bytes - (size_t)(to - c->memory); x++)
    to[x] = (char)test_random(&seed);
}

/* Fresh arrays, of bytes that no kernel writes. */
static void *fresh(int64_t n, size_t size) {
  void *p = test_alloc(n, size);
  memset(p, 0x5a, (size_t)n * size);
  return p;
}

static void make_arrays(ts_unpack_args *a, const spec *s) {
  a->offsets = fresh(a->n_bags + 1, 8);
  a->at = fresh(a->n_bags, 8);
  a->rows = fresh(a->n_ids, 4);
  a->weights = s->weighted ? fresh(a->n_ids, 4) : NULL;
  a->positions = s->positions || s->number ? fresh(a->n_ids, 2) : NULL;
}

static void make(unpack_case *c, const spec *s) {
  memset(c, 0, sizeof *c);
  for (int pass = 0; pass < 2; pass++) {
    c->bytes = 0;
    for (int i = 0; i < s->n_sections; i++) place(c, s, i, &c->bytes);
    if (!pass) c->memory = test_alloc((int64_t)c->bytes, 1);
  }
  c->a.parts = c->sections;
  c->a.n_parts = s->n_sections;
  c->a.number = s->number;
  for (int i = 0; i < s->n_sections; i++) {
    ts_unpack_part *p = &c->sections[i];
    p->first_bag = c->a.n_bags;
    p->first_id = p->base = c->a.n_ids;
    p->at = 100000 * i;
    p->step = 1 + i % 70;
    c->a.n_bags += p->n_bags;
    c->a.n_ids += p->n_ids;
  }
  make_arrays(&c->a, s);
}

static void drop_arrays(const ts_unpack_args *a) {
  void *all[] = {a->offsets, a->at, a->rows, a->weights, a->positions};
  for (int i = 0; i < TEST_COUNT(all); i++) free(all[i]);
}

/* ---- parts --------------------------------------------------------------- */

/* P cut as for a device of memory of its own, with what it points to SHIFT
 * bytes further; returns the number of parts at TO. */
static int cut(ts_unpack_part *to, const ts_unpack_part *p, int64_t shift) {
  int64_t base = p->base;
  int n = 0;
  for (int64_t b = 0; b == 0 || b < p->n_bags; b += TS_UNPACK_BAGS) {
    ts_unpack_part *x = &to[n++];
    const int64_t left = p->n_bags - b;
    *x = *p;
    x->n_listed = -1;
    x->n_bags = left < TS_UNPACK_BAGS ? left : TS_UNPACK_BAGS;
    x->first_bag += b;
    x->at += b * p->step;
    x->base = base;
    x->lengths = (const char *)p->lengths + shift + length_bytes(p, b);
    x->ids = (const char *)p->ids + shift;
    if (p->weights) x->weights = p->weights + shift / 4;
    if (p->positions) x->positions = p->positions + shift / 2;
    if (b) {
      x->first_id += p->n_ids;
      x->n_ids = 0;
    }
    for (int64_t i = b; i < b + x->n_bags; i++)
      base += p->form == TS_FORM_ONE     ? 1
              : p->form == TS_FORM_BYTES ? ((const uint8_t *)p->lengths)[i]
              : p->form == TS_FORM_INTS  ? ((const int32_t *)p->lengths)[i]
                                         : 0;
  }
  return n;
}

static void same(const void *want, void *sent, int64_t n, size_t size,
                 const char *what) {
  if (!want) return;
  const uint8_t *a = want;
  uint8_t *b = test_alloc(n, size);
  target->fetch(b, sent, (size_t)n * size);
  for (int64_t i = 0; i < n * (int64_t)size; i++)
    ck_assert_msg(a[i] == b[i], "%s differ at byte %lld of %lld", what,
                  (long long)i, (long long)n * (long long)size);
  free(b);
  target->drop(sent);
}

static void check_unpack(const spec *s) {
  ts_kernels host;
  static unpack_case c;
  static ts_unpack_part parts[64 * SECTIONS];
  test_kernels(&host, 0);
  make(&c, s);
  ts_unpack_args x = c.a;
  make_arrays(&x, s);
  const ts_unpack_args start = x;
  char *memory = target->send(c.memory, c.bytes);
  x.n_parts = 0;
  for (int i = 0; i < s->n_sections; i++)
    x.n_parts +=
        cut(parts + x.n_parts, &c.sections[i], (int64_t)(memory - c.memory));
  void *list = target->send(parts, (size_t)x.n_parts * sizeof *parts);
  x.parts = list;
  x.offsets = target->send(x.offsets, (size_t)(x.n_bags + 1) * 8);
  x.at = target->send(x.at, (size_t)x.n_bags * 8);
  x.rows = target->send(x.rows, (size_t)x.n_ids * 4);
  if (x.weights) x.weights = target->send(x.weights, (size_t)x.n_ids * 4);
  if (x.positions) x.positions = target->send(x.positions, (size_t)x.n_ids * 2);
  ck_assert_ok(target->unpack(&x));
  ck_assert_ok(host.unpack(&c.a));
  same(c.a.offsets, x.offsets, x.n_bags + 1, 8, "offsets");
  same(c.a.at, x.at, x.n_bags, 8, "places");
  same(c.a.rows, x.rows, x.n_ids, 4, "rows");
  same(c.a.weights, x.weights, x.n_ids, 4, "weights");
  same(c.a.positions, x.positions, x.n_ids, 2, "positions");
  target->drop(memory);
  target->drop(list);
  drop_arrays(&start);
  drop_arrays(&c.a);
  free(c.memory);
}

/* ---- tests --------------------------------------------------------------- */

START_TEST(forms) {
  for (int k = 0; k < KINDS; k++)
    for (int bytes = 1; bytes <= 8; bytes *= 2)
      for (int way = 0; way < 3; way++)
        check_unpack(&(spec){.n_sections = 6,
                             .most_bags = 1500,
                             .id_bytes = bytes,
                             .only = k,
                             .weighted = way > 0,
                             .positions = way == 2,
                             .number = way == 1});
}
END_TEST

START_TEST(many_sections) {
  check_unpack(&(spec){.n_sections = SECTIONS,
                       .most_bags = 40,
                       .only = -1,
                       .weighted = true,
                       .positions = true});
  check_unpack(&(spec){.n_sections = SECTIONS, .most_bags = 3, .only = -1});
}
END_TEST

/* Lengths around what a block takes at once, and of many parts. */
START_TEST(long_sections) {
  static const int64_t most[] = {1, 255, 257, 1023, 1025, 9000};
  for (int i = 0; i < TEST_COUNT(most); i++)
    check_unpack(&(spec){.n_sections = 5,
                         .most_bags = most[i],
                         .only = -1,
                         .weighted = i % 2,
                         .number = true});
}
END_TEST

/* More ids in a bag than positions can tell. */
START_TEST(long_bag) {
  enum { N = 70000 };
  static const int32_t lengths[] = {0, 3, N, 0, 0, 2, 0};
  static ts_unpack_part p = {.form = TS_FORM_INTS,
                             .id_bytes = 1,
                             .n_bags = 7,
                             .n_ids = N + 5,
                             .n_listed = N + 5,
                             .step = 2};
  ts_kernels host;
  ts_unpack_args a = {
      .parts = &p, .n_parts = 1, .number = true, .n_bags = 7, .n_ids = p.n_ids};
  test_kernels(&host, 0);
  make_arrays(&a, &(spec){.number = true});
  ts_unpack_args x = a;
  void *ids = test_alloc(p.n_ids, 1);
  p.lengths = lengths;
  p.ids = ids;
  ck_assert_ok(host.unpack(&a));
  ck_assert_int_eq(a.positions[3 + N - 1], UINT16_MAX);
  p.lengths = target->send(lengths, sizeof lengths);
  p.ids = target->send(ids, (size_t)p.n_ids);
  x.parts = target->send(&p, sizeof p);
  x.offsets = target->send(a.offsets, 64);
  x.at = target->send(a.at, 56);
  x.rows = target->send(a.rows, (size_t)p.n_ids * 4);
  void *none = test_alloc(p.n_ids, 2);
  x.positions = target->send(none, (size_t)p.n_ids * 2);
  ck_assert_ok(target->unpack(&x));
  same(a.offsets, x.offsets, 8, 8, "offsets");
  same(a.at, x.at, 7, 8, "places");
  same(a.rows, x.rows, p.n_ids, 4, "rows");
  same(a.positions, x.positions, p.n_ids, 2, "positions");
  target->drop((void *)(uintptr_t)x.parts);
  target->drop((void *)(uintptr_t)p.lengths);
  target->drop((void *)(uintptr_t)p.ids);
  drop_arrays(&a);
  free(none);
  free(ids);
}
END_TEST

START_TEST(nothing) {
  check_unpack(&(spec){.n_sections = 0, .only = -1, .weighted = true});
  check_unpack(&(spec){.n_sections = 3, .most_bags = 0, .number = true});
}
END_TEST

/* No bit depends on the grid. */
START_TEST(grids) {
  if (!target->set_blocks) return;
  for (int blocks = 1; blocks < 8; blocks += 3) {
    target->set_blocks(blocks);
    check_unpack(&(spec){.n_sections = 40,
                         .most_bags = 1200,
                         .only = -1,
                         .weighted = true,
                         .number = true});
  }
  target->set_blocks(0);
}
END_TEST

/* ---- means --------------------------------------------------------------- */

enum { BAGS = 700, VIEWS = 5 };

START_TEST(means) {
  uint64_t seed = 4;
  ts_kernels host;
  int32_t lengths[BAGS], bag[BAGS];
  int64_t offsets[BAGS + 1] = {0};
  float out[VIEWS][BAGS] = {{0}};
  ts_bag_means_args a = {.n_views = VIEWS}, x = {.n_views = VIEWS};
  test_kernels(&host, 0);
  for (int b = 0; b < BAGS; b++) {
    lengths[b] = (int32_t)(test_random(&seed) % 12);
    offsets[b + 1] = offsets[b] + lengths[b] * 3;
    bag[b] = (int32_t)(test_random(&seed) % BAGS);
  }
  for (int i = 0; i < VIEWS; i++) {
    ts_bag_mean *v = &a.view[i];
    *v = (ts_bag_mean){.out = out[i], .n = i == 3 ? 0 : BAGS - 100 * i};
    if (i < 2) v->lengths = lengths;
    if (i == 2 || i == 3) v->offsets = offsets;
    if (i % 2 == 1 || i == 2) v->bag = bag;
    x.view[i] = *v;
    if (v->lengths) x.view[i].lengths = target->send(lengths, sizeof lengths);
    if (v->offsets) x.view[i].offsets = target->send(offsets, sizeof offsets);
    if (v->bag) x.view[i].bag = target->send(bag, sizeof bag);
    x.view[i].out = target->send(out[i], sizeof out[i]);
  }
  ck_assert_ok(target->bag_means(&x));
  ck_assert_ok(host.bag_means(&a));
  for (int i = 0; i < VIEWS; i++) {
    const ts_bag_mean *v = &x.view[i];
    same(out[i], v->out, BAGS, 4, "means");
    if (v->lengths) target->drop((void *)(uintptr_t)v->lengths);
    if (v->offsets) target->drop((void *)(uintptr_t)v->offsets);
    if (v->bag) target->drop((void *)(uintptr_t)v->bag);
  }
}
END_TEST

Suite *cuda_unpack_suite(const char *name, const unpack_target *t) {
  const TTest *const tests[] = {forms,   many_sections, long_sections, long_bag,
                                nothing, grids,         means};
  Suite *suite = suite_create(name);
  TCase *all = tcase_create(name);
  target = t;
  for (int i = 0; i < TEST_COUNT(tests); i++) tcase_add_test(all, tests[i]);
  if (t->start) tcase_add_unchecked_fixture(all, t->start, t->stop);
  suite_add_tcase(suite, all);
  return suite;
}
