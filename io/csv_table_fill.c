/* csv_table_fill.c - batches of files of columns, column by column: a column's
 * cells are near each other, and a word that comes again is an id that is known
 * already. */
#include <math.h>
#include <string.h>

#include "io/csv_impl.h"

/* Cells that are taken at once. */
enum { PIECE = 256 };

/* Rows of a batch that are in one group: N from ROWS on, the first one being
 * the batch's AT-th; row R is cell R - FIRST. */
typedef struct ts_run {
  const int64_t *rows;
  int32_t at, n;
} ts_run;

static int64_t id_of(ts_csv *s, int32_t k, ts_field f, int64_t rows) {
  f = ts_csv_word_of(s, k, f);
  return ts_csv_id(s, k, &f, rows);
}

/* Feature K of words of a dictionary: each is looked up once. */
static ts_err fill_words(ts_csv *s, int32_t k, const ts_run *run,
                         const ts_cells *c, int64_t first, int64_t *ids,
                         int64_t rows) {
  const ts_field nothing = {"", 0};
  const int64_t missing = id_of(s, k, nothing, rows);
  char room[TS_CELLS_TEXT_MAX];
  int64_t *memo;
  TS_DO(ts_columnar_memo(s->table, &memo, k, c->items->n, rows));
  ts_cells_words(c, ids, run->rows, first, run->n);
  for (int32_t i = 0; i < run->n; i++) {
    const int64_t word = ids[i];
    ids[i] = word < 0 ? missing : memo[word];
    if (ids[i] >= 0) continue;
    ts_field f = nothing;
    int64_t at = word;
    const ts_cells *text = ts_cells_of(c->items, &at);
    if (text) f.text = ts_cells_text(text, at, &f.n_bytes, room);
    ids[i] = memo[word] = id_of(s, k, f, rows);
  }
  return TS_OK;
}

/* A list has fewer items than a batch's lengths can say. */
static ts_err check_length(int64_t n) {
  if (n <= INT32_MAX) return TS_OK;
  return ts_fail(TS_ERR_DATA, "a list of %lld items is too long", (long long)n);
}

/* Lists of rows that follow each other, so that their items do. */
static ts_err take_lists(ts_csv_bags *bags, const ts_run *run,
                         const ts_cells *c, int64_t first, bool *good) {
  const int64_t row = run->rows[0] - first;
  int64_t begin, from, end;
  ts_cells_items(c, row, &begin, &end);
  for (int32_t i = 0; i < run->n; i++) {
    ts_cells_items(c, row + i, &from, &end);
    TS_DO(check_length(end - from));
    bags->lengths[run->at + i] = (int32_t)(end - from);
  }
  TS_DO(ts_csv_bags_room(bags, end - begin));
  *good =
      ts_cells_wholes(c->items, bags->ids + bags->n_ids, begin, end - begin);
  bags->n_ids += end - begin;
  return TS_OK;
}

/* Cells, or lists, some of which may be missing. */
static ts_err take_each(ts_csv_bags *bags, const ts_run *run, const ts_cells *c,
                        int64_t first, bool *good) {
  const bool lists = c->kind == TS_CELLS_LIST;
  for (int32_t i = 0; *good && i < run->n; i++) {
    const int64_t at = run->rows[i] - first;
    int64_t from = at, end = at + 1;
    if (ts_cells_is_missing(c, at)) continue;
    if (lists) ts_cells_items(c, at, &from, &end);
    TS_DO(check_length(end - from));
    TS_DO(ts_csv_bags_room(bags, end - from));
    *good = ts_cells_wholes(lists ? c->items : c, bags->ids + bags->n_ids, from,
                            end - from);
    bags->lengths[run->at + i] = (int32_t)(end - from);
    bags->n_ids += end - from;
  }
  return TS_OK;
}

static ts_err take_cells(ts_csv_bags *bags, const ts_run *run,
                         const ts_cells *c, int64_t first, bool *good) {
  const bool follow = run->rows[run->n - 1] - run->rows[0] == run->n - 1;
  bool rising = follow && !c->valid && c->kind == TS_CELLS_LIST;
  for (int32_t i = 1; rising && i < run->n; i++)
    rising = run->rows[i] == run->rows[i - 1] + 1;
  if (rising) return take_lists(bags, run, c, first, good);
  if (c->kind == TS_CELLS_LIST || c->valid)
    return take_each(bags, run, c, first, good);
  TS_DO(ts_csv_bags_room(bags, run->n));
  *good =
      ts_cells_wholes_of(c, bags->ids + bags->n_ids, run->rows, first, run->n);
  for (int32_t i = 0; i < run->n; i++) bags->lengths[run->at + i] = 1;
  bags->n_ids += run->n;
  return TS_OK;
}

