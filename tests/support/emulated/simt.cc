/* simt.cc - the threads of a launch as fibers: barriers and warp operations.
 *
 * A thread runs until it waits; then the next one goes on that can.  When none
 * can and some are left, they wait for each other for ever: that is reported.
 * What a warp operation gives is worked out for all of its lanes when the last
 * one comes, as a lane that has its result may be at the next one before the
 * others look.  A thread that ends leaves its stack to one that has not
 * begun, so a kernel without barriers needs a single stack.
 *
 * The thread sanitizer is told of each thread as of a fiber whose switches
 * order nothing; barriers and warp operations release and acquire.  So it
 * finds accesses that a missing barrier leaves unordered. */
#include "tests/support/emulated/simt.h"

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#if defined(TS_SIMT_RACES)
#include <sanitizer/tsan_interface.h>
static const bool IS_RACE_BUILD = true;
static void release(void *at) {
  __tsan_release(at);
}
static void acquire(void *at) {
  __tsan_acquire(at);
}
#else
static const bool IS_RACE_BUILD = false;
static void release(void *) {
}
static void acquire(void *) {
}
#endif

extern "C" {
#include "base/dtype.h"
}

enum { THREADS = 1024, STACK = 256 << 10, PAGE = 4096, WARP = 32 };

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;
__thread char *ts_emulated_shared;

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
/* What a call keeps goes to the stack, and the stack is changed: swapcontext
 * would ask the kernel for signal masks each time. */
extern "C" void ts_fiber_switch(void **from_sp, void *to_sp);
asm(".text\n"
    ".type ts_fiber_switch, @function\n"
    "ts_fiber_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n"
    "  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n"
    "  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size ts_fiber_switch, .-ts_fiber_switch\n");
#endif

