/* source.c - the table of data formats, those of base/kinds.h; globs;
 * opening. */
#include "io/source.h"

#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include "base/kinds.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "io/batch_store.h"
#include "io/columnar_keys.h"
#include "io/rows.h"
#include "io/split.h"
#include "io/target_law.h"

#define DECLARE(name) extern const ts_source_ops ts_source_##name;
TS_DATA_FORMATS(DECLARE)

#define ENTRY(name) &ts_source_##name,
static const ts_source_ops *const table[] = {TS_DATA_FORMATS(ENTRY)};

enum { N_FORMATS = sizeof table / sizeof *table };

const ts_source_ops *ts_source_find(const char *format) {
  for (int i = 0; i < N_FORMATS; i++)
    if (!strcmp(table[i]->format, format)) return table[i];
  return NULL;
}

const ts_source_ops *ts_source_at(int i) {
  return i < N_FORMATS ? table[i] : NULL;
}

const ts_source_ops *ts_source_of(const ts_config *c, const char *path) {
  if (strcmp(c->data.format, "auto") != 0)
    return ts_source_find(c->data.format);
  for (int i = 0; path && i < N_FORMATS; i++)
    if (table[i]->probe && table[i]->probe(path)) return table[i];
  return NULL;
}

static ts_err add_folder(ts_strings *list, const char *path, size_t root) {
  const int32_t n = list->n;
  TS_DO(ts_columnar_files(list, path, root));
  if (list->n > n) return TS_OK;
  return ts_fail(TS_ERR_DATA,
                 "%s: is a folder, in which no file is .parquet, .arrow or "
                 ".feather",
                 path);
}

/* How many bytes of PATH, which PATTERN has, stand before the first part with a
 * wildcard; all: there is none. */
static size_t root_of(const char *path, const char *pattern) {
  const char *wild = strpbrk(pattern, "*?["), *end = path;
  if (!wild) return strlen(path);
  for (const char *p = pattern, *slash; (slash = strchr(p, '/'));) {
    const char *next = strchr(end, '/');
    if (slash > wild || !next) break;
    p = slash + 1;
    end = next + 1;
  }
  return (size_t)(end - path);
}

static ts_err add_path(ts_strings *list, const char *path, size_t root) {
  struct stat st;
  if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
    return add_folder(list, path, path[root] ? root : root + 1);
  /* A pipe or a device would be waited for without end. */
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
    return ts_fail(TS_ERR_DATA, "%s: is not a file", path);
  return ts_columnar_add(list, path, root);
}

void ts_source_files_free(ts_strings *list) {
  for (int32_t i = 0; i < list->n; i++) ts_mem_free(list->item[i]);
  ts_mem_free(list->item);
  *list = (ts_strings){0};
}

/* Globs expand in the order of names. */
static ts_err expand(ts_strings *out, const ts_strings *in) {
  ts_err err = TS_OK;
  for (int32_t i = 0; i < in->n; i++) {
    glob_t found;
    const int rc = glob(in->item[i], 0, NULL, &found);
    for (size_t k = 0; rc == 0 && err == TS_OK && k < found.gl_pathc; k++)
      err = add_path(out, found.gl_pathv[k],
                     root_of(found.gl_pathv[k], in->item[i]));
    if (rc == 0) globfree(&found);
    TS_DO(err);
    if (rc == GLOB_NOMATCH)
      return ts_fail(TS_ERR_DATA, "%s: no such file", in->item[i]);
    if (rc != 0) return ts_fail(TS_ERR_DATA, "%s can't be read", in->item[i]);
  }
  return TS_OK;
}

