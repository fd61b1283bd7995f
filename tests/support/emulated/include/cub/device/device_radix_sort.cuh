/* device_radix_sort.cuh - cub::DeviceRadixSort, as a kernel of one thread: a
 * stable sort, a pass for each 8 bits. */
#pragma once

#include <cuda_runtime.h>

namespace cub {
template <class T> struct DoubleBuffer {
  T *d_buffers[2];
  int selector = 0;
  DoubleBuffer(T *now, T *other) : d_buffers{now, other} {
  }
  T *Current() const {
    return d_buffers[selector];
  }
  T *Alternate() const {
    return d_buffers[selector ^ 1];
  }
};

template <class K, class V>
void ts_sort_pass(const K *key, K *key_out, const V *value, V *value_out,
                  int64_t *start, int64_t n, int bit, int n_bits) {
  const K mask = ((K)1 << n_bits) - 1;
  for (int d = 0; d < 256; d++) start[d] = 0;
  for (int64_t i = 0; i < n; i++) {
    const K digit = key[i] >> bit & mask;
    if (digit < 255) start[digit + 1]++;
  }
  for (int d = 1; d < 256; d++) start[d] += start[d - 1];
  for (int64_t i = 0; i < n; i++) {
    const int64_t to = start[key[i] >> bit & mask]++;
    key_out[to] = key[i];
    value_out[to] = value[i];
  }
}

struct DeviceRadixSort {
  static constexpr size_t TEMP = 256 * sizeof(int64_t);
  /* TEMP NULL: only BYTES, which TEMP is to have, is set. */
  template <class K, class V>
  static cudaError_t SortPairs(void *temp, size_t &bytes, DoubleBuffer<K> &keys,
                               DoubleBuffer<V> &values, int64_t n, int from,
                               int to, cudaStream_t stream) {
    if (!temp) {
      bytes = TEMP;
      return cudaSuccess;
    }
    if (bytes < TEMP) return cudaErrorInvalidValue;
    for (int bit = from; bit < to; bit += 8) {
      const cudaError_t e = ts_emulated_launch(
          ts_sort_pass<K, V>, dim3(1), dim3(1), stream,
          (const K *)keys.Current(), keys.Alternate(),
          (const V *)values.Current(), values.Alternate(), (int64_t *)temp, n,
          bit, to - bit < 8 ? to - bit : 8);
      if (e != cudaSuccess) return e;
      keys.selector ^= 1;
      values.selector ^= 1;
    }
    return cudaSuccess;
  }
};
} // namespace cub
