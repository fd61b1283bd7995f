/* checkpoint_columns.c - items of which ranks hold columns.
 *
 * A file has whole rows, and pieces of rows of a few dozen bytes are no way
 * to write.  So ranks take turns of 16 MiB of rows each, everyone sends what
 * it has of them to the rank whose turn it is, and that one writes them and
 * their checksums like rows of its own. */
#include <string.h>

#include "base/mem.h"
#include "io/checkpoint_impl.h"

enum { TURN_BYTES = 16 << 20 };

typedef struct ts_turns {
  ts_saver *s;
  const ts_ckpt_item *item;
  int32_t i;
  int64_t n_rows; /* of a turn */
  char *send, *recv, *rows;
  int64_t *send_bytes, *recv_bytes; /* (W) */
} ts_turns;

int64_t ts_ckpt_turn_rows(const ts_ckpt_item *item) {
  const int64_t row = ts_item_row_bytes(item);
  return TURN_BYTES / row > 0 ? TURN_BYTES / row : 1;
}

int64_t ts_ckpt_turns(const ts_ckpt_item *item, int n_ranks) {
  const int64_t all = ts_ckpt_turn_rows(item) * n_ranks;
  return (item->rows + all - 1) / all;
}

/* Rows of RANK's turn number K: [*from, return). */
static int64_t turn_of(const ts_turns *t, int64_t k, int rank, int64_t *from) {
  const int w = ts_comm_size(t->s->comm);
  const int64_t total = t->item->rows;
  *from = (k * w + rank) * t->n_rows;
  if (*from > total) *from = total;
  return total - *from < t->n_rows ? total : *from + t->n_rows;
}

/* Rows that C has of [from, to): [*a, return), none where equal. */
static int64_t common(const ts_ckpt_columns *c, int64_t from, int64_t to,
                      int64_t *a) {
  const int64_t end = c->row0 + c->n_rows;
  *a = c->row0 > from ? c->row0 : from;
  const int64_t z = end < to ? end : to;
  return z > *a ? z : *a;
}

int64_t ts_columns_row_bytes(const ts_ckpt_item *item,
                             const ts_ckpt_columns *c) {
  return ts_row_bytes(item->dtype, c->n_cols);
}

/* Packs this rank's part of everyone's turn, in the order of ranks; the sizes
 * are sent in any case. */
static ts_err pack(ts_turns *t, int64_t k) {
  const int w = ts_comm_size(t->s->comm), me = ts_comm_rank(t->s->comm);
  ts_err err = TS_OK;
  char *to = t->send;
  for (int r = 0; r < w; r++) {
    int64_t from, a;
    const int64_t end = turn_of(t, k, r, &from);
    char *const start = to;
    for (int32_t i = 0; i < t->item->n_columns; i++) {
      const ts_ckpt_columns *c = &t->item->columns[i];
      if (c->rank != me) continue;
      const int64_t z = common(c, from, end, &a),
                    row = ts_columns_row_bytes(t->item, c);
      if (z > a && err == TS_OK)
        err = ts_staging_get(&t->s->c->staging, to,
                             (char *)c->ptr + (a - c->row0) * row,
                             (size_t)((z - a) * row));
      to += (z - a) * row;
    }
    t->send_bytes[r] = to - start;
  }
  return err;
}

/* The sizes that come from the others for this rank's own turn. */
static void expect(ts_turns *t, int64_t k) {
  int64_t from, a;
  const int64_t end = turn_of(t, k, ts_comm_rank(t->s->comm), &from);
  for (int r = 0; r < ts_comm_size(t->s->comm); r++) {
    t->recv_bytes[r] = 0;
    for (int32_t i = 0; i < t->item->n_columns; i++) {
      const ts_ckpt_columns *c = &t->item->columns[i];
      if (c->rank != r) continue;
      const int64_t z = common(c, from, end, &a);
      t->recv_bytes[r] += (z - a) * ts_columns_row_bytes(t->item, c);
    }
  }
}

