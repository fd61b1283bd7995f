/* state_ids.c - the ids of dynamic tables, to a checkpoint and back. */
#include "train/state_dense.h"
#include "train/state_ids.h"

#include <stdio.h>

#include "base/mem.h"
#include "dense/param_optim.h"
#include "sparse/index.h"

static const char *name_of(const ts_trainer *t, int32_t i) {
  return t->config->tables[i].name;
}

static bool is_dynamic(const ts_trainer *t, int32_t i) {
  return ts_table_is_dynamic(&t->config->tables[i]);
}

/* ---- as they are --------------------------------------------------------- */

static ts_err find_shard(void *arg, int32_t table, const ts_shard *s,
                         ts_tbe *tbe, int32_t number) {
  const ts_state_ids *x = arg;
  ts_ids *d = &x->tables[table];
  const ts_table_plan *p = &x->trainer->plan->tables[table];
  if (!is_dynamic(x->trainer, table)) return TS_OK;
  d->tbe = tbe;
  d->number = number;
  d->shard = (int32_t)(s - p->shards);
  return TS_OK;
}

static ts_err make_room(ts_ckpt *ckpt, ts_ids *d) {
  const ts_tbe_ids have = ts_tbe_ids_of(d->tbe, d->number);
  TS_DO(ts_ckpt_own(ckpt, (size_t)d->n * 8, (void **)&d->ids));
  if (have.score)
    TS_DO(ts_ckpt_own(ckpt, (size_t)d->n * 4, (void **)&d->score));
  if (!have.seen) return TS_OK;
  TS_DO(ts_ckpt_own(ckpt, (size_t)d->n * 8, (void **)&d->seen));
  return ts_ckpt_own(ckpt, (size_t)d->n * 8, (void **)&d->last);
}

/* This rank's ids that batches before FIRST have brought, counted by their
 * parts. */
static ts_err list(ts_ckpt *ckpt, ts_ids *d, uint32_t first) {
  TS_DO(ts_tbe_fetch_counts(d->tbe, d->number));
  const ts_tbe_ids have = ts_tbe_ids_of(d->tbe, d->number);
  const int64_t n = ts_index_n(have.index);
  d->n = n;
  TS_DO(make_room(ckpt, d));
  TS_DO(ts_ckpt_own(ckpt, (size_t)n * 4, (void **)&d->rows));
  TS_DO(ts_index_list(have.index, d->ids, d->rows));
  d->n = 0;
  for (int64_t k = 0; k < n; k++) {
    const uint32_t row = d->rows[k];
    if (first && have.born[row] >= first) continue;
    d->ids[d->n] = d->ids[k];
    d->rows[d->n] = row;
    if (d->seen) d->seen[d->n] = have.seen[row];
    if (d->last) d->last[d->n] = have.last[row];
    if (d->score) d->score[d->n] = have.score[row];
    d->start[1 + ts_index_part(ts_index_key(d->ids[d->n++]))]++;
  }
  return TS_OK;
}

static ts_err list_all(ts_trainer *t, ts_ckpt *ckpt, ts_state_ids *x) {
  TS_DO(ts_ebc_each_shard(t->ebc, find_shard, x));
  for (int32_t i = 0; i < t->config->n_tables; i++) {
    ts_ids *d = &x->tables[i];
    if (!is_dynamic(t, i)) continue;
    d->n_shards = t->plan->tables[i].n_shards;
    TS_DO(ts_ckpt_own(ckpt, (TS_INDEX_PARTS + 1) * sizeof *d->start,
                      (void **)&d->start));
    if (d->tbe) TS_DO(list(ckpt, d, ts_trainer_first_learnt(t)));
  }
  return TS_OK;
}

static ts_err add_starts(ts_ckpt *ckpt, const ts_state_ids *x, int32_t i) {
  ts_err err = TS_OK;
  ts_str path = {0};
  const int64_t *start = x->tables[i].start;
  TS_TRY(ts_str_append(&path, "meta/dynamic/%s", name_of(x->trainer, i)));
  TS_TRY(ts_ckpt_add_value(ckpt, path.text, TS_I64, TS_INDEX_PARTS + 1, start));
done:
  ts_str_reset(&path);
  return err;
}

