/* test_cuda_cache_gpu.c - the GPU's cache on a GPU; skipped where there is
 * none.
 * ranks: 1
 * seconds: 600 */
#include <stdlib.h>
#include <sys/mman.h>

#include "cuda/sparse/cache.h"
#include "tests/kernels/cuda_cache.h"
#include "tests/kernels/cuda_gpu.h"

CUDA_GPU_ENTRY(rows_of, ts_cache_rows_args, ts_cuda_cache_rows)
CUDA_GPU_ENTRY(hold, ts_cache_args, ts_cuda_cache_hold)
CUDA_GPU_ENTRY(release, ts_cache_args, ts_cuda_cache_release)
CUDA_GPU_ENTRY(refresh, ts_cache_args, ts_cuda_cache_refresh)
CUDA_GPU_ENTRY(locate, ts_cache_args, ts_cuda_cache_locate)
CUDA_GPU_ENTRY(flush, ts_cache_args, ts_cuda_cache_flush)
CUDA_GPU_ENTRY(reload, ts_cache_args, ts_cuda_cache_reload)

/* ---- memory of the host that the device reaches -------------------------- */

enum { SHARED_MAX = 8 };
static struct {
  void *p;
  size_t bytes;
} shared[SHARED_MAX];

static void *share(void **seen, size_t bytes) {
  const size_t all = (bytes + 4095) / 4096 * 4096;
  for (int i = 0; i < SHARED_MAX; i++) {
    if (shared[i].p) continue;
    shared[i].bytes = all;
    shared[i].p = mmap(NULL, all, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared[i].p, MAP_FAILED);
    ck_assert_ok(
        ts_device_reach(cuda_gpu_device(), seen, shared[i].p, all, true));
    return shared[i].p;
  }
  ck_abort_msg("more than %d arrays", SHARED_MAX);
  return NULL;
}

static void unshare(void *p) {
  for (int i = 0; i < SHARED_MAX; i++) {
    if (shared[i].p != p) continue;
    ts_device_unreach(cuda_gpu_device(), p, true);
    munmap(p, shared[i].bytes);
    shared[i].p = NULL;
  }
}

static Suite *suite(void) {
  static const cache_target gpu = {.kernels = {.cache_rows = rows_of,
                                               .cache_hold = hold,
                                               .cache_release = release,
                                               .cache_refresh = refresh,
                                               .cache_locate = locate,
                                               .cache_flush = flush,
                                               .cache_reload = reload},
                                   .send = cuda_gpu_send,
                                   .fetch = cuda_gpu_copy,
                                   .put = cuda_gpu_copy,
                                   .drop = cuda_gpu_drop,
                                   .share = share,
                                   .unshare = unshare,
                                   .start = cuda_gpu_start,
                                   .stop = cuda_gpu_stop};
  return cuda_cache_suite("cuda_cache_gpu", &gpu);
}

int main(int argc, char **argv) {
  return cuda_gpu_main(argc, argv, suite);
}
