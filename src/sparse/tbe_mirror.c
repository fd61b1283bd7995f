/* tbe_mirror.c - groups of dynamic tables on a device of discrete memory.
 *
 * The host has the indexes and decides who gets a row, as it does for its own
 * tables (tbe_dynamic.c).  The device has a copy of them, in which kernels find
 * the rows of a batch; the host hears of those ids alone that have none, which
 * are few once training is under way, gives them rows, and the copy follows:
 * buckets that changed, or after eviction all of them.  Weights of new rows are
 * drawn by the host, so that they are the same bits on any device.
 *
 * How often ids are met is counted there, and read for checkpoints and looks.
 */
#include "sparse/index_impl.h"
#include "sparse/mirror.h"

#include <string.h>

#include "base/mem.h"
#include "sparse/tbe_impl.h"

enum { PIECE = 1 << 20, LINE = sizeof(bucket) };

typedef struct ts_tbe_mirror {
  ts_buffer tables;      /* (n_tables) ts_mirror_table */
  ts_buffer buckets;     /* of all tables, as many as they ever have */
  ts_buffer ids, born;   /* (rows of the group) */
  ts_buffer seen, last;  /* (rows of the group) where tables evict */
  ts_buffer score;       /* (rows of the group) where that decides */
  ts_buffer parts;       /* of the batch at hand */
  ts_buffer missed;      /* ids of it without a row: ids, places, how many */
  ts_buffer up, landed;  /* what goes up: pinned, and where it lands */
  int64_t *first_bucket; /* (n_tables + 1) */
  ts_mirror_part *list;  /* (list_room) the host's */
  int64_t list_room;
  int64_t *ids_here; /* (here_room) ids without a row, and their places */
  uint32_t *at_here, *row_here; /* and the rows that they get */
  int64_t here_room;
} ts_tbe_mirror;

/* ---- its life ------------------------------------------------------------ */

static ts_err allocate(ts_tbe *t, ts_buffer *b, int64_t bytes, ts_space space) {
  return ts_buffer_create(b, t->device, (size_t)bytes, space, TS_TAG_SPARSE);
}

/* Bytes of up and landed: so many new rows with weights, number, id and batch,
 * or a piece. */
static int64_t up_bytes(const ts_tbe *t) {
  const int64_t row = ts_row_bytes(t->dtype, t->dim);
  const int64_t some = TS_TBE_SOME * (row + 4 + 8 + 4);
  return some > PIECE ? some : PIECE;
}

static ts_err make_room(ts_tbe *t, ts_tbe_mirror *m) {
  const int64_t n_rows = t->row_base[t->n_tables];
  for (int32_t i = 0; i < t->n_tables; i++)
    m->first_bucket[i + 1] =
        m->first_bucket[i] + ts_index_buckets(t->tables[i].n_rows - 1);
  TS_DO(allocate(t, &m->buckets, m->first_bucket[t->n_tables] * LINE,
                 TS_SPACE_DEVICE));
  TS_DO(allocate(t, &m->tables, t->n_tables * (int64_t)sizeof(ts_mirror_table),
                 TS_SPACE_DEVICE));
  TS_DO(allocate(t, &m->ids, n_rows * 8, TS_SPACE_DEVICE));
  TS_DO(allocate(t, &m->born, n_rows * 4, TS_SPACE_DEVICE));
  if (ts_table_evicts(t->tables[0].config)) {
    TS_DO(allocate(t, &m->seen, n_rows * 4, TS_SPACE_DEVICE));
    TS_DO(allocate(t, &m->last, n_rows * 4, TS_SPACE_DEVICE));
  }
  if (t->score) TS_DO(allocate(t, &m->score, n_rows * 4, TS_SPACE_DEVICE));
  TS_DO(allocate(t, &m->missed, 16, TS_SPACE_DEVICE));
  TS_DO(allocate(t, &m->parts, 16, TS_SPACE_DEVICE));
  TS_DO(allocate(t, &m->up, up_bytes(t), TS_SPACE_PINNED));
  return allocate(t, &m->landed, up_bytes(t), TS_SPACE_DEVICE);
}

ts_err ts_mirror_create(ts_tbe *t) {
  if (!t->discrete) return TS_OK;
  TS_DO(ts_mem_many(t->mirror, 1, SPARSE));
  TS_DO(ts_mem_many(t->mirror->first_bucket, t->n_tables + 1, SPARSE));
  return make_room(t, t->mirror);
}

