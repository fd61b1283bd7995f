/* column_stats.c - the fused backward of column shards whose optimizer needs
 * sums over whole rows (row-wise states, norms).
 *
 * All shards that hold columns of a row got the same ids, so they have the
 * same distinct rows in the same order: only floats travel.  Each shard
 * sends its statistics to every shard that holds other columns of the same
 * rows, and all add them in the order of the columns.  So there is one state
 * per row, the same bits in every shard, and training does not depend on how
 * columns are cut. */
#include <string.h>

#include "base/mem.h"
#include "shard/column_stats.h"

typedef struct ts_round_arg {
  ts_sharding *sharding;
  int round;
} ts_round_arg;

static float *stats_of(const ts_sharding *sharding, const ts_column_rows *r) {
  return ts_tbe_stats(sharding->groups[r->group].tbe) +
         r->first * TS_ROW_STATS_MAX;
}

static const ts_column_rows *rows_of(const ts_column_stats *c,
                                     const ts_column_link *l) {
  return &c->rows[l->rows];
}

/* The rows' places among the distinct rows of one group, which all rounds of
 * the step go by. */
static ts_err find_rows(ts_column_stats *c, ts_tbe *tbe, int32_t group) {
  int32_t n = 0;
  for (int32_t i = 0; i < c->n_rows; i++) {
    if (c->rows[i].group != group) continue;
    c->keys[n++] = ts_tbe_key(tbe, c->rows[i].slot, c->rows[i].from);
    c->keys[n++] = ts_tbe_key(tbe, c->rows[i].slot, c->rows[i].to);
  }
  if (!n) return TS_OK;
  TS_DO(ts_tbe_find(tbe, c->keys, c->found, n));
  n = 0;
  for (int32_t i = 0; i < c->n_rows; i++) {
    if (c->rows[i].group != group) continue;
    c->rows[i].first = c->found[n++];
    c->rows[i].n = c->found[n++] - c->rows[i].first;
  }
  return TS_OK;
}

static ts_err find_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_sharding *sharding = *(ts_sharding **)p;
  for (int32_t g = 0; g < sharding->n_groups; g++)
    TS_DO(find_rows(sharding->columns, sharding->groups[g].tbe, g));
  return TS_OK;
}

static ts_err pack_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_round_arg *a = p;
  ts_column_stats *c = a->sharding->columns;
  int64_t bytes = 0;
  memset(c->message_bytes, 0,
         (size_t)a->sharding->ebc->n_ranks * sizeof *c->message_bytes);
  for (int32_t i = 0; i < c->n_send; i++) {
    if (c->send[i].n_rounds <= a->round) continue;
    const int64_t n = rows_of(c, &c->send[i])->n;
    c->message_bytes[c->send[i].rank] += n * TS_ROW_STATS_MAX * 4;
    bytes += n * TS_ROW_STATS_MAX * 4;
  }
  TS_DO(ts_buffer_reserve(&c->message, (size_t)bytes + 4));
  float *to = c->message.ptr;
  for (int32_t i = 0; i < c->n_send; i++) {
    if (c->send[i].n_rounds <= a->round) continue;
    const ts_column_rows *r = rows_of(c, &c->send[i]);
    TS_DO(a->sharding->ebc->kernels->copy(to, stats_of(a->sharding, r),
                                          (size_t)r->n * TS_ROW_STATS_MAX * 4));
    to += r->n * TS_ROW_STATS_MAX;
  }
  c->exchange.send = c->message.ptr;
  return TS_OK;
}

/* Where each link's floats lie in what arrived. */
static ts_err find_arrived(const ts_round_arg *a) {
  const ts_sharding *sharding = a->sharding;
  ts_column_stats *c = sharding->columns;
  int32_t i = 0;
  for (int r = 0; r < sharding->ebc->n_ranks; r++) {
    const int64_t start = sharding->comm ? c->exchange.recv_at[r] / 4 : 0;
    int64_t at = start;
    for (; i < c->n_recv && c->recv[i].rank == r; i++) {
      c->recv[i].at = at;
      if (c->recv[i].n_rounds <= a->round) continue;
      at += rows_of(c, &c->recv[i])->n * TS_ROW_STATS_MAX;
    }
    const int64_t bytes =
        sharding->comm ? c->exchange.recv_bytes[r] : c->message_bytes[r];
    if (bytes != (at - start) * 4)
      return ts_fail(TS_ERR_INTERNAL,
                     "column shards: %lld bytes of row statistics, not %lld",
                     (long long)bytes, (long long)(at - start) * 4);
  }
  return TS_OK;
}

