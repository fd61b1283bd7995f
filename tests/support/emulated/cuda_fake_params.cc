/* cuda_fake_params.cc - lists in the parameters of kernels: room that is not
 * used has whatever was on the stack, pointers too. */
#include "tests/support/emulated/cuda_emulate_run.h"

#include "cuda/dense/cross_launch.cuh"
#include "cuda/dense/dense_update_kernels.cuh"
#include "cuda/sparse/entries_launch.cuh"
#include "cuda/dense/interact_rows.cuh"
#include "cuda/sparse/lookup_launch.cuh"
#include "cuda/dense/loss_kernels.cuh"
#include "cuda/shard/unpack_launch.cuh"
#include "cuda/shard/views_launch.cuh"

extern "C" {
#include "tests/support/emulated/cuda_fake_body.h"
#include "tests/support/emulated/cuda_fake_params.h"
}

template <class T, int MOST> static void clear_list(T (&list)[MOST], int n) {
  for (int i = n; i < MOST; i++) memset((void *)&list[i], 0, sizeof list[i]);
}

/* The list ITEM with N entries of a parameter of type T. */
#define CLEAR(T, item, n)                                                      \
  if (strstr(name, #T)) clear_list(((T *)params)->item, (int)((T *)params)->n)

/* As ts_put_kernel has them. */
struct put_params {
  uint8_t *dst;
  ts_put_words<TS_PUT_BYTES_MOST> words;
};

void ts_fake_params_clear(const char *name, void *params, size_t bytes) {
  CLEAR(ts_row_args, piece, n_pieces);
  CLEAR(ts_scale_args, piece, n_pieces);
  CLEAR(ts_code_args, piece, n_pieces);
  CLEAR(ts_position_args, slot, n_slots);
  CLEAR(ts_update_params, piece, n_pieces);
  CLEAR(ts_update_params, first, n_pieces);
  CLEAR(ts_copies_params, piece, n_pieces);
  CLEAR(ts_copies_params, first, n_pieces + 1);
  CLEAR(ts_bag_means_args, view, n_views);
  CLEAR(ts_find_params, row, m);
  if (strstr(name, "ts_position_sums")) {
    ts_position_sums *s = (ts_position_sums *)params;
    clear_list(s->args.slot, s->args.n_slots);
  }
  if (strstr(name, "ts_interact_params")) {
    ts_interact_params *p = (ts_interact_params *)params;
    clear_list(p->own, p->table ? 0 : p->n);
  }
  if (strstr(name, "ts_lookup_params")) {
    ts_lookup_params *p = (ts_lookup_params *)params;
    clear_list(p->bag_start, p->far ? 0 : p->n_features + 1);
    clear_list(p->row_base, p->far ? 0 : p->n_features);
  }
  if (strstr(name, "ts_entries_params")) {
    ts_entries_params *p = (ts_entries_params *)params;
    clear_list(p->bag_start, p->far ? 0 : p->n_features + 1);
    clear_list(p->row_base, p->far ? 0 : p->n_features);
  }
  if (strstr(name, "ts_bce_params")) {
    ts_bce_params *p = (ts_bce_params *)params;
    clear_list(p->task_weight, p->has_weights ? p->a.n_tasks : 0);
  }
  if (strstr(name, "ts_put_kernel")) {
    put_params *p = (put_params *)params;
    const size_t used = offsetof(put_params, words.byte) + (size_t)p->words.n;
    memset((char *)params + used, 0, bytes - used);
  }
  /* Room between a number and a pointer, between two flags and a number. */
  if (strstr(name, "DeviceSelectSweepKernel")) {
    memset((char *)params + 12, 0, 4);
    memset((char *)params + 66, 0, 6);
  }
  if (strstr(name, "ts_row_put_tables")) {
    int32_t n; /* behind the tables */
    char *table = (char *)params + sizeof(void *),
         *end = (char *)params + bytes;
    memcpy(&n, end -= sizeof n, sizeof n);
    table += (size_t)n * ts_fake_row_table_bytes();
    memset(table, 0, (size_t)(end - table));
  }
}
