/* deck_compress.c - a table with `compress` becomes several, its parts. */
#include "base/compress.h"

#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "io/deck_impl.h"

/* What T can't be, or lacks; NULL: nothing. */
static const char *refused(const ts_table_config *t,
                           const ts_compress_ops *ops) {
  if (t->rows == TS_ROWS_DYNAMIC || t->capacity)
    return "rows = \"dynamic\" has no number of ids to compress";
  if (t->init_kind && !strcmp(t->init_kind, "file"))
    return "init.kind \"file\" has a row for each id, which its parts lack";
  if (t->max_length > 0)
    return "compress takes no feature_processor: each part would have weights "
           "of its own";
  if (t->max_norm > 0)
    return "compress takes no max_norm, which would be of its parts' rows";
  return ops->lacks(t);
}

/* A key of COMPRESS that is given and is not of its kind, which would be left
 * out in silence; NULL: there is none.  *OF: the kind that it is of. */
static const char *stray(const ts_table_config *t, const char **of) {
  const char *combine = t->compress.combine;
  const struct {
    bool given;
    const char *key, *kind;
  } keys[] = {
      {t->compress.collisions > 0, "collisions", "quotient_remainder"},
      {strcmp(combine, "multiply") != 0, "combine", "quotient_remainder"},
      {t->compress.hashes > 0, "hashes", "hashes"},
      {t->compress.rows > 0, "rows", "hashes"},
      {t->compress.rank > 0, "rank", "low_rank"},
      {t->compress.starts.n > 0, "starts", "blocks"},
      {t->compress.dims.n > 0, "dims", "blocks"}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (keys[i].given && strcmp(keys[i].kind, t->compress.kind) != 0) {
      *of = keys[i].kind;
      return keys[i].key;
    }
  return NULL;
}

static void make_part(ts_table_config *to, ts_table_config *whole, int32_t k,
                      const ts_compress_ops *ops) {
  ts_part_shape s = {.dim = 0};
  ops->shape(whole, k, &s);
  ts_deck_set_text(&to->name, whole->name, s.suffix);
  to->dim = s.dim;
  ts_deck_fit_dtype(to);
  to->whole = whole;
  to->part = k;
  ts_table_ids_are(to, whole->rows);
  if (!s.begins_as_1) return;
  ts_deck_set_text(&to->init_kind, "constant", "");
  to->init_scale = 1;
}

/* Table T, of which later ones may have the place in memory. */
static void split(ts_deck *d, int32_t t, const ts_compress_ops *ops) {
  ts_table_config *whole = NULL;
  if (ts_mem_alloc(&whole, sizeof *whole, TS_TAG_MISC) != TS_OK) return;
  ts_deck_copy_table(whole, &d->config->tables[t]);
  for (int32_t k = 0; k < ops->n_parts(whole); k++) {
    ts_table_config *to =
        k ? ts_deck_add_table(d, d->origin[t]) : &d->config->tables[t];
    if (!to) return;
    if (k) ts_deck_copy_table(to, whole);
    make_part(to, whole, k, ops);
  }
}

void ts_deck_no_compress(ts_table_config *t) {
  for (int i = 0; i < ts_schema_n; i++) {
    const ts_key *k = &ts_schema[i];
    void *to = (char *)t + k->offset;
    if (k->scope != TS_SCOPE_TABLE || strncmp(k->path, "compress.", 9) != 0)
      continue;
    ts_deck_value_free(k, to);
  }
  memset(&t->compress, 0, sizeof t->compress);
  ts_deck_set_text(&t->compress.kind, "none", "");
  ts_deck_set_text(&t->compress.combine, "multiply", "");
}

/* Its own group says that it has none, whatever table_defaults say. */
static bool says_none(const ts_deck *d, int32_t t) {
  const ts_table_config *x = &d->config->tables[t];
  return !strcmp(x->compress.kind, "none") &&
         ts_deck_at(d->origin[t], "compress.kind");
}

void ts_deck_compress(ts_deck *d) {
  const int32_t n = d->config->n_tables;
  for (int32_t t = 0; t < n; t++) {
    const ts_table_config *x = &d->config->tables[t];
    const char *of;
    if (!x->compress.kind || !x->compress.combine || !x->name) continue;
    if (says_none(d, t)) {
      ts_deck_no_compress(&d->config->tables[t]);
      continue;
    }
    const char *key = stray(x, &of);
    if (key)
      ts_deck_error(
          d, d->origin[t],
          "table %.80s: key %s of compress is for kind \"%s\", and its "
          "kind is \"%s\"",
          x->name, key, of, x->compress.kind);
    const ts_compress_ops *ops = ts_compress_of(x);
    if (!ops || key || !x->rows) continue;
    const char *why = refused(x, ops);
    if (why)
      ts_deck_error(d, d->origin[t], "table %.80s: %s", x->name, why);
    else
      split(d, t, ops);
  }
}

/* ---- rows that there are not --------------------------------------------- */

/* The table of feature NAME is one of parts, and it is of use for KEY. */
static void check_feature(ts_deck *d, const char *name, const char *key) {
  const int32_t f = name && *name ? ts_feature_find(d->config, name) : -1;
  if (f < 0) return;
  const ts_table_config *t = ts_feature_table(d->config, f, NULL);
  if (t->whole)
    ts_deck_error(d, d->origin[t - d->config->tables],
                  "table %.80s: with compress ids are rows of its parts, and "
                  "%s needs those of feature %.80s as they are",
                  t->whole->name, key, name);
}

void ts_deck_check_parts(ts_deck *d) {
  const ts_config *c = d->config;
  check_feature(d, c->metrics.group, "metrics.group");
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const ts_task_config *x = &c->model.tasks[k];
    if (!ts_task_is_of_items(x)) continue;
    check_feature(d, x->target, "target");
    check_feature(d, x->masked, "masked");
  }
}
