/* sheet_csv.c - rows as CSV: each rank makes the text of its own, rank 0 writes
 * them one after the other. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/csv_fields.h"
#include "io/sheet_impl.h"

/* ---- text ---------------------------------------------------------------- */

static ts_err add_cell(ts_str *s, const ts_sheet_column *c, const char *data) {
  char text[64];
  int64_t i;
  double d;
  float x;
  switch (c->kind) {
  case TS_SHEET_TEXT:
    return ts_csv_add(s, data, strnlen(data, (size_t)c->width));
  case TS_SHEET_I64:
    memcpy(&i, data, sizeof i);
    snprintf(text, sizeof text, "%lld", (long long)i);
    break;
  case TS_SHEET_F64:
    memcpy(&d, data, sizeof d);
    snprintf(text, sizeof text, "%.17g", d);
    break;
  default:
    memcpy(&x, data, sizeof x);
    snprintf(text, sizeof text, "%.*g", c->digits ? c->digits : 6, (double)x);
  }
  return ts_str_append_bytes(s, text, strlen(text));
}

static ts_err add_row(ts_sheet *f, int64_t i, const void *const *data) {
  bool more = false;
  for (int32_t k = 0; k < f->n_columns; k++) {
    const ts_sheet_column *c = &f->columns[k];
    const size_t bytes = ts_cell_bytes(c);
    const char *row = (const char *)data[k] + (size_t)i * bytes * c->n_cells;
    for (int32_t j = 0; !c->hdf5_only && j < c->n_cells; j++, more = true) {
      if (more) TS_DO(ts_str_append_bytes(&f->text, ",", 1));
      TS_DO(add_cell(&f->text, c, row + j * bytes));
    }
  }
  return ts_str_append_bytes(&f->text, "\n", 1);
}

void ts_sheet_cell_name(char name[512], const ts_sheet_column *c, int32_t j) {
  char number[16] = "";
  if (c->n_cells > 1) snprintf(number, sizeof number, "%d", j);
  snprintf(name, 512, "%.240s%.240s", c->head ? c->head : c->name,
           c->heads ? c->heads[j] : number);
}

static ts_err add_header(ts_sheet *f) {
  bool more = false;
  for (int32_t k = 0; k < f->n_columns; k++) {
    const ts_sheet_column *c = &f->columns[k];
    for (int32_t j = 0; !c->hdf5_only && j < c->n_cells; j++, more = true) {
      char name[512];
      ts_sheet_cell_name(name, c, j);
      if (more) TS_DO(ts_str_append_bytes(&f->text, ",", 1));
      TS_DO(ts_csv_add(&f->text, name, strlen(name)));
    }
  }
  return ts_str_append_bytes(&f->text, "\n", 1);
}

/* ---- the file, of rank 0 ------------------------------------------------- */

static ts_err put(ts_sheet *f, const char *text, int64_t n) {
  if (f->piped) {
    if (fwrite(text, 1, (size_t)n, stdout) == (size_t)n) return TS_OK;
    return ts_fail(TS_ERR_IO,
                   "stdout can't be written: the output is incomplete");
  }
  if (!f->gz) {
    f->end += n;
    return ts_pwrite(f->fd, text, n, f->end - n, f->path, TS_ERR_IO);
  }
  for (const int64_t bite = 1 << 24; n > 0; n -= bite, text += bite) {
    const unsigned here = (unsigned)(n < bite ? n : bite);
    if (gzwrite(f->gz, text, here) != (int)here)
      return ts_fail_errno(TS_ERR_IO, f->path);
  }
  return TS_OK;
}

ts_err ts_sheet_csv_create(ts_sheet *f) {
  if (!f->piped) {
    unlink(f->temp); /* of one that was killed, or planted */
    f->fd = ts_file_open(f->temp, O_RDWR | O_CREAT | O_EXCL);
    if (f->fd < 0) return ts_fail(TS_ERR_IO, "%s: %s", f->temp, ts_file_why());
  }
  if (ts_str_ends(f->path, ".gz")) {
    const int own = dup(f->fd); /* which gzclose closes */
    f->gz = own >= 0 ? gzdopen(own, "wb") : NULL;
    if (!f->gz && own >= 0) close(own);
    if (!f->gz) return ts_fail_errno(TS_ERR_IO, f->temp);
  }
  TS_DO(add_header(f));
  return put(f, f->text.text, (int64_t)f->text.n_bytes);
}

ts_err ts_sheet_csv_close(ts_sheet *f) {
  const int lost = f->gz ? gzclose(f->gz) : 0;
  f->gz = NULL;
  if (lost) return ts_fail_errno(TS_ERR_IO, f->path);
  if (f->piped && ts_file_flush(stdout) != 0)
    return ts_fail(TS_ERR_IO,
                   "stdout can't be written: the output is incomplete");
  return TS_OK;
}

/* ---- all ranks ----------------------------------------------------------- */

static ts_err make_text(ts_sheet *f, int64_t n, const void *const *data) {
  f->text.n_bytes = 0;
  for (int64_t i = 0; i < n; i++) TS_DO(add_row(f, i, data));
  return TS_OK;
}

/* Texts of all ranks to rank 0, BYTES[r] from rank r. */
static ts_err gather(ts_sheet *f, const int64_t *bytes) {
  const int w = ts_comm_size(f->comm);
  int64_t to[w], from[w], total = 0;
  ts_token token;
  for (int r = 0; r < w; r++) {
    total += bytes[r];
    to[r] = r == 0 ? bytes[ts_comm_rank(f->comm)] : 0;
    from[r] = f->first ? bytes[r] : 0;
  }
  TS_DO(ts_agree(f->comm,
                 ts_mem_reserve(&f->all, &f->all_bytes,
                                f->first ? (size_t)total : 0, TS_TAG_MISC)));
  TS_DO(ts_comm_all_to_all_v(f->comm, &token, f->all, from, f->text.text, to,
                             NULL));
  TS_DO(ts_comm_wait(&token));
  return ts_agree(f->comm, f->first ? put(f, f->all, total) : TS_OK);
}

ts_err ts_sheet_csv_write(ts_sheet *f, int64_t n, const void *const *data) {
  int64_t bytes[ts_comm_size(f->comm)];
  TS_DO(ts_agree(f->comm, make_text(f, n, data)));
  const int64_t own = (int64_t)f->text.n_bytes;
  TS_DO(ts_comm_gather_all(f->comm, bytes, &own, sizeof own));
  return gather(f, bytes);
}
