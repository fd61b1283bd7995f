/* kernel_table.h - the table of kernels.
 *
 * One struct of typed function pointers, made of the lists of the folders'
 * kernels.h, which declare arguments and nothing else; beside backends.c, as it
 * stands for all folders.  The host fills every entry with a plain C
 * reference, then overrides it with the vector versions that the CPU has
 * (src/backends.c); the entry NAME of cuda/ is its function ts_cuda_NAME.  A
 * missing entry is an error at start.  The reference is the oracle in tests.
 *
 * Kernels run inside lane tasks.  On the host they use the OpenMP threads of
 * the calling lane; results never depend on how work was cut by thread.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "dense/kernels.h"
#include "model/kernels.h"
#include "shard/kernels.h"
#include "sparse/kernels.h"

/* Memory.  zero (dst, bytes): device memory.  copy (dst, src, bytes): device or
 * pinned memory on either side.  fetch (dst, src, bytes): the same into the
 * host's memory, and waits: for the sizes that a host has to know.  put (dst,
 * src, bytes): a few KB of the host's memory, of any kind, which may change as
 * soon as it returns, to device memory. */
#define TS_MEMORY_KERNELS(X)                                                   \
  X(zero, (void *, size_t))                                                    \
  X(copy, (void *, const void *, size_t))                                      \
  X(fetch, (void *, const void *, size_t))                                     \
  X(put, (void *, const void *, size_t))

#define TS_KERNEL_LIST(X)                                                      \
  TS_MEMORY_KERNELS(X)                                                         \
  TS_SPARSE_KERNELS(X)                                                         \
  TS_SHARD_KERNELS(X)                                                          \
  TS_DENSE_KERNELS(X)                                                          \
  TS_MODEL_KERNELS(X)

typedef struct ts_kernels {
#define TS_KERNEL_FIELD(name, params) ts_err(*name) params;
  TS_KERNEL_LIST(TS_KERNEL_FIELD)
#undef TS_KERNEL_FIELD
  const char *isa; /* "ref", "avx2", "avx512", "avx512_bf16", "cuda" */
  /* Matrix products (dense/linear_impl.h) of a device with discrete memory;
   * NULL: an engine of the host's, by name. */
  const struct ts_engine *engine;
} ts_kernels;

/* Fills K for the device named BACKEND and checks that no entry is missing.
 * isa NULL: the best that the CPU has; "ref", "avx2", "avx512", "avx512_bf16"
 * for tests and benchmarks (DECK error where the CPU lacks it). */
ts_err ts_kernels_fill(ts_kernels *k, const char *backend, const char *isa);
