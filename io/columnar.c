/* columnar.c - files of columns: opening, and what columns they have. */
#include "io/columnar.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/mem.h"
#include "io/columnar_impl.h"

/* Rows of a piece where a test asks for some. */
enum { PIECE = 23 };

/* ---- opening ------------------------------------------------------------- */

/* Leaves out the keys of folders that files have as columns: those are taken.
 */
static void drop_own(const ts_columnar *t, ts_strings *keys,
                     ts_strings *values) {
  int32_t n = 0;
  for (int32_t k = 0; k < keys->n; k++) {
    int32_t i = 0;
    while (i < t->n_own && strcmp(t->names[i], keys->item[k]) != 0) i++;
    if (i < t->n_own) {
      ts_mem_free(keys->item[k]);
      if (values) ts_mem_free(values->item[k]);
      continue;
    }
    keys->item[n] = keys->item[k];
    if (values) values->item[n] = values->item[k];
    n++;
  }
  keys->n = n;
  if (values) values->n = n;
}

/* Names of the columns, and of the keys of folders behind them. */
static ts_err take_names(ts_columnar *t) {
  const ts_columnar_file *f = &t->files[0];
  const struct ArrowSchema *s = ts_parquet_schema(f->in);
  ts_strings keys = {0};
  ts_err err = ts_columnar_keys(&keys, f->path, NULL);
  if (err == TS_OK) err = ts_mem_many(t->names, s->n_children + keys.n, INPUT);
  for (int32_t i = 0; err == TS_OK && i < s->n_children; i++) {
    err = ts_mem_strdup(&t->names[i], s->children[i]->name);
    t->n_own = t->n_columns = i + 1;
  }
  if (err == TS_OK) drop_own(t, &keys, NULL);
  for (int32_t i = 0; err == TS_OK && i < keys.n; i++)
    err = ts_mem_strdup(&t->names[t->n_columns++], keys.item[i]);
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
  if (err == TS_OK) drop_own(t, &names, &f->keys);
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

static ts_err open_file(ts_columnar *t, ts_columnar_file *f, const char *path,
                        int32_t threads) {
  char why[TS_PARQUET_WHY];
  struct stat st;
  TS_DO(ts_mem_strdup(&f->path, path));
  if (stat(path, &st) != 0) return ts_fail_errno(TS_ERR_DATA, path);
  f->bytes = st.st_size;
  if (!ts_parquet_open(&f->in, path, threads, why))
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

static ts_err open_all(ts_columnar *t, const ts_strings *paths,
                       int32_t threads) {
  TS_DO(ts_mem_many(t->files, paths->n, INPUT));
  TS_DO(ts_mem_many(t->starts, 1, INPUT));
  for (int32_t i = 0; i < paths->n; i++) {
    t->n_files = i + 1;
    TS_DO(open_file(t, &t->files[i], paths->item[i], threads));
    TS_DO(add_groups(t, i));
  }
  return TS_OK;
}

ts_err ts_columnar_open(ts_columnar **out, const ts_strings *paths,
                        int32_t threads, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_columnar *t = NULL;
  TS_TRY(ts_agree(comm, ts_mem_alloc(&t, sizeof *t, TS_TAG_INPUT)));
  t->most = ts_fault("pieces") ? PIECE : INT64_MAX;
  TS_TRY(ts_agree(comm, open_all(t, paths, threads)));
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
  if (f == t->files) t->is_list[column] = is_list;
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

void ts_columnar_close(ts_columnar *t) {
  if (!t) return;
  ts_columnar_forget(t);
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
