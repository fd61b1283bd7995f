/* state_tables.c - the tables of a checkpoint, by global rows, so that any plan
 * on any number of ranks can read them.  A table that every rank holds is
 * written in slices.
 *
 * The items of a delta are the rows that have changed, in ascending order, and
 * a list says which rows they are.  They are copied out of the tables at once:
 * the copy is small, and training goes on. */
#include "train/state_tables.h"

#include <string.h>

#include "base/mem.h"
#include "dense/param_optim.h"
#include "sparse/index.h"
#include "train/state_ids.h"

/* Items of table I are at items[first[i]] (weights) and after it (states from
 * first_state on); every rank lists all tables, also those of which it holds
 * nothing. */
typedef struct ts_describe {
  ts_trainer *t;
  ts_ckpt *ckpt;
  int32_t *first; /* (n_tables) */
  bool with_state;
  /* For a delta; shards of all tables are numbered, those of table I from
   * shard[i] on. */
  int64_t *shard;    /* (n_tables + 1) */
  int64_t *n;        /* (shards) rows of each that have changed */
  uint32_t **rows;   /* (shards) which, of this rank's */
  int64_t bytes;     /* of this rank's */
  ts_state_ids *ids; /* of dynamic tables */
} ts_describe;

/* Rows that this rank writes of a shard: all, or where every rank has all of
 * them a slice. */
static void written_rows(const ts_describe *d, int32_t table, const ts_shard *s,
                         int64_t *row0, int64_t *n) {
  *row0 = s->row0;
  *n = s->n_rows;
  if (!ts_shard_kind_is_replicated(d->t->plan->tables[table].kind)) return;
  const int64_t w = d->t->n_ranks, r = s->rank;
  *row0 = s->n_rows * r / w;
  *n = s->n_rows * (r + 1) / w - *row0;
}

/* ---- rows that have changed ---------------------------------------------- */

static bool is_delta(const ts_describe *d) {
  return d->ckpt->kind != TS_CKPT_FULL;
}

static bool is_dynamic(const ts_describe *d, int32_t table) {
  return ts_table_is_dynamic(&d->t->config->tables[table]);
}

static int64_t number_of(const ts_describe *d, int32_t table,
                         const ts_shard *s) {
  return d->shard[table] + (s - d->t->plan->tables[table].shards);
}

static ts_err find_touched(void *arg, int32_t table, const ts_shard *s,
                           ts_tbe *tbe, int32_t number) {
  ts_describe *d = arg;
  int64_t row0, n_rows;
  const int64_t k = number_of(d, table, s);
  if (is_dynamic(d, table))
    return ts_ids_changed(d->ckpt, &d->ids->tables[table], &d->rows[k],
                          &d->n[k]);
  written_rows(d, table, s, &row0, &n_rows);
  return ts_tbe_touched(tbe, &d->ckpt->staging, number, row0 - s->row0, n_rows,
                        &d->rows[k], &d->n[k]);
}

/* Counts the shards' rows on all ranks. */
static ts_err find_all(ts_describe *d) {
  ts_trainer *t = d->t;
  const int32_t n = t->config->n_tables;
  ts_err err = ts_mem_many(d->shard, n + 1, CHECKPOINT);
  if (err == TS_OK)
    for (int32_t i = 0; i < n; i++)
      d->shard[i + 1] = d->shard[i] + t->plan->tables[i].n_shards;
  if (err == TS_OK) err = ts_mem_many(d->n, d->shard[n], CHECKPOINT);
  if (err == TS_OK) err = ts_mem_many(d->rows, d->shard[n], CHECKPOINT);
  if (err == TS_OK) err = ts_ebc_each_shard(t->ebc, find_touched, d);
  TS_DO(ts_settle(t, err));
  return ts_comm_sum_i64(t->control, d->n, d->shard[n]);
}

/* Where shard S's begin among the table's; S NULL: how many there are.  Shards
 * of other columns have the same rows; those of ids are in their order. */
static int64_t place_of(const ts_describe *d, int32_t table,
                        const ts_shard *s) {
  const ts_table_plan *p = &d->t->plan->tables[table];
  int64_t row0 = 0, other, n, sum = 0;
  if (s) written_rows(d, table, s, &row0, &n);
  for (int32_t k = 0; k < p->n_shards; k++) {
    written_rows(d, table, &p->shards[k], &other, &n);
    if (is_dynamic(d, table) ? !s || k < s - p->shards
                             : p->shards[k].col0 == 0 && (!s || other < row0))
      sum += d->n[d->shard[table] + k];
  }
  return sum;
}

