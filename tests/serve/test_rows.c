/* test_rows.c - rows in few bits beside arithmetic in doubles: packing, and
 * the lookup by every instruction set of this CPU.
 * ranks: 1 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/rng.h"
#include "runtime/topology.h"
#include "serve/rows.h"
#include "tests/support/harness.h"

enum { DIM = 301, ROWS = 64, BAGS = 40, IDS = 400, GUARD = 8 };

static const int32_t dims[] = {1,  2,  3,  7,  8,   10,  15,  16,  17, 31,
                               32, 33, 64, 96, 100, 128, 129, 256, DIM};
enum { N_DIMS = sizeof dims / sizeof *dims };

static float uniform(int64_t i, uint32_t k) {
  uint32_t x[4];
  ts_rng4(x, 7, TS_RNG_TEST, (uint64_t)i, k, 0);
  return (float)(2 * ts_rng_unit64(x[0], x[1]) - 1);
}

/* ---- a row, decoded in doubles ------------------------------------------- */

static double scale_of(ts_rows_kind kind, const uint8_t *row, int32_t dim,
                       double *bias) {
  float tail[2];
  memcpy(tail, row + (kind == TS_ROWS_INT8 ? dim : (dim + 1) / 2), 8);
  *bias = tail[1];
  return tail[0];
}

static double decoded(ts_rows_kind kind, const uint8_t *row, int32_t dim,
                      int32_t d) {
  double bias = 0;
  float x;
  uint16_t h;
  if (kind == TS_ROWS_F32) return memcpy(&x, row + 4 * d, 4), (double)x;
  if (kind == TS_ROWS_BF16)
    return memcpy(&h, row + 2 * d, 2), (double)ts_bf16_to_f32(h);
  const double scale = scale_of(kind, row, dim, &bias);
  const int q = kind == TS_ROWS_INT8 ? row[d]
                : d % 2              ? row[d / 2] / 16
                                     : row[d / 2] % 16;
  return scale * q + bias;
}

/* ---- packing ------------------------------------------------------------- */

/* Kinds of rows; DIM numbers of each. */
static void draw(float *x, int what, int32_t dim, uint32_t seed) {
  for (int32_t d = 0; d < dim; d++) {
    const float u = uniform(d, seed);
    x[d] = what == 0   ? u
           : what == 1 ? 3.25f
           : what == 2 ? u * 300 * 0x1p-149f
           : what == 3 ? (d == 1 ? FLT_MAX : u * FLT_MAX)
           : what == 4 ? (d % 2 ? FLT_MAX : -FLT_MAX)
           : what == 5 ? 1 + u * 0x1p-22f
           : what == 6 ? (d == dim / 2 ? 0x1p-149f : 0)
           : what == 7 ? u * 0x1p-120f
                       : -1e30f + (float)(d % 3);
  }
}
enum { N_DRAWS = 9 };

/* Half a step at most, but for the last bit of f32 where it is read. */
static void check_row(ts_rows_kind kind, const float *x, int32_t dim) {
  uint8_t row[4 * DIM];
  float back[DIM];
  double bias = 0, scale = 0;
  ts_rows_pack(kind, row, x, 1, dim);
  ts_rows_unpack(kind, back, row, 1, dim);
  if (kind >= TS_ROWS_INT8) {
    scale = scale_of(kind, row, dim, &bias);
    ck_assert(isfinite(scale) && scale >= 0);
    if (kind == TS_ROWS_INT4 && dim % 2) ck_assert_int_eq(row[dim / 2] / 16, 0);
  }
  for (int32_t d = 0; d < dim; d++) {
    const double y = decoded(kind, row, dim, d);
    const double error = fabs(y - (double)x[d]);
    if (kind >= TS_ROWS_INT8) ck_assert(error <= scale * 0.5000001);
    if (kind == TS_ROWS_F32) ck_assert(error == 0);
    if (kind == TS_ROWS_BF16 && isfinite(y))
      ck_assert(error <= fabs((double)x[d]) / 256 + 0x1p-134);
    ck_assert(back[d] == (float)y);
    if (kind != TS_ROWS_BF16) ck_assert(isfinite(back[d]));
  }
}

TS_TEST(packing) {
  float x[DIM];
  for (int k = 0; k < TS_ROWS_KINDS; k++)
    for (int i = 0; i < N_DIMS; i++)
      for (int what = 0; what < N_DRAWS; what++) {
        draw(x, what, dims[i], (uint32_t)(9 * i + what));
        check_row((ts_rows_kind)k, x, dims[i]);
      }
}

