/* deck_check.c - what one key can't know of another.
 *
 * Runs after errors, too, so that all are seen at once; a key that is there
 * and broken is then not called missing. */
#include <stdlib.h>
#include <string.h>

#include "base/tasks.h"
#include "base/features.h"
#include "base/mem.h"
#include "io/deck_impl.h"
#include "io/order.h"
#include "io/source.h"
#include "io/split.h"

/* Exactly one of the keys A and B has a value over zero. */
static void check_one_of(ts_deck *d, const config_setting_t *root,
                         const char *a, const char *b, bool has_a, bool has_b) {
  const bool broken =
      d->n_errors && (ts_deck_at(root, a) || ts_deck_at(root, b));
  if (has_a && has_b)
    ts_deck_error(d, ts_deck_at(root, a),
                  "%s and %s are both given: one is enough", a, b);
  if (!has_a && !has_b && !broken)
    ts_deck_error(d, NULL, "%s or %s is missing", a, b);
}

/* A name and the table that it comes from, for sorting. */
typedef struct use {
  const char *name;
  int32_t table;
} use;

static int by_name(const void *a, const void *b) {
  const use *x = a, *y = b;
  const int order = strcmp(x->name, y->name);
  return order ? order : (x->table > y->table) - (x->table < y->table);
}

/* Names of tables are given once, and in a table its features. */
static void check_names(ts_deck *d, bool features) {
  const ts_config *c = d->config;
  use *uses = NULL;
  int64_t n = 0;
  for (int32_t t = 0; t < c->n_tables; t++)
    n += features ? c->tables[t].features.n : 1;
  if (ts_mem_many(uses, n, MISC) != TS_OK) return;
  n = 0;
  for (int32_t t = 0; t < c->n_tables; t++) {
    for (int32_t i = 0; features && i < c->tables[t].features.n; i++)
      uses[n++] = (use){c->tables[t].features.item[i], t};
    if (!features && c->tables[t].name) uses[n++] = (use){c->tables[t].name, t};
  }
  if (n) qsort(uses, (size_t)n, sizeof *uses, by_name);
  for (int64_t i = 1; i < n; i++) {
    const use *x = &uses[i];
    if (strcmp(x->name, x[-1].name) != 0) continue;
    if (features && x->table != x[-1].table) continue;
    if (features)
      ts_deck_error(
          d, d->origin[x->table],
          "feature \"%.80s\" of table %.80s is already in table %.80s", x->name,
          c->tables[x->table].name, c->tables[x[-1].table].name);
    else
      ts_deck_error(d, d->origin[x->table], "there are two tables named %.80s",
                    x->name);
  }
  ts_mem_free(uses);
}

static void check_table(ts_deck *d, int32_t t, int n_before) {
  const ts_table_config *x = ts_table_whole(&d->config->tables[t]);
  const config_setting_t *s = d->origin[t];
  const char *name = x->name ? x->name : "";
  if (!x->rows && !(n_before && ts_deck_at(s, "rows")))
    ts_deck_error(d, s, "table %.80s has no rows", name);
  if (!x->features.n && !(n_before && ts_deck_at(s, "features")))
    ts_deck_error(d, s, "table %.80s has no features", name);
  if (strchr(name, '/') || !*name)
    ts_deck_error(d, s, "\"%.80s\" is no name for a table", name);
  if (x->ema && !(d->config->optimizer.ema > 0))
    ts_deck_error(d, s,
                  "table %.80s: ema = true needs optimizer.ema, which says how "
                  "slowly averages move",
                  name);
  if ((x->max_norm > 0 || x->ema) && x->optimizer.kind &&
      !strcmp(x->optimizer.kind, "none"))
    ts_deck_error(d, s,
                  "table %.80s: %s needs an optimizer of rows, and \"none\" "
                  "leaves the rows to the deck's",
                  name, x->ema ? "ema" : "max_norm");
}

