/* deck_search.c - a space of decks, and the draw of a trial from it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "io/deck_impl.h"
#include "io/search.h"

typedef struct ts_search_reader {
  ts_deck d; /* where errors are collected */
  ts_search *to;
  const char *deck;
  const char **sets; /* of the command line, and room for one more */
  int n_sets;
} ts_search_reader;

/* ---- values -------------------------------------------------------------- */

static ts_err put_number(ts_str *to, double x) {
  return ts_str_append(to, "%.7g", x);
}

/* As few digits as give X again. */
static ts_err put_real(ts_str *to, double x) {
  char text[32];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, x);
    if (strtod(text, NULL) == x) break;
  }
  return ts_str_append(to, "%s", text);
}

/* S as --set takes it. */
static ts_err put_value(ts_str *to, const config_setting_t *s) {
  switch (config_setting_type(s)) {
  case CONFIG_TYPE_INT:
  case CONFIG_TYPE_INT64:
    return ts_str_append(to, "%lld", config_setting_get_int64(s));
  case CONFIG_TYPE_FLOAT:
    return put_real(to, config_setting_get_float(s));
  case CONFIG_TYPE_BOOL:
    return ts_str_append(to, config_setting_get_bool(s) ? "true" : "false");
  case CONFIG_TYPE_STRING:
    return ts_str_append(to, "%s", config_setting_get_string(s));
  default:
    break;
  }
  for (int i = 0; i < config_setting_length(s); i++) {
    TS_DO(ts_str_append(to, i ? ", " : "["));
    TS_DO(put_value(to, config_setting_get_elem(s, (unsigned)i)));
  }
  return ts_str_append(to, "]");
}

/* Whether the deck takes VALUE for PATH: its own reader says so. */
static ts_err try_value(ts_search_reader *r, const config_setting_t *s,
                        const char *path, const char *value) {
  ts_config *c = NULL;
  ts_str set = {0};
  ts_err err = ts_str_append(&set, "%s=%s", path, value);
  if (err == TS_OK) {
    r->sets[r->n_sets] = set.text;
    err = ts_deck_read_all(&c, r->deck, r->sets, r->n_sets + 1);
  }
  if (err == TS_ERR_DECK) {
    const char *text = ts_err_message();
    const size_t n = strlen(set.text);
    if (!strncmp(text, "--set ", 6) && !strncmp(text + 6, set.text, n) &&
        !strncmp(text + 6 + n, ": ", 2))
      text += 8 + n; /* the line says where */
    ts_deck_error(&r->d, s, "%s", text);
    ts_err_clear();
    err = TS_OK;
  }
  ts_deck_destroy(c);
  ts_str_reset(&set);
  return err;
}

static ts_err try_number(ts_search_reader *r, const config_setting_t *s,
                         const char *path, double x) {
  ts_str text = {0};
  ts_err err = put_number(&text, x);
  if (err == TS_OK) err = try_value(r, s, path, text.text);
  ts_str_reset(&text);
  return err;
}

/* ---- keys ---------------------------------------------------------------- */

/* Rows of the schema that take whole numbers alone. */
static bool is_whole(const char *path) {
  const char *in = strncmp(path, "table", 5) ? NULL : strchr(path, '.');
  if (in && !strncmp(path, "tables.", 7)) in = strchr(in + 1, '.');
  const ts_key *k = in ? ts_schema_find(TS_SCOPE_TABLE, in + 1)
                       : ts_schema_find(TS_SCOPE_DECK, path);
  return k && (k->kind == TS_KEY_INT || k->kind == TS_KEY_INT32 ||
               k->kind == TS_KEY_COUNT || k->kind == TS_KEY_ROWS);
}

static bool number_of(ts_search_reader *r, const config_setting_t *s,
                      double *x) {
  const int type = config_setting_type(s);
  *x = type == CONFIG_TYPE_FLOAT   ? config_setting_get_float(s)
       : type == CONFIG_TYPE_INT   ? config_setting_get_int(s)
       : type == CONFIG_TYPE_INT64 ? (double)config_setting_get_int64(s)
                                   : NAN;
  if (isfinite(*x)) return true;
  ts_deck_error(&r->d, s, "%s takes a number", config_setting_name(s));
  return false;
}

