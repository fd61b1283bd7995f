/* graphs.c - captures and graphs: what is enqueued on a stream that is captured
 * becomes nodes with dependencies, and a launch runs them in an order that
 * keeps those and nothing else: of nodes that could run, the last one noted
 * down goes first.
 *
 * The rules are CUDA's: a capture is void once an event or stream of it is
 * asked for, once it waits for what is outside, or reads pageable memory. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated/runtime.h"

typedef struct ts_node {
  ts_work work;
  int after[FRONT], n_after;
} ts_node;

enum { NODES = 2048 };

typedef struct ts_graph_work {
  int n;
  ts_node node[]; /* (n) */
} ts_graph_work;

struct CUgraph_st {
  cudaError_t spoilt;
  cudaStream_t origin;
  int n;
  ts_node *node;           /* (NODES); NULL: it is destroyed */
  struct CUgraph_st *next; /* of those that are */
};

struct CUgraphExec_st {
  ts_graph_work *nodes;
  struct CUgraph_st *made_of;
};

/* Launches are shared with the copy. */
static ts_graph_work *copy_of(const ts_node *node, int n) {
  ts_graph_work *c = malloc(sizeof *c + (size_t)n * sizeof *node);
  if (!c) abort();
  c->n = n;
  memcpy(c->node, node, (size_t)n * sizeof *node);
  for (int i = 0; i < n; i++)
    if (node[i].work.launch)
      (void)__atomic_add_fetch(&node[i].work.launch->users, 1,
                               __ATOMIC_RELAXED);
  return c;
}

void ts_graph_drop(ts_graph_work *c) {
  for (int i = 0; i < c->n; i++) ts_work_end(&c->node[i].work);
  free(c);
}

static int n_captures;

bool ts_capturing(void) {
  return n_captures > 0;
}

cudaError_t ts_capture_spoil(struct CUgraph_st *g, cudaError_t why) {
  if (g && g->spoilt == cudaSuccess) g->spoilt = why;
  return ts_answer(why);
}

static void merge(ts_front *to, const ts_front *from) {
  for (int i = 0; i < from->n; i++) {
    bool there = false;
    for (int k = 0; k < to->n; k++) there |= to->node[k] == from->node[i];
    if (there) continue;
    if (to->n == FRONT) abort();
    to->node[to->n++] = from->node[i];
  }
}

static cudaError_t note(cudaStream_t s, const ts_work *w) {
  struct CUgraph_st *g = s->front.graph;
  bool device;
  if (w->kind == FREE) abort(); /* memory that no node has taken */
  if (w->kind == COPY &&
      (!ts_memory_knows(w->dst, &device) || !ts_memory_knows(w->src, &device)))
    return ts_capture_spoil(g, cudaErrorStreamCaptureUnsupported);
  if (g->n == NODES) abort();
  ts_node *node = &g->node[g->n];
  node->work = *w;
  node->n_after = s->front.n;
  memcpy(node->after, s->front.node, sizeof node->after);
  s->front.node[0] = g->n++;
  s->front.n = 1;
  return cudaSuccess;
}

static cudaError_t wait_in(cudaStream_t s, const struct CUevent_st *e) {
  if (!e->captured) /* the capture waits for what is outside */
    return ts_capture_spoil(s->front.graph, cudaErrorStreamCaptureIsolation);
  if (!e->front.graph->origin) return ts_answer(cudaErrorCapturedEvent);
  if (!s->front.graph)
    s->front = e->front; /* joins */
  else if (s->front.graph == e->front.graph)
    merge(&s->front, &e->front);
  else
    return ts_capture_spoil(s->front.graph, cudaErrorStreamCaptureMerge);
  return cudaSuccess;
}

cudaError_t ts_capture(cudaStream_t s, const ts_work *w, bool *done) {
  *done = true;
  if (w->kind == WAIT && (s->front.graph || w->event->captured))
    return wait_in(s, w->event);
  if (w->kind == RECORD) {
    w->event->captured = s->front.graph != NULL;
    w->event->front = s->front;
  }
  *done = s->front.graph != NULL;
  return *done && w->kind != RECORD ? note(s, w) : cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  const cudaError_t broken = ts_answer(cudaSuccess);
  if (broken != cudaSuccess) return broken;
  pthread_mutex_lock(&ts_emulated_lock);
  if (s->front.graph || mode != cudaStreamCaptureModeRelaxed) abort();
  struct CUgraph_st *g = calloc(1, sizeof *g);
  if (!g) abort();
  g->node = calloc(NODES, sizeof *g->node);
  if (!g->node) abort();
  g->origin = s;
  s->front = (ts_front){.graph = g};
  n_captures++;
  ts_emulated_counted.captures++;
  pthread_mutex_unlock(&ts_emulated_lock);
  return cudaSuccess;
}

/* Every node leads to the end of the stream where it began. */
static bool joined(const struct CUgraph_st *g, const ts_front *end) {
  bool seen[NODES] = {0};
  for (int i = 0; i < end->n; i++) seen[end->node[i]] = true;
  for (int i = g->n - 1; i >= 0; i--) {
    if (!seen[i]) return false;
    for (int k = 0; k < g->node[i].n_after; k++)
      seen[g->node[i].after[k]] = true;
  }
  return true;
}

static struct CUgraph_st *destroyed; /* under the lock */