ts_err ts_state_ids_add(ts_trainer *t, ts_ckpt *ckpt) {
  for (int32_t i = 0; ckpt->arrived && i < t->config->n_tables; i++)
    if (is_dynamic(t, i)) {
      TS_DO(add_starts(ckpt, ckpt->arg, i));
      TS_DO(ts_sights_say(ckpt, &t->config->tables[i]));
    }
  return TS_OK;
}

/* An item of a number for each id of table I. */
static ts_err add_list(ts_ckpt *ckpt, const ts_state_ids *x, int32_t i,
                       const char *what, ts_dtype dtype, bool optional) {
  ts_err err = TS_OK;
  ts_str name = {0};
  ts_ckpt_item *item;
  TS_TRY(ts_str_append(&name, "dynamic/%s/%s", name_of(x->trainer, i), what));
  TS_TRY(ts_ckpt_add_item(ckpt, name.text, dtype,
                          x->tables[i].start[TS_INDEX_PARTS], 0, &item));
  item->optional = optional;
  ts_ckpt_is_copy(item, x->trainer->n_ranks);
done:
  ts_str_reset(&name);
  return err;
}

ts_err ts_ids_add_lists(ts_ckpt *ckpt, ts_state_ids *x, int32_t i) {
  ts_ids *d = &x->tables[i];
  const ts_table_config *c = &x->trainer->config->tables[i];
  d->first = ckpt->n_items;
  TS_DO(add_list(ckpt, x, i, "ids", TS_I64, false));
  if (ts_table_evicts(c)) {
    TS_DO(add_list(ckpt, x, i, "seen", TS_I64, true));
    TS_DO(add_list(ckpt, x, i, "last", TS_I64, true));
  }
  if (ts_table_scores(c)) TS_DO(add_list(ckpt, x, i, "score", TS_F32, true));
  d->n_lists = ckpt->n_items - d->first;
  return TS_OK;
}

int64_t ts_ids_place(const ts_ids *d) {
  return d->start[ts_index_first_part(d->shard, d->n_shards)];
}

/* ---- those of a file ----------------------------------------------------- */

static ts_err bad(const ts_state_ids *x, int32_t i, const char *path) {
  return ts_fail(TS_ERR_CKPT, "%s: the ids of table %s are damaged", path,
                 name_of(x->trainer, i));
}

/* Where the parts begin in the file; NULL: it says nothing of the table, or
 * what makes no sense. */
static const int64_t *starts_of(const ts_ckpt *ckpt, const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "meta/dynamic/%.900s", name);
  const ts_ckpt_value *v = ts_ckpt_value_of(ckpt, path);
  if (!v || v->dtype != TS_I64 || v->n != TS_INDEX_PARTS + 1) return NULL;
  const int64_t *start = v->ptr;
  for (int32_t p = 0; p < TS_INDEX_PARTS; p++)
    if (start[p] < 0 || start[p + 1] < start[p]) return NULL;
  return start[0] == 0 ? start : NULL;
}

/* This rank's ids go to the rows after the first, as they come. */
static ts_err read_to(ts_ckpt *ckpt, ts_ids *d, int64_t place) {
  ts_ckpt_item *items = &ckpt->items[d->first];
  const int n_states = ts_tbe_optim(d->tbe)->n_states;
  TS_DO(make_room(ckpt, d));
  TS_DO(ts_tbe_give(d->tbe, d->number, 1 + d->n));
  void *const lists[] = {d->ids, d->seen, d->last, d->score};
  for (int32_t k = 0; k < d->n_lists; k++)
    TS_DO(ts_ckpt_add_piece(&items[k], false, true, place, d->n, lists[k]));
  for (int32_t k = d->n_lists; k < d->n_items; k++) {
    int32_t cols;
    ts_dtype dtype;
    const int state = k == d->n_lists ? -1 : n_states - d->n_items + k;
    char *rows = ts_tbe_rows(d->tbe, d->number, state, &cols, &dtype);
    rows += ts_row_bytes(dtype, cols);
    TS_DO(ts_ckpt_add_piece(&items[k], false, true, place, d->n, rows));
  }
  return TS_OK;
}

