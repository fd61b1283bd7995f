/* checkpoint_export.c - a checkpoint as files of tensors: each dataset goes
 * from file to file, block by block, whatever wrote it. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"
#include "io/out_folder.h"
#include "io/tensors.h"
#include "io/tensors_write.h"

typedef struct ts_exporter {
  const ts_ckpt_export *asked;
  ts_ckpt_reader reader;
  ts_staging staging; /* none: all is the host's */
  ts_stored stored;   /* of the tensor that is being read */
  ts_overlays over;   /* of the same */
  ts_tensors_out model, state;
  bool has_means;
  ts_err err; /* of what looks at the datasets */
} ts_exporter;

/* ---- what there is ------------------------------------------------------- */

/* Files of tensors have no rows in few bits: f32. */
static ts_err add(ts_exporter *x, const char *set, bool weights) {
  ts_err err = TS_OK;
  ts_str name = {0};
  ts_stored s;
  TS_TRY(ts_ckpt_open_set(&s, &x->reader, set));
  TS_TRY(ts_ckpt_tensor_name(&name, set));
  TS_TRY(ts_tensors_out_add(
      weights ? &x->model : &x->state,
      &(ts_tensor_out){.name = name.text,
                       .source = (char *)set,
                       .dtype = ts_dtype_has_scale(s.dtype) ? TS_F32 : s.dtype,
                       .rows = s.rows,
                       .cols = s.cols}));
done:
  ts_stored_reset(&s);
  ts_str_reset(&name);
  return err;
}

static herr_t look_at(hid_t file, const char *set, const H5O_info_t *info,
                      void *arg) {
  ts_exporter *x = arg;
  const bool dynamic = !strncmp(set, "dynamic/", 8);
  const bool ids = dynamic && ts_str_ends(set, "/ids");
  const bool weights = !strncmp(set, "model/", 6) || ids;
  const bool state =
      (dynamic && !ids) || !strncmp(set, "ema/", 4) ||
      (!strncmp(set, "optim/", 6) && strcmp(set, "optim/step") != 0);
  (void)file;
  if (info->type != H5O_TYPE_DATASET || !(weights || state)) return 0;
  x->has_means |=
      state && !dynamic && (*set == 'e' || ts_str_ends(set, "/ema"));
  x->err = add(x, set, weights);
  return x->err == TS_OK ? 0 : -1;
}

static ts_err list(ts_exporter *x) {
  ts_hdf5_lock();
  const herr_t rc =
      H5Ovisit(x->reader.file, H5_INDEX_NAME, H5_ITER_NATIVE, look_at, x);
  ts_hdf5_unlock();
  if (x->err != TS_OK) return x->err;
  if (rc < 0) return ts_fail(TS_ERR_CKPT, "%s: is damaged", x->reader.path);
  return TS_OK;
}

/* ---- names --------------------------------------------------------------- */

static bool matches(const ts_tensors_out *o, const char *pattern) {
  for (int32_t i = 0; i < o->n; i++)
    if (fnmatch(pattern, o->item[i].name, 0) == 0) return true;
  return false;
}

static ts_err check_names(const ts_exporter *x) {
  const ts_ckpt_export *e = x->asked;
  const ts_tensors_out *o = &x->model;
  for (const char *const *p = e->names; p && *p; p++)
    if (!matches(o, *p))
      return ts_fail(TS_ERR_USAGE,
                     "--names torchrec: %s has no %s, which TorchRec's %s has: "
                     "--names own takes any model",
                     x->reader.path, *p, e->whose);
  for (int32_t i = 0; e->names && i < o->n; i++) {
    const char *const *p = e->names;
    while (*p && fnmatch(*p, o->item[i].name, 0) != 0) p++;
    if (!*p)
      return ts_fail(TS_ERR_USAGE,
                     "--names torchrec: %s has %s, which TorchRec's %s has "
                     "not: --names own takes any model",
                     x->reader.path, o->item[i].name, e->whose);
  }
  return TS_OK;
}