void ts_mirror_destroy(ts_tbe_mirror *m) {
  if (!m) return;
  ts_buffer *all[] = {&m->tables, &m->buckets, &m->ids,   &m->born,
                      &m->seen,   &m->last,    &m->parts, &m->missed,
                      &m->up,     &m->landed,  &m->score};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) ts_buffer_reset(all[i]);
  ts_mem_free_all(m->first_bucket, m->list, m->ids_here, m->at_here,
                  m->row_here, m);
}

const int64_t *ts_mirror_ids(const ts_tbe *t) {
  return t->mirror ? t->mirror->ids.ptr : NULL;
}

float *ts_mirror_score(const ts_tbe *t) {
  return t->mirror && t->score ? t->mirror->score.ptr : t->score;
}

ts_err ts_tbe_meet(ts_tbe *t, const uint32_t *keys, int64_t n, int64_t pass) {
  const ts_meet_rows_args a = {
      .seen = t->mirror ? t->mirror->seen.ptr : t->seen,
      .last = t->mirror ? t->mirror->last.ptr : t->last,
      .keys = keys,
      .n = n,
      .pass = (uint32_t)pass};
  return t->seen ? t->kernels->meet_rows(&a) : TS_OK;
}

/* ---- what goes up, in tasks ---------------------------------------------- */

/* All that is enqueued is done: what went up may be written anew. */
static ts_err await(const ts_tbe *t) {
  uint32_t word;
  return t->kernels->fetch(&word, t->mirror->missed.ptr, sizeof word);
}

/* BYTES of the host's memory to the device's, in pieces. */
static ts_err send(const ts_tbe *t, void *to, const void *from, int64_t bytes) {
  const ts_tbe_mirror *m = t->mirror;
  for (int64_t at = 0, n; at < bytes; at += n) {
    n = bytes - at < PIECE ? bytes - at : PIECE;
    TS_DO(await(t));
    memcpy(m->up.ptr, (const char *)from + at, (size_t)n);
    TS_DO(t->kernels->copy((char *)to + at, m->up.ptr, (size_t)n));
  }
  return TS_OK;
}

/* N rows of ROW_BYTES at FROM, of what landed, to the ROWS there of TO; FROM
 * negative: zeros. */
static ts_err put(const ts_tbe *t, void *to, int64_t rows, int64_t from,
                  int64_t n, int64_t row_bytes) {
  const char *landed = t->mirror->landed.ptr;
  const ts_put_rows_args a = {
      .to = to,
      .rows = (const uint32_t *)(const void *)(landed + rows),
      .from = from < 0 ? NULL : landed + from,
      .n = n,
      .row_bytes = row_bytes};
  return t->kernels->put_rows(&a);
}

static ts_err send_table(ts_tbe *t, int32_t i) {
  ts_tbe_mirror *m = t->mirror;
  const ts_index *x = t->index[i];
  const int64_t base = t->row_base[i], first = base + TS_INDEX_FIRST_ROW;
  char *buckets = (char *)m->buckets.ptr + m->first_bucket[i] * LINE;
  const ts_mirror_table table = {(const bucket *)(const void *)buckets,
                                 x->n_buckets, base};
  TS_DO(send(t, buckets, x->buckets, x->n_buckets * LINE));
  TS_DO(send(t, (int64_t *)m->ids.ptr + first, x->id, x->n_used * 8));
  TS_DO(send(t, (uint32_t *)m->born.ptr + base, t->born + base,
             t->tables[i].n_rows * 4));
  return t->kernels->put((ts_mirror_table *)m->tables.ptr + i, &table,
                         sizeof table);
}

/* Buckets NUMBER (n) of table I. */
static ts_err send_buckets(ts_tbe *t, int32_t i, const uint32_t *number,
                           int64_t n) {
  ts_tbe_mirror *m = t->mirror;
  enum { SOME = PIECE / (LINE + 4) };
  bucket *to = m->up.ptr;
  for (int64_t k = 0, some; k < n; k += some) {
    some = n - k < SOME ? n - k : SOME;
    uint32_t *at = (uint32_t *)(void *)(to + some);
    TS_DO(await(t));
    for (int64_t j = 0; j < some; j++) {
      to[j] = t->index[i]->buckets[number[k + j]];
      at[j] = (uint32_t)m->first_bucket[i] + number[k + j];
    }
    TS_DO(
        t->kernels->copy(m->landed.ptr, m->up.ptr, (size_t)some * (LINE + 4)));
    TS_DO(put(t, m->buckets.ptr, some * LINE, 0, some, LINE));
  }
  return TS_OK;
}