TS_TEST(constant_rows_are_exact) {
  float x[5] = {-0.1f, -0.1f, -0.1f, -0.1f, -0.1f}, back[5];
  uint8_t row[20];
  double bias;
  for (int k = TS_ROWS_INT8; k <= TS_ROWS_INT4; k++) {
    ts_rows_pack((ts_rows_kind)k, row, x, 1, 5);
    ts_rows_unpack((ts_rows_kind)k, back, row, 1, 5);
    ck_assert(scale_of((ts_rows_kind)k, row, 5, &bias) == 0);
    ck_assert_int_eq(memcmp(x, back, sizeof x), 0);
  }
}

/* Bytes that are written down: any CPU, any compiler has to give them. */
TS_TEST(bytes_of_a_row) {
  const float x[5] = {-1, 0.5f, 1.55f, 0.013f, -0.25f};
  const uint8_t eight[] = {0,  150, 255, 101, 75,  10, 215, 35,
                           60, 0,   0,   128, 191, 0,  0,   0};
  const uint8_t four[] = {0x90, 0x6f, 0x04, 0x7b, 0x14, 0x2e,
                          0x3e, 0x00, 0x00, 0x80, 0xbf, 0};
  uint8_t row[16];
  ck_assert_int_eq(ts_rows_bytes(TS_ROWS_INT8, 5), sizeof eight);
  ck_assert_int_eq(ts_rows_bytes(TS_ROWS_INT4, 5), sizeof four);
  memset(row, 255, sizeof row);
  ts_rows_pack(TS_ROWS_INT8, row, x, 1, 5);
  ck_assert_mem_eq(row, eight, sizeof eight);
  memset(row, 255, sizeof row);
  ts_rows_pack(TS_ROWS_INT4, row, x, 1, 5);
  ck_assert_mem_eq(row, four, sizeof four);
  ck_assert_int_eq(ts_rows_bytes(TS_ROWS_BF16, 5), 12);
  ck_assert_int_eq(ts_rows_bytes(TS_ROWS_F32, 1 << 20), 4 << 20);
}

TS_TEST(names) {
  ts_rows_kind kind;
  for (int k = 0; k < TS_ROWS_KINDS; k++) {
    ck_assert(ts_rows_kind_find(&kind, ts_rows_kind_name((ts_rows_kind)k)));
    ck_assert_int_eq(kind, k);
  }
  ck_assert(!ts_rows_kind_find(&kind, "int"));
}

/* ---- the lookup ---------------------------------------------------------- */

/* A table with rows of all lengths, and bags, some empty, of it. */
typedef struct ts_case {
  ts_rows_lookup l;
  uint8_t *table;
  int64_t rows[IDS], offsets[BAGS + 1];
  float weights[IDS], out[BAGS * (DIM + GUARD)];
} ts_case;

static ts_case *case_of(ts_rows_kind kind, int32_t dim, bool one_each) {
  ts_case *c = calloc(1, sizeof *c);
  float x[DIM];
  const int64_t bytes = ts_rows_bytes(kind, dim);
  c->table = malloc((size_t)(ROWS * bytes)); /* its end is the memory's */
  for (int64_t r = 0; r < ROWS; r++) {
    draw(x, r % 8 ? 0 : 1, dim, (uint32_t)r);
    ts_rows_pack(kind, c->table + r * bytes, x, 1, dim);
  }
  for (int b = 0; b <= BAGS; b++) /* every third is empty, one is long */
    c->offsets[b] = b == 0 ? 3
                           : c->offsets[b - 1] + (b % 3 == 0  ? 0
                                                  : b == BAGS ? 150
                                                              : b % 13);
  for (int i = 0; i < IDS; i++) {
    c->rows[i] = (int64_t)((uniform(i, 99) + 1) / 2 * (ROWS - 1));
    c->weights[i] = uniform(i, 98);
  }
  c->rows[IDS - 1] = c->rows[5] = ROWS - 1;
  c->l = (ts_rows_lookup){.table = c->table,
                          .kind = kind,
                          .dim = dim,
                          .rows = c->rows,
                          .offsets = one_each ? NULL : c->offsets,
                          .n = BAGS,
                          .out = c->out,
                          .stride = dim + GUARD};
  return c;
}

static void free_case(ts_case *c) {
  free(c->table);
  free(c);
}

