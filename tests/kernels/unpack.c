/* unpack.c - the contract of unpack and bag_means, bit for bit: sections of
 * every form, which devices of memory of their own get cut into parts.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "shard/unpack.h"
#include "tests/support/contract.h"

/* ---- cases --------------------------------------------------------------- */

/* How a section says its bags. */
typedef enum { ONE, BYTES, INTS, OFFSETS, EMPTY, LONG, KINDS } kind;

typedef struct spec {
  int n_sections;
  int64_t most_bags; /* of a section */
  int id_bytes;      /* 0: all kinds */
  int only;          /* a kind, -1: all */
  bool weighted, positions, number;
} spec;

enum { SECTIONS = 600, PARTS = 8 * SECTIONS };
typedef struct unpack_case {
  ts_unpack_part sections[SECTIONS];
  char *memory; /* of the sections */
  size_t bytes;
  ts_unpack_args a;
  ts_unpack_part *list; /* of parts */
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
}

static void make_arrays(unpack_case *c, const spec *s) {
  ts_unpack_args *a = &c->a;
  a->offsets = kt_array(a->n_bags + 1, 8, 0);
  a->at = kt_array(a->n_bags, 8, 0);
  a->rows = kt_array(a->n_ids, 4, 0);
  a->weights = s->weighted ? kt_array(a->n_ids, 4, 0) : NULL;
  a->positions = s->positions || s->number ? kt_array(a->n_ids, 2, 0) : NULL;
  a->lengths = true;
  a->bad = kt_zeros(1, sizeof *a->bad);
  c->list = kt_array(PARTS, sizeof *c->list, 0);
  kt_compare(c->list, KT_OWN);
}

