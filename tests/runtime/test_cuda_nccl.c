/* test_cuda_nccl.c - the stand-in for NCCL holds to NCCL's rules: what breaks
 * one is told, nothing hangs that abort does not end.  Two communicators of
 * one process are two ranks; neither call blocks.
 * ranks: 1 */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <string.h>

#include "runtime/device_impl.h"
#include "tests/support/emulated/emulated.h"
#include "tests/support/harness.h"

enum { RANKS = 2, N = 8, WAIT_US = 100, MOST_US = 60000000 };

typedef struct rig {
  ncclComm_t comm[RANKS];
  cudaStream_t stream[RANKS], other;
  double *from[RANKS], *to[RANKS]; /* (RANKS * N) page-locked */
} rig;

static rig r;

/* The state of COMM, once it is no longer "in progress". */
static ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  for (int i = 0; i < MOST_US / WAIT_US && state == ncclInProgress; i++) {
    ck_assert_int_eq(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    if (state == ncclInProgress) ts_pause(WAIT_US);
  }
  return state;
}

static bool is_done(cudaStream_t s) {
  cudaEvent_t e;
  cudaEventCreateWithFlags(&e, 0);
  cudaEventRecord(e, s);
  bool done = false;
  for (int i = 0; i < 300 && !done; i++) {
    done = cudaEventQuery(e) == cudaSuccess;
    if (!done) ts_pause(WAIT_US);
  }
  cudaEventDestroy(e);
  (void)cudaGetLastError();
  return done;
}

static ncclComm_t join(ncclUniqueId id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm;
  config.blocking = 0;
  ck_assert_int_eq(ncclCommInitRankConfig(&comm, RANKS, id, rank, &config),
                   ncclInProgress);
  return comm;
}

static void start(void) {
  ncclUniqueId id;
  ts_emulated_forgive();
  ck_assert_int_eq(ncclGetUniqueId(&id), ncclSuccess);
  for (int k = 0; k < RANKS; k++) {
    void *p;
    r.comm[k] = join(id, k);
    cudaStreamCreateWithFlags(&r.stream[k], cudaStreamNonBlocking);
    ck_assert_int_eq(cudaHostAlloc(&p, 2 * RANKS * N * sizeof(double), 0), 0);
    r.from[k] = p;
    r.to[k] = r.from[k] + RANKS * N;
  }
  cudaStreamCreateWithFlags(&r.other, cudaStreamNonBlocking);
  for (int k = 0; k < RANKS; k++)
    ck_assert_int_eq(state_of(r.comm[k]), ncclSuccess);
}

/* Abort ends whatever a stream waits for. */
static void give_up(int rank) {
  if (r.comm[rank]) ck_assert_int_eq(ncclCommAbort(r.comm[rank]), ncclSuccess);
  r.comm[rank] = NULL;
  ck_assert_int_eq(cudaStreamSynchronize(r.stream[rank]), cudaSuccess);
}

static void stop(void) {
  for (int k = 0; k < RANKS; k++) give_up(k);
  for (int k = 0; k < RANKS; k++) {
    cudaStreamDestroy(r.stream[k]);
    cudaFreeHost(r.from[k]);
  }
  cudaStreamDestroy(r.other);
  ts_emulated_forgive();
}
TS_EACH_TEST_BETWEEN(start, stop)

/* ---- what both sides mean ------------------------------------------------ */

typedef enum { GATHER, TO_ALL, CAST, REDUCE, SCATTER, SENDS, TAKES } kind;

typedef struct call {
  kind kind;
  size_t n;
  ncclDataType_t type;
  int peer;
  ncclRedOp_t op;
} call;

static ncclResult_t make(const call *c, int rank) {
  ncclComm_t comm = r.comm[rank];
  cudaStream_t s = r.stream[rank];
  const void *from = r.from[rank];
  void *to = r.to[rank];
  switch (c->kind) {
  case GATHER:
    return ncclAllGather(from, to, c->n, c->type, comm, s);
  case TO_ALL:
    return ncclAlltoAll(from, to, c->n, c->type, comm, s);
  case CAST:
    return ncclBroadcast(from, to, c->n, c->type, c->peer, comm, s);
  case REDUCE:
    return ncclAllReduce(from, to, c->n, c->type, c->op, comm, s);
  case SCATTER:
    return ncclReduceScatter(from, to, c->n, c->type, c->op, comm, s);
  case SENDS:
    return ncclSend(from, c->n, c->type, c->peer, comm, s);
  default:
    return ncclRecv(to, c->n, c->type, c->peer, comm, s);
  }
}

