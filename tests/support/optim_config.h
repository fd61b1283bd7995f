/* optim_config.h - an optimizer of which only kind and rate are said. */
#ifndef TS_TESTS_OPTIM_CONFIG_H
#define TS_TESTS_OPTIM_CONFIG_H

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

#endif
