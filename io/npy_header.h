/* npy_header.h - what the header of NumPy's file of one array says: a magic,
 * the header's length, the header (a literal of Python), then the data.
 * All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
  TS_NPY_DIMS_MAX = 8,
  TS_NPY_HEADER_MAX = 65536 + 12 /* bytes until the data, at most */
};

typedef struct ts_npy {
  char type[16]; /* as the file says it: "<f4"; "" where it is no simple one */
  char kind;     /* i, u, f, b; else what the type has there, 0: none */
  int size;      /* bytes of an element; 0: not known */
  bool fortran, big_endian;
  int n_dims;
  int64_t dims[TS_NPY_DIMS_MAX];
  int64_t at;      /* of the data, from the file's first byte */
  int64_t n_bytes; /* of the data, as shape and type say */
} ts_npy;

/* Parses the header in START, the first N bytes of a file of N_FILE bytes.
 * Returns NULL where it is right, and sets n_bytes; else what is wrong
 * (static). */
const char *ts_npy_parse(ts_npy *, const char *start, int64_t n,
                         int64_t n_file);
/* "(3, 4)" */
const char *ts_npy_shape(char buf[256], int n_dims, const int64_t *dims);
