/* evict.c - which ids of dynamic tables lose their rows.
 *
 * All ranks' ids have one order: by when they were last met (lru), by how many
 * steps they were met in and then by when (lfu), or by the sum of their
 * gradients' norms and then by when (score); of equal ones by their keys.  The
 * first ones go, until as many are left as the deck says.  What is met is
 * counted by updates of rows, in steps, so that nothing depends on ranks, on
 * the plan, or on how far ahead a pipeline is; norms alone have the last bits
 * that gradients have on as many ranks.
 *
 * The last id to go is found digit by digit, from the top: ranks add up how
 * many of their ids have each digit.  No id travels. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "shard/ebc_batch.h"
#include "sparse/admit.h"
#include "sparse/index.h"

enum { DIGIT_BITS = 12, DIGITS = 1 << DIGIT_BITS, TOP = 60 };

/* A rank's counts for ts_ids_figures (FIGURES).  counts[b], b below BUCKETS:
 * ids that a find meets in the (b + 1)-th bucket, of the first SAMPLE by key;
 * counts[BUCKETS]: all ids; counts[NEW]: of them those of batches after one. */
enum { SAMPLE = 1 << 16, BUCKETS = 64, NEW, FIGURES };

/* A table, and this rank's shard of it. */
typedef struct ts_evicting {
  const ts_table_config *config;
  bool here;
  ts_tbe *tbe;
  int32_t number; /* of the table in it */
  ts_tbe_ids have;
  int32_t shard, n_shards;
  int64_t n;       /* ids, by ascending keys */
  int64_t *ids;    /* (n) */
  uint32_t *rows;  /* (n) */
  uint64_t *order; /* (n) */
  bool *goes;      /* (n) */
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
  f->x->tbe = tbe;
  f->x->number = number;
  f->x->have = ts_tbe_ids_of(tbe, number);
  f->x->shard = (int32_t)(s - f->ebc->plan->tables[table].shards);
  return TS_OK;
}

/* ---- this rank's ids ----------------------------------------------------- */

/* Floats that are not negative are in the order of their bits; what is not a
 * number comes after all. */
static uint32_t bits_of(float score) {
  uint32_t bits;
  memcpy(&bits, &score, sizeof bits);
  return bits & INT32_MAX;
}

static uint64_t order_of(const ts_table_config *c, int64_t seen, int64_t last,
                         const float *score) {
  const uint64_t low = (uint32_t)last;
  if (score) return (uint64_t)bits_of(*score) << 32 | low;
  return strcmp(c->evict.kind, "lfu") != 0 ? low : (uint64_t)seen << 32 | low;
}

