/* backend.cu - "cuda" in the list of backends: its device and its table of
 * kernels. */
#include "cuda/runtime/cuda_impl.h"

extern "C" {
#include "config.h"
#include "runtime/backends.h"
}

/* The table of a family is filled by its own file; ts_kernels_fill names what
 * is missing. */
static ts_err kernels_fill(ts_kernels *k, const char *) {
  k->isa = "cuda";
  ts_cuda_kernels_memory(k);
  ts_cuda_kernels_views(k);
  ts_cuda_kernels_lookup(k);
  ts_cuda_kernels_update(k);
  ts_cuda_kernels_cache(k);
  ts_cuda_kernels_pack(k);
  ts_cuda_kernels_entries(k);
  ts_cuda_kernels_unpack(k);
  ts_cuda_kernels_products(k);
  ts_cuda_kernels_loss(k);
  ts_cuda_kernels_interact(k);
  ts_cuda_kernels_cross(k);
  ts_cuda_kernels_flat(k);
  return TS_OK;
}

extern "C" {
#ifdef HAVE_NCCL
extern const struct ts_wire_ops ts_wire_nccl; /* cuda/runtime/comm_nccl.cu */
static const struct ts_wire_ops *const wire = &ts_wire_nccl;
#else
static const struct ts_wire_ops *const wire = NULL;
#endif
extern const ts_backend ts_backend_cuda;
const ts_backend ts_backend_cuda = {"cuda", ts_cuda_device_create,
                                    kernels_fill, wire};
}
