/* deck_value.c - values of a deck, by the kinds of the schema. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/deck_impl.h"
#include "runtime/backends.h"

enum { ERRORS_BYTES_MAX = 2800, ITEMS_MAX = 1 << 20 };

/* The text of the --set that made S, NULL: S is of the deck.  --set keeps its
 * text as the setting's hook; settings of a deck have none. */
static const char *set_of(const config_setting_t *s) {
  for (; s; s = config_setting_parent(s))
    if (config_setting_get_hook(s)) return config_setting_get_hook(s);
  return NULL;
}

/* The line is there already: one {a..b} makes many tables. */
static bool is_known(const ts_deck *d, const char *line) {
  const size_t n = strlen(line);
  for (const char *p = d->errors.text; p && (p = strstr(p, line)); p += n)
    if ((p == d->errors.text || p[-1] == '\n') && (p[n] == '\n' || !p[n]))
      return true;
  return false;
}

void ts_deck_error(ts_deck *d, const config_setting_t *s, const char *fmt,
                   ...) {
  va_list args;
  char text[1024], line[1536];
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  /* One message has room for so many. */
  d->n_errors++;
  if (d->errors.n_bytes > ERRORS_BYTES_MAX) return;
  const char *file = s ? config_setting_source_file(s) : NULL;
  const int number = s ? config_setting_source_line(s) : 0;
  const char *set = d->where ? d->where : set_of(s);
  if (set)
    snprintf(line, sizeof line, "--set %.200s: %s", set, text);
  else if (number)
    snprintf(line, sizeof line, "%.300s:%d: %s", file ? file : d->path, number,
             text);
  else
    snprintf(line, sizeof line, "%.300s: %s", d->path, text);
  if (is_known(d, line)) return;
  (void)ts_str_append(&d->errors, "%s%s", d->errors.n_bytes ? "\n" : "", line);
  if (d->errors.n_bytes > ERRORS_BYTES_MAX)
    (void)ts_str_append(&d->errors, "\n... and maybe more");
}

/* ---- choices ------------------------------------------------------------- */

/* The words of "a|b|-c|?d" that are there, with commas. */
static void list_choices(char *buf, size_t n, const char *choices) {
  size_t at = 0;
  buf[0] = '\0';
  for (const char *p = choices; *p;) {
    const size_t len = strcspn(p, "|");
    if (*p != '-' && *p != '?')
      at += (size_t)snprintf(buf + at, at < n ? n - at : 0, "%s%.*s",
                             at ? ", " : "", (int)len, p);
    p += len + (p[len] == '|');
  }
}

/* Position of WORD among the choices, -1 where it is not there. */
static int choice_of(ts_deck *d, const ts_key *k, const config_setting_t *s,
                     const char *word) {
  char list[512];
  const size_t n = strlen(word);
  const char *p = k->choices;
  for (int i = 0;; i++) {
    const size_t len = strcspn(p, "|");
    const bool later = *p == '-', added = *p == '?';
    const char *name = p + (later || added);
    if (p + len == name + n && !strncmp(name, word, n)) {
      if (added && !ts_backend_find(word)) break;
      if (!later) return i;
      list_choices(list, sizeof list, k->choices);
      ts_deck_error(d, s, "%s: \"%s\" is not in this version; it has: %s",
                    k->path, word, list);
      return -1;
    }
    if (!p[len]) break;
    p += len + 1;
  }
  list_choices(list, sizeof list, k->choices);
  if (*list)
    ts_deck_error(d, s, "%s: \"%s\" is not one of: %s", k->path, word, list);
  else
    ts_deck_error(d, s, "%s is not in this version", k->path);
  return -1;
}

/* ---- the kinds ----------------------------------------------------------- */

/* Whether TEXT is one of the words that a key for paths or numbers takes, too:
 * checkpoint.dir = "none". */
static bool is_word(const ts_key *k, const char *text) {
  const size_t n = text ? strlen(text) : 0;
  for (const char *p = text ? k->choices : NULL; p && *p;) {
    const size_t len = strcspn(p, "|");
    if (len == n && !strncmp(p, text, n)) return true;
    p += len + (p[len] == '|');
  }
  return false;
}

static void take_string(ts_deck *d, const ts_key *k, const config_setting_t *s,
                        char **to) {
  const char *raw = ts_deck_raw(s);
  if (!raw) {
    ts_deck_error(d, s, "%s takes a text in quotes", k->path);
    return;
  }
  char *text = ts_deck_text(d, s, raw);
  if (!text) return;
  if (k->kind != TS_KEY_PATH && k->choices && choice_of(d, k, s, text) < 0) {
    ts_mem_free(text);
    return;
  }
  if (k->kind == TS_KEY_PATH && !is_word(k, text))
    text = ts_deck_absolute(d, text);
  ts_mem_free(*to);
  *to = text;
}

static void take_choice(ts_deck *d, const ts_key *k, const config_setting_t *s,
                        int *to) {
  const char *word = ts_deck_raw(s);
  if (!word) {
    ts_deck_error(d, s, "%s takes a text in quotes", k->path);
    return;
  }
  const int i = choice_of(d, k, s, word);
  if (i >= 0) *to = i;
}

