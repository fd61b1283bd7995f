/* cuda_fake.c - streams as threads with queues, events as numbers.  One lock
 * for all: what counts is order. */
#include "tests/support/emulated/cuda_fake.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/emulated/cuda_fake_impl.h"

#define lock ts_fake_lock
#define fake ts_fake_counts
#define answer ts_fake_answer
#define enqueue ts_fake_enqueue
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
ts_cuda_fake fake;
static struct CUstream_st *all;
static struct CUstream_st *held, *newest;
static bool faulty;
static _Thread_local cudaError_t last_error;

cudaError_t answer(cudaError_t e) {
  if (e == cudaSuccess && faulty) e = cudaErrorIllegalAddress;
  if (e != cudaSuccess) last_error = e;
  return e;
}

ts_cuda_fake ts_cuda_fake_now(void) {
  pthread_mutex_lock(&lock);
  const ts_cuda_fake now = fake;
  pthread_mutex_unlock(&lock);
  return now;
}

void ts_cuda_fake_hold(void *stream) {
  pthread_mutex_lock(&lock);
  held = stream;
  pthread_cond_broadcast(&moved);
  pthread_mutex_unlock(&lock);
}

void *ts_cuda_fake_stream(void) {
  return newest;
}

void ts_cuda_fake_heal(void) {
  pthread_mutex_lock(&lock);
  faulty = false;
  pthread_mutex_unlock(&lock);
}

void ts_cuda_fake_drain(void *stream) {
  const struct CUstream_st *s = stream;
  pthread_mutex_lock(&lock);
  while (s->first) pthread_cond_wait(&moved, &lock);
  pthread_mutex_unlock(&lock);
}

/* Blocks that are known: their places, and whose they are.  Who links
 * cuda_fake_look.c has memory of another kind, and a look at all work. */
__attribute__((weak)) void *ts_fake_memory(size_t bytes, bool device) {
  (void)device;
  return malloc(bytes);
}

__attribute__((weak)) void ts_fake_memory_end(void *p, size_t bytes) {
  (void)bytes;
  free(p);
}

__attribute__((weak)) void ts_fake_look(const ts_work *w, bool fresh) {
  (void)w, (void)fresh;
}

enum { BLOCKS = 4096 };
static struct {
  char *at;
  size_t bytes;
  bool device;
} known[BLOCKS];

static void keep_in_mind(char *at, size_t bytes, bool device) {
  int i = 0;
  while (i < BLOCKS && known[i].at) i++;
  if (i == BLOCKS) abort();
  known[i].at = at;
  known[i].bytes = bytes;
  known[i].device = device;
}

/* Under lock; its bytes. */
static size_t forget(const char *at) {
  for (int i = 0; i < BLOCKS; i++) {
    if (known[i].at != at) continue;
    known[i].at = NULL;
    return known[i].bytes;
  }
  abort();
}

static void give_back(char *at) {
  ts_fake_memory_end(at, forget(at));
  fake.blocks--;
}

bool ts_fake_within(const void *p, size_t bytes) {
  bool has = false;
  const char *from = p;
  for (int i = 0; i < BLOCKS && !has; i++)
    has = known[i].at && from >= known[i].at &&
          from + bytes <= known[i].at + known[i].bytes;
  return has;
}

bool ts_fake_knows(const void *p, bool *device) {
  for (int i = 0; i < BLOCKS; i++) {
    const char *at = known[i].at;
    if (!at || (const char *)p < at || (const char *)p >= at + known[i].bytes)
      continue;
    *device = known[i].device;
    return true;
  }
  return false;
}

