/* interact.cuh - what the kernels of the dot interaction share: who has
 * which samples, and the samples' vectors on their way to shared memory.
 *
 * A block has a few samples at a time, so that it has work for all threads.
 * It reads their vectors once, and writes gradients only when all of them are
 * there: gradients may lie over embeddings.  Vectors that do not fit into
 * shared memory go by chunks of columns. */
#pragma once

#include "cuda/dense/half.cuh"
#include "cuda/runtime/cuda_impl.h"

#ifndef TS_SHARED_DYNAMIC
#define TS_SHARED_DYNAMIC(type, name)                                          \
  extern __shared__ __align__(16) type name[]
#endif

enum {
  TS_INTERACT_THREADS = 128,
  TS_INTERACT_OWN = 160, /* vectors that go by value */
  TS_INTERACT_AHEAD = 4  /* loads under way in a thread */
};

/* Rows of one of a sample's n vectors. */
struct ts_interact_vector {
  const float *from;
  float *to; /* backward */
  int64_t stride;
};

/* Vector 0 is bottom where there is one. */
struct ts_interact_params {
  void *out;                       /* forward: of f32 or bf16 */
  const void *grad;                /* backward: the same */
  const ts_interact_vector *table; /* device memory, or NULL: own */
  int64_t out_stride;
  int32_t n, dim, batch;
  int32_t head;    /* columns of out before the pairs: 0 or dim */
  int32_t samples; /* of a block at a time */
  int32_t cols;    /* of a chunk; the last one may have fewer */
  int32_t pitch;   /* of a row in shared memory, elements */
  int32_t rows_bytes, more_bytes; /* of a sample there: vectors, the rest */
  bool more;    /* forward: rows of out are made there.  backward: so is the
                 * matrix of gradients */
  bool aligned; /* rows of out are whole vectors of 16 bytes */
  ts_interact_vector own[TS_INTERACT_OWN];
};
static_assert(sizeof(ts_interact_params) <= 4096, "kernel parameters");

/* ---- where what lies ----------------------------------------------------- */

TS_CUDA_BOTH static inline int64_t ts_interact_head_bytes(int32_t n) {
  return ts_round_up(n * (int64_t)sizeof(ts_interact_vector), 16);
}

/* Place of the pair (i, j), i < j < n, in a row of out behind the head. */
static __device__ __forceinline__ int32_t ts_pair_at(int32_t n, int32_t i,
                                                     int32_t j) {
  return i * (2 * n - i - 1) / 2 + j - i - 1;
}

/* The block's samples of one turn, and its shared memory. */
struct ts_interact_block {
  const ts_interact_vector *vector; /* (n) */
  char *rows, *more;
  int64_t b; /* the first sample */
  int32_t n; /* of samples */
};

static __device__ __forceinline__ ts_interact_block
ts_interact_start(const ts_interact_params &p, char *shared) {
  ts_interact_vector *v = (ts_interact_vector *)shared;
  ts_interact_block k;
  for (int i = (int)threadIdx.x; i < p.n; i += TS_INTERACT_THREADS)
    v[i] = p.table ? p.table[i] : p.own[i];
  k.vector = v;
  k.rows = shared + ts_interact_head_bytes(p.n);
  k.more = k.rows + (int64_t)p.samples * p.rows_bytes;
  k.b = (int64_t)blockIdx.x * p.samples;
  k.n = 0;
  __syncthreads();
  return k;
}

/* Whether there is a turn at B; its samples. */
static __device__ __forceinline__ bool
ts_interact_turn(const ts_interact_params &p, ts_interact_block &k) {
  if (k.b >= p.batch) return false;
  k.n = (int32_t)min((int64_t)p.samples, p.batch - k.b);
  return true;
}
static __device__ __forceinline__ void
ts_interact_next(const ts_interact_params &p, ts_interact_block &k) {
  k.b += (int64_t)gridDim.x * p.samples;
}

/* ---- loads --------------------------------------------------------------- */

/* Four floats of row B of a vector from column COL on, zeros from END on. */
template <bool WIDE>
static __device__ __forceinline__ float4 ts_interact_load(
    const ts_interact_vector &v, int64_t b, int32_t col, int32_t end) {
  const float *p = v.from + b * v.stride;
  if (WIDE) { /* whole vectors: all of it or nothing */
    const float4 x = __ldcg((const float4 *)(p + (col < end ? col : 0)));
    return col < end ? x : make_float4(0, 0, 0, 0);
  } else {
    float x[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const float y = __ldcg(p + (col + k < end ? col + k : 0));
      x[k] = col + k < end ? y : 0;
    }
    return make_float4(x[0], x[1], x[2], x[3]);
  }
}

/* Calls put(row, c, x) for rows 0 .. N_ROWS - 1 and the vectors c < WIDTH of
 * each with x of get(row, c); TS_INTERACT_AHEAD rows of a thread are under way
 * at once, past the last one it again. */
