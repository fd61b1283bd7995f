/* criteo_columns.c - the deck's columns in Criteo's logs. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "io/columns.h"
#include "io/criteo_impl.h"

/* The number of a column that is called SIGN and a number up to MOST; 0: it is
 * not. */
static int numbered(const char *name, char sign, int most) {
  const int k = *name == sign ? atoi(name + 1) : 0;
  return k >= 1 && k <= most ? k : 0;
}

static ts_err find_number(int32_t *to, const char *from) {
  *to = numbered(from, 'I', N_DENSE) - 1;
  if (*to >= 0) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "data.columns: \"%s\" is no number of Criteo's logs; these "
                 "are I1 to I13",
                 from);
}

/* The dense inputs: all 13, or those that the deck lists. */
static ts_err map_numbers(ts_criteo *s) {
  const ts_config *c = s->base.config;
  const bool listed = c->data.n_columns && ts_column_n_dense(c);
  if (!listed && s->n_dense != 0 && s->n_dense != N_DENSE)
    return ts_fail(TS_ERR_DECK,
                   "model.dense_features = %d; Criteo logs have "
                   "13 (or leave them out with 0)",
                   s->n_dense);
  const int32_t n = s->n_dense + s->n_features;
  TS_DO(ts_mem_many(s->number, n, INPUT));
  for (int32_t d = 0; d < s->n_dense; d++) {
    s->number[d] = d;
    if (listed)
      TS_DO(find_number(&s->number[d], ts_column_of_dense(c, d).from));
  }
  for (int32_t f = 0; f < s->n_features; f++) {
    const int32_t k = s->ids[f].input;
    if (k < 0) continue;
    TS_DO(find_number(&s->number[k], ts_column_of_feature(c, f).from));
  }
  return TS_OK;
}

/* What the log has no column for. */
static ts_err refuse_columns(const ts_config *c) {
  TS_DO(ts_columns_of_numbers(c, "criteo_tsv"));
  const char *label = ts_column_of_label(c, 0).from;
  if (ts_column_weight(c))
    return ts_fail(TS_ERR_DECK,
                   "data.columns: Criteo logs have no weights of samples");
  if (c->data.n_columns && strcmp(label, "label") != 0 &&
      strcmp(label, c->data.csv.label) != 0)
    return ts_fail(TS_ERR_DECK,
                   "data.columns: \"%s\" is no label of Criteo's logs, which "
                   "is called \"label\"",
                   label);
  return TS_OK;
}

/* The columns of all features: those of their names C1 .. C26 or of the deck's
 * from, else in order. */
static ts_err find_columns(ts_criteo *s, const ts_feature_columns *m,
                           bool *named) {
  const ts_config *c = s->base.config;
  int32_t of[N_SPARSE]; /* the feature that has it, -1: none yet */
  int32_t n = 0, next = 0;
  *named = true;
  for (int32_t f = 0; f < s->n_features; f++) {
    const char *name;
    if (s->ids[f].input >= 0) continue;
    (void)ts_feature_table(c, f, &name);
    *named &= numbered(ts_column_from(c, name), 'C', N_SPARSE) > 0;
    n += m->first[f] == f;
  }
  if (n > N_SPARSE)
    return ts_fail(TS_ERR_DECK,
                   "Criteo logs have 26 categorical columns, the "
                   "deck has %d features",
                   n);
  for (int k = 0; k < N_SPARSE; k++) of[k] = -1;
  for (int32_t f = 0; f < s->n_features; f++) {
    const char *name;
    if (s->ids[f].input >= 0) continue;
    (void)ts_feature_table(c, f, &name);
    const int k = m->first[f] < f ? s->ids[m->first[f]].column
                  : *named
                      ? numbered(ts_column_from(c, name), 'C', N_SPARSE) - 1
                      : next++;
    if (of[k] >= 0 && of[k] != m->first[f])
      return ts_fail(TS_ERR_DECK, "two features name column C%d, one as %s",
                     k + 1, name);
    of[k] = m->first[f];
    s->ids[f].column = k;
  }
  return TS_OK;
}

static ts_err map_feature(ts_criteo *s, int32_t f, bool named) {
  const ts_config *c = s->base.config;
  const char *name;
  const ts_table_config *t = ts_feature_table(c, f, &name);
  const ts_column_config x = ts_column_of_feature(c, f);
  const char *encoding = ts_column_encoding(c, f, c->data.categorical);
  ts_criteo_ids *ids = &s->ids[f];
  ids->hashed = !strcmp(encoding, "hash");
  ids->words = !strcmp(encoding, "vocabulary");
  ids->start = x.seed ? ts_mix64((uint64_t)x.seed) : 0;
  if (!strcmp(encoding, "none") || (ts_columns_have_ids(c) && !named))
    return ts_fail(TS_ERR_DECK,
                   "data.columns: feature %s takes C1 to C26 of Criteo's "
                   "logs, encoding \"modulo\", \"hash\" or \"vocabulary\"; "
                   "it has \"%s\", "
                   "\"%s\"",
                   name, ts_column_from(c, name), encoding);
  const int64_t rows = ts_table_ids(t); /* of dynamic ones less than 0 */
  ids->rows = rows < 0 || rows > UINT32_MAX ? 0 : (uint32_t)rows;
  if (t->weighted)
    return ts_fail(TS_ERR_DECK,
                   "table %s is weighted; Criteo logs have no "
                   "weights",
                   t->name);
  return TS_OK;
}

static ts_err map_features(ts_criteo *s) {
  ts_err err = TS_OK;
  ts_feature_columns m;
  bool named;
  TS_DO(ts_feature_columns_create(&m, s->base.config));
  for (int32_t f = 0; f < s->n_features; f++)
    s->ids[f].input = ts_scales_of_feature(s->base.scales, f);
  TS_TRY(find_columns(s, &m, &named));
  for (int32_t f = 0; f < s->n_features; f++)
    if (s->ids[f].input < 0) TS_TRY(map_feature(s, f, named));
done:
  ts_feature_columns_reset(&m);
  return err;
}

ts_err ts_criteo_columns(ts_criteo *s) {
  TS_DO(refuse_columns(s->base.config));
  TS_DO(map_features(s));
  return map_numbers(s);
}
