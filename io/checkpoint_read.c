/* checkpoint_read.c - loading: shapes, names, values; every rank reads the rows
 * that it needs (checkpoint_pieces.c). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/checkpoint_impl.h"

/* Elements of a value: texts and numbers of the run, no tables. */
enum { VALUES_MAX = 1 << 28 };

/* ---- items -----------------------------------------------------------------
 */

void ts_shape_text(char buf[64], int64_t rows, int64_t cols) {
  if (cols)
    snprintf(buf, 64, "(%lld, %lld)", (long long)rows, (long long)cols);
  else
    snprintf(buf, 64, "(%lld)", (long long)rows);
}

static ts_err check_shape(const ts_ckpt_reader *r, const ts_stored *s,
                          const ts_ckpt_item *item) {
  char here[64], there[64];
  ts_shape_text(here, item->rows, item->cols);
  ts_shape_text(there, s->rows, s->cols);
  if ((!item->from && s->rows != item->rows) || s->cols != item->cols)
    return ts_fail(TS_ERR_CKPT, "%s: %s is %s in the file and %s in the deck",
                   r->path, item->name, there, here);
  if (s->dtype != item->dtype &&
      (!ts_dtype_is_number(s->dtype) || !ts_dtype_is_number(item->dtype)))
    return ts_fail(TS_ERR_CKPT, "%s: %s is %s in the file and %s here", r->path,
                   item->name, ts_dtype_name(s->dtype),
                   ts_dtype_name(item->dtype));
  return TS_OK;
}

/* Of N rows from ROW0 on those that the file has. */
static int64_t there_of(const ts_stored *s, const ts_ckpt_item *item,
                        int64_t row0, int64_t n) {
  if (item->from || row0 + n <= s->rows) return n;
  return row0 < s->rows ? s->rows - row0 : 0;
}

static ts_err read_rows(const ts_ckpt_reader *r, ts_overlays *over,
                        const ts_stored *s, const ts_ckpt_item *item) {
  for (int32_t k = 0; k < item->n_read; k++) {
    const ts_ckpt_piece *p = &item->read[k];
    const ts_ckpt_columns rows = {.row0 = p->row0,
                                  .n_rows =
                                      there_of(s, item, p->row0, p->n_rows),
                                  .ptr = p->ptr};
    TS_DO(ts_ckpt_read_over(r, over, s, item, &rows, true));
  }
  for (int32_t k = 0; k < item->n_columns; k++) {
    ts_ckpt_columns c = item->columns[k];
    c.n_rows = there_of(s, item, c.row0, c.n_rows);
    if (c.ptr && c.n_rows)
      TS_DO(ts_ckpt_read_over(r, over, s, item, &c, false));
  }
  return TS_OK;
}

ts_err ts_ckpt_read_rows(const ts_ckpt_reader *r, const ts_stored *s,
                         const ts_ckpt_item *item) {
  ts_overlays over = {0};
  ts_err err = ts_overlays_open(&over, r, s, item);
  if (err == TS_OK) err = read_rows(r, &over, s, item);
  ts_overlays_close(&over);
  return err;
}

static ts_err read_item(const ts_ckpt_reader *r, ts_ckpt_item *item) {
  ts_err err = TS_OK;
  ts_stored s;
  TS_TRY(ts_ckpt_open_set(&s, r, item->name));
  TS_TRY(check_shape(r, &s, item));
  item->converted = s.dtype != item->dtype;
  TS_TRY(ts_ckpt_read_rows(r, &s, item));
done:
  ts_stored_reset(&s);
  return err;
}

/* ---- names --------------------------------------------------------------- */

typedef struct ts_names {
  const ts_ckpt *c;
  bool optim; /* C wants optimizer state: then all of it has to be known */
  char unknown[512];
} ts_names;

static herr_t look_at(hid_t group, const char *name, const H5O_info_t *info,
                      void *arg) {
  ts_names *n = arg;
  (void)group;
  if (info->type != H5O_TYPE_DATASET ||
      (strncmp(name, "model/", 6) != 0 && strncmp(name, "optim/", 6) != 0) ||
      !strcmp(name, "optim/step") || (!n->optim && !strncmp(name, "optim/", 6)))
    return 0;
  for (int32_t i = 0; i < n->c->n_items; i++)
    if (!strcmp(n->c->items[i].name, name)) return 0;
  snprintf(n->unknown, sizeof n->unknown, "%s", name);
  return 1;
}

