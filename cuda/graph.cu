/* graph.cu - the work of lanes as CUDA graphs (runtime/graph.h).
 *
 * A stream is captured from begin to end; the graph then becomes an executable
 * and is launched on the same stream.  The executable is kept: as long as the
 * sequence of work is the same, the next graph only gives it new arguments
 * (cudaGraphExecUpdate), so numbers that launches have by value are right.
 *
 * - Captures are relaxed: this backend knows what can't be captured and ends a
 *   capture before it (ts_graph_cut), where the stricter modes would make the
 *   whole capture void: its work would be lost.
 * - A lane that waits for noted work joins, until the end; what was queued on
 *   it before is waited for by the launch.  So are events of lanes that do
 *   not take part.
 * - Positions that were recorded meanwhile stand for nothing until the launch;
 *   then all are recorded anew behind it (event_ring.h). */
#include <math.h>
#include <string.h>

#include "cuda/graph.h"

enum { LANES = 8, BEFORE = 64 };

typedef struct ts_cuda_graph {
  ts_graph base;
  cudaGraphExec_t exec;
  cudaEvent_t mark;          /* between its lanes */
  ts_cuda_lane *lane[LANES]; /* that take part; it begins on the first */
  ts_event before[BEFORE];   /* what the launch waits for */
  int n_lanes, n_before;
} ts_cuda_graph;

static uint64_t turn;

static ts_cuda_graph *cuda(ts_graph *g) {
  return (ts_cuda_graph *)g;
}

/* The calling thread's open graph, if it is one of these. */
static ts_cuda_graph *open_graph(void) {
  ts_graph *g = ts_graph_now();
  return g && g->lane->device->ops->graph_end == ts_cuda_graph_end ? cuda(g)
                                                                   : NULL;
}

uint64_t ts_cuda_graph_turn(void) {
  return __atomic_load_n(&turn, __ATOMIC_RELAXED);
}

ts_lane *ts_cuda_graph_of(cudaStream_t stream) {
  const ts_cuda_graph *g = open_graph();
  for (int i = 0; g && i < g->n_lanes; i++)
    if (g->lane[i]->stream == stream) return g->base.lane;
  return NULL;
}

/* ---- lanes that take part ------------------------------------------------ */

static void enter(ts_cuda_graph *g, ts_cuda_lane *l) {
  g->lane[g->n_lanes++] = l;
  pthread_mutex_lock(&l->lock);
  l->graph = &g->base;
  ts_event_ring_hold(&l->ring);
  pthread_mutex_unlock(&l->lock);
}

static ts_graph *graph_of(ts_cuda_lane *l) {
  pthread_mutex_lock(&l->lock);
  ts_graph *g = l->graph;
  pthread_mutex_unlock(&l->lock);
  return g;
}

/* Whether EVENT waits for the start of a graph: *BY, NULL while that one is
 * being started. */
static bool is_held(ts_event event, ts_graph **by) {
  ts_cuda_lane *l = ts_cuda_lane_of(event.lane);
  pthread_mutex_lock(&l->lock);
  const bool held = ts_event_ring_holds(&l->ring, event.seq);
  *by = held ? l->graph : NULL;
  pthread_mutex_unlock(&l->lock);
  return held;
}

static bool full(const ts_cuda_graph *g) {
  return g->n_lanes == LANES || g->n_before == BEFORE;
}

/* What is queued on L comes before all of the graph. */
static void join(ts_cuda_graph *g, ts_cuda_lane *l) {
  g->before[g->n_before++] = ts_lane_record(&l->base);
  enter(g, l);
}

/* Another thread's graph: this one waits until it has been started. */
static ts_err await_start(ts_event event) {
  const double limit = event.lane->device->options.timeout_s;
  const double end = limit > 0 ? ts_now() + limit : INFINITY;
  ts_graph *by;
  while (is_held(event, &by)) {
    if (ts_now() > end)
      return ts_fail(TS_ERR_COMM, "the graph of lane \"%s\" was not started",
                     event.lane->name);
    ts_pause(10);
  }
  return TS_OK;
}

