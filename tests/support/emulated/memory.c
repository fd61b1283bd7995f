/* memory.c - memory of the GPU and page-locked memory, at addresses that are
 * used once: who touches what was given back faults.  Copies, sets and launches
 * are looked at: what they name is to be memory of the device or page-locked,
 * in a block that is there, when they are enqueued and when their stream gets
 * to them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/emulated/runtime.h"

#define lock ts_emulated_lock
#define counts ts_emulated_counted

/* ---- pages --------------------------------------------------------------- */

/* Device memory, then page-locked memory: as many addresses as there are, less
 * in a build with sanitizers. */
static size_t range_bytes = (size_t)1 << 42;
enum { PAGE = 4096 };
static const size_t HUGE_BLOCK = (size_t)1 << 30;
static char *range;
static size_t used[2];

static size_t pages(size_t bytes) {
  return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* A parameter of 8 bytes whose low half is less is taken for two numbers.  The
 * range begins where that half is 0, so that every run meets the case. */
enum { SMALL = 1 << 20 };
static const size_t HALF = (size_t)1 << 32;

/* Bytes from P to the next address that can't be taken for numbers; 0 where P
 * is one. */
static size_t bytes_of_numbers(const char *p) {
  const uint32_t low = (uint32_t)(uintptr_t)p;
  return low < SMALL ? SMALL - low : 0;
}

/* Addresses are used once, pages again: to fill fresh ones is most of what a
 * large block costs.  Those of the last block of each size, from SPARE_LEAST
 * to twice that and so on, wait here, where nobody may touch them. */
enum { SPARES = 9, SPARE_LEAST = 64 << 10 };
static struct spare {
  void *at;
  size_t bytes;
} spare[SPARES];

/* Where one of so many bytes goes; NULL: it is not kept. */
static struct spare *spare_of(size_t bytes) {
  int i = 0;
  if (bytes < SPARE_LEAST) return NULL;
  while (i < SPARES && bytes >= (size_t)SPARE_LEAST << (i + 1)) i++;
  return i < SPARES ? &spare[i] : NULL;
}

static void pages_forget(void *p, size_t bytes) {
  const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(p, bytes, PROT_NONE, how, -1, 0) == MAP_FAILED) abort();
}

static void pages_drop(void *p, size_t bytes) {
  bytes = pages(bytes);
  struct spare *s = spare_of(bytes);
  if (!s || mprotect(p, bytes, PROT_NONE)) {
    pages_forget(p, bytes);
    return;
  }
  if (s->at) pages_forget(s->at, s->bytes);
  *s = (struct spare){p, bytes};
}

/* Moves pages to AT, where a block of about this size left enough of them. */
static void pages_move(void *at, size_t bytes) {
  const int how = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  struct spare *s = spare_of(bytes);
  if (!s || s->bytes < bytes ||
      mremap(s->at, bytes, bytes, how, at) == MAP_FAILED)
    return;
  pages_forget(s->at, s->bytes);
  *s = (struct spare){0};
}

/* A page that is nobody's lies behind each; NULL: no room. */
static void *pages_take(size_t bytes, bool device) {
  const int which = !device;
  if (!range) {
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *p = MAP_FAILED;
    for (range_bytes *= 2; p == MAP_FAILED && range_bytes > PAGE;) {
      range_bytes /= 2;
      p = mmap(NULL, 2 * range_bytes + HALF, PROT_NONE, how, -1, 0);
    }
    if (p == MAP_FAILED) abort();
    range = (char *)p + (HALF - (uintptr_t)p % HALF);
  }
  char *at = range + (size_t)which * range_bytes + used[which];
  used[which] += bytes_of_numbers(at);
  at += bytes_of_numbers(at);
  if (bytes + used[which] > range_bytes) return NULL;
  used[which] += pages(bytes) + PAGE;
  pages_move(at, pages(bytes));
  return mprotect(at, pages(bytes), PROT_READ | PROT_WRITE) ? NULL : at;
}

/* ---- blocks -------------------------------------------------------------- */

typedef struct ts_known {
  char *at;
  size_t bytes;
  bool device;
} ts_known;
static ts_known *known; /* (n_known) by address */
static int n_known, room;

