/* bench.c - `tessera bench`. */
#include "commands/bench.h"

#include <stdlib.h>
#include <string.h>

static const char *value_of(const char *word, const char *name) {
  const size_t n = strlen(name);
  return word && !strncmp(word, name, n) && word[n] == '=' ? word + n + 1
                                                           : NULL;
}

double ts_bench_number(const ts_args *a, const char *name, double otherwise) {
  const char *v;
  for (int i = 0; i < a->n_more; i++)
    if ((v = value_of(a->more[i], name))) return atof(v);
  for (int i = 0; i < a->n_sets; i++)
    if ((v = value_of(a->sets[i], name))) return atof(v);
  return otherwise;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double ts_bench_median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_value);
  return n ? x[n / 2] : 0;
}

ts_err ts_cmd_bench(const ts_args *a) {
  if (a->target && !strcmp(a->target, "step")) return ts_bench_step(a);
  if (a->target && !strcmp(a->target, "read")) return ts_bench_read(a);
  if (a->target && !strcmp(a->target, "input")) return ts_bench_input(a);
  if (a->target && !strcmp(a->target, "tbe")) return ts_bench_tbe(a);
  return ts_fail(TS_ERR_USAGE,
                 "usage: tessera bench step DECK | bench read DECK | bench "
                 "input DECK | bench tbe [key=value]...");
}
