/* backend.cu - "cuda" in the list of backends: its device and its table of
 * kernels. */
#include "cuda/runtime/cuda_impl.h"

extern "C" {
#include "config.h"
#include "runtime/backends.h"
}

static ts_err kernels_fill(ts_kernels *k, const char *) {
#define SET(name, params) k->name = ts_cuda_##name;
  TS_KERNEL_LIST(SET)
#undef SET
  k->engine = &ts_cuda_products;
  k->isa = "cuda";
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