/* Column D of bag B; *SIZE: of its terms without their signs. */
static double expected(const ts_case *c, int64_t b, int32_t d, double *size) {
  const ts_rows_lookup *l = &c->l;
  const int64_t bytes = ts_rows_bytes(l->kind, l->dim);
  const int64_t from = l->offsets ? l->offsets[b] : b;
  const int64_t to = l->offsets ? l->offsets[b + 1] : b + 1;
  double sum = 0;
  *size = 0;
  for (int64_t i = from; i < to; i++) {
    const uint8_t *row = c->table + l->rows[i] * bytes;
    const double w = l->weights ? (double)l->weights[i] : 1;
    const double x = decoded(l->kind, row, l->dim, d);
    sum += w * x;
    *size += fabs(w) * (fabs(x) + 2);
  }
  if (l->mean && to > from) {
    sum /= (double)(to - from);
    *size /= (double)(to - from);
  }
  return sum;
}

static void check_sums(ts_case *c, const char *isa) {
  const ts_rows_lookup *l = &c->l;
  double size;
  memset(c->out, 0x55, sizeof c->out);
  const float guard = c->out[0];
  ck_assert(ts_rows_look_up(l, isa));
  for (int64_t b = 0; b < l->n; b++) {
    const float *out = c->out + b * l->stride;
    for (int32_t d = 0; d < l->dim; d++) {
      const double y = expected(c, b, d, &size);
      ck_assert_msg(fabs((double)out[d] - y) <= size * 2e-6,
                    "%s %s dim %d bag %d column %d: %.9g, not %.9g",
                    isa ? isa : "best", ts_rows_kind_name(l->kind), l->dim,
                    (int)b, d, (double)out[d], y);
    }
    for (int64_t d = l->dim; d < l->stride; d++) ck_assert(out[d] == guard);
  }
}

static const char *const isas[] = {"ref", "avx2", "avx512", NULL};

static bool has(const char *isa) {
  const ts_cpu *cpu = ts_cpu_info();
  return !isa || !strcmp(isa, "ref") || (!strcmp(isa, "avx2") && cpu->avx2) ||
         (!strcmp(isa, "avx512") && cpu->avx512);
}

static void check_case(ts_rows_kind kind, int32_t dim, bool one_each) {
  ts_case *c = case_of(kind, dim, one_each);
  for (int k = 0; k < 4; k++)
    for (int how = 0; how < 4 && has(isas[k]); how++) {
      c->l.mean = how & 1;
      c->l.weights = how & 2 ? c->weights : NULL;
      check_sums(c, isas[k]);
    }
  free_case(c);
}

TS_TESTS(lookup, 0, TS_ROWS_KINDS) {
  for (int i = 0; i < N_DIMS; i++) {
    check_case((ts_rows_kind)_i, dims[i], false);
    check_case((ts_rows_kind)_i, dims[i], true);
  }
}

TS_TEST(what_the_cpu_lacks) {
  ts_case *c = case_of(TS_ROWS_INT8, 16, false);
  for (int k = 0; k < 4; k++)
    ck_assert_int_eq(ts_rows_look_up(&c->l, isas[k]), has(isas[k]));
  c->l.n = 0;
  ck_assert(ts_rows_look_up(&c->l, NULL));
  free_case(c);
}

/* One row is itself, to the bit, whatever its range, where products are fused.
 */
static void check_single(ts_rows_kind kind, int what, const char *isa) {
  float x[DIM], back[DIM], out[DIM];
  uint8_t row[4 * DIM];
  const int64_t zero = 0;
  const ts_rows_lookup l = {.table = row,
                            .kind = kind,
                            .dim = DIM,
                            .rows = &zero,
                            .n = 1,
                            .out = out,
                            .stride = DIM};
  draw(x, what, DIM, 5);
  ts_rows_pack(kind, row, x, 1, DIM);
  ts_rows_unpack(kind, back, row, 1, DIM);
  ck_assert(ts_rows_look_up(&l, isa));
  for (int32_t d = 0; d < DIM; d++) ck_assert(out[d] == back[d]);
}

TS_TESTS(single_rows, 0, TS_ROWS_KINDS) {
  for (int what = 0; what < N_DRAWS; what++) {
    if (has("avx2")) check_single((ts_rows_kind)_i, what, "avx2");
    if (has("avx512")) check_single((ts_rows_kind)_i, what, "avx512");
  }
}
