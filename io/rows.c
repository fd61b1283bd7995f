/* rows.c - the rows that data need of the tables. */
#include "io/rows.h"

#include <stdio.h>
#include <string.h>

#include "base/compress.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/tensors.h"

/* Tables that one message has room for. */
enum { TABLES_SAID = 20 };

/* As in the schema. */
static const int64_t rows_max = INT64_C(9000000000000000);

static bool is_open(const ts_table_config *t) {
  return t->rows == TS_ROWS_AUTO;
}

bool ts_rows_are_open(const ts_config *c) {
  for (int32_t i = 0; i < c->n_tables; i++)
    if (is_open(&c->tables[i])) return true;
  return false;
}

ts_err ts_rows_refuse(const ts_config *c, const ts_source_ops *ops) {
  int32_t i = 0;
  while (i < c->n_tables && !is_open(&c->tables[i])) i++;
  if (i == c->n_tables || ops->needs) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "table %s: rows = \"auto\" is for data that need a number of "
                 "rows: ids of format %s are made to fit any; give one",
                 c->tables[i].name, ops->format);
}

/* ---- what is needed ------------------------------------------------------ */

/* A table's features together; one of which it is not known makes it so. */
static void join(ts_need *to, const ts_need *x, const char *feature) {
  if (x->rows > to->rows) to->feature = feature;
  if (x->rows > to->rows) to->rows = x->rows;
  to->plain |= x->plain;
  to->sampled |= x->sampled;
  if (x->why) to->why = x->why;
  if (x->rows > rows_max) to->why = "its ids are larger than any table";
}

ts_err ts_rows_needed(ts_need *tables, ts_source *s, bool sample) {
  ts_err err = TS_OK;
  ts_need *features = NULL;
  const char *name;
  if (!s || !s->ops->needs) return TS_OK;
  TS_TRY(ts_mem_many(features, s->info.n_features, INPUT));
  TS_TRY(s->ops->needs(s, features, sample));
  const int32_t times = ts_feature_of_times(s->config);
  for (int32_t f = 0; f < s->info.n_features; f++) {
    if (f == times) continue; /* they are no rows */
    const ts_table_config *t = ts_feature_table(s->config, f, &name);
    join(&tables[t - s->config->tables], &features[f], name);
  }
done:
  ts_mem_free(features);
  return err;
}

/* ---- what there is ------------------------------------------------------- */

static ts_err say_unknown(ts_str *s, const ts_table_config *t,
                          const ts_need *n) {
  return ts_str_append(s,
                       "table %s: rows = \"auto\" is not known: %s; or give "
                       "a number\n",
                       t->name, n->why);
}

static ts_err say_too_few(ts_str *s, const ts_table_config *t,
                          const ts_need *n) {
  return ts_str_append(s,
                       "feature %s has %lld%s %s and needs %lld rows; table "
                       "%s has %lld\n",
                       n->feature, (long long)n->rows - 1,
                       n->sampled ? " or more" : "",
                       n->plain ? "as its largest id" : "values",
                       (long long)n->rows, t->name, (long long)t->rows);
}

/* Too few for what the reader doesn't leave to data.on_bad_id. */
static bool has_too_few(const ts_config *c, const ts_table_config *t,
                        const ts_need *n, bool strict) {
  const bool drops = c->data.on_bad_id == TS_ON_BAD_DROP;
  if (ts_table_is_dynamic(t)) return false;
  return n->rows > ts_table_ids(t) && (!n->plain || (strict && !drops));
}

/* Rows that T begins with are no fewer than its file of them has. */
static ts_err take_open(ts_table_config *t, const ts_need *n) {
  ts_err err = TS_OK;
  ts_tensors *f = NULL;
  const ts_tensor *x;
  ts_table_ids_are(t, n->rows);
  if (strcmp(t->init_kind, "file") != 0 || !ts_path_is_array(t->init_path))
    return TS_OK;
  TS_TRY(ts_tensors_open(&f, t->init_path));
  TS_TRY(ts_tensors_rows(f, &x));
  if (x->dims[0] > t->rows) t->rows = x->dims[0];
done:
  ts_tensors_close(f);
  return err;
}

