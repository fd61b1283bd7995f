/* fake_device.c - a device whose memory (fake_memory.c) faults on the host;
 * its lanes are the host's. */
#include "tests/support/fake_device.h"

#include <stdatomic.h>
#include <string.h>

#include "tests/support/harness.h"
#include "runtime/backends.h"
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"

static ts_device_ops ops, host_ops;
static ts_fake_options options;
static int n_whole, n_nodes; /* carriers in use */
ts_fake_state ts_fake;
ts_fake_late_copies ts_fake_late;

static ts_err device_alloc(ts_device *d, void **p, size_t bytes, ts_space space,
                           ts_tag tag) {
  if (space != TS_SPACE_DEVICE) return host_ops.alloc(d, p, bytes, space, tag);
  return ts_fake_alloc(p, bytes, tag);
}

static void device_free(ts_device *d, void *p, size_t bytes, ts_space space,
                        ts_tag tag) {
  if (space != TS_SPACE_DEVICE)
    host_ops.free(d, p, bytes, space, tag);
  else
    ts_fake_free(p, bytes, tag);
}

typedef struct copy_args {
  void *dst;
  const void *src;
  size_t bytes;
  int late_us;
} copy_args;

static ts_err copy_task(void *arg, ts_lane *lane) {
  static atomic_uint turn;
  const copy_args *c = arg;
  (void)lane;
  /* Now at once, now late. */
  const unsigned h = atomic_fetch_add(&turn, 1) * 2654435761u >> 16;
  if (options.slow_us) ts_pause((int)(h % (unsigned)options.slow_us) + 1);
  if (c->late_us) ts_pause(c->late_us);
  memcpy(ts_fake_alias(c->dst), ts_fake_alias(c->src), c->bytes);
  return TS_OK;
}

static ts_err copy(ts_lane *lane, const char *span, void *dst, const void *src,
                   size_t bytes) {
  const ts_fake_late_copies *l = &ts_fake_late;
  const bool late = l->span && span && !strcmp(span, l->span);
  const copy_args c = {dst, src, bytes, late ? l->us : 0};
  return host_ops.submit(lane, span, copy_task, &c, sizeof c);
}

static bool is_remote(ts_device *d, const void *p) {
  (void)d;
  return ts_fake_has(p);
}

static void describe(const ts_device *d, ts_device_info *info) {
  (void)d;
  *info = (ts_device_info){.text = "memory that the host may not touch"};
  memcpy(info->id, options.id, TS_DEVICE_ID);
}

static ts_err identify(ts_device *d, char id[TS_DEVICE_ID]) {
  (void)d;
  memcpy(id, options.id, TS_DEVICE_ID);
  return TS_OK;
}

static ts_err wait_event(ts_lane *lane, ts_event event) {
  ts_fake.n_waits += !strcmp(lane->name, "compute");
  return host_ops.wait(lane, event);
}

ts_err ts_fake_create(ts_device **out, const ts_fake_options *o) {
  const ts_device_options host = {
      .serial = o->serial, .n_threads = 1, .timeout_s = o->timeout_s};
  const ts_err err = ts_device_host_create(out, &host);
  if (err != TS_OK) return err;
  options = *o;
  host_ops = ops = *(*out)->ops;
  ops.name = o->name ? o->name : "fake";
  ops.alloc = device_alloc;
  ops.free = device_free;
  ops.copy = copy;
  ops.is_remote = is_remote;
  ops.identify = identify;
  ops.describe = describe;
  ops.wait = wait_event;
  if (o->asked) ops.watch = NULL;
  (*out)->ops = &ops;
  ts_fake = (ts_fake_state){0};
  n_whole = n_nodes = 0;
  return TS_OK;
}

static ts_err create_as_cuda(ts_device **d, const ts_device_options *o) {
  const ts_fake_options fake = {.name = "cuda",
                                .serial = o->serial,
                                .id = "fake",
                                .slow_us = 20,
                                .timeout_s = 60};
  return ts_fake_create(d, &fake);
}

const ts_backend ts_fake_backend = {"cuda", create_as_cuda, ts_fake_kernels,
                                    NULL};

/* ---- the library --------------------------------------------------------- */

enum { CARRIERS = 4, DELAY = 3, MOST = 4 };
typedef enum { GROUP, EACH, ALL, ONE, REDUCE, SCATTER } job_kind;

typedef struct job {
  struct ts_wire *wire;
  job_kind kind;
  void *recv;
  const void *send;
  int64_t n;
  int root;
  ts_dtype dtype;
  ts_reduction reduction;
  int n_messages;
  ts_wire_message messages[MOST];
} job;

