/* simt.cc - the threads of a launch as fibers.
 *
 * A thread runs until it waits; then the next one goes on that can.  When none
 * can and some are left, they wait for each other for ever: that is reported
 * (simt_wait.cc).  A thread that ends leaves its stack to one that has not
 * begun, so a kernel without barriers needs a single stack.
 *
 * The thread sanitizer is told of each thread as of a fiber whose switches
 * order nothing; barriers and warp operations release and acquire.  So it
 * finds accesses that a missing barrier leaves unordered. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/emulated/simt_engine.h"

extern "C" {
#include "base/dtype.h"
}

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;
__thread char *ts_emulated_shared;
__thread engine *ts_simt_now;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static engine *spare;

#if defined(__x86_64__)
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

/* ---- whose turn it is ---------------------------------------------------- */

static uint64_t draw(engine *e) {
  e->rng = e->rng * UINT64_C(6364136223846793005) + 1442695040888963407;
  return e->rng >> 33;
}

void ts_simt_set_state(engine *e, int i, thread_state s) {
  const uint32_t bit = UINT32_C(1) << i % WARP;
  if (s <= READY)
    e->open[i / WARP] |= bit;
  else
    e->open[i / WARP] &= ~bit;
  if (s == DONE) e->alive[i / WARP] &= ~bit;
  e->threads[i].state = s;
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
    const int left = n - e->at_lane;
    uint32_t open = left > 0 ? e->open[warp] : 0;
    if (open)
      open &= e->down ? UINT32_MAX >> (WARP - left) : UINT32_MAX << e->at_lane;
    if (open) {
      const int lane =
          e->down ? WARP - 1 - __builtin_clz(open) : __builtin_ctz(open);
      e->at_lane = e->down ? n - lane : lane + 1;
      e->idle = 0;
      return warp * WARP + lane;
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

void ts_simt_leave(engine *e, fiber *from) {
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
  ts_simt_set_state(e, i, READY);
  if (t->on != from) context_switch(&from->c, &t->on->c);
}

/* ---- blocks -------------------------------------------------------------- */

/* The thread whose turn it is; then, in its place, the next one that has not
 * begun, but where the thread sanitizer would take the two for one. */
static void fiber_main() {
  engine *e = ts_simt_now;
  fiber *self = e->threads[e->running].on;
  for (;;) {
    const int i = e->running;
    acquire(&e->start);
    e->launch->call(e->launch->kernel, e->launch->value);
    release(&e->end);
    ts_simt_set_state(e, i, DONE);
    e->n_done++;
    ts_simt_without(e, i);
    if (!IS_RACE_BUILD) e->free_fiber[e->n_free++] = self;
    ts_simt_leave(e, self);
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

static void run_block(engine *e) {
  block_start(e);
  release(&e->start);
  ts_simt_leave(e, &e->home);
  acquire(&e->end);
  if (e->n_done < e->n_threads && !e->failed) ts_simt_fail_stuck(e);
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
  engine *e = ts_simt_now = engine_take();
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
  ts_simt_now = NULL;
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
