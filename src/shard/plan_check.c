/* plan_check.c - may a plan run here, and is it what the deck asks for.
 *
 * Plans come from checkpoints and from files that people edit.  Everything
 * behind takes it for granted that each row and column of a table is there
 * once, and that rows are cut as ts_place_rows cuts them. */
#include <inttypes.h>

#include "base/mem.h"
#include "shard/sharding.h"

typedef struct ts_checker {
  const ts_table_config *table;
  const ts_table_plan *plan;
  const ts_nodes *nodes;
} ts_checker;

static ts_err bad(const ts_checker *k, const char *why) {
  return ts_fail(TS_ERR_DECK, "the plan's %s of table %s %s",
                 ts_shard_kind_name(k->plan->kind), k->table->name, why);
}

static ts_err check_ranks(const ts_checker *k) {
  for (int32_t i = 0; i < k->plan->n_shards; i++) {
    const ts_shard *s = &k->plan->shards[i];
    if (s->rank < 0 || s->rank >= k->nodes->n_ranks)
      return ts_fail(TS_ERR_DECK,
                     "the plan puts table %s on rank %d, but this run has "
                     "ranks 0 to %d",
                     k->table->name, s->rank, k->nodes->n_ranks - 1);
    if (s->n_rows > INT32_MAX)
      return ts_fail(TS_ERR_DECK,
                     "the plan puts %" PRId64 " rows of table %s on rank %d; a "
                     "shard takes 2147483647: cut it by rows",
                     s->n_rows, k->table->name, s->rank);
  }
  return k->plan->n_shards > 0 ? TS_OK : bad(k, "has no shards");
}

/* Shards [first, end) are the blocks of ceil(rows / n) rows that
 * ts_place_rows makes, of the same columns, each on a rank of its own. */
static ts_err check_rows(const ts_checker *k, int32_t first, int32_t end,
                         bool *used) {
  ts_err err = TS_OK;
  const ts_shard *s = k->plan->shards;
  const int32_t n = end - first;
  for (int32_t i = first; i < end; i++) {
    const int64_t row0 = ts_place_first_row(k->table, i - first, n);
    const int64_t n_rows =
        ts_place_first_row(k->table, i - first + 1, n) - row0;
    if (s[i].row0 != row0 || s[i].n_rows != n_rows ||
        s[i].col0 != s[first].col0 || s[i].n_cols != s[first].n_cols)
      err = bad(k, "is not blocks of ceil(rows / shards) rows, in order");
    else if (used[s[i].rank])
      err = bad(k, "has two blocks of rows on one rank");
    if (err != TS_OK) break;
    used[s[i].rank] = true;
  }
  for (int32_t i = first; i < end; i++) used[s[i].rank] = false;
  return err;
}

/* Slices of STEP shards each cover the columns, equal and in order. */
static ts_err check_columns(const ts_checker *k, int32_t n_slices,
                            const int32_t *first) {
  const ts_shard *s = k->plan->shards;
  int32_t at = 0;
  for (int32_t i = 0; i < n_slices; i++) {
    const ts_shard *x = &s[first[i]];
    if (x->col0 != at || x->n_cols != s[0].n_cols)
      return bad(k, "is not equal slices of columns, in order");
    if (n_slices > 1 && x->n_cols % 4)
      return bad(k, "has slices of columns that are no multiple of 4");
    at += x->n_cols;
  }
  return at == k->table->dim ? TS_OK : bad(k, "lacks some of the columns");
}

static ts_err check_node(const ts_checker *k, int32_t first, int32_t end) {
  const ts_shard *s = k->plan->shards;
  for (int32_t i = first + 1; i < end; i++)
    if (k->nodes->node[s[i].rank] != k->nodes->node[s[first].rank])
      return bad(k, "has shards on several nodes that belong on one");
  return TS_OK;
}

/* Where a shard starts a slice of columns. */
static int32_t find_slices(const ts_checker *k, int32_t *first) {
  const ts_shard *s = k->plan->shards;
  int32_t n = 0;
  for (int32_t i = 0; i < k->plan->n_shards; i++)
    if (i == 0 || s[i].col0 != s[i - 1].col0) first[n++] = i;
  first[n] = k->plan->n_shards;
  return n;
}

/* Every shard has some of the parts that ids are dealt by. */
static ts_err check_dynamic(const ts_checker *k, const ts_sharding_ops *o) {
  if (!ts_table_is_dynamic(k->table)) return TS_OK;
  if (!ts_sharding_takes_dynamic(o))
    return bad(k, "is not for rows = \"dynamic\": table_wise, row_wise and "
                  "table_row_wise are");
  if (k->plan->n_shards > k->table->capacity)
    return bad(k, "has more shards than rows");
  return TS_OK;
}

