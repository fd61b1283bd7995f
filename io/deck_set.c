/* deck_set.c - "--set group.key=value" over a deck's tree. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
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
static const config_setting_t *value_setting(config_t *snippet,
                                             const char *value) {
  ts_str text = {0};
  (void)ts_str_append(&text, "v = %s;", value);
  config_set_options(snippet, CONFIG_OPTION_AUTOCONVERT);
  /* "true" alone, lists and groups are libconfig's; words are texts. */
  if (!*value || config_read_string(snippet, text.text) != CONFIG_TRUE) {
    config_destroy(snippet);
    config_init(snippet);
    config_set_options(snippet, CONFIG_OPTION_AUTOCONVERT);
    config_setting_t *s = config_setting_add(config_root_setting(snippet), "v",
                                             CONFIG_TYPE_STRING);
    (void)config_setting_set_string(s, value);
  }
  ts_str_reset(&text);
  return config_lookup(snippet, "v");
}

/* TO (a parent) gets a copy of FROM under NAME. */
static void copy_setting(config_setting_t *to, const char *name,
                         const config_setting_t *from) {
  const int type = config_setting_type(from);
  config_setting_t *s = config_setting_add(to, name, type);
  if (!s) return;
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
      copy_setting(s, config_setting_name(e), e);
    }
  }
}

/* The group that PATH's last part belongs to, made where it is missing. */
static config_setting_t *parent_of(config_t *tree, char *path,
                                   const char **leaf) {
  config_setting_t *s = config_root_setting(tree);
  char *part = path;
  for (char *dot; (dot = strchr(part, '.')); part = dot + 1) {
    *dot = '\0';
    config_setting_t *child = config_setting_get_member(s, part);
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

void ts_deck_set(ts_deck *d, config_t *tree, const char *text) {
  char key[PATH_MAX_BYTES], where[PATH_MAX_BYTES + 32];
  const char *leaf = NULL, *value = split(key, text);
  config_t snippet;
  snprintf(where, sizeof where, "--set %.200s", text);
  d->where = where;
  if (!value) {
    ts_deck_error(d, NULL, "is not group.key=value");
  } else if (!is_table_set(key)) {
    /* Unknown keys are named here, where --set can be named too. */
    if (strcmp(key, "tables") && strncmp(key, "table_defaults", 14) &&
        strcmp(key, "optimizer.overrides") && strcmp(key, "model.tasks") &&
        !ts_schema_find(TS_SCOPE_DECK, key) &&
        !ts_schema_is_group(TS_SCOPE_DECK, key)) {
      const char *near = ts_schema_nearest(TS_SCOPE_DECK, key);
      ts_deck_error(d, NULL, "unknown key \"%s\"%s%s%s", key,
                    near ? "; did you mean \"" : "", near ? near : "",
                    near ? "\"?" : "");
    } else {
      config_init(&snippet);
      const config_setting_t *from = value_setting(&snippet, value);
      config_setting_t *parent = parent_of(tree, key, &leaf);
      if (!parent) {
        ts_deck_error(d, NULL, "\"%s\" is not a group", key);
      } else {
        (void)config_setting_remove(parent, leaf);
        copy_setting(parent, leaf, from);
      }
      config_destroy(&snippet);
    }
  }
  d->where = NULL;
}

void ts_deck_set_table(ts_deck *d, const char *text, ts_table_config *t) {
  char key[PATH_MAX_BYTES], where[PATH_MAX_BYTES + 32];
  const char *value = split(key, text);
  config_t snippet;
  if (!value || !is_table_set(key)) return;
  const size_t n = t->name ? strlen(t->name) : 0;
  if (!n || strncmp(key + 7, t->name, n) != 0 || key[7 + n] != '.') return;
  const ts_key *k = ts_schema_find(TS_SCOPE_TABLE, key + 8 + n);
  snprintf(where, sizeof where, "--set %.200s", text);
  d->where = where;
  if (!k) {
    ts_deck_error(d, NULL, "unknown key \"%s\" of a table", key + 8 + n);
  } else {
    config_init(&snippet);
    ts_deck_value(d, k, value_setting(&snippet, value), (char *)t + k->offset);
    config_destroy(&snippet);
  }
  d->where = NULL;
}
