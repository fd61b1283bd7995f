/* deck.c - reading a deck: libconfig parses, the schema checks, all errors
 * are collected before any is reported. */
#include "io/deck.h"

#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "io/deck_impl.h"
#include "runtime/comm.h"

enum { DECK_BYTES_MAX = 16 << 20, TABLES_MAX = 65536 };

/* ---- walking the tree ---------------------------------------------------- */

static void unknown_key(ts_deck *d, ts_scope scope, const config_setting_t *s,
                        const char *path) {
  const char *near = ts_schema_nearest(scope, path);
  if (near)
    ts_deck_error(d, s, "unknown key \"%s\"; did you mean \"%s\"?", path, near);
  else
    ts_deck_error(d, s, "unknown key \"%s\"", path);
}

void ts_deck_key(ts_deck *d, ts_scope scope, const config_setting_t *s,
                 const char *path, void *to) {
  const ts_key *key = ts_schema_find(scope, path);
  if (key)
    ts_deck_value(d, key, s, (char *)to + key->offset);
  else if (ts_schema_is_group(scope, path) && config_setting_is_group(s))
    ts_deck_group(d, scope, s, path, to);
  else if (ts_schema_is_group(scope, path))
    ts_deck_error(d, s, "%s is a group: %s = { ... };", path, path);
  else
    unknown_key(d, scope, s, path);
}

void ts_deck_group(ts_deck *d, ts_scope scope, const config_setting_t *s,
                   const char *prefix, void *to) {
  char path[256];
  for (int i = 0; i < config_setting_length(s); i++) {
    const config_setting_t *child = config_setting_get_elem(s, (unsigned)i);
    const char *name = config_setting_name(child);
    if (!name) continue;
    snprintf(path, sizeof path, "%s%s%.100s", prefix, *prefix ? "." : "", name);
    /* Lists of groups have code of their own. */
    if (scope == TS_SCOPE_DECK &&
        (!strcmp(path, "tables") || !strcmp(path, "table_defaults") ||
         !strcmp(path, "model.layers") || !strcmp(path, "model.change") ||
         ts_schema_list(path)))
      continue;
    ts_deck_key(d, scope, child, path, to);
  }
}

void ts_deck_defaults(ts_deck *d, ts_scope scope, void *to) {
  for (int i = 0; i < ts_schema_n; i++)
    if (ts_schema[i].scope == scope)
      ts_deck_default(d, &ts_schema[i], (char *)to + ts_schema[i].offset);
}

static void free_values(ts_scope scope, void *to) {
  for (int i = 0; i < ts_schema_n; i++)
    if (ts_schema[i].scope == scope && ts_schema[i].kind != TS_KEY_LATER)
      ts_deck_value_free(&ts_schema[i], (char *)to + ts_schema[i].offset);
}

static bool is_list(ts_deck *d, const config_setting_t *s, const char *what) {
  if (config_setting_is_list(s)) return true;
  ts_deck_error(d, s, "%s is a list of groups: %s = ( { ... }, { ... } );",
                what, what);
  return false;
}

/* ---- tables -------------------------------------------------------------- */

static ts_err grow(ts_deck *d) {
  ts_config *c = d->config;
  const int32_t n = d->capacity, more = n ? 2 * n : 32;
  TS_DO(ts_mem_extend(&c->tables, n, more, sizeof *c->tables, TS_TAG_MISC));
  TS_DO(ts_mem_extend(&d->origin, n, more, sizeof *d->origin, TS_TAG_MISC));
  d->capacity = more;
  return TS_OK;
}

ts_table_config *ts_deck_add_table(ts_deck *d, const config_setting_t *s) {
  ts_config *c = d->config;
  if (c->n_tables == d->capacity && grow(d) != TS_OK) return NULL;
  d->origin[c->n_tables] = s;
  c->tables[c->n_tables] = (ts_table_config){0};
  return &c->tables[c->n_tables++];
}

static void read_table(ts_deck *d, const config_setting_t *defaults,
                       const config_setting_t *s, const char *const *sets,
                       int n_sets) {
  ts_table_config *t = ts_deck_add_table(d, s);
  if (!t) return;
  ts_deck_defaults(d, TS_SCOPE_TABLE, t);
  if (defaults) ts_deck_group(d, TS_SCOPE_TABLE, defaults, "", t);
  ts_deck_group(d, TS_SCOPE_TABLE, s, "", t);
  t->line = (int)config_setting_source_line(s);
  for (int i = 0; i < n_sets; i++) ts_deck_set_table(d, sets[i], t);
}

