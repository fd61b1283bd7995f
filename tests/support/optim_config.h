/* optim_config.h - an optimizer of which only kind and rate are said, and its
 * formula in double. */
#pragma once

#include <math.h>
#include <stdint.h>

#include "base/config.h"

static inline ts_optim_config test_optim(const char *kind, double lr) {
  return (ts_optim_config){.kind = (char *)(uintptr_t)kind,
                           .lr = lr,
                           .eps = NAN,
                           .beta1 = NAN,
                           .beta2 = NAN,
                           .momentum = NAN,
                           .eta = NAN,
                           .weight_decay = NAN};
}

/* Pass PASS (1, 2, ...) over a parameter or a row of a table of N elements. */
typedef struct test_step {
  const ts_optim_config *config; /* checked, so that it has all defaults */
  double lr, *w, *s[2];          /* weights, states */
  double *g;                     /* gradient; overwritten */
  int64_t n;
  int pass;
} test_step;
void test_optim_step(const test_step *);
