/* columnar_groups.c - groups of rows of files of columns: which are decoded,
 * when, and the rows in them. */
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "io/columnar_impl.h"

static void clear_piece(const ts_columnar *t, ts_piece *p) {
  if (p->data.release) p->data.release(&p->data);
  for (int32_t i = 0; p->cells && i < t->n_columns; i++)
    ts_cells_destroy(p->cells[i]);
  for (int32_t k = 0; p->memos && k < t->n_memos; k++) ts_mem_free(p->memos[k]);
  ts_mem_free_all(p->cells, p->memos, p->memo_of);
}

static void clear(const ts_columnar *t, ts_slot *s) {
  for (int32_t i = 0; s->pieces && i < s->n_pieces; i++)
    clear_piece(t, &s->pieces[i]);
  ts_mem_free(s->pieces);
  *s = (ts_slot){.group = -1};
}

/* A key of the folders is one text for all rows. */
static ts_err make_key(ts_cells **out, const char *value) {
  TS_DO(ts_mem_alloc(out, sizeof **out, TS_TAG_INPUT));
  **out = (ts_cells){.kind = strcmp(value, TS_COLUMNAR_NO_KEY) ? TS_CELLS_FIXED
                                                               : TS_CELLS_NONE,
                     .width = (int32_t)strlen(value),
                     .n = 1,
                     .data = value};
  return TS_OK;
}

static ts_err fill_piece(const ts_columnar *t, ts_piece *p,
                         const int32_t *columns, int32_t k) {
  const ts_columnar_file *f = &t->files[t->groups[p->group].file];
  const struct ArrowSchema *schema = ts_parquet_schema(f->in);
  const char *unknown = NULL;
  char why[TS_PARQUET_WHY];
  TS_DO(ts_mem_many(p->cells, t->n_columns, INPUT));
  TS_DO(ts_mem_many(p->memos, t->n_memos, INPUT));
  TS_DO(ts_mem_many(p->memo_of, t->n_memos, INPUT));
  if (t->n_read && !ts_parquet_take(f->in, k, &p->data, why))
    return ts_fail(TS_ERR_DATA, "%s: row group %d: %s", f->path,
                   (int)t->groups[p->group].group, why);
  for (int32_t i = 0; i < t->n_read; i++) {
    ts_cells **c = &p->cells[t->read[i]];
    TS_DO(ts_cells_create(c, schema->children[columns[i]], &unknown));
    ts_cells_set(*c, p->data.children[i]);
  }
  for (int32_t i = t->n_own; i < t->n_columns; i++)
    if (t->wanted[i]) TS_DO(make_key(&p->cells[i], f->keys.item[i - t->n_own]));
  return TS_OK;
}

static ts_err load(const ts_columnar *t, ts_slot *s) {
  const ts_columnar_group *g = &t->groups[s->group];
  const ts_columnar_file *f = &t->files[g->file];
  int32_t columns[t->n_read + 1], n = 1;
  int64_t from = t->starts[s->group];
  char why[TS_PARQUET_WHY];
  for (int32_t i = 0; i < t->n_read; i++) columns[i] = f->index[t->read[i]];
  if (t->n_read &&
      !ts_parquet_read(f->in, g->group, columns, t->n_read, t->most, &n, why))
    return ts_fail(TS_ERR_DATA, "%s: row group %d: %s", f->path, (int)g->group,
                   why);
  TS_DO(ts_mem_many(s->pieces, n, INPUT));
  s->n_pieces = n;
  for (int32_t k = 0; k < n; k++) {
    ts_piece *p = &s->pieces[k];
    *p = (ts_piece){.group = s->group, .from = from};
    TS_DO(fill_piece(t, p, columns, k));
    from += t->n_read ? p->data.length : t->starts[s->group + 1] - from;
    p->end = from;
  }
  return TS_OK;
}

/* In a thread of its own; what is wrong is found again, and said, by who wants
 * the group. */
static void *load_coming(void *arg) {
  const ts_columnar *t = arg;
  t->coming->failed = load(t, t->coming) != TS_OK;
  ts_err_clear();
  return NULL;
}

static void join(ts_columnar *t) {
  ts_slot *s = t->coming;
  if (!s) return;
  pthread_join(t->thread, NULL);
  t->coming = NULL;
  if (s->failed) clear(t, s);
  s->failed = false;
}

static ts_slot *find(const ts_columnar *t, int64_t group) {
  for (int32_t i = 0; i < t->n_slots; i++)
    if (t->slots[i]->group == group) return t->slots[i];
  return NULL;
}