static ts_err follow(ts_tbe *t) {
  for (int32_t i = 0; i < t->n_tables; i++) {
    const uint32_t *changed;
    int64_t n;
    ts_index_changes(t->index[i], &changed, &n);
    TS_DO(n < 0 ? send_table(t, i) : send_buckets(t, i, changed, n));
  }
  return TS_OK;
}

/* Weights (K -1) or a state of new rows, in the memory where they are: the
 * device's, with numbers that landed at ROWS and weights behind them, or the
 * host's, where they are drawn. */
static ts_err put_new(ts_tbe *t, int32_t i, int k, const ts_new_ids *new,
                      int64_t rows, int64_t weights) {
  int32_t cols;
  ts_dtype dtype;
  void *to = ts_tbe_rows(t, i, k, &cols, &dtype);
  if (!ts_device_holds(t->device, to)) {
    ts_tbe_begin_rows(t, i, k, new);
    return TS_OK;
  }
  return put(t, to, rows, k < 0 ? weights : -1, new->n,
             ts_row_bytes(dtype, cols));
}

ts_err ts_mirror_add(ts_tbe *t, int32_t i, const ts_new_ids *new,
                     uint32_t batch) {
  ts_tbe_mirror *m = t->mirror;
  const int64_t base = t->row_base[i], n = new->n;
  const bool drawn = ts_device_holds(
      t->device, ts_tbe_rows(t, i, -1, &(int32_t){0}, &(ts_dtype){0}));
  const int64_t bytes = drawn ? ts_row_bytes(t->dtype, t->dim) : 0;
  /* ids, numbers, batches, weights of all that are new */
  const int64_t rows = 8 * n, born = rows + 4 * n, weights = born + 4 * n;
  char *up = m->up.ptr;
  if (!n) return TS_OK;
  TS_DO(await(t));
  for (int64_t k = 0; k < n; k++) {
    memcpy(up + 8 * k, &new->ids[new->fresh[k]], 8);
    memcpy(up + rows + 4 * k, &new->row[new->fresh[k]], 4);
    memcpy(up + born + 4 * k, &batch, 4);
  }
  if (drawn) ts_tbe_draw(t, i, up + weights, NULL, new->ids, new->fresh, n);
  TS_DO(t->kernels->copy(m->landed.ptr, up, (size_t)(weights + n * bytes)));
  TS_DO(put(t, (int64_t *)m->ids.ptr + base, rows, 0, n, 8));
  TS_DO(put(t, (uint32_t *)m->born.ptr + base, rows, born, n, 4));
  if (t->seen) TS_DO(put(t, (uint32_t *)m->seen.ptr + base, rows, -1, n, 4));
  if (t->seen) TS_DO(put(t, (uint32_t *)m->last.ptr + base, rows, -1, n, 4));
  if (t->score) TS_DO(put(t, (float *)m->score.ptr + base, rows, -1, n, 4));
  for (int k = -1; k < t->optim->n_states; k++)
    TS_DO(put_new(t, i, k, new, rows, weights));
  return TS_OK;
}

/* ---- batches, in tasks --------------------------------------------------- */

ts_err ts_tbe_parts(ts_tbe *t, int64_t n, ts_mirror_part **parts) {
  ts_tbe_mirror *m = t->mirror;
  if (n > m->list_room) {
    TS_DO(ts_mem_extend(&m->list, m->list_room, n, sizeof *m->list,
                        TS_TAG_SPARSE));
    m->list_room = n;
  }
  *parts = m->list;
  return TS_OK;
}

/* Room for N ids without a row. */
static ts_err room_for_missed(ts_tbe_mirror *m, int64_t n) {
  TS_DO(ts_buffer_reserve(&m->missed, (size_t)n * 12 + 16));
  if (n <= m->here_room) return TS_OK;
  TS_DO(ts_mem_extend(&m->ids_here, m->here_room, n, 8, TS_TAG_SPARSE));
  TS_DO(ts_mem_extend(&m->at_here, m->here_room, n, 4, TS_TAG_SPARSE));
  TS_DO(ts_mem_extend(&m->row_here, m->here_room, n, 4, TS_TAG_SPARSE));
  m->here_room = n;
  return TS_OK;
}

/* How many of the ids without a row from the K-th of N on are of PART,
 * TS_TBE_SOME at most. */
static int64_t some_of(const ts_tbe_mirror *m, const ts_mirror_part *part,
                       int64_t k, int64_t n) {
  int64_t some = 0;
  while (k + some < n && some < TS_TBE_SOME &&
         m->at_here[k + some] < part->first + part->n)
    some++;
  return some;
}

