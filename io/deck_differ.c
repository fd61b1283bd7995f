/* deck_differ.c - the settings of two decks in force that differ, of those that
 * decide what is trained.
 *
 * Both are texts of ts_deck_print.  The older one may be another version's, so
 * it is taken as a tree of settings, whatever they are called. */
#include <string.h>

#include "io/deck_impl.h"

/* Settings that a message lists, and bytes of a value there. */
enum { LISTED_MAX = 10, VALUE_MAX = 60, PATH_BYTES = 512 };

/* What decides it; a dot at the end stands for all of a group. */
static const char *const deciding[] = {"data.",
                                       "model.",
                                       "optimizer.",
                                       "run.seed",
                                       "run.precision",
                                       "run.accumulate",
                                       "run.on_nan",
                                       "run.stop.",
                                       "pipeline.kind",
                                       "dense.comm_dtype",
                                       "tables.",
                                       "sharding.comm_dtype_forward",
                                       NULL};
/* But for these, which decide where, how fast or what is measured. */
static const char *const others[] = {"data.eval",
                                     "data.valid",
                                     "data.items",
                                     "data.pin_memory",
                                     "data.input",
                                     "data.dedup",
                                     "data.max_bad",
                                     "data.synthetic.eval_samples",
                                     "optimizer.in_backward",
                                     NULL};
static const char *const others_of_tables[] = {"sharding", "ranks",  "allow",
                                               "kernel",   "cache.", NULL};

static bool in_list(const char *const *list, const char *path) {
  for (; *list; list++) {
    const size_t n = strlen(*list);
    const bool group = (*list)[n - 1] == '.';
    if (group ? !strncmp(path, *list, n) : !strcmp(path, *list)) return true;
  }
  return false;
}

/* A place in both trees. */
typedef struct ts_place {
  ts_scope scope;
  char path[PATH_BYTES]; /* for messages */
  size_t key;            /* where the key's path in its scope begins there */
} ts_place;

typedef struct ts_differing {
  ts_str *out;
  int n;
} ts_differing;

static bool decides(const ts_place *at) {
  if (at->scope == TS_SCOPE_TABLE &&
      in_list(others_of_tables, at->path + at->key))
    return false;
  return in_list(deciding, at->path) && !in_list(others, at->path);
}

/* A key that decks may leave out; any other that one of them lacks is of one
 * version alone. */
static bool is_optional(const ts_place *at) {
  const ts_key *k = ts_schema_find(at->scope, at->path + at->key);
  return k && (!k->fallback || !strcmp(k->path, "data.global_batch") ||
               !strcmp(k->path, "data.batch_per_rank"));
}

static ts_err print(ts_str *to, const config_setting_t *s) {
  if (!s) return ts_str_append(to, "not given");
  switch (config_setting_type(s)) {
  case CONFIG_TYPE_STRING:
    return ts_str_append(to, "\"%s\"", config_setting_get_string(s));
  case CONFIG_TYPE_FLOAT:
    return ts_str_append(to, "%.10g", config_setting_get_float(s));
  case CONFIG_TYPE_BOOL:
    return ts_str_append(to, config_setting_get_bool(s) ? "true" : "false");
  case CONFIG_TYPE_ARRAY:
    TS_DO(ts_str_append(to, "["));
    for (int i = 0; i < config_setting_length(s); i++) {
      TS_DO(ts_str_append(to, i ? ", " : ""));
      TS_DO(print(to, config_setting_get_elem(s, (unsigned)i)));
    }
    return ts_str_append(to, "]");
  default:
    return ts_str_append(to, "%lld", (long long)config_setting_get_int64(s));
  }
}

/* One of both may be NULL. */
static ts_err compare(ts_differing *d, const ts_place *at,
                      const config_setting_t *was, const config_setting_t *is) {
  ts_err err = TS_OK;
  ts_str a = {0}, b = {0};
  if (!decides(at) || (!(was && is) && !is_optional(at))) return TS_OK;
  TS_TRY(print(&a, was));
  TS_TRY(print(&b, is));
  if (!strcmp(a.text, b.text) || d->n++ >= LISTED_MAX) goto done;
  TS_TRY(ts_str_append(d->out, "%s%s ", d->n > 1 ? ", " : "", at->path));
  if (a.n_bytes > VALUE_MAX || b.n_bytes > VALUE_MAX)
    TS_TRY(ts_str_append(d->out, "is another"));
  else
    TS_TRY(ts_str_append(d->out, "%s -> %s", a.text, b.text));
done:
  ts_str_reset(&a);
  ts_str_reset(&b);
  return err;
}

