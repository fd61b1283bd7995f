/* events.cu - positions of lanes on a GPU, and who waits for them.
 *
 * An event is the number of a position; what CUDA knows of it is in the lane's
 * ring (event_ring.h).  The host never waits inside CUDA: it asks and sleeps,
 * so that every wait has a deadline. */
#include <math.h>

#include "cuda/runtime/graph.h"

enum {
  ASKED_AT_ONCE = 100, /* times, before the first pause */
  PAUSE_US = 10
};

/* ---- CUDA events of positions -------------------------------------------- */

static ts_err event_create(void **event, void *) {
  return TS_CUDA(
      cudaEventCreateWithFlags((cudaEvent_t *)event, cudaEventDisableTiming));
}

static void event_destroy(void *event, void *) {
  (void)ts_cuda_ok(cudaEventDestroy((cudaEvent_t)event));
}

static ts_err event_record(void *event, void *arg) {
  const ts_cuda_lane *l = (ts_cuda_lane *)arg;
  const cudaError_t e = cudaEventRecord((cudaEvent_t)event, l->stream);
  return e == cudaSuccess ? TS_OK : ts_cuda_device_fault(l, e);
}

static ts_err event_query(void *event, bool *reached, void *arg) {
  const cudaError_t e = cudaEventQuery((cudaEvent_t)event);
  *reached = ts_cuda_ok(e);
  return *reached || e == cudaErrorNotReady
             ? TS_OK
             : ts_cuda_device_fault((ts_cuda_lane *)arg, e);
}

const ts_event_calls ts_cuda_event_calls = {event_create, event_destroy,
                                            event_record, event_query};

/* ---- events -------------------------------------------------------------- */

ts_event ts_cuda_event_record(ts_lane *lane) {
  ts_cuda_lane *l = ts_cuda_lane_of(lane);
  ts_event event = {lane, 0};
  const bool was_clean = ts_cuda_is_clean();
  ts_err err = ts_cuda_use();
  pthread_mutex_lock(&l->lock);
  if (err == TS_OK) err = ts_event_ring_record(&l->ring, &event.seq);
  pthread_mutex_unlock(&l->lock);
  if (err == TS_OK) err = ts_cuda_graph_recorded(l, event.seq);
  ts_cuda_lane_keep_quietly(l, err, was_clean);
  return event;
}

bool ts_cuda_event_done(ts_event event) {
  ts_cuda_lane *l = ts_cuda_lane_of(event.lane);
  const bool was_clean = ts_cuda_is_clean();
  ts_err err = ts_cuda_use();
  pthread_mutex_lock(&l->lock);
  if (err == TS_OK && l->ring.done < event.seq)
    err = ts_event_ring_poll(&l->ring);
  const bool reached = l->ring.done >= event.seq;
  pthread_mutex_unlock(&l->lock);
  ts_cuda_lane_keep_quietly(l, err, was_clean);
  return reached || err != TS_OK;
}

/* A collective reports its own deadline, and gets time to do so. */
enum { MORE_S = 5 };

/* The host waits until EVENT is done; OK also where its lane has failed. */
static ts_err block(ts_event event) {
  const ts_cuda_lane *l = ts_cuda_lane_of(event.lane);
  const double limit = l->base.device->options.timeout_s;
  TS_DO(ts_graph_cut("the host waits"));
  const double end = limit > 0 ? ts_now() + limit + MORE_S : INFINITY;
  for (int asked = 0; !ts_cuda_event_done(event); asked++) {
    if (ts_now() > end)
      return ts_fail(TS_ERR_COMM,
                     "lane \"%s\" did not get on within %.0f s, last task "
                     "\"%s\"",
                     l->base.name, limit + MORE_S, l->span ? l->span : "none");
    if (asked >= ASKED_AT_ONCE) ts_pause(PAUSE_US);
  }
  return TS_OK;
}

ts_err ts_cuda_event_sync(ts_event event) {
  ts_cuda_lane *l = ts_cuda_lane_of(event.lane);
  const ts_err err = block(event);
  if (err != TS_OK) return err;
  pthread_mutex_lock(&l->lock);
  ts_cuda_spans_read(l);
  pthread_mutex_unlock(&l->lock);
  return ts_cuda_lane_fault(l);
}

/* The CUDA event may stand for a later position afterwards: that changes
 * nothing for a stream that waits already. */
ts_err ts_cuda_stream_wait(ts_cuda_lane *l, ts_event event) {
  ts_cuda_lane *other = ts_cuda_lane_of(event.lane);
  cudaError_t e = cudaSuccess;
  pthread_mutex_lock(&other->lock);
  ts_err err = ts_event_ring_poll(&other->ring);
  void *found = ts_event_ring_find(&other->ring, event.seq);
  if (found) e = cudaStreamWaitEvent(l->stream, (cudaEvent_t)found, 0);
  pthread_mutex_unlock(&other->lock);
  if (ts_cuda_lane_keep(other, err) != TS_OK) return err;
  return e == cudaSuccess ? ts_cuda_lane_fault(other)
                          : ts_cuda_device_fault(l, e);
}

ts_err ts_cuda_event_wait(ts_lane *lane, ts_event event) {
  ts_cuda_lane *l = ts_cuda_lane_of(lane);
  ts_err err = TS_OK;
  bool noted = false;
  TS_TRY(ts_cuda_lane_fault(l));
  TS_TRY(ts_cuda_use());
  TS_TRY(ts_cuda_graph_wait(l, event, &noted));
  if (!noted) TS_TRY(ts_cuda_stream_wait(l, event));
done:
  return ts_cuda_lane_keep(l, err);
}

/* ---- marks of a clock: events with times (runtime/clock.h) --------------- */

ts_err ts_cuda_mark(ts_lane *lane, void **mark) {
  TS_DO(ts_cuda_use());
  TS_DO(ts_graph_cut("a clock is set"));
  if (!*mark)
    TS_DO(TS_CUDA(
        cudaEventCreateWithFlags((cudaEvent_t *)mark, cudaEventDefault)));
  return TS_CUDA(cudaEventRecord((cudaEvent_t)*mark, ts_cuda_stream(lane)));
}

ts_err ts_cuda_between(ts_lane *, void *a, void *b, double *seconds) {
  float ms = 0;
  const ts_err err =
      TS_CUDA(cudaEventElapsedTime(&ms, (cudaEvent_t)a, (cudaEvent_t)b));
  *seconds = 1e-3 * (double)ms;
  return err;
}

void ts_cuda_unmark(void *mark) {
  event_destroy(mark, NULL);
}
