/* cuda_lookup_emulated.h - the CUDA lookup on the CPU. */
#ifndef TS_TESTS_CUDA_LOOKUP_EMULATED_H
#define TS_TESTS_CUDA_LOOKUP_EMULATED_H

#include "cuda/sparse/lookup_plan.h"
#include "runtime/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Launches in place of cuda/sparse/lookup.cu; arguments in host memory.  G: the
 * gradient by the weights of the lookup A, or NULL. */
ts_err emulated_lookup(const ts_lookup_args *a, const ts_weight_grad_args *g,
                       const ts_lookup_machine *m);
/* What the last one launched, and puts before it. */
int emulated_lookup_launches(int *n_puts);

#ifdef __cplusplus
}
#endif
#endif