/* How many elements of a list {a..b} in the NAME of one makes, 1 without it; 0:
 * it is broken. */
static int32_t begin_elements(ts_deck *d, const config_setting_t *s,
                              const char *name, const char *what) {
  long a = 0, b = 0;
  size_t at, n;
  const int range = ts_deck_range(name, &a, &b, &at, &n);
  if (range < 0 || (range > 0 && b - a >= TABLES_MAX)) {
    ts_deck_error(d, s,
                  "name = \"%.80s\": {a..b} takes two numbers, a <= b, "
                  "%d %s at most",
                  name, TABLES_MAX, what);
    return 0;
  }
  d->n_elements = range > 0 ? (int32_t)(b - a + 1) : 0;
  return (int32_t)(b - a + 1);
}

/* An element of tables: one table, or with {a..b} in its name several. */
static void read_element(ts_deck *d, const config_setting_t *defaults,
                         const config_setting_t *s, const char *const *sets,
                         int n_sets) {
  const char *name = NULL;
  if (!config_setting_is_group(s)) {
    ts_deck_error(d, s, "tables is a list of groups { ... }");
    return;
  }
  if (!config_setting_lookup_string(s, "name", &name)) {
    ts_deck_error(d, s, "a table has no name");
    return;
  }
  const int32_t n = begin_elements(d, s, name, "tables");
  for (d->element = 0; d->element < n; d->element++)
    read_table(d, defaults, s, sets, n_sets);
  d->element = d->n_elements = 0;
}

static void read_tables(ts_deck *d, const config_t *tree,
                        const char *const *sets, int n_sets) {
  const config_setting_t *tables = config_lookup(tree, "tables");
  const config_setting_t *defaults = config_lookup(tree, "table_defaults");
  if (defaults && !config_setting_is_group(defaults)) {
    ts_deck_error(d, defaults, "table_defaults is a group { ... }");
    defaults = NULL;
  }
  if (!tables || !is_list(d, tables, "tables")) return;
  for (int i = 0; i < config_setting_length(tables); i++) {
    const config_setting_t *s = config_setting_get_elem(tables, (unsigned)i);
    read_element(d, defaults, s, sets, n_sets);
    if (d->config->n_tables <= TABLES_MAX) continue;
    ts_deck_error(d, s, "more than %d tables", TABLES_MAX);
    return;
  }
  ts_deck_wide(d, sets, n_sets);
  for (int i = 0; i < n_sets; i++) ts_deck_set_check(d, sets[i]);
  ts_deck_compress(d);
}

/* ---- other lists --------------------------------------------------------- */

/* What element E of LIST says, appended to the *N items of ARRAY: one, or with
 * {a..b} in its name several. */
static ts_err read_item(ts_deck *d, const ts_key_list *list,
                        const config_setting_t *e, char **array, int32_t *n) {
  const char *name = NULL;
  const bool named = config_setting_is_group(e) &&
                     config_setting_lookup_string(e, "name", &name);
  const int32_t more = named ? begin_elements(d, e, name, "elements") : 1;
  TS_DO(ts_mem_extend(array, *n, *n + more, list->size, TS_TAG_MISC));
  for (d->element = 0; d->element < more; d->element++) {
    char *to = *array + (size_t)(*n)++ * list->size;
    ts_deck_defaults(d, list->scope, to);
    if (config_setting_is_group(e))
      ts_deck_group(d, list->scope, e, "", to);
    else
      ts_deck_error(d, e, "%s is a list of groups { ... }", list->path);
  }
  d->element = d->n_elements = 0;
  return TS_OK;
}

