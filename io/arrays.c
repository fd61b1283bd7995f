/* arrays.c - files of NumPy's arrays. */
#include "io/arrays.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/zip.h"

/* The ends of file names in a set of .npy files: the text before one of them
 * is the prefix that the set's files share. */
#define SPARSE "sparse.npy"
#define MULTI_HOT "sparse_multi_hot.npz"
static const char *const ends[] = {"labels.npy", "dense.npy", SPARSE,
                                   MULTI_HOT};

typedef struct ts_mapping {
  char *base;
  size_t n_bytes;
} ts_mapping;

typedef struct ts_arrays_file {
  char *path;
  const char *map;
  int64_t n_bytes;
  ts_zip zip; /* of .npz */
} ts_arrays_file;

struct ts_arrays {
  char *path;              /* of the .npz; else for messages */
  char *prefix;            /* NULL: an .npz */
  bool one_hot, multi_hot; /* which file of ids was named */
  ts_arrays_file **files;
  ts_named_array **found;
  ts_mapping *mappings;
  void **rooms;
  int32_t n_files, n_found, n_mappings, n_rooms;
  int64_t n_bytes;
};

/* Bytes of PATH before the end that tells it; -1: none does. */
static int prefix_of(const char *path, const char **end) {
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    const size_t n = strlen(path) - strlen(ends[i]);
    if (!ts_str_ends(path, ends[i])) continue;
    if (n && path[n - 1] != '_' && path[n - 1] != '/') continue;
    if (end) *end = ends[i];
    return (int)n;
  }
  return -1;
}

ts_err ts_arrays_sets(ts_strings *sets, const ts_strings *paths) {
  TS_DO(ts_mem_many(sets->item, paths->n, INPUT));
  for (int32_t i = 0; i < paths->n; i++) {
    const char *end = "", *other = "";
    const int n = prefix_of(paths->item[i], &end);
    const bool ids = !strcmp(end, SPARSE) || !strcmp(end, MULTI_HOT);
    int32_t k = n < 0 ? sets->n : 0;
    while (k < sets->n && (prefix_of(sets->item[k], &other) != n ||
                           strncmp(sets->item[k], paths->item[i], (size_t)n)))
      k++;
    if (k < sets->n && !ids) continue;
    if (k < sets->n && strcmp(end, other) != 0 &&
        (!strcmp(other, SPARSE) || !strcmp(other, MULTI_HOT)))
      return ts_fail(TS_ERR_DATA,
                     "%s and %s are ids of the same samples: name one of them",
                     sets->item[k], paths->item[i]);
    if (k < sets->n) ts_mem_free(sets->item[k]);
    sets->item[k] = NULL;
    sets->n += k == sets->n;
    TS_DO(ts_mem_strdup(&sets->item[k], paths->item[i]));
  }
  return TS_OK;
}

/* ---- mapping ------------------------------------------------------------- */

static ts_err keep(ts_arrays *a, void *base, int64_t n_bytes) {
  const ts_err err =
      ts_mem_extend(&a->mappings, a->n_mappings, a->n_mappings + 1,
                    sizeof *a->mappings, TS_TAG_INPUT);
  if (err != TS_OK)
    munmap(base, (size_t)n_bytes);
  else
    a->mappings[a->n_mappings++] = (ts_mapping){base, (size_t)n_bytes};
  return err;
}

static ts_err map_file(ts_arrays *a, ts_arrays_file *f) {
  ts_err err = TS_OK;
  struct stat s;
  int fd = -1;
  if (stat(f->path, &s) == 0 && !S_ISREG(s.st_mode))
    return ts_fail(TS_ERR_DATA, "%s: is not a file", f->path);
  fd = ts_file_open(f->path, O_RDONLY);
  if (fd < 0 || fstat(fd, &s) != 0) TS_TRY(ts_fail_errno(TS_ERR_DATA, f->path));
  if (!s.st_size) TS_THROW(TS_ERR_DATA, "%s: is empty", f->path);
  void *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) TS_TRY(ts_fail_errno(TS_ERR_DATA, f->path));
  TS_TRY(keep(a, map, s.st_size));
  f->map = map;
  f->n_bytes = s.st_size;
  a->n_bytes += s.st_size;
