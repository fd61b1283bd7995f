/* keys_columnar.c - keys of files of columns: numbers, or texts. */
#include <string.h>

#include "base/mem.h"
#include "io/columnar.h"
#include "io/columns.h"
#include "io/keys.h"

/* A cell that is longer is no key, and every row would have room for it. */
enum { CELL_MAX = 4096 };

typedef struct ts_columnar_keys {
  ts_keys base;
  ts_columnar *table;
  int32_t *column; /* (n) */
} ts_columnar_keys;

static void close_keys(ts_keys *base) {
  ts_columnar_keys *k = (ts_columnar_keys *)base;
  ts_columnar_close(k->table);
  ts_mem_free_all(k->column, k);
}

/* ---- cells --------------------------------------------------------------- */

typedef ts_err (*ts_row_fn)(ts_columnar_keys *, int64_t i);

static ts_err each_row(ts_columnar_keys *k, int64_t first, int64_t n,
                       ts_row_fn fn) {
  const int64_t all = ts_columnar_n_rows(k->table);
  for (int64_t row = first; row < first + n;) {
    const int64_t end = ts_columnar_end(k->table, row);
    TS_DO(ts_columnar_hold(k->table, &row, 1, end < all ? end : -1));
    for (; row < end && row < first + n; row++) {
      ts_columnar_turn(k->table, row);
      TS_DO(fn(k, row - first));
    }
  }
  return TS_OK;
}

static const char *text_of(const ts_columnar_keys *k, int32_t c, size_t *n,
                           char room[TS_CELLS_TEXT_MAX]) {
  int64_t i;
  const ts_cells *cell = ts_columnar_cell(k->table, k->column[c], &i);
  *n = 0;
  return cell ? ts_cells_text(cell, i, n, room) : "";
}

/* Columns of whole numbers miss none. */
static ts_err take(ts_columnar_keys *k, int64_t row) {
  for (int32_t c = 0; c < k->base.n; c++) {
    const ts_sheet_column *column = &k->base.columns[c];
    const size_t width = (size_t)column->width;
    char room[TS_CELLS_TEXT_MAX];
    size_t n;
    if (column->kind == TS_SHEET_I64) {
      int64_t i, *to = (int64_t *)k->base.data[c] + row;
      const ts_cells *cell = ts_columnar_cell(k->table, k->column[c], &i);
      *to = 0;
      if (cell) (void)ts_cells_whole(cell, i, to);
      continue;
    }
    char *to = (char *)k->base.data[c] + (size_t)row * width;
    const char *text = text_of(k, c, &n, room);
    if (n > width) n = width;
    memcpy(to, text, n);
    memset(to + n, 0, width - n);
  }
  return TS_OK;
}

static ts_err read_keys(ts_keys *base, int64_t first, int64_t n) {
  return each_row((ts_columnar_keys *)base, first, n, take);
}

/* The widest cells so far, and whether a column has whole numbers alone. */
static ts_err measure(ts_columnar_keys *k, int64_t row) {
  (void)row;
  for (int32_t c = 0; c < k->base.n; c++) {
    ts_sheet_column *column = &k->base.columns[c];
    char room[TS_CELLS_TEXT_MAX];
    int64_t i, x;
    size_t n;
    const ts_cells *cell = ts_columnar_cell(k->table, k->column[c], &i);
    if (!cell || cell->kind != TS_CELLS_WHOLE || !ts_cells_whole(cell, i, &x))
      column->kind = TS_SHEET_TEXT;
    (void)text_of(k, c, &n, room);
    if (n > CELL_MAX)
      return ts_fail(TS_ERR_DATA,
                     "--keys: a cell of column \"%s\" has more than %d bytes",
                     column->name, CELL_MAX);
    if ((int32_t)n > column->width) column->width = (int32_t)n;
  }
  return TS_OK;
}

/* Each rank looks at its share of the rows. */
static ts_err measure_all(ts_columnar_keys *k, ts_comm *comm) {
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int32_t n_keys = k->base.n;
  const int64_t n = k->base.n_samples, from = n * me / w;
  int64_t most[2 * n_keys + 1];
  for (int32_t c = 0; c < n_keys; c++) k->base.columns[c].kind = TS_SHEET_I64;
  TS_DO(ts_agree(comm, each_row(k, from, n * (me + 1) / w - from, measure)));
  for (int32_t c = 0; c < n_keys; c++) {
    most[2 * c] = k->base.columns[c].width;
    most[2 * c + 1] = k->base.columns[c].kind == TS_SHEET_TEXT;
  }
  TS_DO(ts_comm_max_i64(comm, most, 2 * n_keys));
  for (int32_t c = 0; c < n_keys; c++) {
    k->base.columns[c].width = (int32_t)most[2 * c];
    k->base.columns[c].kind = most[2 * c + 1] ? TS_SHEET_TEXT : TS_SHEET_I64;
  }
  return TS_OK;
}

/* ---- columns ------------------------------------------------------------- */

static ts_err find_columns(ts_columnar_keys *k, const ts_config *config,
                           const char *file) {
  bool weighted;
  for (int32_t c = 0; c < k->base.n; c++) {
    const char *name = ts_column_from(config, k->base.columns[c].name);
    int32_t i = ts_columnar_n_columns(k->table) - 1;
    while (i >= 0 && strcmp(ts_columnar_name(k->table, i), name) != 0) i--;
    if (i < 0)
      return ts_fail(TS_ERR_DATA, "--keys: %s: has no column \"%s\"", file,
                     name);
    k->column[c] = i;
    TS_DO(ts_columnar_want(k->table, i));
    if (ts_columnar_is_list(k->table, i, &weighted))
      return ts_fail(TS_ERR_DATA, "--keys: %s: column \"%s\" has lists", file,
                     name);
  }
  return TS_OK;
}

static ts_err create(ts_columnar_keys **out, const ts_strings *names) {
  ts_columnar_keys *k = NULL;
  TS_DO(ts_mem_alloc(&k, sizeof *k, TS_TAG_INPUT));
  *out = k;
  k->base.read = read_keys;
  k->base.close = close_keys;
  TS_DO(ts_keys_columns(&k->base, names));
  return ts_mem_many(k->column, names->n, INPUT);
}

ts_err ts_keys_of_columnar(ts_keys **out, const ts_config *c,
                           const ts_strings *paths, const ts_strings *names,
                           ts_comm *comm) {
  ts_err err = TS_OK;
  ts_columnar_keys *k = NULL;
  TS_TRY(ts_agree(comm, create(&k, names)));
  TS_TRY(ts_columnar_open(&k->table, paths, c->run.threads, comm));
  k->base.n_samples = ts_columnar_n_rows(k->table);
  TS_TRY(ts_agree(comm, find_columns(k, c, paths->item[0])));
  TS_TRY(measure_all(k, comm));
  *out = &k->base;
  k = NULL;
done:
  if (k) ts_keys_close(&k->base);
  return err;
}
