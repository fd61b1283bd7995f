/* cuda_views.c - cases of views, wires and positions, by the host's kernels
 * and by a target's.  All memory of a case is one block; both kernels get a
 * copy of it, and what they leave behind has to be the same bytes, gaps
 * between arrays included. */
#include "cuda_views.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_numbers.h"
#include "harness.h"

static const views_target *target;
static ts_kernels host, tested;

/* ---- numbers ------------------------------------------------------------- */

/* Any size; 1 of 64 special: zeros, denormals, infinities, NaN, the largest,
 * ties of both 16-bit types. */
static float some(bool special) {
  static const uint32_t specials[] = {
      0,          0x80000000, 1,          0x807fffff, 0x7f800000, 0xff800000,
      0x7fc00000, 0xffc12345, 0x7f800001, 0x7f7fffff, 0xff7fffff, 0x3f808000,
      0x3f818000, 0x3f801000, 0x3f803000, 0x477fe000, 0x477ff000, 0xc7800000,
      0x33000000, 0x33000001, 0x38000000, 0x387fffff, 0xb7ffffff, 0x007fffff};
  if (special && below(64) == 0)
    return float_of(specials[below((int32_t)(sizeof specials / 4))]);
  return ldexpf(1 + (float)(bits() >> 9) * 0x1p-23f, below(40) - 20) *
         (bits() & 1 ? 1.0f : -1.0f);
}

/* ---- a case's memory ----------------------------------------------------- */

enum { BYTES_MAX = 24 << 20 };
static char *block;
static size_t used;

/* BYTES whose start is OFF bytes behind a border of 256; pointers of a case
 * are offsets until it runs. */
static size_t take(int64_t bytes, int off) {
  const size_t at = (used + 32 + 255) / 256 * 256 + (size_t)off;
  used = at + (size_t)bytes;
  ck_assert(used + 256 <= BYTES_MAX);
  return at;
}

static size_t take_floats(int64_t n, int off, bool special) {
  const size_t at = take(n * 4, off);
  for (int64_t i = 0; i < n; i++) {
    const float x = some(special);
    memcpy(block + at + 4 * i, &x, 4);
  }
  return at;
}

static void *here(size_t at) {
  return block + at;
}

/* P = the pointer that is AT bytes into whatever block a case gets. */
#define SET(p, at) ((p) = (void *)(uintptr_t)(at))
#define MOVE(p)                                                                \
  if (p) (p) = (void *)(base + (uintptr_t)(p))

typedef enum {
  ROWS,
  SUMS,
  SCALES,
  CODES,
  WEIGHTS,
  POSITIONS,
  NARROW
} views_kind;

typedef struct views_case {
  views_kind kind;
  bool nan_ok; /* NaN may be any */
  union {
    ts_row_args rows;
    ts_scale_args scales;
    ts_code_args codes;
    ts_position_args positions;
    struct {
      float *dst;
      const double *src;
      int64_t n;
    } narrow;
  } u;
  const ts_kernels *kernels;
} views_case;

static void move_positions(views_case *c, char *base) {
  for (int32_t k = 0; k < c->u.positions.n_slots; k++) {
    ts_position_slot *s = &c->u.positions.slot[k];
    MOVE(s->offsets);
    MOVE(s->positions);
    MOVE(s->value);
    MOVE(s->weight);
    MOVE(s->sum);
  }
}

static void move(views_case *c, char *base) {
  for (int32_t k = 0; c->kind <= SUMS && k < c->u.rows.n_pieces; k++) {
    ts_row_piece *p = &c->u.rows.piece[k];
    MOVE(p->to);
    MOVE(p->from);
    MOVE(p->index);
    MOVE(p->member_start);
    MOVE(p->member);
  }
  for (int32_t k = 0; c->kind == SCALES && k < c->u.scales.n_pieces; k++) {
    MOVE(c->u.scales.piece[k].x);
    MOVE(c->u.scales.piece[k].by);
  }
  for (int32_t k = 0; c->kind == CODES && k < c->u.codes.n_pieces; k++) {
    MOVE(c->u.codes.piece[k].x);
    MOVE(c->u.codes.piece[k].wire);
  }
  if (c->kind == WEIGHTS || c->kind == POSITIONS) move_positions(c, base);
  if (c->kind == NARROW) {
    MOVE(c->u.narrow.dst);
    MOVE(c->u.narrow.src);
  }
}

