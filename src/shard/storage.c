/* storage.c - memory of a plan, as the parts that hold it allocate it:
 * tables (sparse/tier_resident.c), a flight's matrices and inputs
 * (lot.c, input_*.c), scratch of the backward pass (sparse/tbe*.c), what
 * collectives keep aside (runtime/comm_mpi_ops.c).
 *
 * Buffers that grow with the batch are a quarter larger than what they
 * hold. */
#include <math.h>

#include "shard/cost.h"
#include "shard/sharding.h"

static const double growth = 1.25;

static bool remote(const ts_cost *c, ts_shard_kind kind) {
  return c->n_ranks > 1 && kind != TS_SHARD_DATA_PARALLEL;
}

/* keys and order twice, the bags' places and scales; for weights the bag of
 * each id. */
static double backward_bytes(const ts_cost_table *x, double n, double bags) {
  return growth * (n * (x->weighted ? 20 : 16) + bags * 12);
}

/* Offsets, rows and weights of the bags of a flight. */
static double input_bytes(const ts_cost_table *x, double n, double bags) {
  return growth * (bags * 8 + n * (x->weighted ? 8 : 4));
}

/* Sums of rows, and everyone's messages. */
static double replica_bytes(const ts_cost *c, const ts_cost_table *x, double n,
                            double width, double flights) {
  const double message = x->distinct_own * (4 + 4 * width);
  const double all = x->distinct_own * c->n_ranks;
  return growth * (n * (4 + 4 * width) + message + fmax(0, all - n) * 16 +
                   all * 12 + flights * 2 * c->n_ranks * message);
}

void ts_storage_shard(ts_plan_memory *m, const ts_cost *c, int32_t table,
                      ts_shard_kind kind, const ts_shard *s) {
  const ts_plan_request *r = c->request;
  const ts_cost_table *x = &c->tables[table];
  const ts_table_config *t = &r->config->tables[table];
  const bool replica = kind == TS_SHARD_DATA_PARALLEL;
  const double flights = r->n_flights;
  const double samples = replica ? c->batch : c->global;
  const double n = ts_cost_ids(c, table, kind, s);
  const double bags = samples * x->n_features, width = s->n_cols;
  *m = (ts_plan_memory){0};
  m->weights = (double)s->n_rows * width * (double)ts_dtype_bytes(t->dtype);
  m->state = (double)ts_shard_bytes(t, s) - m->weights;
  m->buffers = backward_bytes(x, n, bags) + flights * input_bytes(x, n, bags);
  /* out and grad_out; a reduce-scatter holds everyone's parts, too. */
  m->buffers += flights * 2 * 4 * bags * width;
  if (remote(c, kind)) { /* what arrives of the ids */
    const double ids = n * (x->weighted ? 8 : 4) + bags;
    m->buffers += flights * growth * ids;
    if (kind == TS_SHARD_ROW_WISE || kind == TS_SHARD_TABLE_ROW_WISE ||
        kind == TS_SHARD_GRID)
      m->buffers += 4 * bags * width;
  } else if (replica && c->n_ranks > 1) {
    m->buffers += replica_bytes(c, x, n, width, flights);
  } else if (!replica) { /* one rank: a message to itself */
    m->buffers += flights * growth * 2 * (n * (x->weighted ? 8 : 4) + bags);
  }
}

void ts_storage_everywhere(ts_plan_memory *m, const ts_cost *c, int32_t table,
                           const ts_table_plan *p) {
  const ts_plan_request *r = c->request;
  const ts_cost_table *x = &c->tables[table];
  const ts_table_config *t = &r->config->tables[table];
  *m = (ts_plan_memory){0};
  if (!remote(c, p->kind) || !p->n_shards) return;
  const double slices = (double)t->dim / p->shards[0].n_cols;
  const double bags = c->batch * x->n_features;
  const double ids = c->batch * x->ids * (x->weighted ? 8 : 4);
  /* Own samples' embeddings and gradients; what is sent of their ids. */
  m->buffers =
      r->n_flights * (2 * 4 * bags * t->dim + growth * slices * (ids + bags));
  if (p->kind == TS_SHARD_ROW_WISE) /* lengths go to every part */
    m->buffers += r->n_flights * growth * (p->n_shards - 1) * bags;
}
