/* code_rows.cu - rows of floats in fewer bytes, and back: the codecs of
 * src/shard/codec.c, with its bits (NaN is NaN, whichever; in the scale of a
 * row of int8 only).
 *
 * A row of int8 has its scale from a first look at all of it; the second look
 * finds it in a cache.  Its lanes ask each other for the largest element, so
 * warps go through rows together. */
#include <cuda_fp16.h>

#include "cuda/dense/codes.cuh"
#include "cuda/shard/view.cuh"

static_assert(sizeof(ts_code_args) <= 4096, "too many pieces");

/* Whole vectors on both sides, in every part. */
TS_CUDA_BOTH static inline bool ts_code_fits(const ts_code_args *a,
                                             const ts_code_piece *p) {
  return ts_view_fits(p->x, p->step, p->n_cols) &&
         (uintptr_t)p->wire % 8 == 0 &&
         (a->n_parts == 1 || a->part_bytes % 8 == 0);
}

template <class Code, int V>
static __device__ void ts_encode_16(const ts_code_piece &p) {
  typedef ts_code_vector<Code, V> vector;
  const ts_view_part t = ts_view_part_of(p.n_cols / V);
  for (int64_t i = t.row; i < p.n; i += TS_VIEW_ROWS * t.step)
    for (int32_t c = t.lane; c < p.n_cols / V; c += t.lanes) {
      typename vector::plain x[TS_VIEW_ROWS];
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++) {
        const int64_t row = min(i + u * t.step, (int64_t)p.n - 1);
        x[u] = __ldg((const typename vector::plain *)(p.x + row * p.step) + c);
      }
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++) {
        const int64_t row = i + u * t.step;
        if (row < p.n)
          ((typename vector::coded *)(p.wire + row * 2 * p.n_cols))[c] =
              vector::narrow(x[u]);
      }
    }
}

/* Column C of the rows from I on: the sum of their parts. */
template <class Vector>
static __device__ __forceinline__ void
ts_decode_rows(typename Vector::plain *x, const ts_code_args &a,
               const ts_code_piece &p, int64_t i, int64_t step, int32_t c) {
  typedef typename Vector::coded coded;
  const coded *from[TS_VIEW_ROWS];
#pragma unroll
  for (int u = 0; u < TS_VIEW_ROWS; u++) {
    const int64_t row = min(i + u * step, (int64_t)p.n - 1);
    from[u] = (const coded *)(p.wire + row * 2 * p.n_cols) + c;
    x[u] = Vector::wide(__ldg(from[u]));
  }
  for (int32_t r = 1; r < a.n_parts; r++) {
    coded h[TS_VIEW_ROWS];
#pragma unroll
    for (int u = 0; u < TS_VIEW_ROWS; u++)
      h[u] = __ldg((const coded *)((const char *)from[u] + r * a.part_bytes));
#pragma unroll
    for (int u = 0; u < TS_VIEW_ROWS; u++)
      x[u] = ts_view_sum(x[u], Vector::wide(h[u]));
  }
}

template <class Code, int V>
static __device__ void ts_decode_16(const ts_code_args &a,
                                    const ts_code_piece &p) {
  typedef ts_code_vector<Code, V> vector;
  const ts_view_part t = ts_view_part_of(p.n_cols / V);
  for (int64_t i = t.row; i < p.n; i += TS_VIEW_ROWS * t.step)
    for (int32_t c = t.lane; c < p.n_cols / V; c += t.lanes) {
      typename vector::plain x[TS_VIEW_ROWS];
      ts_decode_rows<vector>(x, a, p, i, t.step, c);
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++) {
        const int64_t row = i + u * t.step;
        if (row < p.n)
          ((typename vector::plain *)(p.x + row * p.step))[c] = x[u];
      }
    }
}

template <class Code, bool ENCODE>
static __global__ void __launch_bounds__(TS_VIEW_THREADS)
    ts_code_16_kernel(const __grid_constant__ ts_code_args a) {
  const ts_code_piece &p = a.piece[blockIdx.y];
  if (ts_code_fits(&a, &p)) {
    if (ENCODE)
      ts_encode_16<Code, 4>(p);
    else
      ts_decode_16<Code, 4>(a, p);
  } else {
    if (ENCODE)
      ts_encode_16<Code, 1>(p);
    else
      ts_decode_16<Code, 1>(a, p);
  }
}

/* ---- int8 ---------------------------------------------------------------- */

