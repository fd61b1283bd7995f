/* hdf5_guard.c - what of a stranger's HDF5 file is refused.
 *
 * A file is data, and nothing but the data in it: links and storage that lead
 * to other files, and filters that may need code from elsewhere, are refused
 * before anything of them is read.  Sizes are what the file says of itself:
 * they are held against the bytes that it has before memory is asked for. */
#include <stdio.h>
#include <string.h>

#include "io/hdf5.h"

/* Deeper or larger than any file of ours: 65536 tables with their state. */
enum { DEPTH_MAX = 16, LINKS_MAX = 1 << 22, RANK_MAX = 32 };
/* Deflate packs 1032 to 1 at best. */
enum { PACKED_MAX = 1040, CHUNK_BYTES_MAX = 1 << 30 };

/* ---- links --------------------------------------------------------------- */

typedef struct ts_walk {
  const char *path;
  ts_err code, err;
  int depth;
  int64_t n_links;
} ts_walk;

static herr_t stop(ts_walk *w, const char *name, const char *why) {
  w->err = ts_fail(w->code, "%s: %.200s %s", w->path, name, why);
  return 1;
}

static herr_t look_at(hid_t group, const char *name, const H5L_info_t *link,
                      void *arg);

static herr_t look_into(hid_t parent, const char *name, ts_walk *w) {
  const hid_t group = H5Gopen2(parent, name, H5P_DEFAULT);
  if (group < 0) return -1;
  w->depth++;
  const herr_t rc =
      H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, look_at, w);
  w->depth--;
  H5Gclose(group);
  return rc;
}

/* Groups that hold themselves end at the depth. */
static herr_t look_at(hid_t group, const char *name, const H5L_info_t *link,
                      void *arg) {
  ts_walk *w = arg;
  H5O_info_t object;
  if (link->type == H5L_TYPE_EXTERNAL)
    return stop(w, name, "is an external link, which is not followed");
  if (link->type != H5L_TYPE_HARD && link->type != H5L_TYPE_SOFT)
    return stop(w, name, "is a link of a kind that is not followed");
  if (++w->n_links > LINKS_MAX)
    return stop(w, name, "is one link more than any file of ours has");
  if (link->type == H5L_TYPE_SOFT) return 0; /* stays in what is looked at */
  if (H5Oget_info_by_name(group, name, &object, H5P_DEFAULT) < 0) return -1;
  if (object.type != H5O_TYPE_GROUP) return 0;
  if (w->depth >= DEPTH_MAX)
    return stop(w, name, "is deeper in groups than any file of ours");
  return look_into(group, name, w);
}

ts_err ts_hdf5_check_links(hid_t file, const char *path, ts_err code) {
  ts_walk w = {.path = path, .code = code};
  if (look_into(file, "/", &w) < 0)
    return ts_fail(code, "%s: is damaged", path);
  return w.err;
}

/* ---- datasets ------------------------------------------------------------ */

/* N elements of SIZE in DIMS; false where that is more than any file. */
static bool multiply(int64_t *bytes, const hsize_t *dims, int rank,
                     size_t size) {
  hsize_t n = size;
  for (int i = 0; i < rank; i++)
    if (__builtin_mul_overflow(n, dims[i], &n)) return false;
  *bytes = (int64_t)n;
  return n <= INT64_MAX / 16;
}

static const char *filters_of(hid_t plist) {
  static char why[128];
  char name[32] = "";
  unsigned flags, config;
  for (int i = 0; i < H5Pget_nfilters(plist); i++) {
    size_t n = 0;
    const H5Z_filter_t id = H5Pget_filter2(plist, (unsigned)i, &flags, &n, NULL,
                                           sizeof name, name, &config);
    if (id == H5Z_FILTER_DEFLATE || id == H5Z_FILTER_SHUFFLE ||
        id == H5Z_FILTER_FLETCHER32)
      continue;
    snprintf(why, sizeof why,
             "is packed by filter %d, of which none but deflate, shuffle and "
             "fletcher32 are read",
             (int)id);
    return why;
  }
  return NULL;
}

/* Chunks are taken into memory whole. */
static const char *chunks_of(hid_t plist, size_t size) {
  hsize_t dims[RANK_MAX];
  int64_t bytes = 0;
  const int rank = H5Pget_chunk(plist, RANK_MAX, dims);
  if (rank < 1 || !multiply(&bytes, dims, rank, size) ||
      bytes > CHUNK_BYTES_MAX)
    return "has chunks over 1 GiB";
  return filters_of(plist);
}

/* Before its dataspace is asked for: that of a virtual dataset is found in
 * other files. */
static const char *storage_of(hid_t plist, size_t size) {
  switch (H5Pget_layout(plist)) {
  case H5D_COMPACT:
    return NULL;
  case H5D_CONTIGUOUS:
    return H5Pget_external_count(plist) == 0
               ? NULL
               : "has its data in other files, which are not read";
  case H5D_CHUNKED:
    return chunks_of(plist, size);
  case H5D_VIRTUAL:
    return "is made of other datasets (virtual), which are not read";
  default:
    return "is stored in a way that is not known";
  }
}