/* ---- streams ------------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void ts_fake_move(const ts_work *w) {
  if (w->kind == COPY)
    memmove(w->dst, w->src, w->bytes);
  else if (w->kind == SET)
    memset(w->dst, w->value, w->bytes);
  else if (w->kind == CALL)
    w->call(w->dst);
  else if (w->kind == LAUNCH)
    ts_fake_launch_run(w);
}

/* Under lock, but for the copies. */
static void execute(const ts_work *w) {
  switch (w->kind) {
  case COPY:
  case SET:
  case LAUNCH:
    ts_fake_look(w, false);
    pthread_mutex_unlock(&lock);
    ts_fake_move(w);
    pthread_mutex_lock(&lock);
    break;
  case GRAPH:
    fake.graphs++;
    pthread_mutex_unlock(&lock);
    ts_fake_run(w->run);
    pthread_mutex_lock(&lock);
    break;
  case CALL:
    pthread_mutex_unlock(&lock);
    w->call(w->dst);
    free(w->dst);
    pthread_mutex_lock(&lock);
    break;
  case RECORD:
    w->event->reached = w->number;
    w->event->time = now();
    break;
  case FREE:
    give_back(w->dst);
    break;
  case FAULT:
    faulty = true;
    break;
  case WAIT:
  case WORD:
    break;
  }
}

/* As CUDA compares: cyclically. */
static bool has_come(const ts_work *w) {
  const uint64_t now_is =
      __atomic_load_n((const uint64_t *)w->src, __ATOMIC_ACQUIRE);
  return (int64_t)(now_is - w->number) >= 0;
}

static bool ready(const struct CUstream_st *s, const ts_work *w) {
  if (w->kind == WORD && !has_come(w) && !faulty) return false;
  return s != held &&
         (w->kind != WAIT || w->event->reached >= w->number || faulty);
}

