/* graph.c - when a step's work is a graph, and when it is no use to go on. */
#include "train/graph.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "runtime/graph.h"
#include "train/pipeline.h"

enum {
  PLAIN = 2, /* steps before the first graph: all that is made once is made */
  TRIES = 8  /* graphs of a part before they are judged */
};

struct ts_step_graph {
  bool off;
  int n_plain[2][TS_PARTS];
  ts_graph *part[2][TS_PARTS]; /* of micro-batches that others follow; last */
};

/* NULL: there may be graphs. */
static const char *obstacle(const ts_trainer *t) {
  const ts_config *c = t->config;
  const char *kind = t->pipeline->name;
  if (t->n_ranks > 1) return "ranks exchange within a step";
  for (int32_t i = 0; i < c->n_tables; i++)
    if (ts_table_is_slow(&c->tables[i]))
      return "rows of slow memory are fetched within a step";
  if (strcmp(kind, "base") && strcmp(kind, "sparse_dist"))
    return "this pipeline has none";
  return NULL;
}

static ts_err create(ts_trainer *t) {
  ts_err err = TS_OK;
  struct ts_step_graph *s = NULL;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_MISC));
  *s = (struct ts_step_graph){.off = !t->config->run.graph};
  t->graph = s;
  for (int k = 0; k < 2 * TS_PARTS && !s->off; k++) {
    ts_graph **part = &s->part[k / TS_PARTS][k % TS_PARTS];
    TS_TRY(ts_graph_create(part, t->compute));
    s->off = !*part; /* a device without */
  }
  if (!s->off && obstacle(t)) {
    ts_note("run.graph: steps are launched piece by piece: %s", obstacle(t));
    s->off = true;
  }
done:
  return err;
}

/* After some tries: graphs that are cut, or made anew, more often than not are
 * no use. */
static const char *trouble(const ts_graph_counts *n) {
  if (n->n_begun < TRIES) return NULL;
  if (2 * n->n_cut > n->n_begun) return n->why;
  return 2 * n->n_made > n->n_begun ? "their work differs from step to step"
                                    : NULL;
}

ts_err ts_step_graph_begin(ts_trainer *t, ts_step_part part) {
  ts_err err = TS_OK;
  if (!t->graph) TS_TRY(create(t));
  if (t->graph->off || ts_graph_now()) goto done;
  const bool last = !ts_cargo_at(t, 0)->more;
  ts_graph *g = t->graph->part[last][part];
  if (t->graph->n_plain[last][part] < PLAIN) {
    t->graph->n_plain[last][part]++;
    goto done;
  }
  const ts_graph_counts n = ts_graph_counts_of(g);
  if (trouble(&n)) {
    ts_note("run.graph: steps are launched piece by piece from here on: %s",
            trouble(&n));
    t->graph->off = true;
    goto done;
  }
  /* The lookup asks the host how many ids have arrived. */
  TS_TRY(ts_ebc_input_wait(ts_cargo_at(t, 0)->flight));
  TS_TRY(ts_graph_begin(g));
done:
  return err;
}

ts_err ts_step_graph_end(ts_trainer *t) {
  return t->graph && !t->graph->off ? ts_graph_end(ts_graph_now()) : TS_OK;
}

void ts_step_graph_destroy(ts_trainer *t) {
  if (!t->graph) return;
  for (int k = 0; k < 2 * TS_PARTS; k++)
    ts_graph_destroy(t->graph->part[k / TS_PARTS][k % TS_PARTS]);
  ts_mem_free(t->graph);
  t->graph = NULL;
}

void ts_step_graph_report(const ts_trainer *t) {
  ts_graph_counts all = {0};
  for (int k = 0; t->graph && k < 2 * TS_PARTS; k++) {
    const ts_graph_counts n =
        ts_graph_counts_of(t->graph->part[k / TS_PARTS][k % TS_PARTS]);
    all.n_begun += n.n_begun;
    all.n_cut += n.n_cut;
    all.n_made += n.n_made;
    all.n_updated += n.n_updated;
    all.extra_bytes += n.extra_bytes;
    if (n.n_nodes > all.n_nodes) all.n_nodes = n.n_nodes;
  }
  if (!all.n_begun) return;
  ts_info("graphs: %lld captured, %lld of them cut; %lld made, %lld updated; "
          "up to %lld nodes; %.1f MiB of scratch",
          (long long)all.n_begun, (long long)all.n_cut, (long long)all.n_made,
          (long long)all.n_updated, (long long)all.n_nodes,
          (double)all.extra_bytes / (1 << 20));
}
