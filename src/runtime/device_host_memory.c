/* device_host_memory.c - memory of the host as a device: one space. */
#include "runtime/device_impl.h"

ts_err ts_host_alloc(ts_device *d, void **p, size_t bytes, ts_space space,
                     ts_tag tag) {
  (void)d, (void)space;
  return ts_mem_alloc(p, bytes, tag);
}

void ts_host_free(ts_device *d, void *p, size_t bytes, ts_space space,
                  ts_tag tag) {
  (void)d, (void)bytes, (void)space, (void)tag;
  ts_mem_free(p);
}

/* Pages come when they are touched. */
ts_err ts_host_range_create(ts_device *d, ts_range **range, void **p,
                            size_t bytes, ts_tag tag) {
  (void)d;
  TS_DO(ts_mem_range(p, bytes, tag));
  *range = *p;
  return TS_OK;
}

ts_err ts_host_range_give(ts_device *d, ts_range *range, size_t from,
                          size_t to) {
  (void)d;
  ts_mem_give(range, to - from);
  return TS_OK;
}

void ts_host_range_destroy(ts_device *d, ts_range *range) {
  (void)d;
  ts_mem_free(range);
}
