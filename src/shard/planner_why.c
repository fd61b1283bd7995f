/* planner_why.c - when nothing fits: how much is missing, and what would help
 * most. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "shard/planner_impl.h"
#include "sparse/row_optim.h"

enum { HINTS_SHOWN = 6, HINT_BYTES = 320 };

/* Something that would free BYTES on the rank that lacks most. */
typedef struct ts_hint {
  double bytes;
  char text[HINT_BYTES];
} ts_hint;

typedef struct ts_why {
  const ts_draft *d;
  const ts_options *options;
  int rank;
  double limit, missing, total_missing;
  ts_hint hints[HINTS_SHOWN + 1]; /* the best first; one more to sort in */
  int n;
} ts_why;

static double gib(double bytes) {
  return bytes / (1 << 30);
}

/* To three digits: what is told is enough. */
static double rounded_up(double x) {
  const double unit = pow(10, floor(log10(x)) - 2);
  return x > 0 ? ceil(x / unit) * unit : 0;
}

static void hint(ts_why *w, double bytes, const char *fmt, const char *name,
                 double figure) __attribute__((format(printf, 3, 0)));
static void hint(ts_why *w, double bytes, const char *fmt, const char *name,
                 double figure) {
  ts_hint h = {.bytes = bytes};
  int at = w->n;
  if (bytes < 0.01 * w->missing) return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(h.text, sizeof h.text, fmt, name, figure);
#pragma GCC diagnostic pop
  for (; at > 0 && bytes > w->hints[at - 1].bytes; at--)
    w->hints[at] = w->hints[at - 1];
  w->hints[at] = h;
  if (w->n < HINTS_SHOWN) w->n++;
}

static bool has_option(const ts_why *w, int32_t t, ts_shard_kind k) {
  for (int32_t i = w->options->start[t]; i < w->options->start[t + 1]; i++)
    if (w->options->option[i].kind == k) return true;
  return false;
}

/* Notes how much each change to table T would free on the rank. */
static void hints_of_table(ts_why *w, int32_t t, const ts_shard *s) {
  const ts_plan_request *r = w->d->request;
  const ts_table_config *c = &r->config->tables[t];
  const ts_shard_kind kind = w->d->plan->tables[t].kind;
  ts_load l;
  ts_cost_shard(&l, &w->d->cost, t, kind, s);
  const double n = r->nodes->n_ranks, all = ts_plan_memory_sum(&l.memory);
  if (!has_option(w, t, TS_SHARD_ROW_WISE) && n > 1)
    hint(w, all * (1 - 1 / n),
         "table %s: allow row_wise, which leaves %.2f GiB of it on each rank",
         c->name, gib(all / n));
  if (c->dtype == TS_F32)
    hint(w, l.memory.weights / 2,
         "table %s: dtype = \"bf16\" halves its weights (%.2f GiB here)",
         c->name, gib(l.memory.weights));
  /* That of ids is no optimizer's. */
  const double state =
      ts_table_is_dynamic(c)
          ? (double)(ts_row_state_bytes(c, s->n_cols, true) * s->n_rows)
          : l.memory.state;
  if (state > l.memory.weights / 2)
    hint(w, state,
         "table %s: optimizer rowwise_adagrad or sgd instead of one with "
         "%.2f GiB of state",
         c->name, gib(state));
}

