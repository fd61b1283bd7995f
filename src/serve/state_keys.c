/* state_keys.c - the ids of dynamic tables that are served, and their rows
 * where a delta has others than the file that it is over. */
#include <string.h>

#include "base/mem.h"
#include "serve/state_impl.h"

static const char what[] = "the ids of a table";

/* The keys of F's part ids/TABLE. */
static ts_err keys_of(const ts_serve_file *f, const char *table,
                      const uint64_t **key, int64_t *n) {
  const ts_serve_entry *e = ts_serve_find(f, "ids/", table);
  if (!e || e->kind != TS_PART_I64) return ts_serve_wrong(f, what);
  TS_DO(ts_serve_check(f, e));
  *key = ts_serve_at(f, e);
  *n = e->rows;
  return TS_OK;
}

bool ts_serve_has_others(const ts_serve_state *s, int32_t t) {
  const ts_table_config *c = &s->config->tables[t];
  return ts_table_is_dynamic(c) && s->delta.data &&
         ts_serve_find(&s->delta, "ids/", c->name);
}

/* Rows that a delta has: those at WHICH (n) of a table. */
typedef struct ts_changed {
  const int64_t *which;
  const char *rows;
  int64_t n;
} ts_changed;

static ts_err changed_rows(const ts_serve_state *s, const char *name,
                           const ts_serve_entry *all, ts_changed *c) {
  const ts_serve_file *d = &s->delta;
  const ts_serve_entry *which = ts_serve_find(d, "rows/", name);
  const ts_serve_entry *rows = ts_serve_find(d, "model/", name);
  *c = (ts_changed){0};
  if (!which && !rows) return TS_OK;
  if (!which || !rows || which->kind != TS_PART_I64 ||
      which->rows != rows->rows || rows->cols != all->cols ||
      rows->kind != all->kind)
    return ts_serve_wrong(d, name);
  TS_DO(ts_serve_check(d, which));
  TS_DO(ts_serve_check(d, rows));
  *c = (ts_changed){ts_serve_at(d, which), ts_serve_at(d, rows), rows->rows};
  return TS_OK;
}

/* TO has the rows of NEXT: those that changed, and those of the same ids in the
 * file, OLD, whose keys are WAS (N_WAS); zeros behind them.  False: there is
 * none, or more have changed. */
static bool merge(char *to, const ts_serve_keys *next, const char *old,
                  const uint64_t *was, int64_t n_was, const ts_changed *c,
                  size_t bytes) {
  int64_t from = 0, k = 0;
  for (int64_t i = 0; i < next->n; i++, to += bytes) {
    while (from < n_was && was[from] < next->key[i]) from++;
    if (k < c->n && c->which[k] == i)
      memcpy(to, c->rows + (size_t)k++ * bytes, bytes);
    else if (from < n_was && was[from] == next->key[i])
      memcpy(to, old + (size_t)from * bytes, bytes);
    else
      return false;
  }
  memset(to, 0, bytes);
  return k == c->n;
}

static ts_err make_rows(ts_serve_state *s, int32_t t, const char *name,
                        const ts_serve_entry *all) {
  ts_serve_dynamic *x = &s->dynamic[t];
  const uint64_t *was = NULL;
  int64_t n_was = 0;
  ts_changed c;
  const size_t bytes =
      (size_t)ts_rows_bytes((ts_rows_kind)all->kind, (int32_t)all->cols);
  TS_DO(keys_of(&s->file, s->config->tables[t].name, &was, &n_was));
  if (n_was + 1 != all->rows) return ts_serve_wrong(&s->file, what);
  TS_DO(changed_rows(s, name, all, &c));
  TS_DO(ts_mem_array(&x->rows, x->keys.n + 1, bytes, TS_TAG_SPARSE));
  if (merge(x->rows, &x->keys, ts_serve_at(&s->file, all), was, n_was, &c,
            bytes))
    return TS_OK;
  return ts_serve_wrong(&s->delta, name);
}

ts_err ts_serve_take_keys(ts_serve_state *s, int32_t t, const char *name,
                          const ts_serve_entry *all, const void **rows) {
  ts_table_config *c = &s->config->tables[t];
  const bool others = ts_serve_has_others(s, t);
  const ts_serve_file *f = others ? &s->delta : &s->file;
  const uint64_t *key = NULL;
  int64_t n = 0;
  bool good;
  TS_DO(keys_of(f, c->name, &key, &n));
  if (!others && n + 1 != all->rows) return ts_serve_wrong(f, what);
  TS_DO(ts_serve_keys_create(&s->dynamic[t].keys, key, n, &good));
  if (!good) return ts_serve_wrong(f, what);
  c->rows = n;
  *rows = ts_serve_at(&s->file, all);
  if (!others) return TS_OK;
  TS_DO(make_rows(s, t, name, all));
  *rows = s->dynamic[t].rows;
  return TS_OK;
}
