/* product.cu - descriptors, the choice of algorithms, and the call. */
#include "cuda/dense/product.h"

#include <algorithm>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utility>

static_assert(sizeof(cublasLtMatmulAlgo_t) ==
                  TS_CHOICE_WORDS * sizeof(uint64_t),
              "an algorithm is kept as words");

ts_err ts_blas_check(cublasStatus_t status, const char *call) {
  if (status == CUBLAS_STATUS_SUCCESS) return TS_OK;
  return ts_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? TS_ERR_NOMEM
                                                      : TS_ERR_INTERNAL,
                 "cuBLASLt: %.80s: %s", call, cublasLtGetStatusString(status));
}

/* ---- the library --------------------------------------------------------- */

static ts_blas *open_ones;

const char *ts_blas_version(void) {
  static char text[32];
  snprintf(text, sizeof text, "cuBLASLt %zu", cublasLtGetVersion());
  return text;
}

const char *ts_blas_maker(void) {
  static char text[192];
  snprintf(text, sizeof text, "%s, %s", ts_blas_version(),
           ts_cuda_gpu_now()->name);
  return text;
}

static void release(ts_blas *b) {
  if (b->handle) cublasLtDestroy(b->handle);
  ts_arrays_reset(&b->arrays);
  ts_mem_free(b);
}

ts_err ts_blas_take(ts_blas **out, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_blas *b = open_ones;
  while (b && b->lane != lane) b = b->next;
  if (!b) {
    TS_TRY(ts_mem_alloc(&b, sizeof *b, TS_TAG_DENSE));
    err = TS_BLAS(cublasLtCreate(&b->handle));
    if (err == TS_OK)
      err = ts_arrays_take(&b->arrays, ts_lane_device(lane), &b->workspace,
                           TS_BLAS_WORKSPACE, 1, TS_TAG_ACTIVATIONS);
    if (err != TS_OK) {
      release(b);
      goto done;
    }
    b->lane = lane;
    b->next = open_ones;
    open_ones = b;
  }
  b->users++;
  *out = b;
done:
  return err;
}

void ts_blas_give(ts_blas *b) {
  if (!b || --b->users) return;
  ts_blas **p = &open_ones;
  while (*p != b) p = &(*p)->next;
  *p = b->next;
  release(b);
  if (!open_ones) ts_choices_reset();
}

/* ---- descriptors --------------------------------------------------------- */

static bool has_bias(const ts_product *p) {
  const int e = p->spec.epilogue;
  return e & (CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA |
              CUBLASLT_EPILOGUE_BGRADB);
}

static bool has_aux(const ts_product *p) {
  return p->spec.epilogue & 128;
}

template <class T>
static ts_err set(ts_product *p, cublasLtMatmulDescAttributes_t which,
                  T value) {
  return TS_BLAS(
      cublasLtMatmulDescSetAttribute(p->desc, which, &value, sizeof value));
}

static ts_err lay(cublasLtMatrixLayout_t *to, cudaDataType_t type, int64_t rows,
                  int64_t cols, bool transposed, int64_t ld) {
  if (transposed) std::swap(rows, cols);
  return TS_BLAS(
      cublasLtMatrixLayoutCreate(to, type, (uint64_t)rows, (uint64_t)cols, ld));
}

ts_err ts_product_init(ts_product *p, const ts_product_spec *s) {
  const cublasOperation_t a = s->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t b = s->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
  static int64_t serial;
  memset(p, 0, sizeof *p);
  p->spec = *s;
  p->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
  TS_DO(TS_BLAS(cublasLtMatmulDescCreate(&p->desc, s->compute, CUDA_R_32F)));
  TS_DO(set(p, CUBLASLT_MATMUL_DESC_TRANSA, a));
  TS_DO(set(p, CUBLASLT_MATMUL_DESC_TRANSB, b));
  TS_DO(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, s->epilogue));
  if (has_aux(p))
    TS_DO(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s->aux_ld));
  TS_DO(lay(&p->a, s->type, s->m, s->k, s->ta, s->lda));
  TS_DO(lay(&p->b, s->type, s->k, s->n, s->tb, s->ldb));
  return lay(&p->d, s->d_type, s->m, s->n, false, s->ldd);
}

void ts_product_reset(ts_product *p) {
  if (p->desc) cublasLtMatmulDescDestroy(p->desc);
  if (p->a) cublasLtMatrixLayoutDestroy(p->a);
  if (p->b) cublasLtMatrixLayoutDestroy(p->b);
  if (p->d) cublasLtMatrixLayoutDestroy(p->d);
  memset(p, 0, sizeof *p);
}

