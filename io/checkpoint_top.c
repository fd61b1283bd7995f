/* checkpoint_top.c - the ids of a table that a checkpoint has most to say of:
 * those that were met most often, or whose rows are the longest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/checkpoint_impl.h"
#include "io/deck.h"

/* One dataset. */
typedef struct ts_set {
  ts_str name;
  ts_stored s;
  ts_overlays over;
  bool there;
} ts_set;

typedef struct ts_found {
  int64_t row, id, seen, last;
  double score, norm;
} ts_found;

typedef struct ts_top {
  ts_ckpt_reader reader;
  ts_staging staging; /* none: all is the host's */
  ts_set ids, seen, last, score, weights;
  int64_t n_rows, dim;
  ts_found *found; /* (2 k): once they are sorted, the first k */
  int64_t n, k, n_sorted;
} ts_top;

/* ---- the file ------------------------------------------------------------ */

static ts_err open_set(ts_top *x, ts_set *set, const char *format,
                       const char *table) {
  ts_str_reset(&set->name);
  TS_DO(ts_str_append(&set->name, format, table));
  const ts_ckpt_reader *holder = ts_ckpt_holder(&x->reader, set->name.text);
  ts_hdf5_lock();
  set->there = ts_stored_exists(holder->file, set->name.text);
  ts_hdf5_unlock();
  if (!set->there) return TS_OK;
  const ts_ckpt_item item = {.name = set->name.text};
  TS_DO(ts_ckpt_open_set(&set->s, &x->reader, set->name.text));
  return ts_overlays_open(&set->over, &x->reader, &set->s, &item);
}

static void close_set(ts_set *set) {
  ts_overlays_close(&set->over);
  ts_stored_reset(&set->s);
  ts_str_reset(&set->name);
}

static ts_err read_set(ts_top *x, ts_set *set, ts_dtype dtype, int64_t row0,
                       int64_t n_rows, void *to) {
  const ts_ckpt_item item = {.name = set->name.text,
                             .dtype = dtype,
                             .rows = set->s.rows,
                             .cols = set->s.cols};
  const ts_ckpt_columns rows = {.row0 = row0, .n_rows = n_rows, .ptr = to};
  return ts_ckpt_read_over(&x->reader, &set->over, &set->s, &item, &rows, true);
}

/* A number for each row. */
static bool is_list(const ts_top *x, const ts_set *set, ts_dtype dtype) {
  return !set->there || (set->s.dtype == dtype && set->s.cols == 0 &&
                         set->s.rows == x->n_rows);
}

static ts_err no_table(const char *path, const char *table) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_vocabularies *v = NULL;
  ts_str names = {0};
  TS_TRY(ts_ckpt_recall(&c, &v, path));
  for (int32_t i = 0; c && i < c->n_tables; i++)
    TS_TRY(
        ts_str_append(&names, "%s%s", i ? ", " : ", but: ", c->tables[i].name));
  TS_THROW(TS_ERR_USAGE, "--table: %s has no table \"%s\"%s", path, table,
           names.text ? names.text : "");
done:
  ts_str_reset(&names);
  ts_vocabularies_destroy(v);
  ts_deck_destroy(c);
  return err;
}

static ts_err open_all(ts_top *x, const char *path, const char *table) {
  static const char *const names[] = {
      "model/sparse_arch.embedding_bag_collection.embedding_bags.%s.weight",
      "model/sparse_arch.weighted_embedding_bag_collection.embedding_bags.%s."
      "weight"};
  int64_t step;
  TS_DO(ts_ckpt_reader_open(&x->reader, path, true, &step));
  x->reader.staging = &x->staging;
  for (int i = 0; i < 2 && !x->weights.there; i++)
    TS_DO(open_set(x, &x->weights, names[i], table));
  if (!x->weights.there) return no_table(path, table);
  x->n_rows = x->weights.s.rows;
  x->dim = x->weights.s.cols;
  TS_DO(open_set(x, &x->ids, "dynamic/%s/ids", table));
  TS_DO(open_set(x, &x->seen, "dynamic/%s/seen", table));
  TS_DO(open_set(x, &x->last, "dynamic/%s/last", table));
  TS_DO(open_set(x, &x->score, "dynamic/%s/score", table));
  if (x->dim < 1 || !ts_dtype_is_number(x->weights.s.dtype) ||
      !is_list(x, &x->ids, TS_I64) || !is_list(x, &x->seen, TS_I64) ||
      !is_list(x, &x->last, TS_I64) || !is_list(x, &x->score, TS_F32) ||
      x->seen.there != x->last.there || (x->seen.there && !x->ids.there) ||
      (x->score.there && !x->seen.there))
    return ts_fail(TS_ERR_CKPT, "%s: the ids of table %s are damaged", path,
                   table);
  return TS_OK;
}

/* ---- the first ones ------------------------------------------------------ */

