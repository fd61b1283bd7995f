/* checkpoint_ids.c - rows of a dynamic table out of several files: each file
 * lists the ids that it has rows of, by ascending key.
 *
 * A row is the newest file's that has its id.  That is exact with ids that have
 * gone and come again: a file has the rows of all ids that came after its
 * parent was written, so an older row of such an id is never reached. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"

/* Ids that are read at a time: a block of them. */
enum { SOME_IDS = TS_BLOCK_BYTES / 8 };

/* dynamic/TABLE/ids of one file.  Keys are ordered as numbers without a sign:
 * with the top bit turned over they are as numbers with one, as lists of rows
 * are. */
typedef struct ts_id_list {
  const ts_ckpt_reader *r;
  ts_stored stored;
  int64_t *keys; /* (SOME_IDS) of places [row0, row0 + n) */
  int64_t row0, n;
} ts_id_list;

typedef struct ts_ids_over {
  char name[1024];      /* of the lists */
  ts_id_list all, full; /* of the newest file; of the full one */
  ts_overlay base;      /* the full one's rows */
} ts_ids_over;

static int64_t key_of(int64_t id) {
  return (int64_t)(ts_mix64((uint64_t)id) ^ UINT64_C(1) << 63);
}

static ts_err bad(const ts_ckpt_reader *r, const char *name) {
  const char *table = name + strlen("dynamic/");
  return ts_fail(TS_ERR_CKPT, "%s: the ids of table %.*s are damaged", r->path,
                 (int)(strrchr(table, '/') - table), table);
}

/* ---- names --------------------------------------------------------------- */

/* Tables alone have an embedding bag's name (ts_param_table_name). */
bool ts_ckpt_ids_name(char name[1024], const ts_ckpt_reader *r,
                      const char *item) {
  static const char head[] = "embedding_bags.", tail[] = ".weight";
  char rows[1024];
  if (!ts_ckpt_rows_name(rows, item)) return false;
  const char *table = strstr(rows, head);
  char *end = rows + strlen(rows) - strlen(tail);
  if (!table || end <= table + strlen(head) || strcmp(end, tail) != 0)
    return false;
  *end = 0;
  snprintf(name, 1024, "dynamic/%.900s/ids", table + strlen(head));
  ts_hdf5_lock();
  const bool found = ts_stored_exists(r->file, name);
  ts_hdf5_unlock();
  return found;
}

ts_err ts_ckpt_n_ids(int64_t *n, const ts_ckpt_reader *r, const char *name) {
  ts_stored s = {.at = -1};
  const ts_err err = ts_stored_open(&s, r->file, r->path, name);
  *n = s.rows;
  ts_stored_reset(&s);
  return err;
}

/* ---- lists --------------------------------------------------------------- */

/* N ids become keys, ascending. */
static ts_err to_keys(int64_t *ids, int64_t n, const ts_ckpt_reader *r,
                      const char *name) {
  for (int64_t i = 0; i < n; i++) {
    ids[i] = key_of(ids[i]);
    if (i && ids[i] <= ids[i - 1]) return bad(r, name);
  }
  return TS_OK;
}

static ts_err open_list(ts_id_list *l, const ts_ckpt_reader *r,
                        const char *name) {
  l->r = r;
  TS_DO(ts_stored_open(&l->stored, r->file, r->path, name));
  if (l->stored.dtype != TS_I64 || l->stored.cols) return bad(r, name);
  return ts_mem_many(l->keys, SOME_IDS, CHECKPOINT);
}

/* The keys of the block that has place ROW, which there is. */
static ts_err load(ts_id_list *l, const char *name, int64_t row) {
  if (row >= l->row0 && row < l->row0 + l->n) return TS_OK;
  const int64_t row0 = row - row % SOME_IDS, left = l->stored.rows - row0;
  const ts_ckpt_item item = {
      .name = (char *)name, .dtype = TS_I64, .rows = l->stored.rows};
  const ts_ckpt_columns some = {.row0 = row0,
                                .n_rows = left < SOME_IDS ? left : SOME_IDS,
                                .ptr = l->keys};
  l->n = 0;
  TS_DO(ts_ckpt_read_part(l->r, &l->stored, &item, &some, true));
  TS_DO(to_keys(l->keys, some.n_rows, l->r, name));
  l->row0 = row0;
  l->n = some.n_rows;
  return TS_OK;
}

static ts_err key_at(ts_id_list *l, const char *name, int64_t row,
                     int64_t *key) {
  if (row < 0 || row >= l->stored.rows) return bad(l->r, name);
  TS_DO(load(l, name, row));
  *key = l->keys[row - l->row0];
  return TS_OK;
}

