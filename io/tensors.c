/* tensors.c - what files of tensors have in common; which tensor is whose. */
#include "io/tensors.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/npy_header.h"

bool ts_path_is_array(const char *path) {
  return ts_path_is_safetensors(path) || ts_str_ends(path, ".npy");
}

ts_err ts_tensors_open(ts_tensors **out, const char *path) {
  ts_err err = TS_OK;
  ts_tensors *f = NULL;
  struct stat s;
  *out = NULL;
  TS_TRY(ts_mem_alloc(&f, sizeof *f, TS_TAG_CHECKPOINT));
  f->fd = -1;
  TS_TRY(ts_mem_strdup(&f->path, path));
  if (stat(path, &s) == 0 && !S_ISREG(s.st_mode))
    TS_THROW(TS_ERR_CKPT, "%s: is not a file", path);
  f->fd = ts_file_open(path, O_RDONLY);
  if (f->fd < 0 || fstat(f->fd, &s) != 0)
    TS_TRY(ts_fail_errno(TS_ERR_CKPT, path));
  f->size = s.st_size;
  f->step = -1;
  TS_TRY(ts_str_ends(path, TS_TENSORS_INDEX) ? ts_tensors_read_index(f)
         : ts_path_is_safetensors(path)      ? ts_safetensors_read(f)
                                             : ts_npy_read(f));
  for (int32_t i = 0; i < f->n; i++)
    if (!f->item[i].of) f->item[i].of = f;
  *out = f;
  f = NULL;
done:
  ts_tensors_close(f);
  return err;
}

void ts_tensors_close(ts_tensors *f) {
  if (!f) return;
  if (f->fd >= 0) close(f->fd);
  for (int32_t i = 0; i < f->n; i++) ts_mem_free(f->item[i].name);
  for (int32_t k = 0; k < f->n_parts; k++) ts_tensors_close(f->part[k]);
  ts_mem_free_all(f->part, f->item, f->path, f);
}

static const char *without_prefix(const char *name) {
  if (!strncmp(name, "model.", 6)) return name + 6;
  if (!strncmp(name, "module.", 7)) return name + 7;
  return name;
}

/* A free one whose name is BEFORE and NAME. */
static ts_tensor *find_free(const ts_tensors *f, const char *before,
                            const char *name) {
  const size_t n = strlen(before);
  for (int32_t i = 0; i < f->n; i++) {
    const char *has = without_prefix(f->item[i].name);
    if (!f->item[i].taken && !strncmp(has, before, n) && !strcmp(has + n, name))
      return &f->item[i];
  }
  return NULL;
}

ts_tensor *ts_tensors_find(const ts_tensors *f, const char *name, bool alike) {
  static const char *const before[] = {"embedding_bags.", "embeddings.", ""};
  for (int32_t i = 0; !alike && i < f->n; i++)
    if (!strcmp(f->item[i].name, name)) return &f->item[i];
  if (!alike) return NULL;
  ts_tensor *t = find_free(f, "", without_prefix(name));
  const char *bags = strstr(name, ".embedding_bags.");
  for (size_t k = 0; !t && bags && k < sizeof before / sizeof *before; k++)
    t = find_free(f, before[k], bags + strlen(".embedding_bags."));
  return t;
}

ts_err ts_tensors_rows(const ts_tensors *f, const ts_tensor **out) {
  char shape[256];
  const ts_tensor *t =
      f->n == 1 ? &f->item[0] : ts_tensors_find(f, "weight", false);
  if (!t)
    return ts_fail(TS_ERR_CKPT,
                   "%s: has %d tensors and none of the name weight: which are "
                   "the rows?",
                   f->path, f->n);
  if (t->n_dims != 2)
    return ts_fail(TS_ERR_CKPT, "%s: tensor %.200s is %s, and not (rows, dim)",
                   f->path, t->name, ts_tensor_shape(shape, t));
  *out = t;
  return ts_tensor_check(f, t);
}

ts_err ts_tensor_check(const ts_tensors *f, const ts_tensor *t) {
  if (t->dtype != TS_DTYPE_COUNT) return TS_OK;
  return ts_fail(TS_ERR_CKPT,
                 "%s: tensor %.200s is of type %s: F32, F64, F16 and BF16 can "
                 "be read",
                 f->path, t->name, t->type);
}

const char *ts_tensor_shape(char buf[256], const ts_tensor *t) {
  return ts_npy_shape(buf, t->n_dims, t->dims);
}