/* L waits for noted work of G. */
static ts_err wait_within(ts_cuda_graph *g, ts_cuda_lane *l, ts_event event,
                          bool *noted) {
  ts_cuda_lane *other = ts_cuda_lane_of(event.lane);
  cudaError_t e = cudaSuccess;
  if (graph_of(l) != &g->base) {
    if (full(g)) return ts_graph_cut("too many lanes take part");
    join(g, l);
  }
  pthread_mutex_lock(&other->lock);
  void *found = ts_event_ring_find(&other->ring, event.seq);
  if (found) e = cudaStreamWaitEvent(l->stream, (cudaEvent_t)found, 0);
  pthread_mutex_unlock(&other->lock);
  *noted = true;
  return TS_CUDA(e);
}

/* A lane of G waits for what is outside of it: the launch does. */
static ts_err wait_outside(ts_cuda_graph *g, ts_event event, bool *noted) {
  if (!ts_event_done(event)) {
    if (g->n_before == BEFORE) return ts_graph_cut("too many waits");
    g->before[g->n_before++] = event;
  }
  *noted = true;
  return TS_OK;
}

ts_err ts_cuda_graph_wait(ts_cuda_lane *l, ts_event event, bool *noted) {
  ts_err err = TS_OK;
  ts_cuda_graph *g = open_graph();
  ts_graph *holder;
  bool held = is_held(event, &holder);
  *noted = false;
  if (held && (!g || holder != &g->base)) {
    TS_TRY(await_start(event));
    held = false;
  }
  if (held)
    err = wait_within(g, l, event, noted);
  else if (g && graph_of(l) == &g->base)
    err = wait_outside(g, event, noted);
done:
  return err;
}

/* ---- from work to a graph ------------------------------------------------ */

ts_err ts_cuda_graph_begin(ts_graph *base) {
  ts_err err = TS_OK;
  ts_cuda_graph *g = cuda(base);
  ts_cuda_lane *l = ts_cuda_lane_of(base->lane);
  g->n_lanes = g->n_before = 0;
  TS_TRY(ts_lane_error(base->lane));
  TS_TRY(ts_cuda_use());
  TS_TRY(
      TS_CUDA(cudaStreamBeginCapture(l->stream, cudaStreamCaptureModeRelaxed)));
  (void)__atomic_add_fetch(&turn, 1, __ATOMIC_RELAXED);
  enter(g, l);
done:
  return ts_cuda_lane_keep(l, err);
}

/* Lanes that joined end where the first one does. */
static ts_err join_back(ts_cuda_graph *g) {
  ts_err err = TS_OK;
  for (int i = 1; i < g->n_lanes; i++) {
    TS_TRY(TS_CUDA(cudaEventRecord(g->mark, g->lane[i]->stream)));
    TS_TRY(TS_CUDA(cudaStreamWaitEvent(g->lane[0]->stream, g->mark, 0)));
  }
done:
  return err;
}

static void leave(ts_cuda_graph *g) {
  for (int i = 0; i < g->n_lanes; i++) {
    pthread_mutex_lock(&g->lane[i]->lock);
    g->lane[i]->graph = NULL;
    pthread_mutex_unlock(&g->lane[i]->lock);
  }
}

static void drop_executable(ts_cuda_graph *g) {
  if (g->exec && cudaGraphExecDestroy(g->exec) != cudaSuccess)
    (void)cudaGetLastError();
  g->exec = NULL;
}