/* Rows of the items of table I. */
static int64_t n_rows_of(const ts_describe *d, int32_t i) {
  if (is_delta(d)) return place_of(d, i, NULL);
  if (is_dynamic(d, i)) return d->ids->tables[i].start[TS_INDEX_PARTS];
  return d->t->config->tables[i].rows;
}

/* ---- items --------------------------------------------------------------- */

/* Without state: those of a mean, where it takes the rows' place. */
static int first_state(const ts_describe *d, const ts_row_optim *optim) {
  if (d->with_state) return 0;
  return optim->averages && !d->t->training ? optim->n_states - 2
                                            : optim->n_states;
}

/* Which rows a table's are, where they are not all, and which ids there are. */
static ts_err add_list(ts_describe *d, int32_t i, const char *full,
                       int64_t rows) {
  ts_err err = TS_OK;
  ts_str name = {0};
  ts_ckpt_item *item;
  if (is_dynamic(d, i)) TS_DO(ts_ids_add_lists(d->ckpt, d->ids, i));
  if (!is_delta(d)) return TS_OK;
  TS_TRY(ts_str_append(&name, "delta/rows/%s", full));
  TS_TRY(ts_ckpt_add_item(d->ckpt, name.text, TS_I64, rows, 0, &item));
done:
  ts_str_reset(&name);
  return err;
}

static ts_err add_table(ts_describe *d, int32_t i) {
  ts_err err = TS_OK;
  const ts_table_config *c = &d->t->config->tables[i];
  const ts_row_optim optim = ts_row_optim_of(c);
  const bool dense = ts_param_is_table(c);
  ts_optim_config own;
  ts_str full = {0}, name = {0};
  ts_ckpt_item *item;
  const int64_t rows = n_rows_of(d, i);
  TS_TRY(ts_param_table_name(&full, c));
  TS_TRY(add_list(d, i, full.text, rows));
  d->first[i] = d->ckpt->n_items;
  if (dense) TS_TRY(ts_param_optim_named(&own, d->t->config, full.text));
  const int n_states = dense ? ts_dense_optim_n_states(&own) : optim.n_states;
  const int first = dense && !d->with_state ? n_states : first_state(d, &optim);
  TS_TRY(ts_str_append(&name, "model/%s", full.text));
  TS_TRY(ts_ckpt_add_item(d->ckpt, name.text, c->dtype, rows, c->dim, &item));
  for (int k = first; k < n_states; k++) {
    ts_str_reset(&name);
    TS_TRY(ts_str_append(&name, "optim/%s/%s", full.text,
                         dense ? ts_dense_optim_state_name(&own, k)
                               : optim.state[k].name));
    TS_TRY(ts_ckpt_add_item(d->ckpt, name.text, TS_F32, rows,
                            !dense && optim.state[k].per_row ? 0 : c->dim,
                            &item));
    item->optional = !dense && optim.averages && k >= optim.n_states - 2;
  }
done:
  ts_str_reset(&full);
  ts_str_reset(&name);
  return err;
}

/* All ranks' shards of an item of table I, where they hold columns of its rows.
 */
static ts_err add_columns(ts_describe *d, int32_t i, ts_ckpt_item *item) {
  const ts_table_plan *p = &d->t->plan->tables[i];
  if (!item->cols || p->shards[0].n_cols == item->cols) return TS_OK;
  for (int32_t k = 0; k < p->n_shards; k++) {
    const ts_shard *s = &p->shards[k];
    ts_ckpt_columns c = {s->rank, s->row0, s->n_rows, s->col0, s->n_cols, NULL};
    if (is_delta(d)) {
      c.row0 = place_of(d, i, s);
      c.n_rows = d->n[d->shard[i] + k];
    }
    TS_DO(ts_ckpt_add_columns(item, c));
  }
  return TS_OK;
}

/* This rank's memory of a shard, N_ROWS from row ROW0 of the item on, among its
 * columns. */
static void own_columns(ts_ckpt_item *item, const ts_shard *s, int64_t row0,
                        int64_t n_rows, void *rows) {
  for (int32_t k = 0; k < item->n_columns; k++)
    if (item->columns[k].rank == s->rank && item->columns[k].row0 == row0 &&
        item->columns[k].n_rows == n_rows && item->columns[k].col0 == s->col0)
      item->columns[k].ptr = rows;
}

