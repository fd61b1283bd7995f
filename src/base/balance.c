/* balance.c - see balance.h. */
#include "base/balance.h"

#include <string.h>

bool ts_balance_is_on(const ts_config *c) {
  bool any = false;
  for (int32_t i = 0; i < c->n_tables; i++)
    any |= c->tables[i].pooling == TS_POOL_NONE;
  /* Synthetic samples have as many ids as each other. */
  return any && !strcmp(c->data.balance, "tokens") &&
         strcmp(c->data.format, "synthetic") != 0;
}

int64_t ts_balance_most(const ts_config *c, int64_t n_global, int n_ranks) {
  const int64_t each = ts_balance_share(n_global, n_ranks);
  if (!ts_balance_is_on(c)) return each;
  return 2 * each < n_global ? 2 * each : n_global;
}

/* Of numbers >= 0: as much as there can be where it is more. */
static int64_t product(int64_t a, int64_t b) {
  int64_t x;
  return __builtin_mul_overflow(a, b, &x) ? INT64_MAX : x;
}

static int64_t sum(int64_t a, int64_t b) {
  int64_t x;
  return __builtin_add_overflow(a, b, &x) ? INT64_MAX : x;
}

/* A sample that costs more than its share of what a sum may be counts as that,
 * so that no sum overflows. */
void ts_balance_costs(int64_t *cost, const ts_sample_costs *c,
                      const int32_t *lengths, int64_t n) {
  const int64_t most = INT64_MAX / (n + 1);
  for (int64_t i = 0; i < n; i++) {
    int64_t x = c->sample;
    for (int32_t k = 0; k < c->n; k++) {
      const int64_t length = lengths[k * n + i];
      const int64_t each = sum(c->of[k].token, product(c->of[k].pair, length));
      x = sum(x, product(each, length));
    }
    cost[i] = x < most ? x : most;
  }
}

typedef struct ts_cut {
  const ts_sample_costs *costs;
  const int64_t *cost;
  const int32_t *lengths;
  int64_t n, most;
  int n_ranks;
} ts_cut;

/* The end of the longest run of samples from FROM on that costs no more than
 * LIMIT, or is one sample. */
static int64_t run_end(const ts_cut *c, int64_t from, int64_t limit) {
  int64_t end = from, all = 0;
  while (end < c->n && end - from < c->most &&
         (end == from || all + c->cost[end] <= limit))
    all += c->cost[end++];
  for (int32_t k = 0; k < c->costs->n; k++) {
    int64_t ids = 0;
    for (int64_t i = from; i < end; i++) {
      ids += c->lengths[k * c->n + i];
      if (ids > c->costs->of[k].most) end = i;
    }
  }
  return end;
}

/* Whether runs of up to LIMIT reach the end; their starts. */
static bool reaches(int64_t *start, const ts_cut *c, int64_t limit) {
  start[0] = 0;
  for (int r = 0; r < c->n_ranks; r++)
    start[r + 1] = run_end(c, start[r], limit);
  return start[c->n_ranks] == c->n;
}

/* A sample that costs more than the limit is a run of its own, so the others
 * are cut as evenly as if it were not there. */
void ts_balance_cut(int64_t *start, const ts_sample_costs *costs,
                    const int64_t *cost, const int32_t *lengths, int64_t n,
                    int n_ranks, int64_t most) {
  const ts_cut c = {costs, cost, lengths, n, most, n_ranks};
  int64_t least = 0, enough = 0;
  for (int64_t i = 0; i < n; i++) enough += cost[i];
  if (!reaches(start, &c, enough)) {
    for (int r = 0; r <= n_ranks; r++)
      start[r] = ts_balance_even(n, r, n_ranks);
    return;
  }
  while (least < enough) {
    const int64_t limit = least + (enough - least) / 2;
    if (reaches(start, &c, limit))
      enough = limit;
    else
      least = limit + 1;
  }
  (void)reaches(start, &c, enough);
}
