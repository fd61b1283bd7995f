/* test_balance.c - runs of a batch that cost as much as each other: beside all
 * cuts that there are. */
#include <string.h>

#include "base/balance.h"
#include "tests/support/harness.h"

enum { SAMPLES = 9, RANKS = 4, FEATURES = 2 };

typedef struct ts_case {
  ts_token_cost of[FEATURES];
  ts_sample_costs costs;
  int32_t lengths[FEATURES * SAMPLES];
  int64_t cost[SAMPLES], n, most;
  int n_ranks;
} ts_case;

static uint32_t draw(uint32_t *state, uint32_t n) {
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 8) % n;
}

/* What the dearest run costs; -1: a run has too many samples or ids. */
static int64_t dearest(const ts_case *x, const int64_t *start) {
  int64_t most = 0;
  for (int r = 0; r < x->n_ranks; r++) {
    int64_t sum = 0;
    if (start[r + 1] - start[r] > x->most) return -1;
    for (int64_t i = start[r]; i < start[r + 1]; i++) sum += x->cost[i];
    for (int k = 0; k < x->costs.n; k++) {
      int64_t ids = 0;
      for (int64_t i = start[r]; i < start[r + 1]; i++)
        ids += x->lengths[k * x->n + i];
      if (ids > x->of[k].most) return -1;
    }
    if (sum > most) most = sum;
  }
  return most;
}

/* The best of all cuts whose first R - 1 runs are given; -1: none fits. */
static int64_t best(const ts_case *x, int64_t *start, int r) {
  int64_t least = -1;
  if (r == x->n_ranks || r == RANKS) {
    start[r] = x->n;
    return dearest(x, start);
  }
  for (int64_t at = start[r - 1]; at <= x->n; at++) {
    start[r] = at;
    const int64_t cost = best(x, start, r + 1);
    if (cost >= 0 && (least < 0 || cost < least)) least = cost;
  }
  return least;
}

static void draw_case(ts_case *x, uint32_t *seed) {
  x->n = draw(seed, SAMPLES + 1);
  x->n_ranks = 1 + (int)draw(seed, RANKS);
  x->most = (x->n + x->n_ranks - 1) / x->n_ranks + draw(seed, 3);
  x->costs =
      (ts_sample_costs){draw(seed, 5), 1 + (int)draw(seed, FEATURES), x->of};
  for (int k = 0; k < x->costs.n; k++) {
    x->of[k] = (ts_token_cost){.token = 1 + draw(seed, 4),
                               .pair = draw(seed, 3),
                               .most = 8 + draw(seed, 60)};
    for (int64_t i = 0; i < x->n; i++)
      x->lengths[k * x->n + i] = (int32_t)draw(seed, 20);
  }
  ts_balance_costs(x->cost, &x->costs, x->lengths, x->n);
}

TS_TEST(no_cut_is_better) {
  uint32_t seed = 1;
  int fits = 0, none = 0;
  for (int t = 0; t < 3000; t++) {
    ts_case x = {0};
    int64_t start[RANKS + 1], other[RANKS + 1] = {0};
    draw_case(&x, &seed);
    ts_balance_cut(start, &x.costs, x.cost, x.lengths, x.n, x.n_ranks, x.most);
    ck_assert_int_eq(start[0], 0);
    ck_assert_int_eq(start[x.n_ranks], x.n);
    const int64_t least = best(&x, other, 1);
    for (int r = 0; r <= x.n_ranks && least < 0; r++)
      ck_assert_int_eq(start[r], ts_balance_even(x.n, r, x.n_ranks));
    if (least >= 0) ck_assert_int_eq(dearest(&x, start), least);
    fits += least >= 0;
    none += least < 0;
  }
  ck_assert_int_gt(fits, 500);
  ck_assert_int_gt(none, 100);
}

/* A sample that is dearer than its share of all has a rank of its own, and the
 * others share the rest. */
TS_TEST(the_rest_is_even) {
  ts_token_cost of[1] = {{.token = 1, .most = INT64_MAX}};
  const ts_sample_costs costs = {0, 1, of};
  int32_t lengths[64];
  int64_t cost[64], start[9];
  for (int at = 0; at < 64; at += 9) {
    for (int i = 0; i < 64; i++) lengths[i] = i == at ? 1000 : 5;
    ts_balance_costs(cost, &costs, lengths, 64);
    ts_balance_cut(start, &costs, cost, lengths, 64, 8, 16);
    for (int r = 0; r < 8; r++) {
      const int64_t n = start[r + 1] - start[r];
      ck_assert_int_ge(n, 1);
      if (start[r] > at || start[r + 1] <= at) ck_assert_int_le(n, 12);
    }
  }
}

TS_TEST(costs) {
  ts_token_cost of[2] = {{.token = 3, .pair = 2}, {.token = 10}};
  const ts_sample_costs costs = {7, 2, of};
  const int32_t lengths[] = {0, 4, INT32_MAX, 1, 0, 5};
  int64_t cost[3], start[3];
  ts_balance_costs(cost, &costs, lengths, 3);
  ck_assert_int_eq(cost[0], 7 + 10);
  ck_assert_int_eq(cost[1], 7 + 3 * 4 + 2 * 16);
  of[0].pair = INT64_MAX / 2;
  of[0].most = of[1].most = INT64_MAX;
  ts_balance_costs(cost, &costs, lengths, 3);
  ck_assert_int_eq(cost[2], INT64_MAX / 4); /* three of them are a sum */
  ts_balance_cut(start, &costs, cost, lengths, 3, 2, 3);
  ck_assert_int_eq(start[1], 2);
}

TS_TEST(even_runs) {
  const int64_t at[] = {0, 3, 6, 8, 10};
  for (int r = 0; r <= 4; r++)
    ck_assert_int_eq(ts_balance_even(10, r, 4), at[r]);
}