/* Words of four elements, the last one filled with zeros. */
TS_CUDA_BOTH static inline int32_t ts_int8_words(int32_t n_cols) {
  return (n_cols + 3) / 4;
}

/* Elements of word C of a row; those past the end are zeros. */
static __device__ __forceinline__ float4 ts_int8_plain(const float *row,
                                                       int32_t n_cols,
                                                       int32_t c, bool fits) {
  if (fits) return __ldg((const float4 *)row + c);
  const int32_t at = 4 * c;
  return make_float4(__ldg(row + at), at + 1 < n_cols ? __ldg(row + at + 1) : 0,
                     at + 2 < n_cols ? __ldg(row + at + 2) : 0,
                     at + 3 < n_cols ? __ldg(row + at + 3) : 0);
}

static __device__ __forceinline__ void
ts_int8_store(float *row, int32_t n_cols, int32_t c, bool fits, float4 x) {
  if (fits) {
    ((float4 *)row)[c] = x;
    return;
  }
  const int32_t at = 4 * c;
  row[at] = x.x;
  if (at + 1 < n_cols) row[at + 1] = x.y;
  if (at + 2 < n_cols) row[at + 2] = x.z;
  if (at + 3 < n_cols) row[at + 3] = x.w;
}

/* |x| as bits, in whose order infinity comes after all numbers, NaN last. */
static __device__ __forceinline__ uint32_t ts_int8_top(float4 x) {
  const uint32_t a = __float_as_uint(x.x) & 0x7fffffffu;
  const uint32_t b = __float_as_uint(x.y) & 0x7fffffffu;
  const uint32_t c = __float_as_uint(x.z) & 0x7fffffffu;
  const uint32_t d = __float_as_uint(x.w) & 0x7fffffffu;
  return max(max(a, b), max(c, d));
}

/* As scale_of in codec.c has it. */
static __device__ __forceinline__ float ts_int8_scale(uint32_t top) {
  const uint32_t infinite = 0x7f800000u;
  const float scale = __fdiv_rn(__uint_as_float(top), 127.0f);
  if (scale < 0x1p-126f) return 0;
  return top < infinite && __float_as_uint(__fmul_rn(scale, 127.0f)) == infinite
             ? __uint_as_float(__float_as_uint(scale) - 1)
             : scale;
}

static __device__ __forceinline__ uint32_t ts_int8_byte(float x, float by) {
  return (uint32_t)__float2int_rn(__fmul_rn(x, by)) & 0xffu;
}
static __device__ __forceinline__ uint32_t ts_int8_word(float4 x, float by) {
  return ts_int8_byte(x.x, by) | ts_int8_byte(x.y, by) << 8 |
         ts_int8_byte(x.z, by) << 16 | ts_int8_byte(x.w, by) << 24;
}

static __device__ void ts_encode_int8(const ts_code_piece &p) {
  const int32_t words = ts_int8_words(p.n_cols);
  const ts_view_part t = ts_view_part_of(words);
  const bool fits = ts_view_fits(p.x, p.step, p.n_cols);
  const int64_t first = t.row - threadIdx.x / (unsigned)t.lanes;
  for (int64_t b = first; b < p.n; b += t.step) { /* the same in all threads */
    const int64_t row = b - first + t.row;
    const float *x = p.x + min(row, (int64_t)p.n - 1) * p.step;
    uint32_t top = 0;
    for (int32_t c = t.lane; c < words; c += t.lanes)
      top = max(top, ts_int8_top(ts_int8_plain(x, p.n_cols, c, fits)));
    for (int by = 1; by < t.lanes; by *= 2)
      top = max(top, __shfl_xor_sync(0xffffffffu, top, by));
    const float scale = ts_int8_scale(top);
    const float by =
        scale > 0 && top < 0x7f800000u ? __fdiv_rn(1.0f, scale) : 0;
    uint32_t *to = (uint32_t *)(p.wire + row * (4 + 4 * (int64_t)words));
    if (row >= p.n) continue; /* to the next shuffles, like all others */
    if (t.lane == 0) to[0] = __float_as_uint(scale);
    for (int32_t c = t.lane; c < words; c += t.lanes)
      to[1 + c] =
          by > 0 ? ts_int8_word(ts_int8_plain(x, p.n_cols, c, fits), by) : 0;
  }
}