/* Elements of LIST into an array of the config. */
static void read_list(ts_deck *d, const config_t *tree,
                      const ts_key_list *list) {
  const config_setting_t *s = config_lookup(tree, list->path);
  char *array = NULL, *config = (char *)d->config;
  int32_t n = 0;
  if (!s || !is_list(d, s, list->path)) return;
  if (list->scope == TS_SCOPE_OUTPUT && d->config->model.n_tasks) {
    ts_deck_error(d, s,
                  "model.tasks and model.outputs are both given: one is "
                  "enough");
    return;
  }
  for (int i = 0; i < config_setting_length(s); i++)
    if (read_item(d, list, config_setting_get_elem(s, (unsigned)i), &array,
                  &n) != TS_OK)
      break; /* what is lacking is said for the whole deck */
  memcpy(config + list->items, &array, sizeof array);
  *(int32_t *)(config + list->n) = n;
  if (list->scope == TS_SCOPE_OUTPUT) d->config->model.has_outputs = n > 0;
}

static void free_list(ts_config *c, const ts_key_list *list) {
  char *config = (char *)c, *array;
  if (!ts_schema_list_is_on(list, c)) return;
  memcpy(&array, config + list->items, sizeof array);
  for (int32_t i = 0; i < *(int32_t *)(config + list->n); i++)
    free_values(list->scope, array + (size_t)i * list->size);
  ts_mem_free(array);
}

static void read_lists(ts_deck *d, const config_t *tree) {
  ts_config *c = d->config;
  for (int i = 0; i < ts_schema_n_lists; i++)
    read_list(d, tree, &ts_schema_lists[i]);
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    c->model.tasks[k].uncertainty = isnan(c->model.tasks[k].weight);
  if (c->model.n_tasks) return; /* one by default */
  if (ts_mem_alloc(&c->model.tasks, sizeof *c->model.tasks, TS_TAG_MISC) !=
      TS_OK)
    return;
  c->model.n_tasks = 1;
  ts_deck_defaults(d, TS_SCOPE_TASK, c->model.tasks);
}

/* ---- the whole ----------------------------------------------------------- */

/* Paths that have a default made of other keys. */
static ts_err derive_paths(ts_config *c) {
  ts_str path = {0};
  if (!*c->run.output) {
    TS_DO(ts_str_append(&path, "%s/runs/%s", c->deck_dir, c->run.name));
    ts_mem_free(c->run.output);
    c->run.output = path.text;
  }
  path = (ts_str){0};
  if (!strcmp(c->checkpoint.dir, "none")) {
    ts_mem_free(c->checkpoint.dir);
    c->checkpoint.dir = NULL;
  } else if (!*c->checkpoint.dir) {
    TS_DO(ts_str_append(&path, "%s/checkpoints", c->run.output));
    ts_mem_free(c->checkpoint.dir);
    c->checkpoint.dir = path.text;
  }
  return TS_OK;
}

static ts_err take_tree(ts_deck *d, config_t *tree, const char *const *sets,
                        int n_sets) {
  const int64_t failures = ts_mem_failures();
  const config_setting_t *root = config_root_setting(tree);
  TS_DO(ts_deck_defaults_read(d));
  for (int i = 0; i < n_sets; i++) ts_deck_set(d, tree, sets[i], false);
  ts_deck_zoo(d, tree);
  for (int i = 0; i < n_sets; i++) ts_deck_set(d, tree, sets[i], true);
  ts_deck_defaults(d, TS_SCOPE_DECK, d->config);
  ts_deck_group(d, TS_SCOPE_DECK, root, "", d->config);
  read_tables(d, tree, sets, n_sets);
  read_lists(d, tree);
  ts_deck_layers(d, tree);
  /* Texts that had no room are cut, or missing: nothing of it counts. */
  if (ts_mem_failures() == failures) {
    if (!d->n_errors) TS_DO(derive_paths(d->config));
    ts_deck_check(d, root);
  }
  if (ts_mem_failures() != failures)
    return ts_fail(TS_ERR_NOMEM, "out of memory while the deck is read");
  return d->n_errors ? ts_fail(TS_ERR_DECK, "%s", d->errors.text) : TS_OK;
}

/* An error with libconfig's words, and with the line itself where they say too
 * little. */
static ts_err syntax_error(const ts_deck *d, const config_t *tree,
                           const char *text) {
  const char *file = config_error_file(tree), *what = config_error_text(tree);
  const int line = config_error_line(tree);
  const bool quote = !file && what && strstr(what, "include");
  for (int i = 1; quote && i < line && strchr(text, '\n'); i++)
    text = strchr(text, '\n') + 1;
  if (quote)
    return ts_fail(TS_ERR_DECK, "%s:%d: %s: %.*s", d->path, line, what,
                   (int)(strcspn(text, "\n") % 200), text);
  return ts_fail(TS_ERR_DECK, "%s:%d: %s", file ? file : d->path, line, what);
}

