/* cublas_product.c - products in double, with what their epilogues add. */
#include <math.h>
#include <string.h>

#include "tests/support/emulated/cublas_impl.h"

static double wide(uint16_t h) {
  const uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return (double)f;
}

static uint16_t half_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static double get(const void *p, cudaDataType_t type, int64_t i) {
  return type == CUDA_R_16BF ? wide(((const uint16_t *)p)[i])
                             : (double)((const float *)p)[i];
}

static void put(void *p, cudaDataType_t type, int64_t i, double x) {
  if (type == CUDA_R_16BF)
    ((uint16_t *)p)[i] = half_of((float)x);
  else
    ((float *)p)[i] = (float)x;
}

/* Ten bits of mantissa. */
static double tf32(double x) {
  int e;
  const double m = frexp(x, &e);
  return ldexp(nearbyint(ldexp(m, 11)), e - 11);
}

static double element(const ts_fake_matmul *m, const void *p,
                      const ts_fake_layout *l, bool t, int64_t i, int64_t j) {
  const double x = get(p, l->type, t ? i * l->ld + j : j * l->ld + i);
  return m->op.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? tf32(x) : x;
}

/* The bit of ReLU's mask for D (i, j), and what is done with it. */
static double masked(const ts_fake_matmul *m, double v, int64_t i, int64_t j) {
  uint8_t *bits = m->op.aux;
  const int64_t at = j * m->op.aux_ld + i;
  const uint32_t e = m->op.epilogue;
  if (e & CUBLASLT_EPILOGUE_RELU) {
    const bool on = v > 0;
    if (has_mask(e))
      bits[at / 8] = (uint8_t)((bits[at / 8] & ~(1 << at % 8)) | on << at % 8);
    return on ? v : 0;
  }
  if (has_mask(e)) return bits[at / 8] >> at % 8 & 1 ? v : 0;
  return v;
}

static void sum_b(const ts_fake_matmul *m, int64_t k) {
  const bool tb = m->op.tb == CUBLAS_OP_T;
  for (int64_t j = 0; j < (int64_t)m->d.cols; j++) {
    double sum = 0;
    for (int64_t p = 0; p < k; p++) sum += element(m, m->B, &m->b, tb, p, j);
    put(m->op.bias, m->d.type, j, sum);
  }
}

void ts_cublas_multiply(void *arg) {
  const ts_fake_matmul *m = arg;
  const bool ta = m->op.ta == CUBLAS_OP_T, tb = m->op.tb == CUBLAS_OP_T;
  const int64_t k = (int64_t)(ta ? m->a.rows : m->a.cols);
  for (int64_t i = 0; i < (int64_t)m->d.rows; i++) {
    double row = 0;
    for (int64_t j = 0; j < (int64_t)m->d.cols; j++) {
      double v = 0;
      for (int64_t p = 0; p < k; p++)
        v += element(m, m->A, &m->a, ta, i, p) *
             element(m, m->B, &m->b, tb, p, j);
      if (adds_bias(m->op.epilogue)) v += get(m->op.bias, m->d.type, i);
      v = masked(m, v, i, j);
      put(m->D, m->d.type, j * m->d.ld + i, v);
      row += v;
    }
    if (sums_rows(m->op.epilogue)) put(m->op.bias, m->d.type, i, row);
  }
  if (m->op.epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_b(m, k);
}
