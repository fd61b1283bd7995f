/* shard_compare.c - one run beside another, and the report of differences. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "tests/shard/shard_contract.h"

enum { FAULTS_SHOWN = 6 };

static int n_faults;

void ct_fault(const ct_run *r, const char *fmt, ...) {
  va_list args;
  if (++n_faults > FAULTS_SHOWN) return;
  fprintf(stderr, "[rank %d] %s, %d nodes%s%s: ", r->world->rank, r->name,
          r->world->n_nodes, r->columns ? ", columns" : "",
          r->deck->config.data.dedup.n ? ", dedup" : "");
  va_start(args, fmt);
  vfprintf(stderr, fmt, args);
  va_end(args);
  fputc('\n', stderr);
}

void ct_settle(void) {
  const bool ok = n_faults == 0;
  n_faults = 0;
  ck_assert_all(ok);
}

static bool near(double a, double b, double tolerance) {
  if (tolerance == 0) return a == b;
  return fabs(a - b) <= tolerance * fmax(0.1, fmax(fabs(a), fabs(b)));
}

static void same_row(const ct_run *a, const ct_run *b, int step, int f, int row,
                     const float *x, const float *y, double tolerance,
                     ct_keep keep) {
  const ct_deck *d = a->deck;
  const ts_table_config *t = &d->tables[d->table_of[f]];
  for (int c = 0; c < t->dim && (!keep || keep(t)); c++)
    if (!near(x[c], y[c], tolerance))
      ct_fault(a,
               "step %d %s row %d of this rank column %d: %.9g, but %.9g in "
               "%s",
               step, d->feature_names[f], row, c, (double)x[c], (double)y[c],
               b->name);
}

void ct_same_pooled(const ct_run *a, const ct_run *b, int n_steps,
                    double tolerance, ct_keep keep) {
  const ct_deck *d = a->deck;
  for (int i = 0; i < n_steps; i++) {
    const float *x = a->pooled[i], *y = b->pooled[i];
    for (int f = 0; f < d->n_features; f++)
      for (int row = 0; row < a->n_rows[i][f]; row++) {
        same_row(a, b, i, f, row, x, y, tolerance, keep);
        x += CT_DIM;
        y += CT_DIM;
      }
  }
  ct_settle();
}

static void same_parts(const ct_run *a, const ct_run *b, const double *x,
                       const double *y, double tolerance, ct_keep keep) {
  const ct_deck *d = a->deck;
  for (int32_t t = 0; t < d->config.n_tables; t++) {
    if (keep && !keep(&d->tables[t])) continue;
    for (int k = 0; k < d->n_parts[t]; k++)
      for (int64_t i = 0; i < d->tables[t].rows * d->cols[t][k]; i++) {
        const int64_t at = d->at[t][k] + i;
        if (!near(x[at], y[at], tolerance))
          ct_fault(a,
                   "table t%d (%s) part %d row %lld column %lld: %.9g, but "
                   "%.9g in %s",
                   t, d->tables[t].optimizer.kind, k,
                   (long long)(i / d->cols[t][k]),
                   (long long)(i % d->cols[t][k]), x[at], y[at], b->name);
      }
  }
  ct_settle();
}

void ct_same_first(const ct_run *a, const ct_run *b) {
  same_parts(a, b, a->first, b->first, 0, NULL);
}

void ct_same_last(const ct_run *a, const ct_run *b, double tolerance,
                  ct_keep keep) {
  same_parts(a, b, a->last, b->last, tolerance, keep);
}
