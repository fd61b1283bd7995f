/* deck_zoo.c - model.kind = NAME of a graph that comes with the program, and
 * model.change: the deck's tree gets model.layers as if they were written
 * there. */
#include <string.h>

#include "io/deck_impl.h"
#include "model/zoo.h"

static config_setting_t *model_of(config_t *tree, bool make) {
  config_setting_t *s = config_lookup(tree, "model");
  if (!s && make)
    s = config_setting_add(config_root_setting(tree), "model",
                           CONFIG_TYPE_GROUP);
  return s && config_setting_is_group(s) ? s : NULL;
}

static void take(ts_deck *d, config_setting_t *model, const char *text) {
  config_t zoo;
  config_init(&zoo);
  config_set_options(&zoo, CONFIG_OPTION_AUTOCONVERT);
  const config_setting_t *from = config_read_string(&zoo, text) == CONFIG_TRUE
                                     ? config_lookup(&zoo, "model")
                                     : NULL;
  if (!from)
    ts_deck_error(d, model, "the graph that came with the program is broken");
  for (int i = 0; from && i < config_setting_length(from); i++) {
    const config_setting_t *s = config_setting_get_elem(from, (unsigned)i);
    const char *name = config_setting_name(s);
    /* The deck's own outputs count. */
    if (!config_setting_get_member(model, name) &&
        !config_setting_get_member(model, "tasks"))
      ts_deck_copy(model, name, s);
    else if (!config_setting_get_member(model, name) &&
             strcmp(name, "outputs") != 0)
      ts_deck_copy(model, name, s);
  }
  config_destroy(&zoo);
}

/* The layer NAME, "block.each" in a block; NULL: there is none. */
static config_setting_t *layer_at(config_setting_t *model, const char *name) {
  char outer[128];
  const char *dot = strchr(name, '.');
  const size_t n = dot ? (size_t)(dot - name) : sizeof outer;
  if (n >= sizeof outer) return ts_deck_layer(model, name);
  memcpy(outer, name, n);
  outer[n] = '\0';
  config_setting_t *block = ts_deck_layer(model, outer);
  return block ? layer_at(block, dot + 1) : NULL;
}

/* An element of model.change: keys over those of the layer of its name. */
static void change(ts_deck *d, config_setting_t *model,
                   const config_setting_t *s) {
  const char *name = NULL;
  if (!config_setting_is_group(s) ||
      !config_setting_lookup_string(s, "name", &name)) {
    ts_deck_error(d, s,
                  "model.change is a list of groups, each with the name "
                  "of a layer: ( { name = \"deep\"; units = [64]; } )");
    return;
  }
  config_setting_t *layer = layer_at(model, name);
  if (!layer) {
    ts_deck_error(d, s, "model.change: there is no layer \"%.80s\"", name);
    return;
  }
  for (int i = 0; i < config_setting_length(s); i++) {
    const config_setting_t *child = config_setting_get_elem(s, (unsigned)i);
    const char *key = config_setting_name(child);
    if (!strcmp(key, "name")) continue;
    (void)config_setting_remove(layer, key);
    ts_deck_copy(layer, key, child);
  }
}

void ts_deck_zoo(ts_deck *d, config_t *tree) {
  config_setting_t *model = model_of(tree, false);
  const char *kind = NULL;
  if (!model) return;
  (void)config_setting_lookup_string(model, "kind", &kind);
  const char *text = kind ? ts_zoo_find(kind) : NULL;
  if (text && !config_setting_get_member(model, "layers")) take(d, model, text);
  const config_setting_t *changes = config_setting_get_member(model, "change");
  for (int i = 0; changes && i < config_setting_length(changes); i++)
    change(d, model, config_setting_get_elem(changes, (unsigned)i));
}
