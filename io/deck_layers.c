/* deck_layers.c - model.layers: keys that all kinds have, and a kind's own;
 * blocks are rolled out. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/deck_impl.h"
#include "model/layer.h"

enum { LAYERS_MAX = 4096, NAME_MAX_BYTES = 200, REPEAT_MAX = 1024 };

/* A block that has been rolled out: its name stands for its last layer. */
typedef struct ts_alias {
  char *block, *last;
} ts_alias;

typedef struct ts_layer_reader {
  ts_deck *d;
  ts_alias *aliases;
  int32_t n_aliases;
  /* Of the block under way, "" outside of one. */
  const char *block;
  int32_t round;
  ts_strings in, inner; /* the block's own; names seen in this round */
  char *last;           /* of the round before */
} ts_layer_reader;

/* ---- keys ---------------------------------------------------------------- */

static const ts_key *own_key(const ts_layer_ops *ops, const char *name) {
  for (size_t k = 0; ops && k < ops->n_keys; k++)
    if (!strcmp(ops->keys[k].path, name)) return &ops->keys[k];
  return NULL;
}

static void unknown(ts_deck *d, const config_setting_t *s,
                    const ts_layer_ops *ops, const char *name) {
  const char *best = ts_schema_nearest(TS_SCOPE_LAYER, name);
  char list[512] = "";
  size_t at = 0;
  int least = 3;
  for (size_t k = 0; k < ops->n_keys; k++) {
    const char *key = ops->keys[k].path;
    if (ts_str_distance(key, name) < least)
      best = key, least = ts_str_distance(key, name);
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "",
                           key);
    if (at >= sizeof list) break;
  }
  ts_deck_error(d, s, "kind \"%s\" has no key \"%.80s\"%s%s%s; its own are: %s",
                ops->kind, name, best ? "; did you mean \"" : "",
                best ? best : "", best ? "\"?" : "", *list ? list : "none");
}

static void read_keys(ts_deck *d, const config_setting_t *s,
                      const ts_layer_ops *ops, ts_layer_config *l) {
  for (int i = 0; i < config_setting_length(s); i++) {
    const config_setting_t *child = config_setting_get_elem(s, (unsigned)i);
    const char *name = config_setting_name(child);
    const ts_key *key = own_key(ops, name);
    if (key)
      ts_deck_value(d, key, child, (char *)l->options + key->offset);
    else if (ts_schema_find(TS_SCOPE_LAYER, name) ||
             ts_schema_is_group(TS_SCOPE_LAYER, name))
      ts_deck_key(d, TS_SCOPE_LAYER, child, name, l);
    else
      unknown(d, child, ops, name);
  }
  for (size_t k = 0; k < ops->n_keys; k++) {
    const ts_key *key = &ops->keys[k];
    if (!key->fallback && key->kind != TS_KEY_FLOAT &&
        !config_setting_lookup((config_setting_t *)s, key->path))
      ts_deck_error(d, s, "layer %.80s (%s): the key %s is missing", l->name,
                    ops->kind, key->path);
  }
}

/* ---- names --------------------------------------------------------------- */

/* Letters, digits, _ and -, and "b.3.name" where a block was rolled out. */
static bool is_name(const char *name) {
  const char *dot = strchr(name, '.');
  const char *rest = dot ? dot + 1 + strspn(dot + 1, "0123456789") : name;
  if (!*name || strlen(name) > NAME_MAX_BYTES) return false;
  for (const char *p = name; *p; p++)
    if (!isalnum((unsigned char)*p) && !strchr("_-.", *p)) return false;
  return !dot || (dot > name && rest > dot + 1 && *rest == '.' && rest[1] &&
                  !strchr(rest + 1, '.'));
}

static bool is_input(const ts_config *c, const char *name) {
  if (!strcmp(name, "dense") || !strcmp(name, "embeddings") ||
      !strcmp(name, "fields"))
    return true;
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++)
      if (!strcmp(c->tables[t].features.item[i], name)) return true;
  return false;
}

static void check_name(ts_deck *d, const config_setting_t *s,
                       const char *name) {
  const ts_config *c = d->config;
  if (!is_name(name))
    ts_deck_error(d, s,
                  "\"%.80s\" is no name for a layer: letters, digits, _ and "
                  "-, %d at most",
                  name, NAME_MAX_BYTES);
  if (is_input(c, name))
    ts_deck_error(d, s,
                  "\"%.80s\" is the name of an input: call the layer "
                  "something else",
                  name);
  for (int32_t i = 0; i + 1 < c->model.n_layers; i++)
    if (!strcmp(c->model.layers[i].name, name))
      ts_deck_error(d, s,
                    "there are two layers named \"%.80s\": the other is "
                    "in line %d",
                    name, c->model.layers[i].line);
}

