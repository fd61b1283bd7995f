/* view.c - copies of arrays of other types. */
#include "io/view.h"

#include "base/dtype.h"

/* Members of a zip archive lie at any address. */
#define LOOSE(type, name)                                                      \
  typedef type name __attribute__((aligned(1), may_alias))
LOOSE(int8_t, ts_loose_i8);
LOOSE(int16_t, ts_loose_i16);
LOOSE(int32_t, ts_loose_i32);
LOOSE(int64_t, ts_loose_i64);
LOOSE(uint8_t, ts_loose_u8);
LOOSE(uint16_t, ts_loose_u16);
LOOSE(uint32_t, ts_loose_u32);
LOOSE(uint64_t, ts_loose_u64);
LOOSE(uint16_t, ts_loose_f16);
LOOSE(float, ts_loose_f32);
LOOSE(double, ts_loose_f64);

#define PLAIN(x) (x)

/* Elements side by side on both sides are one long row, which the compiler's
 * vectors take. */
#define COPY(T, from, AS)                                                      \
  static void from##_to_##T(const ts_array_view *v, T *to, int64_t stride,     \
                            const char *x, int64_t n) {                        \
    const int64_t size = (int64_t)sizeof(from);                                \
    const bool dense = v->row_bytes == v->cols * size && stride == v->cols;    \
    const int64_t rows = dense ? 1 : n, cols = dense ? n * v->cols : v->cols;  \
    if (cols == 1) {                                                           \
      for (int64_t r = 0; r < rows; r++)                                       \
        to[r * stride] = (T)AS(*(const from *)(x + r * v->row_bytes));         \
      return;                                                                  \
    }                                                                          \
    for (int64_t r = 0; r < rows; r++) {                                       \
      const from *row = (const from *)(x + r * v->row_bytes);                  \
      T *out = to + r * stride;                                                \
      for (int64_t c = 0; c < cols; c++) out[c] = (T)AS(row[c]);               \
    }                                                                          \
  }

#define COPIES(T)                                                              \
  COPY(T, ts_loose_i8, PLAIN)                                                  \
  COPY(T, ts_loose_i16, PLAIN)                                                 \
  COPY(T, ts_loose_i32, PLAIN)                                                 \
  COPY(T, ts_loose_i64, PLAIN)                                                 \
  COPY(T, ts_loose_u8, PLAIN)                                                  \
  COPY(T, ts_loose_u16, PLAIN)                                                 \
  COPY(T, ts_loose_u32, PLAIN)                                                 \
  COPY(T, ts_loose_u64, PLAIN)                                                 \
  COPY(T, ts_loose_f16, ts_f16_to_f32)                                         \
  COPY(T, ts_loose_f32, PLAIN)                                                 \
  COPY(T, ts_loose_f64, PLAIN)                                                 \
  static void read_##T(const ts_array_view *v, T *to, int64_t stride,          \
                       const char *x, int64_t n) {                             \
    static void (*const of[])(const ts_array_view *, T *, int64_t,             \
                              const char *, int64_t) = {                       \
        ts_loose_i8_to_##T,  ts_loose_i16_to_##T, ts_loose_i32_to_##T,         \
        ts_loose_i64_to_##T, ts_loose_u8_to_##T,  ts_loose_u16_to_##T,         \
        ts_loose_u32_to_##T, ts_loose_u64_to_##T, ts_loose_f16_to_##T,         \
        ts_loose_f32_to_##T, ts_loose_f64_to_##T};                             \
    of[v->type](v, to, stride, x, n);                                          \
  }

COPIES(float)
COPIES(double)
/* Floats are no ids: ts_view_read is not asked for them. */
COPIES(int64_t)

bool ts_view_type_of(ts_view_type *type, char kind, int size) {
  static const char kinds[] = "iiiiuuuufffb";
  static const int sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 1};
  for (int i = 0; kinds[i]; i++) {
    if (kinds[i] != kind || sizes[i] != size) continue;
    *type = kind == 'b' ? TS_VIEW_U8 : (ts_view_type)i;
    return true;
  }
  return false;
}

void ts_view_read(const ts_array_view *v, ts_view_to as, void *to,
                  int64_t stride, int64_t first, int64_t n) {
  const char *x =
      v->type == TS_VIEW_STEPS ? NULL : v->data + first * v->row_bytes;
  if (!x)
    for (int64_t r = 0; r < n; r++)
      ((int64_t *)to)[r] = (first + r) * v->row_bytes;
  else if (as == TS_VIEW_TO_F32)
    read_float(v, to, stride, x, n);
  else if (as == TS_VIEW_TO_F64)
    read_double(v, to, stride, x, n);
  else
    read_int64_t(v, to, stride, x, n);
}
