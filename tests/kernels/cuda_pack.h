/* cuda_pack.h - the tests of the GPU's kernels bags_* and pack_*
 * (cuda/shard/pack.h) against the host's, byte by byte; where they run is a
 * target's: the CPU (tests/kernels/pack_emulated.cc) or a GPU. */
#ifndef TS_TESTS_CUDA_PACK_H
#define TS_TESTS_CUDA_PACK_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"
#include "shard/pack.h"

typedef struct pack_target {
  /* Run to the end before they return. */
  ts_err (*bags_check)(const ts_bags_args *);
  ts_err (*bags_offsets)(const ts_bags_args *);
  ts_err (*bags_distinct)(const ts_distinct_args *);
  ts_err (*pack_measure)(const ts_pack_args *);
  ts_err (*pack_write)(const ts_pack_args *);
  /* A copy of BYTES where kernels can see it; what it holds now; its end. */
  void *(*send)(const void *, size_t bytes);
  void (*fetch)(void *to, const void *sent, size_t bytes);
  void (*drop)(void *sent);
  void (*start)(void), (*stop)(void); /* around all tests, or NULL */
} pack_target;

extern const pack_target pack_emulated;
#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include <check.h>
Suite *cuda_pack_suite(const char *name, const pack_target *);
#endif

#endif
