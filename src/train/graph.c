/* graph.c - when a step's work is a graph, and when it is no use to go on. */
#include "train/graph.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "runtime/graph.h"
#include "train/pipeline.h"
#include "train/recompute.h"

enum {
  PLAIN = 2, /* steps before the first graph: all that is made once is made */
  TRIES = 8, /* of a graph before it is judged */
  VARIANTS = 16
};

/* A graph is replayed on the memory that it was captured on: there is one for
 * each combination of buffers that batches come in. */
typedef struct ts_variant {
  const ts_ebc_batch *ebc_batch;
  const float *labels;
  ts_graph *graph;
} ts_variant;

typedef struct ts_variants {
  ts_variant item[VARIANTS];
  int n, turn; /* which makes room next */
  int n_plain;
} ts_variants;

struct ts_step_graph {
  bool off;
  ts_variants
      part[2][TS_STEP_PARTS]; /* of micro-batches that others follow; last */
};

/* NULL: there may be graphs. */
static const char *obstacle(const ts_trainer *t) {
  const ts_config *c = t->config;
  if (t->n_ranks > 1) return "ranks exchange within a step";
  for (int32_t i = 0; i < c->n_tables; i++)
    if (ts_table_is_slow(&c->tables[i]))
      return "rows of slow memory are fetched within a step";
  if (!t->pipeline->has_graph) return "this pipeline has none";
  return NULL;
}

static ts_err create(ts_trainer *t) {
  struct ts_step_graph *s = NULL;
  ts_graph *one = NULL;
  TS_DO(ts_mem_alloc(&s, sizeof *s, TS_TAG_MISC));
  *s = (struct ts_step_graph){.off = !t->config->run.graph};
  t->graph = s;
  if (s->off) return TS_OK;
  TS_DO(ts_graph_create(&one, t->compute));
  s->off = !one; /* a device without */
  ts_graph_destroy(one);
  if (!s->off && obstacle(t)) {
    ts_note("run.graph: steps are launched piece by piece: %s", obstacle(t));
    s->off = true;
  }
  return TS_OK;
}

/* The one for the buffers of C. */
static ts_err choose(ts_trainer *t, ts_variants *v, const ts_inflight *c,
                     ts_graph **out) {
  ts_variant *x = NULL;
  for (int i = 0; i < v->n && !x; i++)
    if (v->item[i].ebc_batch == c->ebc_batch &&
        v->item[i].labels == c->inputs.labels)
      x = &v->item[i];
  if (!x) {
    if (v->n < VARIANTS) {
      x = &v->item[v->n];
      TS_DO(ts_graph_create(&x->graph, t->compute));
      v->n++;
    } else {
      x = &v->item[v->turn++ % VARIANTS];
    }
    x->ebc_batch = c->ebc_batch;
    x->labels = c->inputs.labels;
  }
  *out = x->graph;
  return TS_OK;
}

static void add(ts_graph_counts *all, const ts_graph_counts *n) {
  all->n_begun += n->n_begun;
  all->n_cut += n->n_cut;
  all->n_made += n->n_made;
  all->n_updated += n->n_updated;
  all->n_replayed += n->n_replayed;
  all->n_renewed += n->n_renewed;
  all->extra_bytes += n->extra_bytes;
  if (n->n_nodes > all->n_nodes) all->n_nodes = n->n_nodes;
  if (!*all->why) memcpy(all->why, n->why, sizeof all->why);
}

static ts_graph_counts counts_of(const ts_variants *v) {
  ts_graph_counts all = {0};
  for (int i = 0; i < v->n; i++) {
    const ts_graph_counts n = ts_graph_counts_of(v->item[i].graph);
    add(&all, &n);
  }
  return all;
}

/* After some tries: graphs that are cut, or made anew, more often than not are
 * no use. */
static bool are_useless(const ts_graph_counts *n, int n_variants) {
  return n->n_begun >= TRIES && (2 * (n->n_made - n_variants) > n->n_begun ||
                                 2 * n->n_cut > n->n_begun);
}

ts_err ts_step_graph_begin(ts_trainer *t, ts_step_part part) {
  if (!t->graph) TS_DO(create(t));
  if (t->graph->off || ts_graph_now() || ts_recomputes(t)) return TS_OK;
  const ts_inflight *c = ts_inflight_at(t, 0);
  ts_variants *v = &t->graph->part[!c->more][part];
  ts_graph *g;
  if (v->n_plain < PLAIN) {
    v->n_plain++;
    return TS_OK;
  }
  const ts_graph_counts n = counts_of(v);
  if (are_useless(&n, v->n)) {
    ts_note("run.graph: steps are launched piece by piece from here on: %s",
            2 * n.n_cut > n.n_begun ? n.why
                                    : "their work differs from step to step");
    t->graph->off = true;
    return TS_OK;
  }
  TS_DO(choose(t, v, c, &g));
  /* The lookup asks the host how many ids have arrived. */
  TS_DO(ts_ebc_input_wait(c->ebc_batch));
  return ts_graph_begin(g);
}

bool ts_step_graph_is_open(void) {
  return ts_graph_now() != NULL;
}

ts_err ts_step_graph_end(ts_trainer *t) {
  return t->graph && !t->graph->off ? ts_graph_end(ts_graph_now()) : TS_OK;
}

static ts_variants *variants(const ts_trainer *t, int k) {
  return &t->graph->part[k / TS_STEP_PARTS][k % TS_STEP_PARTS];
}

void ts_step_graph_destroy(ts_trainer *t) {
  if (!t->graph) return;
  for (int k = 0; k < 2 * TS_STEP_PARTS; k++) {
    const ts_variants *v = variants(t, k);
    for (int i = 0; i < v->n; i++) ts_graph_destroy(v->item[i].graph);
  }
  ts_mem_free(t->graph);
  t->graph = NULL;
}

ts_graph_counts ts_step_graph_counts(const ts_trainer *t) {
  ts_graph_counts all = {0};
  for (int k = 0; t->graph && k < 2 * TS_STEP_PARTS; k++) {
    const ts_graph_counts n = counts_of(variants(t, k));
    add(&all, &n);
  }
  return all;
}

void ts_step_graph_report(const ts_trainer *t) {
  const ts_graph_counts n = ts_step_graph_counts(t);
  if (!n.n_begun) return;
  ts_info("graphs: %lld replayed, %.1f pieces of work with new arguments each; "
          "%lld captured, %lld executables made; %lld cut; up to %lld nodes; "
          "%.1f MiB of scratch",
          (long long)n.n_replayed,
          n.n_replayed ? (double)n.n_renewed / (double)n.n_replayed : 0.0,
          (long long)(n.n_begun - n.n_replayed), (long long)n.n_made,
          (long long)n.n_cut, (long long)n.n_nodes,
          (double)n.extra_bytes / (1 << 20));
}
