/* cuda_fake_pack.cc - kernels of ids that are sent. */
#include "tests/support/emulated/cuda_fake_emulated.h"

#include "cuda/shard/pack_run.cuh"

#define K TS_FAKE_KERNEL

const ts_fake_body ts_fake_pack[] = {K(ts_bags_check_kernel),
                                     K(ts_bags_offsets_kernel),
                                     K(ts_distinct_fill_kernel),
                                     K(ts_distinct_insert_kernel),
                                     K(ts_distinct_moved_kernel),
                                     K(ts_distinct_number_kernel),
                                     K(ts_distinct_part_keys_kernel),
                                     K(ts_distinct_parts_kernel),
                                     K(ts_member_keys_kernel),
                                     K(ts_member_starts_kernel),
                                     K(ts_pack_measure_kernel),
                                     K(ts_pack_write_kernel),
                                     K(ts_split_count_kernel),
                                     K(ts_split_ids_kernel),
                                     K(ts_split_lengths_kernel),
                                     K(ts_split_scan_kernel),
                                     {nullptr, nullptr}};
