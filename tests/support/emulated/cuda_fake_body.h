/* cuda_fake_body.h - what kernels of the fake CUDA runtime do; tables by the
 * kernel's name without spaces. */
#ifndef TS_TESTS_CUDA_FAKE_BODY_H
#define TS_TESTS_CUDA_FAKE_BODY_H

#include <stddef.h>

typedef struct ts_fake_call {
  unsigned grid[3], block[3];
  size_t shared;
  void *const *param; /* where each lies */
} ts_fake_call;

typedef struct ts_fake_body {
  const char *name; /* NULL ends a table */
  void (*run)(const ts_fake_call *);
} ts_fake_body;

extern const ts_fake_body ts_fake_pack[];  /* cuda_fake_pack.cc */
extern const ts_fake_body ts_fake_ids[];   /* cuda_fake_ids.cc */
extern const ts_fake_body ts_fake_rows[];  /* cuda_fake_rows.cc */
extern const ts_fake_body ts_fake_dense[]; /* cuda_fake_dense.cc */
extern const ts_fake_body ts_fake_cub[];   /* cuda_fake_cub.c */

size_t ts_fake_row_table_bytes(void); /* cuda_fake_rows.cc */

/* Of the kernel that the compiler calls MANGLED; NULL: does nothing. */
const ts_fake_body *ts_fake_body_of(const char *mangled);

#endif
