/* deck_wide.c - the tables that wide = true adds behind those of the deck:
 * NAME_wide, one number a row, in the group "wide". */
#include <string.h>

#include "base/kinds.h"
#include "base/mem.h"
#include "io/deck_impl.h"

static ts_strings copy_strings(const ts_strings *from) {
  ts_strings to = {0};
  if (ts_mem_many(to.item, from->n, MISC) != TS_OK) return to;
  for (; to.n < from->n; to.n++)
    if (ts_mem_strdup(&to.item[to.n], from->item[to.n]) != TS_OK) break;
  return to;
}

static ts_ints copy_ints(const ts_ints *from) {
  ts_ints to = {0};
  if (ts_mem_many(to.item, from->n, MISC) != TS_OK) return to;
  to.n = from->n;
  if (to.n) memcpy(to.item, from->item, (size_t)to.n * sizeof *to.item);
  return to;
}

/* What KEY's value at V points to, a copy of the other table's, becomes its
 * own.  What is lacking is said for the whole deck. */
static void own(const ts_key *k, void *v) {
  char *text = NULL;
  switch (k->kind) {
  case TS_KEY_STRING:
  case TS_KEY_PATH:
    if (*(char **)v) (void)ts_mem_strdup(&text, *(char **)v);
    *(char **)v = text;
    break;
  case TS_KEY_STRINGS:
  case TS_KEY_PATHS:
    *(ts_strings *)v = copy_strings(v);
    break;
  case TS_KEY_INTS:
    *(ts_ints *)v = copy_ints(v);
    break;
  default:
    break;
  }
}

void ts_deck_set_text(char **to, const char *a, const char *b) {
  ts_str s = {0};
  (void)ts_str_append(&s, "%s%s", a, b);
  ts_mem_free(*to);
  *to = s.text;
}

void ts_deck_copy_table(ts_table_config *to, const ts_table_config *from) {
  *to = *from;
  for (int i = 0; i < ts_schema_n; i++)
    if (ts_schema[i].scope == TS_SCOPE_TABLE)
      own(&ts_schema[i], (char *)to + ts_schema[i].offset);
}

void ts_deck_fit_dtype(ts_table_config *t) {
  const int64_t bytes = ts_row_bytes(TS_F32, t->dim);
  if (ts_row_bytes(t->dtype, t->dim) >= bytes) t->dtype = TS_F32;
}

/* A column can't be cut; nor has a number a place in its bag, nor fewer numbers
 * that it is made of. */
static void make_wide(ts_table_config *to, const ts_table_config *from) {
  ts_deck_copy_table(to, from);
  ts_deck_set_text(&to->name, from->name, "_wide");
  ts_deck_set_text(&to->group, "wide", "");
  ts_deck_set_text(&to->feature_processor, "none", "");
  ts_deck_no_compress(to);
  if (to->init_kind && !strcmp(to->init_kind, "file"))
    ts_deck_set_text(&to->init_kind, "uniform", ""); /* its rows are wider */
  to->max_length = 0;
  to->dim = 1;
  ts_deck_fit_dtype(to);
  to->wide = false;
  to->is_wide = true;
  if (to->sharding != TS_SHARD_COLUMN_WISE &&
      to->sharding != TS_SHARD_TABLE_COLUMN_WISE &&
      to->sharding != TS_SHARD_GRID)
    return;
  to->sharding = TS_SHARD_AUTO;
  ts_mem_free(to->ranks.item);
  to->ranks = (ts_ints){0};
}

void ts_deck_wide(ts_deck *d, const char *const *sets, int n_sets) {
  const int32_t n = d->config->n_tables;
  for (int32_t t = 0; t < n; t++) {
    if (!d->config->tables[t].wide || !d->config->tables[t].name) continue;
    ts_table_config *to = ts_deck_add_table(d, d->origin[t]);
    if (!to) return;
    make_wide(to, &d->config->tables[t]);
    for (int i = 0; i < n_sets; i++) ts_deck_set_table(d, sets[i], to);
  }
}