static ts_err run(void *arg) {
  const views_case *c = arg;
  switch (c->kind) {
  case ROWS:
    return c->kernels->copy_rows(&c->u.rows);
  case SUMS:
    return c->kernels->sum_rows(&c->u.rows);
  case SCALES:
    return c->kernels->scale_rows(&c->u.scales);
  case CODES:
    return c->kernels->code_rows(&c->u.codes);
  case WEIGHTS:
    return c->kernels->weigh_positions(&c->u.positions);
  case POSITIONS:
    return c->kernels->sum_positions(&c->u.positions);
  case NARROW:
    break;
  }
  return c->kernels->narrow(c->u.narrow.dst, c->u.narrow.src, c->u.narrow.n);
}

/* ---- both ---------------------------------------------------------------- */

static void compare(const char *want, const char *got, bool nan_ok) {
  for (size_t i = 0; i < used + 256; i += 4) {
    float x, y;
    if (!memcmp(want + i, got + i, 4)) continue;
    memcpy(&x, want + i, 4);
    memcpy(&y, got + i, 4);
    if (nan_ok && isnan(x) && isnan(y)) continue;
    ck_abort_msg("byte %zu: %a, not %a", i, (double)y, (double)x);
  }
}

/* Many blocks, then few: kernels go on with a stride. */
static void check(const views_case *c) {
  const size_t bytes = (used + 256 + 3) / 4 * 4;
  char *want = malloc(bytes), *got = malloc(bytes);
  views_case mine = *c;
  memcpy(want, block, bytes);
  mine.kernels = &host;
  move(&mine, want);
  ck_assert_ok(run(&mine));
  for (int most = 1000; most > 0; most -= 998) {
    char *sent = target->send(block, bytes);
    if (target->set_blocks) target->set_blocks(most);
    mine = *c;
    mine.kernels = &tested;
    move(&mine, sent);
    ck_assert_ok(target->run(run, &mine));
    target->fetch(got, sent, bytes);
    target->drop(sent);
    compare(want, got, c->nan_ok);
    if (!target->set_blocks) break;
  }
  free(want);
  free(got);
}

static void clear(views_case *c, views_kind kind) {
  memset(c, 0, sizeof *c);
  c->kind = kind;
  used = 64;
  for (size_t i = 0; i < BYTES_MAX; i += 4) {
    const uint32_t b = bits();
    memcpy(block + i, &b, 4);
  }
}

/* ---- rows ---------------------------------------------------------------- */

static const int32_t widths[] = {1,  2,  3,  4,  5,  7,   8,   12,  16,
                                 20, 31, 32, 33, 64, 100, 128, 130, 260};
enum { WIDTHS = sizeof widths / sizeof *widths };

/* N rows with numbers below N_BAGS, and who has each number. */
static void add_index(ts_row_piece *p, int32_t n_bags) {
  const size_t index = take((int64_t)p->n * 4, 0);
  const size_t start = take((int64_t)(n_bags + 1) * 4, 0);
  const size_t member = take((int64_t)p->n * 4, 4);
  int32_t *x = here(index), *s = here(start), *m = here(member), at = 0;
  for (int32_t i = 0; i < p->n; i++)
    x[i] = bits() % 4 ? below(n_bags) : 0; /* one that many have */
  for (int32_t j = 0; j < n_bags; j++) {
    s[j] = at;
    for (int32_t i = 0; i < p->n; i++)
      if (x[i] == j) m[at++] = i;
  }
  s[n_bags] = at;
  SET(p->index, index);
  SET(p->member_start, start);
  SET(p->member, member);
}

