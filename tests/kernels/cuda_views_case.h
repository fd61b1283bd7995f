/* cuda_views_case.h - a case of a kernel of views, wires or positions
 * (cuda_views.c, cuda_views_codes.c). */
#ifndef TS_TESTS_CUDA_VIEWS_CASE_H
#define TS_TESTS_CUDA_VIEWS_CASE_H

#include <math.h>

#include "tests/kernels/cuda_block.h"
#include "tests/kernels/cuda_numbers.h"
#include "shard/view_kernels.h"

typedef enum {
  ROWS,
  SUMS,
  SCALES,
  CODES,
  WEIGHTS,
  POSITIONS,
  NARROW
} views_kind;

typedef struct views_case {
  views_kind kind;
  bool nan_ok; /* NaN may be any */
  union {
    ts_row_args rows;
    ts_scale_args scales;
    ts_code_args codes;
    ts_position_args positions;
    struct {
      float *dst;
      const double *src;
      int64_t n;
    } narrow;
  } u;
} views_case;

void views_clear(views_case *, views_kind);
void views_check(const views_case *);
/* Of codes and positions. */
TCase *cuda_views_codes(void);

enum { VIEWS_WIDTHS = 18 };
extern const int32_t views_widths[VIEWS_WIDTHS];

/* P is the offset AT of the block. */
#define SET(p, at) ((p) = (void *)(at))

/* Any size; 1 of 64 special. */
static inline float some(bool specials) {
  if (specials && below(64) == 0) return special();
  return ldexpf(1 + (float)(bits() >> 9) * 0x1p-23f, below(40) - 20) *
         (bits() & 1 ? 1.0f : -1.0f);
}

static inline void *take_floats(int64_t n, int off, bool specials) {
  void *at = block_take(n * 4, off);
  float *x = block_here(at);
  for (int64_t i = 0; i < n; i++) x[i] = some(specials);
  return at;
}

#endif