/* The rows of a shard that have changed, as memory of the checkpoint. */
static ts_err take_rows(ts_describe *d, int64_t k, ts_tbe *tbe, int32_t number,
                        int state, int64_t row0, void **rows) {
  int32_t cols;
  ts_dtype dtype;
  (void)ts_tbe_rows(tbe, number, state, &cols, &dtype);
  TS_DO(ts_ckpt_own(d->ckpt, (size_t)(d->n[k] * ts_row_bytes(dtype, cols)),
                    rows));
  return ts_tbe_take(tbe, &d->ckpt->staging, *rows, number, state, row0,
                     d->rows[k], d->n[k]);
}

static ts_err add_numbers(ts_describe *d, ts_ckpt_item *item, int32_t table,
                          int64_t k, int64_t row0, int64_t place) {
  int64_t *list = d->ids->tables[table].changed;
  if (list) return ts_ckpt_add_piece(item, true, false, place, d->n[k], list);
  TS_DO(ts_ckpt_own(d->ckpt, (size_t)d->n[k] * sizeof *list, (void **)&list));
  for (int64_t i = 0; i < d->n[k]; i++) list[i] = row0 + d->rows[k][i];
  return ts_ckpt_add_piece(item, true, false, place, d->n[k], list);
}

/* This rank's ids of a dynamic table, their counts and the sights of others are
 * to be written. */
static ts_err add_lists(const ts_describe *d, int32_t table) {
  const ts_ids *x = &d->ids->tables[table];
  void *const numbers[] = {x->ids, x->seen, x->last, x->score};
  for (int32_t k = 0; k < x->n_lists; k++)
    TS_DO(ts_ckpt_add_piece(&d->ckpt->items[x->first + k], true, false,
                            ts_ids_place(x), x->n, numbers[k]));
  return ts_sights_write(d->ckpt, x, ts_trainer_first_learnt(d->t),
                         is_delta(d));
}

/* As add_shard, of a checkpoint that is not full. */
static ts_err add_touched(void *arg, int32_t table, const ts_shard *s,
                          ts_tbe *tbe, int32_t number) {
  ts_describe *d = arg;
  const ts_row_optim *optim = ts_tbe_optim(tbe);
  const int first = first_state(d, optim);
  const int64_t k = number_of(d, table, s), place = place_of(d, table, s);
  ts_ckpt_item *items = &d->ckpt->items[d->first[table]];
  int64_t row0, n_rows;
  void *rows;
  if (is_dynamic(d, table)) TS_DO(add_lists(d, table));
  written_rows(d, table, s, &row0, &n_rows);
  if (s->col0 == 0) TS_DO(add_numbers(d, items - 1, table, k, row0, place));
  for (int i = first - 1; i < optim->n_states; i++) {
    ts_ckpt_item *item = &items[1 + i - first];
    if (!item->n_columns && s->col0 != 0) continue;
    TS_DO(take_rows(d, k, tbe, number, i < first ? -1 : i, row0 - s->row0,
                    &rows));
    if (item->n_columns)
      own_columns(item, s, place, d->n[k], rows);
    else
      TS_DO(ts_ckpt_add_piece(item, true, false, place, d->n[k], rows));
  }
  return TS_OK;
}

/* Of a dynamic table: by ids. */
static ts_err add_ids(const ts_describe *d, int32_t table, ts_tbe *tbe,
                      int32_t number) {
  ts_ids *x = &d->ids->tables[table];
  const int n_states = ts_tbe_optim(tbe)->n_states;
  const int first = first_state(d, ts_tbe_optim(tbe));
  ts_ckpt_item *items = &d->ckpt->items[d->first[table]];
  TS_DO(add_lists(d, table));
  for (int k = first - 1; k < n_states; k++) {
    int32_t cols;
    ts_dtype dtype;
    void *rows = ts_tbe_rows(tbe, number, k < first ? -1 : k, &cols, &dtype);
    TS_DO(ts_ckpt_add_gathered(&items[1 + k - first], ts_ids_place(x), x->n,
                               rows, x->rows));
  }
  return TS_OK;
}

