/* cuda_flat.h - the tests of the GPU's kernels over flat arrays and of its
 * dense optimizers against the host's, bit for bit; where they run is a
 * target's: the CPU (tests/flat_emulated.cc) or a GPU. */
#ifndef TS_TESTS_CUDA_FLAT_H
#define TS_TESTS_CUDA_FLAT_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"

typedef struct flat_target {
  void (*kernels)(ts_kernels *);
  /* TASK where kernels run, to the end. */
  ts_err (*run)(ts_err (*task)(void *), void *arg);
  /* A copy of BYTES where kernels can see it; what it holds now; its end. */
  void *(*send)(const void *, size_t bytes);
  void (*fetch)(void *to, const void *sent, size_t bytes);
  void (*drop)(void *sent);
  void (*set_blocks)(int most);       /* of a grid; NULL: can't be set */
  void (*start)(void), (*stop)(void); /* around all tests, or NULL */
} flat_target;

extern const flat_target flat_emulated;
#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include <check.h>
Suite *cuda_flat_suite(const char *name, const flat_target *);
#endif

#endif