static void begin(const call *c, int rank) {
  ck_assert_int_eq(make(c, rank), ncclInProgress);
  ck_assert_int_eq(state_of(r.comm[rank]), ncclSuccess);
}

/* Element I of rank K of what is sent, and of what comes to it. */
static double sent(int k, int i) {
  return 100 * (k + 1) + (k ? -i : i) - N / 2;
}

static double wanted(const call *c, int k, int i) {
  const double a = sent(0, i), b = sent(1, i);
  switch (c->kind) {
  case GATHER:
    return sent(i / N, i % N);
  case TO_ALL:
    return sent(i / N, i % N + k * N);
  case CAST:
    return sent(c->peer, i);
  case REDUCE:
    return c->op == ncclSum ? a + b : (c->op == ncclMax) == (a > b) ? a : b;
  default:
    return sent(0, i + k * N) + sent(1, i + k * N);
  }
}

static void set(void *p, ncclDataType_t t, int i, double x) {
  if (t == ncclInt64)
    ((int64_t *)p)[i] = (int64_t)x;
  else if (t == ncclFloat32)
    ((float *)p)[i] = (float)x;
  else
    ((double *)p)[i] = x;
}

static double get(const void *p, ncclDataType_t t, int i) {
  return t == ncclInt64     ? (double)((const int64_t *)p)[i]
         : t == ncclFloat32 ? (double)((const float *)p)[i]
                            : ((const double *)p)[i];
}

TS_TEST(collectives_give_what_they_say) {
  static const ncclDataType_t types[] = {ncclInt64, ncclFloat32, ncclFloat64};
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < 8; i++) {
      const call c = {.kind = i < 4   ? (kind)i
                              : i < 6 ? REDUCE
                                      : SCATTER,
                      .n = N,
                      .type = types[t],
                      .peer = i % 2,
                      .op = i == 4   ? ncclMax
                            : i == 5 ? ncclMin
                                     : ncclSum};
      const int n = c.kind <= TO_ALL ? RANKS * N : N;
      for (int k = 0; k < RANKS; k++)
        for (int x = 0; x < RANKS * N; x++)
          set(r.from[k], c.type, x, sent(k, x));
      for (int k = 0; k < RANKS; k++) begin(&c, k);
      for (int k = 0; k < RANKS; k++) {
        ck_assert_int_eq(cudaStreamSynchronize(r.stream[k]), cudaSuccess);
        for (int x = 0; x < n; x++)
          ck_assert_double_eq(get(r.to[k], c.type, x), wanted(&c, k, x));
      }
    }
  ck_assert_int_eq(ts_emulated_now().complaints, 0);
}

/* ---- ranks that mean different things ------------------------------------ */

static const struct {
  call of[RANKS]; /* by rank */
  const char *told;
} unlike[] = {
    {{{REDUCE, N, ncclFloat32, 0, ncclSum}, {GATHER, N, ncclFloat32, 0, 0}},
     "sends \"all-"},
    {{{REDUCE, N, ncclFloat32, 0, ncclSum},
      {REDUCE, N - 1, ncclFloat32, 0, ncclSum}},
     "of 7"},
    {{{REDUCE, N, ncclFloat64, 0, ncclSum}, {REDUCE, N, ncclInt64, 0, ncclSum}},
     "type 4"},
    {{{SCATTER, N, ncclFloat32, 0, ncclSum},
      {SCATTER, N, ncclFloat32, 0, ncclMax}},
     "op 2"},
    {{{CAST, N, ncclFloat32, 0, 0}, {CAST, N, ncclFloat32, 1, 0}}, "broadcast"},
    {{{TO_ALL, N, ncclInt8, 0, 0}, {TO_ALL, N + 1, ncclInt8, 0, 0}}, "of 9"},
    {{{SENDS, N, ncclInt8, 1, 0}, {TAKES, N - 1, ncclInt8, 0, 0}}, "of 8"},
    {{{SENDS, N, ncclInt8, 1, 0}, {GATHER, N, ncclInt8, 0, 0}}, "a message"}};

