/* cuda_emulate.cc - fibers, barriers and warp operations of the emulation.
 *
 * A fiber runs until it waits; the scheduler goes round over the threads of
 * the block and lets those run that can.  When none can and some are left,
 * they wait for each other for ever: that is reported.  What a warp operation
 * gives is worked out for all of its lanes when the last one comes, as a lane
 * that has its result may be at the next one before the others look. */
#include "tests/support/emulated/cuda_emulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

extern "C" {
#include "base/dtype.h"
}

enum { THREADS = 1024, STACK = 256 << 10, PAGE = 4096, WARP = 32 };

/* ---- fibers -------------------------------------------------------------- */

struct context {
#if defined(__x86_64__)
  void *sp;
#else
  ucontext_t u;
#endif
#if defined(__SANITIZE_THREAD__)
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
#if defined(__SANITIZE_THREAD__)
  if (!c->tsan) c->tsan = __tsan_create_fiber(0);
#endif
}

static void context_switch(context *from, context *to) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to->tsan, 0);
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
};

struct fiber {
  context c;
  char *stack;
  uint3 thread;
  bool ready, done;
  waiting w;
};

ts_emulated_state ts_emulated;
static fiber fibers[THREADS];
static context scheduler;
static int n_threads, running, n_done;
static void (*run_body)(void *);
static void *run_arg;
static bool failed;
static char message[1024];

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

static void fail(int thread, const waiting *w, const char *what) {
  if (failed) return;
  failed = true;
  snprintf(message, sizeof message,
           "block (%u, %u, %u), thread %d at %s:%d: %s (%s, mask %08x)",
           blockIdx.x, blockIdx.y, blockIdx.z, thread, w->file, w->line, what,
           op_names[w->op], w->mask);
}

static bool same_place(const waiting *a, const waiting *b) {
  return a->line == b->line && !strcmp(a->file, b->file);
}

static void yield_to_scheduler() {
  context_switch(&fibers[running].c, &scheduler);
}

