/* test_cuda_wire.c - what a step of backend "emulated" brings to the host, and
 * by MPI to other ranks, does not depend on how many samples it has: ids,
 * lengths, weights, embeddings and their gradients stay in the device's memory
 * and go by NCCL.  One deck with every sharding; the host can't touch the
 * device's memory without a fault.
 * ranks: 1 2 4
 * seconds: 300
 * sanitizers: none (kernels are fibers on threads) */
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
  pr_set(&s, "data.dedup=[]"); /* how much is distinct differs */
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
