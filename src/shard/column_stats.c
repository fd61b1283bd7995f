/* column_stats.c - the fused backward of column shards whose optimizer needs
 * sums over whole rows (row-wise states, norms).
 *
 * All shards that hold columns of a row got the same ids, so they have the
 * same distinct rows in the same order: only floats travel.  Each shard
 * sends its statistics to every shard that holds other columns of the same
 * rows, and all add them in the order of the columns.  So there is one state
 * per row, the same bits in every shard, and training does not depend on how
 * columns are cut. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "shard/sharding.h"

/* Rows [from, to) of the whole table that one of this rank's shards has in
 * common with a shard of other columns. */
typedef struct ts_column_link {
  int32_t group, slot; /* the own shard: group and its table */
  int32_t rank;        /* where the other one is */
  int32_t col0;        /* of the sender */
  int32_t n_rounds, number;
  int64_t from, to;
  int64_t at; /* floats into what arrived in this round */
} ts_column_link;

/* A shard of this rank. */
typedef struct ts_own_columns {
  int32_t group, slot, col0, n_rounds;
  int64_t from, to;
} ts_own_columns;

typedef struct ts_column_stats {
  ts_column_link *send, *recv; /* by rank */
  int32_t n_send, n_recv;
  ts_own_columns *own;
  int32_t n_own;
  int n_rounds; /* of any table, on any rank */
  ts_buffer message;
  int64_t *message_bytes; /* (W) */
  ts_exchange exchange;
  float *sums;
  size_t sums_bytes;
} ts_column_stats;

static int rounds_of(const ts_lot *lot, int32_t t) {
  const ts_table_config *c = &lot->ebc->config->tables[t];
  return ts_row_optim_find(c->optimizer.kind)->n_rounds;
}

static bool cut_by_columns(const ts_lot *lot, int32_t t) {
  return lot->ebc->plan->tables[t].shards[0].n_cols <
         lot->ebc->config->tables[t].dim;
}

/* This rank's group and table that hold SHARD of table T. */
static void find_own(const ts_lot *lot, int32_t t, const ts_shard *shard,
                     int32_t *group, int32_t *slot) {
  for (int32_t g = 0; g < lot->n_groups; g++)
    for (int32_t i = 0; i < ts_tbe_n_tables(lot->groups[g].tbe); i++) {
      const ts_tbe_table *x = ts_tbe_table_of(lot->groups[g].tbe, i);
      if (x->table_id == t && x->col0 == shard->col0 &&
          x->first_row == shard->row0) {
        *group = g;
        *slot = i;
        return;
      }
    }
}

static ts_err add_link(ts_column_link **list, int32_t *n, ts_column_link link) {
  ts_err err = TS_OK;
  TS_TRY(ts_mem_resize(list, (size_t)*n * sizeof **list,
                       (size_t)(*n + 1) * sizeof **list, TS_TAG_MISC));
  link.number = *n;
  (*list)[(*n)++] = link;
done:
  return err;
}

/* The link between sender A and receiver B of table T, on either side. */
static ts_err link_shards(ts_lot *lot, int32_t t, const ts_shard *a,
                          const ts_shard *b) {
  ts_err err = TS_OK;
  ts_column_stats *c = lot->columns;
  const int me = lot->ebc->rank;
  const int64_t a_end = a->row0 + a->n_rows, b_end = b->row0 + b->n_rows;
  ts_column_link link = {.col0 = a->col0,
                         .n_rounds = rounds_of(lot, t),
                         .from = a->row0 > b->row0 ? a->row0 : b->row0,
                         .to = a_end < b_end ? a_end : b_end};
  if (a->col0 == b->col0 || link.from >= link.to) return TS_OK;
  if (a->rank == me) {
    link.rank = b->rank;
    find_own(lot, t, a, &link.group, &link.slot);
    TS_TRY(add_link(&c->send, &c->n_send, link));
  }
  if (b->rank == me) {
    link.rank = a->rank;
    find_own(lot, t, b, &link.group, &link.slot);
    TS_TRY(add_link(&c->recv, &c->n_recv, link));
  }
done:
  return err;
}

