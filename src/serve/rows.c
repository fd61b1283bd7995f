/* rows.c - rows of embedding tables as files for serving have them. */
#include "serve/rows.h"

#include <math.h>
#include <string.h>

#include "base/few_bits.h"
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

static ts_dtype dtype_of(ts_rows_kind kind) {
  static const ts_dtype types[] = {TS_F32, TS_BF16, TS_INT8, TS_INT4};
  return types[kind];
}

int64_t ts_rows_bytes(ts_rows_kind kind, int32_t dim) {
  return (ts_row_bytes(dtype_of(kind), dim) + 3) / 4 * 4;
}

/* Rows of an odd number of bf16 alone are padded here. */
void ts_rows_pack(ts_rows_kind kind, void *to, const float *x, int64_t n,
                  int32_t dim) {
  const int64_t bytes = ts_rows_bytes(kind, dim);
  for (int64_t i = 0; i < n; i++) {
    char *row = (char *)to + i * bytes;
    memset(row + bytes - 4, 0, 4);
    ts_rows_from_f32(row, x + i * dim, dtype_of(kind), 1, dim);
  }
}

void ts_rows_unpack(ts_rows_kind kind, float *x, const void *from, int64_t n,
                    int32_t dim) {
  const int64_t bytes = ts_rows_bytes(kind, dim);
  for (int64_t i = 0; i < n; i++)
    ts_rows_to_f32(x + i * dim, (const char *)from + i * bytes, dtype_of(kind),
                   1, dim);
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
