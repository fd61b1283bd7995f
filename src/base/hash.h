/* hash.h - checksums and hashes.  What is inline compiles as C11, by nvcc and
 * by g++.  All of it is Local. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TS_HASH_INLINE static inline __host__ __device__
#else
#define TS_HASH_INLINE static inline
#endif

/* CRC32C (Castagnoli), of BYTES bytes, going on from CRC (0 at the start);
 * uses SSE4.2 where the CPU has it. */
uint32_t ts_crc32c(uint32_t crc, const void *data, size_t bytes);

/* 64 bits of BYTES bytes and of H, those of what came before in as many calls
 * (0 at the start); one word of 8 bytes that differs always tells. */
uint64_t ts_sum64(uint64_t h, const void *data, size_t bytes);

/* FNV-1a, 64 bits, of BYTES bytes going on from H (TS_FNV_START). */
#define TS_FNV_START UINT64_C(14695981039346656037)
uint64_t ts_fnv1a(uint64_t h, const void *data, size_t bytes);

/* murmur3's 64-bit finaliser. */
TS_HASH_INLINE uint64_t ts_mix64(uint64_t x) {
  x ^= x >> 33;
  x *= UINT64_C(0xff51afd7ed558ccd);
  x ^= x >> 33;
  x *= UINT64_C(0xc4ceb9fe1a85ec53);
  x ^= x >> 33;
  return x;
}

/* Whose ts_mix64 X is. */
TS_HASH_INLINE uint64_t ts_unmix64(uint64_t x) {
  x ^= x >> 33;
  x *= UINT64_C(0x9cb4b2f8129337db);
  x ^= x >> 33;
  x *= UINT64_C(0x4f74430c22a54005);
  x ^= x >> 33;
  return x;
}
