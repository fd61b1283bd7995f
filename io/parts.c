/* parts.c - see parts.h. */
#include "io/parts.h"

#include "base/mem.h"

struct ts_parts {
  ts_source *source;
  const ts_sample_costs *costs; /* NULL: none count */
  int n_ranks;
  int64_t *start;              /* (n_ranks + 1) */
  int32_t *features, *lengths; /* (costs->n), (costs->n, most) */
  int64_t *samples, *cost;     /* (most) */
  ts_parts_sums sums;
};

ts_err ts_parts_create(ts_parts **out, ts_source *source, int64_t n,
                       int n_ranks, const ts_sample_costs *costs) {
  ts_err err = TS_OK;
  ts_parts *p = NULL;
  TS_TRY(ts_mem_alloc(&p, sizeof *p, TS_TAG_INPUT));
  p->source = source;
  p->n_ranks = n_ranks;
  TS_TRY(ts_mem_many(p->start, n_ranks + 1, INPUT));
  /* A packed file is read in order, and once. */
  if (costs && costs->n && n_ranks > 1 && source->ops->lengths &&
      !source->info.packed) {
    p->costs = costs;
    TS_TRY(ts_mem_many(p->features, costs->n, INPUT));
    TS_TRY(ts_mem_many(p->lengths, costs->n * n, INPUT));
    TS_TRY(ts_mem_many(p->samples, n, INPUT));
    TS_TRY(ts_mem_many(p->cost, n, INPUT));
    for (int32_t k = 0; k < costs->n; k++)
      p->features[k] = costs->of[k].feature;
  }
  *out = p;
done:
  if (err != TS_OK) ts_parts_destroy(p);
  return err;
}

void ts_parts_destroy(ts_parts *p) {
  if (!p) return;
  ts_mem_free_all(p->start, p->features, p->lengths, p->samples, p->cost, p);
}

bool ts_parts_cost(const ts_parts *p) {
  return p->costs != NULL;
}

/* The cost of the dearest part of the batch; START: where parts begin. */
static double dearest(const ts_parts *p, const int64_t *start) {
  double most = 0;
  for (int r = 0; r < p->n_ranks; r++) {
    double sum = 0;
    for (int64_t i = start[r]; i < start[r + 1]; i++) sum += (double)p->cost[i];
    if (sum > most) most = sum;
  }
  return most;
}

ts_err ts_parts_of(ts_parts *p, const int64_t **start, const int64_t *samples,
                   int64_t first, int64_t n) {
  *start = p->start;
  for (int r = 0; r <= p->n_ranks; r++)
    p->start[r] = ts_balance_even(n, r, p->n_ranks);
  if (!p->costs) return TS_OK;
  for (int64_t i = 0; !samples && i < n; i++) p->samples[i] = first + i;
  TS_DO(p->source->ops->lengths(p->source, p->lengths, p->features, p->costs->n,
                                samples ? samples : p->samples, (int32_t)n));
  ts_balance_costs(p->cost, p->costs, p->lengths, n);
  p->sums.even += dearest(p, p->start);
  ts_balance_cut(p->start, p->costs, p->cost, p->lengths, n, p->n_ranks,
                 ts_balance_most(p->source->config, n, p->n_ranks));
  p->sums.cut += dearest(p, p->start);
  for (int64_t i = 0; i < n; i++)
    p->sums.mean += (double)p->cost[i] / p->n_ranks;
  return TS_OK;
}

ts_parts_sums ts_parts_sums_of(const ts_parts *p) {
  return p->sums;
}