ts_err ts_rows_take(const ts_config *c, const ts_need *needs, bool strict) {
  ts_err err = TS_OK;
  ts_str all = {0};
  ts_err code = TS_ERR_DATA;
  int n_said = 0;
  for (int32_t i = 0; i < c->n_tables && n_said < TABLES_SAID; i++) {
    ts_table_config *t = &c->tables[i];
    const ts_need *n = &needs[i];
    const bool open = is_open(t), known = n->rows > 0 && !n->why;
    if (open && known) {
      TS_TRY(take_open(t, n));
      continue;
    }
    if (!open && !has_too_few(c, t, n, strict)) continue;
    if (!ts_table_is_first(t)) continue; /* said of the first part */
    TS_TRY(open ? say_unknown(&all, ts_table_whole(t), n)
                : say_too_few(&all, ts_table_whole(t), n));
    if (open) code = TS_ERR_DECK;
    n_said++;
  }
  if (!n_said) goto done;
  all.text[--all.n_bytes] = '\0';
  err = ts_fail(code, "%s%s", all.text,
                code == TS_ERR_DATA ? "; rows = \"auto\" takes what is needed"
                                    : "");
done:
  ts_str_reset(&all);
  return err;
}

void ts_rows_print(const ts_config *c, const ts_need *needs) {
  ts_info("%-20s %15s %15s", "rows of table", "in the deck", "needed");
  for (int32_t i = 0; i < c->n_tables; i++) {
    const ts_table_config *t = ts_table_whole(&c->tables[i]);
    const ts_need *n = &needs[i];
    char has[32] = "auto", wants[32] = "any";
    if (!ts_table_is_first(&c->tables[i])) continue;
    if (!is_open(t)) ts_str_count(has, t->rows);
    if (n->rows) ts_str_count(wants, n->rows);
    ts_info("%-20s %15s %15s%s", t->name, has, wants,
            n->sampled ? " or more, by the first ids" : "");
  }
}

/* ---- at the opening ------------------------------------------------------ */

ts_err ts_rows_share(const ts_config *c, ts_comm *comm) {
  ts_err err = TS_OK;
  int64_t *rows = NULL;
  TS_TRY(ts_mem_many(rows, c->n_tables, INPUT));
  for (int32_t i = 0; i < c->n_tables; i++)
    rows[i] = ts_table_whole(&c->tables[i])->rows;
  TS_TRY(ts_comm_bcast(comm, rows, c->n_tables * (int64_t)sizeof *rows, 0));
  for (int32_t i = 0; i < c->n_tables; i++)
    ts_table_ids_are(&c->tables[i], rows[i]);
done:
  ts_mem_free(rows);
  return err;
}

enum { OTHERS = 2 }; /* data.valid, data.eval */

static ts_err take(ts_source *s, ts_source *const others[OTHERS]) {
  ts_err err = TS_OK;
  ts_need *needs = NULL;
  TS_TRY(ts_mem_many(needs, s->config->n_tables, INPUT));
  TS_TRY(ts_rows_needed(needs, s, false));
  for (int i = 0; i < OTHERS; i++)
    TS_TRY(ts_rows_needed(needs, others[i], false));
  TS_TRY(ts_rows_take(s->config, needs, false));
done:
  ts_mem_free(needs);
  return err;
}

ts_err ts_rows_settle(ts_source *s, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_source *others[OTHERS] = {NULL};
  const ts_config *c = s->config;
  ts_str state = {0};
  /* Words that only other data have are row 0; their ids need rows. */
  const bool looks =
      ts_rows_are_open(c) && s->split == TS_SPLIT_TRAIN && s->ops->plain_ids;
  if (looks && s->ops->state_save)
    TS_TRY(ts_agree(comm, s->ops->state_save(s, &state)));
  if (looks && c->data.valid.n)
    TS_TRY(
        ts_source_open_only(&others[0], c, TS_SPLIT_VALID, state.text, comm));
  if (looks && c->data.eval.n)
    TS_TRY(ts_source_open_only(&others[1], c, TS_SPLIT_EVAL, state.text, comm));
  TS_TRY(ts_agree(comm, take(s, others)));
  TS_TRY(ts_rows_share(c, comm));
done:
  for (int i = 0; i < OTHERS; i++) ts_source_close(others[i]);
  ts_str_reset(&state);
  return err;
}
