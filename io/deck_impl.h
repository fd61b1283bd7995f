/* deck_impl.h - reading of decks, in parts; private to deck*.c.
 * All of it is Local. */
#pragma once

#include <libconfig.h>

#include "base/str.h"
#include "io/deck.h"
#include "io/schema.h"

/* A deck being read: where errors are collected, one line each. */
typedef struct ts_deck {
  ts_config *config;
  const char *path; /* for messages */
  ts_str errors;
  int n_errors;
  const char *where; /* in place of file:line, for --set itself */
  int32_t element;   /* number of the table within its {a..b}, else 0 */
  int32_t n_elements;
  int64_t n_items;                 /* of lists that tables have, in all */
  const config_setting_t **origin; /* of each table, for messages */
  int32_t capacity;                /* of tables and origin */
  config_t *defaults; /* (ts_schema_n) each read once: tables are many */
} ts_deck;

/* Adds "file:line: text". */
void ts_deck_error(ts_deck *, const config_setting_t *, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* deck_value.c: the value of KEY from setting S into TO (the field). */
void ts_deck_value(ts_deck *, const ts_key *, const config_setting_t *s,
                   void *to);
/* The schema's defaults, for a deck's reading; the default of KEY into TO. */
ts_err ts_deck_defaults_read(ts_deck *);
void ts_deck_defaults_free(ts_deck *);
void ts_deck_default(ts_deck *, const ts_key *, void *to);
void ts_deck_value_free(const ts_key *, void *to);

/* deck_number.c: a number in KEY's range, seconds of "hh:mm:ss"; 0 and an
 * error where S is none. */
int64_t ts_deck_integer(ts_deck *, const ts_key *, const config_setting_t *s);
double ts_deck_real(ts_deck *, const ts_key *, const config_setting_t *s);
double ts_deck_duration(ts_deck *, const ts_key *, const config_setting_t *s);

/* libconfig silently keeps only 32 bits of an integer without an L.
 * ts_deck_cuts: whether TEXT has a larger one.  ts_deck_widen appends TEXT to
 * OUT, with an L behind all integers where one is larger, as arrays are of one
 * type. */
bool ts_deck_cuts(const char *text);
ts_err ts_deck_widen(ts_str *out, const char *text);

/* deck_text.c: the text of S as it is written, NULL where it is none; of --set
 * also what libconfig takes for something else: name=7. */
const char *ts_deck_raw(const config_setting_t *s);
/* PATH, which it takes, as it is where absolute or empty, else from the deck's
 * folder. */
char *ts_deck_absolute(ts_deck *, char *path);
/* Text with ${NAME} from the environment, and {a..b} taken at the element. */
char *ts_deck_text(ts_deck *, const config_setting_t *, const char *raw);
/* First {a..b} of TEXT: 1 and its numbers and place, 0 where there is none,
 * -1 where it is broken. */
int ts_deck_range(const char *text, long *a, long *b, size_t *at,
                  size_t *n_bytes);

/* deck.c: all keys of SCOPE that group S holds, and one key, into TO. */
void ts_deck_group(ts_deck *, ts_scope, const config_setting_t *s,
                   const char *prefix, void *to);
void ts_deck_key(ts_deck *, ts_scope, const config_setting_t *s,
                 const char *path, void *to);

/* One more table, which S makes, of zeros; NULL: there is no memory. */
ts_table_config *ts_deck_add_table(ts_deck *, const config_setting_t *s);

/* deck_wide.c: the tables that tables with wide = true add, with what --set
 * says of them. */
void ts_deck_wide(ts_deck *, const char *const *sets, int n_sets);
/* TO becomes FROM, with texts and lists of its own; *TO, a text, A and B. */
void ts_deck_copy_table(ts_table_config *to, const ts_table_config *from);
void ts_deck_set_text(char **to, const char *a, const char *b);
/* T, another table's with another dim, has f32 rows where a scale and a bias
 * would make them longer than that. */
void ts_deck_fit_dtype(ts_table_config *t);

/* deck_compress.c: tables with compress become their parts, the first in their
 * place, the others behind all. */
void ts_deck_compress(ts_deck *);
/* T, whose texts and lists are its own, has none. */
void ts_deck_no_compress(ts_table_config *t);
/* Outputs, figures and the like that need a row for each id of a table. */
void ts_deck_check_parts(ts_deck *);

/* deck_set.c: "group.key=value" into the tree: first the deck's own keys, then,
 * LATE, those of layers, which are there then (or, for tables.NAME.key, kept
 * and applied later by ts_deck_set_table). */
void ts_deck_set(ts_deck *, config_t *, const char *text, bool late);
void ts_deck_set_table(ts_deck *, const char *text, ts_table_config *);
/* An error where "tables.NAME.key=value" names no table. */
void ts_deck_set_check(ts_deck *, const char *text);

/* deck_set.c: TO (a parent) gets a copy of FROM under NAME; the element of
 * model.layers called NAME, NULL where there is none. */
void ts_deck_copy(config_setting_t *to, const char *name,
                  const config_setting_t *from);
config_setting_t *ts_deck_layer(config_setting_t *model, const char *name);

/* deck_zoo.c: layers of a graph that comes with the program, model.change. */
void ts_deck_zoo(ts_deck *, config_t *);

/* deck_include.c: past a comment or a text that begins at P; P where there is
 * none. */
const char *ts_deck_skip_quiet(const char *p);
/* Whether what TEXT includes can be read and has an end. */
ts_err ts_deck_includes(const ts_deck *, const char *text);

/* deck.c: the defaults of all keys of SCOPE. */
void ts_deck_defaults(ts_deck *, ts_scope, void *to);

/* deck_layers.c: model.layers, after tables and tasks; what a layer owns. */
void ts_deck_layers(ts_deck *, const config_t *);
void ts_deck_layer_free(ts_layer_config *);

/* deck_help.c: KEY, what it takes, its default, what it is. */
ts_err ts_deck_help_key(ts_str *, const ts_key *, const char *prefix);

/* columns_check.c: data.columns, and what it stands for. */
void ts_columns_check(ts_deck *, const config_setting_t *root);

/* The setting at PATH below ROOT; NULL: there is none. */
static inline const config_setting_t *ts_deck_at(const config_setting_t *root,
                                                 const char *path) {
  return config_setting_lookup((config_setting_t *)root, path);
}
/* outputs_check.c: model.outputs, and what goes by their losses. */
void ts_outputs_check(ts_deck *, const config_setting_t *root);
/* saves_check.c: checkpoints. */
void ts_saves_check(ts_deck *, const config_setting_t *root);
/* times_check.c: the feature whose ids are times. */
void ts_times_check(ts_deck *, const config_setting_t *root);

/* deck_dynamic.c: table T's capacity becomes its rows; first of all checks. */
void ts_deck_check_dynamic(ts_deck *, int32_t t);

/* deck_check.c: what concerns several keys. */
void ts_deck_check(ts_deck *, const config_setting_t *root);