template <class Get, class Put>
static __device__ __forceinline__ void
ts_interact_each(int32_t n_rows, int32_t width, Get get, Put put) {
  const int shift = ts_lanes_shift(width);
  const int32_t step = TS_INTERACT_THREADS >> shift;
  const int32_t lane = (int32_t)threadIdx.x & ((1 << shift) - 1);
  for (int32_t r = (int32_t)threadIdx.x >> shift; r < n_rows;
       r += TS_INTERACT_AHEAD * step)
    for (int32_t c = lane; c < width; c += 1 << shift) {
      decltype(get(0, 0)) x[TS_INTERACT_AHEAD];
#pragma unroll
      for (int u = 0; u < TS_INTERACT_AHEAD; u++)
        x[u] = get(min(r + u * step, n_rows - 1), c);
#pragma unroll
      for (int u = 0; u < TS_INTERACT_AHEAD; u++)
        if (r + u * step < n_rows) put(r + u * step, c, x[u]);
    }
}

/* ---- rows of out --------------------------------------------------------- */

/* Rows are of floats, or of bf16 (uint16_t). */

/* Row S of the turn's samples while it is made: in shared memory, or in its
 * place. */
template <class T>
static __device__ __forceinline__ T *
ts_interact_row(const ts_interact_params &p, const ts_interact_block &k,
                int32_t s) {
  return p.more ? (T *)k.more + s * p.out_stride
                : (T *)p.out + (k.b + s) * p.out_stride;
}

/* The rest of a row: bottom before the pairs, zeros behind. */
template <class T>
static __device__ __forceinline__ void
ts_interact_ends(const ts_interact_params &p, const ts_interact_block &k) {
  const int32_t used = p.head + p.n * (p.n - 1) / 2;
  for (int32_t s = 0; s < k.n; s++) {
    T *row = ts_interact_row<T>(p, k, s);
    const ts_interact_vector &v = k.vector[0];
    for (int32_t c = (int32_t)threadIdx.x; c < p.head; c += TS_INTERACT_THREADS)
      ts_put_float(row + c, v.from[(k.b + s) * v.stride + c]);
    for (int64_t c = used + (int32_t)threadIdx.x; c < p.out_stride;
         c += TS_INTERACT_THREADS)
      row[c] = 0;
  }
}

/* The rows of all samples, one behind the other, to their place. */
template <class T>
static __device__ __forceinline__ void
ts_interact_flush(const ts_interact_params &p, const ts_interact_block &k) {
  const T *from = (const T *)k.more;
  T *to = (T *)p.out + k.b * p.out_stride;
  const int64_t n = k.n * p.out_stride;
  if (p.aligned) {
    enum { EACH = 16 / sizeof(T) };
    for (int64_t c = threadIdx.x; c < n / EACH; c += TS_INTERACT_THREADS)
      ((uint4 *)to)[c] = ((const uint4 *)from)[c];
  } else {
    for (int64_t c = threadIdx.x; c < n; c += TS_INTERACT_THREADS)
      to[c] = from[c];
  }
}

/* ---- sizes --------------------------------------------------------------- */

enum {
  TS_INTERACT_SIDE = 4,  /* f32: of a tile of pairs */
  TS_INTERACT_GRADS = 8, /* f32: gradients of a thread */
  TS_HALF_SIDE = 16      /* bf16: of a product of a warp */
};

/* f32: tiles on a side; the row pitch of the matrix of gradients, which is
 * symmetric, 0 on the diagonal and where there is no vector. */
TS_CUDA_BOTH static inline int32_t ts_interact_side(int32_t n) {
  return (n + TS_INTERACT_SIDE - 1) / TS_INTERACT_SIDE;
}
TS_CUDA_BOTH static inline int32_t ts_interact_matrix(int32_t n) {
  return (int32_t)ts_round_up(n, TS_INTERACT_GRADS);
}

/* bf16: vectors, or columns, of whole products.  Pitches keep what a warp reads
 * at once in banks of its own. */
TS_CUDA_BOTH static inline int32_t ts_half_padded(int32_t n) {
  return (int32_t)ts_round_up(n, TS_HALF_SIDE);
}
TS_CUDA_BOTH static inline int32_t ts_half_pitch(int32_t n) {
  return ts_half_padded(n) + 8;
}

/* ---- launches ------------------------------------------------------------ */

/* Kernels of f32 (interact_f32.cu), of bf16 (interact_half.cu), by whether all
 * vectors are whole vectors of 16 bytes; backward also by p.more. */
struct ts_interact_kernels {
  void (*forward[2])(ts_interact_params);
  void (*backward[2][2])(ts_interact_params);
};
extern const ts_interact_kernels ts_interact_f32, ts_interact_half;
