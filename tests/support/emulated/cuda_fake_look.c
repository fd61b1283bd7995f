/* cuda_fake_look.c - memory of the fake CUDA runtime at addresses that are
 * used once, and a look at what copies, sets and launches name: memory of the
 * device or page-locked, in a block that is there, when it is enqueued and when
 * its stream gets to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/emulated/cuda_fake_impl.h"

/* Device memory, then page-locked memory. */
static const size_t RANGE = (size_t)1 << 42;
enum { PAGE = 4096 };
static char *range;
static size_t used[2];

static size_t pages(size_t bytes) {
  return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* A page that is nobody's lies behind each. */
void *ts_fake_memory(size_t bytes, bool device) {
  const int which = !device;
  if (!range) {
    void *p = mmap(NULL, 2 * RANGE, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    range = p;
  }
  char *at = range + (size_t)which * RANGE + used[which];
  if (bytes > RANGE - used[which]) return NULL;
  used[which] += pages(bytes) + PAGE;
  return mprotect(at, pages(bytes), PROT_READ | PROT_WRITE) ? NULL : at;
}

void ts_fake_memory_end(void *p, size_t bytes) {
  const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(p, pages(bytes), PROT_NONE, how, -1, 0) == MAP_FAILED) abort();
}

/* ---- what is named ------------------------------------------------------- */

static bool is_ours(uint64_t p) {
  const uint64_t from = (uint64_t)(uintptr_t)range;
  return range && p >= from && p < from + 2 * RANGE;
}

/* Memory of the process that no GPU sees. */
static bool is_hosts(uint64_t p) {
  unsigned char there;
  return p >= UINT64_C(1) << 32 && p < UINT64_C(1) << 47 && !is_ours(p) &&
         !ts_fake_within((void *)(uintptr_t)p, 0) &&
         mincore((void *)(uintptr_t)(p / PAGE * PAGE), 1, &there) == 0;
}

static bool look_at(const char *what, const char *verb, const void *p,
                    size_t bytes) {
  const uint64_t at = (uint64_t)(uintptr_t)p;
  if (!is_ours(at)) return false;
  if (!ts_fake_within(p, bytes))
    ts_fake_complain("%s %s %zu bytes at %p, which are in no block", what, verb,
                     bytes, p);
  return true;
}

/* A small number with whatever was behind it on the stack. */
static bool is_number(uint64_t x) {
  return (x & UINT32_MAX) < 1 << 20;
}

/* Behind the last byte is a place, too. */
static void look_at_launch(const ts_fake_launch *l) {
  for (size_t i = 0; i + 8 <= l->bytes; i += 8) {
    uint64_t x;
    memcpy(&x, l->params + i, sizeof x);
    const char *at = (const char *)(uintptr_t)x;
    if (is_number(x)) continue;
    if (is_ours(x) && !ts_fake_within(at, 0))
      ts_fake_complain("%s is given %p, in no block, at byte %zu", l->name,
                       (const void *)at, i);
    else if (is_hosts(x))
      ts_fake_complain("%s is given %p, the host's, at byte %zu", l->name,
                       (const void *)at, i);
  }
}

void ts_fake_look(const ts_work *w, bool fresh) {
  if (w->kind == LAUNCH) look_at_launch(w->launch);
  if (w->kind == SET && !look_at("a set", "of", w->dst, w->bytes))
    ts_fake_complain("a set of %p, the host's", w->dst);
  if (w->kind != COPY) return;
  const bool to = look_at("a copy", "to", w->dst, w->bytes);
  const bool from = look_at("a copy", "from", w->src, w->bytes);
  if (fresh && (!to || !from)) ts_fake_pageable();
}