static ts_err add_table(ts_lot *lot, int32_t t) {
  ts_err err = TS_OK;
  ts_column_stats *c = lot->columns;
  const ts_table_plan *p = &lot->ebc->plan->tables[t];
  if (rounds_of(lot, t) > c->n_rounds) c->n_rounds = rounds_of(lot, t);
  for (int32_t i = 0; i < p->n_shards; i++) {
    for (int32_t k = 0; k < p->n_shards; k++)
      TS_TRY(link_shards(lot, t, &p->shards[i], &p->shards[k]));
    const ts_shard *s = &p->shards[i];
    if (s->rank != lot->ebc->rank) continue;
    ts_own_columns own = {.col0 = s->col0,
                          .n_rounds = rounds_of(lot, t),
                          .from = s->row0,
                          .to = s->row0 + s->n_rows};
    find_own(lot, t, s, &own.group, &own.slot);
    TS_TRY(ts_mem_resize(&c->own, (size_t)c->n_own * sizeof *c->own,
                         (size_t)(c->n_own + 1) * sizeof *c->own, TS_TAG_MISC));
    c->own[c->n_own++] = own;
  }
done:
  return err;
}

static int by_rank(const void *a, const void *b) {
  const ts_column_link *x = a, *y = b;
  return x->rank != y->rank ? x->rank - y->rank : x->number - y->number;
}

static ts_err allocate(ts_lot *lot) {
  ts_err err = TS_OK;
  const int n_ranks = lot->ebc->n_ranks;
  const ts_buffer empty = {.space = TS_SPACE_PINNED,
                           .tag = TS_TAG_COMM,
                           .owned = true,
                           .device = lot->ebc->device};
  TS_TRY(ts_mem_alloc(&lot->columns, sizeof *lot->columns, TS_TAG_MISC));
  lot->columns->message = lot->columns->exchange.recv = empty;
  TS_TRY(ts_mem_array(&lot->columns->message_bytes, n_ranks, sizeof(int64_t),
                      TS_TAG_COMM));
  ts_exchange *x = &lot->columns->exchange;
  TS_TRY(ts_mem_array(&x->recv_bytes, n_ranks, 8, TS_TAG_COMM));
  TS_TRY(ts_mem_array(&x->recv_at, n_ranks, 8, TS_TAG_COMM));
  x->rooms = &lot->rooms;
done:
  return err;
}

ts_err ts_columns_create(ts_lot *lot) {
  ts_err err = TS_OK;
  int32_t last = -1;
  for (int32_t i = 0; i < lot->n_views; i++) {
    const int32_t t = lot->views[i].table;
    if (t == last || !cut_by_columns(lot, t) || !rounds_of(lot, t)) continue;
    last = t;
    if (!lot->columns) TS_TRY(allocate(lot));
    TS_TRY(add_table(lot, t));
  }
  for (int32_t g = 0; g < lot->n_groups; g++)
    lot->groups[g].columns = lot->groups[g].columns &&
                             ts_tbe_optim(lot->groups[g].tbe)->n_rounds > 0;
  ts_column_stats *c = lot->columns;
  if (c && c->n_send)
    qsort(c->send, (size_t)c->n_send, sizeof *c->send, by_rank);
  if (c && c->n_recv)
    qsort(c->recv, (size_t)c->n_recv, sizeof *c->recv, by_rank);
done:
  return err;
}

void ts_columns_destroy(ts_lot *lot) {
  ts_column_stats *c = lot->columns;
  if (!c) return;
  ts_buffer_reset(&c->message);
  ts_buffer_reset(&c->exchange.recv);
  ts_mem_free(c->exchange.recv_bytes);
  ts_mem_free(c->exchange.recv_at);
  ts_mem_free(c->message_bytes);
  ts_mem_free(c->send);
  ts_mem_free(c->recv);
  ts_mem_free(c->own);
  ts_mem_free(c->sums);
  ts_mem_free(c);
}

/* ---- room -------------------------------------------------------------- */

/* Rows of link L that a full batch touches at most; the same on both sides. */
static int64_t rows_of(const ts_lot *lot, const ts_column_link *l) {
  const ts_ebc *ebc = lot->ebc;
  const int32_t t =
      ts_tbe_table_of(lot->groups[l->group].tbe, l->slot)->table_id;
  int64_t n = 0;
  for (int32_t f = 0; f < ebc->n_features; f++)
    if (ebc->feature_table[f] == t) n += ebc->n_ranks * ts_expect_ids(ebc, f);
  return n < l->to - l->from ? n : l->to - l->from;
}

/* Bytes of LIST's links by rank into ROOM. */
static int64_t find_rooms(const ts_lot *lot, const ts_column_link *list,
                          int32_t n, int64_t *room) {
  const int n_ranks = lot->ebc->n_ranks;
  int64_t bytes[n_ranks], all = 0;
  memset(bytes, 0, sizeof bytes);
  for (int32_t i = 0; i < n; i++)
    bytes[list[i].rank] += rows_of(lot, &list[i]) * TS_ROW_STATS_MAX * 4;
  for (int r = 0; r < n_ranks; r++) {
    const int64_t own = ts_room_bytes(bytes[r]);
    if (room) room[r] = own;
    all += own;
  }
  return all;
}

