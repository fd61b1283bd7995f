/* cuda_unpack.h - the tests of the GPU's unpack and bag_means against the
 * host's, bit for bit; where they run is a target's: the CPU
 * (tests/kernels/unpack_emulated.cc) or a GPU. */
#ifndef TS_TESTS_CUDA_UNPACK_H
#define TS_TESTS_CUDA_UNPACK_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"
#include "shard/unpack.h"

typedef struct unpack_target {
  /* Run to the end before they return. */
  ts_err (*unpack)(const ts_unpack_args *);
  ts_err (*bag_means)(const ts_bag_means_args *);
  /* A copy of BYTES where kernels can see it; what it holds now; its end. */
  void *(*send)(const void *, size_t bytes);
  void (*fetch)(void *to, const void *sent, size_t bytes);
  void (*drop)(void *sent);
  void (*set_blocks)(int most);       /* of a grid; NULL: can't be set */
  void (*start)(void), (*stop)(void); /* around all tests, or NULL */
} unpack_target;

extern const unpack_target unpack_emulated;
#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include <check.h>
Suite *cuda_unpack_suite(const char *name, const unpack_target *);
#endif

#endif
