/* deck_set.c - "--set group.key=value" over a deck's tree. */
#include <stdio.h>
#include <string.h>

#include "io/deck_impl.h"

enum { PATH_MAX_BYTES = 256 };

/* "KEY=VALUE": KEY into BUF, VALUE returned; NULL where it is broken. */
static const char *split(char *buf, const char *text) {
  const char *equals = strchr(text, '=');
  if (!equals || equals == text || equals - text >= PATH_MAX_BYTES) return NULL;
  snprintf(buf, PATH_MAX_BYTES, "%.*s", (int)(equals - text), text);
  return equals + 1;
}

/* VALUE as libconfig reads it, else as a text. */
static const config_setting_t *value_setting(config_t *snippet, const char *set,
                                             const char *value) {
  ts_str text = {0};
  (void)ts_str_append(&text, "v = ");
  (void)ts_deck_widen(&text, value);
  (void)ts_str_append(&text, ";");
  config_set_options(snippet, CONFIG_OPTION_AUTOCONVERT);
  /* "true" alone, lists and groups are libconfig's; words are texts. */
  if (!*value || !text.text ||
      config_read_string(snippet, text.text) != CONFIG_TRUE ||
      config_setting_length(config_root_setting(snippet)) != 1) {
    config_destroy(snippet);
    config_init(snippet);
    config_set_options(snippet, CONFIG_OPTION_AUTOCONVERT);
    config_setting_t *s = config_setting_add(config_root_setting(snippet), "v",
                                             CONFIG_TYPE_STRING);
    (void)config_setting_set_string(s, value);
  }
  ts_str_reset(&text);
  config_setting_set_hook(config_lookup(snippet, "v"), (void *)set);
  return config_lookup(snippet, "v");
}

/* TO (a parent) gets a copy of FROM under NAME. */
void ts_deck_copy(config_setting_t *to, const char *name,
                  const config_setting_t *from) {
  const int type = config_setting_type(from);
  config_setting_t *s = config_setting_add(to, name, type);
  if (!s) return;
  config_setting_set_hook(s, config_setting_get_hook(from));
  switch (type) {
  case CONFIG_TYPE_INT:
    (void)config_setting_set_int(s, config_setting_get_int(from));
    break;
  case CONFIG_TYPE_INT64:
    (void)config_setting_set_int64(s, config_setting_get_int64(from));
    break;
  case CONFIG_TYPE_FLOAT:
    (void)config_setting_set_float(s, config_setting_get_float(from));
    break;
  case CONFIG_TYPE_BOOL:
    (void)config_setting_set_bool(s, config_setting_get_bool(from));
    break;
  case CONFIG_TYPE_STRING:
    (void)config_setting_set_string(s, config_setting_get_string(from));
    break;
  default:
    for (int i = 0; i < config_setting_length(from); i++) {
      const config_setting_t *e = config_setting_get_elem(from, (unsigned)i);
      ts_deck_copy(s, config_setting_name(e), e);
    }
  }
}

/* The element called NAME of the list model.layers, for "model.NAME.key". */
config_setting_t *ts_deck_layer(config_setting_t *model, const char *name) {
  config_setting_t *list = config_setting_get_member(model, "layers");
  for (int i = 0; list && i < config_setting_length(list); i++) {
    config_setting_t *e = config_setting_get_elem(list, (unsigned)i);
    const char *own = NULL;
    if (config_setting_is_group(e) &&
        config_setting_lookup_string(e, "name", &own) && !strcmp(own, name))
      return e;
  }
  return NULL;
}

/* The group that PATH's last part belongs to, made where it is missing. */
static config_setting_t *parent_of(config_t *tree, char *path,
                                   const char **leaf) {
  config_setting_t *s = config_root_setting(tree);
  char *part = path;
  for (char *dot; (dot = strchr(part, '.')); part = dot + 1) {
    *dot = '\0';
    config_setting_t *child = config_setting_get_member(s, part);
    if (!child) child = ts_deck_layer(s, part);
    if (!child) child = config_setting_add(s, part, CONFIG_TYPE_GROUP);
    if (!child || !config_setting_is_group(child)) return NULL;
    s = child;
  }
  *leaf = part;
  return s;
}

static bool is_table_set(const char *key) {
  return !strncmp(key, "tables.", 7);
}

/* The other key of a pair that says one thing in two ways; the one that --set
 * gives counts. */