static __device__ __forceinline__ float4 ts_int8_wide(uint32_t word,
                                                      float scale) {
  return make_float4(__fmul_rn(scale, (float)(int8_t)(word & 0xffu)),
                     __fmul_rn(scale, (float)(int8_t)(word >> 8 & 0xffu)),
                     __fmul_rn(scale, (float)(int8_t)(word >> 16 & 0xffu)),
                     __fmul_rn(scale, (float)(int8_t)(word >> 24)));
}

/* Word C of the rows from I on: the sum of their parts. */
static __device__ __forceinline__ void
ts_decode_words(float4 *x, const ts_code_args &a, const ts_code_piece &p,
                int64_t i, int64_t step, int32_t c) {
  const int64_t bytes = 4 + 4 * (int64_t)ts_int8_words(p.n_cols);
  const char *from[TS_VIEW_ROWS];
#pragma unroll
  for (int u = 0; u < TS_VIEW_ROWS; u++)
    from[u] = p.wire + min(i + u * step, (int64_t)p.n - 1) * bytes;
  for (int32_t r = 0; r < a.n_parts; r++) {
    uint32_t word[TS_VIEW_ROWS];
    float scale[TS_VIEW_ROWS];
#pragma unroll
    for (int u = 0; u < TS_VIEW_ROWS; u++) {
      const uint32_t *at = (const uint32_t *)(from[u] + r * a.part_bytes);
      scale[u] = __uint_as_float(__ldg(at));
      word[u] = __ldg(at + 1 + c);
    }
#pragma unroll
    for (int u = 0; u < TS_VIEW_ROWS; u++) {
      const float4 part = ts_int8_wide(word[u], scale[u]);
      x[u] = r ? ts_view_sum(x[u], part) : part;
    }
  }
}

static __device__ void ts_decode_int8(const ts_code_args &a,
                                      const ts_code_piece &p) {
  const int32_t words = ts_int8_words(p.n_cols);
  const ts_view_part t = ts_view_part_of(words);
  const bool fits = ts_view_fits(p.x, p.step, p.n_cols);
  for (int64_t i = t.row; i < p.n; i += TS_VIEW_ROWS * t.step)
    for (int32_t c = t.lane; c < words; c += t.lanes) {
      float4 x[TS_VIEW_ROWS];
      ts_decode_words(x, a, p, i, t.step, c);
#pragma unroll
      for (int u = 0; u < TS_VIEW_ROWS; u++) {
        const int64_t row = i + u * t.step;
        if (row < p.n)
          ts_int8_store(p.x + row * p.step, p.n_cols, c, fits, x[u]);
      }
    }
}

template <bool ENCODE>
static __global__ void __launch_bounds__(TS_VIEW_THREADS)
    ts_code_int8_kernel(const __grid_constant__ ts_code_args a) {
  const ts_code_piece &p = a.piece[blockIdx.y];
  if (ENCODE)
    ts_encode_int8(p);
  else
    ts_decode_int8(a, p);
}

/* ---- launches ------------------------------------------------------------ */

static int64_t blocks_of(const ts_code_args *a, const ts_code_piece *p) {
  if (a->codec == TS_CODEC_INT8)
    return ts_view_blocks(p->n, ts_int8_words(p->n_cols),
                          a->encode ? 1 : TS_VIEW_ROWS);
  return ts_view_blocks(p->n, ts_code_fits(a, p) ? p->n_cols / 4 : p->n_cols,
                        TS_VIEW_ROWS);
}

template <bool ENCODE>
static ts_err launch(const ts_code_args *a, const ts_cuda_shape &shape) {
  switch (a->codec) {
  case TS_CODEC_BF16:
    return TS_CUDA_LAUNCH((ts_code_16_kernel<ts_code_bf16, ENCODE>), shape, *a);
  case TS_CODEC_F16:
    return TS_CUDA_LAUNCH((ts_code_16_kernel<ts_code_f16, ENCODE>), shape, *a);
  case TS_CODEC_INT8:
    return TS_CUDA_LAUNCH((ts_code_int8_kernel<ENCODE>), shape, *a);
  default:
    return ts_fail(TS_ERR_INTERNAL, "rows of f32 are not coded");
  }
}

ts_err ts_cuda_code_rows(const ts_code_args *a) {
  return ts_view_launch(
      a, [=](const ts_code_piece *p) { return blocks_of(a, p); },
      [=](const ts_cuda_shape &shape) {
        return a->encode ? launch<true>(a, shape) : launch<false>(a, shape);
      });
}
