/* checkpoint_copy.c - a copy of what a rank has to write, as far as there is
 * room for it: then training goes on while the copy is written.
 *
 * Items that do not fit are not copied: a save writes them first, and only then
 * tells the caller to go on.  Columns are exchanged between the ranks in
 * turns, so the ranks agree on how many turns, the last ones, are of copies. */
#include "base/mem.h"
#include "base/mem_stream.h"
#include "io/checkpoint_impl.h"

typedef struct ts_copying {
  ts_ckpt *c;
  char *room;
  int64_t left, used, copied;
  int rank, n_ranks, n_threads;
  int64_t *turns; /* (n_items) to copy, the same on all ranks */
  ts_err err;     /* the first of take's */
} ts_copying;

/* Copies begin at multiples of so many bytes. */
enum { UNIT = 64 };

static int64_t padded(int64_t n_bytes, int64_t unit) {
  return (n_bytes + unit - 1) / unit * unit;
}

/* Row of ITEM from which its last N turns go. */
static int64_t first_row(const ts_copying *k, const ts_ckpt_item *item,
                         int64_t n) {
  const int64_t live = ts_ckpt_turns(item, k->n_ranks) - n;
  const int64_t row = live * ts_ckpt_turn_rows(item) * k->n_ranks;
  return row < item->rows ? row : item->rows;
}

/* Bytes of this rank's columns from row FROM on. */
static int64_t column_bytes(const ts_ckpt_item *item, int rank, int64_t from,
                            int64_t unit) {
  int64_t sum = 0;
  for (int32_t i = 0; i < item->n_columns; i++) {
    const ts_ckpt_columns *c = &item->columns[i];
    const int64_t start = c->row0 > from ? c->row0 : from;
    const int64_t n = c->row0 + c->n_rows - start;
    if (c->rank == rank && n > 0)
      sum += padded(n * ts_columns_row_bytes(item, c), unit);
  }
  return sum;
}

/* In units of UNIT bytes; ROOM: without what is a copy already. */
static int64_t own_bytes(const ts_ckpt *c, int rank, int64_t unit, bool room) {
  int64_t sum = 0;
  for (int32_t i = 0; i < c->n_items; i++) {
    const ts_ckpt_item *item = &c->items[i];
    if (item->is_copy && room) continue;
    for (int32_t k = 0; k < item->n_write; k++)
      sum += padded(item->write[k].n_rows * ts_item_row_bytes(item), unit);
    sum += column_bytes(item, rank, 0, unit);
  }
  return sum;
}

int64_t ts_ckpt_own_bytes(const ts_ckpt *c, int rank) {
  return own_bytes(c, rank, 1, false);
}

int64_t ts_ckpt_own_room(const ts_ckpt *c, int rank) {
  return own_bytes(c, rank, UNIT, true);
}

/* Bytes [from, from + n) of P's rows, of ROW bytes each, in the host's memory.
 */
static void copy(const ts_copying *k, char *to, const ts_ckpt_piece *p,
                 int64_t row, int64_t from, int64_t n) {
  const int64_t least = n / k->n_threads + 1;
  const int64_t part = padded(least > 1 << 20 ? least : 1 << 20, UNIT);
  const int64_t n_parts = (n + part - 1) / part;
#pragma omp parallel for num_threads(k->n_threads) if (n_parts > 1)
  for (int64_t i = 0; i < n_parts; i++) {
    const int64_t at = i * part, here = i + 1 < n_parts ? part : n - at;
    if (p->at)
      ts_ckpt_gather(to + at, p, row, from + at, here);
    else
      ts_mem_stream(to + at, (const char *)p->ptr + from + at, (size_t)here);
  }
}

/* Copies those bytes into the room, a part on each thread. */
static void *take(ts_copying *k, const ts_ckpt_piece *p, int64_t row,
                  int64_t from, int64_t n) {
  char *to = k->room + k->used;
  ts_staging *s = &k->c->staging;
  if (!ts_staging_is_remote(s, p->ptr))
    copy(k, to, p, row, from, n);
  else if (k->err == TS_OK)
    k->err = ts_ckpt_bring(s, to, p, row, from, n);
  k->used += padded(n, UNIT);
  k->left -= padded(n, UNIT);
  k->copied += n;
  return to;
}

/* ---- columns ------------------------------------------------------------- */

static int64_t room_of_turns(const ts_copying *k, const ts_ckpt_item *item,
                             int64_t n) {
  return n ? column_bytes(item, k->rank, first_row(k, item, n), UNIT) : 0;
}