/* One of them says so and keeps its error; both wait until they abort. */
TS_TESTS(ranks_that_differ_are_told, 0, sizeof unlike / sizeof *unlike) {
  ncclResult_t state[RANKS] = {ncclSuccess, ncclSuccess};
  for (int k = 0; k < RANKS; k++)
    ck_assert_int_eq(make(&unlike[_i].of[k], k), ncclInProgress);
  for (int i = 0; i < MOST_US / WAIT_US && !state[0] && !state[1]; i++) {
    ts_pause(WAIT_US);
    for (int k = 0; k < RANKS; k++) state[k] = state_of(r.comm[k]);
  }
  const int who = state[1] ? 1 : 0;
  ck_assert_int_eq(state[who], ncclInvalidUsage);
  const char *said = ncclGetLastError(r.comm[who]);
  ck_assert_msg(strstr(said, unlike[_i].told), "%s", said);
  ck_assert_ptr_nonnull(strstr(ts_emulated_now().complaint, "NCCL: rank"));
  ck_assert(!is_done(r.stream[who]));
  ck_assert_int_eq(make(&unlike[_i].of[who], who), ncclInvalidUsage);
}

/* A send ends when the other side takes it: two ranks that both send first
 * wait for each other, as one does that sends to nobody. */
TS_TESTS(sends_need_a_partner, 0, 3) {
  for (int k = 0; k < RANKS; k++) {
    const call send = {SENDS, N, ncclInt8, !k, 0};
    const call take = {TAKES, N, ncclInt8, !k, 0};
    const ncclResult_t each = _i == 2 ? ncclSuccess : ncclInProgress;
    if (_i == 0 && k) break;
    if (_i == 2) ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
    ck_assert_int_eq(make(&send, k), each);
    ck_assert_int_eq(state_of(r.comm[k]), ncclSuccess);
    if (_i) ck_assert_int_eq(make(&take, k), each);
    if (_i == 2) ck_assert_int_eq(ncclGroupEnd(), ncclInProgress);
    ck_assert_int_eq(state_of(r.comm[k]), ncclSuccess);
  }
  if (_i < 2) {
    ck_assert(!is_done(r.stream[0]));
    return;
  }
  for (int k = 0; k < RANKS; k++)
    ck_assert_int_eq(cudaStreamSynchronize(r.stream[k]), cudaSuccess);
}

/* ---- groups and arguments ------------------------------------------------ */

TS_TEST(an_end_has_a_start) {
  ck_assert_int_eq(ncclGroupEnd(), ncclInvalidUsage);
  ck_assert_int_eq(ts_emulated_now().complaints, 1);
}

/* A call of a group is refused: so is its end, and nothing of it runs. */
TS_TESTS(a_bad_call_spoils_its_group, 0, 4) {
  static const char *const told[] = {"a rank that there isn't",
                                     "a rank that there isn't",
                                     "two communicators", "another stream"};
  const ncclResult_t why = _i < 2 ? ncclInvalidArgument : ncclInvalidUsage;
  const call good = {SENDS, N, ncclInt8, 1, 0};
  const call bad = {SENDS, N, ncclInt8, _i ? 2 : -1, 0};
  const int whose = _i == 2;
  ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
  ck_assert_int_eq(make(&good, 0), ncclSuccess);
  if (_i == 3) {
    const cudaStream_t first = r.stream[0];
    r.stream[0] = r.other;
    r.other = first;
  }
  ck_assert_int_eq(make(_i < 2 ? &bad : &good, whose), why);
  ck_assert_int_eq(ncclGroupEnd(), why);
  ck_assert_int_eq(state_of(r.comm[whose]), why);
  ck_assert_str_eq(ncclGetLastError(r.comm[!whose]), "");
  ck_assert_ptr_nonnull(strstr(ncclGetLastError(r.comm[whose]), told[_i]));
  for (int k = 0; k < RANKS; k++) ck_assert(is_done(r.stream[k]));
  ck_assert_int_eq(ncclGroupEnd(), ncclInvalidUsage); /* it has ended */
}

