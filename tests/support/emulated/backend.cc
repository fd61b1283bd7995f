/* backend.cc - cuda/ over this runtime as a backend of its own. */
#include "cuda/runtime/cuda_impl.h"

extern "C" {
#include "runtime/backends.h"
#include "tests/support/emulated/emulated.h"

extern const ts_backend ts_backend_cuda;
extern const struct ts_wire_ops ts_wire_nccl;
extern const ts_backend ts_backend_emulated, ts_backend_emulated_cuda;
void ts_gpu_tell(const ts_emulated_gpu *);
}

static ts_device_ops named; /* as cuda/ has them, by this name */

static ts_err create(ts_device **d, const ts_device_options *o) {
  const ts_err err = ts_backend_cuda.device_create(d, o);
  if (err != TS_OK) return err;
  named = *(*d)->ops;
  named.name = "emulated";
  (*d)->ops = &named;
  return TS_OK;
}

static ts_err create_as_cuda(ts_device **d, const ts_device_options *o) {
  return ts_backend_cuda.device_create(d, o);
}

static ts_err fill(ts_kernels *k, const char *isa) {
  return ts_backend_cuda.kernels_fill(k, isa);
}

const ts_backend ts_backend_emulated = {"emulated", create, fill,
                                        &ts_wire_nccl};
const ts_backend ts_backend_emulated_cuda = {"cuda", create_as_cuda, fill,
                                             &ts_wire_nccl};

void *ts_emulated_stream_of(ts_lane *lane) {
  return ts_cuda_stream(lane);
}

/* cuda/ asks for the GPU once. */
void ts_gpu_tell(const ts_emulated_gpu *g) {
  ts_cuda_gpu *known = (ts_cuda_gpu *)(uintptr_t)ts_cuda_gpu_now();
  known->n_sms = g->n_sms;
  known->grid_max = g->grid_max;
  known->shared_bytes_max = g->shared_bytes;
  known->capability = g->capability;
}