/* How many turns of each item have room here, and then on all ranks. */
static ts_err choose_turns(ts_copying *k, ts_comm *comm) {
  int64_t left = k->left;
  for (int32_t i = 0; i < k->c->n_items; i++) {
    const ts_ckpt_item *item = &k->c->items[i];
    int64_t n =
        item->n_columns && !item->is_copy ? ts_ckpt_turns(item, k->n_ranks) : 0;
    while (n && room_of_turns(k, item, n) > left) n--;
    left -= room_of_turns(k, item, n);
    k->turns[i] = -n;
  }
  TS_DO(ts_comm_max_i64(comm, k->turns, k->c->n_items));
  for (int32_t i = 0; i < k->c->n_items; i++) k->turns[i] = -k->turns[i];
  return TS_OK;
}

/* Every rank cuts all columns in two, the same way. */
static ts_err copy_columns(ts_copying *k, ts_ckpt_item *item, int64_t turns) {
  ts_ckpt_columns *cut = NULL;
  const int64_t from = first_row(k, item, turns);
  int32_t n = 0;
  if (!turns) return TS_OK;
  TS_DO(ts_mem_many(cut, 2 * (int64_t)item->n_columns, CHECKPOINT));
  for (int32_t i = 0; i < item->n_columns; i++) {
    const ts_ckpt_columns *c = &item->columns[i];
    const int64_t row = ts_columns_row_bytes(item, c),
                  end = c->row0 + c->n_rows;
    const int64_t start = c->row0 > from ? c->row0 : from;
    const ts_ckpt_piece own = {.ptr = c->ptr};
    ts_ckpt_columns before = *c, copy = *c;
    if (start >= end) {
      cut[n++] = *c;
      continue;
    }
    before.n_rows = start - c->row0;
    copy.row0 = start;
    copy.n_rows = end - start;
    if (c->rank == k->rank)
      copy.ptr = take(k, &own, row, before.n_rows * row, copy.n_rows * row);
    if (before.n_rows) cut[n++] = before;
    cut[n++] = copy;
  }
  ts_mem_free(item->columns);
  item->columns = cut;
  item->n_columns = n;
  item->n_copied_turns = turns;
  return TS_OK;
}

/* ---- rows ---------------------------------------------------------------- */

/* The piece, or as much of its end as there is room for: its rows follow each
 * other in the room, wherever they lay. */
static ts_err copy_piece(ts_copying *k, ts_ckpt_item *item, int32_t i) {
  const int64_t row = ts_item_row_bytes(item);
  const ts_ckpt_piece p = item->write[i];
  const int64_t fits = k->left / row < p.n_rows ? k->left / row : p.n_rows;
  const int64_t live = p.n_rows - fits;
  if (!fits) return TS_OK;
  const ts_ckpt_piece copied = {.row0 = p.row0 + live,
                                .n_rows = fits,
                                .ptr = take(k, &p, row, live * row, fits * row),
                                .copied = true};
  item->write[i].n_rows = live;
  if (live)
    TS_DO(ts_mem_extend(&item->write, item->n_write, item->n_write + 1,
                        sizeof *item->write, TS_TAG_CHECKPOINT));
  item->write[live ? item->n_write++ : i] = copied;
  return TS_OK;
}

static ts_err copy_rows(ts_copying *k, ts_ckpt_item *item) {
  const int32_t n = item->is_copy ? 0 : item->n_write;
  for (int32_t i = 0; i < n; i++) TS_DO(copy_piece(k, item, i));
  return TS_OK;
}

ts_err ts_ckpt_copy(ts_ckpt *c, void *room, int64_t bytes, int n_threads,
                    int64_t *copied, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_copying k = {.c = c,
                  .room = room,
                  .left = bytes / UNIT * UNIT,
                  .rank = ts_comm_rank(comm),
                  .n_ranks = ts_comm_size(comm),
                  .n_threads = n_threads};
  *copied = 0;
  TS_TRY(ts_agree(comm, ts_mem_many(k.turns, c->n_items, CHECKPOINT)));
  TS_TRY(choose_turns(&k, comm));
  for (int32_t i = 0; err == TS_OK && i < c->n_items; i++)
    err = copy_columns(&k, &c->items[i], k.turns[i]);
  for (int32_t i = 0; err == TS_OK && i < c->n_items; i++)
    err = copy_rows(&k, &c->items[i]);
  err = ts_agree(comm, err != TS_OK ? err : k.err);
  *copied =
      k.copied + own_bytes(c, k.rank, 1, false) - own_bytes(c, k.rank, 1, true);
done:
  ts_mem_free(k.turns);
  return err;
}
