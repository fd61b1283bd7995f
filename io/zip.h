/* zip.h - members of a zip archive that is mapped, as np.savez writes them:
 * stored or deflated, also with more than 4 GiB (zip64).
 * All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct ts_zip_member {
  char *name;           /* owned */
  int64_t at;           /* of its local header, from the archive's start */
  int64_t packed, size; /* bytes in the archive, and unpacked */
  uint32_t crc;
  int method; /* 0: stored, 8: deflated */
  bool encrypted;
} ts_zip_member;

typedef struct ts_zip {
  const char *path; /* the caller's; for messages */
  const char *map;  /* the caller's */
  int64_t n_bytes;
  int64_t end; /* members end before: where the directory begins */
  ts_zip_member *item;
  int32_t n;
} ts_zip;

/* The directory of the archive at MAP.  Nothing of the members is read. */
ts_err ts_zip_open(ts_zip *, const char *map, int64_t n_bytes,
                   const char *path);
void ts_zip_reset(ts_zip *);
/* NULL: none.  An error where there are several. */
ts_err ts_zip_find(const ts_zip *, const char *name, const ts_zip_member **);
/* Where the bytes of M, as they are in the archive, begin.  Fails where they
 * are not within it, or can't be read. */
ts_err ts_zip_data(const ts_zip *, const ts_zip_member *m, const char **data);
/* STORED, a stored member's bytes, against its checksum. */
ts_err ts_zip_check(const ts_zip *, const ts_zip_member *m, const char *stored);
/* The first N bytes of M, unpacked, to TO; all of them (N = m->size) are
 * checked against the checksum. */
ts_err ts_zip_unpack(const ts_zip *, const ts_zip_member *m, char *to,
                     int64_t n);
