/* graph_lanes.cu - which lanes take part in a graph, and what they wait for. */
#include <math.h>

#include "cuda/runtime/graph.h"

void ts_cuda_graph_enter(ts_cuda_graph *g, ts_cuda_lane *l) {
  g->lane[g->n_lanes++] = l;
  pthread_mutex_lock(&l->lock);
  l->graph = &g->base;
  ts_event_ring_hold(&l->ring);
  pthread_mutex_unlock(&l->lock);
}

void ts_cuda_graph_leave(ts_cuda_graph *g) {
  for (int i = 0; i < g->n_lanes; i++) {
    pthread_mutex_lock(&g->lane[i]->lock);
    g->lane[i]->graph = NULL;
    pthread_mutex_unlock(&g->lane[i]->lock);
  }
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
  return g->n_lanes == TS_GRAPH_LANES || g->n_before == TS_GRAPH_BEFORE;
}

/* The launch waits for what is queued on L already. */
static void join(ts_cuda_graph *g, ts_cuda_lane *l) {
  g->before[g->n_before++] = ts_lane_record(&l->base);
  ts_cuda_graph_enter(g, l);
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

/* Position SEQ of L, whose graph is open here. */
static ts_err put_position(ts_cuda_graph *g, ts_note_kind kind, ts_cuda_lane *l,
                           ts_cuda_lane *of, uint64_t seq) {
  const ts_note_position at = {seq - of->ring.asked};
  return ts_cuda_graph_note(&g->notes, {kind, l, of}, &at, sizeof at);
}

/* L waits for noted work of G. */
static ts_err wait_within(ts_cuda_graph *g, ts_cuda_lane *l, ts_event event,
                          bool *noted) {
  if (graph_of(l) != &g->base) {
    if (full(g)) return ts_graph_cut("too many lanes take part");
    join(g, l);
  }
  *noted = true;
  return put_position(g, TS_NOTE_WAIT, l, ts_cuda_lane_of(event.lane),
                      event.seq);
}

/* A lane of G waits for what is outside of it: the launch does. */
static ts_err wait_outside(ts_cuda_graph *g, ts_event event, bool *noted) {
  if (!ts_event_done(event)) {
    if (g->n_before == TS_GRAPH_BEFORE) return ts_graph_cut("too many waits");
    g->before[g->n_before++] = event;
  }
  *noted = true;
  return TS_OK;
}

ts_err ts_cuda_graph_wait(ts_cuda_lane *l, ts_event event, bool *noted) {
  ts_err err = TS_OK;
  ts_cuda_graph *g = ts_cuda_graph_open();
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

ts_err ts_cuda_graph_recorded(ts_cuda_lane *l, uint64_t seq) {
  ts_cuda_graph *g = ts_cuda_graph_open();
  if (!g || graph_of(l) != &g->base) return TS_OK;
  return put_position(g, TS_NOTE_RECORD, l, l, seq);
}