/* Names of the file that the deck does not have. */
static ts_err check_names(const ts_ckpt_reader *r, const ts_ckpt *c,
                          bool subset) {
  ts_names names = {.c = c};
  for (int32_t i = 0; i < c->n_items; i++)
    names.optim |=
        !c->items[i].optional && !strncmp(c->items[i].name, "optim/", 6);
  ts_hdf5_lock();
  const herr_t rc =
      H5Ovisit(r->file, H5_INDEX_NAME, H5_ITER_NATIVE, look_at, &names);
  ts_hdf5_unlock();
  if (rc < 0) return ts_fail(TS_ERR_CKPT, "%s: is damaged", r->path);
  if (rc == 0 || (subset && !strncmp(names.unknown, "optim/", 6))) return TS_OK;
  return ts_fail(TS_ERR_CKPT,
                 "%s: holds %s, which the deck's model does not "
                 "have",
                 r->path, names.unknown);
}

/* ---- a file that holds nothing of the model ------------------------------ */

/* Names that a message lists of each side. */
enum { NAMES_MAX = 6 };

ts_err ts_listing_add(ts_listing *l, const char *name) {
  if (l->n++ > NAMES_MAX) return TS_OK;
  return ts_str_append(&l->text, "%s%.200s", l->n > 1 ? ", " : "",
                       l->n > NAMES_MAX ? "..." : name);
}

static herr_t list_set(hid_t group, const char *name, const H5O_info_t *info,
                       void *arg) {
  (void)group;
  if (info->type != H5O_TYPE_DATASET) return 0;
  return ts_listing_add(arg, name) == TS_OK ? 0 : -1;
}

ts_err ts_ckpt_refuse_strange(const char *path, const ts_listing *has,
                              const ts_ckpt *c) {
  ts_err err = TS_OK;
  ts_listing wants = {0};
  for (int32_t i = 0; i < c->n_items; i++)
    TS_TRY(ts_listing_add(&wants, c->items[i].name));
  TS_THROW(TS_ERR_CKPT,
           "%s: holds nothing of the deck's model: it has %s; the model wants "
           "%s",
           path, has->n ? has->text.text : "no datasets", wants.text.text);
done:
  ts_str_reset(&wants.text);
  return err;
}

/* Weights of other names would be left out without a word. */
static ts_err refuse_strange(const ts_ckpt_reader *r, const ts_ckpt *c) {
  ts_listing has = {0};
  ts_hdf5_lock();
  (void)H5Ovisit(r->file, H5_INDEX_NAME, H5_ITER_NATIVE, list_set, &has);
  ts_hdf5_unlock();
  const ts_err err = ts_ckpt_refuse_strange(r->path, &has, c);
  ts_str_reset(&has.text);
  return err;
}

/* ---- values -------------------------------------------------------------- */

typedef struct ts_taking {
  ts_ckpt *c;
  const char *path;
} ts_taking;

/* Adds the value of dataset NAME; a set that is not a list of a known type is
 * left out. */
static herr_t add_value(ts_ckpt *c, hid_t set, const char *name) {
  void *data = NULL;
  ts_dtype dtype;
  herr_t rc = 0;
  hid_t space = H5Dget_space(set), type = H5Dget_type(set);
  const int64_t n = (int64_t)H5Sget_simple_extent_npoints(space);
  if (H5Sget_simple_extent_ndims(space) == 1 && n >= 0 && n < VALUES_MAX &&
      ts_stored_dtype(type, &dtype)) {
    const size_t size = ts_dtype_bytes(dtype);
    if (ts_mem_array(&data, n, size, TS_TAG_CHECKPOINT) != TS_OK ||
        (n && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) ||
        ts_ckpt_add_value(c, name, dtype, n, data) != TS_OK)
      rc = -1;
  }
  ts_mem_free(data);
  if (type >= 0) H5Tclose(type);
  if (space >= 0) H5Sclose(space);
  return rc;
}

static herr_t take_value(hid_t file, const char *name, const H5O_info_t *info,
                         void *arg) {
  const ts_taking *w = arg;
  if (info->type != H5O_TYPE_DATASET) return 0;
  const bool wanted =
      !strncmp(name, "meta/", 5) || !strncmp(name, "loader/", 7) ||
      !strncmp(name, "metrics/", 8) || !strcmp(name, "optim/step");
  if (!wanted || ts_ckpt_value_of(w->c, name)) return 0;
  hid_t set;
  if (ts_hdf5_open_set(&set, file, w->path, name, TS_ERR_CKPT) != TS_OK)
    return -1;
  const herr_t rc = add_value(w->c, set, name);
  H5Dclose(set);
  return rc;
}