struct ts_wire {
  ts_comm *carrier;
  ts_lane *stream;
  int rank, size, number, delay;
  job pending;
};

static ts_device *device;
static ts_world *world;
static ts_comm *whole[CARRIERS], *nodes[CARRIERS];

void ts_fake_wire_start(int ranks_per_node) {
  const ts_device_options d = {.serial = true, .n_threads = 1};
  const ts_world_options o = {
      .ordered = true, .timeout_s = 300, .ranks_per_node = ranks_per_node};
  ck_assert_ok(ts_device_create(&device, "host", &d));
  ck_assert_ok(ts_world_create(&world, device, &o));
  for (int i = 0; i < CARRIERS; i++) {
    ck_assert_ok(ts_comm_create(world, &whole[i], TS_GROUP_WORLD, "carrier"));
    ck_assert_ok(ts_comm_create(world, &nodes[i], TS_GROUP_NODE, "carrier"));
  }
}

void ts_fake_wire_stop(void) {
  for (int i = 0; i < CARRIERS; i++) {
    ts_comm_destroy(whole[i]);
    ts_comm_destroy(nodes[i]);
  }
  ts_world_destroy(world);
  ts_device_destroy(device);
}

/* The messages as one all-to-all: pieces are packed by rank. */
static ts_err run_group(const job *j) {
  ts_err err = TS_OK;
  const int w = j->wire->size;
  int64_t out[w], in[w], n_out = 0, n_in = 0;
  char *send = NULL, *recv = NULL;
  ts_token token;
  memset(out, 0, sizeof out);
  memset(in, 0, sizeof in);
  for (int i = 0; i < j->n_messages; i++)
    (j->messages[i].send ? out : in)[j->messages[i].rank] +=
        j->messages[i].bytes;
  for (int r = 0; r < w; r++) n_out += out[r], n_in += in[r];
  TS_TRY(ts_mem_alloc(&send, (size_t)n_out, TS_TAG_MISC));
  TS_TRY(ts_mem_alloc(&recv, (size_t)n_in, TS_TAG_MISC));
  for (int pass = 0; pass < 2; pass++) {
    int64_t at = 0;
    if (pass)
      TS_TRY(ts_comm_all_to_all_v(j->wire->carrier, &token, recv, in, send, out,
                                  NULL));
    for (int r = 0; r < w; r++)
      for (int i = 0; i < j->n_messages; i++) {
        const ts_wire_message *m = &j->messages[i];
        if (m->rank != r || m->send == (pass == 1)) continue;
        if (pass)
          memcpy(ts_fake_alias(m->at), recv + at, (size_t)m->bytes);
        else
          memcpy(send + at, ts_fake_alias(m->at), (size_t)m->bytes);
        at += m->bytes;
      }
  }
done:
  ts_mem_free(send);
  ts_mem_free(recv);
  return err;
}

static ts_err run_job(void *arg, ts_lane *lane) {
  const job *j = *(job **)arg;
  const int w = j->wire->size;
  int64_t n[w];
  ts_comm *c = j->wire->carrier;
  ts_token token;
  ts_err err = TS_OK;
  (void)lane;
  for (int r = 0; r < w; r++) n[r] = j->n;
  void *recv = ts_fake_alias(j->recv);
  const void *send = ts_fake_alias(j->send);
  if (j->kind == GROUP)
    err = run_group(j);
  else if (j->kind == EACH)
    err = ts_comm_all_to_all_v(c, &token, recv, n, send, n, NULL);
  else if (j->kind == ALL)
    err = ts_comm_all_gather_v(c, &token, recv, send, n, NULL);
  else if (j->kind == ONE)
    err = ts_comm_broadcast(c, &token, recv, j->n, j->root, NULL);
  else if (j->kind == REDUCE)
    err =
        ts_comm_all_reduce(c, &token, recv, j->n, j->dtype, j->reduction, NULL);
  else
    err = ts_comm_reduce_scatter_v(c, &token, recv, send, n, j->dtype, NULL);
  ts_mem_free((void *)j);
  return err;
}

/* Nothing is enqueued before the library was asked some times. */
static ts_err begin(ts_wire *x, const job *j) {
  if (x->delay) ts_fake.n_bad++;
  x->pending = *j;
  x->pending.wire = x;
  x->delay = DELAY;
  ts_fake.n_groups++;
  ts_fake.order = ts_fake.order * 1000003u + (uint64_t)x->number;
  return TS_OK;
}

