/* sheet_parquet.c - rows as Parquet, or as Arrow's own: cells of all ranks go
 * to rank 0, which writes them. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/sheet_impl.h"

static const ts_out_kind kinds[] = {[TS_SHEET_TEXT] = TS_OUT_TEXT,
                                    [TS_SHEET_I64] = TS_OUT_I64,
                                    [TS_SHEET_F64] = TS_OUT_F64,
                                    [TS_SHEET_F32] = TS_OUT_F32};

ts_err ts_sheet_parquet_create(ts_sheet *f) {
  int32_t n = 0;
  for (int32_t k = 0; k < f->n_columns; k++)
    if (!f->columns[k].hdf5_only) n += f->columns[k].n_cells;
  TS_DO(ts_columnar_out_create(&f->out, f->temp,
                               !ts_str_ends(f->path, ".parquet"), n));
  for (int32_t k = 0; k < f->n_columns; k++) {
    const ts_sheet_column *c = &f->columns[k];
    for (int32_t j = 0; !c->hdf5_only && j < c->n_cells; j++) {
      char name[512];
      ts_sheet_cell_name(name, c, j);
      TS_DO(ts_columnar_out_column(f->out, name, kinds[c->kind]));
    }
  }
  return TS_OK;
}

/* Column K's cells of all ranks to rank 0, of which ROWS[r] are rank r's. */
static ts_err gather(ts_sheet *f, int32_t k, const int64_t *rows,
                     const void *data) {
  const int w = ts_comm_size(f->comm);
  const ts_sheet_column *c = &f->columns[k];
  const int64_t row = (int64_t)ts_cell_bytes(c) * c->n_cells;
  int64_t to[w], from[w], total = 0;
  ts_token token;
  for (int r = 0; r < w; r++) {
    total += rows[r] * row;
    to[r] = r == 0 ? rows[ts_comm_rank(f->comm)] * row : 0;
    from[r] = f->first ? rows[r] * row : 0;
  }
  TS_DO(ts_agree(f->comm,
                 ts_mem_reserve(&f->cells[k], &f->cells_bytes[k],
                                f->first ? (size_t)total : 0, TS_TAG_MISC)));
  TS_DO(
      ts_comm_all_to_all_v(f->comm, &token, f->cells[k], from, data, to, NULL));
  return ts_comm_wait(&token);
}

static ts_err add_row(ts_sheet *f, int64_t i) {
  int32_t at = 0;
  for (int32_t k = 0; k < f->n_columns; k++) {
    const ts_sheet_column *c = &f->columns[k];
    const size_t bytes = ts_cell_bytes(c);
    const char *cell = f->cells[k] + (size_t)i * bytes * (size_t)c->n_cells;
    for (int32_t j = 0; !c->hdf5_only && j < c->n_cells; j++, cell += bytes) {
      const size_t n = c->kind == TS_SHEET_TEXT ? strnlen(cell, bytes) : bytes;
      TS_DO(ts_columnar_out_cell(f->out, at++, cell, n));
    }
  }
  return ts_columnar_out_row(f->out);
}

static ts_err add_rows(ts_sheet *f, const int64_t *rows) {
  int64_t n = 0;
  for (int r = 0; r < ts_comm_size(f->comm); r++) n += rows[r];
  for (int64_t i = 0; i < n; i++) TS_DO(add_row(f, i));
  return TS_OK;
}

ts_err ts_sheet_parquet_write(ts_sheet *f, int64_t n, const void *const *data) {
  int64_t rows[ts_comm_size(f->comm)];
  ts_err err = TS_OK;
  if (!f->cells) {
    err = ts_mem_many(f->cells, f->n_columns, MISC);
    if (err == TS_OK) err = ts_mem_many(f->cells_bytes, f->n_columns, MISC);
  }
  TS_DO(ts_agree(f->comm, err));
  TS_DO(ts_comm_gather_all(f->comm, rows, &n, sizeof n));
  for (int32_t k = 0; k < f->n_columns; k++)
    if (!f->columns[k].hdf5_only) TS_DO(gather(f, k, rows, data[k]));
  return ts_agree(f->comm, f->first ? add_rows(f, rows) : TS_OK);
}

void ts_sheet_parquet_free(ts_sheet *f) {
  for (int32_t k = 0; f->cells && k < f->n_columns; k++)
    ts_mem_free(f->cells[k]);
  ts_mem_free_all(f->cells, f->cells_bytes);
}
