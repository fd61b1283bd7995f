/* test_cuda_wire.c - what a step of backend "emulated" brings to the host, and
 * by MPI to other ranks, does not depend on how many samples it has: ids,
 * lengths, weights, embeddings and their gradients stay in the device's memory
 * and go by NCCL.  One deck with every sharding; the host can't touch the
 * device's memory without a fault.  And the host waits for nothing of a step:
 * it is begun to its end while the device has done none of it.
 * ranks: 1 2 4
 * seconds: 300
 * sanitizers: none (kernels are fibers on threads) */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shard/ebc_batch.h"
#include "tests/support/emulated/emulated.h"
#include "tests/train/pipe_run.h"

enum { STEPS = 3 };

/* In and by the steps after the first: bytes that were copied to the host, and
 * sent by MPI for input dist. */
typedef struct traffic {
  int64_t to_host, heads, sections;
} traffic;

static traffic now_of(const pr_run *r) {
  const ts_ebc *ebc = r->t->ebc;
  const ts_comm *s = ebc->section_comm;
  return (traffic){ts_emulated_now().to_host,
                   ts_comm_stat_of(ebc->input_comm).sent_bytes,
                   s ? ts_comm_stat_of(s).sent_bytes : 0};
}

static traffic train(const char *kind, const char *batch) {
  pr_sets s = {0};
  pr_run r;
  ts_step_result result;
  traffic first = {0}, now;
  pr_set(&s, "run.backend=emulated");
  pr_set(&s, "run.steps=3");
  pr_set(&s, "data.synthetic.samples=2000");
  pr_set(&s, "data.dedup=[]");      /* how much is distinct differs */
  pr_set(&s, "tables.dp.rows=200"); /* distinct ones are words of bits */
  pr_set(&s, kind);
  pr_set(&s, batch);
  pr_start(&r, NULL, &s);
  const int n_ranks = ts_world_size(r.t->world);
  ck_assert_str_eq(ts_world_backend(r.t->world), "nccl");
  for (int k = 0; k < STEPS; k++) {
    ck_assert_ok(ts_pipeline_step(r.t, r.loader, 0, &result));
    ck_assert(!result.end);
    r.t->step++;
    if (k == 0) first = now_of(&r);
  }
  ck_assert_ok(ts_stage_fetch(r.t, &result));
  ck_assert_ok(ts_comm_barrier(r.t->control));
  now = now_of(&r);
  ck_assert((n_ranks > 1) == (r.t->ebc->section_comm != NULL));
  pr_stop(&r);
  return (traffic){now.to_host - first.to_host, now.heads - first.heads,
                   now.sections - first.sections};
}

TS_TESTS_BETWEEN(NULL, pr_close_data)

static const char *const kinds[] = {"pipeline.kind=base",
                                    "pipeline.kind=sparse_dist",
                                    "pipeline.kind=fused_sparse_dist"};

TS_TESTS(steps_stay_on_the_device, 0, 3) {
  const traffic few = train(kinds[_i], "data.global_batch=48");
  const traffic many = train(kinds[_i], "data.global_batch=480");
  ck_assert_all(few.to_host == many.to_host);
  ck_assert_all(few.heads == many.heads);
  ck_assert_all(ts_mpi_size() == 1 || many.sections > 4 * few.sections);
}

/* ---- no wait for the device ---------------------------------------------- */

/* Lets the device go on where the host waits for it after all. */
enum { PATIENCE_S = 60 };
typedef struct guard {
  pthread_mutex_t lock;
  pthread_cond_t more;
  pthread_t thread;
  bool over, waited;
} guard;

static void *watch(void *arg) {
  guard *g = arg;
  struct timespec until;
  int rc = 0;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE_S;
  pthread_mutex_lock(&g->lock);
  while (!g->over && rc == 0)
    rc = pthread_cond_timedwait(&g->more, &g->lock, &until);
  g->waited = !g->over;
  pthread_mutex_unlock(&g->lock);
  ts_emulated_hold(NULL);
  return NULL;
}

/* Every sharding; cut columns with optimizers that need nothing of other
 * columns' rows. */