static int by_order(const void *a, const void *b) {
  const ts_found *x = a, *y = b;
  if (x->score < y->score || x->score > y->score)
    return x->score < y->score ? 1 : -1;
  if (x->seen != y->seen) return x->seen < y->seen ? 1 : -1;
  if (x->last != y->last) return x->last < y->last ? 1 : -1;
  if (x->norm < y->norm || x->norm > y->norm) return x->norm < y->norm ? 1 : -1;
  return (x->id > y->id) - (x->id < y->id);
}

static void sort(ts_top *x) {
  qsort(x->found, (size_t)x->n, sizeof *x->found, by_order);
  if (x->n > x->k) x->n = x->k;
  x->n_sorted = x->n;
}

static void offer(ts_top *x, ts_found f) {
  if (x->n_sorted == x->k && by_order(&f, &x->found[x->k - 1]) > 0) return;
  x->found[x->n++] = f;
  if (x->n == 2 * x->k) sort(x);
}

/* NaN counts as the greatest, so that --top shows it. */
static double shown(double x) {
  return isnan(x) ? (double)INFINITY : x;
}

static double norm_of(const float *w, int64_t dim) {
  double sum = 0;
  for (int64_t i = 0; i < dim; i++) sum += (double)w[i] * w[i];
  return shown(sqrt(sum));
}

/* If ids were counted, their order is known without their rows: rows are read
 * later, and of the first ids alone. */
static ts_err look_at(ts_top *x, int64_t row0, int64_t n, int64_t *lists,
                      float *w) {
  const bool counted = x->seen.there;
  int64_t *ids = lists, *seen = lists + n, *last = lists + 2 * n;
  if (x->ids.there) TS_DO(read_set(x, &x->ids, TS_I64, row0, n, ids));
  if (counted) TS_DO(read_set(x, &x->seen, TS_I64, row0, n, seen));
  if (counted) TS_DO(read_set(x, &x->last, TS_I64, row0, n, last));
  if (x->score.there) TS_DO(read_set(x, &x->score, TS_F32, row0, n, w));
  if (!counted) TS_DO(read_set(x, &x->weights, TS_F32, row0, n, w));
  for (int64_t i = 0; i < n; i++)
    offer(x, (ts_found){.row = row0 + i,
                        .id = x->ids.there ? ids[i] : row0 + i,
                        .seen = counted ? seen[i] : 0,
                        .last = counted ? last[i] : 0,
                        .score = x->score.there ? shown(w[i]) : 0,
                        .norm = counted ? 0 : norm_of(w + i * x->dim, x->dim)});
  return TS_OK;
}

static ts_err find(ts_top *x) {
  ts_err err = TS_OK;
  int64_t *lists = NULL;
  float *w = NULL;
  const int64_t row = x->seen.there ? 3 * 8 + 4 : 4 * x->dim;
  const int64_t most = row < TS_BITE_BYTES ? TS_BITE_BYTES / row : 1;
  TS_TRY(ts_mem_many(x->found, 2 * x->k, CHECKPOINT));
  TS_TRY(ts_mem_many(lists, 3 * most, CHECKPOINT));
  TS_TRY(ts_mem_many(w, x->seen.there ? most + x->dim : most * x->dim,
                     CHECKPOINT));
  for (int64_t at = 0; at < x->n_rows; at += most)
    TS_TRY(look_at(x, at, x->n_rows - at < most ? x->n_rows - at : most, lists,
                   w));
  sort(x);
  for (int64_t i = 0; x->seen.there && i < x->n; i++) {
    TS_TRY(read_set(x, &x->weights, TS_F32, x->found[i].row, 1, w));
    x->found[i].norm = norm_of(w, x->dim);
  }
done:
  ts_mem_free_all(lists, w);
  return err;
}

/* ---- tessera inspect ----------------------------------------------------- */

static void print(const ts_top *x) {
  const char *id = x->ids.there ? "id" : "row";
  printf("%20s", id);
  if (x->seen.there) printf(" %10s %10s", "steps", "last");
  if (x->score.there) printf(" %12s", "score");
  printf(" %12s\n", "norm");
  for (int64_t i = 0; i < x->n; i++) {
    const ts_found *f = &x->found[i];
    printf("%20lld", (long long)f->id);
    if (x->seen.there)
      printf(" %10lld %10lld", (long long)f->seen, (long long)f->last);
    if (x->score.there) printf(" %12.6g", f->score);
    printf(" %12.6g\n", f->norm);
  }
}

ts_err ts_inspect_top(const char *path, const char *table, int32_t k) {
  ts_err err = TS_OK;
  ts_top x = {.reader = {.file = -1, .fd = -1}, .k = k};
  TS_TRY(open_all(&x, path, table));
  TS_TRY(find(&x));
  print(&x);
  if (fflush(stdout)) TS_TRY(ts_fail_errno(TS_ERR_IO, "standard output"));
done:
  close_set(&x.ids);
  close_set(&x.seen);
  close_set(&x.last);
  close_set(&x.score);
  close_set(&x.weights);
  ts_ckpt_reader_close(&x.reader);
  ts_mem_free(x.found);
  return err;
}