static ts_err parse(ts_deck *d, const char *text, const char *const *sets,
                    int n_sets) {
  ts_err err = TS_OK;
  config_t tree;
  ts_str wide = {0};
  TS_TRY(ts_deck_includes(d, text));
  TS_TRY(ts_deck_widen(&wide, text));
  config_init(&tree);
  config_set_options(&tree, CONFIG_OPTION_AUTOCONVERT);
  config_set_include_dir(&tree, d->config->deck_dir);
  err = config_read_string(&tree, wide.text) == CONFIG_TRUE
            ? take_tree(d, &tree, sets, n_sets)
            : syntax_error(d, &tree, text);
  config_destroy(&tree);
done:
  ts_str_reset(&wide);
  ts_str_reset(&d->errors);
  ts_deck_defaults_free(d);
  ts_mem_free(d->origin);
  return err;
}

static ts_err deck_create(ts_config **out, const char *path, const char *dir) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  char *full = NULL;
  TS_TRY(ts_mem_alloc(&c, sizeof *c, TS_TAG_MISC));
  *out = c;
  TS_TRY(ts_mem_strdup(&c->deck_path, path));
  full = realpath(dir, NULL);
  TS_TRY(ts_mem_strdup(&c->deck_dir, full ? full : dir));
done:
  free(full);
  return err;
}

ts_err ts_deck_parse(ts_config **out, const char *text, const char *dir,
                     const char *const *sets, int n_sets) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  TS_TRY(deck_create(&c, "deck", dir));
  ts_deck deck = {.config = c, .path = "deck"};
  TS_TRY(parse(&deck, text, sets, n_sets));
  *out = c;
done:
  if (err != TS_OK) ts_deck_destroy(c);
  return err;
}

static ts_err read_deck(ts_config **out, const char *path,
                        const char *const *sets, int n_sets) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_str text = {0};
  char *copy = NULL;
  struct stat st;
  /* A look before it is read: a folder or a device has no end. */
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
    TS_THROW(TS_ERR_DECK, "%s: is not a file", path);
  if (stat(path, &st) == 0 && st.st_size > DECK_BYTES_MAX)
    TS_THROW(TS_ERR_DECK, "%s: %lld bytes are no deck", path,
             (long long)st.st_size);
  err = ts_file_read(&text, path);
  if (err == TS_ERR_NOMEM) goto done;
  if (err != TS_OK) {
    char why[512];
    snprintf(why, sizeof why, "%s", ts_err_message());
    ts_err_clear();
    TS_THROW(TS_ERR_DECK, "the deck can't be read: %s", why);
  }
  if (strlen(text.text ? text.text : "") != text.n_bytes)
    TS_THROW(TS_ERR_DECK, "%s: is not a text", path);
  TS_TRY(ts_mem_strdup(&copy, path));
  TS_TRY(deck_create(&c, path, dirname(copy)));
  ts_deck deck = {.config = c, .path = path};
  TS_TRY(parse(&deck, text.text, sets, n_sets));
  *out = c;
done:
  if (err != TS_OK) ts_deck_destroy(c);
  ts_mem_free(copy);
  ts_str_reset(&text);
  return err;
}

ts_err ts_deck_read_all(ts_config **out, const char *path,
                        const char *const *sets, int n_sets) {
  return ts_mpi_agree(read_deck(out, path, sets, n_sets));
}

void ts_deck_destroy(ts_config *c) {
  if (!c) return;
  free_values(TS_SCOPE_DECK, c);
  for (int32_t i = 0; i < c->n_tables; i++) {
    ts_table_config *t = &c->tables[i], *whole = t->part ? NULL : t->whole;
    free_values(TS_SCOPE_TABLE, t);
    if (whole) free_values(TS_SCOPE_TABLE, whole);
    ts_mem_free(whole);
  }
  for (int i = 0; i < ts_schema_n_lists; i++) free_list(c, &ts_schema_lists[i]);
  for (int32_t i = 0; i < c->model.n_layers; i++)
    ts_deck_layer_free(&c->model.layers[i]);
  ts_mem_free(c->model.layers);
  ts_mem_free_all(c->tables, c->deck_path, c->deck_dir, c);
}
