/* hash.c - CRC32C in hardware where there is some, FNV-1a. */
#include "base/hash.h"

#include <pthread.h>
#include <string.h>

static uint32_t table[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
    table[i] = c;
  }
}

static uint32_t crc_table(uint32_t crc, const unsigned char *p, size_t n) {
  pthread_once(&once, fill_table);
  while (n--) crc = crc >> 8 ^ table[(crc ^ *p++) & 0xff];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
crc_words(uint32_t crc, const unsigned char *p, size_t n) {
  uint64_t c = crc;
  for (size_t i = 0; i < n; i++) {
    uint64_t word;
    memcpy(&word, p + 8 * i, 8);
    c = __builtin_ia32_crc32di(c, word);
  }
  return (uint32_t)c;
}
#endif

uint32_t ts_crc32c(uint32_t crc, const void *data, size_t bytes) {
  const unsigned char *p = data;
  crc = ~crc;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) {
    const size_t n = bytes / 8;
    crc = crc_words(crc, p, n);
    if (n) p += 8 * n;
    bytes %= 8;
  }
#endif
  return ~crc_table(crc, p, bytes);
}

/* Eight sums, each of every eighth word and times an odd number after each,
 * which are mixed into one at the end; eight, to be as fast as memory. */
uint64_t ts_sum64(uint64_t h, const void *data, size_t bytes) {
  enum { N = 8 };
  static const uint64_t k = UINT64_C(0x9e3779b97f4a7c15);
  const unsigned char *p = data;
  uint64_t sum[N] = {0}, word[N];
  for (; bytes >= sizeof word; bytes -= sizeof word, p += sizeof word) {
    memcpy(word, p, sizeof word);
    for (int i = 0; i < N; i++) sum[i] = (sum[i] ^ word[i]) * k;
  }
  memset(word, 0, sizeof word);
  if (bytes) memcpy(word, p, bytes);
  for (int i = 0; i < N; i++) h = ts_mix64(h * k ^ sum[i] ^ word[i] * k);
  return h;
}

uint64_t ts_fnv1a(uint64_t h, const void *data, size_t bytes) {
  const unsigned char *p = data;
  while (bytes--) h = (h ^ *p++) * UINT64_C(1099511628211);
  return h;
}
