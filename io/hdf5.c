/* hdf5.c - one lock for all HDF5 calls; files of strangers are only data. */
#include "io/hdf5.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/space.h"

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static hid_t half_types[2]; /* bf16, f16 */

/* A 16-bit float with the given parts. */
static hid_t half_type(size_t exponent_bits, size_t mantissa_bits,
                       size_t bias) {
  hid_t t = H5Tcopy(H5T_IEEE_F32LE);
  if (t < 0 ||
      H5Tset_fields(t, 15, mantissa_bits, exponent_bits, 0, mantissa_bits) <
          0 ||
      H5Tset_size(t, 2) < 0 || H5Tset_ebias(t, bias) < 0)
    return -1;
  return t;
}

static void start(void) {
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&lock, &attr);
  pthread_mutexattr_destroy(&attr);
  /* No plugins: a file must not make this process load code. */
  setenv("HDF5_PLUGIN_PRELOAD", "::", 1);
  H5open();
  H5PLset_loading_state(0);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  half_types[0] = half_type(8, 7, 127);
  half_types[1] = half_type(5, 10, 15);
}

#ifdef TS_FAULTS
/* An error as HDF5 reports one of the system. */
int ts_hdf5_fault(void) {
  if (!ts_fault("hdf5")) return 0;
  H5Eclear2(H5E_DEFAULT);
  H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_IO,
           H5E_WRITEERROR, "errno = %d", errno);
  return 1;
}
#endif

void ts_hdf5_lock(void) {
  pthread_once(&once, start);
  pthread_mutex_lock(&lock);
}

void ts_hdf5_unlock(void) {
  pthread_mutex_unlock(&lock);
}

ts_err ts_hdf5_open(hid_t *file, const char *path, ts_err code) {
  ts_err err = TS_OK;
  struct stat st;
  *file = -1;
  ts_hdf5_lock();
  if (access(path, R_OK) != 0 || stat(path, &st) != 0)
    TS_TRY(ts_fail_errno(code, path));
  /* A pipe or a device has no end. */
  if (!S_ISREG(st.st_mode)) TS_THROW(code, "%s: is not a file", path);
  *file = TS_HDF5(H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
  if (*file < 0)
    TS_THROW(code,
             "%s: is not a whole HDF5 file, or is locked (on NFS or Lustre "
             "HDF5_USE_FILE_LOCKING=FALSE may help)",
             path);
  err = ts_hdf5_check_links(*file, path, code);
  if (err != TS_OK) {
    H5Fclose(*file);
    *file = -1;
  }
done:
  ts_hdf5_unlock();
  return err;
}

hid_t ts_hdf5_type(ts_dtype t) {
  ts_hdf5_lock(); /* the names below are calls of HDF5 */
  const hid_t types[TS_DTYPE_COUNT] = {
      [TS_F32] = H5T_IEEE_F32LE, [TS_F64] = H5T_IEEE_F64LE,
      [TS_BF16] = half_types[0], [TS_F16] = half_types[1],
      [TS_I32] = H5T_STD_I32LE,  [TS_I64] = H5T_STD_I64LE,
      [TS_U8] = H5T_STD_U8LE,    [TS_INT8] = H5T_STD_U8LE,
      [TS_INT4] = H5T_STD_U8LE};
  ts_hdf5_unlock();
  return types[t];
}

/* Names the file that WHERE is in. */
static ts_err refused(hid_t where, const char *name, ts_err code) {
  char path[1024] = "";
  const char *why = ts_hdf5_why();
  (void)H5Fget_name(where, path, sizeof path);
  return ts_fail(code, "%s: %s can't be made: %s", path, name, why);
}

ts_err ts_hdf5_make_groups(hid_t file, const char *name, ts_err code) {
  char path[1024];
  for (const char *p = strchr(name, '/'); p; p = strchr(p + 1, '/')) {
    snprintf(path, sizeof path, "%.*s", (int)(p - name), name);
    if (H5Lexists(file, path, H5P_DEFAULT) > 0) continue;
    hid_t g =
        TS_HDF5(H5Gcreate2(file, path, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    if (g < 0) return refused(file, path, code);
    H5Gclose(g);
  }
  return TS_OK;
}

ts_err ts_hdf5_put_attr(hid_t file, const char *name, hid_t type,
                        const void *value, ts_err code) {
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t attr =
      TS_HDF5(H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
  const bool good = attr >= 0 && H5Awrite(attr, type, value) >= 0;
  const ts_err err = good ? TS_OK : refused(file, name, code);
  if (attr >= 0) H5Aclose(attr);
  H5Sclose(space);
  return err;
}

static herr_t take_errno(unsigned n, const H5E_error2_t *e, void *arg) {
  const char *at = e->desc ? strstr(e->desc, "errno = ") : NULL;
  (void)n;
  if (at) *(int *)arg = atoi(at + strlen("errno = "));
  return 0;
}

const char *ts_hdf5_why(void) {
  int number = 0;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_errno, &number);
  return number ? strerror(number) : "HDF5 refuses it";
}

/* Throws away what HDF5 still writes to its descriptor FD. */
static void divert(int fd) {
  const int sink = memfd_create("tessera", MFD_CLOEXEC);
  if (sink >= 0) (void)dup2(sink, fd);
  if (sink >= 0) close(sink);
}

/* A close that fails would make HDF5 crash at the end of the program. */
ts_err ts_hdf5_close(hid_t file, const char *path, ts_err err, ts_err code) {
  int *fd = NULL;
  hsize_t size = 0;
  if (file < 0) return err;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&fd) >= 0 && fd &&
      H5Fget_filesize(file, &size) >= 0) {
    if (err == TS_OK) err = ts_reserve(*fd, (int64_t)size, path, code);
    if (err != TS_OK) divert(*fd);
  }
  if (err == TS_OK && ts_hdf5_fault()) {
    err = ts_fail(code, "%s: %s", path, ts_hdf5_why());
    if (fd) divert(*fd);
  }
  if (H5Fclose(file) < 0 && err == TS_OK)
    err = ts_fail(code, "%s: %s", path, ts_hdf5_why());
  return err;
}

const char *ts_hdf5_version(void) {
  static char text[48];
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  snprintf(text, sizeof text, "HDF5 %u.%u.%u", major, minor, release);
  return text;
}