/* Numbers of a column, or of its lists; *GOOD: all are rows, and none is
 * missing in a list. */
static ts_err fill_bags(ts_csv *s, const ts_batch_store *b, int32_t k,
                        const ts_run *run, bool *good) {
  const bool modulo = s->ids[k].encoding == TS_CSV_MODULO;
  ts_csv_bags *bags = &s->bags[k];
  const int64_t rows = b->of[k].rows, before = bags->n_ids;
  int64_t first;
  const ts_cells *c = ts_columnar_column(s->table, s->sparse[k], &first);
  *good = c && (c->kind == TS_CELLS_WHOLE || c->kind == TS_CELLS_LIST);
  if (*good) TS_DO(take_cells(bags, run, c, first, good));
  if (!*good || bags->n_ids == before) return TS_OK; /* ids may be NULL */
  int64_t *ids = bags->ids + before;
  const int64_t n = bags->n_ids - before;
  bool rows_all = true;
  for (int64_t i = 0; modulo && i < n; i++)
    ids[i] = ts_csv_whole_id(s, k, ids[i], rows);
  for (int64_t i = 0; i < n; i++) rows_all &= ts_id_is_row(ids[i], rows);
  *good = rows_all;
  return TS_OK;
}

/* As before the first of N samples. */
static void forget_bags(ts_csv_bags *bags, int32_t n) {
  bags->n_ids = 0;
  memset(bags->lengths, 0, (size_t)n * sizeof *bags->lengths);
}

static ts_err fill_ids(ts_csv *s, ts_batch_store *b, int32_t k,
                       const ts_run *run) {
  int64_t first, *ids = b->feature[k].ids + run->at;
  const int64_t rows = b->of[k].rows;
  const ts_cells *c = ts_columnar_column(s->table, s->sparse[k], &first);
  if (c && c->kind == TS_CELLS_WORDS)
    return fill_words(s, k, run, c, first, ids, rows);
  for (int32_t i = 0; i < run->n; i++) {
    ts_columnar_turn(s->table, run->rows[i]);
    ids[i] = id_of(s, k, *ts_csv_table_field(s, s->sparse[k]), rows);
  }
  return TS_OK;
}

/* False: some are no numbers, and are looked at row by row. */
static bool fill_dense(ts_csv *s, ts_batch_store *b, int32_t d,
                       const ts_run *run) {
  const int32_t width = b->batch.n_dense;
  float *to = b->dense + (int64_t)run->at * width;
  double x[PIECE];
  int64_t first;
  if (s->parts[d] || s->missing_number || s->dense[d] == s->n_fields)
    return false;
  const ts_cells *c = ts_columnar_column(s->table, s->dense[d], &first);
  if (!c || ts_cells_is_text(c)) return false;
  for (int32_t i = 0; i < run->n; i += PIECE) {
    const int32_t n = run->n - i < PIECE ? run->n - i : PIECE;
    if (!ts_cells_numbers(c, x, run->rows + i, first, n)) return false;
    for (int32_t k = 0; k < n; k++) {
      if (isinf(x[k])) return false;
      ts_scales_put(s->base.scales, d, x[k], to + (int64_t)(i + k) * width);
    }
  }
  return true;
}

ts_err ts_csv_table_fill(ts_csv *s, ts_batch_store *b, const int64_t *rows,
                         int32_t n) {
  bool *dense = s->filled + s->n_features;
  memcpy(s->filled, s->quick, (size_t)s->n_features);
  memset(dense, true, (size_t)s->n_dense);
  for (int32_t i = 0; i < n;) {
    const ts_run run = {rows + i, i,
                        ts_columnar_run(s->table, rows + i, n - i)};
    for (int32_t d = 0; d < s->n_dense; d++)
      dense[d] = dense[d] && fill_dense(s, b, d, &run);
    for (int32_t k = 0; k < s->n_features; k++) {
      if (!s->filled[k] || ts_batch_store_is_same(b, k)) continue;
      if (!ts_csv_has_bags(&s->bags[k])) {
        TS_DO(fill_ids(s, b, k, &run));
        continue;
      }
      TS_DO(fill_bags(s, b, k, &run, &s->filled[k]));
      if (!s->filled[k]) forget_bags(&s->bags[k], n);
    }
    i += run.n;
  }
  s->all_filled = true;
  for (int32_t k = 0; k < s->n_features + s->n_dense; k++)
    s->all_filled &= s->filled[k];
  return TS_OK;
}
