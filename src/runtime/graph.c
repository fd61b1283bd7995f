/* graph.c - which graph the calling thread has open, and what became of it;
 * the device does the rest. */
#include "runtime/graph.h"

#include <stdio.h>

#include "runtime/clock.h"
#include "runtime/device_impl.h"
#include "runtime/trace.h"

static _Thread_local ts_graph *now;

ts_err ts_graph_create(ts_graph **out, ts_lane *lane) {
  ts_device *d = lane->device;
  *out = NULL;
  if (!d->ops->graph_create || d->options.serial) return TS_OK;
  return d->ops->graph_create(out, lane);
}

/* It is open no more, whatever becomes of its end. */
static ts_err finish(ts_graph *g) {
  now = NULL;
  return g->lane->device->ops->graph_end(g);
}

void ts_graph_destroy(ts_graph *g) {
  if (!g) return;
  if (now == g && finish(g) != TS_OK) ts_err_clear(); /* its lane's, too */
  g->lane->device->ops->graph_destroy(g);
}

ts_err ts_graph_begin(ts_graph *g) {
  if (!g || ts_trace_on() || ts_clock_phases_on()) return TS_OK;
  if (now)
    return ts_fail(TS_ERR_INTERNAL, "a graph within a graph, on lane \"%s\"",
                   g->lane->name);
  TS_DO(g->lane->device->ops->graph_begin(g));
  now = g;
  g->counts.n_begun++;
  return TS_OK;
}

ts_err ts_graph_end(ts_graph *g) {
  return g && g == now ? finish(g) : TS_OK;
}

ts_err ts_graph_cut(const char *why) {
  ts_graph *g = now;
  if (!g) return TS_OK;
  if (!g->counts.n_cut++)
    (void)snprintf(g->counts.why, sizeof g->counts.why, "%s", why);
  return finish(g);
}

ts_graph *ts_graph_now(void) {
  return now;
}

ts_graph_counts ts_graph_counts_of(const ts_graph *g) {
  return g ? g->counts : (ts_graph_counts){0};
}
