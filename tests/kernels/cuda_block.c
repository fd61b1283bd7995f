/* cuda_block.c - the block, and its copies. */
#include "tests/kernels/cuda_block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cuda_numbers.h"

static const block_target *target;
static ts_kernels host;
ts_kernels block_tested;
static char *block;
static size_t most_bytes, used;

void block_start(const block_target *t, size_t bytes) {
  target = t;
  most_bytes = bytes;
  block = malloc(bytes);
  ck_assert_ptr_nonnull(block);
  ck_assert_ok(ts_kernels_fill(&host, "host", "ref"));
  if (target->start) target->start();
  target->kernels(&block_tested);
}

void block_stop(void) {
  if (target->stop) target->stop();
  free(block);
}

void block_clear(void) {
  used = 64;
  for (size_t i = 0; i < most_bytes; i += 4) {
    const uint32_t b = bits();
    memcpy(block + i, &b, 4);
  }
}

void *block_take(int64_t bytes, int off) {
  const size_t at = (used + 32 + 255) / 256 * 256 + (size_t)off;
  used = at + (size_t)bytes;
  ck_assert(used + 256 <= most_bytes);
  return (void *)(uintptr_t)at;
}

void *block_here(const void *p) {
  return block + (uintptr_t)p;
}

/* ---- both ---------------------------------------------------------------- */

typedef struct block_call {
  block_task task;
  char *base;
  const void *arg;
} block_call;

static ts_err call(void *arg) {
  const block_call *c = arg;
  return c->task(&block_tested, c->base, c->arg);
}

static void compare(const char *want, const char *got, bool nan_ok) {
  for (size_t i = 0; i < used + 256; i += 4) {
    float x, y;
    if (!memcmp(want + i, got + i, 4)) continue;
    memcpy(&x, want + i, 4);
    memcpy(&y, got + i, 4);
    if (nan_ok && isnan(x) && isnan(y)) continue;
    ck_abort_msg("byte %zu: %a, not %a", i, (double)y, (double)x);
  }
}

void block_check(block_task task, const void *arg, bool nan_ok) {
  const size_t bytes = (used + 256 + 3) / 4 * 4;
  char *want = malloc(bytes), *got = malloc(bytes);
  memcpy(want, block, bytes);
  ck_assert_ok(task(&host, want, arg));
  for (int most = 1000; most > 0; most -= 998) {
    block_call c = {task, target->send(block, bytes), arg};
    if (target->set_blocks) target->set_blocks(most);
    ck_assert_ok(target->run(call, &c));
    target->fetch(got, c.base, bytes);
    target->drop(c.base);
    compare(want, got, nan_ok);
    if (!target->set_blocks) break;
  }
  free(want);
  free(got);
}