static void context_make(context *c, char *stack, void (*entry)(void)) {
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

static void context_switch(context *from, context *to) {
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
  /* Of each warp, by lane: fresh or ready, not at its end, at an odd one of its
   * warp operations. */
  uint32_t open[WARP], alive[WARP], odd[WARP];
  int warp_order[WARP], at_warp, at_lane, idle;
  bool down;
  uint64_t rng;
  bool failed;
  char message[1024];
  char start, end, barrier[2]; /* marks */
  engine *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static engine *spare;
static __thread engine *now;

static const char *const op_names[] = {"nothing",
                                       "__syncthreads",
                                       "__syncwarp",
                                       "a shuffle",
                                       "a vote",
                                       "__match_any_sync",
                                       "__reduce_add_sync",
                                       "__reduce_min_sync",
                                       "__reduce_max_sync",
                                       "__reduce_and_sync",
                                       "__reduce_or_sync",
                                       "__reduce_xor_sync"};

static void fail(int i, const waiting *w, const char *what) {
  engine *e = now;
  if (e->failed) return;
  e->failed = true;
  snprintf(e->message, sizeof e->message,
           "block (%u, %u, %u), thread %d at %s:%d: %s (%s, mask %08x)",
           blockIdx.x, blockIdx.y, blockIdx.z, i, w->file, w->line, what,
           op_names[w->op], w->mask);
}

static bool same_place(const waiting *a, const waiting *b) {
  return a->line == b->line &&
         (a->file == b->file || !strcmp(a->file, b->file));
}

/* ---- whose turn it is ---------------------------------------------------- */

static uint64_t draw(engine *e) {
  e->rng = e->rng * UINT64_C(6364136223846793005) + 1442695040888963407;
  return e->rng >> 33;
}

static void set_state(engine *e, int i, thread_state s) {
  const uint32_t bit = UINT32_C(1) << i % WARP;
  if (s <= READY)
    e->open[i / WARP] |= bit;
  else
    e->open[i / WARP] &= ~bit;
  if (s == DONE) e->alive[i / WARP] &= ~bit;
  e->threads[i].state = s;
}

static int warp_size(const engine *e, int warp) {
  const int left = e->n_threads - warp * WARP;
  return left < WARP ? left : WARP;
}

/* Behind the last warp; a round in which nobody could go on is the last. */
static void next_round(engine *e) {
  e->at_warp = 0;
  e->idle++;
  e->down = e->launch->seed ? draw(e) & 1 : !e->down;
}

/* The next thread that can go on, or -1. */
static int pick(engine *e) {
  while (e->idle < 2) {
    if (e->at_warp == e->n_warps) next_round(e);
    const int place = e->down ? e->n_warps - 1 - e->at_warp : e->at_warp;
    const int warp = e->warp_order[place], n = warp_size(e, warp);
    while (e->open[warp] && e->at_lane < n) {
      const int lane = e->down ? n - 1 - e->at_lane : e->at_lane;
      const int i = warp * WARP + lane;
      e->at_lane++;
      if (e->threads[i].state > READY) continue;
      e->idle = 0;
      return i;
    }
    e->at_lane = 0;
    e->at_warp++;
  }
  return -1;
}

static void fiber_main();

static fiber *fiber_take(engine *e) {
  if (e->n_free) return e->free_fiber[--e->n_free];
  fiber *f = &e->fibers[e->n_fibers++];
  if (!f->stack) { /* with a page below that is not to be touched */
    char *p = (char *)mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == (char *)MAP_FAILED || mprotect(p, PAGE, PROT_NONE)) abort();
    f->stack = p + PAGE;
  }
  return f;
}

/* Leaves fiber FROM for the thread whose turn it is, or for who launched. */
static void leave(engine *e, fiber *from) {
  const int i = e->failed || e->n_done == e->n_threads ? -1 : pick(e);
  if (i < 0) {
    release(&e->end);
    context_switch(&from->c, &e->home.c);
    return;
  }
  thread *t = &e->threads[i];
  if (t->state == FRESH) {
    t->on = fiber_take(e);
    if (t->on != from) context_make(&t->on->c, t->on->stack, fiber_main);
  }
  e->running = i;
  threadIdx = t->index;
  set_state(e, i, READY);
  if (t->on != from) context_switch(&from->c, &t->on->c);
}

/* ---- barriers and warp operations ---------------------------------------- */

/* All threads that are left wait for the block's barrier: on they go. */
static void try_barrier(engine *e) {
  const waiting *first = NULL;
  uint64_t sum = 0;
  if (e->n_at_barrier + e->n_done < e->n_threads || !e->n_at_barrier) return;
  for (int i = 0; i < e->n_threads; i++) {
    const thread *t = &e->threads[i];
    if (t->state == DONE) continue;
    if (!first) first = &t->w;
    if (!same_place(first, &t->w)) {
      fail(i, &t->w, "others are at a barrier in another line");
      return;
    }
    sum += t->w.value;
  }
  for (int i = 0; i < e->n_threads; i++) {
    e->threads[i].w.result = sum;
    if (e->threads[i].state != DONE) set_state(e, i, READY);
  }
  e->n_at_barrier = 0;
  e->n_barriers++;
}

static uint64_t combine(ts_emulate_op op, uint64_t a, uint64_t b) {
  switch (op) {
  case TS_EMULATE_ADD:
    return a + b;
  case TS_EMULATE_MIN:
    return (int64_t)a < (int64_t)b ? a : b;
  case TS_EMULATE_MAX:
    return (int64_t)a > (int64_t)b ? a : b;
  case TS_EMULATE_AND:
    return a & b;
  case TS_EMULATE_OR:
    return a | b;
  default:
    return a ^ b;
  }
}

/* What lane I of the warp gets, of those that take part (WITH). */
static uint64_t result_of(const thread *lanes, uint32_t with, int i) {
  const waiting *w = &lanes[i].w;
  uint64_t all = 0;
  bool some = false;
  if (w->op == TS_EMULATE_SHUFFLE) return lanes[w->lane].w.value;
  for (int k = 0; k < WARP; k++) {
    if (!(with >> k & 1)) continue;
    const uint64_t v = lanes[k].w.value;
    if (w->op == TS_EMULATE_BALLOT)
      all |= v << k;
    else if (w->op == TS_EMULATE_MATCH)
      all |= (uint64_t)(v == w->value) << k;
    else if (w->op >= TS_EMULATE_ADD)
      all = some ? combine(w->op, all, v) : v;
    some = true;
  }
  return all;
}

/* False while the operation that lane ME waits for lacks a lane of WITH. */
static bool all_came(engine *e, int first, int me, uint32_t with) {
  const thread *lanes = e->threads + first;
  const waiting *w = &lanes[me].w;
  for (int k = 0; k < WARP; k++) {
    if (!(with >> k & 1)) continue;
    const thread *t = &lanes[k];
    if (t->w.op != w->op || t->w.mask != w->mask) return false;
    if (!same_place(&t->w, w)) {
      fail(first + k, &t->w, "lanes of its mask are in another line");
      return false;
    }
    if (w->op == TS_EMULATE_SHUFFLE && !(with >> t->w.lane & 1)) {
      fail(first + k, &t->w, "it wants the value of a lane that isn't there");
      return false;
    }
  }
  return true;
}

/* The operation that lane ME of the warp from FIRST on waits for, if all of
 * its lanes do. */
static void try_warp(engine *e, int first, int me) {
  thread *lanes = e->threads + first;
  const int warp = first / WARP;
  const uint32_t with = lanes[me].w.mask & e->alive[warp];
  if (with & e->open[warp] || !all_came(e, first, me, with)) return;
  for (int k = 0; k < WARP; k++) {
    if (!(with >> k & 1)) continue;
    lanes[k].w.result = result_of(lanes, with, k);
    lanes[k].w.with = with;
    lanes[k].w.odd = e->odd[warp];
    set_state(e, first + k, READY);
  }
}

/* Who waited for thread I, which has come to its end, need not. */
static void try_without(engine *e, int i) {
  const int warp = i / WARP, first = warp * WARP, n = warp_size(e, warp);
  try_barrier(e);
  if (e->open[warp] == e->alive[warp]) return;
  for (int k = first; k < first + n; k++)
    if (e->threads[k].state == WAITING &&
        e->threads[k].w.op > TS_EMULATE_BARRIER)
      try_warp(e, first, k - first);
}

static uint64_t wait_for_block(engine *e, thread *t) {
  char *mark = &e->barrier[e->n_barriers & 1];
  release(mark);
  e->n_at_barrier++;
  try_barrier(e);
  leave(e, t->on);
  acquire(mark);
  return t->w.result;
}

static uint64_t wait_for_warp(engine *e, thread *t, int first, int lane) {
  release(&t->mark[e->odd[first / WARP] >> lane & 1]);
  if (!(t->w.mask >> lane & 1))
    fail(first + lane, &t->w, "the mask lacks the lane itself");
  else
    try_warp(e, first, lane);
  leave(e, t->on);
  e->odd[first / WARP] ^= UINT32_C(1) << lane;
  for (int k = 0; IS_RACE_BUILD && k < WARP; k++)
    if (t->w.with >> k & 1)
      acquire(&e->threads[first + k].mark[t->w.odd >> k & 1]);
  return t->w.result;
}

uint64_t ts_emulate_wait(ts_emulate_op op, uint32_t mask, uint64_t value,
                         int lane, const char *file, int line) {
  engine *e = now;
  const int i = e->running;
  thread *t = &e->threads[i];
  t->w = {op, mask, value, 0, lane, file, line, 0, 0};
  set_state(e, i, WAITING);
  return op == TS_EMULATE_BARRIER
             ? wait_for_block(e, t)
             : wait_for_warp(e, t, i / WARP * WARP, i % WARP);
}

void ts_emulate_fail(const char *what, const char *file, int line) {
  engine *e = now;
  thread *t = &e->threads[e->running];
  t->w = {TS_EMULATE_NONE, 0, 0, 0, 0, file, line, 0, 0};
  fail(e->running, &t->w, what);
  leave(e, t->on);
  abort(); /* not reached: the run is given up */
}

/* What -fsanitize=alignment calls: its head is where in the source. */
struct place {
  const char *file;
  unsigned line, column;
};
extern "C" void __ubsan_handle_type_mismatch_v1(void *data, void *) {
  const place *at = (const place *)data;
  if (!now) abort(); /* no kernel's */
  ts_emulate_fail("misaligned address", at->file, (int)at->line);
}

void ts_emulated_fence() {
  static char all;
  acquire(&all);
  release(&all);
}

/* ---- blocks -------------------------------------------------------------- */

/* The thread whose turn it is; then, in its place, the next one that has not
 * begun, but where the thread sanitizer would take the two for one. */
static void fiber_main() {
  engine *e = now;
  fiber *self = e->threads[e->running].on;
  for (;;) {
    const int i = e->running;
    acquire(&e->start);
    e->launch->call(e->launch->kernel, e->launch->value);
    release(&e->end);
    set_state(e, i, DONE);
    e->n_done++;
    try_without(e, i);
    if (!IS_RACE_BUILD) e->free_fiber[e->n_free++] = self;
    leave(e, self);
  }
}

static void shuffle(engine *e) {
  for (int i = e->n_warps - 1; i > 0 && e->launch->seed; i--) {
    const int k = (int)(draw(e) % (uint64_t)(i + 1)), x = e->warp_order[i];
    e->warp_order[i] = e->warp_order[k];
    e->warp_order[k] = x;
  }
}

static void block_start(engine *e) {
  const dim3 b = e->launch->block;
  memset(ts_emulated_shared, 0xa5, e->launch->shared_bytes);
  for (int i = 0; i < e->n_threads; i++) {
    thread *t = &e->threads[i];
    const unsigned u = (unsigned)i;
    t->index = {u % b.x, u / b.x % b.y, u / b.x / b.y};
    t->state = FRESH;
  }
  for (int w = 0; w < e->n_warps; w++) {
    e->open[w] = e->alive[w] = UINT32_MAX >> (WARP - warp_size(e, w));
    e->odd[w] = 0;
    e->warp_order[w] = w;
  }
  e->n_fibers = e->n_free = e->n_done = e->n_at_barrier = 0;
  e->at_warp = e->at_lane = e->idle = 0;
  e->down = e->launch->seed ? draw(e) & 1 : blockIdx.x & 1;
  shuffle(e);
}

/* Nobody can go on: names the first who waits, and one who waits for
 * something else. */
static void fail_stuck(engine *e) {
  int first = -1, other = -1;
  for (int i = 0; i < e->n_threads; i++) {
    if (e->threads[i].state == DONE) continue;
    const waiting *w = &e->threads[i].w;
    if (first < 0) first = i;
    const waiting *v = &e->threads[first].w;
    if (other < 0 &&
        (w->op != v->op || w->mask != v->mask || !same_place(w, v)))
      other = i;
  }
  char what[400] = "not all of its threads come; they are done";
  if (other >= 0) {
    const waiting *w = &e->threads[other].w;
    snprintf(what, sizeof what,
             "not all of its threads come; thread %d is in %s, mask %08x, at "
             "%.200s:%d",
             other, op_names[w->op], w->mask, w->file, w->line);
  }
  fail(first, &e->threads[first].w, what);
}

static void run_block(engine *e) {
  block_start(e);
  release(&e->start);
  leave(e, &e->home);
  acquire(&e->end);
  if (e->n_done < e->n_threads && !e->failed) fail_stuck(e);
}

/* ---- grids --------------------------------------------------------------- */

static uint64_t divisor(uint64_t a, uint64_t b) {
  return b ? divisor(b, a % b) : a;
}

/* All blocks once: place K is block (K * STEP + FIRST) % N. */
static void run_blocks(engine *e) {
  const dim3 g = e->launch->grid;
  const uint64_t n = (uint64_t)g.x * g.y * g.z;
  uint64_t step = 1, first = 0;
  if (e->launch->seed) {
    first = draw(e) % n;
    step = draw(e) % n;
    while (divisor(step, n) != 1) step++;
  }
  for (uint64_t k = 0; k < n && !e->failed; k++) {
    const uint64_t b = (uint64_t)(((unsigned __int128)k * step + first) % n);
    blockIdx = {(unsigned)(b % g.x), (unsigned)(b / g.x % g.y),
                (unsigned)(b / g.x / g.y)};
    run_block(e);
  }
}

static engine *engine_take() {
  pthread_mutex_lock(&lock);
  engine *e = spare;
  if (e) spare = e->next;
  pthread_mutex_unlock(&lock);
  if (!e) e = (engine *)calloc(1, sizeof *e);
  if (!e) abort();
  return e;
}

static void engine_give(engine *e) {
  pthread_mutex_lock(&lock);
  e->next = spare;
  spare = e;
  pthread_mutex_unlock(&lock);
}

int ts_simt_run(const ts_simt_launch *l, char *message, size_t size) {
  engine *e = now = engine_take();
#if defined(TS_SIMT_RACES)
  e->home.c.tsan = __tsan_get_current_fiber();
#endif
  e->launch = l;
  e->n_threads = (int)(l->block.x * l->block.y * l->block.z);
  e->n_warps = (e->n_threads + WARP - 1) / WARP;
  e->rng = l->seed;
  e->failed = false;
  gridDim = l->grid, blockDim = l->block;
  ts_emulated_shared =
      (char *)aligned_alloc(1024, (l->shared_bytes / 1024 + 1) * 1024);
  if (!ts_emulated_shared) abort();
  run_blocks(e);
  const bool good = !e->failed;
  for (int i = 0; IS_RACE_BUILD && !good && i < e->n_threads; i++) {
    acquire(&e->threads[i].mark[0]); /* of a run that was given up */
    acquire(&e->threads[i].mark[1]);
    acquire(&e->barrier[i & 1]);
  }
  free(ts_emulated_shared);
  if (!good) snprintf(message, size, "%s", e->message);
  engine_give(e);
  now = NULL;
  return good;
}

/* ---- 16-bit floats ------------------------------------------------------- */

float __half2float(__half h) {
  return ts_f16_to_f32(h.bits);
}
__half __float2half_rn(float f) {
  return {ts_f32_to_f16(f)};
}
float __bfloat162float(__nv_bfloat16 h) {
  return ts_bf16_to_f32(h.bits);
}
__nv_bfloat16 __float2bfloat16_rn(float f) {
  return {ts_f32_to_bf16(f)};
}
