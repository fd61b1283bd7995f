/* bench.c - `tessera bench`. */
#include "commands/bench.h"

#include <stdlib.h>
#include <string.h>

static const char *value_of(const char *word, const char *name) {
  const size_t n = strlen(name);
  return word && !strncmp(word, name, n) && word[n] == '=' ? word + n + 1
                                                           : NULL;
}

const char *ts_bench_text(const ts_args *a, const char *name,
                          const char *otherwise) {
  const char *v;
  for (int i = 0; i < a->n_more; i++)
    if ((v = value_of(a->more[i], name))) return v;
  for (int i = 0; i < a->n_sets; i++)
    if ((v = value_of(a->sets[i], name))) return v;
  return otherwise;
}

double ts_bench_number(const ts_args *a, const char *name, double otherwise) {
  const char *v = ts_bench_text(a, name, NULL);
  return v ? atof(v) : otherwise;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double ts_bench_median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_value);
  return n ? x[n / 2] : 0;
}

static const struct {
  const char *name;
  ts_err (*run)(const ts_args *);
} benches[] = {
    {"checkpoint", ts_bench_checkpoint},
    {"read", ts_bench_read},
    {"step", ts_bench_step},
    {"tbe", ts_bench_tbe},
};

ts_err ts_cmd_bench(const ts_args *a) {
  for (size_t i = 0; a->target && i < sizeof benches / sizeof *benches; i++)
    if (!strcmp(a->target, benches[i].name)) return benches[i].run(a);
  return ts_fail(TS_ERR_USAGE,
                 "usage: tessera bench step DECK | bench read DECK | bench "
                 "tbe [key=value]... | bench checkpoint [key=value]...");
}
