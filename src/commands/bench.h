/* bench.h - the benchmarks behind `tessera bench`. */
#ifndef TS_COMMANDS_BENCH_H
#define TS_COMMANDS_BENCH_H

#include "commands/commands.h"

ts_err ts_bench_input(const ts_args *);
ts_err ts_bench_read(const ts_args *);
ts_err ts_bench_step(const ts_args *);
ts_err ts_bench_tbe(const ts_args *);

/* The number after "NAME=" among the words and --set of the command line. */
double ts_bench_number(const ts_args *, const char *name, double otherwise);
/* Sorts and returns the middle one. */
double ts_bench_median(double *x, int n);

#endif
