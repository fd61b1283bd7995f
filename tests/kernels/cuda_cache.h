/* cuda_cache.h - the tests of the GPU's cache (cuda/sparse/cache.h) against the
 * host's entries; where they run is a target's: the CPU
 * (tests/kernels/cache_emulated.cc) or a GPU. */
#ifndef TS_TESTS_CUDA_CACHE_H
#define TS_TESTS_CUDA_CACHE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"
#include "sparse/cache.h"

typedef struct cache_target {
  /* The entries cache_*; run to the end before they return. */
  ts_kernels kernels;
  void *(*send)(const void *, size_t bytes); /* a copy that kernels see */
  void (*fetch)(void *to, const void *sent, size_t bytes);
  void (*put)(void *sent, const void *from, size_t bytes); /* writes it anew */
  void (*drop)(void *sent);
  /* BYTES of the host's memory that kernels see at *SEEN; its end. */
  void *(*share)(void **seen, size_t bytes);
  void (*unshare)(void *);
  void (*set_blocks)(int most);       /* of a grid; NULL: can't be set */
  void (*start)(void), (*stop)(void); /* around all tests, or NULL */
} cache_target;

/* Kernels on the CPU. */
cache_target cache_emulated(void);
#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include <check.h>
Suite *cuda_cache_suite(const char *name, const cache_target *);
#endif

#endif
