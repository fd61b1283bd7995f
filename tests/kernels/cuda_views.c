/* cuda_views.c - cases of views, wires and positions, by the host's kernels
 * and by a target's: rows, and all that is not codes or positions. */
#include "tests/kernels/cuda_views.h"

#include <string.h>

#include "tests/kernels/cuda_views_case.h"

static const block_target *target;

const int32_t views_widths[VIEWS_WIDTHS] = {
    1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 31, 32, 33, 64, 100, 128, 130, 260};

/* P = the pointer that is AT bytes into whatever block a case gets. */
#define MOVE(p)                                                                \
  if (p) (p) = AT(p)

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

static ts_err run(const ts_kernels *k, char *base, const void *arg) {
  views_case c = *(const views_case *)arg;
  move(&c, base);
  switch (c.kind) {
  case ROWS:
    return k->copy_rows(&c.u.rows);
  case SUMS:
    return k->sum_rows(&c.u.rows);
  case SCALES:
    return k->scale_rows(&c.u.scales);
  case CODES:
    return k->code_rows(&c.u.codes);
  case WEIGHTS:
    return k->weigh_positions(&c.u.positions);
  case POSITIONS:
    return k->sum_positions(&c.u.positions);
  case NARROW:
    break;
  }
  return k->narrow(c.u.narrow.dst, c.u.narrow.src, c.u.narrow.n);
}

void views_check(const views_case *c) {
  block_check(run, c, c->nan_ok);
}

void views_clear(views_case *c, views_kind kind) {
  memset(c, 0, sizeof *c);
  c->kind = kind;
  block_clear();
}

/* ---- rows ---------------------------------------------------------------- */

/* N rows with numbers below N_BAGS, and who has each number. */
static void add_index(ts_row_piece *p, int32_t n_bags) {
  void *const index = block_take((int64_t)p->n * 4, 0);
  void *const start = block_take((int64_t)(n_bags + 1) * 4, 0);
  void *const member = block_take((int64_t)p->n * 4, 4);
  int32_t *x = block_here(index), *s = block_here(start),
          *m = block_here(member), at = 0;
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
  void *const a = take_floats((int64_t)n * seen + 1, 4 * below(3), true);
  void *const b =
      take_floats((int64_t)p->count * step + 1, bits() % 2 ? 0 : 4, true);
  SET(p->to, back ? b : a);
  SET(p->from, back ? a : b);
  p->to_step = back ? step : seen;
  p->from_step = back ? seen : step;
}

static void rows(views_kind kind) {
  static const int32_t ns[] = {0, 1, 9, 70, 300};
  views_case c;
  for (int w = 0; w < VIEWS_WIDTHS; w++) {
    views_clear(&c, kind);
    c.nan_ok = kind == SUMS;
    for (int k = 0; k < 5; k++)
      for (int part = -1; part < 3; part++) {
        const int32_t n_bags = ns[k] ? 1 + ns[k] / (1 + below(4)) : 0;
        if (ns[k] || part < 0)
          add_rows(&c, ns[k], n_bags, views_widths[w], part, ns[k]);
        if (ns[k] && part < 0 && kind == ROWS)
          add_rows(&c, ns[k], ns[k], views_widths[w], -1, false);
      }
    views_check(&c);
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
    views_clear(&c, k);
    c.nan_ok = true;
    while (c.u.rows.n_pieces < TS_ROW_PIECES)
      add_rows(&c, 20 + below(40), 12, views_widths[below(VIEWS_WIDTHS)], -1,
               true);
    views_check(&c);
  }
}
END_TEST

START_TEST(scales) {
  views_case c;
  views_clear(&c, SCALES);
  c.nan_ok = true;
  for (int i = 0; i < TS_SCALE_PIECES; i++) {
    ts_scale_piece *p = &c.u.scales.piece[c.u.scales.n_pieces++];
    p->n = i % 10 ? below(70) : 0;
    p->n_cols = views_widths[i % VIEWS_WIDTHS];
    p->step = p->n_cols + 4 * below(2) + (i % 5 == 0);
    SET(p->x, take_floats(p->n * p->step + 1, 4 * (i % 3 == 0), true));
    SET(p->by, take_floats(p->n + 1, 4 * below(4), true));
  }
  views_check(&c);
}
END_TEST

/* ---- the rest ------------------------------------------------------------ */

START_TEST(narrows) {
  views_case c;
  views_clear(&c, NARROW);
  c.nan_ok = true;
  c.u.narrow.n = 3000;
  void *const src = block_take(3000 * 8, 0); /* any bits at all */
  SET(c.u.narrow.src, src);
  SET(c.u.narrow.dst, block_take(3000 * 4, 4));
  for (int i = 0; i < 3000; i += 2)
    ((double *)block_here(src))[i] = (double)some(true) * 0x1.0000011p0;
  views_check(&c);
}
END_TEST

typedef struct put_arg {
  char *dst, *src;
  size_t bytes;
} put_arg;

static ts_err put(void *arg) {
  const put_arg *a = arg;
  const ts_err err = block_tested.put(a->dst, a->src, a->bytes);
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
  block_start(target, 24 << 20);
}

Suite *cuda_views_suite(const char *name, const block_target *t) {
  const TTest *const tests[] = {
      copies, sums_of_members, as_many_as_there_may_be,
      scales, narrows,         small_puts};
  Suite *s = suite_create(name);
  TCase *tc = tcase_create("kernels");
  target = t;
  tcase_add_unchecked_fixture(tc, start, block_stop);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    tcase_add_test(tc, tests[i]);
  suite_add_tcase(s, tc);
  TCase *codes = cuda_views_codes();
  tcase_add_unchecked_fixture(codes, start, block_stop);
  suite_add_tcase(s, codes);
  return s;
}
