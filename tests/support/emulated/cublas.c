/* cublas.c - descriptors that are looked at, products that are computed.
 *
 * An algorithm carries what it was proposed for: the product, how its arrays
 * are aligned, the workspace.  Another product, arrays or workspace that are
 * less are refused; the real library may compute nonsense there. */
#include "tests/support/emulated/cublas_impl.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated/runtime.h"

enum { MAGIC = 0x7e55e7a, WORKSPACE = 1 << 20 };

ts_cublas_fake ts_cublas;

typedef struct ts_fake_preference {
  size_t workspace;
  uint32_t schemes, align[4]; /* a, b, c, d */
} ts_fake_preference;

/* ---- descriptors --------------------------------------------------------- */

static cublasStatus_t make(void *out, const void *what, size_t bytes) {
  void *p = malloc(bytes);
  if (!p) return CUBLAS_STATUS_ALLOC_FAILED;
  memcpy(p, what, bytes);
  *(void **)out = p;
  ts_cublas.descriptors++;
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t drop(void *p) {
  free(p);
  ts_cublas.descriptors--;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) {
  return 130000;
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "an error";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  const int nothing = 0;
  return make(handle, &nothing, sizeof nothing);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return drop(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  const ts_fake_desc d = {.compute = compute,
                          .scale = scale,
                          .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
  return make(out, &d, sizeof d);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  return drop(d);
}

static cublasStatus_t take(void *to, size_t size, const void *from,
                           size_t bytes) {
  if (bytes != size || !from) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, from, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t which,
                               const void *from, size_t bytes) {
  ts_fake_desc *d = (ts_fake_desc *)(void *)desc;
  switch ((int)which) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return take(&d->ta, sizeof d->ta, from, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return take(&d->tb, sizeof d->tb, from, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return take(&d->epilogue, sizeof d->epilogue, from, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return take(&d->bias, sizeof d->bias, from, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return take(&d->aux, sizeof d->aux, from, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return take(&d->aux_ld, sizeof d->aux_ld, from, bytes);
  default:
    return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  const ts_fake_layout l = {type, rows, cols, ld};
  return make(out, &l, sizeof l);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  return drop(l);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  const ts_fake_preference p = {
      0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}};
  return make(out, &p, sizeof p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return drop(p);
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                     cublasLtMatmulPreferenceAttributes_t which,
                                     const void *from, size_t bytes) {
  ts_fake_preference *p = (ts_fake_preference *)(void *)pref;
  const int k = (int)which - (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return take(&p->workspace, sizeof p->workspace, from, bytes);
  if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    return take(&p->schemes, sizeof p->schemes, from, bytes);
  if (k < 0 || k > 3) return CUBLAS_STATUS_INVALID_VALUE;
  return take(&p->align[k], sizeof p->align[k], from, bytes);
}

/* ---- what is allowed ----------------------------------------------------- */

static bool known(uint32_t e) {
  static const uint32_t all[] = {
      CUBLASLT_EPILOGUE_DEFAULT,     CUBLASLT_EPILOGUE_RELU,
      CUBLASLT_EPILOGUE_BIAS,        CUBLASLT_EPILOGUE_RELU_BIAS,
      CUBLASLT_EPILOGUE_RELU_AUX,    CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
      CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_BGRADB};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (e == all[i]) return true;
  return false;
}

static bool types_go(const ts_fake_matmul *m) {
  const bool half = m->a.type == CUDA_R_16BF;
  const bool tf32 = m->op.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  return m->a.type == m->b.type && m->op.scale == CUDA_R_32F &&
         (m->op.compute == CUBLAS_COMPUTE_32F || (tf32 && !half)) &&
         (half ? m->d.type == CUDA_R_16BF || m->d.type == CUDA_R_32F
               : m->a.type == CUDA_R_32F && m->d.type == CUDA_R_32F);
}

static bool layout_goes(const ts_fake_layout *l) {
  return l->rows && l->cols && l->ld >= (int64_t)l->rows;
}

static bool sizes_go(const ts_fake_matmul *m) {
  const bool ta = m->op.ta == CUBLAS_OP_T, tb = m->op.tb == CUBLAS_OP_T;
  return layout_goes(&m->a) && layout_goes(&m->b) && layout_goes(&m->d) &&
         (ta ? m->a.cols : m->a.rows) == m->d.rows &&
         (tb ? m->b.rows : m->b.cols) == m->d.cols &&
         (ta ? m->a.rows : m->a.cols) == (tb ? m->b.cols : m->b.rows);
}

static bool epilogue_goes(const ts_fake_matmul *m) {
  const uint32_t e = m->op.epilogue;
  const bool bias =
      adds_bias(e) || sums_rows(e) || e == CUBLASLT_EPILOGUE_BGRADB;
  return known(e) && (!bias || m->op.bias) &&
         (!has_mask(e) ||
          (m->op.aux && (uintptr_t)m->op.aux % 16 == 0 &&
           m->op.aux_ld % 128 == 0 && m->op.aux_ld >= (int64_t)m->d.rows));
}

static uint64_t hash(const ts_fake_matmul *m) {
  const uint64_t x[] = {
      m->op.ta,          m->op.tb,
      m->op.epilogue,    m->op.compute,
      m->a.type,         m->d.type,
      m->d.rows,         m->d.cols,
      m->a.rows,         m->a.cols,
      (uint64_t)m->a.ld, (uint64_t)m->b.ld,
      (uint64_t)m->d.ld, (uint64_t)m->op.aux_ld * has_mask(m->op.epilogue)};
  uint64_t h = MAGIC;
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    h = (h ^ x[i]) * UINT64_C(0x9E3779B97F4A7C15);
  return h;
}

static ts_fake_matmul matmul_of(cublasLtMatmulDesc_t op,
                                cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b,
                                cublasLtMatrixLayout_t d) {
  ts_fake_matmul m = {.A = NULL};
  memcpy(&m.op, op, sizeof m.op);
  memcpy(&m.a, a, sizeof m.a);
  memcpy(&m.b, b, sizeof m.b);
  memcpy(&m.d, d, sizeof m.d);
  return m;
}

/* ---- algorithms ---------------------------------------------------------- */

/* data: magic, product, alignment of a, b, d and bias, workspace (and above it
 * reduction scheme, parts of k), life. */
enum { SCHEME_AT = 40, PARTS_AT = 48, WORKSPACE_BITS = 40 };

static uint64_t workspace_of(const cublasLtMatmulAlgo_t *a) {
  return a->data[6] & ((UINT64_C(1) << WORKSPACE_BITS) - 1);
}

cublasStatus_t
cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *a,
                                     cublasLtMatmulAlgoConfigAttributes_t which,
                                     void *to, size_t bytes, size_t *written) {
  const int32_t parts = (int32_t)(a->data[6] >> PARTS_AT);
  if (which != CUBLASLT_ALGO_CONFIG_SPLITK_NUM || bytes != sizeof parts)
    return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, &parts, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *a,
                                     cublasLtMatmulAlgoConfigAttributes_t which,
                                     const void *from, size_t bytes) {
  const int at =
      which == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? PARTS_AT : SCHEME_AT;
  uint32_t value;
  if (bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(&value, from, sizeof value);
  a->data[6] &= ~(UINT64_C(255) << at);
  a->data[6] |= (uint64_t)value << at;
  return CUBLAS_STATUS_SUCCESS;
}

/* Parts of k, each with a sum of its own in the workspace. */
static bool cut_goes(const ts_fake_matmul *m, const cublasLtMatmulAlgo_t *a,
                     uint64_t *workspace) {
  const uint64_t parts = a->data[6] >> PARTS_AT;
  const uint64_t sums = parts * m->d.rows * m->d.cols * 4;
  *workspace = workspace_of(a);
  if (parts <= 1) return true;
  if (sums > *workspace) *workspace = sums;
  return parts <= (uint64_t)ts_cublas.parts_most &&
         (a->data[6] >> SCHEME_AT & 255) ==
             CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t pref, int most,
    cublasLtMatmulHeuristicResult_t found[], int *n) {
  const ts_fake_matmul m = matmul_of(op, a, b, d);
  ts_fake_preference p;
  memcpy(&p, pref, sizeof p);
  *n = 0;
  /* Nobody may ask for what the documents refuse. */
  if (!handle || most < 1 || c != d || !types_go(&m) || !sizes_go(&m) ||
      !epilogue_goes(&m))
    abort();
  ts_cublas.asked++;
  if (m.op.epilogue == (uint32_t)ts_cublas.refused)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (p.schemes & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
    return CUBLAS_STATUS_NOT_SUPPORTED; /* of another type, or order */
  const uintptr_t bias = (uintptr_t)m.op.bias | 16;
  const uint64_t data[8] = {MAGIC,
                            hash(&m),
                            p.align[0],
                            p.align[1],
                            p.align[3],
                            bias & -bias,
                            p.workspace < WORKSPACE ? p.workspace : WORKSPACE,
                            (uint64_t)ts_cublas.stale};
  memset(found, 0, sizeof *found);
  memcpy(&found->algo, data, sizeof data);
  found->workspaceSize = workspace_of(&found->algo);
  found->state = CUBLAS_STATUS_SUCCESS;
  *n = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t op,
                        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                        const cublasLtMatmulAlgo_t *algo,
                        cublasLtMatmulHeuristicResult_t *result) {
  const ts_fake_matmul m = matmul_of(op, a, b, d);
  uint64_t workspace;
  if (!handle || c != d || algo->data[0] != MAGIC || algo->data[1] != hash(&m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!cut_goes(&m, algo, &workspace)) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = workspace;
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product --------------------------------------------------------- */

static void note(const ts_fake_matmul *m, const cublasLtMatmulAlgo_t *algo) {
  const uint32_t e = m->op.epilogue;
  ts_cublas.ran++;
  ts_cublas.masks += has_mask(e) && e & CUBLASLT_EPILOGUE_RELU;
  ts_cublas.dmasks += e == CUBLASLT_EPILOGUE_DRELU_BGRAD;
  ts_cublas.bias_grads += e == CUBLASLT_EPILOGUE_BGRADB;
  ts_cublas.cut += algo->data[6] >> PARTS_AT > 1;
  ts_cublas.taken += algo->data[7] != (uint64_t)ts_cublas.stale;
}

static bool aligned(const void *p, uint64_t to) {
  return p && (uintptr_t)p % to == 0;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t op,
                              const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D,
                              cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t bytes, cudaStream_t stream) {
  ts_fake_matmul m = matmul_of(op, a, b, d);
  m.A = A;
  m.B = B;
  m.D = D;
  uint64_t least;
  if (!handle || *(const float *)alpha != 1 || *(const float *)beta != 0 ||
      C != D || c != d || !algo || !types_go(&m) || !sizes_go(&m) ||
      !epilogue_goes(&m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (algo->data[0] != MAGIC || algo->data[1] != hash(&m) ||
      !aligned(A, algo->data[2]) || !aligned(B, algo->data[3]) ||
      !aligned(D, algo->data[4]) ||
      (m.op.bias && !aligned(m.op.bias, algo->data[5])) ||
      m.op.epilogue == (uint32_t)ts_cublas.unrun ||
      !cut_goes(&m, algo, &least) || bytes < least || !aligned(workspace, 16))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  note(&m, algo);
  ts_emulated_enqueue(stream, ts_cublas_multiply, &m, sizeof m);
  return CUBLAS_STATUS_SUCCESS;
}