/* Tiles as large as the library's, parts of k at least so long. */
enum { TILE = 128, PART_LEAST = 512, PARTS_MOST = 64 };

/* ---- the choice ---------------------------------------------------------- */

/* To 16 bytes, which is all that kernels ask for, or less. */
static uint32_t alignment(const void *p) {
  const uintptr_t u = (uintptr_t)p | 16;
  return (uint32_t)(u & -u);
}

static uint32_t alignments(const ts_product_at *at) {
  return alignment(at->a) << 24 | alignment(at->b) << 16 |
         alignment(at->d) << 8 | alignment(at->bias);
}

static void key_of(char key[TS_CHOICE_KEY], const ts_product *p) {
  const ts_product_spec *s = &p->spec;
  snprintf(key, TS_CHOICE_KEY,
           "%" PRId64 " %" PRId64 " %" PRId64 " %c%c ld %" PRId64 " %" PRId64
           " %" PRId64 " types %d %d sums %d epilogue %d aux %" PRId64
           " aligned %08" PRIx32,
           s->m, s->n, s->k, s->ta ? 'T' : 'N', s->tb ? 'T' : 'N', s->lda,
           s->ldb, s->ldd, (int)s->type, (int)s->d_type, (int)s->compute,
           (int)s->epilogue, s->aux_ld, p->aligned);
}

/* Partial sums of a product that is split are added in f32, in a fixed order,
 * in the workspace. */
static ts_err set_preference(cublasLtMatmulPreference_t pref,
                             uint32_t aligned) {
  const size_t workspace = TS_BLAS_WORKSPACE;
  const struct {
    cublasLtMatmulPreferenceAttributes_t which;
    uint32_t value;
  } words[] = {
      {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
       CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned >> 24},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned >> 16 & 255},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned >> 8 & 255},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned >> 8 & 255}};
  ts_err err = TS_BLAS(cublasLtMatmulPreferenceSetAttribute(
      pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
      sizeof workspace));
  for (const auto &w : words)
    if (err == TS_OK)
      err = TS_BLAS(cublasLtMatmulPreferenceSetAttribute(
          pref, w.which, &w.value, sizeof w.value));
  return err;
}

/* NVIDIA does not say which of the two an epilogue that it lacks gives. */
static bool refuses(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ||
         status == CUBLAS_STATUS_INVALID_VALUE;
}

/* A kept one may be damaged. */
static bool works(const ts_choice *c, const ts_product *p,
                  const ts_blas *blas) {
  cublasLtMatmulAlgo_t algo;
  cublasLtMatmulHeuristicResult_t found;
  memcpy(&algo, c->algo, sizeof algo);
  memset(&found, 0, sizeof found);
  return c->none ||
         (cublasLtMatmulAlgoCheck(blas->handle, p->desc, p->a, p->b, p->d, p->d,
                                  &algo, &found) == CUBLAS_STATUS_SUCCESS &&
          found.workspaceSize <= TS_BLAS_WORKSPACE);
}

static bool set_parts(cublasLtMatmulAlgo_t *algo, int32_t parts) {
  const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return cublasLtMatmulAlgoConfigSetAttribute(
             algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts) ==
             CUBLAS_STATUS_SUCCESS &&
         cublasLtMatmulAlgoConfigSetAttribute(
             algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
             sizeof scheme) == CUBLAS_STATUS_SUCCESS;
}

/* A thin layer's dW has few tiles, and so few multiprocessors at work, over a
 * sum as long as the batch.  C, where it is in one part, gets one for each
 * multiprocessor, or as many as the library takes; by shapes and the GPU
 * alone. */
static void cut(ts_choice *c, const ts_product *p, const ts_blas *blas) {
  const ts_product_spec *s = &p->spec;
  const int64_t tiles = (s->m + TILE - 1) / TILE * ((s->n + TILE - 1) / TILE);
  const int64_t most =
      std::min<int64_t>(ts_cuda_gpu_now()->n_sms / tiles, s->k / PART_LEAST);
  cublasLtMatmulAlgo_t algo;
  ts_choice one = *c;
  int32_t parts = 0;
  size_t n;
  memcpy(&algo, c->algo, sizeof algo);
  if (cublasLtMatmulAlgoConfigGetAttribute(
          &algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts, &n) !=
          CUBLAS_STATUS_SUCCESS ||
      parts > 1)
    return;
  for (parts = PARTS_MOST; parts > 1; parts /= 2) {
    if (parts > most) continue;
    if (!set_parts(&algo, parts)) return;
    memcpy(one.algo, &algo, sizeof algo);
    if (!works(&one, p, blas)) continue;
    *c = one;
    return;
  }
}

