/* comm_choose.c - what carries the buffers of a world's device: chosen once,
 * from what all ranks say, so that all choose the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/backends.h"
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"

static const ts_comm_ops host = {.name = "mpi"};

const char *ts_world_backend(const ts_world *w) {
  if (w->ops == &ts_comm_ops_wired) return w->wire->name;
  return w->disorder ? "mpi through pinned memory, as NCCL is before 2.26"
                     : w->ops->name;
}

ts_err ts_world_choose(ts_world *w) {
  ts_err err = TS_OK;
  ts_wire_place own, *places = NULL;
  bool wired = false;
  const ts_device_ops *device = w->device->ops;
  const bool remote = device->is_remote != NULL;
  const ts_backend *backend = ts_backend_find(device->name);
  w->wire = w->options.wire ? w->options.wire : backend ? backend->wire : NULL;
  w->ops = remote ? &ts_comm_ops_staged : &host;
  memset(&own, 0, sizeof own);
  memcpy(own.host, w->host, sizeof own.host - 1);
  if (remote) TS_TRY(device->identify(w->device, own.device));
  own.disorder = remote && w->wire && w->wire->in_order && !w->wire->in_order();
  w->disorder = own.disorder;
  /* NCCL tells hosts apart by this where it is set: ranks with different ones
   * may share a GPU, slowly (tests on one GPU). */
  if (remote && getenv("NCCL_HOSTID"))
    snprintf(own.host, sizeof own.host, "%s", getenv("NCCL_HOSTID"));
  TS_TRY(ts_mem_many(places, w->size, COMM));
  TS_TRY(ts_world_gather_places(w, places, &own));
  TS_TRY(ts_wire_choose(&wired, w->options.backend,
                        w->wire ? w->wire->name : NULL, remote, places,
                        w->size));
  if (wired) w->ops = &ts_comm_ops_wired;
done:
  ts_mem_free(places);
  return err;
}