ts_err ts_source_files(const ts_source_ops **ops, ts_strings *paths,
                       const ts_config *c, ts_split split) {
  static const char *const names[] = {"train", "eval", "valid", "eval",
                                      "items"};
  const ts_strings *const lists[] = {&c->data.train, &c->data.eval,
                                     &c->data.valid, &c->data.eval,
                                     &c->data.items};
  if (split == TS_SPLIT_VALID && ts_split_is_on(c)) split = TS_SPLIT_TRAIN;
  TS_DO(expand(paths, lists[split]));
  const char *first = paths->n ? paths->item[0] : NULL;
  *ops = ts_source_of(c, first);
  if (!first && (!*ops || !(*ops)->no_files))
    return ts_fail(TS_ERR_DECK, "data.%s is missing", names[split]);
  if (!*ops)
    return ts_fail(TS_ERR_DATA,
                   "%s: no format knows it; give data.format, one of: %s",
                   first, TS_LISTED(TS_DATA_FORMATS));
  return ts_rows_refuse(c, *ops);
}

static ts_err check_items(const ts_source_ops *ops, ts_split split) {
  if (split != TS_SPLIT_ITEMS || ops->has_items) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "data.items: is CSV, Parquet or a data set, not format %s",
                 ops->format);
}

static ts_err check_where(const ts_config *c, const ts_source_ops *ops) {
  for (int32_t k = 0; !ops->has_where && k < c->model.n_tasks; k++)
    if (ts_task_has_where(&c->model.tasks[k]))
      return ts_fail(TS_ERR_DECK,
                     "model.outputs: \"%s\" has where, and data of format %s "
                     "has no such columns",
                     c->model.tasks[k].name, ops->format);
  return TS_OK;
}

static ts_err check_shapes(ts_source *s) {
  const ts_config *c = s->config;
  ts_feature_columns m;
  TS_DO(ts_feature_columns_create(&m, c));
  s->info.n_columns = m.n;
  ts_feature_columns_reset(&m);
  if (s->info.n_dense != c->model.dense_features)
    return ts_fail(TS_ERR_DATA,
                   "the data has %d dense features, the deck says "
                   "model.dense_features = %d",
                   s->info.n_dense, c->model.dense_features);
  if (s->info.n_tasks != c->model.n_tasks)
    return ts_fail(TS_ERR_DATA,
                   "the data has %d labels per sample, the deck %d tasks",
                   s->info.n_tasks, c->model.n_tasks);
  if (s->info.n_samples < 1)
    return ts_fail(TS_ERR_DATA, "the data has no samples");
  return TS_OK;
}

ts_err ts_source_open_only(ts_source **out, const ts_config *c, ts_split split,
                           const char *state, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_source *s = NULL;
  const ts_source_ops *ops = NULL;
  ts_strings paths = {0};
  TS_TRY(ts_agree(comm, ts_source_files(&ops, &paths, c, split)));
  TS_TRY(ts_agree(comm, check_where(c, ops)));
  TS_TRY(ts_agree(comm, check_items(ops, split)));
  const bool parts = ts_split_parts(c, split);
  TS_TRY(ops->open(&s, c, parts ? TS_SPLIT_TRAIN : split, state, &paths, comm));
  s->info.format = ops->format;
  s->info.has_weights |=
      split == TS_SPLIT_TRAIN && c->data.positive_weight != 1;
  TS_TRY(ts_agree(comm, check_shapes(s)));
  if (parts) TS_TRY(ts_split_take(&s, split, comm));
  if (!state && s->ops->learn) TS_TRY(s->ops->learn(s, NULL, comm));
  TS_TRY(ts_vocabularies_share(s->vocabularies, comm));
  *out = s;
done:
  if (err != TS_OK) ts_source_close(s);
  ts_source_files_free(&paths);
  return err;
}

ts_err ts_source_open(ts_source **out, const ts_config *c, ts_split split,
                      const char *state, ts_comm *comm) {
  ts_source *s = NULL;
  TS_DO(ts_source_open_only(&s, c, split, state, comm));
  const ts_err err = ts_rows_settle(s, comm);
  if (err != TS_OK)
    ts_source_close(s);
  else
    *out = s;
  return err;
}

bool ts_source_words(const ts_source *s, int32_t feature, ts_words *words) {
  return ts_vocabularies_words(s->vocabularies, feature, words);
}

void ts_source_close(ts_source *s) {
  if (!s) return;
  ts_target_law_destroy(s->law);
  s->ops->close(s);
}