static const char plain_deck[] =
    "run = { name = \"t\"; seed = 5; steps = 9; threads = 1;\n"
    "  backend = \"emulated\"; };\n"
    "data = { format = \"synthetic\"; global_batch = 96;\n"
    "  synthetic = { samples = 2000;\n"
    "    pooling = [1, 2, 4, 2, 3, 1, 3, 2]; }; };\n"
    "sharding = { ranks_per_node = 2; min_column = 8;\n"
    "             topology = \"default\"; };\n"
    "tables = (\n"
    "  { name = \"tw\"; rows = 300; dim = 16; features = [\"tw\"];\n"
    "    pooling = \"mean\"; sharding = \"table_wise\";\n"
    "    optimizer = { kind = \"rowwise_adagrad\"; lr = 0.05; }; },\n"
    "  { name = \"rw\"; rows = 90; dim = 16; features = [\"rw\"];\n"
    "    weighted = true; sharding = \"row_wise\";\n"
    "    optimizer = { kind = \"adagrad\"; lr = 0.05; }; },\n"
    "  { name = \"cw\"; rows = 70; dim = 16; features = [\"cw\"];\n"
    "    sharding = \"column_wise\"; dtype = \"bf16\";\n"
    "    optimizer = { kind = \"adagrad\"; lr = 0.05; }; },\n"
    "  { name = \"trw\"; rows = 100; dim = 16; features = [\"trw\"];\n"
    "    sharding = \"table_row_wise\"; pooling = \"mean\";\n"
    "    optimizer = { kind = \"sgd\"; lr = 0.1; }; },\n"
    "  { name = \"grid\"; rows = 110; dim = 16; features = [\"grid\"];\n"
    "    sharding = \"grid\"; optimizer = { kind = \"adam\"; }; },\n"
    "  { name = \"dp\"; rows = 40; dim = 16; features = [\"dp\", \"dp2\"];\n"
    "    sharding = \"data_parallel\"; optimizer = { kind = \"adam\"; }; },\n"
    "  { name = \"dpb\"; rows = 30; dim = 16; features = [\"dpb\"];\n"
    "    sharding = \"data_parallel\"; dtype = \"bf16\";\n"
    "    optimizer = { kind = \"sgd\"; lr = 0.1; }; } );\n"
    "model = { kind = \"dlrm\"; dense_features = 3; dense_arch = [32, 16];\n"
    "  over_arch = [32, 16, 1]; };\n"
    "dense = { bucket_mb = 0.001; };\n"
    "optimizer = { kind = \"adam\"; lr = 1e-2; };\n";

/* Whether the host waits in a step whose data lane stands still. */
static bool step_waits(const char *kind, const char *sizes) {
  pr_sets s = {0};
  pr_run r;
  ts_step_result result;
  guard g = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .more = PTHREAD_COND_INITIALIZER};
  pr_set(&s, kind);
  pr_set(&s, sizes);
  pr_start(&r, plain_deck, &s);
  for (int k = 0; k < STEPS; k++) {
    ck_assert_ok(ts_pipeline_step(r.t, r.loader, 0, &result));
    r.t->step++;
  }
  ck_assert_ok(ts_stage_fetch(r.t, &result));
  ck_assert_ok(ts_lane_sync(r.t->data));
  ck_assert_ok(ts_comm_barrier(r.t->control));
  ts_emulated_hold(ts_emulated_stream_of(r.t->data));
  ck_assert_int_eq(pthread_create(&g.thread, NULL, watch, &g), 0);
  ck_assert_ok(ts_pipeline_step(r.t, r.loader, 0, &result));
  r.t->step++;
  ck_assert(g.waited || !ts_event_done(ts_lane_record(r.t->data)));
  pthread_mutex_lock(&g.lock);
  g.over = true;
  pthread_cond_signal(&g.more);
  pthread_mutex_unlock(&g.lock);
  ck_assert_int_eq(pthread_join(g.thread, NULL), 0);
  ck_assert_ok(ts_stage_fetch(r.t, &result));
  ck_assert_ok(ts_comm_barrier(r.t->control));
  pr_stop(&r);
  return g.waited;
}

/* Whoever counts, the bits are the same. */
TS_TESTS(counts_change_no_bit, 0, 3) {
  static const char *const sizes[] = {"comm.input_dist=exact",
                                      "comm.input_dist=bounded"};
  pr_result result[2];
  for (int k = 0; k < 2; k++) {
    pr_sets s = {0};
    pr_set(&s, kinds[_i]);
    pr_set(&s, sizes[k]);
    pr_set(&s, "run.backend=emulated");
    pr_set(&s, "data.dedup=[]");
    pr_set(&s, "tables.dp.rows=200");
    pr_train(&result[k], NULL, &s);
  }
  ck_assert(pr_same(&result[0], &result[1]));
}

TS_TESTS(no_step_waits_for_the_device, 0, 3) {
  ck_assert(!step_waits(kinds[_i], "comm.input_dist=bounded"));
}
