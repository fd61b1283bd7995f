/* columnar_groups.c - groups of rows of files of columns: which are decoded,
 * when, and the rows in them. */
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "io/columnar_impl.h"

static void clear(const ts_columnar *t, ts_slot *s) {
  if (s->data.release) s->data.release(&s->data);
  for (int32_t i = 0; s->cells && i < t->n_columns; i++) {
    ts_cells_destroy(s->cells[i]);
    s->cells[i] = NULL;
  }
  for (int32_t k = 0; s->memos && k < t->n_memos; k++) {
    ts_mem_free(s->memos[k]);
    s->memos[k] = NULL;
  }
  s->data = (struct ArrowArray){0};
  s->group = -1;
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

static ts_err load(const ts_columnar *t, ts_slot *s) {
  const ts_columnar_group *g = &t->groups[s->group];
  const ts_columnar_file *f = &t->files[g->file];
  const struct ArrowSchema *schema = ts_parquet_schema(f->in);
  int32_t columns[t->n_read + 1];
  char why[TS_PARQUET_WHY];
  const char *unknown = NULL;
  for (int32_t i = 0; i < t->n_read; i++) columns[i] = f->index[t->read[i]];
  if (t->n_read &&
      !ts_parquet_read(f->in, g->group, columns, t->n_read, &s->data, why))
    return ts_fail(TS_ERR_DATA, "%s: row group %d: %s", f->path, (int)g->group,
                   why);
  for (int32_t i = 0; i < t->n_read; i++) {
    ts_cells **c = &s->cells[t->read[i]];
    TS_DO(ts_cells_create(c, schema->children[columns[i]], &unknown));
    ts_cells_set(*c, s->data.children[i]);
  }
  for (int32_t i = t->n_own; i < t->n_columns; i++)
    if (t->wanted[i]) TS_DO(make_key(&s->cells[i], f->keys.item[i - t->n_own]));
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
    TS_DO(ts_mem_many(s->cells, t->n_columns, INPUT));
    TS_DO(ts_mem_many(s->memos, t->n_memos, INPUT));
    TS_DO(ts_mem_many(s->memo_of, t->n_memos, INPUT));
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

void ts_columnar_turn(ts_columnar *t, int64_t row) {
  if (!t->now || !has(t, t->now->group, row))
    t->now = find(t, group_of(t, row));
  t->row = row;
}

const ts_cells *ts_columnar_cell(const ts_columnar *t, int32_t column,
                                 int64_t *i) {
  *i = column < t->n_own ? t->row - t->starts[t->now->group] : 0;
  return ts_cells_of(t->now->cells[column], i);
}

int32_t ts_columnar_run(ts_columnar *t, const int64_t *rows, int32_t n) {
  int32_t m = 1;
  ts_columnar_turn(t, rows[0]);
  while (m < n && has(t, t->now->group, rows[m])) m++;
  return m;
}

const ts_cells *ts_columnar_column(const ts_columnar *t, int32_t column,
                                   int64_t *first) {
  *first = t->starts[t->now->group];
  return column < t->n_own ? t->now->cells[column] : NULL;
}

void ts_columnar_memos(ts_columnar *t, int32_t n) {
  t->n_memos = n;
}

ts_err ts_columnar_memo(ts_columnar *t, int64_t **out, int32_t k, int64_t n,
                        int64_t of) {
  ts_slot *s = t->now;
  const bool known = s->memos[k] && s->memo_of[k] == of;
  if (!s->memos[k]) TS_DO(ts_mem_array(&s->memos[k], n, 8, TS_TAG_INPUT));
  if (!known) memset(s->memos[k], 0xff, (size_t)n * 8);
  s->memo_of[k] = of;
  *out = s->memos[k];
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
    ts_mem_free_all(t->slots[i]->cells, t->slots[i]->memos,
                    t->slots[i]->memo_of, t->slots[i]);
  }
  t->n_slots = 0;
}