/* A list in place of a name of it. */
static void splice(ts_strings *list, int32_t at, const ts_strings *with) {
  ts_strings out = {0};
  if (ts_mem_many(out.item, list->n + with->n, MISC) != TS_OK) return;
  for (int32_t i = 0; i < list->n; i++) {
    if (i != at)
      out.item[out.n++] = list->item[i];
    else
      ts_mem_free(list->item[i]);
    for (int32_t k = 0; i == at && k < with->n; k++)
      if (ts_mem_strdup(&out.item[out.n], with->item[k]) == TS_OK) out.n++;
  }
  ts_mem_free(list->item);
  *list = out;
}

static void rename_to(char **name, const char *to) {
  char *copy = NULL;
  if (ts_mem_strdup(&copy, to) != TS_OK) return;
  ts_mem_free(*name);
  *name = copy;
}

/* What a name in `in` stands for, inside and behind blocks. */
static void resolve(ts_layer_reader *r, ts_strings *list) {
  for (int32_t i = 0; i < list->n; i++) {
    char text[3 * NAME_MAX_BYTES];
    for (int32_t k = 0; k < r->n_aliases; k++)
      if (!strcmp(list->item[i], r->aliases[k].block))
        rename_to(&list->item[i], r->aliases[k].last);
    if (!*r->block) continue;
    for (int32_t k = 0; k < r->inner.n; k++)
      if (!strcmp(list->item[i], r->inner.item[k])) {
        snprintf(text, sizeof text, "%s.%d.%s", r->block, r->round,
                 r->inner.item[k]);
        rename_to(&list->item[i], text);
        break;
      }
    if (strcmp(list->item[i], r->block) != 0) continue;
    if (r->last) {
      rename_to(&list->item[i], r->last);
    } else {
      splice(list, i, &r->in);
      i += r->in.n - 1;
    }
  }
}

/* ---- layers -------------------------------------------------------------- */

static const char *text_of(ts_deck *d, const config_setting_t *s,
                           const char *key) {
  const char *text = NULL;
  if (!config_setting_is_group(s))
    ts_deck_error(d, s, "model.layers is a list of groups { ... }");
  else if (!config_setting_lookup_string(s, key, &text))
    ts_deck_error(d, s, "a layer has no %s", key);
  return text;
}

static ts_layer_config *add_layer(ts_deck *d) {
  ts_config *c = d->config;
  const int32_t n = c->model.n_layers;
  if (ts_mem_extend(&c->model.layers, n, n + 1, sizeof *c->model.layers,
                    TS_TAG_MISC) != TS_OK)
    return NULL;
  c->model.layers[n] = (ts_layer_config){0};
  c->model.n_layers++;
  return &c->model.layers[n];
}

static void read_layer(ts_layer_reader *r, const config_setting_t *s) {
  ts_deck *d = r->d;
  const char *kind = text_of(d, s, "kind");
  const char *name = kind ? text_of(d, s, "name") : NULL;
  const ts_layer_ops *ops = kind ? ts_layer_find(kind) : NULL;
  char full[3 * NAME_MAX_BYTES];
  if (!name) return;
  if (!ops) {
    ts_deck_error(d, s,
                  "layer %.80s: there is no kind \"%.80s\"; there are: "
                  "%s, block",
                  name, kind, ts_layer_kinds());
    return;
  }
  ts_layer_config *l = add_layer(d);
  if (!l) return;
  ts_deck_defaults(d, TS_SCOPE_LAYER, l);
  l->line = (int)config_setting_source_line(s);
  if (ts_mem_alloc(&l->options, ops->options_bytes ? ops->options_bytes : 1,
                   TS_TAG_MISC) != TS_OK)
    return;
  for (size_t k = 0; k < ops->n_keys; k++)
    ts_deck_default(d, &ops->keys[k], (char *)l->options + ops->keys[k].offset);
  read_keys(d, s, ops, l);
  if (*r->block) {
    snprintf(full, sizeof full, "%s.%d.%.200s", r->block, r->round, name);
    rename_to(&l->name, full);
  }
  check_name(d, s, l->name ? l->name : "");
  resolve(r, &l->in);
  resolve(r, &l->query);
  resolve(r, &l->gate);
  resolve(r, &l->items);
  resolve(r, &l->before);
}

/* ---- blocks -------------------------------------------------------------- */

static void free_strings(ts_strings *list) {
  for (int32_t i = 0; i < list->n; i++) ts_mem_free(list->item[i]);
  ts_mem_free(list->item);
  *list = (ts_strings){0};
}

static void read_rounds(ts_layer_reader *r, const config_setting_t *layers,
                        int32_t repeat) {
  for (r->round = 0; r->round < repeat; r->round++) {
    free_strings(&r->inner);
    for (int i = 0; i < config_setting_length(layers); i++) {
      const config_setting_t *s = config_setting_get_elem(layers, (unsigned)i);
      const char *name = text_of(r->d, s, "name");
      char *copy = NULL;
      if (r->d->config->model.n_layers > LAYERS_MAX) return;
      read_layer(r, s);
      if (!name || ts_mem_strdup(&copy, name) != TS_OK) return;
      if (ts_mem_extend(&r->inner.item, r->inner.n, r->inner.n + 1, sizeof copy,
                        TS_TAG_MISC) == TS_OK)
        r->inner.item[r->inner.n++] = copy;
    }
    const ts_config *c = r->d->config;
    if (c->model.n_layers && c->model.layers[c->model.n_layers - 1].name)
      rename_to(&r->last, c->model.layers[c->model.n_layers - 1].name);
  }
}

