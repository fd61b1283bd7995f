/* graph.cu - the work of lanes as CUDA graphs (runtime/graph.h).
 *
 * The first time a stream is captured from begin to end; the graph becomes an
 * executable and is launched on the same stream.  All that was captured is
 * noted down piece by piece (notes.h).  From then on nothing is captured: tasks
 * run as ever, and what they enqueue is compared with the notes.  A launch or
 * copy with new arguments gives them to its node of the executable
 * (cudaGraphExecKernelNodeSetParams), anything that is the same is left out,
 * and end launches the executable.
 *
 * Where a step does something else than the notes say, what has been left out
 * so far is enqueued after all, in a capture that goes on to the end: nothing
 * is lost.  Its graph gives new arguments to the executable
 * (cudaGraphExecUpdate), or becomes a new one.
 *
 * - Captures are relaxed: this backend knows what can't be captured and ends a
 *   capture before it (ts_graph_cut), where the stricter modes would make the
 *   whole capture void: its work would be lost.
 * - A lane that waits for noted work joins, until the end; what was queued on
 *   it before is waited for by the launch.  So are events of lanes that do
 *   not take part.
 * - Positions that were recorded meanwhile stand for nothing until the launch;
 *   then all are recorded behind it (event_ring.h). */
#include <string.h>

#include "cuda/runtime/graph.h"

enum { MISSES = 3 }; /* steps one after the other that were not as noted */

static uint64_t turn;

ts_cuda_graph *ts_cuda_graph_open(void) {
  ts_graph *g = ts_graph_now();
  return g && g->lane->device->ops->graph_end == ts_cuda_graph_end
             ? ts_cuda_graph_as(g)
             : NULL;
}

uint64_t ts_cuda_graph_turn(void) {
  return __atomic_load_n(&turn, __ATOMIC_RELAXED);
}

ts_notes *ts_cuda_graph_notes(cudaStream_t stream, ts_cuda_lane **lane) {
  ts_cuda_graph *g = ts_cuda_graph_open();
  for (int i = 0; g && i < g->n_lanes; i++)
    if (g->lane[i]->stream == stream) {
      *lane = g->lane[i];
      return &g->notes;
    }
  return NULL;
}

ts_lane *ts_cuda_graph_of(cudaStream_t stream) {
  ts_cuda_lane *lane;
  return ts_cuda_graph_notes(stream, &lane) ? ts_cuda_graph_open()->base.lane
                                            : NULL;
}

/* ---- pieces of work ------------------------------------------------------ */

static ts_err capture(ts_cuda_graph *g) {
  g->replays = g->known = false;
  return TS_CUDA(
      cudaStreamBeginCapture(g->lane[0]->stream, cudaStreamCaptureModeRelaxed));
}

static ts_err issue(ts_cuda_graph *g, ts_note *note) {
  const ts_err err = ts_note_issue(&g->notes, note);
  const bool has_node = note->kind == TS_NOTE_LAUNCH ||
                        note->kind == TS_NOTE_COPY || note->kind == TS_NOTE_SET;
  note->node =
      err == TS_OK && has_node ? ts_note_node(note->lane->stream) : NULL;
  return err;
}

/* The step differs from its notes from here on: the work that was left out so
 * far is captured after all. */
static ts_err go_back(ts_cuda_graph *g, ts_note *draft) {
  g->n_misses++;
  ts_notes_cut(&g->notes, g->notes.next, draft);
  TS_DO(capture(g));
  for (int i = 0; i < g->notes.n; i++) TS_DO(issue(g, &g->notes.item[i]));
  return TS_OK;
}

ts_err ts_cuda_graph_put(ts_note *draft) {
  ts_cuda_graph *g = ts_cuda_graph_open();
  bool same, changed;
  if (g->replays) {
    ts_notes_play(&g->notes, draft, g->exec, &same, &changed);
    g->base.counts.n_renewed += changed;
    if (same) return TS_OK;
    TS_DO(go_back(g, draft));
  }
  TS_DO(issue(g, draft));
  return ts_notes_add(&g->notes, draft);
}

ts_err ts_cuda_graph_note(ts_notes *l, ts_note draft, const void *arg,
                          size_t bytes) {
  const ts_err err = ts_notes_draft(l, &draft, arg, bytes);
  return err == TS_OK ? ts_cuda_graph_put(&draft) : err;
}

/* ---- from work to a graph ------------------------------------------------ */