/* PART of three, or -1: all bags.  Sides with GAP lie among others. */
static void add_rows(views_case *c, int32_t n, int32_t n_bags, int32_t n_cols,
                     int part, bool indexed) {
  ts_row_piece *p = &c->u.rows.piece[c->u.rows.n_pieces++];
  const bool back = c->kind == SUMS;
  const int32_t seen = n_cols + (bits() % 2 ? 4 * below(3) : below(9));
  const int32_t step = bits() % 2 ? n_cols : n_cols + 4 + below(2);
  p->n = n;
  p->n_cols = n_cols;
  if (indexed) add_index(p, n_bags);
  p->first = part < 0 ? 0 : part * n_bags / 3;
  p->count = (part < 0 ? n_bags : (part + 1) * n_bags / 3) - p->first;
  const size_t a = take_floats((int64_t)n * seen + 1, 4 * below(3), true);
  const size_t b =
      take_floats((int64_t)p->count * step + 1, bits() % 2 ? 0 : 4, true);
  SET(p->to, back ? b : a);
  SET(p->from, back ? a : b);
  p->to_step = back ? step : seen;
  p->from_step = back ? seen : step;
}

static void rows(views_kind kind) {
  static const int32_t ns[] = {0, 1, 9, 70, 300};
  views_case c;
  for (int w = 0; w < WIDTHS; w++) {
    clear(&c, kind);
    c.nan_ok = kind == SUMS;
    for (int k = 0; k < 5; k++)
      for (int part = -1; part < 3; part++) {
        const int32_t n_bags = ns[k] ? 1 + ns[k] / (1 + below(4)) : 0;
        if (ns[k] || part < 0)
          add_rows(&c, ns[k], n_bags, widths[w], part, ns[k]);
        if (ns[k] && part < 0 && kind == ROWS)
          add_rows(&c, ns[k], ns[k], widths[w], -1, false);
      }
    check(&c);
  }
}

START_TEST(copies) {
  rows(ROWS);
}
END_TEST

START_TEST(sums_of_members) {
  rows(SUMS);
}
END_TEST

/* As many pieces as there may be, of all widths. */
START_TEST(as_many_as_there_may_be) {
  views_case c;
  for (views_kind k = ROWS; k <= SUMS; k++) {
    clear(&c, k);
    c.nan_ok = true;
    while (c.u.rows.n_pieces < TS_ROW_PIECES)
      add_rows(&c, 20 + below(40), 12, widths[below(WIDTHS)], -1, true);
    check(&c);
  }
}
END_TEST

START_TEST(scales) {
  views_case c;
  clear(&c, SCALES);
  c.nan_ok = true;
  for (int i = 0; i < TS_SCALE_PIECES; i++) {
    ts_scale_piece *p = &c.u.scales.piece[c.u.scales.n_pieces++];
    p->n = i % 10 ? below(70) : 0;
    p->n_cols = widths[i % WIDTHS];
    p->step = p->n_cols + 4 * below(2) + (i % 5 == 0);
    SET(p->x, take_floats(p->n * p->step + 1, 4 * (i % 3 == 0), true));
    SET(p->by, take_floats(p->n + 1, 4 * below(4), true));
  }
  check(&c);
}
END_TEST

/* ---- codes --------------------------------------------------------------- */

/* Rows that int8 treats apart: zeros, denormals, the largest. */
static void special_rows(float *x, int32_t n, int32_t step, int32_t n_cols) {
  for (int32_t i = 0; i < n; i++)
    for (int32_t d = 0; d < n_cols; d++) {
      float *e = &x[(int64_t)i * step + d];
      if (i % 16 == 3) *e = d % 2 ? 0.0f : -0.0f;
      if (i % 16 == 5) *e *= 0x1p-140f;
      if (i % 16 == 7) *e = ldexpf(*e, 108);
      if (i % 16 == 9 && d == n_cols / 2) *e = 0x1.fffffep127f;
      if (i % 16 == 11) *e = (float)(d % 255 - 127) * 0.5f; /* ties */
    }
}

/* The caller gives it a wire. */
static void add_code(views_case *c, int32_t n, int32_t n_cols) {
  ts_code_args *a = &c->u.codes;
  ts_code_piece *p = &a->piece[a->n_pieces++];
  p->n = n;
  p->n_cols = n_cols;
  p->step = n_cols + (n_cols % 4 ? below(4) : 4 * below(3));
  const size_t x = take_floats((int64_t)n * p->step + 1,
                               bits() % 4 ? 0 : 4 * below(4), true);
  special_rows(here(x), n, p->step, n_cols);
  SET(p->x, x);
}

