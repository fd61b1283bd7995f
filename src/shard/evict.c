/* evict.c - which ids of dynamic tables lose their rows.
 *
 * All ranks' ids have one order: by when they were last met (lru), or by how
 * many steps they were met in and then by when (lfu); of equal ones by their
 * keys.  The first ones go, until as many are left as the deck says.  What is
 * met is counted by updates of rows, in steps, so that nothing depends on
 * ranks, on the plan, or on how far ahead a pipeline is.
 *
 * The last id to go is found digit by digit, from the top: ranks add up how
 * many of their ids have each digit.  No id travels. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "shard/ebc_batch.h"
#include "sparse/index.h"

enum { DIGIT_BITS = 12, DIGITS = 1 << DIGIT_BITS, TOP = 60 };

/* A table, and this rank's shard of it. */
typedef struct ts_evicting {
  const ts_table_config *config;
  bool here;
  ts_tbe_ids have;
  int32_t shard, n_shards;
  int64_t n;       /* ids, by ascending keys */
  int64_t *ids;    /* (n) */
  uint32_t *rows;  /* (n) */
  uint64_t *order; /* (n) */
  int64_t *counts; /* (DIGITS), or (n_shards) */
} ts_evicting;

typedef struct ts_finding {
  const ts_ebc *ebc;
  int32_t table;
  ts_evicting *x;
} ts_finding;

static ts_err find_shard(void *arg, int32_t table, const ts_shard *s,
                         ts_tbe *tbe, int32_t number) {
  const ts_finding *f = arg;
  if (table != f->table) return TS_OK;
  f->x->here = true;
  f->x->have = ts_tbe_ids_of(tbe, number);
  f->x->shard = (int32_t)(s - f->ebc->plan->tables[table].shards);
  return TS_OK;
}

/* ---- this rank's ids ----------------------------------------------------- */

static uint64_t order_of(const ts_evicting *x, uint32_t row) {
  const uint64_t last = x->have.last[row];
  return strcmp(x->config->evict.kind, "lfu") != 0
             ? last
             : (uint64_t)x->have.seen[row] << 32 | last;
}

static ts_err list(ts_evicting *x) {
  x->n = x->here ? ts_index_n(x->have.index) : 0;
  TS_DO(ts_mem_many(x->ids, x->n + 1, SPARSE));
  TS_DO(ts_mem_many(x->rows, x->n + 1, SPARSE));
  TS_DO(ts_mem_many(x->order, x->n + 1, SPARSE));
  return x->here ? ts_index_list(x->have.index, x->ids, x->rows) : TS_OK;
}

/* Without those that batches from FIRST on have brought. */
static void forget(ts_evicting *x, uint32_t first) {
  int64_t n = 0;
  for (int64_t k = 0; k < x->n; k++) {
    if (first && x->have.born[x->rows[k]] >= first) {
      (void)ts_index_erase(x->have.index, x->ids[k]);
      continue;
    }
    x->ids[n] = x->ids[k];
    x->rows[n] = x->rows[k];
    x->order[n] = order_of(x, x->rows[k]);
    n++;
  }
  x->n = n;
}

static int64_t end_old(ts_evicting *x, int64_t step) {
  int64_t n = 0;
  for (int64_t k = 0; k < x->n; k++)
    if (step - (int64_t)x->have.last[x->rows[k]] >= x->config->evict.ttl)
      n += ts_index_erase(x->have.index, x->ids[k]);
  return n;
}

/* ---- the order of all ---------------------------------------------------- */

/* *LAST: the order of the M-th of all ids; *M: how many of that order go. */
static ts_err find_last(ts_evicting *x, int64_t *m, uint64_t *last,
                        ts_comm *comm) {
  uint64_t found = 0;
  for (int shift = TOP; shift >= 0; shift -= DIGIT_BITS) {
    memset(x->counts, 0, DIGITS * sizeof *x->counts);
    for (int64_t k = 0; k < x->n; k++)
      if (shift == TOP || x->order[k] >> (shift + DIGIT_BITS) == found)
        x->counts[x->order[k] >> shift & (DIGITS - 1)]++;
    TS_DO(ts_comm_sum_i64(comm, x->counts, DIGITS));
    int32_t digit = 0;
    while (digit < DIGITS - 1 && *m > x->counts[digit])
      *m -= x->counts[digit++];
    found = found << DIGIT_BITS | (uint64_t)digit;
  }
  *last = found;
  return TS_OK;
}