static const char *other_of(const char *key) {
  static const char *const pairs[][2] = {
      {"run.steps", "run.epochs"},
      {"model.kind", "model.layers"},
      {"data.global_batch", "data.batch_per_rank"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    for (int k = 0; k < 2; k++)
      if (!strcmp(key, pairs[i][k])) return pairs[i][1 - k];
  return NULL;
}

static void forget_other(ts_deck *d, config_t *tree, const char *key) {
  const char *other = other_of(key), *name = other ? strchr(other, '.') : NULL;
  config_setting_t *s = other ? config_lookup(tree, other) : NULL;
  if (s && !config_setting_get_hook(s))
    (void)config_setting_remove(config_setting_parent(s), name + 1);
  else if (s && !strncmp(key, "model.", 6))
    ts_deck_error(d, s,
                  "model.kind and model.layers are both given by --set: one of "
                  "them says what the model is");
}

static void set_key(ts_deck *d, config_t *tree, char *key, const char *text,
                    const char *value) {
  const char *leaf = NULL;
  config_t snippet;
  forget_other(d, tree, key);
  config_init(&snippet);
  const config_setting_t *from = value_setting(&snippet, text, value);
  config_setting_t *parent = parent_of(tree, key, &leaf);
  if (!parent) {
    ts_deck_error(d, NULL, "\"%s\" is not a group", key);
  } else {
    (void)config_setting_remove(parent, leaf);
    ts_deck_copy(parent, leaf, from);
  }
  config_destroy(&snippet);
}

/* Known, or left to the lists' own code. */
static bool is_key(const char *key) {
  return !strcmp(key, "tables") || !strncmp(key, "table_defaults", 14) ||
         !strcmp(key, "model.layers") || !strcmp(key, "model.change") ||
         ts_schema_list(key) || ts_schema_find(TS_SCOPE_DECK, key) ||
         ts_schema_is_group(TS_SCOPE_DECK, key);
}

/* "model.NAME.key" of a layer that is there. */
static bool is_layer_key(config_t *tree, const char *key) {
  char name[PATH_MAX_BYTES];
  config_setting_t *model = config_lookup(tree, "model");
  const char *dot = !strncmp(key, "model.", 6) ? strchr(key + 6, '.') : NULL;
  if (!dot || !model) return false;
  snprintf(name, sizeof name, "%.*s", (int)(dot - key - 6), key + 6);
  return ts_deck_layer(model, name) != NULL;
}

void ts_deck_set(ts_deck *d, config_t *tree, const char *text, bool late) {
  char key[PATH_MAX_BYTES];
  const char *value = split(key, text);
  d->where = text;
  if (!value) {
    if (!late) ts_deck_error(d, NULL, "is not group.key=value");
  } else if (is_table_set(key) || is_key(key) == late) {
    d->where = NULL; /* in its turn */
  } else if (!late || is_layer_key(tree, key)) {
    set_key(d, tree, key, text, value);
  } else {
    const char *near = ts_schema_nearest(TS_SCOPE_DECK, key);
    ts_deck_error(d, NULL, "unknown key \"%s\"%s%s%s", key,
                  near ? "; did you mean \"" : "", near ? near : "",
                  near ? "\"?" : "");
  }
  d->where = NULL;
}

/* The key that KEY, "tables.NAME.key", has for table T, else NULL. */
static const char *key_of_table(const char *key, const ts_table_config *t) {
  const size_t n = t->name ? strlen(t->name) : 0;
  if (!n || strncmp(key + 7, t->name, n) != 0 || key[7 + n] != '.') return NULL;
  return key + 8 + n;
}

void ts_deck_set_table(ts_deck *d, const char *text, ts_table_config *t) {
  char key[PATH_MAX_BYTES];
  const char *value = split(key, text);
  config_t snippet;
  if (!value || !is_table_set(key)) return;
  const char *of_table = key_of_table(key, t);
  if (!of_table) return;
  const int32_t n = d->n_elements;
  d->n_elements = 0; /* the value is for this table alone */
  config_init(&snippet);
  ts_deck_key(d, TS_SCOPE_TABLE, value_setting(&snippet, text, value), of_table,
              t);
  config_destroy(&snippet);
  d->n_elements = n;
}

void ts_deck_set_check(ts_deck *d, const char *text) {
  char key[PATH_MAX_BYTES];
  if (!split(key, text) || !is_table_set(key)) return;
  for (int32_t t = 0; t < d->config->n_tables; t++)
    if (key_of_table(key, &d->config->tables[t])) return;
  d->where = text;
  ts_deck_error(d, NULL, "there is no such table; tables.NAME.key=value");
  d->where = NULL;
}