static ts_err walk(ts_differing *, const ts_place *, const config_setting_t *,
                   const config_setting_t *);

/* The element of the list WAS that is IS, number I: the one of its name, or
 * of its number. */
static const config_setting_t *element(const config_setting_t *was,
                                       const config_setting_t *is, int i,
                                       const char **name) {
  const char *other;
  if (!config_setting_lookup_string(is, "name", name)) {
    *name = NULL;
    return config_setting_get_elem(was, (unsigned)i);
  }
  for (int k = 0; k < config_setting_length(was); k++) {
    const config_setting_t *e = config_setting_get_elem(was, (unsigned)k);
    if (config_setting_lookup_string(e, "name", &other) &&
        !strcmp(other, *name))
      return e;
  }
  return NULL;
}

/* Elements that one side alone has make another model, which is an error of
 * its own. */
static ts_err walk_list(ts_differing *d, const ts_place *at,
                        const config_setting_t *was,
                        const config_setting_t *is) {
  const ts_key_list *list = ts_schema_list(at->path);
  for (int i = 0; i < config_setting_length(is); i++) {
    const config_setting_t *e = config_setting_get_elem(is, (unsigned)i);
    const char *name;
    const config_setting_t *old = element(was, e, i, &name);
    ts_place in = {.scope = list ? list->scope : TS_SCOPE_TABLE};
    if (name)
      snprintf(in.path, sizeof in.path, "%.250s.%.250s", at->path, name);
    else
      snprintf(in.path, sizeof in.path, "%.250s[%d]", at->path, i + 1);
    in.key = strlen(in.path) + 1;
    if (old && config_setting_is_group(old)) TS_DO(walk(d, &in, old, e));
  }
  return TS_OK;
}

static ts_err member(ts_differing *d, const ts_place *at,
                     const config_setting_t *was, const config_setting_t *is) {
  const int type = config_setting_type(is ? is : was);
  if (type == CONFIG_TYPE_GROUP || type == CONFIG_TYPE_LIST) {
    if (!was || !is || config_setting_type(was) != config_setting_type(is))
      return TS_OK;
    return type == CONFIG_TYPE_GROUP ? walk(d, at, was, is)
                                     : walk_list(d, at, was, is);
  }
  return compare(d, at, was, is);
}

/* The members of two groups, those of the new one first. */
static ts_err walk(ts_differing *d, const ts_place *at,
                   const config_setting_t *was, const config_setting_t *is) {
  const config_setting_t *const side[] = {is, was};
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < config_setting_length(side[k]); i++) {
      const config_setting_t *s = config_setting_get_elem(side[k], (unsigned)i);
      const char *name = config_setting_name(s);
      const config_setting_t *o = config_setting_get_member(side[!k], name);
      ts_place in = *at;
      if (k && o) continue;
      snprintf(in.path, sizeof in.path, "%.400s%s%.100s", at->path,
               *at->path ? "." : "", name);
      TS_DO(member(d, &in, k ? s : o, k ? o : s));
    }
  return TS_OK;
}

ts_err ts_deck_differ(ts_str *out, const char *old, const ts_config *c) {
  ts_err err = TS_OK;
  ts_differing d = {.out = out};
  ts_str now = {0};
  config_t was, is;
  config_init(&was);
  config_init(&is);
  if (strstr(old, "@include")) goto done; /* no file is read for it */
  TS_TRY(ts_deck_print(&now, c));
  if (config_read_string(&was, old) != CONFIG_TRUE ||
      config_read_string(&is, now.text) != CONFIG_TRUE)
    goto done; /* nothing is known of the older one */
  const ts_place root = {.scope = TS_SCOPE_DECK};
  TS_TRY(walk(&d, &root, config_root_setting(&was), config_root_setting(&is)));
  if (d.n > LISTED_MAX)
    TS_TRY(ts_str_append(out, " and %d more", d.n - LISTED_MAX));
done:
  config_destroy(&was);
  config_destroy(&is);
  ts_str_reset(&now);
  return err;
}