static void *serve(void *arg) {
  struct CUstream_st *s = arg;
  pthread_mutex_lock(&lock);
  for (;;) {
    ts_work *w = s->first;
    if (!w && s->stop) break;
    if (w && w->kind == WORD && !ready(s, w)) { /* nobody says so */
      pthread_mutex_unlock(&lock);
      usleep(100);
      pthread_mutex_lock(&lock);
      continue;
    }
    if (!w || !ready(s, w)) {
      pthread_cond_wait(&moved, &lock);
      continue;
    }
    if (!faulty || w->kind == FREE || w->kind == RECORD) execute(w);
    s->first = w->next;
    if (!s->first) s->last = NULL;
    free(w);
    pthread_cond_broadcast(&moved);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* Under lock. */
static void append_work(struct CUstream_st *s, ts_work *w) {
  if (s->last)
    s->last->next = w;
  else
    s->first = w;
  s->last = w;
  pthread_cond_broadcast(&moved);
}

/* Once anybody uses it; no other stream waits for it. */
static struct CUstream_st *default_stream(void) {
  static struct CUstream_st *s;
  pthread_mutex_lock(&lock);
  fake.by_default++;
  const bool fresh = !s;
  if (fresh) s = calloc(1, sizeof *s);
  if (!s || (fresh && pthread_create(&s->thread, NULL, serve, s) != 0)) abort();
  if (fresh) {
    s->older = all;
    all = s;
  }
  pthread_mutex_unlock(&lock);
  return s;
}

void ts_cuda_fake_drop(void *stream) {
  struct CUstream_st *s = stream;
  pthread_mutex_lock(&lock);
  if (s != held) abort(); /* it is at work */
  while (s->first) {
    ts_work *w = s->first;
    s->first = w->next;
    free(w);
  }
  s->last = NULL;
  held = NULL;
  pthread_cond_broadcast(&moved);
  pthread_mutex_unlock(&lock);
}

cudaError_t enqueue(cudaStream_t s, ts_work work) {
  ts_work *w = malloc(sizeof *w);
  bool done;
  if (!w) abort();
  if (!s) s = default_stream();
  *w = work;
  w->next = NULL;
  pthread_mutex_lock(&lock);
  ts_fake_look(w, true);
  const cudaError_t captured = ts_fake_capture(s, w, &done);
  if (done) {
    free(w);
    pthread_mutex_unlock(&lock);
    return answer(captured);
  }
  if (w->kind == RECORD) w->number = ++w->event->recorded;
  if (w->kind == WAIT) w->number = w->event->recorded;
  if (w->kind == RECORD && !s->first && s != held) {
    execute(w); /* at once, as by a device that is never busy elsewhere */
    free(w);
  } else {
    append_work(s, w);
  }
  const cudaError_t e = answer(cudaSuccess);
  pthread_mutex_unlock(&lock);
  return e;
}

void ts_cuda_fake_fault(void *stream) {
  (void)enqueue(stream, (ts_work){.kind = FAULT});
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
  struct CUstream_st *s = calloc(1, sizeof *s);
  if (!s || flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  if (pthread_create(&s->thread, NULL, serve, s) != 0) abort();
  pthread_mutex_lock(&lock);
  fake.streams++;
  s->older = all;
  all = s;
  pthread_mutex_unlock(&lock);
  *out = newest = s;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags,
                                         int priority) {
  if (priority > 0 || priority < -5) return cudaErrorInvalidValue;
  return cudaStreamCreateWithFlags(out, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
  pthread_mutex_lock(&lock);
  s->stop = true;
  fake.streams--;
  struct CUstream_st **at = &all;
  while (*at != s) at = &(*at)->older;
  *at = s->older;
  pthread_cond_broadcast(&moved);
  pthread_mutex_unlock(&lock);
  pthread_join(s->thread, NULL);
  free(s);
  return cudaSuccess;
}

void ts_fake_end_capture(const struct CUgraph_st *g) {
  for (struct CUstream_st *s = all; s; s = s->older)
    if (s->front.graph == g) s->front = (ts_front){0};
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (!s) s = default_stream();
  pthread_mutex_lock(&lock);
  if (s->front.graph)
    ts_fake_spoil(s->front.graph, cudaErrorStreamCaptureUnsupported);
  while (s->first) pthread_cond_wait(&moved, &lock);
  const cudaError_t e = answer(cudaSuccess);
  pthread_mutex_unlock(&lock);
  return e;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t s) {
  if (kind != cudaMemcpyDefault && kind != cudaMemcpyDeviceToDevice &&
      kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyHostToDevice)
    return answer(cudaErrorInvalidValue);
  return enqueue(
      s, (ts_work){.kind = COPY, .dst = dst, .src = src, .bytes = bytes});
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes,
                            cudaStream_t s) {
  return enqueue(
      s, (ts_work){.kind = SET, .dst = dst, .value = value, .bytes = bytes});
}

/* Small: a row each. */
cudaError_t cudaMemset2DAsync(void *dst, size_t pitch, int value, size_t width,
                              size_t height, cudaStream_t s) {
  if (width > pitch) return answer(cudaErrorInvalidValue);
  for (size_t i = 0; i < height; i++)
    (void)enqueue(s, (ts_work){.kind = SET,
                               .dst = (char *)dst + i * pitch,
                               .value = value,
                               .bytes = width});
  return answer(cudaSuccess);
}

void ts_cuda_fake_call(void *stream, void (*run)(void *), const void *arg,
                       size_t bytes) {
  void *copy = malloc(bytes);
  if (!copy) abort();
  memcpy(copy, arg, bytes);
  (void)enqueue(stream, (ts_work){.kind = CALL, .dst = copy, .call = run});
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block,
                             void **value, size_t shared, cudaStream_t s) {
  const struct cudaKernelNodeParams p = {.func = (void *)(uintptr_t)kernel,
                                         .gridDim = grid,
                                         .blockDim = block,
                                         .sharedMemBytes = (unsigned)shared,
                                         .kernelParams = value};
  cudaError_t e;
  const ts_work w = ts_fake_launch_of(&p, &e);
  if (e != cudaSuccess) return ts_fake_answer(e);
  pthread_mutex_lock(&ts_fake_lock);
  ts_fake_counts.launches++;
  pthread_mutex_unlock(&ts_fake_lock);
  return ts_fake_enqueue(s, w);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags) {
  if (flags) return answer(cudaErrorInvalidValue);
  return enqueue(s, (ts_work){.kind = WAIT, .event = e});
}

/* ---- the driver ---------------------------------------------------------- */

static CUresult wait_value(CUstream s, CUdeviceptr p, cuuint64_t least,
                           unsigned flags) {
  if (flags != CU_STREAM_WAIT_VALUE_GEQ || p % 8)
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  fake.word_waits++;
  pthread_mutex_unlock(&lock);
  (void)enqueue((cudaStream_t)s, (ts_work){.kind = WORD,
                                           .src = (const void *)(uintptr_t)p,
                                           .number = least});
  return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

static CUresult device_attribute(int *value, CUdevice_attribute which,
                                 CUdevice device) {
  (void)device;
  *value = which == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS &&
           !getenv("TESSERA_FAKE_NO_WORDS");
  return CUDA_SUCCESS;
}

static cudaError_t entry_of(const char *name, void **fn,
                            enum cudaDriverEntryPointQueryResult *found) {
  *fn = !strcmp(name, "cuStreamWaitValue64")    ? (void *)wait_value
        : !strcmp(name, "cuDeviceGet")          ? (void *)device_get
        : !strcmp(name, "cuDeviceGetAttribute") ? (void *)device_attribute
                                                : NULL;
  *found =
      *fn ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return answer(cudaSuccess);
}

#if CUDART_VERSION >= 12050
cudaError_t
cudaGetDriverEntryPointByVersion(const char *name, void **fn, unsigned version,
                                 unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *found) {
  (void)version, (void)flags;
  return entry_of(name, fn, found);
}
#elif CUDART_VERSION >= 12000
cudaError_t
cudaGetDriverEntryPoint(const char *name, void **fn, unsigned long long flags,
                        enum cudaDriverEntryPointQueryResult *found) {
  (void)flags;
  return entry_of(name, fn, found);
}
#endif

/* ---- events -------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  struct CUevent_st *e = calloc(1, sizeof *e);
  if (!e) abort();
  e->timed = !(flags & cudaEventDisableTiming);
  pthread_mutex_lock(&lock);
  if (++fake.events > fake.events_most) fake.events_most = fake.events;
  pthread_mutex_unlock(&lock);
  *out = e;
  return cudaSuccess;
}

/* Who destroys an event without times has waited for it.  Its memory stays:
 * another stream may not have come to its wait yet, as CUDA allows. */
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  pthread_mutex_lock(&lock);
  if (e->reached < e->recorded && !e->timed && !faulty) abort();
  fake.events--;
  pthread_mutex_unlock(&lock);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  return enqueue(s, (ts_work){.kind = RECORD, .event = e});
}

cudaError_t cudaEventQuery(cudaEvent_t e) {
  pthread_mutex_lock(&lock);
  const bool reached = e->reached >= e->recorded;
  const cudaError_t a =
      e->captured ? ts_fake_spoil(e->front.graph, cudaErrorCapturedEvent)
                  : answer(reached || faulty ? cudaSuccess : cudaErrorNotReady);
  pthread_mutex_unlock(&lock);
  return a;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
  pthread_mutex_lock(&lock);
  const bool ready_both = a->reached && b->reached &&
                          a->reached == a->recorded &&
                          b->reached == b->recorded;
  *ms = (float)(1e3 * (b->time - a->time));
  const cudaError_t e =
      answer(!a->timed || !b->timed ? cudaErrorInvalidResourceHandle
             : ready_both           ? cudaSuccess
                                    : cudaErrorNotReady);
  pthread_mutex_unlock(&lock);
  return e;
}

/* ---- memory -------------------------------------------------------------- */

static cudaError_t give_out(void **p, size_t bytes, bool device) {
  pthread_mutex_lock(&lock);
  *p = bytes < (size_t)1 << 40 ? ts_fake_memory(bytes, device) : NULL;
  if (!*p) {
    pthread_mutex_unlock(&lock);
    return answer(cudaErrorMemoryAllocation);
  }
  memset(*p, 0x5a, bytes); /* memory is not zeroed */
  keep_in_mind(*p, bytes, device);
  fake.blocks++;
  pthread_mutex_unlock(&lock);
  return answer(cudaSuccess);
}

static bool busy(void) {
  for (const struct CUstream_st *s = all; s; s = s->older)
    if (s->first && s != held) return true;
  return false;
}

/* As CUDA's, it waits for what is under way. */
static cudaError_t take_back(void *p) {
  pthread_mutex_lock(&lock);
  while (busy() && !faulty) pthread_cond_wait(&moved, &lock);
  if (ts_fake_capturing()) abort(); /* what is captured may use it */
  give_back(p);
  pthread_mutex_unlock(&lock);
  return answer(cudaSuccess);
}

cudaError_t cudaMalloc(void **p, size_t bytes) {
  return give_out(p, bytes, true);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a,
                                     const void *p) {
  bool device = false;
  memset(a, 0, sizeof *a);
  pthread_mutex_lock(&lock);
  a->type = !ts_fake_knows(p, &device) ? cudaMemoryTypeUnregistered
            : device                   ? cudaMemoryTypeDevice
                                       : cudaMemoryTypeHost;
  pthread_mutex_unlock(&lock);
  return answer(cudaSuccess);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags) {
  (void)flags;
  return give_out(p, bytes, false);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags) {
  (void)flags;
  pthread_mutex_lock(&lock);
  keep_in_mind(p, bytes, false);
  pthread_mutex_unlock(&lock);
  return answer(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *p) {
  pthread_mutex_lock(&lock);
  (void)forget(p);
  pthread_mutex_unlock(&lock);
  return answer(cudaSuccess);
}

cudaError_t cudaHostGetDevicePointer(void **seen, void *p, unsigned flags) {
  (void)flags;
  *seen = p;
  return answer(cudaSuccess);
}

cudaError_t cudaFree(void *p) {
  return take_back(p);
}

cudaError_t cudaFreeHost(void *p) {
  return take_back(p);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool,
                              const struct cudaMemPoolProps *props) {
  *pool = (cudaMemPool_t)&fake;
  return answer(props->location.id == fake.device ? cudaSuccess
                                                  : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                    enum cudaMemPoolAttr attr, void *value) {
  (void)pool, (void)attr, (void)value;
  return answer(cudaSuccess);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  (void)pool;
  return answer(cudaSuccess);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
  (void)pool, (void)bytes;
  return answer(cudaSuccess);
}

cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t s) {
  (void)pool;
  if (s->front.graph) abort(); /* would be a node */
  return give_out(p, bytes, true);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
  return enqueue(s, (ts_work){.kind = FREE, .dst = p});
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  *free_bytes = (size_t)3 << 30;
  *total = (size_t)4 << 30;
  return answer(cudaSuccess);
}

/* ---- the GPU ------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *n) {
  const char *asked = getenv("TESSERA_FAKE_GPUS");
  *n = asked ? atoi(asked) : 2;
  return answer(*n > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  fake.device = device;
  return answer(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "a fake");
  p->uuid.bytes[0] = (char)device;
  return answer(cudaSuccess);
}

/* Who links cuda_fake_launch.c has another. */
__attribute__((weak)) int ts_fake_attribute(enum cudaDeviceAttr which) {
  return which == cudaDevAttrComputeCapabilityMajor   ? 7
         : which == cudaDevAttrComputeCapabilityMinor ? 5
                                                      : 1;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which,
                                   int device) {
  (void)device;
  *value = ts_fake_attribute(which);
  return answer(cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *low, int *high) {
  *low = 0;
  *high = -5;
  return answer(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = 13000;
  return answer(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = 13000;
  return answer(cudaSuccess);
}

cudaError_t cudaGetDevice(int *device) {
  *device = fake.device;
  return answer(cudaSuccess);
}

cudaError_t cudaPeekAtLastError(void) {
  return last_error;
}

cudaError_t cudaGetLastError(void) {
  const cudaError_t e = last_error;
  last_error = cudaSuccess;
  return e;
}

const char *cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorIllegalAddress     ? "a fault of the device"
         : e == cudaErrorMemoryAllocation ? "no memory"
                                          : "an error";
}

const char *cudaGetErrorName(cudaError_t e) {
  return e == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaError";
}