static void check_processor(ts_deck *d, int32_t t) {
  const ts_table_config *x = ts_table_whole(&d->config->tables[t]);
  const config_setting_t *s = d->origin[t];
  const char *name = x->name ? x->name : "";
  if (!x->feature_processor || strcmp(x->feature_processor, "none") == 0) {
    if (x->max_length > 0)
      ts_deck_error(d, s,
                    "table %.80s: feature_processor.max_length is for "
                    "position_weighted",
                    name);
    return;
  }
  if (x->max_length < 1)
    ts_deck_error(d, s,
                  "table %.80s: position_weighted needs "
                  "feature_processor.max_length, at least 1",
                  name);
  if (x->weighted)
    ts_deck_error(d, s,
                  "table %.80s: position_weighted gives the ids their weights: "
                  "the table can't be weighted, too",
                  name);
  if (x->pooling == TS_POOL_NONE)
    ts_deck_error(d, s,
                  "table %.80s: position_weighted weighs sums and means of "
                  "bags: pooling can't be \"none\"",
                  name);
}

static void check_tier(ts_deck *d, int32_t t) {
  const ts_table_config *x = ts_table_whole(&d->config->tables[t]);
  const config_setting_t *s = d->origin[t];
  const char *dir = d->config->run.tier_dir;
  const char *name = x->name ? x->name : "";
  if (!ts_table_is_slow(x)) return;
  if (x->cache.tier && !strcmp(x->cache.tier, "file") && (!dir || !*dir))
    ts_deck_error(d, s,
                  "table %.80s: cache.tier = \"file\" needs run.tier_dir, a "
                  "folder on a disk of the node's own",
                  name);
}

static void check_init(ts_deck *d, int32_t t) {
  const ts_table_config *x = ts_table_whole(&d->config->tables[t]);
  const char *name = x->name ? x->name : "";
  if (!x->init_kind || !x->init_path) return; /* broken */
  const bool file = !strcmp(x->init_kind, "file");
  if (file && !*x->init_path)
    ts_deck_error(d, d->origin[t],
                  "table %.80s: init.kind = \"file\" needs init.path", name);
  if (!file && *x->init_path)
    ts_deck_error(d, d->origin[t],
                  "table %.80s: init.path is for init.kind = \"file\"", name);
}

static bool has_feature(const ts_config *c, const char *name) {
  return ts_feature_find(c, name) >= 0;
}

static void check_dedup(ts_deck *d, const config_setting_t *root) {
  const ts_strings *dedup = &d->config->data.dedup;
  for (int32_t i = 0; i < dedup->n; i++)
    if (!has_feature(d->config, dedup->item[i]))
      ts_deck_error(d, ts_deck_at(root, "data.dedup"),
                    "data.dedup: no table has a feature \"%.80s\"",
                    dedup->item[i]);
}

/* KEY names FIGURE. */
static void check_grouped(ts_deck *d, const config_setting_t *root,
                          const char *key, const char *figure) {
  static const char *const grouped[] = {"gauc", "ndcg", "hit_rate", "mrr",
                                        "recall_at_k"};
  /* Outputs over items rank, but for the first of these. */
  const size_t n = ts_task_is_of_items(d->config->model.tasks)
                       ? 1
                       : sizeof grouped / sizeof *grouped;
  for (size_t k = 0; k < n; k++)
    if (figure && !strcmp(figure, grouped[k]))
      ts_deck_error(d, ts_deck_at(root, key),
                    "%s: %s needs metrics.group, the feature that says to "
                    "which group a sample belongs",
                    key, figure);
}

static void check_report(ts_deck *d, const config_setting_t *root) {
  const ts_strings *report = &d->config->metrics.report;
  const char *group = d->config->metrics.group;
  if (!group) return; /* broken */
  if (*group && !has_feature(d->config, group))
    ts_deck_error(d, ts_deck_at(root, "metrics.group"),
                  "metrics.group: no table has a feature \"%.80s\"", group);
  if (*group) return;
  for (int32_t i = 0; i < report->n; i++)
    check_grouped(d, root, "metrics.report", report->item[i]);
  check_grouped(d, root, "run.stop.metric", d->config->run.stop.metric);
}