static void take_bool(ts_deck *d, const ts_key *k, const config_setting_t *s,
                      bool *to) {
  if (config_setting_type(s) != CONFIG_TYPE_BOOL) {
    ts_deck_error(d, s, "%s takes true or false", k->path);
    return;
  }
  const bool value = config_setting_get_bool(s) != 0;
  if (k->choices && choice_of(d, k, s, value ? "true" : "false") < 0) return;
  *to = value;
}

static int n_items(const config_setting_t *s) {
  return config_setting_is_aggregate(s) ? config_setting_length(s) : 1;
}

static const config_setting_t *item(const config_setting_t *s, int i) {
  return config_setting_is_aggregate(s)
             ? config_setting_get_elem(s, (unsigned)i)
             : s;
}

/* Lists double at the powers of two. */
static void add_string(ts_strings *list, char *text) {
  if (!text) return;
  const size_t n = (size_t)list->n, size = sizeof(char *);
  if ((n & (n - 1)) == 0 &&
      ts_mem_resize(&list->item, n * size, (n ? 2 * n : 1) * size,
                    TS_TAG_MISC) != TS_OK) {
    ts_mem_free(text);
    return;
  }
  list->item[list->n++] = text;
}

/* N more items for lists of tables: a short text may ask for many. */
static bool has_room(ts_deck *d, const config_setting_t *s, int64_t n) {
  d->n_items += n;
  if (d->n_items <= ITEMS_MAX) return true;
  ts_deck_error(d, s, "the tables list over %d features and ranks", ITEMS_MAX);
  return false;
}

/* Features of a table whose name doesn't count: C{1..3} are three. */
static void add_counted(ts_deck *d, const config_setting_t *s, const char *raw,
                        ts_strings *to) {
  long a = 0, b = 0;
  size_t at, n;
  const int range = d->n_elements ? 0 : ts_deck_range(raw, &a, &b, &at, &n);
  if (!has_room(d, s, range > 0 ? b - a + 1 : 1)) return;
  if (range <= 0) {
    if (range < 0) ts_deck_error(d, s, "\"%.80s\": {a..b} is broken", raw);
    add_string(to, ts_deck_text(d, s, raw));
    return;
  }
  d->n_elements = (int32_t)(b - a + 1);
  for (d->element = 0; d->element <= b - a; d->element++)
    add_string(to, ts_deck_text(d, s, raw));
  d->element = d->n_elements = 0;
}

static void take_strings(ts_deck *d, const ts_key *k, const config_setting_t *s,
                         ts_strings *to) {
  ts_deck_value_free(k, to);
  if (k->choices && !*k->choices && n_items(s)) {
    ts_deck_error(d, s, "%s is not in this version", k->path);
    return;
  }
  for (int i = 0; i < n_items(s); i++) {
    const char *raw = ts_deck_raw(item(s, i));
    if (!raw) {
      ts_deck_error(d, s, "%s takes texts in quotes", k->path);
      return;
    }
    if (k->choices && choice_of(d, k, item(s, i), raw) < 0) return;
    if (k->scope == TS_SCOPE_TABLE)
      add_counted(d, s, raw, to);
    else if (k->kind == TS_KEY_PATHS)
      add_string(to, ts_deck_absolute(d, ts_deck_text(d, s, raw)));
    else
      add_string(to, ts_deck_text(d, s, raw));
  }
}

static void take_ints(ts_deck *d, const ts_key *k, const config_setting_t *s,
                      ts_ints *to) {
  const int n = n_items(s);
  ts_deck_value_free(k, to);
  if (k->scope == TS_SCOPE_TABLE && !has_room(d, s, n)) return;
  if (ts_mem_many(to->item, n, MISC) != TS_OK) return;
  to->n = n;
  for (int i = 0; i < n; i++) to->item[i] = ts_deck_integer(d, k, item(s, i));
}

static void take_floats(ts_deck *d, const ts_key *k, const config_setting_t *s,
                        ts_floats *to) {
  const int n = n_items(s);
  ts_deck_value_free(k, to);
  if (ts_mem_many(to->item, n, MISC) != TS_OK) return;
  to->n = n;
  for (int i = 0; i < n; i++) to->item[i] = ts_deck_real(d, k, item(s, i));
}

static bool is_auto(const config_setting_t *s) {
  const char *text = ts_deck_raw(s);
  return text && !strcmp(text, "auto");
}

static int64_t rows_of(ts_deck *d, const ts_key *k, const config_setting_t *s) {
  const char *text = ts_deck_raw(s);
  if (text && !strcmp(text, "dynamic")) return TS_ROWS_DYNAMIC;
  return is_auto(s) ? TS_ROWS_AUTO : ts_deck_integer(d, k, s);
}

static void take_rows(ts_deck *d, const ts_key *k, const config_setting_t *s,
                      int64_t *to) {
  const int n = n_items(s);
  if (config_setting_is_aggregate(s) && n != d->n_elements) {
    ts_deck_error(d, s, "rows lists %d numbers, the name counts %d", n,
                  d->n_elements ? d->n_elements : 1);
    return;
  }
  s = item(s, config_setting_is_aggregate(s) ? d->element : 0);
  *to = rows_of(d, k, s);
}