/* False where the sequence of work is another one. */
static bool update(ts_cuda_graph *g, cudaGraph_t graph) {
  if (!g->exec) return false;
#if CUDART_VERSION >= 12000
  cudaGraphExecUpdateResultInfo info;
  memset(&info, 0, sizeof info);
  const cudaError_t e = cudaGraphExecUpdate(g->exec, graph, &info);
#else
  cudaGraphNode_t at = NULL;
  cudaGraphExecUpdateResult result;
  const cudaError_t e = cudaGraphExecUpdate(g->exec, graph, &at, &result);
#endif
  if (e != cudaSuccess) (void)cudaGetLastError();
  return e == cudaSuccess;
}

static ts_err make(ts_cuda_graph *g, cudaGraph_t graph) {
  drop_executable(g);
#if CUDART_VERSION >= 12000
  return TS_CUDA(cudaGraphInstantiate(&g->exec, graph, 0));
#else
  return TS_CUDA(cudaGraphInstantiate(&g->exec, graph, NULL, NULL, 0));
#endif
}

static ts_err launch(ts_cuda_graph *g, cudaGraph_t graph) {
  ts_err err = TS_OK;
  ts_graph_counts *c = &g->base.counts;
  size_t n = 0;
  TS_TRY(TS_CUDA(cudaGraphGetNodes(graph, NULL, &n)));
  if (n == 0) return TS_OK;
  c->n_nodes = (int64_t)n;
  if (update(g, graph)) {
    c->n_updated++;
  } else {
    TS_TRY(make(g, graph));
    c->n_made++;
  }
  TS_TRY(TS_CUDA(cudaGraphLaunch(g->exec, g->lane[0]->stream)));
done:
  return err;
}

/* What comes next on lanes that took part comes behind the graph. */
static ts_err release(ts_cuda_graph *g) {
  ts_err err = TS_OK;
  TS_TRY(TS_CUDA(cudaEventRecord(g->mark, g->lane[0]->stream)));
  for (int i = 1; i < g->n_lanes; i++)
    TS_TRY(TS_CUDA(cudaStreamWaitEvent(g->lane[i]->stream, g->mark, 0)));
done:
  for (int i = 0; i < g->n_lanes; i++) {
    ts_cuda_lane *l = g->lane[i];
    pthread_mutex_lock(&l->lock);
    const ts_err late = ts_event_ring_release(&l->ring);
    pthread_mutex_unlock(&l->lock);
    if (err == TS_OK) err = late;
  }
  return err;
}

ts_err ts_cuda_graph_end(ts_graph *base) {
  ts_cuda_graph *g = cuda(base);
  cudaGraph_t graph = NULL;
  ts_err err = join_back(g), later;
  later = TS_CUDA(cudaStreamEndCapture(g->lane[0]->stream, &graph));
  if (err == TS_OK) err = later;
  leave(g);
  for (int i = 0; i < g->n_before && err == TS_OK; i++)
    err = ts_cuda_stream_wait(g->lane[0], g->before[i]);
  if (err == TS_OK) err = launch(g, graph);
  later = release(g);
  if (err == TS_OK) err = later;
  if (graph && cudaGraphDestroy(graph) != cudaSuccess) (void)cudaGetLastError();
  return ts_cuda_lane_keep(g->lane[0], err);
}

/* ---- graphs -------------------------------------------------------------- */

ts_err ts_cuda_graph_create(ts_graph **out, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_cuda_graph *g = NULL;
  TS_TRY(ts_mem_alloc(&g, sizeof *g, TS_TAG_MISC));
  memset(g, 0, sizeof *g);
  g->base.lane = lane;
  TS_TRY(ts_cuda_use());
  TS_TRY(TS_CUDA(cudaEventCreateWithFlags(&g->mark, cudaEventDisableTiming)));
  *out = &g->base;
  g = NULL;
done:
  ts_mem_free(g);
  return err;
}

void ts_cuda_graph_destroy(ts_graph *base) {
  ts_cuda_graph *g = cuda(base);
  drop_executable(g);
  if (cudaEventDestroy(g->mark) != cudaSuccess) (void)cudaGetLastError();
  ts_mem_free(g);
}
