/* simt_engine.h - the threads of a block as fibers: what simt.cc, which chooses
 * whose turn it is, and simt_wait.cc, where they wait for each other, share. */
#pragma once

#include <cuda_runtime.h>
#include <stdlib.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#if defined(TS_SIMT_RACES)
#include <sanitizer/tsan_interface.h>
static const bool IS_RACE_BUILD = true;
static inline void release(void *at) {
  __tsan_release(at);
}
static inline void acquire(void *at) {
  __tsan_acquire(at);
}
#else
static const bool IS_RACE_BUILD = false;
static inline void release(void *) {
}
static inline void acquire(void *) {
}
#endif

#include "tests/support/emulated/simt.h"

enum { THREADS = 1024, STACK = 256 << 10, PAGE = 4096, WARP = 32 };

/* ---- fibers -------------------------------------------------------------- */

struct context {
#if defined(__x86_64__)
  void *sp;
#else
  ucontext_t u;
#endif
#if defined(TS_SIMT_RACES)
  void *tsan;
#endif
};

#if defined(__x86_64__)
/* Saves the registers that a call keeps on the stack and changes to the other
 * stack.  Not swapcontext, which asks the kernel for signal masks each time. */
extern "C" void ts_fiber_switch(void **from_sp, void *to_sp);
#endif

static inline void context_make(context *c, char *stack, void (*entry)(void)) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack, STACK); /* a run that was given up */
#endif
#if defined(__x86_64__)
  void **top = (void **)(stack + STACK);
  *--top = NULL; /* entry does not return; and the ABI's alignment */
  *--top = (void *)entry;
  for (int i = 0; i < 6; i++) *--top = NULL;
  c->sp = top;
#else
  getcontext(&c->u);
  c->u.uc_stack.ss_sp = stack;
  c->u.uc_stack.ss_size = STACK;
  c->u.uc_link = NULL;
  makecontext(&c->u, entry, 0);
#endif
#if defined(TS_SIMT_RACES)
  if (!c->tsan) c->tsan = __tsan_create_fiber(0);
#endif
}

static inline void context_switch(context *from, context *to) {
#if defined(TS_SIMT_RACES)
  __tsan_switch_to_fiber(to->tsan, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__x86_64__)
  ts_fiber_switch(&from->sp, to->sp);
#else
  swapcontext(&from->u, &to->u);
#endif
}

/* ---- the block that runs ------------------------------------------------- */

struct waiting {
  ts_emulate_op op;
  uint32_t mask;
  uint64_t value, result;
  int lane; /* whose value is wanted */
  const char *file;
  int line;
  uint32_t with, odd; /* lanes that took part, those at an odd operation */
};

struct fiber {
  context c;
  char *stack;
};

typedef enum { FRESH, READY, WAITING, DONE } thread_state;

struct thread {
  uint3 index;
  thread_state state;
  fiber *on;
  waiting w;
  char mark[2]; /* what the thread sanitizer knows operations by */
};

/* One launch at a time; kept for the next one. */
struct engine {
  fiber fibers[THREADS], *free_fiber[THREADS];
  int n_fibers, n_free;
  thread threads[THREADS];
  fiber home; /* of who launches */
  const ts_simt_launch *launch;
  int n_threads, n_warps, n_done, n_at_barrier, n_barriers, running;
  /* A bit for each lane of each warp: fresh or ready; not at its end; at an odd
   * one of its warp operations. */
  uint32_t open[WARP], alive[WARP], odd[WARP];
  int warp_order[WARP], at_warp, at_lane, idle;
  bool down;
  uint64_t rng;
  bool failed;
  char message[1024];
  char start, end, barrier[2]; /* marks */
  engine *next;
};

extern __thread engine *ts_simt_now; /* of this thread, while a launch runs */

static inline int warp_size(const engine *e, int warp) {
  const int left = e->n_threads - warp * WARP;
  return left < WARP ? left : WARP;
}

static inline bool same_place(const waiting *a, const waiting *b) {
  return a->line == b->line &&
         (a->file == b->file || !strcmp(a->file, b->file));
}

/* simt.cc */
void ts_simt_set_state(engine *, int i, thread_state);
/* Leaves fiber FROM for the thread whose turn it is, or for who launched. */
void ts_simt_leave(engine *, fiber *from);

/* simt_wait.cc: thread I, which waits for W, is what is wrong with the launch
 * (the first to be is kept); nobody can go on; nobody waits for thread I more,
 * which has come to its end. */
void ts_simt_fail(engine *, int i, const waiting *w, const char *what);
void ts_simt_fail_stuck(engine *);
void ts_simt_without(engine *, int i);
