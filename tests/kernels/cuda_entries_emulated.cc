/* cuda_entries_emulated.cc - the CUDA kernels of sparse/entries.h on the CPU:
 * the same launches, by the emulation. */
#include "tests/support/emulated/cuda_emulate_run.h"

#include "cuda/sparse/entries_launch.cuh"

extern "C" {
#include "tests/kernels/cuda_entries_emulated.h"
}

int64_t emulated_entries_blocks = 1;

/* One launch, and puts of what there is no room for in its parameters. */
static ts_err entries(const ts_entries_args *a) {
  emulated_run run;
  emulated_n_launches = emulated_n_puts = 0;
  const ts_err err = ts_entries_launch(run, a, emulated_entries_blocks, NULL);
  const bool far = a->n_features > TS_ENTRY_FEATURES;
  if (err == TS_OK && (emulated_n_launches != (a->n_features > 0) ||
                       (emulated_n_puts > 0) != far))
    return ts_fail(TS_ERR_INTERNAL, "%d launches and %d puts of %d features",
                   emulated_n_launches, emulated_n_puts, a->n_features);
  return err;
}
static ts_err append(const ts_append_args *a) {
  return ts_append_launch(a, emulated_entries_blocks, NULL);
}
static ts_err add(float *to, const float *from, int64_t n) {
  return ts_add_launch(to, from, n, emulated_entries_blocks, NULL);
}
static ts_err add_rows(const ts_add_rows_args *a) {
  return ts_add_rows_launch(a, emulated_entries_blocks, NULL);
}
static ts_err find(const ts_find_args *a) {
  return ts_find_launch(a, a->at, NULL);
}

void emulated_entries(ts_kernels *k) {
  k->entries = entries;
  k->append = append;
  k->find = find;
  k->add = add;
  k->add_rows = add_rows;
}