/* A slot for GROUP, which is to be loaded. */
static ts_err take_slot(ts_slot **out, ts_columnar *t, int64_t group) {
  ts_slot *s = find(t, -1);
  if (ts_fault("group"))
    return ts_fail(TS_ERR_DATA, "%s: row group %d: (fault asked for)",
                   t->files[t->groups[group].file].path,
                   (int)t->groups[group].group);
  if (!s) {
    TS_DO(ts_mem_extend(&t->slots, t->n_slots, t->n_slots + 1, sizeof *t->slots,
                        TS_TAG_INPUT));
    TS_DO(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
    t->slots[t->n_slots++] = s;
    s->group = -1;
  }
  s->group = group;
  *out = s;
  return TS_OK;
}

static int64_t group_of(const ts_columnar *t, int64_t row) {
  int64_t low = 0, high = t->n_groups - 1;
  while (low < high) {
    const int64_t mid = low + (high - low + 1) / 2;
    if (t->starts[mid] <= row)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

int64_t ts_columnar_end(const ts_columnar *t, int64_t row) {
  return t->starts[group_of(t, row) + 1];
}

static bool has(const ts_columnar *t, int64_t group, int64_t row) {
  return row >= t->starts[group] && row < t->starts[group + 1];
}

static ts_err begin_ahead(ts_columnar *t, int64_t group) {
  if (t->coming || find(t, group)) return TS_OK;
  ts_slot *s = NULL;
  TS_DO(take_slot(&s, t, group));
  t->coming = s;
  if (pthread_create(&t->thread, NULL, load_coming, t) != 0) {
    t->coming = NULL; /* it is read when it is wanted */
    s->group = -1;
  }
  return TS_OK;
}

static ts_err load_now(ts_columnar *t, int64_t group) {
  ts_slot *s;
  if (t->coming && t->coming->group == group) join(t);
  s = find(t, group);
  if (!s) {
    join(t); /* one thread at a time reads a file */
    TS_DO(take_slot(&s, t, group));
    const ts_err err = load(t, s);
    if (err != TS_OK) clear(t, s);
    TS_DO(err);
  }
  s->held = true;
  return TS_OK;
}

ts_err ts_columnar_hold(ts_columnar *t, const int64_t *rows, int64_t n,
                        int64_t ahead) {
  int64_t last = -1, n_held = 0;
  t->now = NULL;
  for (int32_t i = 0; i < t->n_slots; i++) t->slots[i]->held = t->keep;
  /* Room first: what is wanted again stays. */
  for (int64_t i = 0; i < n; i++) {
    if (last >= 0 && has(t, last, rows[i])) continue;
    last = group_of(t, rows[i]);
    ts_slot *s = find(t, last);
    if (s) s->held = true;
    n_held++;
  }
  /* A batch that has two groups leaves no room for a third one. */
  const int64_t next = ahead < 0 || n_held > 1 ? -1 : group_of(t, ahead);
  for (int32_t i = 0; i < t->n_slots; i++) {
    ts_slot *s = t->slots[i];
    if (s->held || s->group < 0 || s->group == next) continue;
    if (s == t->coming) join(t); /* a wrong guess: no third one beside it */
    clear(t, s);
  }
  last = -1;
  for (int64_t i = 0; i < n; i++) {
    if (last >= 0 && has(t, last, rows[i])) continue;
    last = group_of(t, rows[i]);
    TS_DO(load_now(t, last));
  }
  return next < 0 ? TS_OK : begin_ahead(t, next);
}

static bool is_in(const ts_piece *p, int64_t row) {
  return row >= p->from && row < p->end;
}

void ts_columnar_turn(ts_columnar *t, int64_t row) {
  t->row = row;
  if (t->now && is_in(t->now, row)) return;
  t->now = find(t, group_of(t, row))->pieces;
  while (!is_in(t->now, row)) t->now++;
}

const ts_cells *ts_columnar_cell(const ts_columnar *t, int32_t column,
                                 int64_t *i) {
  *i = column < t->n_own ? t->row - t->now->from : 0;
  return ts_cells_of(t->now->cells[column], i);
}

int32_t ts_columnar_run(ts_columnar *t, const int64_t *rows, int32_t n) {
  int32_t m = 1;
  ts_columnar_turn(t, rows[0]);
  while (m < n && is_in(t->now, rows[m])) m++;
  return m;
}

const ts_cells *ts_columnar_column(const ts_columnar *t, int32_t column,
                                   int64_t *first) {
  *first = t->now->from;
  return column < t->n_own ? t->now->cells[column] : NULL;
}

void ts_columnar_memos(ts_columnar *t, int32_t n) {
  t->n_memos = n;
}

ts_err ts_columnar_memo(ts_columnar *t, int64_t **out, int32_t k, int64_t n,
                        int64_t of) {
  ts_piece *p = t->now;
  const bool known = p->memos[k] && p->memo_of[k] == of;
  if (!p->memos[k]) TS_DO(ts_mem_array(&p->memos[k], n, 8, TS_TAG_INPUT));
  if (!known) memset(p->memos[k], 0xff, (size_t)n * 8);
  p->memo_of[k] = of;
  *out = p->memos[k];
  return TS_OK;
}

const char *ts_columnar_place(const ts_columnar *t, int64_t *row) {
  const ts_columnar_file *f = &t->files[t->groups[t->now->group].file];
  *row = t->row - f->first;
  return f->path;
}

void ts_columnar_forget(ts_columnar *t) {
  join(t);
  for (int32_t i = 0; i < t->n_slots; i++) {
    clear(t, t->slots[i]);
    ts_mem_free(t->slots[i]);
  }
  t->n_slots = 0;
}