/* ---- rows ---------------------------------------------------------------- */

/* Rows of dataset SET, which is S, to TO as DTYPE; OVER: where its overlays are
 * open, or NULL. */
static ts_err read_set(const ts_exporter *x, const ts_stored *s,
                       ts_overlays *over, const char *set, ts_dtype dtype,
                       int64_t row0, int64_t n_rows, void *to) {
  ts_ckpt_piece piece = {.row0 = row0, .n_rows = n_rows, .ptr = to};
  const ts_ckpt_item item = {.name = (char *)set,
                             .dtype = dtype,
                             .rows = s->rows,
                             .cols = s->cols,
                             .read = &piece,
                             .n_read = 1};
  if (row0 + n_rows > s->rows)
    return ts_fail(TS_ERR_CKPT, "%s: %s has too few rows", x->reader.path, set);
  const ts_ckpt_columns rows = {.row0 = row0, .n_rows = n_rows, .ptr = to};
  return over ? ts_ckpt_read_over(&x->reader, over, s, &item, &rows, true)
              : ts_ckpt_read_rows(&x->reader, s, &item);
}

/* The same of HEAD, the name, TAIL, opened for it; not where there is none. */
static ts_err read_beside(const ts_exporter *x, const ts_tensor_out *t,
                          const char *head, const char *tail, int64_t cols,
                          int64_t row0, int64_t n_rows, float *to) {
  ts_err err = TS_OK;
  ts_str set = {0};
  ts_stored s = {.at = -1};
  TS_TRY(ts_str_append(&set, "%s%s%s", head, t->name, tail));
  ts_hdf5_lock();
  const bool found = ts_stored_exists(x->reader.file, set.text);
  ts_hdf5_unlock();
  if (!found) goto done;
  TS_TRY(ts_ckpt_open_set(&s, &x->reader, set.text));
  if (s.cols != cols)
    TS_THROW(TS_ERR_CKPT, "%s: %s is of another shape than its weights",
             x->reader.path, set.text);
  TS_TRY(read_set(x, &s, NULL, set.text, TS_F32, row0, n_rows, to));
done:
  ts_stored_reset(&s);
  ts_str_reset(&set);
  return err;
}

/* Means of dense parameters are kept as they are; rows' have to be brought to
 * the checkpoint's step. */
static ts_err read_means(ts_exporter *x, const ts_tensor_out *t, int64_t row0,
                         int64_t n_rows, void *to) {
  ts_err err = TS_OK;
  const ts_ckpt_export *e = x->asked;
  const int64_t dim = t->cols ? t->cols : 1;
  float *w = NULL, *mean = NULL, *pass = NULL;
  TS_TRY(ts_mem_many(w, n_rows * dim, CHECKPOINT));
  TS_TRY(ts_mem_many(mean, n_rows * dim, CHECKPOINT));
  TS_TRY(ts_mem_many(pass, n_rows, CHECKPOINT));
  TS_TRY(read_set(x, &x->stored, &x->over, t->source, TS_F32, row0, n_rows, w));
  TS_TRY(read_beside(x, t, "ema/", "", t->cols, row0, n_rows, w));
  TS_TRY(read_beside(x, t, "optim/", "/ema", t->cols, row0, n_rows, mean));
  TS_TRY(read_beside(x, t, "optim/", "/ema_pass", 0, row0, n_rows, pass));
  for (int64_t i = 0; i < n_rows; i++)
    e->average(e->arg, w + i * dim, mean + i * dim, pass[i], dim,
               x->model.step);
  ts_from_f32(to, w, t->dtype, n_rows * dim);
done:
  ts_mem_free_all(w, mean, pass);
  return err;
}