/* Whether the file can hold BYTES of SET. */
static bool holds(hid_t set, hid_t plist, int64_t bytes) {
  hsize_t file_bytes = 0;
  const hid_t file = H5Iget_file_id(set);
  if (file < 0 || H5Fget_filesize(file, &file_bytes) < 0) file_bytes = 0;
  if (file >= 0) H5Fclose(file);
  const int64_t most = (int64_t)file_bytes;
  const int64_t stored = (int64_t)H5Dget_storage_size(set);
  if (bytes == 0) return true;
  if (stored <= 0 || stored > most) return false;
  if (H5Pget_layout(plist) == H5D_CONTIGUOUS) {
    const haddr_t at = H5Dget_offset(set);
    return at != HADDR_UNDEF && at <= file_bytes && bytes <= most - (int64_t)at;
  }
  return bytes / (H5Pget_nfilters(plist) > 0 ? PACKED_MAX : 1) <= stored;
}

static const char *size_of(hid_t set, hid_t plist, size_t size) {
  hsize_t dims[RANK_MAX];
  int64_t bytes = 0;
  const char *why = NULL;
  const hid_t space = H5Dget_space(set);
  const int rank = space >= 0 ? H5Sget_simple_extent_ndims(space) : -1;
  if (rank < 0 || rank > RANK_MAX ||
      H5Sget_simple_extent_dims(space, dims, NULL) < 0)
    why = "is damaged";
  else if (!multiply(&bytes, dims, rank, size))
    why = "has an impossible size";
  else if (H5Sget_simple_extent_type(space) != H5S_NULL &&
           !holds(set, plist, bytes))
    why = "is larger than what the file holds of it";
  if (space >= 0) H5Sclose(space);
  return why;
}

ts_err ts_hdf5_open_set(hid_t *set, hid_t file, const char *path,
                        const char *name, ts_err code) {
  ts_err err = TS_OK;
  hid_t type = -1, plist = -1;
  *set = H5Dopen2(file, name, H5P_DEFAULT);
  if (*set < 0) TS_THROW(code, "%s: %s is damaged or no dataset", path, name);
  type = H5Dget_type(*set);
  plist = H5Dget_create_plist(*set);
  const size_t size = type >= 0 ? H5Tget_size(type) : 0;
  const char *why = size && plist >= 0 ? storage_of(plist, size) : "is damaged";
  if (!why) why = size_of(*set, plist, size);
  if (why) err = ts_fail(code, "%s: %s %s", path, name, why);
done:
  if (type >= 0) H5Tclose(type);
  if (plist >= 0) H5Pclose(plist);
  if (err != TS_OK && *set >= 0) H5Dclose(*set);
  if (err != TS_OK) *set = -1;
  return err;
}

/* ---- attributes ---------------------------------------------------------- */

/* NAME where it is one element of a class, else -1; its type in TYPE. */
static hid_t open_single(hid_t file, const char *name, hid_t *type) {
  *type = -1;
  if (H5Aexists(file, name) <= 0) return -1;
  const hid_t attr = H5Aopen(file, name, H5P_DEFAULT);
  const hid_t space = attr >= 0 ? H5Aget_space(attr) : -1;
  const bool single = space >= 0 && H5Sget_simple_extent_npoints(space) == 1;
  if (space >= 0) H5Sclose(space);
  if (single) *type = H5Aget_type(attr);
  if (*type >= 0) return attr;
  if (attr >= 0) H5Aclose(attr);
  return -1;
}

bool ts_hdf5_get_number(hid_t file, const char *name, hid_t as, void *value) {
  hid_t type;
  const hid_t attr = open_single(file, name, &type);
  if (attr < 0) return false;
  const H5T_class_t class = H5Tget_class(type);
  const bool good = (class == H5T_INTEGER || class == H5T_FLOAT) &&
                    H5Aread(attr, as, value) >= 0;
  H5Tclose(type);
  H5Aclose(attr);
  return good;
}

/* Texts of a length of their own. */
static bool get_variable(hid_t attr, hid_t type, char *text, size_t size) {
  char *value = NULL;
  const hid_t as = H5Tcopy(H5T_C_S1);
  bool good = as >= 0 && H5Tset_size(as, H5T_VARIABLE) >= 0 &&
              H5Tset_cset(as, H5Tget_cset(type)) >= 0 &&
              H5Aread(attr, as, &value) >= 0 && value;
  if (good) good = strlen(value) < size;
  if (good) strcpy(text, value);
  if (value) H5free_memory(value);
  if (as >= 0) H5Tclose(as);
  return good;
}

bool ts_hdf5_get_text(hid_t file, const char *name, char *text, size_t size) {
  hid_t type;
  bool good = false;
  const hid_t attr = open_single(file, name, &type);
  memset(text, 0, size);
  if (attr < 0) return false;
  if (H5Tis_variable_str(type) > 0)
    good = get_variable(attr, type, text, size);
  else if (H5Tget_class(type) == H5T_STRING && H5Tget_size(type) < size)
    good = H5Aread(attr, type, text) >= 0;
  H5Tclose(type);
  H5Aclose(attr);
  return good;
}