static ts_err check_shape(const ts_checker *k, const int32_t *first, int32_t n,
                          bool *used) {
  const ts_table_plan *p = k->plan;
  const ts_sharding_ops *o = ts_sharding_find(p->kind);
  TS_DO(check_dynamic(k, o));
  if (!o->split_columns && n != 1) return bad(k, "is cut by columns");
  if (!o->split_rows && p->n_shards != n) return bad(k, "is cut by rows");
  for (int32_t i = 0; i < n; i++)
    TS_DO(check_rows(k, first[i], first[i + 1], used));
  TS_DO(check_columns(k, n, first));
  if (o->on_node == TS_NODE_TABLE) TS_DO(check_node(k, 0, p->n_shards));
  for (int32_t i = 0; o->on_node == TS_NODE_SLICE && i < n; i++)
    TS_DO(check_node(k, first[i], first[i + 1]));
  return TS_OK;
}

static ts_err check_replicas(const ts_checker *k) {
  const ts_table_plan *p = k->plan;
  if (p->n_shards != k->nodes->n_ranks)
    return ts_fail(TS_ERR_DECK,
                   "the plan has %d copies of table %s for %d ranks",
                   p->n_shards, k->table->name, k->nodes->n_ranks);
  for (int32_t i = 0; i < p->n_shards; i++) {
    const ts_shard *s = &p->shards[i];
    if (s->rank != i || s->row0 || s->n_rows != k->table->rows || s->col0 ||
        s->n_cols != k->table->dim)
      return bad(k, "is not one whole copy on each rank, in order");
  }
  return TS_OK;
}

static ts_err check_table(const ts_checker *k, bool *used) {
  ts_err err = TS_OK;
  int32_t *first = NULL;
  const ts_sharding_ops *ops = ts_sharding_find(k->plan->kind);
  if (!ops) TS_TRY(bad(k, "is not in this version"));
  TS_TRY(ts_plan_check_kind(k->table, k->plan->kind));
  if (k->plan->kernel && !ops->remote)
    TS_TRY(bad(k, "is a copy on each rank: it can't be in slow memory"));
  TS_TRY(check_ranks(k));
  if (!ops->remote) return check_replicas(k);
  TS_TRY(ts_mem_many(first, k->plan->n_shards + 1, MISC));
  TS_TRY(check_shape(k, first, find_slices(k, first), used));
done:
  ts_mem_free(first);
  return err;
}

ts_err ts_plan_check(const ts_plan *p, const ts_config *c,
                     const ts_nodes *nodes) {
  ts_err err = TS_OK;
  bool *used = NULL;
  if (p->n_tables != c->n_tables)
    TS_THROW(TS_ERR_DECK, "the plan has %d tables, the deck %d", p->n_tables,
             c->n_tables);
  if (p->n_ranks != nodes->n_ranks)
    TS_THROW(TS_ERR_DECK, "the plan is for %d ranks, this run has %d",
             p->n_ranks, nodes->n_ranks);
  TS_TRY(ts_mem_many(used, nodes->n_ranks, MISC));
  for (int32_t i = 0; i < p->n_tables; i++) {
    const ts_checker k = {&c->tables[i], &p->tables[i], nodes};
    TS_TRY(check_table(&k, used));
  }
done:
  ts_mem_free(used);
  return err;
}

static bool same_shard(const ts_shard *a, const ts_shard *b) {
  return a->rank == b->rank && a->row0 == b->row0 && a->n_rows == b->n_rows &&
         a->col0 == b->col0 && a->n_cols == b->n_cols;
}

/* Fixed ranks leave placement no choice: what it makes of them is what the
 * plan has to hold. */
static ts_err obeys_ranks(const ts_checker *k, const double *no_load) {
  ts_err err = TS_OK;
  ts_table_plan want = {0};
  const ts_placement at = {.nodes = k->nodes, .load = no_load, .min_column = 4};
  TS_TRY(ts_plan_place(&want, k->plan->kind, k->table, &at));
  bool same = want.n_shards == k->plan->n_shards;
  for (int32_t i = 0; same && i < want.n_shards; i++)
    same = same_shard(&want.shards[i], &k->plan->shards[i]);
  if (!same) TS_TRY(bad(k, "is not on the ranks that the deck names"));
done:
  ts_mem_free(want.shards);
  return err;
}

ts_err ts_plan_obeys(const ts_plan *p, const ts_config *c,
                     const ts_nodes *nodes) {
  ts_err err = TS_OK;
  double *no_load = NULL;
  TS_TRY(ts_mem_many(no_load, nodes->n_ranks, MISC));
  for (int32_t i = 0; i < p->n_tables; i++) {
    const ts_table_config *t = &c->tables[i];
    const ts_checker k = {t, &p->tables[i], nodes};
    if (t->sharding != TS_SHARD_AUTO && t->sharding != p->tables[i].kind)
      TS_THROW(TS_ERR_DECK, "the plan has table %s as %s, the deck as %s",
               t->name, ts_shard_kind_name(p->tables[i].kind),
               ts_shard_kind_name(t->sharding));
    if (t->sharding == TS_SHARD_AUTO && !ts_plan_allowed(t, p->tables[i].kind))
      TS_TRY(bad(&k, "is not among what the deck allows"));
    if (t->ranks.n) TS_TRY(obeys_ranks(&k, no_load));
  }
done:
  ts_mem_free(no_load);
  return err;
}