static ts_err list(ts_evicting *x) {
  x->n = x->here ? ts_index_n(x->have.index) : 0;
  TS_DO(ts_mem_many(x->ids, x->n + 1, SPARSE));
  TS_DO(ts_mem_many(x->rows, x->n + 1, SPARSE));
  TS_DO(ts_mem_many(x->order, x->n + 1, SPARSE));
  TS_DO(ts_mem_many(x->goes, x->n + 1, SPARSE));
  if (!x->here) return TS_OK;
  TS_DO(ts_index_list(x->have.index, x->ids, x->rows));
  for (int64_t k = 0; x->have.last && k < x->n; k++) {
    const uint32_t row = x->rows[k];
    x->order[k] = order_of(x->config, x->have.seen[row], x->have.last[row],
                           x->have.score ? &x->have.score[row] : NULL);
  }
  return TS_OK;
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

/* GOES (n): which are among the first M of all ids. */
static ts_err find_first(ts_evicting *x, int64_t m, bool *goes, ts_comm *comm) {
  uint64_t last;
  int64_t before;
  TS_DO(find_last(x, &m, &last, comm));
  TS_DO(count_before(x, last, &before, comm));
  for (int64_t k = 0; k < x->n; k++)
    goes[k] = x->order[k] < last || (x->order[k] == last && before++ < m);
  return TS_OK;
}

static ts_err end_first(ts_evicting *x, int64_t m, ts_comm *comm) {
  TS_DO(find_first(x, m, x->goes, comm));
  for (int64_t k = 0; k < x->n; k++)
    if (x->goes[k]) (void)ts_index_erase(x->have.index, x->ids[k]);
  return TS_OK;
}

/* lfu and score halve their numbers at each look, so that old steps count
 * less. */
static void age(ts_evicting *x) {
  const bool lfu = !strcmp(x->config->evict.kind, "lfu");
  for (int64_t k = 0; lfu && k < x->n; k++) x->have.seen[x->rows[k]] /= 2;
  for (int64_t k = 0; x->have.score && k < x->n; k++)
    x->have.score[x->rows[k]] *= 0.5f;
}

static int64_t kept_of(const ts_table_config *c) {
  return (int64_t)floor(c->evict.keep * (double)c->capacity);
}

static ts_err evict(ts_evicting *x, int64_t step, ts_comm *comm,
                    ts_evicted *out) {
  int64_t n[2] = {x->n, 0};
  const bool old = !strcmp(x->config->evict.kind, "ttl");
  if (old) n[1] = end_old(x, step);
  TS_DO(ts_comm_sum_i64(comm, n, 2));
  const int64_t keep = kept_of(x->config);
  if (!old && n[0] > keep) {
    n[1] = n[0] - keep;
    TS_DO(end_first(x, n[1], comm));
  }
  age(x);
  *out = (ts_evicted){.n_ids = n[0] - n[1], .n_evicted = n[1]};
  return TS_OK;
}

static ts_err look(ts_evicting *x, int64_t step, ts_comm *comm,
                   ts_evicted *out) {
  ts_err err = x->here ? ts_tbe_fetch_counts(x->tbe, x->number) : TS_OK;
  if (err == TS_OK) err = list(x);
  if (err == TS_OK)
    err = ts_mem_many(x->counts, DIGITS + (int64_t)x->n_shards, SPARSE);
  TS_TRY(ts_agree(comm, err));
  TS_TRY(evict(x, step, comm, out));
  if (x->here) err = ts_tbe_send_counts(x->tbe, x->number);
  if (x->here && err == TS_OK && out->n_evicted)
    err = ts_tbe_drop_lines(x->tbe);
  TS_TRY(ts_agree(comm, err));
done:
  ts_mem_free_all(x->ids, x->rows, x->order, x->goes, x->counts);
  return err;
}

static ts_err look_at(ts_ebc *ebc, int32_t table, int64_t step, ts_comm *comm,
                      ts_evicted *out) {
  const ts_table_config *c = &ebc->config->tables[table];
  ts_evicting x = {.config = c, .n_shards = ebc->plan->tables[table].n_shards};
  ts_finding f = {ebc, table, &x};
  TS_DO(ts_agree(comm, ts_ebc_each_shard(ebc, find_shard, &f)));
  if (ts_table_evicts_at(c, step)) TS_DO(look(&x, step, comm, out));
  if (ts_table_halves_at(c, step) && x.here) ts_admit_halve(x.have.admit);
  return TS_OK;
}

ts_err ts_ebc_evict(ts_ebc *ebc, int64_t step, ts_comm *comm, ts_evicted *out) {
  for (int32_t t = 0; t < ebc->config->n_tables; t++) {
    out[t] = (ts_evicted){.n_ids = -1};
    if (ts_table_looks_at(&ebc->config->tables[t], step))
      TS_DO(look_at(ebc, t, step, comm, &out[t]));
  }
  return TS_OK;
}

static ts_err forget_group(void *arg, int32_t table, const ts_shard *s,
                           ts_tbe *tbe, int32_t number) {
  (void)table, (void)s;
  if (number || !ts_tbe_is_dynamic(tbe)) return TS_OK;
  return ts_tbe_forget(tbe, *(const uint32_t *)arg);
}

ts_err ts_ebc_forget_from(ts_ebc *ebc, uint32_t first) {
  return ts_ebc_each_shard(ebc, forget_group, &first);
}

ts_err ts_evict_list(const ts_table_config *c, ts_evict_ids *l, ts_comm *comm) {
  ts_err err = TS_OK;
  int64_t n = l->n;
  ts_evicting x = {
      .config = c, .shard = l->shard, .n_shards = l->n_shards, .n = l->n};
  err = ts_mem_many(x.order, l->n + 1, SPARSE);
  if (err == TS_OK)
    err = ts_mem_many(x.counts, DIGITS + (int64_t)l->n_shards, SPARSE);
  TS_TRY(ts_agree(comm, err));
  for (int64_t k = 0; k < l->n; k++)
    x.order[k] =
        order_of(c, l->seen[k], l->last[k], l->score ? &l->score[k] : NULL);
  TS_TRY(ts_comm_sum_i64(comm, &n, 1));
  TS_TRY(find_first(&x, n - kept_of(c), l->goes, comm));
done:
  ts_mem_free_all(x.order, x.counts);
  return err;
}

/* ---- figures ------------------------------------------------------------- */

static void count(const ts_evicting *x, uint32_t after, uint32_t first,
                  int64_t *counts) {
  for (int64_t k = 0; k < x->n; k++) {
    int64_t steps, most;
    const uint32_t born = x->have.born[x->rows[k]];
    if (first && born >= first) continue;
    counts[NEW] += born > after;
    if (counts[BUCKETS]++ >= SAMPLE) continue;
    ts_index_probes(x->have.index, &x->ids[k], 1, &steps, &most);
    counts[steps < BUCKETS ? steps : BUCKETS - 1]++;
  }
}

static ts_ids_figures figures(const int64_t *counts, int64_t capacity) {
  ts_ids_figures f = {.n_ids = counts[BUCKETS],
                      .n_new = counts[NEW],
                      .load = (double)counts[BUCKETS] / (double)capacity};
  int64_t n = 0, sum = 0, seen = 0;
  for (int b = 0; b < BUCKETS; b++) {
    n += counts[b];
    sum += counts[b] * (b + 1);
  }
  for (int b = 0; n && seen * 100 < n * 99; b++) {
    seen += counts[b];
    f.probes_p99 = b + 1;
  }
  if (n) f.probes = (double)sum / (double)n;
  return f;
}

static ts_err figures_of(ts_ebc *ebc, int32_t table, uint32_t after,
                         uint32_t first, ts_comm *comm, ts_ids_figures *out) {
  int64_t counts[FIGURES] = {0};
  ts_evicting x = {.config = &ebc->config->tables[table]};
  ts_finding f = {ebc, table, &x};
  ts_err err = ts_ebc_each_shard(ebc, find_shard, &f);
  if (err == TS_OK) err = list(&x);
  TS_TRY(ts_agree(comm, err));
  count(&x, after, first, counts);
  TS_TRY(ts_comm_sum_i64(comm, counts, FIGURES));
  *out = figures(counts, x.config->capacity);
done:
  ts_mem_free_all(x.ids, x.rows, x.order, x.goes);
  return err;
}

ts_err ts_ebc_ids_figures(ts_ebc *ebc, uint32_t after, uint32_t first,
                          ts_comm *comm, ts_ids_figures *out) {
  for (int32_t t = 0; t < ebc->config->n_tables; t++) {
    out[t] = (ts_ids_figures){.n_ids = -1};
    if (ts_table_is_dynamic(&ebc->config->tables[t]))
      TS_DO(figures_of(ebc, t, after, first, comm, &out[t]));
  }
  return TS_OK;
}
