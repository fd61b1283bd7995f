/* tensors_index.c - an index says which file beside it has which tensor:
 * {"weight_map": {NAME: FILE}}; each file is opened and looked at as a whole.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/tensors.h"

ts_err ts_tensors_in(ts_str *path, const char *folder, const char *stem) {
  static const char *const ends[] = {".safetensors", TS_TENSORS_INDEX};
  for (int k = 0; k < 2; k++) {
    TS_DO(ts_str_append(path, "%s/%s%s", folder, stem, ends[k]));
    if (access(path->text, F_OK) == 0) return TS_OK;
    ts_str_reset(path);
  }
  return TS_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const ts_tensor *)a)->name, ((const ts_tensor *)b)->name);
}

/* *PART: the file NAME beside the index, opened once. */
static ts_err open_part(ts_tensors *f, const char *name, ts_tensors **part) {
  ts_err err = TS_OK;
  ts_str path = {0};
  const char *slash = strrchr(f->path, '/');
  const int n = slash ? (int)(slash + 1 - f->path) : 0;
  for (int32_t k = 0; k < f->n_parts; k++) {
    *part = f->part[k];
    if (!strcmp((*part)->path + n, name)) return TS_OK;
  }
  if (strchr(name, '/') || !ts_str_ends(name, ".safetensors"))
    return ts_fail(TS_ERR_CKPT,
                   "%s: %.200s is no file beside it whose name ends in "
                   ".safetensors",
                   f->path, name);
  TS_TRY(ts_str_append(&path, "%.*s%s", n, f->path, name));
  TS_TRY(ts_mem_extend(&f->part, f->n_parts, f->n_parts + 1, sizeof *f->part,
                       TS_TAG_CHECKPOINT));
  TS_TRY(ts_tensors_open(part, path.text));
  f->part[f->n_parts++] = *part;
  if ((*part)->n)
    qsort((*part)->item, (size_t)(*part)->n, sizeof *(*part)->item, by_name);
  if ((*part)->step != f->part[0]->step)
    TS_THROW(TS_ERR_CKPT, "%s: %s is of another step than %s", f->path,
             path.text, f->part[0]->path);
done:
  ts_str_reset(&path);
  return err;
}

static ts_err take(ts_tensors *f, const char *name, const char *file) {
  ts_tensors *part;
  if (!file)
    return ts_fail(TS_ERR_CKPT, "%s: has no file for tensor %.200s", f->path,
                   name);
  TS_DO(open_part(f, file, &part));
  const ts_tensor key = {.name = (char *)(uintptr_t)name};
  const ts_tensor *t =
      part->n ? bsearch(&key, part->item, (size_t)part->n, sizeof key, by_name)
              : NULL;
  if (!t)
    return ts_fail(TS_ERR_CKPT, "%s: tensor %.200s is not in %s", f->path, name,
                   part->path);
  ts_tensor *to = &f->item[f->n];
  *to = *t;
  to->name = NULL;
  f->n++;
  return ts_mem_strdup(&to->name, name);
}

ts_err ts_tensors_read_index(ts_tensors *f) {
  ts_err err = TS_OK;
  const char *name;
  json_t *index = NULL, *file;
  TS_TRY(ts_tensors_read_json(f, &index, 0, f->size));
  json_t *map = json_object_get(index, "weight_map");
  if (!json_is_object(map))
    TS_THROW(TS_ERR_CKPT, "%s: is no index: it has no weight_map", f->path);
  TS_TRY(ts_mem_many(f->item, (int64_t)json_object_size(map), CHECKPOINT));
  json_object_foreach(map, name, file) {
    TS_TRY(take(f, name, json_string_value(file)));
  }
  f->step = f->n_parts ? f->part[0]->step : -1;
done:
  json_decref(index);
  return err;
}