static ts_err add_shard(void *arg, int32_t table, const ts_shard *s,
                        ts_tbe *tbe, int32_t number) {
  ts_describe *d = arg;
  if (is_dynamic(d, table)) return add_ids(d, table, tbe, number);
  const ts_row_optim *optim = ts_tbe_optim(tbe);
  const int first = first_state(d, optim);
  int64_t row0, n_rows;
  written_rows(d, table, s, &row0, &n_rows);
  for (int k = first - 1; k < optim->n_states; k++) {
    const int state = k < first ? -1 : k;
    ts_ckpt_item *item = &d->ckpt->items[d->first[table] + 1 + k - first];
    int32_t cols;
    ts_dtype dtype;
    char *rows = ts_tbe_rows(tbe, number, state, &cols, &dtype);
    const int64_t row_bytes = ts_row_bytes(dtype, cols);
    if (item->n_columns) {
      own_columns(item, s, s->row0, s->n_rows, rows);
      continue;
    }
    /* All column shards hold the same state per row: the first one writes it.
     */
    if (s->col0 == 0)
      TS_DO(ts_ckpt_add_piece(item, true, false, row0, n_rows,
                              rows + (row0 - s->row0) * row_bytes));
    TS_DO(ts_ckpt_add_piece(item, false, true, s->row0, s->n_rows, rows));
  }
  return TS_OK;
}

/* All that has been added is the checkpoint's own. */
static void own_items(const ts_describe *d, int32_t from) {
  for (int32_t k = from; k < d->ckpt->n_items; k++)
    ts_ckpt_is_copy(&d->ckpt->items[k], d->t->n_ranks);
}

static ts_err describe(ts_describe *d) {
  ts_trainer *t = d->t;
  const int32_t from = d->ckpt->n_items;
  TS_DO(ts_mem_array(&d->first, t->config->n_tables, sizeof *d->first,
                     TS_TAG_CHECKPOINT));
  for (int32_t i = 0; i < t->config->n_tables; i++) {
    const ts_table_config *c = &t->config->tables[i];
    if (is_dynamic(d, i)) TS_DO(ts_sights_add(d->ckpt, &d->ids->tables[i], c));
    const int32_t before = d->ckpt->n_items;
    TS_DO(add_table(d, i));
    d->ids->tables[i].n_items = d->ckpt->n_items - before;
    for (int32_t k = before; k < d->ckpt->n_items; k++)
      TS_DO(add_columns(d, i, &d->ckpt->items[k]));
  }
  TS_DO(ts_ebc_each_shard(t->ebc, is_delta(d) ? add_touched : add_shard, d));
  if (is_delta(d)) own_items(d, from);
  return TS_OK;
}

/* Bytes of the rows of a shard that have changed. */
static ts_err add_bytes(void *arg, int32_t table, const ts_shard *s,
                        ts_tbe *tbe, int32_t number) {
  ts_describe *d = arg;
  const ts_row_optim *optim = ts_tbe_optim(tbe);
  d->bytes += 12 * d->n[number_of(d, table, s)]; /* the lists */
  if (is_dynamic(d, table)) d->bytes += ts_ids_bytes(&d->ids->tables[table]);
  for (int k = first_state(d, optim) - 1; k < optim->n_states; k++) {
    int32_t cols;
    ts_dtype dtype;
    (void)ts_tbe_rows(tbe, number, k < first_state(d, optim) ? -1 : k, &cols,
                      &dtype);
    d->bytes += d->n[number_of(d, table, s)] * ts_row_bytes(dtype, cols);
  }
  return TS_OK;
}

/* Too much to be copied at once on some rank: a full one streams. */
static ts_err choose(ts_describe *d) {
  ts_trainer *t = d->t;
  TS_DO(find_all(d));
  TS_DO(ts_settle(t, ts_ebc_each_shard(t->ebc, add_bytes, d)));
  int64_t over = d->bytes > d->ckpt->room;
  TS_DO(ts_comm_sum_i64(t->control, &over, 1));
  if (!over) return TS_OK;
  d->ckpt->kind = TS_CKPT_FULL;
  d->with_state = true;
  return TS_OK;
}

ts_err ts_state_tables(ts_trainer *t, ts_ckpt *ckpt, bool with_state) {
  ts_err err = TS_OK;
  ts_describe d = {.t = t, .ckpt = ckpt, .with_state = with_state};
  TS_TRY(ts_state_ids_find(t, ckpt, &d.ids));
  if (is_delta(&d)) TS_TRY(choose(&d));
  TS_TRY(ts_settle(t, describe(&d)));
done:
  for (int64_t k = 0; d.rows && k < d.shard[t->config->n_tables]; k++)
    ts_mem_free(d.rows[k]);
  ts_mem_free_all(d.first, d.shard, d.rows);
  ts_comm_free(t->control, d.n);
  return err;
}