done:
  if (fd >= 0) close(fd);
  return err;
}

static ts_err add_file(ts_arrays *a, const char *path, ts_arrays_file **out) {
  ts_arrays_file *f = NULL;
  TS_DO(ts_mem_extend(&a->files, a->n_files, a->n_files + 1, sizeof *a->files,
                      TS_TAG_INPUT));
  TS_DO(ts_mem_alloc(&f, sizeof *f, TS_TAG_INPUT));
  a->files[a->n_files++] = f;
  TS_DO(ts_mem_strdup(&f->path, path));
  TS_DO(map_file(a, f));
  if (ts_str_ends(path, ".npz"))
    TS_DO(ts_zip_open(&f->zip, f->map, f->n_bytes, f->path));
  *out = f;
  return TS_OK;
}

/* Room for N_BYTES in a file without a name; all of it is there, so that
 * nothing ends for want of it later. */
static ts_err make_room(ts_arrays *a, char **out, int64_t n_bytes,
                        const char *what) {
  ts_err err = TS_OK;
  char path[4096], size[32];
  const char *dir = getenv("TMPDIR");
  snprintf(path, sizeof path, "%.4000s/tessera-npz-XXXXXX",
           dir && *dir ? dir : "/tmp");
  const int fd = mkstemp(path);
  if (fd < 0) return ts_fail_errno(TS_ERR_IO, path);
  unlink(path);
  const int rc = posix_fallocate(fd, 0, n_bytes);
  if (rc)
    TS_THROW(TS_ERR_IO,
             "%s: %s has no room for the %s that member %.200s unpacks to "
             "(%s); np.savez writes it as it is read",
             a->path, dir && *dir ? dir : "/tmp", ts_str_bytes(size, n_bytes),
             what, strerror(rc));
  void *map =
      mmap(NULL, (size_t)n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) TS_TRY(ts_fail_errno(TS_ERR_IO, path));
  TS_TRY(keep(a, map, n_bytes));
  *out = map;
done:
  close(fd);
  return err;
}

/* ---- arrays -------------------------------------------------------------- */

static ts_err refuse(const ts_named_array *x, const char *why) {
  return ts_fail(TS_ERR_DATA, "%s: %s is no array that can be read: %s",
                 x->path, x->name, why);
}

/* Why elements are not read as they lie, and what to do, to TEXT; false:
 * nothing is in the way. */
static bool is_other(char text[256], const ts_npy *a) {
  if (a->big_endian)
    snprintf(text, 256, "type %s is big-endian: astype(\"<%s\") is not",
             a->type, a->type + 1);
  else if (!a->size)
    snprintf(text, 256, "its type is %s: astype gives one of numbers",
             *a->type ? a->type : "a structure");
  else if (a->fortran && a->n_dims > 1)
    snprintf(text, 256,
             "its columns follow each other (fortran_order), not rows: "
             "np.ascontiguousarray gives rows");
  else
    return false;
  return true;
}

/* N bytes of START, of N_FILE that there are. */
static ts_err take_header(ts_named_array *x, const char *start, int64_t n,
                          int64_t n_file) {
  char text[256];
  const char *why = ts_npy_parse(&x->is, start, n, n_file);
  if (why) return refuse(x, why);
  if (is_other(text, &x->is)) return refuse(x, text);
  if (x->is.n_bytes == n_file - x->is.at) return TS_OK;
  return ts_fail(TS_ERR_DATA,
                 "%s: %s: %s elements of %d bytes don't fill its %lld bytes of "
                 "data: it is damaged, or its end missing",
                 x->path, x->name, ts_npy_shape(text, x->is.n_dims, x->is.dims),
                 x->is.size, (long long)(n_file - x->is.at));
}