/* Notes how much slow memory, or more of it, would free. */
static void hints_of_tier(ts_why *w, int32_t t, const ts_shard *s) {
  const ts_table_config *c = &w->d->request->config->tables[t];
  const ts_shard_kind kind = w->d->plan->tables[t].kind;
  ts_load l;
  ts_cost_shard(&l, &w->d->cost, t, kind, s);
  const double fast = l.memory.weights + l.memory.state;
  if (!ts_table_is_slow(c) && ts_table_kernel_is_open(c) &&
      !ts_shard_kind_is_replicated(c->sharding))
    hint(w, 0.9 * fast,
         "table %s: run.tier_dir, a folder on a disk, where the planner may "
         "leave a part of its %.2f GiB",
         c->name, gib(fast));
  else if (!ts_table_is_slow(c) && !ts_shard_kind_is_replicated(c->sharding))
    hint(w, 0.9 * fast,
         "table %s: kernel = \"cached\" with cache.tier = \"file\" leaves a "
         "part of its %.2f GiB in memory",
         c->name, gib(fast));
  if (l.memory.slow > 0)
    hint(w, l.memory.slow,
         "table %s: cache.tier = \"file\" takes %.2f GiB to a disk", c->name,
         gib(l.memory.slow));
  if (ts_table_is_cached(c) && !ts_table_is_open(c))
    hint(w, 0.9 * fast,
         "table %s: no cache.load_factor, so that the planner can lower it "
         "(its lines take %.2f GiB)",
         c->name, gib(fast));
}

static void general_hints(ts_why *w) {
  const ts_plan_request *r = w->d->request;
  const double n = r->nodes->n_ranks;
  const ts_load *all = &w->d->all;
  double tables = 0, buffers = all->memory.buffers;
  for (int32_t t = 0; t < r->config->n_tables; t++) {
    const ts_table_plan *p = &w->d->plan->tables[t];
    for (int32_t k = 0; k < p->n_shards; k++) {
      ts_plan_memory m;
      ts_storage_shard(&m, &w->d->cost, t, p->kind, &p->shards[k]);
      tables += m.weights + m.state;
      if (p->shards[k].rank == w->rank) buffers += m.buffers;
    }
  }
  const double left = w->limit - ts_plan_memory_sum(&all->memory) -
                      (buffers - all->memory.buffers);
  if (left > 0)
    hint(w, tables / n - left, "more ranks%s: %.0f at least", "",
         ceil(tables / left));
  hint(w, buffers / 2,
       "a smaller batch%s: buffers for samples under way take %.2f GiB", "",
       gib(buffers));
  hint(w, w->missing, "sharding.memory_gib%s: %g would do, if it is there", "",
       rounded_up(gib(w->limit + w->missing)));
}

static void find_rank(ts_why *w) {
  const ts_draft *d = w->d;
  const double own = ts_plan_memory_sum(&d->all.memory);
  for (int r = 0; r < d->request->nodes->n_ranks; r++) {
    const double over = d->bytes[r] + own - w->limit;
    if (over > 0) w->total_missing += over;
    if (over <= w->missing) continue;
    w->missing = over;
    w->rank = r;
  }
}

ts_err ts_draft_explain(const ts_draft *d, const ts_options *o) {
  ts_err err = TS_OK;
  ts_why *w = NULL;
  ts_str text = {0};
  TS_TRY(ts_mem_alloc(&w, sizeof *w, TS_TAG_MISC));
  w->d = d;
  w->options = o;
  w->limit = d->request->memory_bytes;
  find_rank(w);
  for (int32_t t = 0; t < d->plan->n_tables; t++) {
    const ts_table_plan *p = &d->plan->tables[t];
    for (int32_t k = 0; k < p->n_shards; k++)
      if (p->shards[k].rank == w->rank) {
        hints_of_table(w, t, &p->shards[k]);
        hints_of_tier(w, t, &p->shards[k]);
      }
  }
  general_hints(w);
  TS_TRY(ts_str_append(
      &text,
      "no plan fits: rank %d lacks %.3f GiB of its %.3f, all ranks %.3f "
      "together.  What helps most, with what it frees there:",
      w->rank, gib(w->missing), gib(w->limit), gib(w->total_missing)));
  for (int i = 0; i < w->n; i++)
    TS_TRY(ts_str_append(&text, "\n  %d. %.3f GiB: %s", i + 1,
                         gib(w->hints[i].bytes), w->hints[i].text));
  err = ts_fail(TS_ERR_DECK, "%s", text.text);
done:
  ts_str_reset(&text);
  ts_mem_free(w);
  return err;
}
