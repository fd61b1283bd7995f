/* column_links.c - the shards that hold columns of the same rows: found once,
 * with the room that their messages and sums take. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "shard/column_stats.h"

static int rounds_of(const ts_sharding *sharding, int32_t t) {
  const ts_table_config *c = &sharding->ebc->config->tables[t];
  return ts_row_optim_find(c->optimizer.kind)->n_rounds;
}

static bool cut_by_columns(const ts_sharding *sharding, int32_t t) {
  return sharding->ebc->plan->tables[t].shards[0].n_cols <
         sharding->ebc->config->tables[t].dim;
}

/* This rank's group and table that hold SHARD of table T. */
static void find_own(const ts_sharding *sharding, int32_t t,
                     const ts_shard *shard, ts_column_rows *rows) {
  for (int32_t g = 0; g < sharding->n_groups; g++)
    for (int32_t i = 0; i < ts_tbe_n_tables(sharding->groups[g].tbe); i++) {
      const ts_tbe_table *x = ts_tbe_table_of(sharding->groups[g].tbe, i);
      if (x->table_id == t && x->col0 == shard->col0 &&
          x->first_row == shard->row0) {
        rows->group = g;
        rows->slot = i;
        return;
      }
    }
}

/* *NUMBER of rows [FROM, TO) of SHARD in the list. */
static ts_err add_rows(ts_sharding *sharding, int32_t t, const ts_shard *shard,
                       int64_t from, int64_t to, int32_t *number) {
  ts_column_stats *c = sharding->columns;
  ts_column_rows rows = {.from = from, .to = to};
  find_own(sharding, t, shard, &rows);
  for (*number = 0; *number < c->n_rows; ++*number) {
    const ts_column_rows *r = &c->rows[*number];
    if (r->group == rows.group && r->slot == rows.slot && r->from == from &&
        r->to == to)
      return TS_OK;
  }
  TS_DO(ts_mem_resize(&c->rows, (size_t)c->n_rows * sizeof rows,
                      (size_t)(c->n_rows + 1) * sizeof rows, TS_TAG_MISC));
  c->rows[c->n_rows++] = rows;
  return TS_OK;
}

static ts_err add_link(ts_column_link **list, int32_t *n, ts_column_link link) {
  TS_DO(ts_mem_resize(list, (size_t)*n * sizeof **list,
                      (size_t)(*n + 1) * sizeof **list, TS_TAG_MISC));
  link.number = *n;
  (*list)[(*n)++] = link;
  return TS_OK;
}

/* The link between sender A and receiver B of table T, on either side. */
static ts_err link_shards(ts_sharding *sharding, int32_t t, const ts_shard *a,
                          const ts_shard *b) {
  ts_column_stats *c = sharding->columns;
  const int me = sharding->ebc->rank;
  const int64_t a_end = a->row0 + a->n_rows, b_end = b->row0 + b->n_rows;
  const int64_t from = a->row0 > b->row0 ? a->row0 : b->row0;
  const int64_t to = a_end < b_end ? a_end : b_end;
  ts_column_link link = {.col0 = a->col0, .n_rounds = rounds_of(sharding, t)};
  if (a->col0 == b->col0 || from >= to) return TS_OK;
  if (a->rank == me) {
    link.rank = b->rank;
    TS_DO(add_rows(sharding, t, a, from, to, &link.rows));
    TS_DO(add_link(&c->send, &c->n_send, link));
  }
  if (b->rank == me) {
    link.rank = a->rank;
    TS_DO(add_rows(sharding, t, b, from, to, &link.rows));
    TS_DO(add_link(&c->recv, &c->n_recv, link));
  }
  return TS_OK;
}

static ts_err add_table(ts_sharding *sharding, int32_t t) {
  ts_column_stats *c = sharding->columns;
  const ts_table_plan *p = &sharding->ebc->plan->tables[t];
  if (rounds_of(sharding, t) > c->n_rounds)
    c->n_rounds = rounds_of(sharding, t);
  for (int32_t i = 0; i < p->n_shards; i++) {
    for (int32_t k = 0; k < p->n_shards; k++)
      TS_DO(link_shards(sharding, t, &p->shards[i], &p->shards[k]));
    const ts_shard *s = &p->shards[i];
    if (s->rank != sharding->ebc->rank) continue;
    ts_own_columns own = {.col0 = s->col0, .n_rounds = rounds_of(sharding, t)};
    TS_DO(add_rows(sharding, t, s, s->row0, s->row0 + s->n_rows, &own.rows));
    TS_DO(ts_mem_resize(&c->own, (size_t)c->n_own * sizeof *c->own,
                        (size_t)(c->n_own + 1) * sizeof *c->own, TS_TAG_MISC));
    c->own[c->n_own++] = own;
  }
  return TS_OK;
}

static int by_rank(const void *a, const void *b) {
  const ts_column_link *x = a, *y = b;
  return x->rank != y->rank ? x->rank - y->rank : x->number - y->number;
}