static ts_err fake_poll(ts_wire *x, bool *busy) {
  job *j;
  *busy = x->delay > 0;
  if (ts_fake.broken) return ts_fail(TS_ERR_COMM, "fake: a link is down");
  if (!x->delay || ts_fake.hang || --x->delay) return TS_OK;
  *busy = false;
  const ts_err err = ts_mem_alloc(&j, sizeof *j, TS_TAG_MISC);
  if (err != TS_OK) return err;
  *j = x->pending;
  return ts_lane_submit(x->stream, "wire", run_job, &j, sizeof j);
}

static ts_err fake_id(void *id) {
  memset(id, 7, TS_WIRE_ID);
  return TS_OK;
}

static ts_err fake_open(ts_wire **out, ts_lane *stream, const void *id,
                        int rank, int size) {
  ts_wire *x;
  ck_assert_int_eq(((const char *)id)[TS_WIRE_ID - 1], 7);
  const ts_err err = ts_mem_alloc(&x, sizeof *x, TS_TAG_MISC);
  if (err != TS_OK) return err;
  const bool all = size == ts_world_size(world);
  *x = (ts_wire){.carrier = all ? whole[n_whole] : nodes[n_nodes],
                 .stream = stream,
                 .rank = rank,
                 .size = size,
                 .number = 1 + n_whole + 10 * n_nodes};
  if (all)
    n_whole++;
  else
    n_nodes++;
  ck_assert(n_whole <= CARRIERS && n_nodes <= CARRIERS);
  ck_assert_int_eq(ts_comm_rank(x->carrier), rank);
  *out = x;
  return TS_OK;
}

static void fake_close(ts_wire *x) {
  ts_mem_free(x);
}

static void fake_abort(ts_wire *x) {
  ts_fake.n_aborts++;
  ts_mem_free(x);
}

static ts_err fake_group(ts_wire *x, const ts_wire_message *m, int n) {
  job j = {.kind = GROUP, .n_messages = n};
  if (n > MOST) ts_fake.n_bad++;
  memcpy(j.messages, m, (size_t)n * sizeof *m);
  return begin(x, &j);
}

static ts_err fake_all_gather(ts_wire *x, void *recv, const void *send,
                              int64_t bytes) {
  const job j = {.kind = ALL, .recv = recv, .send = send, .n = bytes};
  return begin(x, &j);
}

static ts_err fake_all_to_all(ts_wire *x, void *recv, const void *send,
                              int64_t bytes) {
  const job j = {.kind = EACH, .recv = recv, .send = send, .n = bytes};
  return begin(x, &j);
}

static ts_err fake_broadcast(ts_wire *x, void *buf, int64_t bytes, int root) {
  const job j = {.kind = ONE, .recv = buf, .n = bytes, .root = root};
  return begin(x, &j);
}

static ts_err fake_all_reduce(ts_wire *x, void *buf, int64_t n, ts_dtype t,
                              ts_reduction r, bool *done) {
  const job j = {
      .kind = REDUCE, .recv = buf, .n = n, .dtype = t, .reduction = r};
  *done = t == TS_F32;
  return *done ? begin(x, &j) : TS_OK;
}

static ts_err fake_reduce_scatter(ts_wire *x, void *recv, const void *send,
                                  int64_t n, ts_dtype t, bool *done) {
  const job j = {
      .kind = SCATTER, .recv = recv, .send = send, .n = n, .dtype = t};
  *done = t == TS_F32;
  return *done ? begin(x, &j) : TS_OK;
}

typedef struct sum_args {
  void *dst;
  const void *src;
  int w;
  int64_t stride, n;
  ts_dtype dtype;
  ts_reduction reduction;
  bool onto;
} sum_args;

static ts_err sum_task(void *arg, ts_lane *lane) {
  const sum_args *a = arg;
  (void)lane;
  return ts_reduce_ranks(ts_fake_alias(a->dst), ts_fake_alias(a->src), a->w,
                         a->stride, a->n, a->dtype, a->reduction, a->onto);
}

static ts_err fake_sum(ts_lane *stream, void *dst, const void *src, int w,
                       int64_t stride, int64_t n, ts_dtype t, ts_reduction r,
                       bool onto) {
  const sum_args a = {dst, src, w, stride, n, t, r, onto};
  return ts_lane_submit(stream, "sum", sum_task, &a, sizeof a);
}

const ts_wire_ops ts_fake_wire = {.name = "fake",
                                  .group_max = MOST,
                                  .id = fake_id,
                                  .open = fake_open,
                                  .close = fake_close,
                                  .abort = fake_abort,
                                  .poll = fake_poll,
                                  .group = fake_group,
                                  .all_gather = fake_all_gather,
                                  .all_to_all = fake_all_to_all,
                                  .broadcast = fake_broadcast,
                                  .all_reduce = fake_all_reduce,
                                  .reduce_scatter = fake_reduce_scatter,
                                  .sum = fake_sum};
