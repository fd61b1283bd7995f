/* checkpoint_pieces.c - the rows and columns that a rank wants of a dataset,
 * block by block, each against its checksum; through memory of the host where
 * they go to a device's. */
#include <string.h>

#include "base/few_bits.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"

/* Chunked datasets (of the collective way) come through HDF5. */
static ts_err read_chunked(const ts_ckpt_reader *r, const ts_ckpt_item *item,
                           int64_t row0, int64_t n_rows, int64_t col0,
                           int64_t n_cols, void *to) {
  ts_err err = TS_OK;
  const hsize_t start[2] = {(hsize_t)row0, (hsize_t)col0};
  const hsize_t count[2] = {(hsize_t)n_rows,
                            (hsize_t)ts_stored_columns(item->dtype, n_cols)};
  ts_hdf5_lock();
  hid_t set = H5Dopen2(r->file, item->name, H5P_DEFAULT);
  hid_t space = H5Dget_space(set);
  hid_t memory = H5Screate_simple(item->cols ? 2 : 1, count, NULL);
  if (H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) <
          0 ||
      H5Dread(set, ts_hdf5_type(item->dtype), memory, space, H5P_DEFAULT, to) <
          0)
    err = ts_fail(TS_ERR_CKPT,
                  "%s: dataset %s is damaged in its rows %lld "
                  "to %lld",
                  r->path, item->name, (long long)row0,
                  (long long)(row0 + n_rows));
  H5Sclose(memory);
  H5Sclose(space);
  H5Dclose(set);
  ts_hdf5_unlock();
  return err;
}

/* N elements of the file's type to the item's. */
static void convert(void *to, ts_dtype to_type, const void *from,
                    ts_dtype from_type, int64_t n) {
  float wide[256];
  const size_t in = ts_dtype_bytes(from_type), out = ts_dtype_bytes(to_type);
  for (int64_t i = 0; i < n; i += 256) {
    const int64_t here = n - i < 256 ? n - i : 256;
    ts_to_f32(wide, (const char *)from + (size_t)i * in, from_type, here);
    ts_from_f32((char *)to + (size_t)i * out, wide, to_type, here);
  }
}

static bool is_converted_by_rows(const ts_stored *s, const ts_ckpt_item *item) {
  return s->dtype != item->dtype &&
         (ts_dtype_has_scale(s->dtype) || ts_dtype_has_scale(item->dtype));
}

/* Bytes [from, to) of the dataset, whole blocks verified, into a piece. */
static ts_err read_piece(const ts_ckpt_reader *r, const ts_stored *s,
                         const ts_ckpt_item *item, const ts_ckpt_piece *p) {
  const int64_t size = (int64_t)ts_dtype_bytes(s->dtype);
  const int64_t row = ts_row_bytes(s->dtype, item->cols ? item->cols : 1);
  const int64_t from = p->row0 * row, to = from + p->n_rows * row;
  if (from == to) return TS_OK;
  if (s->at < 0)
    return read_chunked(r, item, p->row0, p->n_rows, 0, item->cols, p->ptr);
  for (int64_t b = from / TS_BLOCK_BYTES; b * TS_BLOCK_BYTES < to; b++) {
    const int64_t start = b * TS_BLOCK_BYTES;
    const int64_t a = start < from ? from : start;
    const int64_t z = start + TS_BLOCK_BYTES < to ? start + TS_BLOCK_BYTES : to;
    TS_DO(ts_stored_block(s, r->fd, r->path, item->name, b, r->block));
    const char *here = r->block + (a - start);
    if (s->dtype == item->dtype)
      memcpy((char *)p->ptr + (a - from), here, (size_t)(z - a));
    else
      convert((char *)p->ptr +
                  (a - from) / size * (int64_t)ts_dtype_bytes(item->dtype),
              item->dtype, here, s->dtype, (z - a) / size);
  }
  return TS_OK;
}

/* Columns of rows [row0, ...) out of bytes [a, z) of the dataset, which lie at
 * DATA; COL holds the file's type. */
static void take_columns(char *col, const ts_stored *s,
                         const ts_ckpt_columns *c, const char *data, int64_t a,
                         int64_t z) {
  const int64_t size = (int64_t)ts_dtype_bytes(s->dtype);
  const int64_t row = size * s->cols, width = size * c->n_cols;
  for (int64_t r = a / row; r * row < z; r++) {
    int64_t from = r * row + c->col0 * size, to = from + width;
    const int64_t start = from;
    if (from < a) from = a;
    if (to > z) to = z;
    if (r < c->row0 || r >= c->row0 + c->n_rows || from >= to) continue;
    memcpy(col + (r - c->row0) * width + (from - start), data + (from - a),
           (size_t)(to - from));
  }
}

