/* deck_help.c - what the schema says of keys: for the terminal, and as part of
 * the manual. */
#include <stdio.h>
#include <string.h>

#include "io/deck_impl.h"

static const char *const kind_text[] = {[TS_KEY_STRING] = "text",
                                        [TS_KEY_CHOICE] = "text",
                                        [TS_KEY_PATH] = "path",
                                        [TS_KEY_INT] = "integer",
                                        [TS_KEY_INT32] = "integer",
                                        [TS_KEY_COUNT] = "integer or text",
                                        [TS_KEY_ROWS] = "integer or list",
                                        [TS_KEY_FLOAT] = "number",
                                        [TS_KEY_BOOL] = "true or false",
                                        [TS_KEY_RANKS] =
                                            "true, false or integer",
                                        [TS_KEY_TIME] = "time",
                                        [TS_KEY_STRINGS] = "list of texts",
                                        [TS_KEY_PATHS] = "path or list",
                                        [TS_KEY_INTS] = "integer or list",
                                        [TS_KEY_FLOATS] = "number or list",
                                        [TS_KEY_LATER] = "not in this version"};

static const char *const scope_prefix[] = {"",
                                           "tables.",
                                           "optimizer.overrides.",
                                           "model.tasks.",
                                           "data.columns.",
                                           "dense.groups.",
                                           "dense.forward_prefetch.",
                                           "dense.backward_prefetch.",
                                           "model.outputs.",
                                           "model.layers."};

/* The choices that are there, or those that are LATER, after HEAD. */
static ts_err print_choices(ts_str *s, const char *choices, bool later,
                            const char *head) {
  bool any = false;
  for (const char *p = choices; p && *p;) {
    const size_t n = strcspn(p, "|");
    if (*p != '?' && (*p == '-') == later) {
      TS_DO(ts_str_append(s, "%s%.*s", any ? " | " : head, (int)(n - later),
                          p + later));
      any = true;
    }
    p += n + (p[n] == '|');
  }
  return TS_OK;
}

/* Kind, unit, choices, limits, default. */
static ts_err describe(ts_str *s, const ts_key *k) {
  TS_DO(ts_str_append(s, "%s", kind_text[k->kind]));
  if (k->unit && *k->unit) TS_DO(ts_str_append(s, " (%s)", k->unit));
  TS_DO(print_choices(s, k->choices, false, "; "));
  if (k->min < k->max) TS_DO(ts_str_append(s, "; %g to %g", k->min, k->max));
  if (k->fallback && *k->fallback)
    TS_DO(ts_str_append(s, "; default %s", k->fallback));
  return print_choices(s, k->choices, true, "; not in this version: ");
}

ts_err ts_deck_help_key(ts_str *s, const ts_key *k, const char *prefix) {
  TS_DO(ts_str_append(s, "%s%s\n    ", prefix, k->path));
  TS_DO(describe(s, k));
  if (*k->help) TS_DO(ts_str_append(s, "\n    %s", k->help));
  return ts_str_append(s, "\n");
}

/* "table_defaults.lr" is explained by "tables.lr". */
static bool covers(const char *key, const char *full) {
  const char *const alias = "table_defaults";
  const size_t n = strlen(alias), len = strlen(key);
  if (!strncmp(key, alias, n) && (key[n] == '.' || !key[n]))
    return !strncmp(full, "tables.", 7) &&
           (!key[n] || covers(key + n + 1, full + 7));
  return !strncmp(full, key, len) && (full[len] == '.' || !full[len]);
}

static const char *const intro =
    "The input deck\n"
    "==============\n"
    "\n"
    "libconfig syntax: name = value; groups in { }, lists of groups in ( ),\n"
    "lists of values in [ ], # comments, @include \"file\".  Numbers take k, "
    "M\n"
    "and G in quotes (\"10M\").  ${NAME} in a text comes from the "
    "environment;\n"
    "{a..b} in a table's name makes one table per number, and counts along in\n"
    "its features.  table_defaults = { ... } says what tables don't.  Paths\n"
    "are relative to the deck's folder.  `--set group.key=value` overrides a\n"
    "key, `--set tables.NAME.key=value` one of a table.\n"
    "\n"
    "What is wrong with a deck is said all at once, by file and line, before\n"
    "anything runs; the program then ends with code 2.  The deck in force is\n"
    "written to OUTPUT/deck.effective and runs to the same result.\n"
    "\n";