/* The N ids without a row, of PARTS, get theirs, of which those who are not
 * admitted have none: to ROWS, where PLACES say. */
static ts_err place_missed(ts_tbe *t, const ts_mirror_part *parts,
                           int32_t *rows, const uint32_t *places, int64_t n,
                           uint32_t batch) {
  enum { FIT = PIECE / 4 };
  ts_tbe_mirror *m = t->mirror;
  for (int64_t k = 0, some; k < n; k += some) {
    while (m->at_here[k] >= parts->first + parts->n) parts++;
    some = some_of(m, parts, k, n);
    TS_DO(ts_tbe_place_new(t, (int32_t)parts->table, m->row_here + k,
                           m->ids_here + k, some, batch));
  }
  for (int64_t k = 0, some; k < n; k += some) {
    some = n - k < FIT ? n - k : FIT;
    TS_DO(send(t, m->landed.ptr, m->row_here + k, some * 4));
    const ts_put_rows_args a = {.to = rows,
                                .rows = places + k,
                                .from = m->landed.ptr,
                                .n = some,
                                .row_bytes = 4};
    TS_DO(t->kernels->put_rows(&a));
  }
  return follow(t);
}

/* Finds as A says, of a batch that is learnt from. */
static ts_err find_and_learn(ts_tbe *t, ts_index_find_args *a,
                             const ts_mirror_part *parts, uint32_t batch) {
  ts_tbe_mirror *m = t->mirror;
  const ts_kernels *k = t->kernels;
  uint32_t n;
  TS_DO(room_for_missed(m, a->n));
  a->missed_ids = m->missed.ptr;
  a->missed = (uint32_t *)(void *)(a->missed_ids + a->n);
  a->n_missed = a->missed + a->n;
  TS_DO(k->index_find(a));
  TS_DO(k->fetch(&n, a->n_missed, sizeof n));
  TS_DO(k->fetch(m->ids_here, a->missed_ids, (size_t)n * 8));
  TS_DO(k->fetch(m->at_here, a->missed, (size_t)n * 4));
  return place_missed(t, parts, a->rows, a->missed, n, batch);
}

ts_err ts_tbe_place_parts(ts_tbe *t, ts_mirror_part *parts, int32_t n_parts,
                          int32_t *rows, uint32_t batch, uint32_t ahead) {
  ts_tbe_mirror *m = t->mirror;
  const size_t bytes = (size_t)n_parts * sizeof *parts;
  if (!n_parts) return TS_OK;
  for (int32_t k = 0; k < n_parts; k++)
    parts[k].table = t->feature_table[parts[k].table];
  TS_DO(follow(t));
  TS_DO(ts_buffer_reserve(&m->parts, bytes));
  TS_DO(t->kernels->put(m->parts.ptr, parts, bytes));
  ts_index_find_args a = {.tables = m->tables.ptr,
                          .parts = m->parts.ptr,
                          .ids = m->ids.ptr,
                          .born = m->born.ptr,
                          .ahead = batch ? 0 : ahead,
                          .n_parts = n_parts,
                          .n = parts[n_parts - 1].first + parts[n_parts - 1].n,
                          .rows = rows};
  return batch ? find_and_learn(t, &a, parts, batch)
               : t->kernels->index_find(&a);
}

/* ---- at rest ------------------------------------------------------------- */

/* Counts and scores of table I of the device to the host's, or back. */
static ts_err move_counts(ts_tbe *t, int32_t i, bool up) {
  ts_err err = TS_OK;
  ts_staging s = {0};
  const int64_t base = t->row_base[i];
  const size_t bytes = (size_t)t->tables[i].n_rows * 4;
  void *here[] = {t->seen, t->last, t->score};
  if (!t->mirror || !t->seen) return TS_OK;
  void *there[] = {t->mirror->seen.ptr, t->mirror->last.ptr,
                   t->mirror->score.ptr};
  TS_TRY(ts_staging_create(&s, t->device));
  for (int k = 0; k < (t->score ? 3 : 2); k++) {
    uint32_t *a = (uint32_t *)here[k] + base, *b = (uint32_t *)there[k] + base;
    TS_TRY(up ? ts_staging_put(&s, b, a, bytes)
              : ts_staging_get(&s, a, b, bytes));
  }
done:
  ts_staging_reset(&s);
  return err;
}

ts_err ts_tbe_fetch_counts(ts_tbe *t, int32_t i) {
  return move_counts(t, i, false);
}

ts_err ts_tbe_send_counts(ts_tbe *t, int32_t i) {
  return move_counts(t, i, true);
}