/* How many of the order LAST are in the shards before this one. */
static ts_err count_before(ts_evicting *x, uint64_t last, int64_t *before,
                           ts_comm *comm) {
  *before = 0;
  memset(x->counts, 0, (size_t)x->n_shards * sizeof *x->counts);
  for (int64_t k = 0; k < x->n; k++) x->counts[x->shard] += x->order[k] == last;
  TS_DO(ts_comm_sum_i64(comm, x->counts, x->n_shards));
  for (int32_t s = 0; s < x->shard; s++) *before += x->counts[s];
  return TS_OK;
}

/* The first M of all ids go. */
static ts_err end_first(ts_evicting *x, int64_t m, ts_comm *comm) {
  uint64_t last;
  int64_t before;
  TS_DO(find_last(x, &m, &last, comm));
  TS_DO(count_before(x, last, &before, comm));
  for (int64_t k = 0; k < x->n; k++)
    if (x->order[k] < last || (x->order[k] == last && before++ < m))
      (void)ts_index_erase(x->have.index, x->ids[k]);
  return TS_OK;
}

/* lfu halves its numbers at each look, so that old steps count less. */
static void age(ts_evicting *x) {
  if (strcmp(x->config->evict.kind, "lfu") != 0) return;
  for (int64_t k = 0; k < x->n; k++) x->have.seen[x->rows[k]] /= 2;
}

static ts_err evict(ts_evicting *x, int64_t step, ts_comm *comm,
                    ts_evicted *out) {
  int64_t n[2] = {x->n, 0};
  const bool old = !strcmp(x->config->evict.kind, "ttl");
  if (old) n[1] = end_old(x, step);
  TS_DO(ts_comm_sum_i64(comm, n, 2));
  const int64_t keep =
      (int64_t)floor(x->config->evict.keep * (double)x->config->capacity);
  if (!old && n[0] > keep) {
    n[1] = n[0] - keep;
    TS_DO(end_first(x, n[1], comm));
  }
  age(x);
  *out = (ts_evicted){.n_ids = n[0] - n[1], .n_evicted = n[1]};
  return TS_OK;
}

static ts_err evict_of(ts_ebc *ebc, int32_t table, int64_t step, uint32_t first,
                       ts_comm *comm, ts_evicted *out) {
  const int32_t n_shards = ebc->plan->tables[table].n_shards;
  ts_evicting x = {.config = &ebc->config->tables[table], .n_shards = n_shards};
  ts_finding f = {ebc, table, &x};
  ts_err err = ts_ebc_each_shard(ebc, find_shard, &f);
  if (err == TS_OK) err = list(&x);
  if (err == TS_OK)
    err = ts_mem_many(x.counts, DIGITS + (int64_t)n_shards, SPARSE);
  TS_TRY(ts_agree(comm, err));
  forget(&x, first);
  TS_TRY(evict(&x, step, comm, out));
done:
  ts_mem_free_all(x.ids, x.rows, x.order, x.counts);
  return err;
}

ts_err ts_ebc_evict(ts_ebc *ebc, int64_t step, uint32_t first, ts_comm *comm,
                    ts_evicted *out) {
  for (int32_t t = 0; t < ebc->config->n_tables; t++) {
    const ts_table_config *c = &ebc->config->tables[t];
    out[t] = (ts_evicted){.n_ids = -1};
    if (ts_table_evicts(c) && step % c->evict.every == 0)
      TS_DO(evict_of(ebc, t, step, first, comm, &out[t]));
  }
  return TS_OK;
}
