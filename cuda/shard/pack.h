/* pack.h - the kernels bags_* and pack_* of GPUs, whose arguments are
 * shard/pack.h's.  All enqueue on the current lane and return; what describes
 * the work is copied by the stream, so it stays until the lane is waited for
 * or lies in pageable memory.  What they write is the host's, byte by byte. */
#ifndef TS_CUDA_PACK_H
#define TS_CUDA_PACK_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"
#include "shard/pack.h"

ts_err ts_cuda_bags_check(const struct ts_bags_args *);
ts_err ts_cuda_bags_offsets(const struct ts_bags_args *);
ts_err ts_cuda_bags_distinct(const struct ts_distinct_args *);
ts_err ts_cuda_pack_measure(const struct ts_pack_args *);
ts_err ts_cuda_pack_write(const struct ts_pack_args *);
#ifdef __cplusplus
}
#endif

#endif