/* The file may have been made without this table, which stays as it is. */
static void lack(ts_ckpt *ckpt, ts_ids *d) {
  d->n = 0;
  for (int32_t k = 0; k < d->n_items; k++) {
    ckpt->items[d->first + k].rows = 0;
    ckpt->items[d->first + k].n_read = 0;
  }
}

static ts_err check_rows(const ts_state_ids *x, const ts_ids *d,
                         const ts_table_config *c, const char *path) {
  if (d->n > ts_tbe_table_of(d->tbe, d->number)->n_rows - 1)
    return ts_fail(
        TS_ERR_DECK,
        "table %s: %s has %lld ids for rank %d, which has %lld rows: "
        "give a larger capacity",
        c->name, path, (long long)d->n, x->trainer->rank,
        (long long)ts_tbe_table_of(d->tbe, d->number)->n_rows - 1);
  return TS_OK;
}

static ts_err none(const char *table, const char *path) {
  return ts_fail(TS_ERR_CKPT,
                 "%s: has no ids for table %s, whose rows are \"dynamic\"",
                 path, table);
}

ts_err ts_ids_of_file(int64_t *n, const ts_ckpt *ckpt, const char *table,
                      const char *path) {
  const int64_t *start = starts_of(ckpt, table);
  if (!start) return none(table, path);
  *n = start[TS_INDEX_PARTS];
  return TS_OK;
}

static ts_err arrive(ts_state_ids *x, ts_ckpt *ckpt, int32_t i,
                     const char *path) {
  ts_ids *d = &x->tables[i];
  const ts_table_config *c = &x->trainer->config->tables[i];
  const int64_t *start = starts_of(ckpt, c->name);
  d->shrinks = false;
  TS_DO(ts_sights_read(ckpt, d, c, path, x->trainer->training));
  if (!start && x->may_lack) {
    lack(ckpt, d);
    return TS_OK;
  }
  if (!start) return none(c->name, path);
  d->shrinks = start[TS_INDEX_PARTS] > c->capacity && ts_ids_can_shrink(c);
  if (start[TS_INDEX_PARTS] > c->capacity && !d->shrinks)
    return ts_fail(TS_ERR_DECK,
                   "table %s: capacity = %lld, but %s has rows of %lld ids",
                   c->name, (long long)c->capacity, path,
                   (long long)start[TS_INDEX_PARTS]);
  for (int32_t k = 0; k < d->n_items; k++) {
    ckpt->items[d->first + k].rows = start[TS_INDEX_PARTS];
    ckpt->items[d->first + k].n_read = 0;
  }
  if (!d->tbe) return TS_OK;
  const int64_t from = start[ts_index_first_part(d->shard, d->n_shards)];
  d->n = start[ts_index_first_part(d->shard + 1, d->n_shards)] - from;
  if (d->shrinks) return ts_ids_stage(ckpt, d, from);
  TS_DO(check_rows(x, d, c, path));
  return read_to(ckpt, d, from);
}

static ts_err arrived(ts_ckpt *ckpt, const char *path, void *arg) {
  ts_state_ids *x = arg;
  for (int32_t i = 0; i < x->trainer->config->n_tables; i++)
    if (is_dynamic(x->trainer, i)) TS_DO(arrive(x, ckpt, i, path));
  return TS_OK;
}

/* Ids by ascending keys of the shard's parts are what list gives. */
static bool are_whole(const ts_ids *d) {
  const int32_t first = ts_index_first_part(d->shard, d->n_shards);
  const int32_t end = ts_index_first_part(d->shard + 1, d->n_shards);
  for (int64_t k = 0; k < d->n; k++) {
    const uint64_t key = ts_index_key(d->ids[k]);
    const int32_t part = ts_index_part(key);
    if (part < first || part >= end) return false;
    if (k && key <= ts_index_key(d->ids[k - 1])) return false;
  }
  return true;
}

/* Numbers of steps and scores, which are not those of a run that begins ANEW; a
 * file that was made without eviction says nothing: its ids are as if met in
 * its step; and without scores these are 0. */