static void check_block(ts_deck *d, const config_setting_t *s,
                        const char *name) {
  static const char *const keys[] = {"name", "kind", "in", "repeat", "layers"};
  if (!is_name(name) || is_input(d->config, name))
    ts_deck_error(d, s, "\"%.80s\" is no name for a block", name);
  for (int i = 0; i < config_setting_length(s); i++) {
    const config_setting_t *child = config_setting_get_elem(s, (unsigned)i);
    bool known = false;
    for (int k = 0; k < 5; k++)
      known |= !strcmp(config_setting_name(child), keys[k]);
    if (!known)
      ts_deck_error(d, child,
                    "a block has no key \"%.80s\": it has name, repeat, in, "
                    "layers",
                    config_setting_name(child));
  }
}

static void read_block(ts_layer_reader *r, const config_setting_t *s) {
  static const ts_key in = {
      TS_SCOPE_LAYER, "in", TS_KEY_STRINGS, 0, "[]", "", 1, 0, NULL, ""};
  static const ts_key repeat = {
      TS_SCOPE_LAYER, "repeat", TS_KEY_INT32, 0,    "1",
      "rounds",       1,        REPEAT_MAX,   NULL, ""};
  ts_deck *d = r->d;
  const char *name = text_of(d, s, "name");
  config_setting_t *t = (config_setting_t *)s;
  const config_setting_t *layers = config_setting_lookup(t, "layers");
  const config_setting_t *times = config_setting_lookup(t, "repeat");
  const config_setting_t *from = config_setting_lookup(t, "in");
  int32_t n = 1;
  if (!name || !layers || !config_setting_is_list(layers) ||
      !config_setting_length(layers)) {
    ts_deck_error(d, s,
                  "a block has a name, repeat, in, and layers = ( { ... "
                  "} )");
    return;
  }
  check_block(d, s, name);
  if (times) n = (int32_t)ts_deck_integer(d, &repeat, times);
  if (from) ts_deck_value(d, &in, from, &r->in);
  resolve(r, &r->in);
  r->block = name;
  read_rounds(r, layers, n);
  r->block = "";
  free_strings(&r->in);
  free_strings(&r->inner);
  if (r->last && ts_mem_extend(&r->aliases, r->n_aliases, r->n_aliases + 1,
                               sizeof *r->aliases, TS_TAG_MISC) == TS_OK) {
    ts_alias *a = &r->aliases[r->n_aliases++];
    *a = (ts_alias){.last = r->last};
    (void)ts_mem_strdup(&a->block, name);
  }
  r->last = NULL;
}

/* ---- the whole ----------------------------------------------------------- */

void ts_deck_layers(ts_deck *d, const config_t *tree) {
  ts_config *c = d->config;
  ts_layer_reader r = {.d = d, .block = ""};
  const config_setting_t *s = config_lookup(tree, "model.layers");
  if (!s) return;
  if (!config_setting_is_list(s)) {
    ts_deck_error(d, s,
                  "model.layers is a list of groups: ( { ... }, { ... } "
                  ")");
    return;
  }
  for (int i = 0; i < config_setting_length(s); i++) {
    const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);
    const char *kind = text_of(d, e, "kind");
    if (!kind) continue;
    if (!strcmp(kind, "block"))
      read_block(&r, e);
    else
      read_layer(&r, e);
    if (c->model.n_layers <= LAYERS_MAX) continue;
    ts_deck_error(d, e, "a model has %d layers at most", LAYERS_MAX);
    break;
  }
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    ts_strings one = {&c->model.tasks[k].in, 1};
    ts_strings items = {&c->model.tasks[k].items, 1};
    if (c->model.tasks[k].in && *c->model.tasks[k].in) resolve(&r, &one);
    if (c->model.tasks[k].items) resolve(&r, &items);
  }
  for (int32_t k = 0; k < r.n_aliases; k++)
    ts_mem_free_all(r.aliases[k].block, r.aliases[k].last);
  ts_mem_free(r.aliases);
}

void ts_deck_layer_free(ts_layer_config *l) {
  const ts_layer_ops *ops = l->kind ? ts_layer_find(l->kind) : NULL;
  for (size_t k = 0; ops && l->options && k < ops->n_keys; k++)
    ts_deck_value_free(&ops->keys[k], (char *)l->options + ops->keys[k].offset);
  for (int i = 0; i < ts_schema_n; i++)
    if (ts_schema[i].scope == TS_SCOPE_LAYER)
      ts_deck_value_free(&ts_schema[i], (char *)l + ts_schema[i].offset);
  ts_mem_free(l->options);
}