static ts_err allocate(ts_sharding *sharding) {
  const int n_ranks = sharding->ebc->n_ranks;
  ts_buffer empty = {.space = TS_SPACE_DEVICE,
                     .tag = TS_TAG_COMM,
                     .owned = true,
                     .device = sharding->ebc->device};
  TS_DO(
      ts_mem_alloc(&sharding->columns, sizeof *sharding->columns, TS_TAG_MISC));
  sharding->columns->message = sharding->columns->exchange.recv = empty;
  empty.tag = TS_TAG_SPARSE;
  sharding->columns->sums = empty;
  TS_DO(ts_mem_many(sharding->columns->message_bytes, n_ranks, COMM));
  ts_exchange *x = &sharding->columns->exchange;
  TS_DO(ts_mem_many(x->recv_bytes, n_ranks, COMM));
  TS_DO(ts_mem_many(x->recv_at, n_ranks, COMM));
  x->rooms = &sharding->rooms;
  return TS_OK;
}

ts_err ts_columns_create(ts_sharding *sharding) {
  int32_t last = -1;
  for (int32_t i = 0; i < sharding->n_views; i++) {
    const int32_t t = sharding->views[i].table;
    if (t == last || !cut_by_columns(sharding, t) || !rounds_of(sharding, t))
      continue;
    last = t;
    if (!sharding->columns) TS_DO(allocate(sharding));
    TS_DO(add_table(sharding, t));
  }
  for (int32_t g = 0; g < sharding->n_groups; g++)
    sharding->groups[g].columns =
        sharding->groups[g].columns &&
        ts_tbe_optim(sharding->groups[g].tbe)->n_rounds > 0;
  ts_column_stats *c = sharding->columns;
  if (c && c->n_send)
    qsort(c->send, (size_t)c->n_send, sizeof *c->send, by_rank);
  if (c && c->n_recv)
    qsort(c->recv, (size_t)c->n_recv, sizeof *c->recv, by_rank);
  if (!c) return TS_OK;
  TS_DO(ts_mem_many(c->keys, 2 * c->n_rows, MISC));
  return ts_mem_many(c->found, 2 * c->n_rows, MISC);
}

void ts_columns_destroy(ts_sharding *sharding) {
  ts_column_stats *c = sharding->columns;
  if (!c) return;
  ts_buffer_reset(&c->message);
  ts_buffer_reset(&c->sums);
  ts_buffer_reset(&c->exchange.recv);
  ts_mem_free(c->exchange.recv_bytes);
  ts_mem_free(c->exchange.recv_at);
  ts_mem_free(c->message_bytes);
  ts_mem_free(c->send);
  ts_mem_free(c->recv);
  ts_mem_free(c->own);
  ts_mem_free(c->rows);
  ts_mem_free(c->keys);
  ts_mem_free(c->found);
  ts_mem_free(c);
}

/* ---- room ---------------------------------------------------------------- */

/* How many of ROWS a full batch touches at most; the same on both sides of a
 * link. */
static int64_t rows_of(const ts_sharding *sharding, int32_t rows) {
  const ts_ebc *ebc = sharding->ebc;
  const ts_column_rows *l = &sharding->columns->rows[rows];
  const int32_t t =
      ts_tbe_table_of(sharding->groups[l->group].tbe, l->slot)->table_id;
  int64_t n = 0;
  for (int32_t f = 0; f < ebc->n_features; f++)
    if (ebc->feature_table[f] == t) n += ebc->n_ranks * ts_expect_ids(ebc, f);
  return n < l->to - l->from ? n : l->to - l->from;
}

/* Bytes of LIST's links by rank into ROOM. */
static int64_t find_rooms(const ts_sharding *sharding,
                          const ts_column_link *list, int32_t n,
                          int64_t *room) {
  const int n_ranks = sharding->ebc->n_ranks;
  int64_t bytes[n_ranks], all = 0;
  memset(bytes, 0, sizeof bytes);
  for (int32_t i = 0; i < n; i++)
    bytes[list[i].rank] +=
        rows_of(sharding, list[i].rows) * TS_ROW_STATS_MAX * 4;
  for (int r = 0; r < n_ranks; r++) {
    const int64_t own = ts_room_bytes(bytes[r]);
    if (room) room[r] = own;
    all += own;
  }
  return all;
}

ts_err ts_columns_expect(ts_sharding *sharding) {
  ts_column_stats *c = sharding->columns;
  ts_pool *pool = &sharding->ebc->pool;
  int64_t sums = 0;
  TS_DO(ts_pool_add(pool, &c->message));
  TS_DO(ts_pool_add(pool, &c->exchange.recv));
  TS_DO(ts_pool_add(pool, &c->sums));
  TS_DO(ts_buffer_reserve(
      &c->message,
      (size_t)find_rooms(sharding, c->send, c->n_send, sharding->rooms.send) +
          4));
  TS_DO(ts_buffer_reserve(
      &c->exchange.recv,
      (size_t)find_rooms(sharding, c->recv, c->n_recv, sharding->rooms.recv)));
  for (int32_t i = 0; i < c->n_own; i++) {
    const int64_t n = rows_of(sharding, c->own[i].rows);
    if (n > sums) sums = n;
  }
  return ts_buffer_reserve(&c->sums, (size_t)sums * TS_ROW_STATS_MAX * 4);
}
