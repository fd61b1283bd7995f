/* expect.c - what a full batch takes, before there is one: so much room each
 * message gets that ids of one to a sample never need a second one.
 *
 * Where features have as many ids as samples and go to one shard this is
 * exact; elsewhere a quarter more than the mean.  Larger messages still go
 * through, see ts_rooms. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "shard/message.h"

static bool one_id(const ts_ebc *ebc, int32_t feature) {
  return ebc->pooling[feature] == 1.0;
}

/* A quarter over the mean. */
static int64_t with_margin(double n) {
  return (int64_t)ceil(1.25 * n) + 16;
}

int64_t ts_expect_ids(const ts_ebc *ebc, int32_t feature) {
  return one_id(ebc, feature)
             ? ebc->batch_max
             : with_margin(ebc->batch_max * ebc->pooling[feature]);
}

int64_t ts_expect_part(const ts_ebc *ebc, int32_t feature, int64_t n_rows) {
  const ts_table_config *t = &ebc->config->tables[ebc->feature_table[feature]];
  return with_margin(ebc->batch_max * ebc->pooling[feature] * (double)n_rows /
                     (double)t->rows);
}

/* Of N ids of a sequence those that differ: no more than ROWS without weights.
 */
static int64_t different(const ts_ebc *ebc, int32_t feature, int64_t n,
                         int64_t rows) {
  const ts_table_config *t = &ebc->config->tables[ebc->feature_table[feature]];
  const bool plain = t->pooling == TS_POOL_NONE && !t->weighted;
  return plain && rows < n ? rows : n;
}

int64_t ts_expect_route(const ts_ebc *ebc, const ts_route *r, int64_t *n_bags) {
  const int64_t all = r->split ? ts_expect_part(ebc, r->feature, r->n_rows)
                               : ts_expect_ids(ebc, r->feature);
  const int64_t n =
      r->sequence ? different(ebc, r->feature, all, r->n_rows) : all;
  *n_bags = r->sequence ? n : ebc->batch_max;
  return n;
}

static int64_t section_bytes(const ts_ebc *ebc, const ts_route *r) {
  const bool one = r->sequence || (!r->split && one_id(ebc, r->feature));
  int64_t n_bags;
  const int64_t n_ids = ts_expect_route(ebc, r, &n_bags);
  return ts_section_bytes(r, n_ids, one ? TS_FORM_ONE : TS_FORM_BYTES, n_bags);
}

/* The sections to RANK. */
static int64_t sections_bytes(const ts_ebc *ebc, int rank) {
  int64_t bytes = 0;
  for (int32_t i = ebc->route_start[rank]; i < ebc->route_start[rank + 1]; i++)
    bytes += section_bytes(ebc, &ebc->routes[i]);
  return bytes;
}

int64_t ts_expect_message(const ts_ebc *ebc, int rank) {
  const int32_t n = ebc->route_start[rank + 1] - ebc->route_start[rank];
  const int64_t sections = ebc->section_comm ? 0 : sections_bytes(ebc, rank);
  return (ts_head_bytes(ebc, n) + sections + 7) / 8 * 8;
}

int64_t ts_expect_sections(const ts_ebc *ebc, int rank) {
  return ebc->section_comm ? (sections_bytes(ebc, rank) + 7) / 8 * 8 : 0;
}

/* ---- groups -------------------------------------------------------------- */

/* The ids and bags that are expected to arrive for group G. */
static ts_tbe_expected group_of(const ts_sharding *sharding,
                                const ts_sharding_group *g) {
  const ts_ebc *ebc = sharding->ebc;
  const ts_route *own = ebc->routes + ebc->route_start[ebc->rank];
  ts_tbe_expected x = {.ahead = ts_device_is_discrete(ebc->device),
                       .weighted = g->weighted || g->positions};
  for (int32_t s = 0; s < g->n_slots; s++) {
    int64_t n_bags = ebc->batch_max;
    if (!sharding->travels) {
      const int32_t f = sharding->pieces[g->piece[s]].feature;
      const int64_t rows = ebc->config->tables[ebc->feature_table[f]].rows;
      const int64_t n = different(ebc, f, ts_expect_ids(ebc, f), rows);
      x.n_ids += n;
      x.n_bags += sharding->sequence ? n : n_bags;
      continue;
    }
    x.n_ids += ebc->n_ranks * ts_expect_route(ebc, &own[g->route[s]], &n_bags);
    x.n_bags += ebc->n_ranks * n_bags;
  }
  return x;
}

/* Distinct rows of group G among N ids. */
static int64_t distinct_of(const ts_sharding_group *g, int64_t n) {
  int64_t rows = 0;
  for (int32_t i = 0; i < ts_tbe_n_tables(g->tbe); i++)
    rows += ts_tbe_table_of(g->tbe, i)->n_rows;
  return n < rows ? n : rows;
}

ts_tbe_expected ts_expect_group(const ts_sharding *sharding,
                                const ts_sharding_group *g) {
  ts_tbe_expected x = group_of(sharding, g);
  const bool replica = !sharding->ops->remote && sharding->comm;
  if (replica || g->columns) x.n_sums = distinct_of(g, x.n_ids);
  if (replica) x.n_all = x.n_sums * sharding->ebc->n_ranks;
  return x;
}

static ts_err expect_sharding(ts_sharding *sharding) {
  for (int32_t g = 0; g < sharding->n_groups; g++) {
    const ts_tbe_expected x = ts_expect_group(sharding, &sharding->groups[g]);
    TS_DO(ts_tbe_expect(sharding->groups[g].tbe, &sharding->ebc->pool, &x));
  }
  if (sharding->columns) TS_DO(ts_columns_expect(sharding));
  return TS_OK;
}

void ts_ebc_expect_uploaded(ts_ebc *ebc) {
  ebc->uploaded = true;
}

ts_err ts_ebc_expect(ts_ebc *ebc, int32_t batch_max, const double *pooling) {
  TS_DO(ts_mem_many(ebc->pooling, ebc->n_features, MISC));
  memcpy(ebc->pooling, pooling, (size_t)ebc->n_features * sizeof *pooling);
  ebc->batch_max = batch_max;
  for (int r = 0; r < ebc->n_ranks; r++) {
    ebc->input_rooms.send[r] = ts_room_bytes(ts_expect_message(ebc, r));
    ebc->input_rooms.recv[r] = ts_room_bytes(ts_expect_message(ebc, ebc->rank));
  }
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    TS_DO(expect_sharding(&ebc->shardings[l]));
  return ts_pool_start(&ebc->pool);
}