ts_err ts_cuda_graph_begin(ts_graph *base) {
  ts_err err = TS_OK;
  ts_cuda_graph *g = ts_cuda_graph_as(base);
  ts_cuda_lane *l = ts_cuda_lane_of(base->lane);
  g->n_lanes = g->n_before = 0;
  TS_TRY(ts_lane_error(base->lane));
  TS_TRY(ts_cuda_use());
  g->lane[0] = l;
  if (g->known && g->n_misses < MISSES) {
    g->replays = true;
    g->notes.next = 0;
  } else {
    ts_notes_cut(&g->notes, 0, NULL);
    TS_TRY(capture(g));
  }
  (void)__atomic_add_fetch(&turn, 1, __ATOMIC_RELAXED);
  ts_cuda_graph_enter(g, l);
done:
  return ts_cuda_lane_keep(l, err);
}

/* Lanes that joined end where the first one does. */
static ts_err join_back(ts_cuda_graph *g) {
  for (int i = 1; i < g->n_lanes; i++) {
    TS_DO(TS_CUDA(cudaEventRecord(g->mark, g->lane[i]->stream)));
    TS_DO(TS_CUDA(cudaStreamWaitEvent(g->lane[0]->stream, g->mark, 0)));
  }
  return TS_OK;
}

static void drop_graph(cudaGraph_t graph) {
  if (graph) (void)ts_cuda_ok(cudaGraphDestroy(graph));
}

static void drop_executable(ts_cuda_graph *g) {
  if (g->exec) (void)ts_cuda_ok(cudaGraphExecDestroy(g->exec));
  drop_graph(g->graph);
  g->exec = NULL;
  g->graph = NULL;
}

/* False where the sequence of work differs from the executable's. */
static bool update(ts_cuda_graph *g, cudaGraph_t graph) {
  if (!g->exec) return false;
#if CUDART_VERSION >= 12000
  cudaGraphExecUpdateResultInfo info = {};
  const cudaError_t e = cudaGraphExecUpdate(g->exec, graph, &info);
#else
  cudaGraphNode_t at = NULL;
  cudaGraphExecUpdateResult result;
  const cudaError_t e = cudaGraphExecUpdate(g->exec, graph, &at, &result);
#endif
  return ts_cuda_ok(e);
}

/* GRAPH is its own from here on. */
static ts_err make(ts_cuda_graph *g, cudaGraph_t graph) {
  drop_executable(g);
  g->graph = graph;
#if CUDART_VERSION >= 12000
  return TS_CUDA(cudaGraphInstantiate(&g->exec, graph, 0));
#else
  return TS_CUDA(cudaGraphInstantiate(&g->exec, graph, NULL, NULL, 0));
#endif
}

/* From what was captured to an executable; GRAPH is taken. */
static ts_err build(ts_cuda_graph *g, cudaGraph_t graph) {
  ts_graph_counts *c = &g->base.counts;
  const uint64_t shape = ts_notes_shape(&g->notes);
  if (shape == g->shape && update(g, graph)) {
    drop_graph(graph);
    ts_notes_nodes_restore(&g->notes);
    c->n_updated++;
  } else {
    TS_DO(make(g, graph));
    TS_DO(ts_notes_nodes_keep(&g->notes));
    g->shape = shape;
    c->n_made++;
  }
  g->known = true;
  return TS_OK;
}

/* Ends the capture and makes an executable of it; *ANY: there is any work. */
static ts_err end_capture(ts_cuda_graph *g, bool *any) {
  cudaGraph_t graph = NULL;
  size_t n = 0;
  ts_err err = join_back(g);
  const ts_err later =
      TS_CUDA(cudaStreamEndCapture(g->lane[0]->stream, &graph));
  if (err == TS_OK) err = later;
  TS_TRY(err);
  TS_TRY(TS_CUDA(cudaGraphGetNodes(graph, NULL, &n)));
  *any = n > 0;
  if (n) {
    g->base.counts.n_nodes = (int64_t)n;
    err = build(g, graph);
    graph = NULL;
  }
done:
  drop_graph(graph);
  return err;
}

/* Later work of the lanes that took part comes behind the graph. */
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
  ts_cuda_graph *g = ts_cuda_graph_as(base);
  cudaStream_t stream = g->lane[0]->stream;
  bool any = true;
  ts_err err = TS_OK, later;
  if (g->replays && g->notes.next < g->notes.n) err = go_back(g, NULL);
  if (g->replays) {
    g->n_misses = 0;
    base->counts.n_replayed++;
  } else {
    later = end_capture(g, &any);
    if (err == TS_OK) err = later;
  }
  ts_cuda_graph_leave(g);
  for (int i = 0; i < g->n_before && err == TS_OK; i++)
    err = ts_cuda_stream_wait(g->lane[0], g->before[i]);
  if (err == TS_OK && any) err = TS_CUDA(cudaGraphLaunch(g->exec, stream));
  later = release(g);
  if (err == TS_OK) err = later;
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
  ts_cuda_graph *g = ts_cuda_graph_as(base);
  drop_executable(g);
  ts_notes_reset(&g->notes);
  (void)ts_cuda_ok(cudaEventDestroy(g->mark));
  ts_mem_free(g);
}