/* The header is looked at before there is room for the rest. */
static ts_err unpack(ts_arrays *a, ts_named_array *x, const ts_zip *zip,
                     const ts_zip_member *m) {
  ts_err err = TS_OK;
  char *start = NULL, *to = NULL;
  const char *stored;
  const int64_t n = m->size < TS_NPY_HEADER_MAX ? m->size : TS_NPY_HEADER_MAX;
  TS_DO(ts_zip_data(zip, m, &stored)); /* sizes are what they can be */
  TS_TRY(ts_mem_alloc(&start, (size_t)n + 1, TS_TAG_INPUT));
  TS_TRY(ts_zip_unpack(zip, m, start, n));
  TS_TRY(take_header(x, start, n, m->size));
  TS_TRY(make_room(a, &to, m->size, m->name));
  TS_TRY(ts_zip_unpack(zip, m, to, m->size));
  x->data = to + x->is.at;
done:
  ts_mem_free(start);
  return err;
}

/* A stored one of more than so many bytes is not read as a whole for its
 * checksum. */
enum { CHECKED_MAX = 16 << 20 };

static ts_err take_member(ts_arrays *a, ts_named_array *x, const ts_zip *zip,
                          const ts_zip_member *m) {
  const char *stored;
  if (m->method) return unpack(a, x, zip, m);
  TS_DO(ts_zip_data(zip, m, &stored));
  if (m->size <= CHECKED_MAX) TS_DO(ts_zip_check(zip, m, stored));
  TS_DO(take_header(x, stored, m->size, m->size));
  x->data = stored + x->is.at;
  return TS_OK;
}

static ts_err add_array(ts_arrays *a, const char *name, const char *path,
                        ts_named_array **out) {
  TS_DO(ts_mem_extend(&a->found, a->n_found, a->n_found + 1, sizeof *a->found,
                      TS_TAG_INPUT));
  ts_named_array *x;
  TS_DO(ts_mem_alloc(&x, sizeof *x, TS_TAG_INPUT));
  a->found[a->n_found++] = x;
  x->path = path;
  *out = x;
  return ts_mem_strdup(&x->name, name);
}

/* Member NAME.npy of F; NULL: there is none. */
static ts_err find_member(ts_arrays *a, const ts_arrays_file *f,
                          const char *name, const ts_named_array **out) {
  char full[600];
  const ts_zip_member *m;
  ts_named_array *x;
  for (int32_t i = 0; i < a->n_found; i++)
    if (a->found[i]->path == f->path && !strcmp(a->found[i]->name, name)) {
      *out = a->found[i];
      return TS_OK;
    }
  *out = NULL;
  snprintf(full, sizeof full, "%.500s.npy", name);
  TS_DO(ts_zip_find(&f->zip, full, &m));
  if (!m) return TS_OK;
  TS_DO(add_array(a, name, f->path, &x));
  TS_DO(take_member(a, x, &f->zip, m));
  *out = x;
  return TS_OK;
}

/* The file PREFIX END; NULL: there is none. */
static ts_err find_file(ts_arrays *a, const char *end, ts_arrays_file **out) {
  ts_err err = TS_OK;
  ts_str path = {0};
  *out = NULL;
  TS_TRY(ts_str_append(&path, "%s%s", a->prefix, end));
  for (int32_t i = 0; i < a->n_files && !*out; i++)
    if (!strcmp(a->files[i]->path, path.text)) *out = a->files[i];
  if (!*out &&
      (access(path.text, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)))
    TS_TRY(add_file(a, path.text, out));
done:
  ts_str_reset(&path);
  return err;
}

static ts_err find_npy(ts_arrays *a, const char *name,
                       const ts_named_array **out) {
  char end[600];
  ts_arrays_file *f;
  ts_named_array *x;
  *out = NULL;
  if (strchr(name, '/')) return TS_OK;
  snprintf(end, sizeof end, "%.500s.npy", name);
  TS_DO(find_file(a, end, &f));
  if (!f) return TS_OK;
  for (int32_t i = 0; i < a->n_found; i++)
    if (a->found[i]->path == f->path) *out = a->found[i];
  if (*out) return TS_OK;
  TS_DO(add_array(a, name, f->path, &x));
  TS_DO(take_header(x, f->map, f->n_bytes, f->n_bytes));
  x->data = f->map + x->is.at;
  *out = x;
  return TS_OK;
}