/* Wires of bytes that encoding wrote, so that scales of int8 are likely. */
static void fill_wire(const ts_code_args *a) {
  float *x = malloc(4096);
  for (int32_t k = 0; k < a->n_pieces; k++) {
    const ts_code_piece *p = &a->piece[k];
    const int64_t row = ts_codec_bytes(a->codec, p->n_cols);
    for (int32_t r = 0; r < a->n_parts; r++)
      for (int32_t i = 0; i < p->n; i++) {
        for (int32_t d = 0; d < p->n_cols; d++) x[d] = some(i % 4 == 0);
        ts_codec_encode(
            a->codec, block + (uintptr_t)p->wire + r * a->part_bytes + i * row,
            x, p->n_cols);
      }
  }
  free(x);
}

/* Pieces one after the other on the wire, as sections are, in all parts. */
static void codes(ts_codec codec, bool encode, int32_t n_parts, int off) {
  views_case c;
  clear(&c, CODES);
  ts_code_args *a = &c.u.codes;
  int64_t at = 0;
  a->codec = codec;
  a->encode = encode;
  a->n_parts = n_parts;
  c.nan_ok = codec == TS_CODEC_INT8 || n_parts > 1;
  for (int w = 0; w < WIDTHS; w++)
    for (int32_t n = 0; n < 60; n += 1 + n * 3) add_code(&c, n, widths[w]);
  while (a->n_pieces < TS_CODE_PIECES) add_code(&c, 5, 8);
  const size_t wire = take(0, off);
  for (int32_t k = 0; k < a->n_pieces; k++) {
    SET(a->piece[k].wire, wire + (size_t)at);
    at += a->piece[k].n * ts_codec_bytes(codec, a->piece[k].n_cols);
  }
  a->part_bytes = at;
  used += (size_t)(at * n_parts);
  ck_assert(used + 256 <= BYTES_MAX);
  if (!encode) fill_wire(a);
  check(&c);
}

START_TEST(codecs) {
  for (int codec = TS_CODEC_BF16; codec <= TS_CODEC_INT8; codec++) {
    const int border = codec == TS_CODEC_INT8 ? 4 : 2;
    for (int off = 0; off <= border; off += border) {
      codes((ts_codec)codec, true, 1, off);
      codes((ts_codec)codec, false, 1, off);
      codes((ts_codec)codec, false, 3, off);
    }
  }
}
END_TEST

/* Every word of 16 bits, NaN's payloads, too. */
START_TEST(all_words) {
  for (int codec = TS_CODEC_BF16; codec <= TS_CODEC_F16; codec++)
    for (int32_t n_cols = 127; n_cols <= 128; n_cols++) {
      views_case c;
      clear(&c, CODES);
      c.u.codes.codec = (ts_codec)codec;
      c.u.codes.n_parts = 1;
      add_code(&c, 65536 / n_cols + 1, n_cols);
      const size_t wire = take(70000 * 2, 0);
      for (int i = 0; i < 70000; i++)
        memcpy(block + wire + 2 * i, &(uint16_t){(uint16_t)i}, 2);
      SET(c.u.codes.piece[0].wire, wire);
      check(&c);
    }
}
END_TEST

/* ---- positions ----------------------------------------------------------- */

/* N_BAGS bags of up to LONGEST ids; SPLIT: every third id or so is here. */
static void add_slot(views_case *c, int32_t n, int32_t n_bags, int32_t longest,
                     bool split, bool same) {
  ts_position_args *a = &c->u.positions;
  ts_position_slot *s = &a->slot[a->n_slots++];
  const size_t offsets = take((n_bags + 1) * 8, 0);
  const size_t positions = take((int64_t)n_bags * longest * 2 + 6, 2);
  int64_t *o = here(offsets), at = 3; /* ids of others come before */
  uint16_t *p = here(positions);
  for (int32_t b = 0; b < n_bags; b++) {
    const int32_t length = b == 1 ? longest : below(longest + 1);
    o[b] = at;
    for (int32_t k = 0; k < length; k++)
      if (!split || bits() % 3 == 0)
        p[at++] = (uint16_t)(k < 65535 ? k : 65535);
  }
  o[n_bags] = at;
  if (at > a->most_ids) a->most_ids = at;
  s->n = n;
  s->n_bags = n_bags;
  SET(s->offsets, offsets);
  SET(s->positions, positions);
  SET(s->value, take_floats(at + 1, 4, false));
  SET(s->weight, take_floats(n, 0, true));
  const size_t sum = take((int64_t)n * 8, 0);
  for (int32_t i = 0; i < n; i++)
    ((double *)here(sum))[i] = (double)some(false);
  SET(s->sum, sum);
  if (same) s->sum = s[-1].sum;
}

