/* mem.c - counted allocation.
 *
 * Each block is preceded by a 64-byte head that says how large it is and what
 * for.  Large blocks are aligned to huge pages and ask for them: random reads
 * of tables spend their time in the TLB otherwise. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"

enum { HEAD = 64, HUGE_PAGE = 2 << 20, HUGE_FROM = 4 << 20 };

typedef struct ts_head {
  void *block; /* what free() takes */
  size_t bytes, counted;
  ts_tag tag;
} ts_head;

static atomic_int_fast64_t now[TS_TAG_COUNT][TS_SPACE_COUNT];
static atomic_int_fast64_t peak[TS_TAG_COUNT][TS_SPACE_COUNT];
static atomic_int_fast64_t total[TS_SPACE_COUNT], total_peak[TS_SPACE_COUNT];
static atomic_int_fast64_t n_blocks[TS_TAG_COUNT], n_allocs[TS_TAG_COUNT];
static atomic_int_fast64_t mapped, mapped_peak;

static void raise_to(atomic_int_fast64_t *top, int_fast64_t value) {
  int_fast64_t old = atomic_load(top);
  while (value > old && !atomic_compare_exchange_weak(top, &old, value)) {
  }
}

void ts_mem_count(ts_tag tag, ts_space space, int64_t delta) {
  raise_to(&peak[tag][space],
           atomic_fetch_add(&now[tag][space], delta) + delta);
  raise_to(&total_peak[space], atomic_fetch_add(&total[space], delta) + delta);
}

/* ---- memory in flight ---------------------------------------------------- */

typedef struct ts_level {
  atomic_int_fast64_t now, peak;
} ts_level;

static ts_level planned[TS_TAG_COUNT], used[TS_TAG_COUNT], held[TS_TAG_COUNT];
static atomic_int_fast64_t n_grown[TS_TAG_COUNT], grown[TS_TAG_COUNT];

static void level_add(ts_level *l, int64_t delta) {
  raise_to(&l->peak, atomic_fetch_add(&l->now, delta) + delta);
}

static ts_mem_stat level_of(ts_level *l) {
  return (ts_mem_stat){atomic_load(&l->now), atomic_load(&l->peak)};
}

void ts_mem_flight_plan(ts_tag tag, int64_t delta) {
  level_add(&planned[tag], delta);
  level_add(&held[tag], delta);
}

void ts_mem_flight_use(ts_tag tag, int64_t delta) {
  level_add(&used[tag], delta);
}

void ts_mem_flight_grow(ts_tag tag, int64_t delta) {
  level_add(&held[tag], delta);
  if (delta <= 0) return;
  atomic_fetch_add(&n_grown[tag], 1);
  atomic_fetch_add(&grown[tag], delta);
}

ts_ebc_batch_mem ts_mem_flight_of(ts_tag tag) {
  return (ts_ebc_batch_mem){level_of(&planned[tag]), level_of(&used[tag]),
                            level_of(&held[tag]), atomic_load(&n_grown[tag]),
                            atomic_load(&grown[tag])};
}

const char *ts_tag_text(ts_tag tag) {
  static const char *const text[] = {
#define TEXT(name, words) words,
      TS_TAG_LIST(TEXT)
#undef TEXT
  };
  return text[tag];
}

/* Builds with faults look, when a block is freed, whether somebody has written
 * behind its end; the address sanitizer does so by itself. */
#if defined(TS_FAULTS) && !defined(__SANITIZE_ADDRESS__)
enum { GUARD = 64 };
#else
enum { GUARD = 0 };
#endif
enum { GUARD_BYTE = 0xa5 };

static void check_guard(const char *end, ts_tag tag) {
  for (int i = 0; i < GUARD; i++) {
    if ((unsigned char)end[i] == GUARD_BYTE) continue;
    (void)fprintf(stderr, "BUG: written behind the end of memory for %s\n",
                  ts_tag_text(tag));
    abort();
  }
}

/* How many bytes the system gives for a block of BYTES.  Blocks end with whole
 * lines, but under the address sanitizer where they end. */
static size_t whole(size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  enum { LINE = 1 };
#else
  enum { LINE = 64 };
#endif
  return bytes < HUGE_FROM ? (bytes + GUARD + HEAD + LINE - 1) / LINE * LINE
                           : bytes + 2 * (size_t)HUGE_PAGE;
}

/* The data starts HEAD bytes into the aligned block, or for huge ones one
 * page before the aligned start holds the head. */
