/* bench_dense.h - dense time of steps beside that of their matrix products
 * alone; used by bench_step.c. */
#pragma once

#include "train/trainer.h"

/* Seconds of one step. */
typedef struct ts_bench_turn {
  double dense;     /* all dense work but the optimizer's */
  double products;  /* of it in the library's products */
  double alone;     /* the same products run alone after it */
  double optimizer; /* of dense parameters */
} ts_bench_turn;

/* Around one step whose lanes have come to rest; end runs the products
 * alone.  Local. */
void ts_bench_turn_begin(ts_bench_turn *);
ts_err ts_bench_turn_end(ts_bench_turn *, ts_trainer *);
/* Sorts the turns.  Collective. */
ts_err ts_bench_turns_print(ts_bench_turn *, int n, ts_trainer *);