/* Their names are those of groups in checkpoints. */
static void check_tasks(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const config_setting_t *s =
      ts_deck_at(root, c->model.has_outputs ? "model.outputs" : "model.tasks");
  for (int32_t i = 0; i < c->model.n_tasks; i++) {
    const char *name = c->model.tasks[i].name;
    if (!name) continue; /* broken */
    if (strchr(name, '/') || !*name)
      ts_deck_error(d, s, "\"%.80s\" is no name for a task", name);
    for (int32_t k = 0; k < i; k++)
      if (c->model.tasks[k].name && !strcmp(c->model.tasks[k].name, name))
        ts_deck_error(d, s, "there are two tasks named %.80s", name);
  }
}

/* They are a part of inputs' names. */
static void check_group_name(ts_deck *d, int32_t t) {
  const char *group = d->config->tables[t].group;
  if (group && strpbrk(group, ".@:,/ "))
    ts_deck_error(d, d->origin[t], "\"%.80s\" is no name for a group", group);
}

static void check_tables(ts_deck *d) {
  const int n_before = d->n_errors;
  if (!d->config->n_tables && !n_before)
    ts_deck_error(d, NULL, "there are no tables");
  for (int32_t t = 0; t < d->config->n_tables; t++) {
    ts_deck_check_dynamic(d, t);
    if (!ts_table_is_first(&d->config->tables[t])) continue; /* said before */
    check_table(d, t, n_before);
    check_processor(d, t);
    check_tier(d, t);
    check_group_name(d, t);
    check_init(d, t);
  }
  check_names(d, false);
  check_names(d, true);
}

/* The layers themselves are the model's to know. */
static void check_prefetch(ts_deck *d, const config_setting_t *root,
                           const char *key, const ts_prefetch_config *list,
                           int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (!list[i].layer)
      ts_deck_error(d,
                    config_setting_get_elem(
                        (config_setting_t *)ts_deck_at(root, key), (unsigned)i),
                    "%s: layer is missing", key);
}

/* It is the name of a folder, and of none elsewhere. */
static void check_run_name(ts_deck *d, const config_setting_t *root) {
  const char *name = d->config->run.name;
  if (!name) return;
  if (!*name || !strcmp(name, ".") || !strcmp(name, "..") || strchr(name, '/'))
    ts_deck_error(d, ts_deck_at(root, "run.name"),
                  "\"%.80s\" is no name for a run", name);
}

static void check_split(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const char *by = c->data.split.by, *key = c->data.split.key;
  const config_setting_t *s = ts_deck_at(root, "data.split");
  if (!by || !key) return; /* broken */
  const bool time = !strcmp(by, "time"), hash = !strcmp(by, "hash");
  const bool column = !strncmp(by, "column:", 7) && by[7];
  if (!time && !hash && !column && strcmp(by, "tail") != 0)
    ts_deck_error(d, ts_deck_at(root, "data.split.by"),
                  "data.split.by = \"%.80s\" is none of hash, time, tail, "
                  "column:NAME",
                  by);
  if (c->data.split.valid >= 1)
    ts_deck_error(d, ts_deck_at(root, "data.split.valid"),
                  "data.split.valid = 1 leaves nothing to train on: it is a "
                  "share over 0 and under 1");
  if (column && c->data.split.valid > 0)
    ts_deck_error(d, ts_deck_at(root, "data.split.valid"),
                  "data.split.valid is not for \"%.80s\": the column says "
                  "which samples are for validation",
                  by);
  if (time && c->data.split.valid > 0 && !*key)
    ts_deck_error(d, s,
                  "data.split.by = \"time\" needs data.split.key, the "
                  "column of the time");
  if (*key && !time && !hash)
    ts_deck_error(d, ts_deck_at(root, "data.split.key"),
                  "data.split.key is for \"hash\" and \"time\", not for "
                  "\"%.80s\"",
                  by);
  if ((*key || !hash) && !ts_split_is_on(c) && !d->n_errors)
    ts_deck_error(d, s,
                  "data.split splits nothing: give data.split.valid, the "
                  "share that is for validation");
  if (ts_split_is_on(c) && c->data.valid.n)
    ts_deck_error(d, ts_deck_at(root, "data.valid"),
                  "data.valid and data.split are both given: one is enough");
}

