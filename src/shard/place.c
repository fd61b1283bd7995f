/* place.c - what the sharding types share in choosing ranks. */
#include <inttypes.h>

#include "base/mem.h"
#include "shard/sharding.h"
#include "sparse/admit.h"
#include "sparse/index.h"
#include "sparse/row_optim.h"

/* Bytes of the sketch of sparse/admit.h, for each row of the capacity. */
static int64_t sketch_bytes(const ts_table_config *t) {
  const int64_t line = (int64_t)TS_INDEX_PARTS * TS_ADMIT_LINE;
  if (!ts_table_admits(t)) return 0;
  return 1 + ts_table_sketch_lines(t) * line / t->capacity;
}

int64_t ts_place_id_bytes(const ts_table_config *t) {
  enum { BORN = 4, ID = 8, SEEN_AND_LAST = 8, SCORE = 4 };
  if (!ts_table_is_dynamic(t)) return 0;
  return TS_INDEX_ID_BYTES + BORN + (t->dtype == TS_F32 ? 0 : ID) +
         (ts_table_evicts(t) ? SEEN_AND_LAST : 0) +
         (ts_table_scores(t) ? SCORE : 0) + sketch_bytes(t);
}

int64_t ts_shard_bytes(const ts_table_config *t, const ts_shard *s) {
  const int64_t row = ts_row_bytes(t->dtype, s->n_cols) + ts_place_id_bytes(t);
  return (row + ts_row_state_bytes(t, s->n_cols, true)) * s->n_rows;
}

int64_t ts_table_bytes(const ts_table_config *t) {
  const ts_shard all = {0, 0, t->rows, 0, t->dim};
  return ts_shard_bytes(t, &all);
}

int64_t ts_place_first_row(const ts_table_config *t, int k, int n) {
  const int64_t block = (t->rows + n - 1) / n;
  if (ts_table_is_dynamic(t)) return t->rows / n * k + t->rows % n * k / n;
  return k * block < t->rows ? k * block : t->rows;
}

ts_err ts_place_rows(ts_table_plan *p, const ts_table_config *t,
                     const int *ranks, int n_ranks, int32_t col0,
                     int32_t n_cols) {
  if (ts_table_is_dynamic(t) && t->capacity < n_ranks)
    return ts_fail(TS_ERR_DECK,
                   "table %s: capacity = %lld is less than the %d ranks that "
                   "it is cut over",
                   t->name, (long long)t->capacity, n_ranks);
  TS_DO(ts_mem_resize(&p->shards, (size_t)p->n_shards * sizeof *p->shards,
                      (size_t)(p->n_shards + n_ranks) * sizeof *p->shards,
                      TS_TAG_MISC));
  for (int k = 0; k < n_ranks; k++) {
    const int64_t row0 = ts_place_first_row(t, k, n_ranks);
    const int64_t n_rows = ts_place_first_row(t, k + 1, n_ranks) - row0;
    p->shards[p->n_shards++] = (ts_shard){ranks[k], row0, n_rows, col0, n_cols};
  }
  return TS_OK;
}

ts_err ts_place_columns(int32_t *n_cols, const ts_table_config *t,
                        const ts_placement *at) {
  const int32_t n = t->ranks.n;
  if (n > 0) {
    if (t->dim % n || (n > 1 && t->dim / n % 4))
      return ts_fail(TS_ERR_DECK,
                     "table %s: `ranks` names %d ranks, but %d columns can't "
                     "be cut into as many equal shards of a multiple of 4",
                     t->name, n, t->dim);
    *n_cols = t->dim / n;
    return TS_OK;
  }
  *n_cols = at->n_cols > 0 ? at->n_cols : at->min_column;
  if (*n_cols < 4) *n_cols = 4;
  while (*n_cols < t->dim && (t->dim % *n_cols || *n_cols % 4)) ++*n_cols;
  if (*n_cols > t->dim) *n_cols = t->dim;
  return TS_OK;
}

ts_err ts_place_pick(int *ranks, int n, const int *member, int n_members,
                     const ts_placement *at) {
  ts_err err = TS_OK;
  int *taken = NULL;
  TS_TRY(ts_mem_many(taken, n_members, MISC));
  for (int k = 0; k < n; k++) {
    int best = 0;
    for (int m = 1; m < n_members; m++) {
      if (taken[m] > taken[best]) continue;
      if (taken[m] < taken[best] ||
          at->load[member[m]] < at->load[member[best]])
        best = m;
    }
    taken[best]++;
    ranks[k] = member[best];
  }
done:
  ts_mem_free(taken);
  return err;
}

int ts_place_node(const ts_placement *at) {
  const ts_nodes *n = at->nodes;
  int best = 0;
  double least = 0;
  for (int k = 0; k < n->n_nodes; k++) {
    double sum = 0;
    for (int m = n->start[k]; m < n->start[k + 1]; m++)
      sum += at->load[n->member[m]];
    sum /= ts_node_size(n, k);
    if (k > 0 && sum >= least) continue;
    best = k;
    least = sum;
  }
  return best;
}

ts_err ts_place_once(const ts_table_config *t) {
  for (int32_t i = 0; i < t->ranks.n; i++)
    for (int32_t k = 0; k < i; k++)
      if (t->ranks.item[i] == t->ranks.item[k])
        return ts_fail(TS_ERR_DECK,
                       "table %s: `ranks` names rank %" PRId64 " twice",
                       t->name, t->ranks.item[i]);
  return TS_OK;
}

ts_err ts_place_one_node(int *node, const ts_table_config *t,
                         const ts_nodes *n) {
  *node = n->node[t->ranks.item[0]];
  for (int32_t i = 1; i < t->ranks.n; i++)
    if (n->node[t->ranks.item[i]] != *node)
      return ts_fail(TS_ERR_DECK,
                     "table %s: %s keeps a table on one node, but `ranks` "
                     "names rank %" PRId64 " of node %d and rank %" PRId64
                     " of node %d",
                     t->name, ts_shard_kind_name(t->sharding), t->ranks.item[0],
                     *node, t->ranks.item[i], n->node[t->ranks.item[i]]);
  return TS_OK;
}