static bool take_numbers(const ts_ids *d, const ts_ckpt *ckpt, bool anew) {
  const ts_tbe_ids have = ts_tbe_ids_of(d->tbe, d->number);
  const bool known = d->seen && !ckpt->items[d->first + 1].absent;
  for (int64_t k = 0; d->seen && !anew && k < d->n; k++) {
    const int64_t seen = known ? d->seen[k] : 1;
    const int64_t last = known ? d->last[k] : ts_state_step(ckpt);
    if (seen < 0 || seen > UINT32_MAX || last < 0 || last > UINT32_MAX)
      return false;
    have.seen[k + 1] = (uint32_t)seen; /* rows are from 1 on */
    have.last[k + 1] = (uint32_t)last;
  }
  for (int64_t k = 0; d->score && !anew && k < d->n; k++)
    if (!ckpt->items[d->first + 3].absent) have.score[k + 1] = d->score[k];
  return true;
}

static ts_err take(const ts_state_ids *x, int32_t i, const ts_ckpt *ckpt,
                   bool anew) {
  const ts_ids *d = &x->tables[i];
  if (!d->tbe) return TS_OK;
  if (!are_whole(d)) return bad(x, i, "the checkpoint");
  TS_DO(check_rows(x, d, &x->trainer->config->tables[i], "the checkpoint"));
  TS_DO(ts_tbe_learn(d->tbe, d->number, d->ids, d->n));
  if (x->trainer->training) ts_sights_take(d, ckpt, anew);
  if (!take_numbers(d, ckpt, anew)) return bad(x, i, "the checkpoint");
  return ts_tbe_send_counts(d->tbe, d->number);
}

static ts_err take_all(const ts_state_ids *x, const ts_ckpt *ckpt, bool anew) {
  for (int32_t i = 0; i < x->trainer->config->n_tables; i++)
    if (is_dynamic(x->trainer, i)) TS_DO(take(x, i, ckpt, anew));
  return TS_OK;
}

ts_err ts_state_ids_take(ts_trainer *t, ts_ckpt *ckpt, bool anew) {
  if (!ckpt->arrived) return TS_OK;
  ts_state_ids *x = ckpt->arg;
  for (int32_t i = 0; t->training && !anew && i < t->config->n_tables; i++)
    ts_sights_note(&x->tables[i], &t->config->tables[i]);
  for (int32_t i = 0; i < t->config->n_tables; i++)
    if (x->tables[i].shrinks)
      TS_DO(ts_ids_shrink(ckpt, &x->tables[i], &t->config->tables[i],
                          t->control));
  return ts_settle(t, take_all(x, ckpt, anew));
}

void ts_state_ids_may_lack(ts_ckpt *ckpt) {
  ts_state_ids *x = ckpt->arg;
  if (ckpt->arrived) x->may_lack = true;
}

ts_err ts_state_ids_find(ts_trainer *t, ts_ckpt *ckpt, ts_state_ids **out) {
  ts_state_ids *x = NULL;
  bool any = false;
  const int32_t n = t->config->n_tables;
  ts_err err = ts_ckpt_own(ckpt, sizeof *x, (void **)&x);
  if (err == TS_OK)
    err = ts_ckpt_own(ckpt, (size_t)n * sizeof *x->tables, (void **)&x->tables);
  for (int32_t i = 0; i < n; i++) any |= is_dynamic(t, i);
  if (err == TS_OK) x->trainer = t;
  if (err == TS_OK) err = list_all(t, ckpt, x);
  TS_DO(ts_settle(t, err));
  for (int32_t i = 0; i < n; i++) {
    if (!is_dynamic(t, i)) continue;
    TS_DO(ts_comm_sum_i64(t->control, x->tables[i].start + 1, TS_INDEX_PARTS));
    for (int32_t p = 0; p < TS_INDEX_PARTS; p++)
      x->tables[i].start[p + 1] += x->tables[i].start[p];
  }
  if (any) {
    ckpt->arrived = arrived;
    ckpt->arg = x;
  }
  *out = x;
  return TS_OK;
}
