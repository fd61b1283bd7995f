/* plan.c - `tessera plan DECK [RANKS]`. */
#include "shard/plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "commands/commands.h"
#include "io/deck.h"
#include "sparse/row_optim.h"

enum { RANKS_MAX = 1000000 };

static void print_bytes(const ts_plan *p, const ts_config *c) {
  char buf[32];
  for (int r = 0; r < p->n_ranks; r++) {
    int64_t bytes = 0, n = 0;
    for (int32_t t = 0; t < p->n_tables; t++)
      for (int32_t k = 0; k < p->tables[t].n_shards; k++) {
        const ts_shard *s = &p->tables[t].shards[k];
        if (s->rank != r) continue;
        bytes +=
            s->n_rows * s->n_cols * (int64_t)ts_dtype_bytes(c->tables[t].dtype);
        n++;
      }
    printf("rank %d: %lld shards, %s of rows\n", r, (long long)n,
           ts_str_bytes(buf, bytes));
  }
}

ts_err ts_cmd_plan(const ts_args *a) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_plan *p = NULL;
  ts_nodes *nodes = NULL;
  ts_str text = {0};
  char *end = NULL;
  const long n = a->n_more ? strtol(a->more[0], &end, 10) : 1;
  if (!a->target || n < 1 || n > RANKS_MAX || (end && *end) || a->n_more > 1)
    TS_THROW(TS_ERR_USAGE, "usage: tessera plan DECK [RANKS]");
  TS_TRY(ts_deck_read(&c, a->target, a->sets, a->n_sets));
  for (int32_t t = 0; t < c->n_tables; t++)
    TS_TRY(ts_row_optim_check(&c->tables[t].optimizer, c->tables[t].name));
  TS_TRY(ts_nodes_create(&nodes, (int)n, c->sharding.ranks_per_node, NULL));
  TS_TRY(ts_plan_make(&p, c, nodes));
  TS_TRY(ts_plan_print(&text, p, c));
  fputs(text.text, stdout);
  print_bytes(p, c);
done:
  ts_plan_destroy(p);
  ts_nodes_destroy(nodes);
  ts_str_reset(&text);
  ts_deck_destroy(c);
  return err;
}