/* A number over zero, or the word "auto". */
static int32_t count(ts_deck *d, const ts_key *k, const config_setting_t *s) {
  if (is_auto(s)) return 0;
  return (int32_t)ts_deck_integer(d, k, s);
}

void ts_deck_value(ts_deck *d, const ts_key *k, const config_setting_t *s,
                   void *to) {
  switch (k->kind) {
  case TS_KEY_STRING:
  case TS_KEY_PATH:
    take_string(d, k, s, to);
    break;
  case TS_KEY_INT:
    *(int64_t *)to = ts_deck_integer(d, k, s);
    break;
  case TS_KEY_INT32:
    *(int32_t *)to = (int32_t)ts_deck_integer(d, k, s);
    break;
  case TS_KEY_COUNT:
    *(int32_t *)to = count(d, k, s);
    break;
  case TS_KEY_FLOAT:
    *(double *)to = is_word(k, ts_deck_raw(s)) ? NAN : ts_deck_real(d, k, s);
    break;
  case TS_KEY_BOOL:
    take_bool(d, k, s, to);
    break;
  case TS_KEY_RANKS:
    if (config_setting_type(s) == CONFIG_TYPE_BOOL)
      *(int32_t *)to = config_setting_get_bool(s) ? 0 : 1;
    else
      *(int32_t *)to = (int32_t)ts_deck_integer(d, k, s);
    break;
  case TS_KEY_TIME:
    *(double *)to = ts_deck_duration(d, k, s);
    break;
  case TS_KEY_CHOICE:
    take_choice(d, k, s, to);
    break;
  case TS_KEY_STRINGS:
  case TS_KEY_PATHS:
    take_strings(d, k, s, to);
    break;
  case TS_KEY_INTS:
    take_ints(d, k, s, to);
    break;
  case TS_KEY_FLOATS:
    take_floats(d, k, s, to);
    break;
  case TS_KEY_ROWS:
    take_rows(d, k, s, to);
    break;
  case TS_KEY_LATER:
    ts_deck_error(d, s, "%s is not in this version", k->path);
    break;
  }
}

ts_err ts_deck_defaults_read(ts_deck *d) {
  char text[256];
  TS_DO(ts_mem_many(d->defaults, ts_schema_n, MISC));
  for (int i = 0; i < ts_schema_n; i++) {
    const ts_key *k = &ts_schema[i];
    config_init(&d->defaults[i]);
    if (k->kind == TS_KEY_LATER || !k->fallback) continue;
    config_set_options(&d->defaults[i], CONFIG_OPTION_AUTOCONVERT);
    snprintf(text, sizeof text, "v = %s;", k->fallback);
    if (config_read_string(&d->defaults[i], text) != CONFIG_TRUE)
      ts_deck_error(d, NULL, "the default of %s is broken", k->path);
  }
  return TS_OK;
}

void ts_deck_defaults_free(ts_deck *d) {
  for (int i = 0; d->defaults && i < ts_schema_n; i++)
    config_destroy(&d->defaults[i]);
  ts_mem_free(d->defaults);
}

/* Of a kind of layer's own key. */
static void default_alone(ts_deck *d, const ts_key *k, void *to) {
  config_t tree;
  char text[256];
  config_init(&tree);
  config_set_options(&tree, CONFIG_OPTION_AUTOCONVERT);
  snprintf(text, sizeof text, "v = %s;", k->fallback);
  if (config_read_string(&tree, text) == CONFIG_TRUE)
    ts_deck_value(d, k, config_lookup(&tree, "v"), to);
  config_destroy(&tree);
}

void ts_deck_default(ts_deck *d, const ts_key *k, void *to) {
  if (k->kind == TS_KEY_LATER) return;
  if (k->kind == TS_KEY_FLOAT && !k->fallback) *(double *)to = NAN;
  if (!k->fallback) return;
  if (k < ts_schema || k >= ts_schema + ts_schema_n) {
    default_alone(d, k, to);
    return;
  }
  const config_setting_t *s = config_lookup(&d->defaults[k - ts_schema], "v");
  if (s) ts_deck_value(d, k, s, to);
}

void ts_deck_value_free(const ts_key *k, void *to) {
  if (k->kind == TS_KEY_STRING || k->kind == TS_KEY_PATH) {
    ts_mem_free(*(char **)to);
    *(char **)to = NULL;
  }
  if (k->kind == TS_KEY_STRINGS || k->kind == TS_KEY_PATHS) {
    ts_strings *list = to;
    for (int32_t i = 0; i < list->n; i++) ts_mem_free(list->item[i]);
    ts_mem_free(list->item);
    *list = (ts_strings){0};
  }
  if (k->kind == TS_KEY_INTS) {
    ts_mem_free(((ts_ints *)to)->item);
    *(ts_ints *)to = (ts_ints){0};
  }
  if (k->kind == TS_KEY_FLOATS) {
    ts_mem_free(((ts_floats *)to)->item);
    *(ts_floats *)to = (ts_floats){0};
  }
}