static void positions(views_kind kind) {
  static const int32_t ns[] = {1, 2, 31, 32, 33, 34, 65, 100};
  views_case c;
  for (int i = 0; i < 8; i++) {
    clear(&c, kind);
    add_slot(&c, ns[i], 300, 40, false, false);
    add_slot(&c, ns[i], 128, 90, true, true);
    add_slot(&c, ns[7 - i], 129, 3, false, false);
    add_slot(&c, 50, 0, 5, false, false);
    add_slot(&c, 50, 5, 0, false, false);
    check(&c);
  }
}

START_TEST(weights_by_position) {
  positions(WEIGHTS);
}
END_TEST

START_TEST(sums_by_position) {
  positions(POSITIONS);
}
END_TEST

/* Thousands of ids at the last place; the last of all places; as many slots
 * as there may be. */
START_TEST(last_places) {
  views_case c;
  clear(&c, POSITIONS);
  add_slot(&c, 7, 3, 5000, false, false);
  check(&c);
  clear(&c, POSITIONS);
  add_slot(&c, 65536, 2, 65540, false, false);
  ((uint16_t *)here((size_t)(uintptr_t)c.u.positions.slot[0].positions))[4] =
      65535;
  check(&c);
  clear(&c, POSITIONS);
  while (c.u.positions.n_slots < TS_POSITION_SLOTS)
    add_slot(&c, 9, 10, 12, false, c.u.positions.n_slots % 3 == 2);
  check(&c);
}
END_TEST

/* ---- the rest ------------------------------------------------------------ */

START_TEST(narrows) {
  views_case c;
  clear(&c, NARROW);
  c.nan_ok = true;
  c.u.narrow.n = 3000;
  const size_t src = take(3000 * 8, 0); /* any bits at all */
  SET(c.u.narrow.src, src);
  SET(c.u.narrow.dst, take(3000 * 4, 4));
  for (int i = 0; i < 3000; i += 2)
    ((double *)here(src))[i] = (double)some(true) * 0x1.0000011p0;
  check(&c);
}
END_TEST

typedef struct put_arg {
  char *dst, *src;
  size_t bytes;
} put_arg;

static ts_err put(void *arg) {
  const put_arg *a = arg;
  const ts_err err = tested.put(a->dst, a->src, a->bytes);
  memset(a->src, 0, a->bytes); /* what was put stays */
  return err;
}

START_TEST(small_puts) {
  static const size_t sizes[] = {0, 1, 3, 3999, 4000, 4001, 9001};
  for (int i = 0; i < 7; i++) {
    char own[9001], got[9100], want[9100] = {0};
    for (size_t k = 0; k < sizes[i]; k++) want[5 + k] = own[k] = (char)bits();
    char *sent = target->send((const char[9100]){0}, sizeof got);
    put_arg a = {sent + 5, own, sizes[i]};
    ck_assert_ok(target->run(put, &a));
    target->fetch(got, sent, sizeof got);
    target->drop(sent);
    ck_assert_mem_eq(got, want, sizeof got);
  }
}
END_TEST

static void start(void) {
  block = malloc(BYTES_MAX);
  ck_assert(block != NULL);
  ck_assert_ok(ts_kernels_fill(&host, "host", "ref"));
  if (target->start) target->start();
  target->kernels(&tested);
}

static void stop(void) {
  if (target->stop) target->stop();
  free(block);
}

Suite *cuda_views_suite(const char *name, const views_target *t) {
  const TTest *const tests[] = {copies,
                                sums_of_members,
                                as_many_as_there_may_be,
                                scales,
                                codecs,
                                all_words,
                                weights_by_position,
                                sums_by_position,
                                last_places,
                                narrows,
                                small_puts};
  Suite *s = suite_create(name);
  TCase *tc = tcase_create("kernels");
  target = t;
  tcase_add_unchecked_fixture(tc, start, stop);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    tcase_add_test(tc, tests[i]);
  suite_add_tcase(s, tc);
  return s;
}
