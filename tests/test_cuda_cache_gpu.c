/* test_cuda_cache_gpu.c - the GPU's cache on a GPU; skipped where there is
 * none.
 * ranks: 1
 * seconds: 600 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cuda/cache.h"
#include "cuda_cache.h"
#include "harness.h"

static ts_device *device;
static ts_lane *lane;

/* ---- kernels in tasks of a lane ------------------------------------------ */

typedef ts_err (*entry)(const ts_cache_args *);

typedef struct call {
  entry fn;
  const ts_cache_args *a;
  const ts_cache_rows_args *rows;
} call;

static ts_err task(void *arg, ts_lane *l) {
  const call *c = arg;
  (void)l;
  return c->fn ? c->fn(c->a) : ts_cuda_cache_rows(c->rows);
}

static ts_err run(entry fn, const ts_cache_args *a,
                  const ts_cache_rows_args *rows) {
  const call c = {fn, a, rows};
  const ts_err err = ts_lane_submit(lane, "cache", task, &c, sizeof c);
  return err == TS_OK ? ts_lane_sync(lane) : err;
}

static ts_err rows_of(const ts_cache_rows_args *a) {
  return run(NULL, NULL, a);
}
static ts_err hold(const ts_cache_args *a) {
  return run(ts_cuda_cache_hold, a, NULL);
}
static ts_err release(const ts_cache_args *a) {
  return run(ts_cuda_cache_release, a, NULL);
}
static ts_err refresh(const ts_cache_args *a) {
  return run(ts_cuda_cache_refresh, a, NULL);
}
static ts_err locate(const ts_cache_args *a) {
  return run(ts_cuda_cache_locate, a, NULL);
}
static ts_err flush(const ts_cache_args *a) {
  return run(ts_cuda_cache_flush, a, NULL);
}
static ts_err reload(const ts_cache_args *a) {
  return run(ts_cuda_cache_reload, a, NULL);
}

/* ---- memory -------------------------------------------------------------- */

enum { BUFFERS = 64, SHARED_MAX = 8 };
static ts_buffer buffers[BUFFERS];
static struct {
  void *p;
  size_t bytes;
} shared[SHARED_MAX];

static void put(void *to, const void *from, size_t bytes) {
  if (bytes) ck_assert_ok(ts_lane_copy(lane, to, from, bytes));
  ck_assert_ok(ts_lane_sync(lane));
}

static void *send(const void *p, size_t bytes) {
  for (int i = 0; i < BUFFERS; i++) {
    ts_buffer *b = &buffers[i];
    if (b->ptr) continue;
    ck_assert_ok(
        ts_buffer_create(b, device, bytes + 1, TS_SPACE_DEVICE, TS_TAG_SPARSE));
    put(b->ptr, p, bytes);
    return b->ptr;
  }
  ck_abort_msg("more than %d arrays", BUFFERS);
  return NULL;
}

static void drop(void *sent) {
  for (int i = 0; i < BUFFERS; i++)
    if (buffers[i].ptr == sent) ts_buffer_reset(&buffers[i]);
}

static void *share(void **seen, size_t bytes) {
  const size_t all = (bytes + 4095) / 4096 * 4096;
  for (int i = 0; i < SHARED_MAX; i++) {
    if (shared[i].p) continue;
    shared[i].bytes = all;
    shared[i].p = mmap(NULL, all, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared[i].p, MAP_FAILED);
    ck_assert_ok(ts_device_reach(device, seen, shared[i].p, all, true));
    return shared[i].p;
  }
  ck_abort_msg("more than %d arrays", SHARED_MAX);
  return NULL;
}

static void unshare(void *p) {
  for (int i = 0; i < SHARED_MAX; i++) {
    if (shared[i].p != p) continue;
    ts_device_unreach(device, p, true);
    munmap(p, shared[i].bytes);
    shared[i].p = NULL;
  }
}

/* ---- the device ---------------------------------------------------------- */

static const ts_device_options options = {.n_threads = 1};

static void start(void) {
  ck_assert_ok(ts_device_create(&device, "cuda", &options));
  ck_assert_ok(ts_lane_create(device, &lane, "kernels", TS_LANE_COMPUTE));
}

static void stop(void) {
  ts_lane_destroy(lane);
  ts_device_destroy(device);
}

static Suite *suite(void) {
  static const cache_target gpu = {.kernels = {.cache_rows = rows_of,
                                               .cache_hold = hold,
                                               .cache_release = release,
                                               .cache_refresh = refresh,
                                               .cache_locate = locate,
                                               .cache_flush = flush,
                                               .cache_reload = reload},
                                   .send = send,
                                   .fetch = put,
                                   .put = put,
                                   .drop = drop,
                                   .share = share,
                                   .unshare = unshare,
                                   .start = start,
                                   .stop = stop};
  return cuda_cache_suite("cuda_cache_gpu", &gpu);
}

int main(int argc, char **argv) {
  if (ts_device_create(&device, "cuda", &options) != TS_OK) {
    printf("skipped: %s\n", ts_err_message());
    return 77;
  }
  ts_device_destroy(device);
  return ts_test_main(argc, argv, suite);
}
