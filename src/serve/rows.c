/* rows.c - rows of embedding tables in few bits: to and from f32. */
#include "serve/rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/dtype.h"
#include "runtime/topology.h"
#include "serve/rows_impl.h"

static const char *const names[TS_ROWS_KINDS] = {"f32", "bf16", "int8", "int4"};

const char *ts_rows_kind_name(ts_rows_kind kind) {
  return names[kind];
}

bool ts_rows_kind_find(ts_rows_kind *kind, const char *name) {
  for (int k = 0; k < TS_ROWS_KINDS; k++) {
    if (strcmp(names[k], name) != 0) continue;
    *kind = (ts_rows_kind)k;
    return true;
  }
  return false;
}

int64_t ts_rows_bytes(ts_rows_kind kind, int32_t dim) {
  const int64_t n = dim;
  const int64_t bytes = kind == TS_ROWS_F32    ? 4 * n
                        : kind == TS_ROWS_BF16 ? 2 * n
                        : kind == TS_ROWS_INT8 ? n + 8
                                               : (n + 1) / 2 + 8;
  return (bytes + 3) / 4 * 4;
}

/* ---- packing ------------------------------------------------------------- */

/* Of int8 and int4, Q from 0 to MOST. */
typedef struct ts_code {
  float scale, bias;
  double most;
} ts_code;

/* In f64, as the range may be beyond f32.  The least scales are too coarse to
 * be rounded to the nearest: the last q would miss the row's largest number.
 * That number has to stay finite, too. */
static ts_code code_of(const float *x, int32_t dim, double most) {
  float least = x[0], last = x[0];
  for (int32_t d = 1; d < dim; d++) {
    least = x[d] < least ? x[d] : least;
    last = x[d] > last ? x[d] : last;
  }
  const double range = (double)last - least;
  float scale = (float)(range / most);
  if (scale < FLT_MIN && (double)scale * most < range)
    scale = nextafterf(scale, INFINITY);
  if ((double)scale * most + least > FLT_MAX) scale = nextafterf(scale, 0);
  return (ts_code){scale, least, most};
}

/* Products by the reciprocal, which vectors have, and not quotients. */
static void quantise(uint8_t *q, const ts_code *c, const float *x,
                     int32_t dim) {
  const double bias = c->bias, most = c->most;
  const double inverse = c->scale > 0 ? 1.0 / (double)c->scale : 0;
  for (int32_t d = 0; d < dim; d++) {
    const double y = ((double)x[d] - bias) * inverse + 0.5;
    q[d] = (uint8_t)(int32_t)(y > most ? most : y);
  }
}

static void pack_row(ts_rows_kind kind, uint8_t *to, const float *x,
                     int32_t dim) {
  enum { BLOCK = 256 }; /* even: a byte has two columns of int4 */
  const ts_code c = code_of(x, dim, kind == TS_ROWS_INT8 ? 255 : 15);
  uint8_t q[BLOCK + 1];
  uint8_t *tail = to + (kind == TS_ROWS_INT8 ? dim : (dim + 1) / 2);
  for (int32_t d = 0; d < dim; d += BLOCK) {
    const int32_t n = dim - d < BLOCK ? dim - d : BLOCK;
    quantise(q, &c, x + d, n);
    q[n] = 0;
    if (kind == TS_ROWS_INT8)
      memcpy(to + d, q, (size_t)n);
    else
      for (int32_t k = 0; k < n; k += 2)
        to[(d + k) / 2] = (uint8_t)(q[k] | q[k + 1] << 4);
  }
  memcpy(tail, &c.scale, 4);
  memcpy(tail + 4, &c.bias, 4);
}

void ts_rows_pack(ts_rows_kind kind, void *to, const float *x, int64_t n,
                  int32_t dim) {
  const int64_t bytes = ts_rows_bytes(kind, dim);
  for (int64_t i = 0; i < n; i++) {
    uint8_t *row = (uint8_t *)to + i * bytes;
    const float *from = x + i * dim;
    memset(row + bytes - 4, 0, 4); /* padding is there */
    if (kind == TS_ROWS_F32)
      memcpy(row, from, (size_t)dim * sizeof *from);
    else if (kind == TS_ROWS_BF16)
      ts_from_f32(row, from, TS_BF16, dim);
    else
      pack_row(kind, row, from, dim);
  }
}

/* ---- unpacking ----------------------------------------------------------- */

TS_CLONES static void unpack_int8(float *x, const uint8_t *q,
                                  const float tail[2], int32_t dim) {
  for (int32_t d = 0; d < dim; d++) x[d] = fmaf(tail[0], q[d], tail[1]);
}

TS_CLONES static void unpack_int4(float *x, const uint8_t *q,
                                  const float tail[2], int32_t dim) {
  for (int32_t d = 0; d < dim; d++)
    x[d] = fmaf(tail[0], (float)(q[d / 2] >> 4 * (d % 2) & 15), tail[1]);
}

void ts_rows_unpack(ts_rows_kind kind, float *x, const void *from, int64_t n,
                    int32_t dim) {
  const int64_t bytes = ts_rows_bytes(kind, dim);
  float tail[2];
  for (int64_t i = 0; i < n; i++) {
    const uint8_t *row = (const uint8_t *)from + i * bytes;
    float *to = x + i * dim;
    switch (kind) {
    case TS_ROWS_BF16:
      ts_to_f32(to, row, TS_BF16, dim);
      break;
    case TS_ROWS_INT8:
      memcpy(tail, row + dim, sizeof tail);
      unpack_int8(to, row, tail, dim);
      break;
    case TS_ROWS_INT4:
      memcpy(tail, row + (dim + 1) / 2, sizeof tail);
      unpack_int4(to, row, tail, dim);
      break;
    default:
      memcpy(to, row, (size_t)dim * sizeof *to);
    }
  }
}

void ts_rows_normalise(float *x, int64_t n, int32_t dim) {
  for (int64_t i = 0; i < n; i++, x += dim) {
    double sum = 0;
    for (int32_t k = 0; k < dim; k++) sum += (double)x[k] * x[k];
    const float length = fmaxf((float)sqrt(sum), 1e-12f);
    for (int32_t k = 0; k < dim; k++) x[k] /= length;
  }
}

/* ---- the lookup ---------------------------------------------------------- */

bool ts_rows_look_up(const ts_rows_lookup *l, const char *isa) {
  const ts_cpu *cpu = ts_cpu_info();
  const bool avx512 = isa ? !strcmp(isa, "avx512") : cpu->avx512;
  const bool avx2 = !avx512 && (isa ? !strcmp(isa, "avx2") : cpu->avx2);
  if ((avx512 && !cpu->avx512) || (avx2 && !cpu->avx2)) return false;
  if (avx512)
    ts_rows_look_up_avx512(l);
  else if (avx2)
    ts_rows_look_up_avx2(l);
  else
    ts_rows_look_up_ref(l);
  return true;
}