/* What a run with validations needs, and what needs them. */
static void check_validation(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const bool splits = c->data.split.by && ts_split_is_on(c);
  const ts_source_ops *format = ts_source_find(c->data.format);
  const bool made = format && format->no_files;
  const bool validates = c->run.valid_every > 0;
  const char *needs = NULL;
  if (validates && !made && !c->data.valid.n && !splits)
    ts_deck_error(d, ts_deck_at(root, "run.valid_every"),
                  "run.valid_every needs data.valid, what to look at, or "
                  "data.split");
  if (!validates && splits)
    ts_deck_error(d, ts_deck_at(root, "data.split"),
                  "data.split has samples that are never looked at: give "
                  "run.valid_every");
  if (!validates && c->data.valid.n)
    ts_deck_error(d, ts_deck_at(root, "data.valid"),
                  "data.valid is never looked at: give run.valid_every");
  if (c->run.stop.patience > 0) needs = "run.stop.patience";
  if (c->checkpoint.best) needs = "checkpoint.best";
  if (c->optimizer.schedule && !strcmp(c->optimizer.schedule, "plateau"))
    needs = "optimizer.schedule.kind";
  if (needs && !validates)
    ts_deck_error(d, ts_deck_at(root, needs),
                  "%s goes by validations: give run.valid_every", needs);
  bool found = !c->run.stop.task || !*c->run.stop.task;
  for (int32_t i = 0; i < c->model.n_tasks && !found; i++)
    found = c->model.tasks[i].name &&
            !strcmp(c->model.tasks[i].name, c->run.stop.task);
  if (!found)
    ts_deck_error(d, ts_deck_at(root, "run.stop.task"),
                  "run.stop.task: there is no task \"%.80s\"",
                  c->run.stop.task);
}

static void check_order(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  char why[TS_ORDER_WHY];
  if (!d->n_errors && !ts_order_fits(c, c->data.global_batch, why))
    ts_deck_error(d, ts_deck_at(root, "data.streams"), "%s", why);
}

void ts_deck_check(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  check_order(d, root);
  check_one_of(d, root, "data.global_batch", "data.batch_per_rank",
               c->data.global_batch > 0, c->data.batch_per_rank > 0);
  check_one_of(d, root, "run.steps", "run.epochs", c->run.steps > 0,
               c->run.epochs > 0);
  const ts_source_ops *format = ts_source_find(c->data.format);
  if (!c->data.train.n && !(format && format->no_files) &&
      !(d->n_errors &&
        (ts_deck_at(root, "data.train") || ts_deck_at(root, "data.format"))))
    ts_deck_error(d, NULL, "data.train is missing");
  if (strlen(c->data.csv.separator) != 1 &&
      strcmp(c->data.csv.separator, "tab") != 0)
    ts_deck_error(d, ts_deck_at(root, "data.csv.separator"),
                  "data.csv.separator is one character or \"tab\"");
  if (strlen(c->data.csv.list_separator) > 1 ||
      *c->data.csv.list_separator == '"')
    ts_deck_error(d, ts_deck_at(root, "data.csv.list_separator"),
                  "data.csv.list_separator is one character, not a quote");
  for (int32_t i = 0; i < c->optimizer.n_overrides; i++)
    if (!c->optimizer.overrides[i].match)
      ts_deck_error(d,
                    config_setting_get_elem((config_setting_t *)ts_deck_at(
                                                root, "optimizer.overrides"),
                                            (unsigned)i),
                    "optimizer.overrides: match is missing");
  check_run_name(d, root);
  check_tables(d);
  check_tasks(d, root);
  ts_outputs_check(d, root);
  if (!d->n_errors) ts_columns_check(d, root);
  if (!d->n_errors) ts_times_check(d, root);
  check_dedup(d, root);
  check_split(d, root);
  check_validation(d, root);
  ts_saves_check(d, root);
  check_report(d, root);
  ts_deck_check_parts(d);
  check_prefetch(d, root, "dense.forward_prefetch", c->dense.forward_prefetch,
                 c->dense.n_forward_prefetch);
  check_prefetch(d, root, "dense.backward_prefetch", c->dense.backward_prefetch,
                 c->dense.n_backward_prefetch);
}