TS_TEST(no_rank_beyond_the_last) {
  ncclConfig_t config = {.blocking = 0};
  ncclUniqueId id;
  ncclComm_t comm;
  ck_assert_int_eq(ncclGetUniqueId(&id), ncclSuccess);
  ck_assert_int_eq(ncclCommInitRankConfig(&comm, 2, id, 2, &config),
                   ncclInvalidArgument);
  ck_assert_int_eq(ncclCommInitRankConfig(&comm, 2, id, -1, &config),
                   ncclInvalidArgument);
  ck_assert_int_eq(ncclCommInitRankConfig(&comm, 0, id, 0, &config),
                   ncclInvalidArgument);
}

/* While one joins that waits for the others, only questions and abort. */
TS_TEST(calls_wait_for_what_is_in_progress) {
  ncclUniqueId id;
  ncclResult_t state;
  ck_assert_int_eq(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t alone = join(id, 0);
  ck_assert_int_eq(ncclCommGetAsyncError(alone, &state), ncclSuccess);
  ck_assert_int_eq(state, ncclInProgress);
  ck_assert_int_eq(
      ncclAllReduce(r.from[0], r.to[0], N, ncclInt64, ncclSum, alone, r.other),
      ncclInvalidUsage);
  ck_assert_ptr_nonnull(strstr(ncclGetLastError(alone), "in progress"));
  ck_assert_int_eq(ncclCommAbort(alone), ncclSuccess);
  ck_assert(is_done(r.other));
}

/* ---- errors and ends ----------------------------------------------------- */

static void *abort_later(void *comm) {
  ts_pause(20000);
  return ncclCommAbort(comm) == ncclSuccess ? NULL : comm;
}

/* The other rank has aborted, which its own abort alone gets over. */
TS_TEST(abort_frees_who_waits) {
  const call c = {REDUCE, N, ncclFloat32, 0, ncclSum};
  pthread_t thread;
  void *failed = &thread;
  begin(&c, 0);
  give_up(1);
  ck_assert(!is_done(r.stream[0]));
  ck_assert_int_eq(pthread_create(&thread, NULL, abort_later, r.comm[0]), 0);
  ck_assert_int_eq(cudaStreamSynchronize(r.stream[0]), cudaSuccess);
  pthread_join(thread, &failed);
  ck_assert_ptr_null(failed);
  r.comm[0] = NULL;
}

/* It is the answer to every question and call from then on. */
TS_TEST(an_error_stays) {
  const call c = {REDUCE, N, ncclFloat32, 0, ncclSum};
  ts_emulated_nccl_fail();
  ck_assert_int_eq(make(&c, 0), ncclInProgress);
  for (int k = 0; k < 2; k++)
    ck_assert_int_eq(state_of(r.comm[0]), ncclRemoteError);
  ck_assert_str_eq(ncclGetLastError(r.comm[0]), "a rank is gone");
  ck_assert_int_eq(make(&c, 0), ncclRemoteError);
  ck_assert_int_eq(ncclCommFinalize(r.comm[0]), ncclRemoteError);
  ck_assert_int_eq(state_of(r.comm[0]), ncclRemoteError);
  ck_assert(is_done(r.stream[0]));
  begin(&c, 1);
  ck_assert(!is_done(r.stream[1])); /* until it aborts */
}

/* Finalize is in progress while anything runs, and nothing is called behind
 * it; a communicator that is at work is not to be destroyed. */
TS_TESTS(an_end_waits, 0, 2) {
  const call c = {REDUCE, N, ncclFloat32, 0, ncclSum};
  ncclResult_t state;
  begin(&c, 0);
  if (!_i) ck_assert_int_eq(ncclCommFinalize(r.comm[0]), ncclInProgress);
  ck_assert_int_eq(ncclCommGetAsyncError(r.comm[0], &state), ncclSuccess);
  ck_assert_int_eq(state, _i ? ncclSuccess : ncclInProgress);
  begin(&c, 1);
  ck_assert_int_eq(cudaStreamSynchronize(r.stream[0]), cudaSuccess);
  ck_assert_int_eq(state_of(r.comm[0]), ncclSuccess);
  ck_assert_int_eq(ncclCommDestroy(r.comm[0]), ncclSuccess);
  r.comm[0] = NULL;
  ck_assert_int_eq(ts_emulated_now().complaints, _i);
  ck_assert_int_eq(cudaStreamSynchronize(r.stream[1]), cudaSuccess);
  ck_assert_int_eq(ncclCommFinalize(r.comm[1]), ncclInProgress);
  ck_assert_int_eq(make(&c, 1), ncclInvalidUsage);
}