/* The place of the first block that begins behind P. */
static int behind(const char *p) {
  int from = 0, to = n_known;
  while (from < to) {
    const int mid = from + (to - from) / 2;
    if (known[mid].at <= p)
      from = mid + 1;
    else
      to = mid;
  }
  return from;
}

static void keep_in_mind(char *at, size_t bytes, bool device) {
  const int i = behind(at);
  if (n_known == room) {
    room = 2 * room + 64;
    known = realloc(known, (size_t)room * sizeof *known);
    if (!known) abort();
  }
  memmove(&known[i + 1], &known[i], (size_t)(n_known - i) * sizeof *known);
  known[i] = (ts_known){at, bytes, device};
  n_known++;
}

/* Its bytes. */
static size_t forget(const char *at) {
  const int i = behind(at) - 1;
  if (i < 0 || known[i].at != at) abort();
  const size_t bytes = known[i].bytes;
  n_known--;
  memmove(&known[i], &known[i + 1], (size_t)(n_known - i) * sizeof *known);
  return bytes;
}

/* All of BYTES at P lies in one block; behind its last byte is a place, too. */
static const ts_known *within(const void *p, size_t bytes) {
  const char *from = p;
  const int i = behind(from) - 1;
  return i >= 0 && from + bytes <= known[i].at + known[i].bytes ? &known[i]
                                                                : NULL;
}

bool ts_memory_knows(const void *p, bool *device) {
  const ts_known *b = within(p, 1);
  if (b) *device = b->device;
  return b != NULL;
}

cudaError_t ts_memory_give_out(void **p, size_t bytes, bool device) {
  *p = bytes < (size_t)1 << 40 ? pages_take(bytes, device) : NULL;
  if (!*p) return cudaErrorMemoryAllocation;
  /* Memory is not zeroed; of huge blocks nobody fills the pages. */
  if (bytes < HUGE_BLOCK) memset(*p, ts_fill_byte(), bytes);
  keep_in_mind(*p, bytes, device);
  counts.blocks++;
  return cudaSuccess;
}

void *ts_memory_addresses(size_t bytes) {
  void *p = bytes < (size_t)1 << 40 ? pages_take(bytes, true) : NULL;
  if (!p) return NULL;
  if (mprotect(p, bytes, PROT_NONE)) abort();
  keep_in_mind(p, bytes, true);
  counts.blocks++;
  return p;
}

/* Zeroes of huge blocks are pages that are not there. */
void ts_memory_set(void *p, int byte, size_t bytes) {
  if (byte || bytes < HUGE_BLOCK || (uintptr_t)p % PAGE ||
      madvise(p, bytes / PAGE * PAGE, MADV_DONTNEED))
    memset(p, byte, bytes);
  else
    memset((char *)p + bytes / PAGE * PAGE, 0, bytes % PAGE);
}

void ts_memory_give_back(void *p) {
  pages_drop(p, forget(p));
  counts.blocks--;
}

/* ---- what work names ----------------------------------------------------- */

static bool is_ours(uint64_t p) {
  const uint64_t from = (uint64_t)(uintptr_t)range;
  return range && p >= from && p < from + 2 * range_bytes;
}

/* Memory of the process that no GPU sees: above what sanitizers keep their
 * notes in, as two small numbers side by side would point there. */
static bool is_hosts(uint64_t p) {
  unsigned char there;
  return p >= UINT64_C(0x100080000000) && p < UINT64_C(1) << 47 &&
         !is_ours(p) && !within((void *)(uintptr_t)p, 0) &&
         mincore((void *)(uintptr_t)(p / PAGE * PAGE), 1, &there) == 0;
}

static bool look_at(const char *what, const char *verb, const void *p,
                    size_t bytes) {
  if (!is_ours((uint64_t)(uintptr_t)p)) return within(p, bytes) != NULL;
  if (!within(p, bytes))
    ts_complain("%s %s %zu bytes at %p, which are in no block", what, verb,
                bytes, p);
  return true;
}

/* Bytes of the parameters that may be addresses: a put takes its bytes along
 * behind where they go, and those are anybody's numbers. */
static size_t bytes_of_addresses(const ts_launch *l) {
  return strstr(l->kernel->name, "ts_put_kernel") ? sizeof(void *) : l->bytes;
}

