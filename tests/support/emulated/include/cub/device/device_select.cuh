/* device_select.cuh - cub::DeviceSelect, as a kernel of one thread. */
#pragma once

#include <cuda_runtime.h>

namespace cub {
template <class In, class Flags, class Out, class Count>
void ts_select_flagged(In in, Flags flags, Out out, Count n_out, int64_t n) {
  int64_t at = 0;
  for (int64_t i = 0; i < n; i++)
    if (flags[i]) out[at++] = in[i];
  *n_out = at;
}

struct DeviceSelect {
  /* TEMP NULL: only BYTES, which TEMP is to have, is set. */
  template <class In, class Flags, class Out, class Count>
  static cudaError_t Flagged(void *temp, size_t &bytes, In in, Flags flags,
                             Out out, Count n_out, int64_t n,
                             cudaStream_t stream) {
    if (!temp) {
      bytes = 256;
      return cudaSuccess;
    }
    return bytes < 256 ? cudaErrorInvalidValue
                       : ts_emulated_launch(
                             ts_select_flagged<In, Flags, Out, Count>, dim3(1),
                             dim3(1), stream, in, flags, out, n_out, n);
  }
};
} // namespace cub