ts_err ts_arrays_find(ts_arrays *a, const char *name,
                      const ts_named_array **out) {
  if (!a->prefix) return find_member(a, a->files[0], name, out);
  *out = NULL;
  if (!strcmp(name, "sparse") && a->multi_hot) return TS_OK;
  return find_npy(a, name, out);
}

ts_err ts_arrays_find_multi_hot(ts_arrays *a, int32_t k,
                                const ts_named_array **out) {
  ts_arrays_file *f, *other;
  char name[16];
  *out = NULL;
  if (!a->prefix || a->one_hot) return TS_OK;
  TS_DO(find_file(a, MULTI_HOT, &f));
  if (!f) return TS_OK;
  if (!a->multi_hot) TS_DO(find_file(a, SPARSE, &other));
  if (!a->multi_hot && other)
    return ts_fail(TS_ERR_DATA,
                   "%s and %s are ids of the same samples: name one of them",
                   f->path, other->path);
  snprintf(name, sizeof name, "%d", k);
  TS_DO(find_member(a, f, name, out));
  if (*out) return TS_OK;
  return ts_fail(TS_ERR_DATA, "%s: has no member %s.npy", f->path, name);
}

/* ---- opening ------------------------------------------------------------- */

ts_err ts_arrays_open(ts_arrays **out, const char *path) {
  ts_arrays_file *f;
  ts_str text = {0};
  const char *end = "";
  const int n = prefix_of(path, &end);
  ts_arrays *a = NULL;
  TS_DO(ts_mem_alloc(&a, sizeof *a, TS_TAG_INPUT));
  *out = a;
  TS_DO(ts_str_append(&text, n < 0 ? "%.*s" : "%.*s*.npy",
                      n < 0 ? (int)strlen(path) : n, path));
  a->path = text.text;
  if (n < 0 && !ts_str_ends(path, ".npz"))
    return ts_fail(TS_ERR_DATA,
                   "%s: format npy takes an .npz, or files whose names are "
                   "labels.npy, dense.npy, sparse.npy and "
                   "sparse_multi_hot.npz, with one beginning",
                   path);
  if (n < 0) return add_file(a, path, &f);
  a->one_hot = !strcmp(end, SPARSE);
  a->multi_hot = !strcmp(end, MULTI_HOT);
  TS_DO(ts_mem_strdup(&a->prefix, path));
  a->prefix[n] = '\0';
  return TS_OK;
}

void ts_arrays_close(ts_arrays *a) {
  if (!a) return;
  for (int32_t i = 0; i < a->n_mappings; i++)
    munmap(a->mappings[i].base, a->mappings[i].n_bytes);
  for (int32_t i = 0; i < a->n_files; i++) {
    ts_zip_reset(&a->files[i]->zip);
    ts_mem_free_all(a->files[i]->path, a->files[i]);
  }
  for (int32_t i = 0; i < a->n_found; i++)
    ts_mem_free_all(a->found[i]->name, a->found[i]);
  for (int32_t i = 0; i < a->n_rooms; i++) ts_mem_free(a->rooms[i]);
  ts_mem_free_all(a->files, a->found, a->mappings, a->rooms, a->path, a->prefix,
                  a);
}

ts_err ts_arrays_room(ts_arrays *a, void *p, int64_t n, size_t size) {
  void *room = NULL;
  TS_DO(ts_mem_extend(&a->rooms, a->n_rooms, a->n_rooms + 1, sizeof room,
                      TS_TAG_INPUT));
  TS_DO(ts_mem_array(&room, n, size, TS_TAG_INPUT));
  a->rooms[a->n_rooms++] = room;
  memcpy(p, &room, sizeof room);
  return TS_OK;
}

const char *ts_arrays_path(const ts_arrays *a) {
  return a->path;
}

int64_t ts_arrays_bytes(const ts_arrays *a) {
  return a->n_bytes;
}