ts_err ts_columns_expect(ts_lot *lot) {
  ts_err err = TS_OK;
  ts_column_stats *c = lot->columns;
  ts_pool *pool = &lot->ebc->pool;
  int64_t sums = 0;
  TS_TRY(ts_pool_add(pool, &c->message));
  TS_TRY(ts_pool_add(pool, &c->exchange.recv));
  TS_TRY(ts_buffer_reserve(
      &c->message,
      (size_t)find_rooms(lot, c->send, c->n_send, lot->rooms.send) + 4));
  TS_TRY(ts_buffer_reserve(
      &c->exchange.recv,
      (size_t)find_rooms(lot, c->recv, c->n_recv, lot->rooms.recv)));
  for (int32_t i = 0; i < c->n_own; i++) {
    const ts_column_link own = {.group = c->own[i].group,
                                .slot = c->own[i].slot,
                                .from = c->own[i].from,
                                .to = c->own[i].to};
    const int64_t n = rows_of(lot, &own);
    if (n > sums) sums = n;
  }
  TS_TRY(ts_mem_reserve(&c->sums, &c->sums_bytes,
                        (size_t)sums * TS_ROW_STATS_MAX * 4, TS_TAG_SPARSE));
done:
  return err;
}

/* ---- a round ------------------------------------------------------------- */

typedef struct ts_round_arg {
  ts_lot *lot;
  int round;
} ts_round_arg;

static float *stats_of(const ts_lot *lot, const ts_column_link *l, int64_t *n) {
  return ts_tbe_stats(lot->groups[l->group].tbe, n, l->slot, l->from, l->to);
}

static ts_err pack_task(void *p, ts_lane *lane) {
  (void)lane;
  ts_err err = TS_OK;
  const ts_round_arg *a = p;
  ts_column_stats *c = a->lot->columns;
  int64_t n, bytes = 0;
  memset(c->message_bytes, 0,
         (size_t)a->lot->ebc->n_ranks * sizeof *c->message_bytes);
  for (int32_t i = 0; i < c->n_send; i++) {
    if (c->send[i].n_rounds <= a->round) continue;
    stats_of(a->lot, &c->send[i], &n);
    c->message_bytes[c->send[i].rank] += n * TS_ROW_STATS_MAX * 4;
    bytes += n * TS_ROW_STATS_MAX * 4;
  }
  TS_TRY(ts_buffer_reserve(&c->message, (size_t)bytes + 4));
  float *to = c->message.ptr;
  for (int32_t i = 0; i < c->n_send; i++) {
    if (c->send[i].n_rounds <= a->round) continue;
    const float *from = stats_of(a->lot, &c->send[i], &n);
    memcpy(to, from, (size_t)n * TS_ROW_STATS_MAX * 4);
    to += n * TS_ROW_STATS_MAX;
  }
  c->exchange.send = c->message.ptr;
done:
  return err;
}

/* Where each link's floats lie in what arrived. */
static ts_err find_arrived(const ts_round_arg *a) {
  const ts_lot *lot = a->lot;
  ts_column_stats *c = lot->columns;
  int32_t i = 0;
  for (int r = 0; r < lot->ebc->n_ranks; r++) {
    const int64_t start = lot->comm ? c->exchange.recv_at[r] / 4 : 0;
    int64_t n, at = start;
    for (; i < c->n_recv && c->recv[i].rank == r; i++) {
      c->recv[i].at = at;
      if (c->recv[i].n_rounds <= a->round) continue;
      stats_of(lot, &c->recv[i], &n);
      at += n * TS_ROW_STATS_MAX;
    }
    const int64_t bytes =
        lot->comm ? c->exchange.recv_bytes[r] : c->message_bytes[r];
    if (bytes != (at - start) * 4)
      return ts_fail(TS_ERR_INTERNAL,
                     "column shards: %lld bytes of row statistics, not %lld",
                     (long long)bytes, (long long)(at - start) * 4);
  }
  return TS_OK;
}

static void add(float *to, const float *from, int64_t n) {
  for (int64_t i = 0; i < n * TS_ROW_STATS_MAX; i++) to[i] += from[i];
}