/* Whole blocks are read and verified, columns are taken out of them. */
static ts_err read_columns(const ts_ckpt_reader *r, const ts_stored *s,
                           const ts_ckpt_item *item, const ts_ckpt_columns *c) {
  ts_err err = TS_OK;
  const int64_t row = (int64_t)ts_dtype_bytes(s->dtype) * s->cols;
  const int64_t total = row * s->rows, n = c->n_rows * c->n_cols;
  const int64_t from = c->row0 * row, to = from + c->n_rows * row;
  char *wide = NULL, *col = c->ptr;
  if (s->dtype != item->dtype) {
    TS_TRY(ts_mem_array(&wide, n, ts_dtype_bytes(s->dtype), TS_TAG_CHECKPOINT));
    col = wide;
  }
  for (int64_t b = from / TS_BLOCK_BYTES; b * TS_BLOCK_BYTES < to; b++) {
    const int64_t a = b * TS_BLOCK_BYTES;
    const int64_t z = total - a < TS_BLOCK_BYTES ? total : a + TS_BLOCK_BYTES;
    TS_TRY(ts_stored_block(s, r->fd, r->path, item->name, b, r->block));
    take_columns(col, s, c, r->block, a, z);
  }
  if (wide) convert(c->ptr, item->dtype, wide, s->dtype, n);
done:
  ts_mem_free(wide);
  return err;
}

static ts_err read_part(const ts_ckpt_reader *, const ts_stored *,
                        const ts_ckpt_item *, const ts_ckpt_columns *,
                        bool whole);

/* N rows WIDE to row AT of C on. */
static void put_rows(const ts_ckpt_item *item, const ts_ckpt_columns *c,
                     bool whole, int64_t at, int64_t n, const float *wide) {
  const int32_t cols = (int32_t)item->cols;
  char *to = (char *)c->ptr + at * (whole ? ts_item_row_bytes(item)
                                          : ts_columns_row_bytes(item, c));
  if (whole) ts_rows_from_f32(to, wide, item->dtype, n, cols);
  for (int64_t i = 0; !whole && i < n; i++)
    ts_from_f32(to + i * ts_columns_row_bytes(item, c),
                wide + i * cols + c->col0, item->dtype, c->n_cols);
}

/* To and from rows in few bits: whole rows, some at a time, by way of f32. */
static ts_err read_by_rows(const ts_ckpt_reader *r, const ts_stored *s,
                           const ts_ckpt_item *item, const ts_ckpt_columns *c,
                           bool whole) {
  ts_err err = TS_OK;
  char *rows = NULL;
  float *wide = NULL;
  ts_ckpt_item as = *item;
  as.dtype = s->dtype;
  const int64_t fit = TS_BITE_BYTES / (4 * item->cols);
  const int64_t some = fit < 1 || c->n_rows < 1 ? 1
                       : fit < c->n_rows        ? fit
                                                : c->n_rows;
  TS_TRY(ts_mem_alloc(&rows, (size_t)(some * ts_item_row_bytes(&as)),
                      TS_TAG_CHECKPOINT));
  TS_TRY(ts_mem_many(wide, some * item->cols, CHECKPOINT));
  for (int64_t at = 0; at < c->n_rows; at += some) {
    const int64_t n = c->n_rows - at < some ? c->n_rows - at : some;
    const ts_ckpt_columns part = {.row0 = c->row0 + at,
                                  .n_rows = n,
                                  .n_cols = (int32_t)item->cols,
                                  .ptr = rows};
    TS_TRY(read_part(r, s, &as, &part, true));
    ts_rows_to_f32(wide, rows, s->dtype, n, (int32_t)item->cols);
    put_rows(item, c, whole, at, n, wide);
  }
done:
  ts_mem_free_all(rows, wide);
  return err;
}

/* A part of whole rows, or of some columns. */
static ts_err read_part(const ts_ckpt_reader *r, const ts_stored *s,
                        const ts_ckpt_item *item, const ts_ckpt_columns *c,
                        bool whole) {
  const ts_ckpt_piece piece = {
      .row0 = c->row0, .n_rows = c->n_rows, .ptr = c->ptr};
  if (is_converted_by_rows(s, item)) return read_by_rows(r, s, item, c, whole);
  if (whole) return read_piece(r, s, item, &piece);
  if (s->at < 0)
    return read_chunked(r, item, c->row0, c->n_rows, c->col0, c->n_cols,
                        c->ptr);
  return read_columns(r, s, item, c);
}

/* The same into memory that the host may not touch: some rows at a time. */
static ts_err read_apart(const ts_ckpt_reader *r, const ts_stored *s,
                         const ts_ckpt_item *item, const ts_ckpt_columns *c,
                         bool whole) {
  ts_err err = TS_OK;
  const int64_t row = whole ? ts_item_row_bytes(item)
                            : (int64_t)ts_dtype_bytes(item->dtype) * c->n_cols;
  const int64_t fit = TS_BITE_BYTES / ts_item_row_bytes(item);
  const int64_t some = fit > 0 ? fit : 1;
  ts_ckpt_columns part = *c;
  part.ptr = NULL;
  TS_TRY(ts_mem_alloc(&part.ptr, (size_t)(some * row), TS_TAG_CHECKPOINT));
  for (int64_t at = 0; at < c->n_rows; at += some) {
    part.row0 = c->row0 + at;
    part.n_rows = c->n_rows - at < some ? c->n_rows - at : some;
    TS_TRY(read_part(r, s, item, &part, whole));
    TS_TRY(ts_staging_put(r->staging, (char *)c->ptr + at * row, part.ptr,
                          (size_t)(part.n_rows * row)));
  }
done:
  ts_mem_free(part.ptr);
  return err;
}

ts_err ts_ckpt_read_part(const ts_ckpt_reader *r, const ts_stored *s,
                         const ts_ckpt_item *item, const ts_ckpt_columns *c,
                         bool whole) {
  return ts_staging_is_remote(r->staging, c->ptr)
             ? read_apart(r, s, item, c, whole)
             : read_part(r, s, item, c, whole);
}