static ts_err read_rows(void *arg, const ts_tensor_out *t, int64_t row0,
                        int64_t n_rows, void *to) {
  ts_exporter *x = arg;
  if (row0 == 0) {
    const ts_ckpt_item item = {.name = t->source};
    ts_stored_reset(&x->stored);
    ts_overlays_close(&x->over);
    TS_DO(ts_ckpt_open_set(&x->stored, &x->reader, t->source));
    TS_DO(ts_overlays_open(&x->over, &x->reader, &x->stored, &item));
  }
  if (x->asked->average && !strncmp(t->source, "model/", 6))
    return read_means(x, t, row0, n_rows, to);
  return read_set(x, &x->stored, &x->over, t->source, t->dtype, row0, n_rows,
                  to);
}

/* model or state, .safetensors, -00001-of-00002.safetensors or the index's. */
static bool is_tensors(const char *name) {
  int from, n, end = 0;
  if (strncmp(name, "model", 5) != 0 && strncmp(name, "state", 5) != 0)
    return false;
  name += 5;
  if (!strcmp(name, ".safetensors") || !strcmp(name, TS_TENSORS_INDEX))
    return true;
  return sscanf(name, "-%d-of-%d.safetensors%n", &from, &n, &end) == 2 && end &&
         !name[end];
}

static ts_err write_all(ts_exporter *x) {
  const ts_ckpt_export *e = x->asked;
  ts_err err = TS_OK;
  ts_str part = {0};
  int32_t n_files = 0, n_state = 0;
  int lock = -1;
  TS_TRY(ts_out_folder(&part, &lock, e->out, is_tensors));
  TS_TRY(
      ts_tensors_write(part.text, "model", &x->model, e->max_file, &n_files));
  if (e->state)
    TS_TRY(
        ts_tensors_write(part.text, "state", &x->state, e->max_file, &n_state));
done:
  TS_DO(ts_out_folder_settle(&part, &lock, e->out, is_tensors, err));
  ts_info("%s: %d tensors of %s of step %lld in %d file%s%s, out of %s", e->out,
          x->model.n, e->average ? "means of weights" : "weights",
          (long long)x->model.step, n_files, n_files > 1 ? "s" : "",
          e->state ? ", and optimizers' state" : "", x->reader.path);
  if (x->has_means && !e->average)
    ts_note("eval and predict go by running means (optimizer.ema), and these "
            "are the weights: --averages writes means in their place");
  return TS_OK;
}

/* In another format, which has one type of weights. */
static ts_err hand_over(ts_exporter *x, const char *path) {
  ts_err err = TS_OK;
  const ts_ckpt_export *e = x->asked;
  ts_ckpt head = {0};
  TS_TRY(ts_ckpt_peek(&head, path));
  for (int32_t i = 0; i < x->model.n; i++) /* but ids */
    if (x->model.item[i].dtype != TS_I64) x->model.item[i].dtype = TS_F32;
  TS_TRY(e->write(e->write_arg, e->out, &x->model, &head));
done:
  ts_ckpt_reset(&head);
  return err;
}

ts_err ts_ckpt_export_to(const ts_ckpt_export *e, const char *path) {
  ts_err err = TS_OK;
  ts_exporter x = {.asked = e, .stored = {.at = -1}};
  x.model.read = x.state.read = read_rows;
  x.model.arg = x.state.arg = &x;
  TS_TRY(ts_ckpt_reader_open(&x.reader, path, true, &x.model.step));
  x.reader.staging = &x.staging;
  x.state.step = x.model.step;
  TS_TRY(list(&x));
  TS_TRY(check_names(&x));
  if (e->average && !x.has_means && !e->write)
    TS_THROW(TS_ERR_CKPT, "--averages: %s has no running means", path);
  TS_TRY(e->write ? hand_over(&x, path) : write_all(&x));
done:
  ts_stored_reset(&x.stored);
  ts_overlays_close(&x.over);
  ts_tensors_out_reset(&x.model);
  ts_tensors_out_reset(&x.state);
  ts_ckpt_reader_close(&x.reader);
  return err;
}
