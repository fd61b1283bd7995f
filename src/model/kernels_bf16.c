/* kernels_bf16.c - the layers' kernels whose products are of bf16
 * (AVX512-BF16): attention's, by the bodies that f32 has. */
#include <math.h>
#include <omp.h>

#include "base/mem.h"
#include "runtime/backends.h"

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 10)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#pragma GCC target("avx2,fma,prefer-vector-width=512")
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wunused-function" /* bodies' other kernels */
#define TS_WIDTH 16
#define TS_HALF
#include "model/contract_body.h"
#include "model/elements_body.h"
/* uses both */
#include "model/act_body.h"
/* uses what is above */
#include "model/attention_grad_body.h"

void ts_model_kernels_avx512_bf16(ts_kernels *k) {
  k->attention_half = attention;
  k->attention_half_grad = attention_grad;
}
#else
void ts_model_kernels_avx512_bf16(ts_kernels *k) {
  (void)k;
}
#endif
