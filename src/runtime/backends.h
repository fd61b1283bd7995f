/* backends.h - the constructors that implementations provide.
 *
 * src/backends.c is the one place that knows which exist in this build.
 * All of it is Local. */
#pragma once

#include "runtime/device.h"
#include "kernel_table.h"

typedef struct ts_backend {
  const char *name; /* "host", "cuda" */
  ts_err (*device_create)(ts_device **, const ts_device_options *);
  /* Fills or overrides entries of the table, best last. */
  ts_err (*kernels_fill)(ts_kernels *, const char *isa);
  /* The library that moves its memory between ranks (runtime/comm_wire.h);
   * NULL: none. */
  const struct ts_wire_ops *wire;
} ts_backend;

/* NULL-terminated. */
extern const ts_backend *const ts_backends[];
const ts_backend *ts_backend_find(const char *name);
/* For tests: B takes the place of the backend of its name; NULL: ends that.
 * add: one more, for good. */
void ts_backend_replace(const ts_backend *b);
void ts_backend_add(const ts_backend *b);

/* Host: reference and vector kernels, by family. */
void ts_memory_kernels_host(ts_kernels *);
void ts_cache_kernels_host(ts_kernels *);
void ts_pack_kernels_host(ts_kernels *);
void ts_view_kernels_host(ts_kernels *);
void ts_entry_kernels_host(ts_kernels *);
void ts_mirror_kernels_host(ts_kernels *);
void ts_sparse_kernels_ref(ts_kernels *);
void ts_sparse_kernels_avx2(ts_kernels *);
void ts_sparse_kernels_avx512(ts_kernels *);
void ts_unpack_kernels_host(ts_kernels *);
void ts_flat_kernels_host(ts_kernels *);
void ts_join_kernels_host(ts_kernels *);
void ts_token_kernels_host(ts_kernels *);
void ts_candidate_kernels_host(ts_kernels *);
void ts_full_softmax_kernels_host(ts_kernels *);
void ts_model_kernels_ref(ts_kernels *);
void ts_attention_kernels_ref(ts_kernels *);
void ts_model_kernels_avx2(ts_kernels *);
void ts_model_kernels_avx512(ts_kernels *);
void ts_dense_kernels_ref(ts_kernels *);
void ts_dense_kernels_avx2(ts_kernels *);
void ts_dense_kernels_avx512(ts_kernels *);
void ts_dense_kernels_avx512_bf16(ts_kernels *);
void ts_model_kernels_avx512_bf16(ts_kernels *);
