/* cuda_loss.h - the tests of the GPU's loss and metrics against the host's;
 * where they run is a target's: the CPU (tests/kernels/loss_emulated.cc) or a
 * GPU. */
#ifndef TS_TESTS_CUDA_LOSS_H
#define TS_TESTS_CUDA_LOSS_H

#ifdef __cplusplus
extern "C" {
#endif
#include "dense/tally.h"
#include "runtime/kernels.h"

typedef struct loss_target {
  void (*kernels)(ts_kernels *); /* bce and tally */
  /* TASK where kernels run, to the end. */
  ts_err (*run)(ts_err (*task)(void *), void *arg);
  /* A copy of BYTES where kernels can see it; what it holds now; its end. */
  void *(*send)(const void *, size_t bytes);
  void (*fetch)(void *to, const void *sent, size_t bytes);
  void (*drop)(void *sent);
  bool exact;                         /* exp and log1p are the host's */
  void (*start)(void), (*stop)(void); /* around all tests, or NULL */
} loss_target;

extern const loss_target loss_emulated;
#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include <check.h>
Suite *cuda_loss_suite(const char *name, const loss_target *);
#endif

#endif
