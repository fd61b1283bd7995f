/* attention_ahead_body.h - rows that attention's tiles come to later, asked for
 * while it computes: tokens lie in memory that is far from the tiles' cache,
 * and waiting for it took three of ten steps' time.
 *
 * A span is rows of one array.  It is spread over steps, one of which goes with
 * each six rows of a product: the processor has room for a few dozen requests,
 * and waits where it gets more.  What is asked for in vain costs a few cycles
 * and changes no result. */
#pragma once

#include <stdint.h>

/* One for each array that a pass reads or writes. */
enum {
  SPAN_Q,
  SPAN_K,
  SPAN_V,
  SPAN_O,
  SPAN_D_O,
  SPAN_DQ,
  SPAN_DK,
  SPAN_DV,
  SPANS
};

typedef struct attention_span {
  const char *x;
  int64_t stride;     /* bytes */
  int64_t left, each; /* rows that are not asked for yet; those of a step */
  int32_t bytes;      /* of a row */
} attention_span;

/* Zeros: nothing. */
typedef struct attention_ahead {
  attention_span span[SPANS];
} attention_ahead;

/* Span K becomes N rows of DIM floats, within STEPS; what it still had goes. */
static void ahead_of(attention_ahead *a, int k, const float *x, int64_t stride,
                     int32_t dim, int64_t n, int64_t steps) {
  a->span[k] = (attention_span){.x = (const char *)x,
                                .stride = 4 * stride,
                                .left = n,
                                .each = (n + steps - 1) / steps,
                                .bytes = 4 * dim};
}

static __attribute__((noinline)) void ahead_step(attention_ahead *a) {
  for (int k = 0; k < SPANS; k++) {
    attention_span *s = &a->span[k];
    for (int64_t r = 0; r < s->each && s->left > 0; r++, s->left--) {
      for (int32_t at = 0; at < s->bytes; at += 64)
        __builtin_prefetch(s->x + at, 0, 3);
      s->x += s->stride;
    }
  }
}
