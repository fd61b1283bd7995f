/* cuda_views.h - the tests of the GPU's kernels of views, wires and positions
 * (shard/view_kernels.h) against the host's, bit for bit; where they run is a
 * target's: the CPU (tests/views_emulated.cc) or a GPU. */
#ifndef TS_TESTS_CUDA_VIEWS_H
#define TS_TESTS_CUDA_VIEWS_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"
#include "shard/view_kernels.h"

typedef struct views_target {
  void (*kernels)(ts_kernels *);
  /* TASK where kernels run, to the end. */
  ts_err (*run)(ts_err (*task)(void *), void *arg);
  /* A copy of BYTES where kernels can see it; what it holds now; its end. */
  void *(*send)(const void *, size_t bytes);
  void (*fetch)(void *to, const void *sent, size_t bytes);
  void (*drop)(void *sent);
  void (*set_blocks)(int most);       /* of a piece; NULL: can't be set */
  void (*start)(void), (*stop)(void); /* around all tests, or NULL */
} views_target;

extern const views_target views_emulated;
#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include <check.h>
Suite *cuda_views_suite(const char *name, const views_target *);
#endif

#endif
