/* checkpoint_seal.h - the seal of a checkpoint: its last bytes, after all of
 * HDF5's, with a checksum of everything that no other checksum covers
 * (structure, small values, checksums, gaps).  It is verified before HDF5 sees
 * the file: HDF5 must not meet a damaged structure.
 *
 * Little endian: for each hole its place and its number of bytes (i64, i64),
 * by place; the number of holes (i64); CRC32C (u32) of all bytes of the file
 * before it but those in holes; "tessera-seal".  The root attribute `sealed`
 * says that a file has one.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/checkpoint.h"

/* Bytes of the file that have checksums of their own. */
typedef struct ts_seal_hole {
  int64_t at, n_bytes;
} ts_seal_hole;

static inline int64_t ts_seal_bytes(int64_t n_holes) {
  return 16 * n_holes + 24;
}

/* Seals the file FD, which HDF5 has closed; sorts HOLES; *SEAL = the checksum.
 * Local. */
ts_err ts_seal_write(int fd, const char *path, ts_seal_hole *holes, int64_t n,
                     int64_t *seal);
/* Seals a file of parallel HDF5: the chunks of C's items are its holes.
 * Local. */
ts_err ts_seal_chunked(ts_ckpt *, const char *path);
/* *SEAL = the seal's checksum, -1: PATH has no seal at all; what it seals is
 * whole, or a CKPT error.  Local. */
ts_err ts_seal_check(const char *path, int64_t *seal);
