/* columnar.c - groups of rows of files of columns: which are decoded, and
 * when. */
#include "io/columnar.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "io/columnar_keys.h"
#include "io/parquet.h"

typedef struct ts_columnar_file {
  ts_parquet *in;
  char *path;
  int32_t *index; /* (n_own) of wanted columns in this file */
  int64_t bytes, first;
  ts_strings keys; /* (columns - n_own) values of the folders' keys */
} ts_columnar_file;

typedef struct ts_columnar_group {
  int32_t file, group;
} ts_columnar_group;

/* A group that is decoded, or about to be. */
typedef struct ts_slot {
  int64_t group; /* -1: none */
  bool held, failed;
  struct ArrowArray data;
  ts_cells **cells; /* (n_columns) those of wanted columns */
  int64_t **memos;  /* (n_memos) */
  int64_t *memo_of; /* (n_memos) */
} ts_slot;

struct ts_columnar {
  ts_columnar_file *files;
  ts_columnar_group *groups;
  int64_t *starts; /* (n_groups + 1) */
  int64_t n_groups;
  int32_t n_files, n_columns, n_own;    /* columns of the files themselves */
  char **names;                         /* (n_columns) */
  bool *wanted, *is_list, *is_weighted; /* (n_columns) */
  int32_t *read, n_read;                /* own columns that are wanted */
  ts_slot **slots;
  int32_t n_slots, n_memos;
  ts_slot *now, *coming; /* of the row at hand; of the thread */
  int64_t row;
  bool keep;
  pthread_t thread;
};

/* ---- opening ------------------------------------------------------------- */

/* Names of the columns, and of the keys of folders behind them. */
static ts_err take_names(ts_columnar *t) {
  const ts_columnar_file *f = &t->files[0];
  const struct ArrowSchema *s = ts_parquet_schema(f->in);
  ts_strings keys = {0};
  t->n_own = (int32_t)s->n_children;
  ts_err err = ts_columnar_keys(&keys, f->path, NULL);
  t->n_columns = t->n_own + keys.n;
  if (err == TS_OK) err = ts_mem_many(t->names, t->n_columns, INPUT);
  for (int32_t i = 0; err == TS_OK && i < t->n_own; i++)
    err = ts_mem_strdup(&t->names[i], s->children[i]->name);
  for (int32_t i = 0; err == TS_OK && i < keys.n; i++)
    err = ts_mem_strdup(&t->names[t->n_own + i], keys.item[i]);
  ts_columnar_keys_free(&keys);
  TS_DO(err);
  TS_DO(ts_mem_many(t->wanted, t->n_columns, INPUT));
  TS_DO(ts_mem_many(t->is_list, t->n_columns, INPUT));
  TS_DO(ts_mem_many(t->is_weighted, t->n_columns, INPUT));
  return ts_mem_many(t->read, t->n_own, INPUT);
}

/* The values of the keys of F's folders, which are those of the first file. */
static ts_err take_keys(const ts_columnar *t, ts_columnar_file *f) {
  ts_strings names = {0};
  ts_err err = ts_columnar_keys(&names, f->path, &f->keys);
  bool same = names.n == t->n_columns - t->n_own;
  for (int32_t i = 0; same && i < names.n; i++)
    same = !strcmp(names.item[i], t->names[t->n_own + i]);
  if (err == TS_OK && !same)
    err = ts_fail(TS_ERR_DATA,
                  "%s: its folders have other keys (NAME=VALUE) than those of "
                  "%s",
                  f->path, t->files[0].path);
  ts_columnar_keys_free(&names);
  return err;
}

static ts_err open_file(ts_columnar *t, ts_columnar_file *f, const char *path) {
  char why[TS_PARQUET_WHY];
  struct stat st;
  TS_DO(ts_mem_strdup(&f->path, path));
  if (stat(path, &st) != 0) return ts_fail_errno(TS_ERR_DATA, path);
  f->bytes = st.st_size;
  if (!ts_parquet_open(&f->in, path, true, why))
    return ts_fail(TS_ERR_DATA, "%s: %s", path, why);
  if (f == t->files) TS_DO(take_names(t));
  TS_DO(take_keys(t, f));
  return ts_mem_many(f->index, t->n_own, INPUT);
}

/* Groups without rows are none. */
static ts_err add_groups(ts_columnar *t, int32_t file) {
  ts_columnar_file *f = &t->files[file];
  const int32_t more = ts_parquet_n_groups(f->in);
  TS_DO(ts_mem_extend(&t->groups, t->n_groups, t->n_groups + more,
                      sizeof *t->groups, TS_TAG_INPUT));
  TS_DO(ts_mem_extend(&t->starts, t->n_groups + 1, t->n_groups + 1 + more,
                      sizeof *t->starts, TS_TAG_INPUT));
  f->first = t->starts[t->n_groups];
  for (int32_t g = 0; g < more; g++) {
    const int64_t rows = ts_parquet_rows(f->in, g),
                  from = t->starts[t->n_groups];
    if (rows > (INT64_C(1) << 40) - from)
      return ts_fail(TS_ERR_DATA, "%s: row group %d: %lld rows are too many",
                     f->path, (int)g, (long long)rows);
    if (!rows) continue;
    t->groups[t->n_groups++] = (ts_columnar_group){file, g};
    t->starts[t->n_groups] = from + rows;
  }
  return TS_OK;
}

