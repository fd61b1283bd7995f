/* deck_dynamic.c - rows = "dynamic": ids are any 64-bit number, and a table has
 * as many rows as its capacity says.
 *
 * With evict.to = "file" nothing is lost: a file has the rows of all ids, and
 * memory those of as many as the capacity says.  That is a cached table whose
 * slow memory is a file, and evict.kind its cache's policy. */
#include <math.h>
#include <string.h>

#include "base/kinds.h"
#include "io/deck_impl.h"

/* The setting that a dynamic table needs and X lacks; NULL: it has all. */
static const char *refused(const ts_table_config *x) {
  static const ts_shard_kind kinds[] = {TS_SHARD_AUTO, TS_SHARD_TABLE_WISE,
                                        TS_SHARD_ROW_WISE,
                                        TS_SHARD_TABLE_ROW_WISE};
  bool cut = false;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    cut |= x->sharding == kinds[i];
  if (!cut) return "sharding table_wise, row_wise or table_row_wise";
  if (x->optimizer.kind && !strcmp(x->optimizer.kind, "none"))
    return "an optimizer of rows, not \"none\"";
  if (x->init_kind && !strcmp(x->init_kind, "file"))
    return "init.kind uniform, normal or constant";
  return NULL;
}

static void check_admit(ts_deck *d, const config_setting_t *s,
                        const ts_table_config *x, const char *name,
                        bool dynamic) {
  const bool admits = x->admit.min_count > 1;
  if (!dynamic && admits)
    ts_deck_error(d, s, "table %.80s: admit is for rows = \"dynamic\"", name);
  if (!admits && (x->admit.window_steps > 0 || x->admit.sketch_mib > 0))
    ts_deck_error(d, s,
                  "table %.80s: admit.window_steps and admit.sketch_mib need "
                  "admit.min_count of 2 or more",
                  name);
}

static bool is(const char *word, const char *what) {
  return word && !strcmp(word, what);
}

/* Whether X says when to look, or how many to keep, by other than defaults. */
static bool has_looks(ts_deck *d, const ts_table_config *x) {
  int64_t every = 0;
  double keep = 0;
  ts_deck_default(d, ts_schema_find(TS_SCOPE_TABLE, "evict.every"), &every);
  ts_deck_default(d, ts_schema_find(TS_SCOPE_TABLE, "evict.keep"), &keep);
  return x->evict.every != every || x->evict.keep < keep ||
         x->evict.keep > keep;
}

/* Why X can't have evict.to = "file"; NULL: it can. */
static const char *refused_file(ts_deck *d, const ts_table_config *x) {
  if (!is(x->evict.kind, "lru") && !is(x->evict.kind, "lfu"))
    return "takes evict.kind lru or lfu, as the rows in memory are a cache";
  if (x->evict.rows <= x->capacity)
    return "needs evict.rows, more than the capacity: how many ids have a row "
           "in memory or in the file";
  if (x->kernel && !is(x->kernel, "auto") && !is(x->kernel, "cached"))
    return "takes kernel auto or cached";
  if (!isnan(x->cache.load_factor))
    return "takes no cache.load_factor: capacity says how many rows memory has";
  if (has_looks(d, x))
    return "takes no evict.every or evict.keep: a row leaves memory when "
           "another needs its room";
  return NULL;
}

static void keep_in_file(ts_deck *d, const config_setting_t *s,
                         ts_table_config *x, const char *name) {
  if (!is(x->evict.to, "file")) {
    if (x->evict.rows)
      ts_deck_error(d, s, "table %.80s: evict.rows is for evict.to = \"file\"",
                    name);
    return;
  }
  const char *needs = refused_file(d, x);
  if (needs) {
    ts_deck_error(d, s, "table %.80s: evict.to = \"file\" %s", name, needs);
    return;
  }
  x->cache.load_factor = (double)x->capacity / (double)x->evict.rows;
  x->capacity = x->evict.rows;
  x->evict.rows = 0;
  ts_deck_set_text(&x->cache.policy, x->evict.kind, "");
  ts_deck_set_text(&x->cache.tier, "file", "");
  ts_deck_set_text(&x->kernel, "cached", "");
  ts_deck_set_text(&x->evict.kind, "none", "");
  ts_deck_set_text(&x->evict.to, "none", "");
}

void ts_deck_check_dynamic(ts_deck *d, int32_t t) {
  ts_table_config *x = &d->config->tables[t];
  const config_setting_t *s = d->origin[t];
  const char *name = x->name ? x->name : "";
  const bool dynamic = x->rows == TS_ROWS_DYNAMIC;
  if (dynamic && !x->capacity)
    ts_deck_error(d, s,
                  "table %.80s: rows = \"dynamic\" needs capacity, how many "
                  "ids have a row, on all ranks together",
                  name);
  if (!dynamic && (is(x->evict.to, "file") ||
                   (x->evict.kind && !is(x->evict.kind, "none"))))
    ts_deck_error(d, s, "table %.80s: evict is for rows = \"dynamic\"", name);
  if (x->evict.kind && (!strcmp(x->evict.kind, "ttl")) != (x->evict.ttl > 0))
    ts_deck_error(d, s,
                  "table %.80s: evict.kind \"ttl\" and evict.ttl, a number of "
                  "steps, need each other",
                  name);
  check_admit(d, s, x, name, dynamic);
  if (!dynamic && x->capacity)
    ts_deck_error(d, s, "table %.80s: capacity is for rows = \"dynamic\"",
                  name);
  if (x->grow > 0 && (!dynamic || x->grow <= 1))
    ts_deck_error(d, s,
                  "table %.80s: grow, more than 1, is for rows = \"dynamic\"",
                  name);
  if (!dynamic || !x->capacity) return;
  keep_in_file(d, s, x, name);
  x->rows = x->capacity;
  const char *needs = refused(x);
  if (needs)
    ts_deck_error(d, s, "table %.80s: rows = \"dynamic\" takes %s", name,
                  needs);
}
