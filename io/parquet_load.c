/* parquet_load.c - the module that reads and writes Parquet, where it is:
 * beside the program in its build's folder, or installed. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/parquet.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const ts_parquet_module *module;
static char no_module[TS_PARQUET_WHY];

/* Places of the module: from the program's folder, and where it was installed.
 */
static const char *const names[] = {"io/parquet.so", "../io/parquet.so",
                                    "../lib/tessera/parquet.so",
                                    TS_PARQUET_DIR "/parquet.so"};

enum { N_NAMES = sizeof names / sizeof *names };

/* PATH, in the folder HERE of the program; false: there is no such file. */
static bool find(char path[8192], const char *here, const char *name) {
  if (*name == '/')
    snprintf(path, 8192, "%s", name);
  else
    snprintf(path, 8192, "%s/%s", here, name);
  return access(path, R_OK) == 0;
}

static void say_missing(const char *here) {
  if (!TS_PARQUET_BUILT)
    snprintf(no_module, sizeof no_module,
             "this build has no Apache Arrow, which reads and writes Parquet: "
             "pip install pyarrow, or the packages libarrow-dev and "
             "libparquet-dev, then configure --with-arrow=DIR and make");
  else
    snprintf(no_module, sizeof no_module,
             "Apache Arrow, which reads and writes Parquet, is not where it "
             "was installed: there is no parquet.so in io, ../io or "
             "../lib/tessera of %.180s, nor in %.150s",
             here, TS_PARQUET_DIR);
}

/* Takes the module only if it is of the program's own version. */
static void take(void *handle, const char *path) {
  const ts_parquet_module *m = handle ? dlsym(handle, "ts_parquet_this") : NULL;
  if (m && m->size == sizeof *m && m->version == TS_PARQUET_VERSION)
    module = m;
  else if (m)
    snprintf(no_module, sizeof no_module,
             "Apache Arrow, which reads and writes Parquet, can't be loaded: "
             "%.300s is of another version of the program: make install",
             path);
  else
    snprintf(no_module, sizeof no_module,
             "Apache Arrow, which reads and writes Parquet, can't be loaded: "
             "%.400s",
             dlerror());
}

static void load(void) {
  char path[8192] = "", here[3072];
  const ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);
  bool found = false;
  here[n < 0 ? 0 : n] = '\0';
  char *slash = strrchr(here, '/');
  if (slash) *slash = '\0';
  for (int i = 0; i < N_NAMES && !found; i++)
    found = find(path, here, names[i]);
  if (found)
    take(dlopen(path, RTLD_NOW | RTLD_LOCAL), path);
  else
    say_missing(here);
}

bool ts_parquet_is_there(char why[TS_PARQUET_WHY]) {
  pthread_once(&once, load);
  if (!module) memcpy(why, no_module, TS_PARQUET_WHY);
  return module != NULL;
}

bool ts_parquet_open(ts_parquet **out, const char *path, int32_t threads,
                     char why[TS_PARQUET_WHY]) {
  return ts_parquet_is_there(why) && module->open(out, path, threads, why);
}

void ts_parquet_close(ts_parquet *p) {
  if (p) module->close(p);
}

const struct ArrowSchema *ts_parquet_schema(const ts_parquet *p) {
  return module->schema(p);
}

int32_t ts_parquet_n_groups(const ts_parquet *p) {
  return module->n_groups(p);
}

int64_t ts_parquet_rows(const ts_parquet *p, int32_t group) {
  return module->rows(p, group);
}

bool ts_parquet_read(ts_parquet *p, int32_t group, const int32_t *columns,
                     int32_t n, int64_t most, int32_t *n_pieces,
                     char why[TS_PARQUET_WHY]) {
  return module->read(p, group, columns, n, most, n_pieces, why);
}

bool ts_parquet_take(ts_parquet *p, int32_t k, struct ArrowArray *to,
                     char why[TS_PARQUET_WHY]) {
  return module->take(p, k, to, why);
}

bool ts_parquet_create(ts_parquet_out **out, int fd, bool arrow,
                       struct ArrowSchema *schema, char why[TS_PARQUET_WHY]) {
  return ts_parquet_is_there(why) &&
         module->create(out, fd, arrow, schema, why);
}

bool ts_parquet_write(ts_parquet_out *out, struct ArrowArray *rows,
                      char why[TS_PARQUET_WHY]) {
  return module->write(out, rows, why);
}

bool ts_parquet_finish(ts_parquet_out *out, char why[TS_PARQUET_WHY]) {
  return !out || module->finish(out, why);
}