static void *allocate(size_t bytes, void **block) {
  if (bytes < HUGE_FROM) {
    size_t n = whole(bytes);
    if (posix_memalign(block, 64, n) != 0) return NULL;
    memset(*block, 0, n);
    return (char *)*block + HEAD;
  }
  if (bytes > SIZE_MAX - 2 * (size_t)HUGE_PAGE) return NULL;
  size_t n = whole(bytes);
  void *map = mmap(NULL, n, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return NULL;
  uintptr_t start =
      ((uintptr_t)map + HEAD + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  (void)madvise((void *)start, bytes, MADV_HUGEPAGE);
  *block = map;
  return (void *)start;
}

static ts_head *head_of(void *p) {
  return (ts_head *)((char *)p - HEAD);
}

static _Atomic int64_t n_failures;

int64_t ts_mem_failures(void) {
  return atomic_load(&n_failures);
}

static ts_err take(void *p, size_t bytes, size_t counted, ts_tag tag) {
  void *block = NULL, *data = NULL;
  if (bytes > 0) {
    if (!ts_fault("alloc")) data = allocate(bytes, &block);
    if (!data) {
      atomic_fetch_add(&n_failures, 1);
      return ts_fail(TS_ERR_NOMEM, "out of memory: %zu bytes for %s", bytes,
                     ts_tag_text(tag));
    }
    *head_of(data) = (ts_head){block, bytes, counted, tag};
    memset((char *)data + bytes, GUARD_BYTE, GUARD);
    atomic_fetch_add(&n_blocks[tag], 1);
    atomic_fetch_add(&n_allocs[tag], 1);
    ts_mem_count(tag, TS_SPACE_HOST, (int64_t)counted);
    const int64_t n = (int64_t)whole(bytes);
    raise_to(&mapped_peak, atomic_fetch_add(&mapped, n) + n);
  }
  memcpy(p, &data, sizeof data);
  return TS_OK;
}

ts_err ts_mem_alloc(void *p, size_t bytes, ts_tag tag) {
  return take(p, bytes, bytes, tag);
}

ts_err ts_mem_range(void *p, size_t bytes, ts_tag tag) {
  return take(p, bytes, 0, tag);
}

void ts_mem_give(void *p, size_t bytes) {
  ts_head *head = head_of(p);
  head->counted += bytes;
  ts_mem_count(head->tag, TS_SPACE_HOST, (int64_t)bytes);
}

int64_t ts_mem_n_allocs(ts_tag tag) {
  return atomic_load(&n_allocs[tag]);
}

void ts_mem_free(void *p) {
  if (!p) return;
  ts_head head = *head_of(p);
  check_guard((char *)p + head.bytes, head.tag);
  atomic_fetch_sub(&n_blocks[head.tag], 1);
  ts_mem_count(head.tag, TS_SPACE_HOST, -(int64_t)head.counted);
  atomic_fetch_sub(&mapped, (int64_t)whole(head.bytes));
  if (head.bytes < HUGE_FROM)
    free(head.block);
  else
    munmap(head.block, whole(head.bytes));
}

void ts_mem_free_each(void *const *p, size_t n) {
  for (size_t i = 0; i < n; i++) ts_mem_free(p[i]);
}

/* Leak checkers find some of the leaked blocks through this array. */
static void *_Atomic abandoned[64];
static atomic_uint n_abandoned;

void ts_mem_abandon(void *p) {
  if (!p) return;
  const ts_head *head = head_of(p);
  atomic_fetch_sub(&n_blocks[head->tag], 1);
  ts_mem_count(head->tag, TS_SPACE_HOST, -(int64_t)head->counted);
  abandoned[atomic_fetch_add(&n_abandoned, 1) % 64] = head->block;
}

ts_err ts_mem_reserve(void *p, size_t *capacity, size_t bytes, ts_tag tag) {
  void *old;
  if (bytes <= *capacity) return TS_OK;
  size_t wanted = bytes + bytes / 2;
  memcpy(&old, p, sizeof old);
  ts_mem_free(old);
  old = NULL;
  memcpy(p, &old, sizeof old);
  *capacity = 0;
  ts_err err = ts_mem_alloc(p, wanted, tag);
  if (err == TS_OK) *capacity = wanted;
  return err;
}

ts_err ts_mem_resize(void *p, size_t old_bytes, size_t bytes, ts_tag tag) {
  void *old, *fresh = NULL;
  memcpy(&old, p, sizeof old);
  TS_DO(ts_mem_alloc(&fresh, bytes, tag));
  if (old && fresh) memcpy(fresh, old, old_bytes < bytes ? old_bytes : bytes);
  ts_mem_free(old);
  memcpy(p, &fresh, sizeof fresh);
  return TS_OK;
}

ts_err ts_mem_extend(void *p, int64_t n, int64_t wanted, size_t size,
                     ts_tag tag) {
  return ts_mem_resize(p, (size_t)n * size, (size_t)wanted * size, tag);
}

ts_err ts_mem_strdup(char **p, const char *s) {
  size_t n = strlen(s) + 1;
  ts_err err = ts_mem_alloc(p, n, TS_TAG_MISC);
  if (err == TS_OK) memcpy(*p, s, n);
  return err;
}

ts_err ts_mem_array(void *p, int64_t n, size_t size, ts_tag tag) {
  if (n < 0 || (size && (uint64_t)n > (uint64_t)(SIZE_MAX / 4) / size))
    return ts_fail(TS_ERR_NOMEM,
                   "out of memory: %lld items of %zu bytes for %s",
                   (long long)n, size, ts_tag_text(tag));
  return ts_mem_alloc(p, (size_t)n * size, tag);
}

ts_mem_stat ts_mem_stat_of(ts_tag tag, ts_space space) {
  return (ts_mem_stat){atomic_load(&now[tag][space]),
                       atomic_load(&peak[tag][space])};
}

ts_mem_stat ts_mem_total(ts_space space) {
  return (ts_mem_stat){atomic_load(&total[space]),
                       atomic_load(&total_peak[space])};
}

ts_mem_stat ts_mem_mapped(void) {
  return (ts_mem_stat){atomic_load(&mapped), atomic_load(&mapped_peak)};
}

void ts_mem_forget_peaks(void) {
  atomic_store(&mapped_peak, atomic_load(&mapped));
  for (int s = 0; s < TS_SPACE_COUNT; s++) {
    for (int t = 0; t < TS_TAG_COUNT; t++)
      atomic_store(&peak[t][s], atomic_load(&now[t][s]));
    atomic_store(&total_peak[s], atomic_load(&total[s]));
  }
}

int64_t ts_mem_leaks(void) {
  int64_t n = 0;
  for (int t = 0; t < TS_TAG_COUNT; t++) {
    int64_t here = atomic_load(&n_blocks[t]);
    if (here)
      fprintf(stderr, "leak: %lld blocks, %lld bytes of %s\n", (long long)here,
              (long long)atomic_load(&now[t][0]), ts_tag_text((ts_tag)t));
    n += here;
  }
  return n;
}
