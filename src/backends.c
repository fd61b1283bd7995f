/* backends.c - which implementations this build has: the one list of
 * constructors that the host and cuda/ provide. */
#include "runtime/backends.h"

#include <string.h>

#include "config.h"
#include "runtime/device_impl.h"
#include "runtime/topology.h"

static ts_err host_kernels(ts_kernels *k, const char *isa) {
  const ts_cpu *cpu = ts_cpu_info();
  bool avx2 = cpu->avx2 && (!isa || strcmp(isa, "ref") != 0);
  bool avx512 = cpu->avx512 && avx2 && (!isa || strcmp(isa, "avx2") != 0);
  bool bf16 =
      cpu->avx512_bf16 && avx512 && (!isa || strcmp(isa, "avx512") != 0);
  if (isa &&
      ((!strcmp(isa, "avx2") && !avx2) || (!strcmp(isa, "avx512") && !avx512) ||
       (!strcmp(isa, "avx512_bf16") && !bf16)))
    return ts_fail(TS_ERR_DECK, "this CPU has no %s", isa);
  k->isa = "ref";
  ts_memory_kernels_host(k);
  ts_cache_kernels_host(k);
  ts_pack_kernels_host(k);
  ts_view_kernels_host(k);
  ts_entry_kernels_host(k);
  ts_mirror_kernels_host(k);
  ts_sparse_kernels_ref(k);
  ts_unpack_kernels_host(k);
  ts_flat_kernels_host(k);
  ts_join_kernels_host(k);
  ts_token_kernels_host(k);
  ts_candidate_kernels_host(k);
  ts_full_softmax_kernels_host(k);
  ts_dense_kernels_ref(k);
  ts_model_kernels_ref(k);
  ts_attention_kernels_ref(k);
  if (avx2) {
    k->isa = "avx2";
    ts_sparse_kernels_avx2(k);
    ts_dense_kernels_avx2(k);
    ts_model_kernels_avx2(k);
  }
  if (avx512) {
    k->isa = "avx512";
    ts_sparse_kernels_avx512(k);
    ts_dense_kernels_avx512(k);
    ts_model_kernels_avx512(k);
  }
  if (bf16) {
    k->isa = "avx512_bf16";
    ts_dense_kernels_avx512_bf16(k);
    ts_model_kernels_avx512_bf16(k);
  }
  return TS_OK;
}

static const ts_backend backend_host = {"host", ts_device_host_create,
                                        host_kernels, NULL};
#if defined HAVE_CUDA && !defined TS_ALONE
extern const ts_backend ts_backend_cuda;
#endif

const ts_backend *const ts_backends[] = {
    &backend_host,
#if defined HAVE_CUDA && !defined TS_ALONE
    &ts_backend_cuda,
#endif
    NULL,
};

static const ts_backend *replaced, *added;

void ts_backend_replace(const ts_backend *b) {
  replaced = b;
}

void ts_backend_add(const ts_backend *b) {
  added = b;
}

const ts_backend *ts_backend_find(const char *name) {
  if (replaced && !strcmp(replaced->name, name)) return replaced;
  for (int i = 0; ts_backends[i]; i++)
    if (!strcmp(ts_backends[i]->name, name)) return ts_backends[i];
  return added && !strcmp(added->name, name) ? added : NULL;
}

ts_err ts_kernels_fill(ts_kernels *k, const char *backend, const char *isa) {
  const ts_backend *b = ts_backend_find(backend);
  memset(k, 0, sizeof *k);
  if (!b) return ts_fail(TS_ERR_DECK, "no backend \"%s\"", backend);
  ts_err err = b->kernels_fill(k, isa);
  if (err != TS_OK) return err;
#define CHECK(name, params)                                                    \
  if (!k->name)                                                                \
    return ts_fail(TS_ERR_DECK,                                                \
                   "backend \"%s\" has no kernel \"" #name "\" yet", backend);
  TS_KERNEL_LIST(CHECK)
#undef CHECK
  return TS_OK;
}
