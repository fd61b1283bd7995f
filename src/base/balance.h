/* balance.h - which of a batch's samples each rank takes: data.balance.
 *
 * A rank takes a run of the batch's samples, lower ranks those before.  With
 * "samples" runs are as long as each other.  With "tokens" they cost as much as
 * each other: samples of sequences differ in what they cost, and in a step all
 * ranks wait for the slowest.  The cut is the one whose dearest run is
 * cheapest, found by halving; that runs stay in the batch's order is what keeps
 * numbers drawn by a sample's place in it as they are.
 * All of it is Local, and the same on all ranks: sums are of whole numbers. */
#pragma once

#include "base/config.h"

/* Of a feature that is read id by id: a sample with L ids costs
 * token * L + pair * L * L, in multiplications of the forward pass. */
typedef struct ts_token_cost {
  int32_t feature;
  int64_t token, pair;
  int64_t most; /* ids of a rank's samples that there is room for */
} ts_token_cost;

typedef struct ts_sample_costs {
  int64_t sample; /* what each costs besides */
  int32_t n;
  ts_token_cost *of; /* (n) */
} ts_sample_costs;

/* The deck wants runs that cost the same, and has samples that differ. */
bool ts_balance_is_on(const ts_config *);
/* Samples of a batch of N_GLOBAL that a rank of N_RANKS has at most: twice its
 * share, where runs are not as long as each other. */
int64_t ts_balance_most(const ts_config *, int64_t n_global, int n_ranks);
/* Samples of a batch of N_GLOBAL before those of RANK, in runs that are as long
 * as each other; RANK may be N_RANKS. */
static inline int64_t ts_balance_even(int64_t n_global, int64_t rank,
                                      int64_t n_ranks) {
  const int64_t each = n_global / n_ranks, more = n_global % n_ranks;
  return rank * each + (rank < more ? rank : more);
}
/* The first's, which has most. */
static inline int64_t ts_balance_share(int64_t n_global, int64_t n_ranks) {
  return ts_balance_even(n_global, 1, n_ranks);
}
/* COST (n) of samples with LENGTHS (costs->n, n) ids. */
void ts_balance_costs(int64_t *cost, const ts_sample_costs *costs,
                      const int32_t *lengths, int64_t n);
/* START (n_ranks + 1): rank r takes samples [start[r], start[r + 1]) of the N
 * with these costs and lengths, MOST at most, and no more ids than there is
 * room for; even runs where no others fit. */
void ts_balance_cut(int64_t *start, const ts_sample_costs *costs,
                    const int64_t *cost, const int32_t *lengths, int64_t n,
                    int n_ranks, int64_t most);
