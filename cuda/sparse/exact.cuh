/* exact.cuh - float arithmetic with the host's bits, on GPUs.
 *
 * Compilers for GPUs fuse a multiplication and an addition where they can,
 * the host never does.  With this type each operation rounds on its own, and
 * formulas read as they do in C.  The host's compiler (kernels run there in
 * tests) is kept from fusing by -ffp-contract=off. */
#pragma once

#include <math.h>

#include "cuda/runtime/grid.h"

struct ts_real {
  float x;
};

#ifdef __CUDA_ARCH__
#define TS_EXACT(device, host) device
#else
#define TS_EXACT(device, host) host
#endif

TS_CUDA_BOTH inline ts_real operator+(ts_real a, ts_real b) {
  return {TS_EXACT(__fadd_rn(a.x, b.x), a.x + b.x)};
}
TS_CUDA_BOTH inline ts_real operator-(ts_real a, ts_real b) {
  return {TS_EXACT(__fsub_rn(a.x, b.x), a.x - b.x)};
}
TS_CUDA_BOTH inline ts_real operator*(ts_real a, ts_real b) {
  return {TS_EXACT(__fmul_rn(a.x, b.x), a.x * b.x)};
}
TS_CUDA_BOTH inline ts_real operator/(ts_real a, ts_real b) {
  return {TS_EXACT(__fdiv_rn(a.x, b.x), a.x / b.x)};
}
TS_CUDA_BOTH inline ts_real ts_sqrt(ts_real a) {
  return {TS_EXACT(__fsqrt_rn(a.x), sqrtf(a.x))};
}
TS_CUDA_BOTH inline bool operator>(ts_real a, ts_real b) {
  return a.x > b.x;
}

#undef TS_EXACT