/* All threads that are left wait for the block's barrier: on they go. */
static void try_barrier() {
  const waiting *first = NULL;
  uint64_t sum = 0;
  for (int i = 0; i < n_threads; i++) {
    const fiber *f = &fibers[i];
    if (f->done) continue;
    if (f->ready || f->w.op != TS_EMULATE_BARRIER) return;
    if (!first) first = &f->w;
    if (!same_place(first, &f->w)) {
      fail(i, &f->w, "others are at a barrier in another line");
      return;
    }
    sum += f->w.value;
  }
  for (int i = 0; i < n_threads; i++) {
    fibers[i].w.result = sum;
    fibers[i].ready = !fibers[i].done;
  }
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

static bool takes_part(const fiber *lanes, int n, uint32_t mask, int lane) {
  return lane < n && (mask >> lane & 1) && !lanes[lane].done;
}

/* What lane I of the warp gets. */
static uint64_t result_of(const fiber *lanes, int n, int i) {
  const waiting *w = &lanes[i].w;
  uint64_t all = 0;
  bool some = false;
  if (w->op == TS_EMULATE_SHUFFLE) return lanes[w->lane].w.value;
  for (int k = 0; k < n; k++) {
    if (!takes_part(lanes, n, w->mask, k)) continue;
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

/* The operation that lane ME of the warp from FIRST on waits for, if all of
 * its lanes do. */
static void try_warp(int first, int me) {
  fiber *lanes = fibers + first;
  const int n = n_threads - first < WARP ? n_threads - first : WARP;
  const waiting *w = &lanes[me].w;
  for (int k = 0; k < n; k++) {
    if (!takes_part(lanes, n, w->mask, k)) continue;
    const fiber *f = &lanes[k];
    if (f->ready || f->w.op != w->op || f->w.mask != w->mask) return;
    if (!same_place(&f->w, w)) {
      fail(first + k, &f->w, "lanes of its mask are in another line");
      return;
    }
    if (w->op == TS_EMULATE_SHUFFLE &&
        !takes_part(lanes, n, w->mask, f->w.lane)) {
      fail(first + k, &f->w, "it wants the value of a lane that isn't there");
      return;
    }
  }
  const uint32_t mask = w->mask;
  for (int k = 0; k < n; k++)
    if (takes_part(lanes, n, mask, k))
      lanes[k].w.result = result_of(lanes, n, k);
  for (int k = 0; k < n; k++)
    if (takes_part(lanes, n, mask, k)) lanes[k].ready = true;
}

/* Who waited for thread I, which has come to its end, need not. */
static void try_without(int i) {
  const int first = i / WARP * WARP;
  try_barrier();
  for (int k = first; k < first + WARP && k < n_threads; k++)
    if (!fibers[k].done && !fibers[k].ready &&
        fibers[k].w.op > TS_EMULATE_BARRIER)
      try_warp(first, k - first);
}

uint64_t ts_emulate_wait(ts_emulate_op op, uint32_t mask, uint64_t value,
                         int lane, const char *file, int line) {
  fiber *f = &fibers[running];
  f->w = {op, mask, value, 0, lane, file, line};
  f->ready = false;
  if (op == TS_EMULATE_BARRIER)
    try_barrier();
  else if (!(mask >> running % WARP & 1))
    fail(running, &f->w, "the mask lacks the lane itself");
  else
    try_warp(running / WARP * WARP, running % WARP);
  yield_to_scheduler();
  return f->w.result;
}

void ts_emulate_fail(const char *what, const char *file, int line) {
  fibers[running].w = {TS_EMULATE_NONE, 0, 0, 0, 0, file, line};
  fail(running, &fibers[running].w, what);
  yield_to_scheduler();
  abort(); /* not reached: the run is given up */
}

static void fiber_main() {
  run_body(run_arg);
  fibers[running].done = true;
  fibers[running].ready = false;
  n_done++;
  try_without(running);
  yield_to_scheduler();
}

/* ---- the scheduler ------------------------------------------------------- */

static void fibers_start(dim3 block) {
  for (int i = 0; i < n_threads; i++) {
    fiber *f = &fibers[i];
    if (!f->stack) { /* with a page below that is not to be touched */
      char *p =
          (char *)mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == (char *)MAP_FAILED || mprotect(p, PAGE, PROT_NONE))
        ts_emulate_abort("no memory for stacks");
      f->stack = p + PAGE;
    }
    context_make(&f->c, f->stack, fiber_main);
    const unsigned t = (unsigned)i;
    f->thread = {t % block.x, t / block.x % block.y, t / block.x / block.y};
    f->ready = true;
    f->done = false;
    f->w = {};
  }
  n_done = 0;
}

static bool round_over_threads(bool down) {
  bool some = false;
  for (int k = 0; k < n_threads && !failed; k++) {
    const int i = down ? n_threads - 1 - k : k;
    if (!fibers[i].ready) continue;
    running = i;
    ts_emulated.thread = fibers[i].thread;
    context_switch(&scheduler, &fibers[i].c);
    some = true;
  }
  return some;
}

/* Nobody can go on: names the first who waits, and one who waits for
 * something else. */
static void fail_stuck() {
  int first = -1, other = -1;
  for (int i = 0; i < n_threads; i++) {
    if (fibers[i].done) continue;
    const waiting *w = &fibers[i].w;
    if (first < 0) first = i;
    const waiting *v = &fibers[first].w;
    if (other < 0 &&
        (w->op != v->op || w->mask != v->mask || !same_place(w, v)))
      other = i;
  }
  char what[400] = "not all of its threads come; they are done";
  if (other >= 0)
    snprintf(what, sizeof what,
             "not all of its threads come; thread %d is in %s, mask %08x, at "
             "%.200s:%d",
             other, op_names[fibers[other].w.op], fibers[other].w.mask,
             fibers[other].w.file, fibers[other].w.line);
  fail(first, &fibers[first].w, what);
}

static void run_block(dim3 block) {
  bool down = blockIdx.x & 1;
  fibers_start(block);
  while (n_done < n_threads && !failed) {
    if (!round_over_threads(down) && !failed) fail_stuck();
    down = !down;
  }
}

const char *ts_emulate_grid(dim3 grid, dim3 block, size_t shared_bytes,
                            void (*body)(void *), void *arg) {
  const uint64_t threads = (uint64_t)block.x * block.y * block.z;
  if (!threads || threads > THREADS || !grid.x || !grid.y || !grid.z ||
      grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535 || block.z > 64)
    return "a launch that CUDA does not take";
#if defined(__SANITIZE_THREAD__)
  scheduler.tsan = __tsan_get_current_fiber();
#endif
  n_threads = (int)threads;
  run_body = body, run_arg = arg;
  failed = false;
  ts_emulated.grid_dim = grid, ts_emulated.block_dim = block;
  ts_emulated.shared = (char *)malloc(shared_bytes + 1);
  if (!ts_emulated.shared) return "no memory for shared memory";
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x && !failed; x++) {
        memset(ts_emulated.shared, 0xa5, shared_bytes);
        ts_emulated.block = {x, y, z};
        run_block(block);
      }
  free(ts_emulated.shared);
  return failed ? message : NULL;
}

void ts_emulate_abort(const char *what) {
  fprintf(stderr, "CUDA emulation: %s\n", what);
  abort();
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
