/* deck_print.c - the deck in force, from the schema. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "io/deck_impl.h"
#include "model/layer.h"

/* ---- values -------------------------------------------------------------- */

static ts_err print_text(ts_str *s, const char *text) {
  TS_DO(ts_str_append(s, "\""));
  for (; *text; text++) {
    if ((unsigned char)*text < ' ') {
      TS_DO(ts_str_append(s, "\\x%02x", (unsigned)*text));
      continue;
    }
    if (*text == '"' || *text == '\\') TS_DO(ts_str_append(s, "\\"));
    TS_DO(ts_str_append(s, "%c", *text));
  }
  return ts_str_append(s, "\"");
}

static ts_err print_float(ts_str *s, double x) {
  char text[64];
  snprintf(text, sizeof text, "%.17g", x);
  double back;
  char shorter[64];
  snprintf(shorter, sizeof shorter, "%g", x);
  if (sscanf(shorter, "%lf", &back) == 1 && back == x)
    snprintf(text, sizeof text, "%s", shorter);
  return ts_str_append(s, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static ts_err print_choice(ts_str *s, const ts_key *k, int i) {
  const char *p = k->choices;
  while (i-- > 0) p += strcspn(p, "|") + 1;
  if (*p == '-' || *p == '?') p++;
  return ts_str_append(s, "\"%.*s\"", (int)strcspn(p, "|"), p);
}

static ts_err print_strings(ts_str *s, const ts_strings *list) {
  TS_DO(ts_str_append(s, "["));
  for (int32_t i = 0; i < list->n; i++) {
    if (i) TS_DO(ts_str_append(s, ", "));
    TS_DO(print_text(s, list->item[i]));
  }
  return ts_str_append(s, "]");
}

static ts_err print_integer(ts_str *s, int64_t x) {
  return ts_str_append(s, "%lld%s", (long long)x,
                       x > INT32_MAX || x < INT32_MIN ? "L" : "");
}

static ts_err print_ints(ts_str *s, const ts_ints *list) {
  bool wide = false;
  for (int32_t i = 0; i < list->n; i++) wide |= list->item[i] > INT32_MAX;
  TS_DO(ts_str_append(s, "["));
  for (int32_t i = 0; i < list->n; i++)
    TS_DO(ts_str_append(s, "%s%lld%s", i ? ", " : "", (long long)list->item[i],
                        wide ? "L" : ""));
  return ts_str_append(s, "]");
}

static ts_err print_floats(ts_str *s, const ts_floats *list) {
  TS_DO(ts_str_append(s, "["));
  for (int32_t i = 0; i < list->n; i++) {
    if (i) TS_DO(ts_str_append(s, ", "));
    TS_DO(print_float(s, list->item[i]));
  }
  return ts_str_append(s, "]");
}

static ts_err print_time(ts_str *s, double seconds) {
  char buf[32];
  if (seconds <= 0) return ts_str_append(s, "\"\"");
  return ts_str_append(s, "\"%s\"", ts_str_seconds(buf, seconds));
}

/* ROWS are those of a dynamic table. */
static bool is_dynamic(const void *rows) {
  const char *table = (const char *)rows - offsetof(ts_table_config, rows);
  return ts_table_is_dynamic((const void *)table);
}

static ts_err print_value(ts_str *s, const ts_key *k, const void *v) {
  switch (k->kind) {
  case TS_KEY_STRING:
  case TS_KEY_PATH: {
    const char *text = *(char *const *)v;
    return print_text(s, text ? text : "none");
  }
  case TS_KEY_ROWS:
    if (is_dynamic(v)) return print_text(s, "dynamic");
    if (*(const int64_t *)v == TS_ROWS_AUTO) return print_text(s, "auto");
    return print_integer(s, *(const int64_t *)v);
  case TS_KEY_INT:
    return print_integer(s, *(const int64_t *)v);
  case TS_KEY_INT32:
    return print_integer(s, *(const int32_t *)v);
  case TS_KEY_COUNT:
    if (!*(const int32_t *)v) return print_text(s, "auto");
    return print_integer(s, *(const int32_t *)v);
  case TS_KEY_FLOAT:
    if (isnan(*(const double *)v)) return print_text(s, k->choices);
    return print_float(s, *(const double *)v);
  case TS_KEY_BOOL:
    return ts_str_append(s, "%s", *(const bool *)v ? "true" : "false");
  case TS_KEY_TIME:
    return print_time(s, *(const double *)v);
  case TS_KEY_CHOICE:
    return print_choice(s, k, *(const int *)v);
  case TS_KEY_STRINGS:
  case TS_KEY_PATHS:
    return print_strings(s, v);
  case TS_KEY_INTS:
    return print_ints(s, v);
  case TS_KEY_FLOATS:
    return print_floats(s, v);
  case TS_KEY_RANKS: {
    const int32_t n = *(const int32_t *)v;
    return n > 1 ? print_integer(s, n) : ts_str_append(s, n ? "false" : "true");
  }
  case TS_KEY_LATER:
    break;
  }
  return TS_OK;
}

/* ---- groups -------------------------------------------------------------- */

static bool is_given(const ts_key *k, const void *v) {
  if (k->kind == TS_KEY_LATER) return false;
  if (k->kind == TS_KEY_FLOAT) return k->choices || !isnan(*(const double *)v);
  if (!strcmp(k->path, "checkpoint.dir")) return true;
  /* The table that it adds is there itself. */
  if (k->scope == TS_SCOPE_TABLE && !strcmp(k->path, "wide")) return false;
  if (k->kind == TS_KEY_STRING || k->kind == TS_KEY_PATH)
    return *(char *const *)v != NULL;
  /* Either of the pair is left out. */
  if (!strcmp(k->path, "data.global_batch") ||
      !strcmp(k->path, "data.batch_per_rank") || !strcmp(k->path, "run.steps"))
    return *(const int64_t *)v > 0;
  return true;
}

/* Bytes that two paths share in whole parts, dots included. */
static size_t common(const char *a, const char *b) {
  size_t n = 0;
  for (size_t i = 0; a[i] && a[i] == b[i]; i++)
    if (a[i] == '.') n = i + 1;
  return n;
}

static ts_err indent(ts_str *s, int depth) {
  return ts_str_append(s, "%*s", 2 * depth, "");
}

static int dots(const char *path, size_t n_bytes) {
  int n = 0;
  for (size_t i = 0; i < n_bytes; i++) n += path[i] == '.';
  return n;
}

/* Closes the groups of FROM that TO is not in. */
static ts_err close_groups(ts_str *s, const char *from, const char *to,
                           int base) {
  const int keep = dots(to, common(from, to));
  for (int depth = dots(from, strlen(from)); depth > keep; depth--) {
    TS_DO(indent(s, base + depth - 1));
    TS_DO(ts_str_append(s, "};\n"));
  }
  return TS_OK;
}

/* Opens the groups of TO that FROM is not in; returns the last part. */
static ts_err open_groups(ts_str *s, const char *from, const char *to, int base,
                          const char **leaf) {
  size_t at = common(from, to);
  int depth = dots(to, at);
  for (const char *dot; (dot = strchr(to + at, '.'));
       at = (size_t)(dot - to) + 1) {
    TS_DO(indent(s, base + depth++));
    TS_DO(ts_str_append(s, "%.*s = {\n", (int)(dot - to - (long)at), to + at));
  }
  *leaf = to + at;
  return TS_OK;
}

/* Those of the N KEYS that are of SCOPE. */
static ts_err print_keys(ts_str *s, const ts_key *keys, int n, ts_scope scope,
                         const void *from, int base) {
  const char *before = "", *leaf;
  for (int i = 0; i < n; i++) {
    const ts_key *k = &keys[i];
    const void *v = (const char *)from + k->offset;
    if (k->scope != scope || !is_given(k, v)) continue;
    TS_DO(close_groups(s, before, k->path, base));
    TS_DO(open_groups(s, before, k->path, base, &leaf));
    TS_DO(indent(s, base + dots(k->path, strlen(k->path))));
    TS_DO(ts_str_append(s, "%s = ", leaf));
    TS_DO(print_value(s, k, v));
    TS_DO(ts_str_append(s, ";\n"));
    before = k->path;
  }
  return close_groups(s, before, "", base);
}

static ts_err print_scope(ts_str *s, ts_scope scope, const void *from,
                          int base) {
  return print_keys(s, ts_schema, ts_schema_n, scope, from, base);
}

/* model.layers: keys that all kinds have, and the kind's own. */
static ts_err print_layers(ts_str *s, const ts_config *c) {
  TS_DO(ts_str_append(s, "layers = (\n"));
  for (int32_t i = 0; i < c->model.n_layers; i++) {
    const ts_layer_config *l = &c->model.layers[i];
    const ts_layer_ops *ops = ts_layer_find(l->kind);
    TS_DO(ts_str_append(s, "  {\n"));
    TS_DO(print_scope(s, TS_SCOPE_LAYER, l, 2));
    TS_DO(print_keys(s, ops->keys, (int)ops->n_keys, TS_SCOPE_LAYER, l->options,
                     2));
    TS_DO(ts_str_append(s, "  }%s\n", i + 1 < c->model.n_layers ? "," : ""));
  }
  return ts_str_append(s, ");\n");
}

static ts_err print_list(ts_str *s, const char *head, ts_scope scope,
                         const void *items, int32_t n, size_t size) {
  TS_DO(ts_str_append(s, "%s = (\n", head));
  for (int32_t i = 0; i < n; i++) {
    TS_DO(ts_str_append(s, "  {\n"));
    TS_DO(print_scope(s, scope, (const char *)items + (size_t)i * size, 2));
    TS_DO(ts_str_append(s, "  }%s\n", i + 1 < n ? "," : ""));
  }
  return ts_str_append(s, ");\n");
}

/* The lists of the group that P, the text of one, begins with. */
static ts_err print_lists(ts_str *s, const char *p, const ts_config *c) {
  for (int i = 0; i < ts_schema_n_lists; i++) {
    const ts_key_list *list = &ts_schema_lists[i];
    const size_t at = strcspn(list->path, ".");
    const int32_t n = *(const int32_t *)((const char *)c + list->n);
    const void *items;
    if (!n || !ts_schema_list_is_on(list, c)) continue;
    if (strncmp(p, list->path, at) != 0 || p[at] != ' ') continue;
    memcpy(&items, (const char *)c + list->items, sizeof items);
    TS_DO(
        print_list(s, list->path + at + 1, list->scope, items, n, list->size));
  }
  return TS_OK;
}

/* Lists inside a group are put before its end. */
static ts_err print_groups(ts_str *s, const ts_config *c) {
  ts_err err = TS_OK;
  ts_str all = {0};
  TS_TRY(print_scope(&all, TS_SCOPE_DECK, c, 0));
  for (const char *p = all.text, *end; (end = strstr(p, "\n};\n"));
       p = end + 4) {
    TS_TRY(ts_str_append_bytes(s, p, (size_t)(end + 1 - p)));
    TS_TRY(print_lists(s, p, c));
    if (c->model.n_layers && !strncmp(p, "model ", 6))
      TS_TRY(print_layers(s, c));
    TS_TRY(ts_str_append(s, "};\n"));
  }
done:
  ts_str_reset(&all);
  return err;
}

/* Those whose parts are in force as the deck says them. */
static ts_err print_tables(ts_str *s, const ts_config *c) {
  ts_table_config *all = NULL;
  int32_t n = 0;
  TS_DO(ts_mem_many(all, c->n_tables, MISC));
  for (int32_t t = 0; t < c->n_tables; t++)
    if (ts_table_is_first(&c->tables[t]))
      all[n++] = *ts_table_whole(&c->tables[t]);
  const ts_err err =
      print_list(s, "tables", TS_SCOPE_TABLE, all, n, sizeof *all);
  ts_mem_free(all);
  return err;
}

ts_err ts_deck_print(ts_str *s, const ts_config *c) {
  TS_DO(ts_str_append(s, "# The deck in force, written by tessera.\n"));
  TS_DO(print_groups(s, c));
  return print_tables(s, c);
}

ts_err ts_deck_hash(uint64_t *hash, const ts_config *c) {
  ts_str s = {0};
  const ts_err err = ts_deck_print(&s, c);
  if (err == TS_OK) *hash = ts_fnv1a(TS_FNV_START, s.text, s.n_bytes);
  ts_str_reset(&s);
  return err;
}