/* Parts of columns COL0 onto the sums of one own shard. */
static void add_columns(const ts_round_arg *a, const ts_own_columns *own,
                        int32_t col0, float *sums, const float *stats) {
  const ts_lot *lot = a->lot;
  const ts_column_stats *c = lot->columns;
  const float *arrived =
      lot->comm ? c->exchange.recv.ptr : (const float *)c->message.ptr;
  for (int32_t i = 0; i < c->n_recv; i++) {
    const ts_column_link *l = &c->recv[i];
    int64_t n;
    if (l->group != own->group || l->slot != own->slot || l->col0 != col0)
      continue;
    const float *rows = stats_of(lot, l, &n);
    add(sums + (rows - stats), arrived + l->at, n);
  }
}

/* The first column after COL0 at which a shard of table T starts, or dim. */
static int32_t next_columns(const ts_lot *lot, int32_t t, int32_t col0) {
  const ts_table_plan *p = &lot->ebc->plan->tables[t];
  int32_t next = lot->ebc->config->tables[t].dim;
  for (int32_t k = 0; k < p->n_shards; k++)
    if (p->shards[k].col0 > col0 && p->shards[k].col0 < next)
      next = p->shards[k].col0;
  return next;
}

static ts_err sum_own(const ts_round_arg *a, const ts_own_columns *own) {
  ts_err err = TS_OK;
  const ts_lot *lot = a->lot;
  ts_column_stats *c = lot->columns;
  ts_tbe *tbe = lot->groups[own->group].tbe;
  const ts_tbe_table *t = ts_tbe_table_of(tbe, own->slot);
  int64_t n;
  float *stats = ts_tbe_stats(tbe, &n, own->slot, own->from, own->to);
  const size_t bytes = (size_t)n * TS_ROW_STATS_MAX * 4;
  if (!n) return TS_OK;
  TS_TRY(ts_mem_reserve(&c->sums, &c->sums_bytes, bytes, TS_TAG_SPARSE));
  memset(c->sums, 0, bytes);
  for (int32_t col = 0; col < t->config->dim;
       col = next_columns(lot, t->table_id, col))
    if (col == own->col0)
      add(c->sums, stats, n);
    else
      add_columns(a, own, col, c->sums, stats);
  memcpy(stats, c->sums, bytes);
done:
  return err;
}

static ts_err sum_task(void *p, ts_lane *lane) {
  (void)lane;
  ts_err err = TS_OK;
  const ts_round_arg *a = p;
  const ts_column_stats *c = a->lot->columns;
  TS_TRY(find_arrived(a));
  for (int32_t i = 0; i < c->n_own; i++)
    if (c->own[i].n_rounds > a->round) TS_TRY(sum_own(a, &c->own[i]));
done:
  return err;
}

static ts_err run_round(ts_lot *lot, int round, double lr_factor, int64_t pass,
                        ts_lane *lane) {
  ts_err err = TS_OK;
  ts_column_stats *c = lot->columns;
  ts_round_arg arg = {lot, round};
  ts_token token;
  for (int32_t g = 0; g < lot->n_groups; g++)
    if (lot->groups[g].columns &&
        ts_tbe_optim(lot->groups[g].tbe)->n_rounds > round)
      TS_TRY(ts_tbe_stage(lot->groups[g].tbe, round, lr_factor, pass, lane));
  TS_TRY(ts_lane_submit(lane, "row statistics", pack_task, &arg, sizeof arg));
  if (lot->comm) {
    c->exchange.send_bytes = c->message_bytes;
    TS_TRY(ts_comm_exchange(lot->comm, &token, &c->exchange, lane));
    TS_TRY(ts_comm_end(&token, lane));
  }
  TS_TRY(ts_lane_submit(lane, "row statistics", sum_task, &arg, sizeof arg));
done:
  return err;
}

ts_err ts_columns_backward(ts_lot_flight *lf, double lr_factor, int64_t pass,
                           ts_lane *lane) {
  ts_err err = TS_OK;
  ts_lot *lot = lf->lot;
  for (int32_t g = 0; g < lot->n_groups; g++)
    if (lot->groups[g].columns)
      TS_TRY(ts_tbe_gather(lot->groups[g].tbe, lf->grad_out.ptr, &lf->inputs[g],
                           lane));
  for (int k = 0; k < lot->columns->n_rounds; k++)
    TS_TRY(run_round(lot, k, lr_factor, pass, lane));
  for (int32_t g = 0; g < lot->n_groups; g++)
    if (lot->groups[g].columns)
      TS_TRY(ts_tbe_finish(lot->groups[g].tbe, lr_factor, pass, lane));
done:
  return err;
}