/* Parts of columns COL0 onto the sums of one own shard, whose rows are OWN. */
static ts_err add_columns(const ts_round_arg *a, const ts_column_rows *own,
                          int32_t col0) {
  const ts_sharding *sharding = a->sharding;
  const ts_column_stats *c = sharding->columns;
  const float *arrived =
      sharding->comm ? c->exchange.recv.ptr : (const float *)c->message.ptr;
  for (int32_t i = 0; i < c->n_recv; i++) {
    const ts_column_link *l = &c->recv[i];
    const ts_column_rows *r = rows_of(c, l);
    if (r->group != own->group || r->slot != own->slot || l->col0 != col0)
      continue;
    TS_DO(sharding->ebc->kernels->add(
        (float *)c->sums.ptr + (r->first - own->first) * TS_ROW_STATS_MAX,
        arrived + l->at, r->n * TS_ROW_STATS_MAX));
  }
  return TS_OK;
}

/* The first column after COL0 at which a shard of table T starts, or dim. */
static int32_t next_columns(const ts_sharding *sharding, int32_t t,
                            int32_t col0) {
  const ts_table_plan *p = &sharding->ebc->plan->tables[t];
  int32_t next = sharding->ebc->config->tables[t].dim;
  for (int32_t k = 0; k < p->n_shards; k++)
    if (p->shards[k].col0 > col0 && p->shards[k].col0 < next)
      next = p->shards[k].col0;
  return next;
}

static ts_err sum_own(const ts_round_arg *a, const ts_own_columns *own) {
  const ts_sharding *sharding = a->sharding;
  const ts_kernels *k = sharding->ebc->kernels;
  ts_column_stats *c = sharding->columns;
  const ts_column_rows *r = &c->rows[own->rows];
  const ts_tbe_table *t =
      ts_tbe_table_of(sharding->groups[r->group].tbe, r->slot);
  const int64_t n = r->n * TS_ROW_STATS_MAX;
  float *stats = stats_of(sharding, r);
  if (!n) return TS_OK;
  TS_DO(ts_buffer_reserve(&c->sums, (size_t)n * 4));
  TS_DO(k->zero(c->sums.ptr, (size_t)n * 4));
  for (int32_t col = 0; col < t->config->dim;
       col = next_columns(sharding, t->table_id, col))
    if (col == own->col0)
      TS_DO(k->add(c->sums.ptr, stats, n));
    else
      TS_DO(add_columns(a, r, col));
  return k->copy(stats, c->sums.ptr, (size_t)n * 4);
}

static ts_err sum_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_round_arg *a = p;
  const ts_column_stats *c = a->sharding->columns;
  TS_DO(find_arrived(a));
  for (int32_t i = 0; i < c->n_own; i++)
    if (c->own[i].n_rounds > a->round) TS_DO(sum_own(a, &c->own[i]));
  return TS_OK;
}

static ts_err run_round(ts_sharding *sharding, int round, double lr_factor,
                        int64_t pass, ts_lane *lane) {
  ts_column_stats *c = sharding->columns;
  ts_round_arg arg = {sharding, round};
  ts_token token;
  for (int32_t g = 0; g < sharding->n_groups; g++)
    if (sharding->groups[g].columns &&
        ts_tbe_optim(sharding->groups[g].tbe)->n_rounds > round)
      TS_DO(
          ts_tbe_stage(sharding->groups[g].tbe, round, lr_factor, pass, lane));
  TS_DO(ts_lane_run(lane, "row statistics", pack_task, arg));
  if (sharding->comm) {
    c->exchange.send_bytes = c->message_bytes;
    TS_DO(ts_comm_exchange(sharding->comm, &token, &c->exchange, lane));
    TS_DO(ts_comm_end(&token, lane));
  }
  return ts_lane_run(lane, "row statistics", sum_task, arg);
}

ts_err ts_columns_backward(ts_sharding_batch *lf, double lr_factor,
                           int64_t pass, ts_lane *lane) {
  ts_sharding *sharding = lf->sharding;
  for (int32_t g = 0; g < sharding->n_groups; g++)
    if (sharding->groups[g].columns)
      TS_DO(ts_tbe_gather(sharding->groups[g].tbe, lf->out.ptr, &lf->inputs[g],
                          lane));
  TS_DO(ts_lane_run(lane, "row statistics", find_task, sharding));
  for (int k = 0; k < sharding->columns->n_rounds; k++)
    TS_DO(run_round(sharding, k, lr_factor, pass, lane));
  for (int32_t g = 0; g < sharding->n_groups; g++)
    if (sharding->groups[g].columns)
      TS_DO(ts_tbe_finish(sharding->groups[g].tbe, lr_factor, pass, lane));
  return TS_OK;
}