/* *ROW: of KEY.  Who asks in ascending order finds it in the block that was
 * read last, or in the next. */
static ts_err find(ts_id_list *l, const char *name, int64_t key, int64_t *row) {
  int64_t low = 0, high = ts_blocks(l->stored.rows * 8), at = l->row0;
  for (int i = 0; i < 2 && at < l->stored.rows; i++, at += SOME_IDS) {
    TS_DO(load(l, name, at));
    if (key < l->keys[0] || key > l->keys[l->n - 1]) continue;
    low = at / SOME_IDS;
    high = low + 1;
    break;
  }
  while (high - low > 1) {
    const int64_t mid = low + (high - low) / 2;
    TS_DO(load(l, name, mid * SOME_IDS));
    if (l->keys[0] <= key)
      low = mid;
    else
      high = mid;
  }
  if (!l->stored.rows) return bad(l->r, name);
  TS_DO(load(l, name, low * SOME_IDS));
  *row = l->row0 + ts_rows_below(l->keys, l->n, key);
  return *row < l->row0 + l->n && l->keys[*row - l->row0] == key
             ? TS_OK
             : bad(l->r, name);
}

/* ---- all files ----------------------------------------------------------- */

ts_err ts_ids_over_open(ts_overlays *x, const ts_ckpt_reader *r,
                        const ts_stored *s, const char *item,
                        const char *name) {
  ts_ids_over *d;
  TS_DO(ts_mem_alloc(&d, sizeof *d, TS_TAG_CHECKPOINT));
  *d = (ts_ids_over){.all = {.stored = {.at = -1}},
                     .full = {.stored = {.at = -1}},
                     .base = {.r = x->holder, .stored = {.at = -1}}};
  x->ids = d;
  snprintf(d->name, sizeof d->name, "%s", name);
  TS_DO(open_list(&d->all, r, name));
  TS_DO(open_list(&d->full, x->holder, name));
  TS_DO(
      ts_stored_open(&d->base.stored, x->holder->file, x->holder->path, item));
  d->base.n = d->full.stored.rows;
  if (d->base.stored.rows != d->base.n || s->rows != d->all.stored.rows)
    return bad(r, name);
  TS_DO(ts_overlay_room(&d->base));
  for (int32_t i = 0; i < x->n; i++)
    TS_DO(to_keys(x->of[i].rows, x->of[i].n, x->of[i].r, name));
  return TS_OK;
}

void ts_ids_over_close(ts_overlays *x) {
  ts_ids_over *d = x->ids;
  if (!d) return;
  ts_stored_reset(&d->all.stored);
  ts_stored_reset(&d->full.stored);
  ts_stored_reset(&d->base.stored);
  ts_mem_free_all(d->all.keys, d->full.keys, d->base.bite, d);
  x->ids = NULL;
}

/* The row of KEY: the newest. */
static ts_err row_of(ts_overlays *x, const ts_ckpt_item *item,
                     const ts_ckpt_columns *c, bool whole, int64_t key,
                     const char **row) {
  ts_ids_over *d = x->ids;
  int64_t k = 0;
  for (int32_t i = x->n - 1; i >= 0; i--) {
    ts_overlay *o = &x->of[i];
    while (o->next < o->n && o->rows[o->next] < key) o->next++;
    if (o->next < o->n && o->rows[o->next] == key)
      return ts_overlay_row(o, item, c, whole, o->next, row);
  }
  TS_DO(find(&d->full, d->name, key, &k));
  return ts_overlay_row(&d->base, item, c, whole, k, row);
}

ts_err ts_ids_over_read(ts_overlays *x, const ts_ckpt_item *item,
                        const ts_ckpt_columns *c, bool whole) {
  ts_ids_over *d = x->ids;
  const int64_t bytes =
      whole ? ts_item_row_bytes(item) : ts_columns_row_bytes(item, c);
  for (int64_t j = 0; j < c->n_rows; j++) {
    const char *row;
    int64_t key = 0;
    TS_DO(key_at(&d->all, d->name, c->row0 + j, &key));
    for (int32_t i = 0; j == 0 && i < x->n; i++)
      x->of[i].next = ts_rows_below(x->of[i].rows, x->of[i].n, key);
    TS_DO(row_of(x, item, c, whole, key, &row));
    memcpy((char *)c->ptr + j * bytes, row, (size_t)bytes);
  }
  return TS_OK;
}