/* The library's first proposal, cut where that helps: the same whenever it is
 * asked. */
static ts_err ask(ts_choice *c, const ts_product *p, const ts_blas *blas) {
  ts_err err = TS_OK;
  int n = 0;
  cublasLtMatmulHeuristicResult_t found;
  cublasLtMatmulPreference_t pref = NULL;
  cublasStatus_t status;
  memset(&found, 0, sizeof found);
  TS_TRY(TS_BLAS(cublasLtMatmulPreferenceCreate(&pref)));
  TS_TRY(set_preference(pref, p->aligned));
  status = cublasLtMatmulAlgoGetHeuristic(blas->handle, p->desc, p->a, p->b,
                                          p->d, p->d, pref, 1, &found, &n);
  c->none = refuses(status);
  if (!c->none) TS_TRY(TS_BLAS(status));
  if (n == 0 || found.state != CUBLAS_STATUS_SUCCESS) c->none = true;
  memcpy(c->algo, &found.algo, sizeof c->algo);
  if (!c->none) cut(c, p, blas);
done:
  if (pref) cublasLtMatmulPreferenceDestroy(pref);
  return err;
}

static ts_err choose(ts_product *p, const ts_blas *blas) {
  ts_choice fresh;
  const ts_choice *c;
  memset(&fresh, 0, sizeof fresh);
  key_of(fresh.key, p);
  c = ts_choice_find(fresh.key);
  if (!c || !works(c, p, blas)) {
    TS_DO(ask(&fresh, p, blas));
    TS_DO(ts_choice_add(&fresh));
    c = &fresh;
  }
  p->fits = !c->none;
  memcpy(&p->algo, c->algo, sizeof p->algo);
  p->version = ts_choices_version();
  return TS_OK;
}

ts_err ts_product_give_up(ts_product *p) {
  ts_choice c;
  memset(&c, 0, sizeof c);
  key_of(c.key, p);
  c.none = true;
  p->fits = false;
  return ts_choice_add(&c);
}

/* ---- the call ------------------------------------------------------------ */

static ts_err point(ts_product *p, ts_product_at at) {
  if (has_bias(p)) TS_DO(set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias));
  if (has_aux(p))
    TS_DO(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at.aux));
  return TS_OK;
}

ts_err ts_product_prepare(ts_product *p, ts_blas *blas, ts_product_at at,
                          bool *fits) {
  if (!has_bias(p)) at.bias = NULL;
  const uint32_t aligned = alignments(&at);
  if (p->aligned != aligned || p->version != ts_choices_version()) {
    p->aligned = aligned;
    TS_DO(point(p, at)); /* the proposal depends on where these lie */
    TS_DO(choose(p, blas));
  }
  *fits = p->fits;
  return TS_OK;
}

typedef struct ts_product_call {
  ts_product *p;
  ts_blas *blas;
  ts_product_at at;
  int64_t serial;
  uint64_t version; /* of the algorithm */
} ts_product_call;

static ts_err multiply(const void *arg, cudaStream_t stream) {
  const ts_product_call *c = (const ts_product_call *)arg;
  ts_product *p = c->p;
  const ts_blas *blas = c->blas;
  const float one = 1, zero = 0;
  TS_DO(point(p, c->at));
  const cublasStatus_t status =
      cublasLtMatmul(blas->handle, p->desc, &one, c->at.a, p->a, c->at.b, p->b,
                     &zero, c->at.d, p->d, c->at.d, p->d, &p->algo,
                     blas->workspace, TS_BLAS_WORKSPACE, stream);
  p->refused = refuses(status);
  return ts_blas_check(status, "cublasLtMatmul");
}

ts_err ts_product_run(ts_product *p, ts_blas *blas, ts_product_at at) {
  ts_product_call c;
  memset(&c, 0, sizeof c);
  c.p = p;
  c.blas = blas;
  c.at = p->at = at;
  c.serial = p->serial;
  c.version = p->version;
  return ts_cuda_call(multiply, &c, sizeof c, ts_cuda_stream(blas->lane));
}
