/* words.cu - streams that wait for a word in pinned memory: for collectives,
 * which the service thread ends (runtime/comm.h), without the host's waiting.
 *
 * Only where TESSERA_STREAM_WAITS=1 asks for it.  CUDA knows nothing of such an
 * order between streams, so nothing that the word waits for may get behind a
 * stream that waits:
 * - Streams share connections to the hardware, 8 by default.  There must be
 *   more of them than lanes, and some for the streams of libraries.
 * - A kernel that is loaded when it is first launched may wait for all
 *   streams: CUDA_MODULE_LOADING has to be EAGER, which takes time and memory.
 * Both are read by the driver when it starts, so they are set before CUDA is
 * first called; an MPI library that calls CUDA wants them from outside.  What
 * is set there already stays and is checked.
 *
 * The comparison is that of signed differences: words stay below 2^63. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/runtime/lane.h"

enum { CONNECTIONS = 8, CONNECTIONS_MOST = 32, SPARE = 8 };

typedef CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint64_t, unsigned);
typedef CUresult (*device_get)(CUdevice *, int);
typedef CUresult (*get_attribute)(int *, CUdevice_attribute, CUdevice);

static wait_value stream_wait_value; /* NULL: not to be used */
static char refused[160];            /* why, where it was asked for */
static int n_lanes;                  /* atomic */

static bool asked(void) {
  const char *s = getenv("TESSERA_STREAM_WAITS");
  return s && !strcmp(s, "1");
}

void ts_cuda_words_prepare(void) {
  if (!asked()) return;
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

/* ---- what the driver has ------------------------------------------------- */

/* The driver's function NAME in the form of VERSION; NULL: there is none. */
static void *entry(const char *name, unsigned version) {
  void *p = NULL;
#if CUDART_VERSION >= 12050
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion(name, &p, version, cudaEnableDefault,
                                       &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess)
    p = NULL;
#elif CUDART_VERSION >= 12000
  cudaDriverEntryPointQueryResult found;
  (void)version;
  if (cudaGetDriverEntryPoint(name, &p, cudaEnableDefault, &found) !=
          cudaSuccess ||
      found != cudaDriverEntryPointSuccess)
    p = NULL;
#else
  (void)name, (void)version;
#endif
  if (!p) (void)cudaGetLastError();
  return p;
}

static bool has_words(int ordinal) {
#if CUDART_VERSION >= 12000
  int yes = 0;
  CUdevice device;
  const device_get get = (device_get)entry("cuDeviceGet", 2000);
  const get_attribute attribute =
      (get_attribute)entry("cuDeviceGetAttribute", 2000);
  return get && attribute && get(&device, ordinal) == CUDA_SUCCESS &&
         attribute(&yes, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
                   device) == CUDA_SUCCESS &&
         yes;
#else
  (void)ordinal;
  return false;
#endif
}

/* Connections of computing or of copies, whichever has fewer. */
static int connections(void) {
  static const char *const names[] = {"CUDA_DEVICE_MAX_CONNECTIONS",
                                      "CUDA_DEVICE_MAX_COPY_CONNECTIONS"};
  int n = CONNECTIONS;
  for (int i = 0; i < 2; i++) {
    const char *s = getenv(names[i]);
    const int k = s ? atoi(s) : n;
    n = i == 0 || k < n ? k : n;
  }
  return n < CONNECTIONS_MOST ? n : CONNECTIONS_MOST;
}

static int lanes_most(void) {
  return connections() - SPARE;
}

void ts_cuda_words_start(int ordinal) {
  const char *loading = getenv("CUDA_MODULE_LOADING");
  *refused = '\0';
  stream_wait_value = NULL;
  if (!asked()) return;
  if (lanes_most() < 1)
    (void)snprintf(refused, sizeof refused,
                   "there are %d connections (CUDA_DEVICE_MAX_CONNECTIONS)",
                   connections());
  else if (!loading || strcmp(loading, "EAGER") != 0)
    (void)snprintf(refused, sizeof refused,
                   "CUDA_MODULE_LOADING is \"%.20s\", not EAGER",
                   loading ? loading : "");
  else if (!has_words(ordinal))
    (void)snprintf(refused, sizeof refused, "the driver has no 64-bit waits");
  else if (!(stream_wait_value =
                 (wait_value)entry("cuStreamWaitValue64", 11070)))
    (void)snprintf(refused, sizeof refused, "the driver has no such call");
}

void ts_cuda_words_describe(char *text, size_t bytes) {
  const size_t n = strlen(text);
  if (stream_wait_value)
    (void)snprintf(text + n, bytes - n, ", streams wait for messages");
  else if (*refused)
    (void)snprintf(text + n, bytes - n, ", the host waits for messages as %s",
                   refused);
}

bool ts_cuda_words(void) {
  return stream_wait_value != NULL;
}

/* ---- lanes --------------------------------------------------------------- */

void ts_cuda_words_count(int by) {
  __atomic_add_fetch(&n_lanes, by, __ATOMIC_RELAXED);
}

bool ts_cuda_words_fit(void) {
  return __atomic_load_n(&n_lanes, __ATOMIC_RELAXED) <= lanes_most();
}

ts_err ts_cuda_wait_word(cudaStream_t stream, const uint64_t *word,
                         uint64_t least) {
  void *seen = NULL;
  CUresult e;
  TS_DO(TS_CUDA(cudaHostGetDevicePointer(&seen, (void *)(uintptr_t)word, 0)));
  e = stream_wait_value((CUstream)stream, (CUdeviceptr)(uintptr_t)seen, least,
                        CU_STREAM_WAIT_VALUE_GEQ);
  if (e != CUDA_SUCCESS)
    return ts_fail(TS_ERR_INTERNAL, "CUDA: cuStreamWaitValue64 fails (%d)",
                   (int)e);
  return TS_OK;
}