/* Columns side by side: what came, as rows. */
static void weave(ts_turns *t, int64_t from, int64_t end) {
  const int64_t whole = ts_item_row_bytes(t->item);
  const int64_t size = (int64_t)ts_dtype_bytes(t->item->dtype);
  const char *at = t->recv;
  for (int r = 0; r < ts_comm_size(t->s->comm); r++)
    for (int32_t i = 0; i < t->item->n_columns; i++) {
      const ts_ckpt_columns *c = &t->item->columns[i];
      int64_t a;
      if (c->rank != r) continue;
      const int64_t z = common(c, from, end, &a),
                    row = ts_columns_row_bytes(t->item, c);
      for (; a < z; a++, at += row)
        memcpy(t->rows + (a - from) * whole + c->col0 * size, at, (size_t)row);
    }
}

/* A failed rank still takes its part: the others wait for it. */
static ts_err take_turn(ts_turns *t, int64_t k, ts_err *local) {
  ts_token token;
  int64_t from;
  const ts_err packed = pack(t, k);
  if (*local == TS_OK) *local = packed;
  expect(t, k);
  TS_DO(ts_comm_all_to_all_v(t->s->comm, &token, t->recv, t->recv_bytes,
                             t->send, t->send_bytes, NULL));
  TS_DO(ts_comm_wait(&token));
  const int64_t end = turn_of(t, k, ts_comm_rank(t->s->comm), &from);
  if (end == from || *local != TS_OK) return TS_OK;
  weave(t, from, end);
  const ts_ckpt_piece piece = {
      .row0 = from, .n_rows = end - from, .ptr = t->rows};
  *local = ts_ckpt_write_rows(t->s, t->i, &piece);
  return TS_OK;
}

static ts_err turns_create(ts_turns *t) {
  const int w = ts_comm_size(t->s->comm);
  const int64_t row = ts_item_row_bytes(t->item);
  t->n_rows = ts_ckpt_turn_rows(t->item);
  const int64_t turn = t->n_rows * row;
  TS_DO(ts_mem_alloc(&t->send, (size_t)(turn * w), TS_TAG_CHECKPOINT));
  TS_DO(ts_mem_alloc(&t->recv, (size_t)turn, TS_TAG_CHECKPOINT));
  TS_DO(ts_mem_alloc(&t->rows, (size_t)turn, TS_TAG_CHECKPOINT));
  TS_DO(ts_mem_many(t->send_bytes, w, CHECKPOINT));
  return ts_mem_many(t->recv_bytes, w, CHECKPOINT);
}

static void turns_reset(ts_turns *t) {
  ts_comm_free(t->s->comm, t->send);
  ts_comm_free(t->s->comm, t->recv);
  ts_mem_free_all(t->rows, t->send_bytes, t->recv_bytes);
  *t = (ts_turns){.s = t->s};
}

ts_err ts_ckpt_write_columns(ts_saver *s, bool copied) {
  ts_err err = TS_OK, local = TS_OK;
  ts_turns t = {.s = s};
  for (int32_t i = 0; i < s->c->n_items; i++) {
    const ts_ckpt_item *item = &s->c->items[i];
    const int64_t n = ts_ckpt_turns(item, ts_comm_size(s->comm));
    const int64_t live = n - item->n_copied_turns;
    const int64_t from = copied ? live : 0, to = copied ? n : live;
    if (!item->n_columns || from == to) continue;
    t = (ts_turns){.s = s, .item = item, .i = i};
    TS_TRY(ts_agree(s->comm, turns_create(&t)));
    for (int64_t k = from; k < to; k++) TS_TRY(take_turn(&t, k, &local));
    turns_reset(&t);
    TS_TRY(ts_agree(s->comm, local));
  }
  return TS_OK;
done:
  turns_reset(&t);
  return err;
}