ts_err ts_deck_help(ts_str *s, const char *key) {
  const bool all = !strcmp(key, "deck");
  int n = 0;
  if (all) TS_DO(ts_str_append(s, "%s", intro));
  for (int i = 0; i < ts_schema_n; i++) {
    char full[256];
    const ts_key *k = &ts_schema[i];
    snprintf(full, sizeof full, "%s%s", scope_prefix[k->scope], k->path);
    if (!all && !covers(key, full)) continue;
    TS_DO(ts_deck_help_key(s, k, scope_prefix[k->scope]));
    n++;
  }
  if (n) return TS_OK;
  const bool in_table = !strncmp(key, "tables.", 7);
  const ts_scope scope = in_table ? TS_SCOPE_TABLE : TS_SCOPE_DECK;
  const char *near = ts_schema_nearest(scope, key + (in_table ? 7 : 0));
  return ts_fail(TS_ERR_USAGE, "no key \"%s\"%s%s%s%s", key,
                 near ? "; did you mean \"" : "",
                 near ? scope_prefix[scope] : "", near ? near : "",
                 near ? "\"?" : "");
}

/* ---- Texinfo ------------------------------------------------------------- */

/* TEXT with @, { and } escaped; "see NAME in the manual" is a reference. */
static ts_err put_texinfo(ts_str *s, const char *text) {
  static const char see[] = "see ", tail[] = " in the manual";
  for (const char *p = text; *p; p++) {
    const char *end = strncmp(p, see, 4) ? NULL : strstr(p, tail);
    if (end) {
      p += sizeof see - 1;
      TS_DO(ts_str_append(s, "see @ref{%.*s}", (int)(end - p), p));
      p = end + sizeof tail - 2;
    } else {
      TS_DO(ts_str_append(s, "%s%c", strchr("@{}", *p) ? "@" : "", *p));
    }
  }
  return TS_OK;
}

/* Keys of one group are a node with a table of them. */
static ts_err begin_group(ts_str *s, const char *full, const char *before) {
  const int n = (int)strcspn(full, ".");
  if (*before) TS_DO(ts_str_append(s, "@end vtable\n"));
  TS_DO(ts_str_append(s, "\n@node Keys of %.*s\n", n, full));
  TS_DO(ts_str_append(s, "@section @code{%.*s}\n\n", n, full));
  return ts_str_append(s, "@vtable @code\n");
}

ts_err ts_deck_texinfo(ts_str *s) {
  ts_err err = TS_OK;
  ts_str about = {0};
  char full[256], before[256] = "";
  TS_TRY(ts_str_append(s, "@c Written by `tessera help deck --texinfo`.\n"));
  for (int i = 0; i < ts_schema_n; i++) {
    const ts_key *k = &ts_schema[i];
    snprintf(full, sizeof full, "%s%s", scope_prefix[k->scope], k->path);
    if (strncmp(full, before, strcspn(full, ".") + 1) != 0)
      TS_TRY(begin_group(s, full, before));
    memcpy(before, full, sizeof full);
    TS_TRY(ts_str_append(s, "@item %s\n", full));
    TS_TRY(describe(&about, k));
    TS_TRY(put_texinfo(s, about.text));
    TS_TRY(ts_str_append(s, "@*\n"));
    TS_TRY(put_texinfo(s, k->help));
    TS_TRY(ts_str_append(s, "\n"));
    ts_str_reset(&about);
  }
  TS_TRY(ts_str_append(s, "@end vtable\n"));
done:
  ts_str_reset(&about);
  return err;
}