static ts_err read_values(const ts_ckpt_reader *r, ts_ckpt *c) {
  ts_taking taking = {c, r->path};
  ts_hdf5_lock();
  const herr_t rc =
      H5Ovisit(r->file, H5_INDEX_NAME, H5_ITER_NATIVE, take_value, &taking);
  ts_hdf5_unlock();
  return rc < 0 ? ts_fail(TS_ERR_CKPT, "%s: is damaged", r->path) : TS_OK;
}

/* ---- whole files --------------------------------------------------------- */

static bool is_there(const ts_ckpt_reader *r, ts_ckpt_item *item) {
  ts_hdf5_lock();
  item->absent = !ts_stored_exists(r->file, item->name);
  ts_hdf5_unlock();
  return !item->absent;
}

static ts_err load_local(ts_ckpt *c, const char *path, bool subset,
                         ts_str *missing) {
  ts_err err = TS_OK;
  ts_ckpt_reader r;
  int32_t n_missing = 0, n_absent = 0;
  TS_TRY(ts_ckpt_reader_open(&r, path, !subset, &c->step));
  r.staging = &c->staging;
  TS_TRY(check_names(&r, c, subset));
  TS_TRY(read_values(&r, c));
  if (c->arrived) TS_TRY(c->arrived(c, path, c->arg));
  for (int32_t i = 0; i < c->n_items; i++) {
    const bool there = is_there(&r, &c->items[i]);
    n_absent += !there && c->items[i].optional;
    if (!there && c->items[i].optional) continue;
    if (!there && subset) {
      n_missing++;
      if (missing)
        TS_TRY(ts_str_append(missing, "%s%s", missing->n_bytes ? ", " : "",
                             c->items[i].name));
      continue;
    }
    TS_TRY(read_item(&r, &c->items[i]));
  }
  if (n_missing && n_missing + n_absent == c->n_items)
    TS_TRY(refuse_strange(&r, c));
done:
  ts_ckpt_reader_close(&r);
  return err;
}

ts_err ts_ckpt_load(ts_ckpt *c, const char *path, bool subset, ts_str *missing,
                    ts_comm *comm) {
  return ts_agree(comm, load_local(c, path, subset, missing));
}

/* PATH for the items of C: what it builds on where it has not all of them. */
static ts_err open_for(ts_ckpt_reader *r, ts_ckpt *c, const char *path,
                       bool need_complete) {
  char rows[1024];
  bool some = false;
  TS_DO(ts_ckpt_reader_open_one(r, path, need_complete));
  c->step = r->step;
  for (int32_t i = 0; r->kind != TS_CKPT_FULL && i < c->n_items; i++)
    some |= ts_ckpt_rows_name(rows, c->items[i].name);
  if (!some) return ts_mem_alloc(&r->block, TS_BLOCK_BYTES, TS_TAG_CHECKPOINT);
  ts_ckpt_reader_close(r);
  return ts_ckpt_reader_open(r, path, need_complete, &c->step);
}

/* Values alone, or items alone; of a checkpoint, or of ANY file of weights. */
static ts_err load_known(ts_ckpt *c, const char *path, bool values, bool any) {
  ts_err err = TS_OK;
  ts_ckpt_reader r;
  if (values) { /* the file has them all, whatever it builds on */
    err = ts_ckpt_reader_open_one(&r, path, !any);
    if (err == TS_OK) err = read_values(&r, c);
    c->step = r.step;
    c->kind = r.kind;
    c->parent = r.parent;
    goto done;
  }
  TS_TRY(open_for(&r, c, path, !any));
  r.staging = &c->staging;
  for (int32_t i = 0; i < c->n_items; i++)
    if (!c->items[i].optional || is_there(&r, &c->items[i]))
      TS_TRY(read_item(&r, &c->items[i]));
done:
  ts_ckpt_reader_close(&r);
  return err;
}

ts_err ts_ckpt_load_items(ts_ckpt *c, const char *path, ts_comm *comm) {
  return ts_agree(comm, load_known(c, path, false, false));
}

ts_err ts_ckpt_peek(ts_ckpt *c, const char *path) {
  return load_known(c, path, true, false);
}

ts_err ts_ckpt_peek_weights(ts_ckpt *c, const char *path) {
  return load_known(c, path, true, true);
}