/* Parameters have no room that was not written: automatic variables of cuda/
 * begin with a pattern that is no address. */
static void look_at_launch(const ts_launch *l) {
  const size_t bytes = bytes_of_addresses(l);
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    uint64_t x;
    memcpy(&x, l->params + i, sizeof x);
    const void *at = (const void *)(uintptr_t)x;
    if ((uint32_t)x < SMALL) continue; /* a number, and padding */
    if (is_ours(x) && !within(at, 0))
      ts_complain("%s is given %p, in no block, at byte %zu", l->kernel->name,
                  at, i);
    else if (is_hosts(x) && !ts_gpu.reads_pages)
      ts_complain("%s is given %p, the host's, at byte %zu", l->kernel->name,
                  at, i);
  }
}

void ts_look(const ts_work *w, bool fresh) {
  if (w->kind == LAUNCH && w->launch->kernel) look_at_launch(w->launch);
  if (w->kind == SET && !look_at("a set", "of", w->dst, w->bytes))
    ts_complain("a set of %p, the host's", w->dst);
  if (w->kind != COPY) return;
  const bool to = look_at("a copy", "to", w->dst, w->bytes);
  const bool from = look_at("a copy", "from", w->src, w->bytes);
  if (!fresh) return;
  if (!to || !from) counts.pageable++;
  bool from_device = false, to_device = false;
  (void)ts_memory_knows(w->src, &from_device);
  (void)ts_memory_knows(w->dst, &to_device);
  if (from_device && !to_device) counts.to_host += (int64_t)w->bytes;
}

/* ---- CUDA's calls -------------------------------------------------------- */

static cudaError_t give_out(void **p, size_t bytes, bool device) {
  pthread_mutex_lock(&lock);
  const cudaError_t e = ts_memory_give_out(p, bytes, device);
  pthread_mutex_unlock(&lock);
  return ts_answer(e);
}

/* As CUDA's, it waits for what is under way. */
static cudaError_t take_back(void *p) {
  pthread_mutex_lock(&lock);
  ts_streams_settle();
  if (ts_capturing()) abort(); /* what is captured may use it */
  ts_memory_give_back(p);
  pthread_mutex_unlock(&lock);
  return ts_answer(cudaSuccess);
}

cudaError_t cudaMalloc(void **p, size_t bytes) {
  return give_out(p, bytes, true);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags) {
  (void)flags;
  return give_out(p, bytes, false);
}

cudaError_t cudaFree(void *p) {
  return take_back(p);
}

cudaError_t cudaFreeHost(void *p) {
  return take_back(p);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *p) {
  bool device = false;
  memset(a, 0, sizeof *a);
  pthread_mutex_lock(&lock);
  a->type = !ts_memory_knows(p, &device) ? cudaMemoryTypeUnregistered
            : device                     ? cudaMemoryTypeDevice
                                         : cudaMemoryTypeHost;
  pthread_mutex_unlock(&lock);
  return ts_answer(cudaSuccess);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags) {
  (void)flags;
  pthread_mutex_lock(&lock);
  keep_in_mind(p, bytes, false);
  pthread_mutex_unlock(&lock);
  return ts_answer(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *p) {
  pthread_mutex_lock(&lock);
  (void)forget(p);
  pthread_mutex_unlock(&lock);
  return ts_answer(cudaSuccess);
}

cudaError_t cudaHostGetDevicePointer(void **seen, void *p, unsigned flags) {
  (void)flags;
  *seen = p;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  *free_bytes = (size_t)3 << 30;
  *total = (size_t)4 << 30;
  return ts_answer(cudaSuccess);
}

/* ---- pools --------------------------------------------------------------- */

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool,
                              const cudaMemPoolProps *props) {
  *pool = (cudaMemPool_t)(void *)&counts;
  return ts_answer(props->location.id == counts.device ? cudaSuccess
                                                       : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attr,
                                    void *value) {
  (void)pool, (void)attr, (void)value;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  (void)pool;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
  (void)pool, (void)bytes;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t s) {
  (void)pool;
  if (s && s->front.graph) abort(); /* would be a node */
  return give_out(p, bytes, true);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
  return ts_enqueue(s, (ts_work){.kind = FREE, .dst = p});
}
