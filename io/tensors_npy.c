/* tensors_npy.c - the array of a .npy file as a tensor. */
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/npy_header.h"
#include "io/tensors.h"

static ts_err refuse(const ts_tensors *f, const char *why) {
  return ts_fail(TS_ERR_CKPT, "%s: is no .npy file that can be read: %s",
                 f->path, why);
}

static ts_err take_array(ts_tensors *f, const ts_npy *a) {
  static const char *const types[] = {"<f4", "<f8", "<f2"};
  static const ts_dtype dtypes[] = {TS_F32, TS_F64, TS_F16};
  ts_tensor *t = &f->item[0];
  char shape[256];
  t->n_dims = a->n_dims;
  memcpy(t->dims, a->dims, sizeof t->dims);
  t->dtype = TS_DTYPE_COUNT;
  for (int i = 0; i < 3; i++)
    if (!strcmp(a->type, types[i])) t->dtype = dtypes[i];
  if (t->dtype == TS_DTYPE_COUNT)
    return refuse(f, "its type is none of <f4, <f8 and <f2");
  if (a->fortran)
    return refuse(f, "its columns follow each other (fortran_order), not rows");
  if (a->n_bytes != f->size - a->at)
    return ts_fail(TS_ERR_CKPT,
                   "%s: %s elements of %d bytes don't fill the file's %lld "
                   "bytes of data: it is damaged, or its end missing",
                   f->path, ts_tensor_shape(shape, t),
                   (int)ts_dtype_bytes(t->dtype), (long long)(f->size - a->at));
  t->at = a->at;
  t->n_bytes = a->n_bytes;
  return TS_OK;
}

ts_err ts_npy_read(ts_tensors *f) {
  ts_err err = TS_OK;
  char *start = NULL;
  ts_npy a;
  const int64_t n =
      f->size < TS_NPY_HEADER_MAX ? f->size : (int64_t)TS_NPY_HEADER_MAX;
  TS_TRY(ts_mem_alloc(&start, (size_t)n + 1, TS_TAG_CHECKPOINT));
  TS_TRY(ts_pread(f->fd, start, n, 0, f->path, TS_ERR_CKPT));
  TS_TRY(ts_mem_many(f->item, 1, CHECKPOINT));
  TS_TRY(ts_mem_strdup(&f->item[0].name, ""));
  f->n = 1;
  const char *why = ts_npy_parse(&a, start, n, f->size);
  TS_TRY(why ? refuse(f, why) : take_array(f, &a));
done:
  ts_mem_free(start);
  return err;
}