/* One member of a range. */
static bool take_member(ts_search_reader *r, ts_search_key *k,
                        const config_setting_t *s) {
  const char *name = config_setting_name(s), *text;
  if (!strcmp(name, "from")) return number_of(r, s, &k->from);
  if (!strcmp(name, "to")) return number_of(r, s, &k->to);
  if (!strcmp(name, "step")) return number_of(r, s, &k->step);
  if (strcmp(name, "scale") != 0) {
    ts_deck_error(&r->d, s,
                  "%s: a range has from, to, scale and step, no \"%s\"",
                  k->path, name);
    return false;
  }
  text = config_setting_get_string(s);
  k->log = text && !strcmp(text, "log");
  if (k->log || (text && !strcmp(text, "linear"))) return true;
  ts_deck_error(&r->d, s, "%s: scale is \"linear\" or \"log\"", k->path);
  return false;
}

static bool range_holds(ts_search_reader *r, const ts_search_key *k,
                        const config_setting_t *s) {
  const char *why = NULL;
  if (isnan(k->from) || isnan(k->to))
    why = "a range has from and to";
  else if (!(k->from < k->to))
    why = "the range is empty: from must be below to";
  else if (k->log && !(k->from > 0))
    why = "scale = \"log\" begins above 0";
  else if (k->step < 0 || k->step > k->to - k->from)
    why = "step goes from above 0 to the range's width";
  else if (k->step > 0 && k->log)
    why = "step is for scale = \"linear\"; a list gives any numbers";
  else if (k->whole && (k->from != floor(k->from) || k->to != floor(k->to) ||
                        k->step != floor(k->step)))
    why = "takes whole numbers";
  if (why) ts_deck_error(&r->d, s, "%s: %s", k->path, why);
  return !why;
}

static ts_err take_range(ts_search_reader *r, ts_search_key *k,
                         const config_setting_t *s) {
  bool fine = true;
  k->from = k->to = NAN;
  for (int i = 0; i < config_setting_length(s); i++)
    fine &= take_member(r, k, config_setting_get_elem(s, (unsigned)i));
  if (!fine || !range_holds(r, k, s)) return TS_OK;
  const int before = r->d.n_errors;
  TS_DO(try_number(r, s, k->path, k->from));
  if (r->d.n_errors > before)
    return TS_OK; /* a key that is none is told once */
  return try_number(r, s, k->path, k->to);
}

static ts_err take_values(ts_search_reader *r, ts_search_key *k,
                          const config_setting_t *s) {
  const int n = config_setting_length(s), before = r->d.n_errors;
  if (!n) ts_deck_error(&r->d, s, "%s has no choices", k->path);
  TS_DO(ts_mem_many(k->values.item, n, MISC));
  for (; k->values.n < n && r->d.n_errors == before;) {
    const config_setting_t *e =
        config_setting_get_elem(s, (unsigned)k->values.n);
    ts_str text = {0};
    const ts_err err = put_value(&text, e);
    k->values.item[k->values.n++] = text.text;
    TS_DO(err);
    TS_DO(try_value(r, e, k->path, text.text ? text.text : ""));
  }
  return TS_OK;
}

static ts_err take_key(ts_search_reader *r, const config_setting_t *s,
                       const char *path) {
  ts_search *to = r->to;
  TS_DO(
      ts_mem_extend(&to->key, to->n, to->n + 1, sizeof *to->key, TS_TAG_MISC));
  ts_search_key *k = &to->key[to->n++];
  *k = (ts_search_key){.whole = is_whole(path)};
  TS_DO(ts_mem_strdup(&k->path, path));
  if (config_setting_is_group(s)) return take_range(r, k, s);
  return take_values(r, k, s);
}

static bool is_range(const config_setting_t *s) {
  return config_setting_is_group(s) && (config_setting_get_member(s, "from") ||
                                        config_setting_get_member(s, "to"));
}

static ts_err take_group(ts_search_reader *r, const config_setting_t *s,
                         const char *prefix) {
  char path[256];
  for (int i = 0; i < config_setting_length(s); i++) {
    const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);
    snprintf(path, sizeof path, "%s%s%.100s", prefix, *prefix ? "." : "",
             config_setting_name(e));
    if (is_range(e) || config_setting_is_array(e) || config_setting_is_list(e))
      TS_DO(take_key(r, e, path));
    else if (config_setting_is_group(e))
      TS_DO(take_group(r, e, path));
    else
      ts_deck_error(&r->d, e,
                    "%s: a space has { from = ..; to = ..; } or a list of "
                    "choices here; one value is the deck's own",
                    path);
  }
  return TS_OK;
}