/* Events of the capture name it on: it stays, without its nodes. */
static void retire(struct CUgraph_st *g) {
  for (int i = 0; i < g->n; i++) ts_work_end(&g->node[i].work);
  free(g->node);
  g->node = NULL;
  g->n = 0;
  g->next = destroyed;
  destroyed = g;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out) {
  pthread_mutex_lock(&ts_emulated_lock);
  struct CUgraph_st *g = s->front.graph;
  *out = NULL;
  if (!g || g->origin != s) abort();
  if (g->spoilt == cudaSuccess && !joined(g, &s->front))
    g->spoilt = cudaErrorStreamCaptureUnjoined;
  const cudaError_t e = g->spoilt;
  g->origin = NULL;
  ts_capture_ended(g);
  n_captures--;
  if (e == cudaSuccess)
    *out = g;
  else
    retire(g);
  pthread_mutex_unlock(&ts_emulated_lock);
  return ts_answer(e);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes,
                              size_t *n) {
  if (nodes) abort();
  *n = (size_t)g->n;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t g) {
  pthread_mutex_lock(&ts_emulated_lock);
  retire(g);
  pthread_mutex_unlock(&ts_emulated_lock);
  return ts_answer(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g,
                                 unsigned long long flags) {
  if (flags) abort();
  struct CUgraphExec_st *x = malloc(sizeof *x);
  if (!x) abort();
  x->nodes = copy_of(g->node, g->n);
  x->made_of = g;
  *out = x;
  return ts_answer(cudaSuccess);
}

static bool alike(const ts_node *a, const ts_node *b) {
  return a->work.kind == b->work.kind && a->n_after == b->n_after &&
         !memcmp(a->after, b->after, (size_t)a->n_after * sizeof *a->after);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t x, cudaGraph_t g,
                                cudaGraphExecUpdateResultInfo *info) {
  info->result = cudaGraphExecUpdateErrorTopologyChanged;
  bool same = x->nodes->n == g->n;
  for (int i = 0; same && i < g->n; i++)
    same = alike(&x->nodes->node[i], &g->node[i]);
  if (!same) return ts_answer(cudaErrorGraphExecUpdateFailure);
  info->result = cudaGraphExecUpdateSuccess;
  ts_graph_drop(x->nodes);
  x->nodes = copy_of(g->node, g->n);
  return ts_answer(cudaSuccess);
}

/* ---- nodes --------------------------------------------------------------- */

static cudaError_t front_of(cudaStream_t s, cudaStreamCaptureStatus *status,
                            const cudaGraphNode_t **last, size_t *n) {
  static _Thread_local cudaGraphNode_t node[FRONT];
  *status = s->front.graph ? cudaStreamCaptureStatusActive
                           : cudaStreamCaptureStatusNone;
  *n = (size_t)s->front.n;
  for (int i = 0; i < s->front.n; i++)
    node[i] = (cudaGraphNode_t)&s->front.graph->node[s->front.node[i]];
  *last = node;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s,
                                     cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **last,
                                     const cudaGraphEdgeData **edges,
                                     size_t *n) {
  if (id || graph || !edges) abort();
  *edges = NULL;
  return front_of(s, status, last, n);
}

/* The node of X that NODE names: of the graph that X was made of, which is
 * there yet, and of KIND. */
static ts_work *work_of(cudaGraphExec_t x, cudaGraphNode_t node,
                        ts_work_kind kind) {
  const ts_node *from = (const ts_node *)(void *)node;
  const ts_node *first = x->made_of->node;
  if (from < first || from >= first + x->made_of->n) abort();
  ts_work *w = &x->nodes->node[from - first].work;
  if (w->kind != kind) abort();
  return w;
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t x,
                                             cudaGraphNode_t node,
                                             const cudaKernelNodeParams *p) {
  cudaError_t e;
  ts_work *w = work_of(x, node, LAUNCH);
  ts_work_end(w);
  *w = ts_launch_of(p, &e);
  return ts_answer(e);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t x,
                                               cudaGraphNode_t node, void *dst,
                                               const void *src, size_t bytes,
                                               cudaMemcpyKind kind) {
  ts_work *w = work_of(x, node, COPY);
  bool to, from, to_now, from_now;
  if (!bytes || kind != cudaMemcpyDefault || !ts_memory_knows(w->dst, &to) ||
      !ts_memory_knows(w->src, &from) || !ts_memory_knows(dst, &to_now) ||
      !ts_memory_knows(src, &from_now) || to != to_now || from != from_now)
    return ts_answer(cudaErrorInvalidValue);
  w->dst = dst;
  w->src = src;
  w->bytes = bytes;
  return ts_answer(cudaSuccess);
}

/* Whether other sizes are taken is CUDA's to say: here they aren't. */
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t x,
                                             cudaGraphNode_t node,
                                             const cudaMemsetParams *p) {
  ts_work *w = work_of(x, node, SET);
  if (p->height != 1 || p->elementSize != 1 || p->width != w->bytes)
    return ts_answer(cudaErrorInvalidValue);
  w->dst = p->dst;
  w->value = (int)p->value;
  return ts_answer(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) {
  ts_graph_drop(x->nodes);
  free(x);
  return ts_answer(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s) {
  if (s->front.graph) abort();
  return ts_enqueue(
      s, (ts_work){.kind = GRAPH, .run = copy_of(x->nodes->node, x->nodes->n)});
}

static bool can_run(const ts_node *node, const bool *did) {
  for (int i = 0; i < node->n_after; i++)
    if (!did[node->after[i]]) return false;
  return true;
}

void ts_graph_run(ts_graph_work *g) {
  bool did[NODES] = {0};
  for (int k = 0; k < g->n; k++) {
    int i = g->n - 1;
    while (did[i] || !can_run(&g->node[i], did)) i--;
    did[i] = true;
    pthread_mutex_lock(&ts_emulated_lock);
    ts_look(&g->node[i].work, false);
    pthread_mutex_unlock(&ts_emulated_lock);
    ts_work_do(&g->node[i].work);
  }
}
