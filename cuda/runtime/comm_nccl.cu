/* comm_nccl.cu - NCCL as the library that moves the memory of GPUs between
 * ranks (runtime/comm_wire.h).
 *
 * Communicators don't block: NCCL joins and launches in threads of its own,
 * and poll asks how far it is.  Nothing is enqueued on the stream before it is
 * done with that, so the order of the stream is the order of the calls. */
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/runtime/cuda_impl.h"

extern "C" {
#include "runtime/comm_wire.h"
}

/* Messages of a group; NCCL allows 2048 operations. */
enum { GROUP_MAX = 1024, PAUSE_US = 200, CLOSE_S = 10 };

struct ts_wire {
  ncclComm_t comm;
  cudaStream_t stream;
  bool busy;
};

static ts_err check(const ts_wire *x, ncclResult_t rc, const char *call) {
  if (rc == ncclSuccess || rc == ncclInProgress) return TS_OK;
  return ts_fail(TS_ERR_COMM, "NCCL: %.60s: %s (%.500s)", call,
                 ncclGetErrorString(rc), ncclGetLastError(x ? x->comm : NULL));
}
#define NCCL(x, call) check((x), (call), #call)

/* Two communicators may be at work at once: their kernels start in the order
 * in which the host launched them, which is the same on all ranks.  Older
 * libraries don't know of it. */
enum { ORDERS_LAUNCHES = 22600 };

static bool in_order(void) {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess && version >= ORDERS_LAUNCHES;
}

static void order_launches(void) {
  (void)setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

static ts_err make_id(void *id) {
  ncclUniqueId fresh;
  static_assert(sizeof fresh <= TS_WIRE_ID, "room for NCCL's id");
  order_launches();
  const ts_err err = NCCL(NULL, ncclGetUniqueId(&fresh));
  if (err == TS_OK) memcpy(id, &fresh, sizeof fresh);
  return err;
}

static ts_err open(ts_wire **out, ts_lane *stream, const void *id, int rank,
                   int size) {
  ts_wire *x = NULL;
  ncclUniqueId group;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ts_err err = ts_cuda_use();
  if (err == TS_OK) err = ts_mem_alloc(&x, sizeof *x, TS_TAG_COMM);
  if (err != TS_OK) return err;
  config.blocking = 0;
  order_launches();
  memcpy(&group, id, sizeof group);
  x->stream = ts_cuda_stream(stream);
  err = NCCL(x, ncclCommInitRankConfig(&x->comm, size, group, rank, &config));
  if (err != TS_OK) {
    ts_mem_free(x);
    return err;
  }
  x->busy = true;
  *out = x;
  return TS_OK;
}

static ts_err poll(ts_wire *x, bool *busy) {
  ncclResult_t state = ncclSuccess;
  ts_err err = NCCL(x, ncclCommGetAsyncError(x->comm, &state));
  if (err == TS_OK) err = check(x, state, "what was begun");
  x->busy = err == TS_OK && state == ncclInProgress;
  *busy = x->busy;
  return err;
}

/* The only call that ends a kernel which waits for a rank that is gone. */
static void abort_wire(ts_wire *x) {
  if (x->comm) (void)ncclCommAbort(x->comm);
  ts_mem_free(x);
}

/* Waits for the end of what was begun, CLOSE_S at most; *BUSY: it has none. */
static ts_err finalize(ts_wire *x, bool *busy) {
  TS_DO(ts_cuda_use());
  TS_DO(NCCL(x, ncclCommFinalize(x->comm)));
  for (int i = 0; *busy && i < CLOSE_S * (1000000 / PAUSE_US); i++) {
    TS_DO(poll(x, busy));
    if (*busy) ts_pause(PAUSE_US);
  }
  return TS_OK;
}

static void close_wire(ts_wire *x) {
  bool busy = true;
  TS_CUDA_QUIETLY(finalize(x, &busy));
  if (busy) {
    abort_wire(x);
    return;
  }
  (void)ncclCommDestroy(x->comm);
  ts_mem_free(x);
}

static ts_err post(ts_wire *x, const ts_wire_message *m) {
  return m->send
             ? NCCL(x, ncclSend(m->at, (size_t)m->bytes, ncclInt8, m->rank,
                                x->comm, x->stream))
             : NCCL(x, ncclRecv(m->at, (size_t)m->bytes, ncclInt8, m->rank,
                                x->comm, x->stream));
}

static ts_err group(ts_wire *x, const ts_wire_message *m, int n) {
  ts_err err = NCCL(x, ncclGroupStart());
  if (err != TS_OK) return err;
  for (int i = 0; i < n && err == TS_OK; i++) err = post(x, &m[i]);
  const ts_err end = NCCL(x, ncclGroupEnd());
  return err != TS_OK ? err : end;
}

static ts_err all_gather(ts_wire *x, void *recv, const void *send,
                         int64_t bytes) {
  return NCCL(x, ncclAllGather(send, recv, (size_t)bytes, ncclInt8, x->comm,
                               x->stream));
}

#if NCCL_VERSION_CODE >= 22800
static ts_err all_to_all(ts_wire *x, void *recv, const void *send,
                         int64_t bytes) {
  return NCCL(x, ncclAlltoAll(send, recv, (size_t)bytes, ncclInt8, x->comm,
                              x->stream));
}
#else
#define all_to_all NULL
#endif

static ts_err broadcast(ts_wire *x, void *buf, int64_t bytes, int root) {
  return NCCL(x, ncclBroadcast(buf, buf, (size_t)bytes, ncclInt8, root, x->comm,
                               x->stream));
}

/* Whether NCCL sums T.  16-bit types stay ours: NCCL would round their sums at
 * every step. */
static bool takes(ts_dtype t, ncclDataType_t *type) {
  *type = t == TS_F32   ? ncclFloat32
          : t == TS_F64 ? ncclFloat64
                        : ncclInt64;
  return t == TS_F32 || t == TS_F64 || t == TS_I64;
}

static ts_err all_reduce(ts_wire *x, void *buf, int64_t n, ts_dtype t,
                         ts_reduction r, bool *done) {
  ncclDataType_t type;
  const ncclRedOp_t op = r == TS_SUM ? ncclSum : r == TS_MAX ? ncclMax
                                                             : ncclMin;
  *done = n > 0 && takes(t, &type);
  if (!*done) return TS_OK;
  return NCCL(x, ncclAllReduce(buf, buf, (size_t)n, type, op, x->comm,
                               x->stream));
}

static ts_err reduce_scatter(ts_wire *x, void *recv, const void *send,
                             int64_t n, ts_dtype t, bool *done) {
  ncclDataType_t type;
  *done = n > 0 && takes(t, &type);
  if (!*done) return TS_OK;
  return NCCL(x, ncclReduceScatter(send, recv, (size_t)n, type, ncclSum,
                                   x->comm, x->stream));
}

static ts_err sum(ts_lane *stream, void *dst, const void *src, int w,
                  int64_t stride, int64_t n, ts_dtype t, ts_reduction r,
                  bool onto) {
  return ts_cuda_reduce_ranks(ts_cuda_stream(stream), dst, src, w, stride, n, t,
                              r, onto);
}

extern "C" {
extern const ts_wire_ops ts_wire_nccl;
const ts_wire_ops ts_wire_nccl = {
    "nccl",     GROUP_MAX,  in_order, make_id,    open,
    close_wire, abort_wire, poll,     group,      all_gather,
    all_to_all, broadcast,  all_reduce, reduce_scatter, sum};
}