/* ---- the whole ----------------------------------------------------------- */

static ts_err take_tree(ts_search_reader *r, config_t *tree, const char *text) {
  config_set_options(tree, CONFIG_OPTION_AUTOCONVERT);
  if (config_read_string(tree, text) != CONFIG_TRUE)
    return ts_fail(TS_ERR_DECK, "%s:%d: %s", r->d.path, config_error_line(tree),
                   config_error_text(tree));
  TS_DO(take_group(r, config_root_setting(tree), ""));
  if (!r->to->n && !r->d.n_errors)
    ts_deck_error(&r->d, NULL, "the space has no key");
  return r->d.n_errors ? ts_fail(TS_ERR_DECK, "%s", r->d.errors.text) : TS_OK;
}

ts_err ts_search_read(ts_search *to, const char *path, const char *deck,
                      const char *const *sets, int n_sets) {
  ts_err err = TS_OK;
  ts_search_reader r = {
      .d = {.path = path}, .to = to, .deck = deck, .n_sets = n_sets};
  config_t tree;
  ts_str text = {0}, wide = {0};
  config_init(&tree);
  TS_TRY(ts_mem_many(r.sets, n_sets + 1, MISC));
  for (int i = 0; i < n_sets; i++) r.sets[i] = sets[i];
  TS_TRY(ts_file_read_of_deck(&text, path, "--space"));
  TS_TRY(ts_deck_widen(&wide, text.text ? text.text : ""));
  TS_TRY(take_tree(&r, &tree, wide.text ? wide.text : ""));
done:
  config_destroy(&tree);
  ts_str_reset(&text);
  ts_str_reset(&wide);
  ts_str_reset(&r.d.errors);
  ts_mem_free(r.sets);
  return err;
}

void ts_search_reset(ts_search *s) {
  for (int32_t i = 0; i < s->n; i++) {
    ts_search_key *k = &s->key[i];
    for (int32_t v = 0; v < k->values.n; v++) ts_mem_free(k->values.item[v]);
    ts_mem_free_all(k->values.item, k->path);
  }
  ts_mem_free(s->key);
  *s = (ts_search){0};
}

/* ---- draws --------------------------------------------------------------- */

/* What U, of 0 to 1, is of a range. */
static double number_at(const ts_search_key *k, double u) {
  const double above = k->whole && !k->step ? 1 : 0; /* the last one's share */
  double x = k->log ? exp(log(k->from) + u * log((k->to + above) / k->from))
                    : k->from + u * (k->to + above - k->from);
  if (k->step > 0)
    x = k->from +
        k->step * floor(u * (floor((k->to - k->from) / k->step + 1e-9) + 1));
  else if (k->whole)
    x = floor(x);
  return fmin(fmax(x, k->from), k->to);
}

ts_err ts_search_draw(ts_str *to, const ts_search *s, int32_t k, uint64_t seed,
                      int64_t trial) {
  const ts_search_key *key = &s->key[k];
  uint32_t word[4];
  ts_rng4(word, seed, TS_RNG_TUNE, (uint64_t)trial, (uint32_t)k, 0);
  const double u = ts_rng_unit64(word[0], word[1]);
  const int32_t n = key->values.n;
  if (n) return ts_str_append(to, "%s", key->values.item[(int32_t)(u * n)]);
  if (key->whole) return ts_str_append(to, "%.0f", number_at(key, u));
  return put_number(to, number_at(key, u));
}

static ts_err print_range(ts_str *to, const ts_search_key *k) {
  TS_DO(ts_str_append(to, " "));
  TS_DO(put_real(to, k->from));
  TS_DO(ts_str_append(to, " to "));
  TS_DO(put_real(to, k->to));
  if (k->step > 0) {
    TS_DO(ts_str_append(to, ", step "));
    TS_DO(put_real(to, k->step));
  }
  return ts_str_append(to, k->log ? ", log" : "");
}

ts_err ts_search_print(ts_str *to, const ts_search *s) {
  for (int32_t i = 0; i < s->n; i++) {
    const ts_search_key *k = &s->key[i];
    TS_DO(ts_str_append(to, "%s", k->path));
    for (int32_t v = 0; v < k->values.n; v++)
      TS_DO(ts_str_append(to, "%s %s", v ? "," : "", k->values.item[v]));
    if (!k->values.n) TS_DO(print_range(to, k));
    TS_DO(ts_str_append(to, "\n"));
  }
  return TS_OK;
}
