/* pack_emulated.cc - the kernels of input dist's sending side on the CPU. */
#include "tests/support/emulated/cuda_emulate_run.h"
#include "cuda/shard/pack_run.cuh"
#include "tests/kernels/cuda_pack.h"

static ts_err bags_check(const ts_bags_args *a) {
  emulated_run run;
  return ts_bags_check_on(run, a);
}

static ts_err bags_offsets(const ts_bags_args *a) {
  emulated_run run;
  return ts_bags_offsets_on(run, a);
}

static ts_err bags_distinct(const ts_distinct_args *a) {
  emulated_run run;
  return ts_bags_distinct_on(run, a);
}

static ts_err pack_measure(const ts_pack_args *a) {
  emulated_run run;
  return ts_pack_measure_on(run, a);
}

static ts_err pack_write(const ts_pack_args *a) {
  emulated_run run;
  return ts_pack_write_on(run, a);
}

extern "C" {
const pack_target pack_emulated = {
    bags_check,          bags_offsets,  bags_distinct,  pack_measure,
    pack_write,          emulated_send, emulated_fetch, free,
    emulated_run::start, nullptr};
}