static void make(unpack_case *c, const spec *s) {
  memset(c, 0, sizeof *c);
  kt_begin();
  for (int pass = 0; pass < 2; pass++) {
    c->bytes = 0;
    for (int i = 0; i < s->n_sections; i++) place(c, s, i, &c->bytes);
    if (!pass) c->memory = kt_array((int64_t)c->bytes, 1, 0);
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
  make_arrays(c, s);
}

/* ---- runs ---------------------------------------------------------------- */

/* P cut as for a device of memory of its own; returns the number of parts at
 * TO. */
static int cut(ts_unpack_part *to, const ts_unpack_part *p) {
  const bool lengths = p->form == TS_FORM_BYTES || p->form == TS_FORM_INTS;
  int n = 0;
  for (int64_t b = 0; b == 0 || b < p->n_bags; b += TS_UNPACK_BAGS) {
    ts_unpack_part *x = &to[n++];
    const int64_t left = p->n_bags - b;
    *x = *p;
    x->n_listed = left <= TS_UNPACK_BAGS && lengths ? p->n_listed : -1;
    x->n_before = n - 1;
    x->n_bags = left < TS_UNPACK_BAGS ? left : TS_UNPACK_BAGS;
    x->first_bag += b;
    x->at += b * p->step;
    if (p->lengths) x->lengths = (const char *)p->lengths + length_bytes(p, b);
    if (b) {
      x->first_id += p->n_ids;
      x->n_ids = 0;
    }
    kt_at_all(x, sizeof *x);
  }
  return n;
}

static ts_err run(const ts_kernels *k, const void *arg) {
  static ts_unpack_part parts[PARTS];
  const unpack_case *c = arg;
  ts_unpack_args a = c->a;
  ts_err err = TS_OK;
  a.n_parts = 0;
  for (int i = 0; i < c->a.n_parts; i++)
    if (kt_apart()) {
      a.n_parts += cut(parts + a.n_parts, &c->sections[i]);
    } else {
      parts[a.n_parts] = c->sections[i];
      kt_at_all(&parts[a.n_parts++], sizeof *parts);
    }
  ck_assert_int_le(a.n_parts, PARTS);
  a.parts = kt_apart() ? kt_at(c->list) : parts;
  if (kt_apart())
    err = k->put(kt_at(c->list), parts, (size_t)a.n_parts * sizeof *parts);
  kt_at_all(&a, sizeof a);
  return err == TS_OK ? k->unpack(&a) : err;
}

static void check(const spec *s) {
  static unpack_case c;
  make(&c, s);
  kt_check(run, &c);
}

/* ---- tests --------------------------------------------------------------- */

KT_CONTRACT("unpack bag_means")

TS_TESTS(forms, 0, KINDS) {
  for (int bytes = 1; bytes <= 8; bytes *= 2)
    for (int way = 0; way < 3; way++)
      check(&(spec){.n_sections = 6,
                    .most_bags = 1500,
                    .id_bytes = bytes,
                    .only = _i,
                    .weighted = way > 0,
                    .positions = way == 2,
                    .number = way == 1});
}

TS_TEST(many_sections) {
  check(&(spec){.n_sections = SECTIONS,
                .most_bags = 40,
                .only = -1,
                .weighted = true,
                .positions = true});
  check(&(spec){.n_sections = SECTIONS, .most_bags = 3, .only = -1});
  check(&(spec){.n_sections = 40,
                .most_bags = 1200,
                .only = -1,
                .weighted = true,
                .number = true});
}

/* Lengths around what a block takes at once, and of many parts. */
TS_TEST(long_sections) {
  static const int64_t most[] = {1, 255, 257, 1023, 1025, 9000};
  for (int i = 0; i < TEST_COUNT(most); i++)
    check(&(spec){.n_sections = 5,
                  .most_bags = most[i],
                  .only = -1,
                  .weighted = i % 2,
                  .number = true});
}

/* One section: LENGTHS of N_BAGS bags in FORM, of N_IDS ids. */
static void make_one(unpack_case *c, int form, const void *lengths, size_t size,
                     int n_bags, int64_t n_ids) {
  memset(c, 0, sizeof *c);
  kt_begin();
  c->sections[0] = (ts_unpack_part){.lengths = kt_copy(lengths, n_bags, size),
                                    .form = form,
                                    .ids = kt_array(n_ids, 4, 0),
                                    .id_bytes = 4,
                                    .n_bags = n_bags,
                                    .n_ids = n_ids,
                                    .n_listed = n_ids,
                                    .step = 2};
  c->a = (ts_unpack_args){
      .n_parts = 1, .number = true, .n_bags = n_bags, .n_ids = n_ids};
  make_arrays(c, &(spec){.number = true});
}

/* More ids in a bag than positions can tell. */
TS_TEST(long_bag) {
  enum { N = 70000 };
  static const int32_t lengths[] = {0, 3, N, 0, 0, 2, 0};
  static unpack_case c;
  make_one(&c, TS_FORM_INTS, lengths, 4, 7, N + 5);
  c.sections[0].id_bytes = 1;
  kt_check(run, &c);
  ck_assert_int_eq(((uint16_t *)kt_ref(c.a.positions))[3 + N - 1], UINT16_MAX);
}

/* The kernel is the host's, which has an error of its own. */
static bool is_the_hosts(void) {
  const char *name = ts_test_backend();
  return !strcmp(name, "host") || !strcmp(name, "fake");
}

/* As a device leaves what does not add up to the ids. */
static ts_err run_wrong(const ts_kernels *k, const void *arg) {
  static unpack_case c;
  c = *(const unpack_case *)arg;
  const int64_t n = c.a.n_ids;
  c.a.number = false; /* by offsets as they were */
  if (kt_apart()) return run(k, &c);
  c.sections[0].n_listed = -1;
  TS_DO(run(k, &c));
  int64_t *offsets = kt_at(c.a.offsets);
  for (int64_t b = 0; b < c.a.n_bags; b++)
    if (offsets[b] > n) offsets[b] = n;
  *(uint64_t *)kt_at(c.a.bad) =
      (uint64_t)c.a.n_bags << 32 | (uint64_t)n; /* 1 a bag, in sum */
  return TS_OK;
}

/* The host says so where lengths don't add up; a device leaves a note. */
TS_TEST(wrong_lengths) {
  static const uint8_t bytes[] = {1, 2, 0};
  static const int32_t ints[] = {1, 2, 0};
  static unpack_case c;
  for (int form = 0; form < 3; form++)
    for (int n = 2; n <= 4; n++) {
      const bool small = form == TS_FORM_BYTES;
      make_one(&c, form, small ? (const void *)bytes : ints, small ? 1 : 4, 3,
               n);
      if (n == 3)
        kt_check(run, &c);
      else if (form == TS_FORM_ONE && strcmp(ts_test_backend(), "host") != 0)
        continue; /* seen as parts are cut */
      else if (is_the_hosts())
        kt_refused(run, &c, TS_ERR_COMM, "lengths");
      else
        kt_check(run_wrong, &c);
    }
}

/* Two parts of a section whose sum is one too many: the last of them knows. */
TS_TEST(wrong_lengths_of_parts) {
  static uint8_t bytes[TS_UNPACK_BAGS + 3];
  static unpack_case c;
  memset(bytes, 1, sizeof bytes);
  make_one(&c, TS_FORM_BYTES, bytes, 1, TS_UNPACK_BAGS + 3, TS_UNPACK_BAGS + 2);
  if (is_the_hosts())
    kt_refused(run, &c, TS_ERR_COMM, "lengths of 1027 ids for 1026");
  else
    kt_check(run_wrong, &c);
}

TS_TEST(nothing) {
  check(&(spec){.n_sections = 0, .only = -1, .weighted = true});
  check(&(spec){.n_sections = 3, .most_bags = 0, .number = true});
}

/* ---- means --------------------------------------------------------------- */

KT_CALL(run_means, bag_means, ts_bag_means_args)

TS_TEST(means) {
  enum { BAGS = 700, VIEWS = 5 };
  ts_bag_means_args a = {.n_views = VIEWS};
  int32_t *lengths = kt_array(BAGS, 4, 0), *bag = kt_array(BAGS, 4, 0);
  int64_t *offsets = kt_zeros(BAGS + 1, 8);
  for (int b = 0; b < BAGS; b++) {
    lengths[b] = kt_below(12);
    offsets[b + 1] = offsets[b] + lengths[b] * 3;
    bag[b] = kt_below(BAGS);
  }
  for (int i = 0; i < VIEWS; i++)
    a.view[i] = (ts_bag_mean){.out = kt_array(BAGS, 4, 0),
                              .lengths = i < 2 ? lengths : NULL,
                              .offsets = i == 2 || i == 3 ? offsets : NULL,
                              .bag = i % 2 == 1 || i == 2 ? bag : NULL,
                              .n = i == 3 ? 0 : BAGS - 100 * i};
  kt_check(run_means, &a);
}
