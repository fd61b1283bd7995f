/* enqueue.h - what tasks put on a stream: kernels, copies, bytes, calls of
 * libraries.  All of it goes through here, so that a graph which is open knows
 * each piece of its work (cuda/runtime/notes.h).  Included by cuda_impl.h. */
#pragma once

#include <cuda_runtime.h>

extern "C" {
#include "base/err.h"
}

/* The stream of the lane whose task runs in this thread; outside of tasks the
 * default stream (tests of kernels).  It is meant where none is named. */
cudaStream_t ts_cuda_stream_now(void);

/* BYTES at P = BYTE; BYTES at DST = those at SRC, either in device memory or
 * page-locked.  Nothing where there are none. */
ts_err ts_cuda_set(void *p, int byte, size_t bytes,
                   cudaStream_t = ts_cuda_stream_now());
ts_err ts_cuda_move(void *dst, const void *src, size_t bytes,
                    cudaStream_t = ts_cuda_stream_now());

/* Work of a library: WORK puts it on the stream by CUDA's own calls.  A copy of
 * ARG is kept.  A graph takes the same WORK with the same bytes at ARG for the
 * same work and doesn't call it again, so padding in ARG is zeroed, and WORK
 * reads nothing else that changes. */
typedef ts_err ts_cuda_work(const void *arg, cudaStream_t);
ts_err ts_cuda_call(ts_cuda_work *, const void *arg, size_t bytes,
                    cudaStream_t = ts_cuda_stream_now());

/* ---- launches ------------------------------------------------------------ */

typedef struct ts_cuda_site {
  const char *file;
  int line;
  const char *name; /* of the kernel */
} ts_cuda_site;

/* Blocks, threads of a block. */
typedef struct ts_cuda_shape {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = ts_cuda_stream_now();
} ts_cuda_shape;

/* A launch: every one is written so.  An expression of type ts_err; a
 * template's name goes in parentheses:
 *   TS_TRY(TS_CUDA_LAUNCH((pool<float, 4>), {grid, block}, a, b));
 * A runtime that stands in for CUDA defines it before. */
#ifndef TS_CUDA_LAUNCH
#define TS_CUDA_LAUNCH(kernel, ...)                                            \
  ts_cuda_launch(ts_cuda_site{__FILE__, __LINE__, #kernel}, kernel, __VA_ARGS__)
#endif

typedef struct ts_cuda_kernel {
  ts_cuda_site site;
  const void *kernel;
  ts_cuda_shape shape;
  const size_t *sizes; /* (n) of its parameters; static */
  int n;
} ts_cuda_kernel;

/* VALUE: (k->n) where the values are; read before it returns. */
ts_err ts_cuda_launch_kernel(const ts_cuda_kernel *k, const void **value);

template <class T> struct ts_same { typedef T type; };

template <class... P>
static inline ts_err ts_cuda_launch(ts_cuda_site site, void (*kernel)(P...),
                                    const ts_cuda_shape &shape,
                                    const typename ts_same<P>::type &...value) {
  static const size_t sizes[sizeof...(P) + 1] = {sizeof(P)..., 0};
  const void *at[sizeof...(P) + 1] = {&value..., NULL};
  const ts_cuda_kernel k = {site, (const void *)kernel, shape, sizes,
                            (int)sizeof...(P)};
  return ts_cuda_launch_kernel(&k, at);
}
