/* cuda_views_codes.c - cases of wires and of positions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cuda_views_case.h"

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
  void *const x = take_floats((int64_t)n * p->step + 1,
                              bits() % 4 ? 0 : 4 * below(4), true);
  special_rows(block_here(x), n, p->step, n_cols);
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
            a->codec, (char *)block_here(p->wire) + r * a->part_bytes + i * row,
            x, p->n_cols);
      }
  }
  free(x);
}

/* Pieces one after the other on the wire, as sections are, in all parts. */
static void codes(ts_codec codec, bool encode, int32_t n_parts, int off) {
  views_case c;
  views_clear(&c, CODES);
  ts_code_args *a = &c.u.codes;
  a->codec = codec;
  a->encode = encode;
  a->n_parts = n_parts;
  c.nan_ok = codec == TS_CODEC_INT8 || n_parts > 1;
  for (int w = 0; w < VIEWS_WIDTHS; w++)
    for (int32_t n = 0; n < 60; n += 1 + n * 3)
      add_code(&c, n, views_widths[w]);
  while (a->n_pieces < TS_CODE_PIECES) add_code(&c, 5, 8);
  for (int32_t k = 0; k < a->n_pieces; k++)
    a->part_bytes += a->piece[k].n * ts_codec_bytes(codec, a->piece[k].n_cols);
  char *wire = block_take(a->part_bytes * n_parts, off);
  for (int32_t k = 0; k < a->n_pieces; k++) {
    SET(a->piece[k].wire, wire);
    wire += a->piece[k].n * ts_codec_bytes(codec, a->piece[k].n_cols);
  }
  if (!encode) fill_wire(a);
  views_check(&c);
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
      views_clear(&c, CODES);
      c.u.codes.codec = (ts_codec)codec;
      c.u.codes.n_parts = 1;
      add_code(&c, 65536 / n_cols + 1, n_cols);
      void *const wire = block_take(70000 * 2, 0);
      for (int i = 0; i < 70000; i++)
        ((uint16_t *)block_here(wire))[i] = (uint16_t)i;
      SET(c.u.codes.piece[0].wire, wire);
      views_check(&c);
    }
}
END_TEST

/* ---- positions ----------------------------------------------------------- */

/* N_BAGS bags of up to LONGEST ids; SPLIT: every third id or so is here. */
static void add_slot(views_case *c, int32_t n, int32_t n_bags, int32_t longest,
                     bool split, bool same) {
  ts_position_args *a = &c->u.positions;
  ts_position_slot *s = &a->slot[a->n_slots++];
  void *const offsets = block_take((n_bags + 1) * 8, 0);
  void *const positions = block_take((int64_t)n_bags * longest * 2 + 6, 2);
  int64_t *o = block_here(offsets), at = 3; /* ids of others come before */
  uint16_t *p = block_here(positions);
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
  void *const sum = block_take((int64_t)n * 8, 0);
  for (int32_t i = 0; i < n; i++)
    ((double *)block_here(sum))[i] = (double)some(false);
  SET(s->sum, sum);
  if (same) s->sum = s[-1].sum;
}

static void positions(views_kind kind) {
  static const int32_t ns[] = {1, 2, 31, 32, 33, 34, 65, 100};
  views_case c;
  for (int i = 0; i < 8; i++) {
    views_clear(&c, kind);
    add_slot(&c, ns[i], 300, 40, false, false);
    add_slot(&c, ns[i], 128, 90, true, true);
    add_slot(&c, ns[7 - i], 129, 3, false, false);
    add_slot(&c, 50, 0, 5, false, false);
    add_slot(&c, 50, 5, 0, false, false);
    views_check(&c);
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
  views_clear(&c, POSITIONS);
  add_slot(&c, 7, 3, 5000, false, false);
  views_check(&c);
  views_clear(&c, POSITIONS);
  add_slot(&c, 65536, 2, 65540, false, false);
  ((uint16_t *)block_here(c.u.positions.slot[0].positions))[4] = 65535;
  views_check(&c);
  views_clear(&c, POSITIONS);
  while (c.u.positions.n_slots < TS_POSITION_SLOTS)
    add_slot(&c, 9, 10, 12, false, c.u.positions.n_slots % 3 == 2);
  views_check(&c);
}
END_TEST

TCase *cuda_views_codes(void) {
  TCase *tc = tcase_create("codes and positions");
  tcase_add_test(tc, codecs);
  tcase_add_test(tc, all_words);
  tcase_add_test(tc, weights_by_position);
  tcase_add_test(tc, sums_by_position);
  tcase_add_test(tc, last_places);
  return tc;
}