static ts_err open_all(ts_columnar *t, const ts_strings *paths) {
  TS_DO(ts_mem_many(t->files, paths->n, INPUT));
  TS_DO(ts_mem_many(t->starts, 1, INPUT));
  for (int32_t i = 0; i < paths->n; i++) {
    t->n_files = i + 1;
    TS_DO(open_file(t, &t->files[i], paths->item[i]));
    TS_DO(add_groups(t, i));
  }
  return TS_OK;
}

ts_err ts_columnar_open(ts_columnar **out, const ts_strings *paths,
                        ts_comm *comm) {
  ts_err err = TS_OK;
  ts_columnar *t = NULL;
  TS_TRY(ts_agree(comm, ts_mem_alloc(&t, sizeof *t, TS_TAG_INPUT)));
  TS_TRY(ts_agree(comm, open_all(t, paths)));
  *out = t;
done:
  if (err != TS_OK) ts_columnar_close(t);
  return err;
}

int64_t ts_columnar_n_rows(const ts_columnar *t) {
  return t->starts[t->n_groups];
}

int64_t ts_columnar_bytes(const ts_columnar *t) {
  int64_t n = 0;
  for (int32_t i = 0; i < t->n_files; i++) n += t->files[i].bytes;
  return n;
}

int32_t ts_columnar_n_columns(const ts_columnar *t) {
  return t->n_columns;
}

const char *ts_columnar_name(const ts_columnar *t, int32_t column) {
  return t->names[column];
}

const int64_t *ts_columnar_groups(const ts_columnar *t, int64_t *n) {
  *n = t->n_groups;
  return t->starts;
}

/* ---- columns ------------------------------------------------------------- */

/* Where F has the column NAME, most likely at AT; -1: nowhere. */
static int32_t find_in(const ts_columnar_file *f, const char *name,
                       int32_t at) {
  const struct ArrowSchema *s = ts_parquet_schema(f->in);
  if (at < s->n_children && !strcmp(s->children[at]->name, name)) return at;
  for (int32_t i = 0; i < s->n_children; i++)
    if (!strcmp(s->children[i]->name, name)) return i;
  return -1;
}

static ts_err want_in(ts_columnar *t, ts_columnar_file *f, int32_t column) {
  const char *why = NULL, *name = t->names[column];
  const int32_t at = find_in(f, name, column);
  ts_cells *c = NULL;
  if (at < 0)
    return ts_fail(TS_ERR_DATA, "%s: has no column \"%s\", which %s has",
                   f->path, name, t->files[0].path);
  f->index[column] = at;
  const ts_err err =
      ts_cells_create(&c, ts_parquet_schema(f->in)->children[at], &why);
  const bool is_list = c && c->kind == TS_CELLS_LIST;
  t->is_list[column] |= is_list;
  t->is_weighted[column] |= is_list && c->weights;
  ts_cells_destroy(c);
  TS_DO(err);
  if (why)
    return ts_fail(TS_ERR_DATA, "%s: column \"%s\" %s", f->path, name, why);
  if (is_list != t->is_list[column])
    return ts_fail(TS_ERR_DATA,
                   "%s: column \"%s\" has lists in some files only", f->path,
                   name);
  return TS_OK;
}

ts_err ts_columnar_want(ts_columnar *t, int32_t column) {
  if (t->wanted[column]) return TS_OK;
  t->wanted[column] = true;
  if (column >= t->n_own) return TS_OK;
  t->read[t->n_read++] = column;
  for (int32_t i = 0; i < t->n_files; i++)
    TS_DO(want_in(t, &t->files[i], column));
  return TS_OK;
}

bool ts_columnar_is_list(const ts_columnar *t, int32_t column, bool *weighted) {
  *weighted = t->is_weighted[column];
  return t->is_list[column];
}

void ts_columnar_keep(ts_columnar *t) {
  t->keep = true;
}

/* ---- groups -------------------------------------------------------------- */

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
  int64_t last = -1;
  t->now = NULL;
  for (int32_t i = 0; i < t->n_slots; i++) t->slots[i]->held = t->keep;
  /* Room first: what is wanted again stays. */
  for (int64_t i = 0; i < n; i++) {
    if (last >= 0 && has(t, last, rows[i])) continue;
    last = group_of(t, rows[i]);
    ts_slot *s = find(t, last);
    if (s) s->held = true;
  }
  const int64_t next = ahead < 0 ? -1 : group_of(t, ahead);
  for (int32_t i = 0; i < t->n_slots; i++) {
    ts_slot *s = t->slots[i];
    if (!s->held && s->group >= 0 && s->group != next && s != t->coming)
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

void ts_columnar_close(ts_columnar *t) {
  if (!t) return;
  join(t);
  for (int32_t i = 0; i < t->n_slots; i++) {
    clear(t, t->slots[i]);
    ts_mem_free_all(t->slots[i]->cells, t->slots[i]->memos,
                    t->slots[i]->memo_of, t->slots[i]);
  }
  for (int32_t i = 0; i < t->n_files; i++) {
    ts_parquet_close(t->files[i].in);
    ts_columnar_keys_free(&t->files[i].keys);
    ts_mem_free_all(t->files[i].path, t->files[i].index);
  }
  for (int32_t i = 0; t->names && i < t->n_columns; i++)
    ts_mem_free(t->names[i]);
  ts_mem_free_all(t->files, t->groups, t->starts, t->names, t->wanted,
                  t->is_list, t->is_weighted, t->read, t->slots, t);
}
