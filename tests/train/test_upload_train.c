/* test_upload_train.c - in a whole training on a discrete device every batch
 * goes up in one copy, which lies beside the batch before where the pipeline
 * takes batches ahead, and nowhere near it where not: by the trace.  So does
 * the sort of its ids.  With the fake device, whose copies are slow, in the
 * place of backend "cuda". ranks: 1
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands/trace.h"
#include "tests/support/fake_device.h"
#include "tests/train/pipe_run.h"
#include "runtime/backends.h"
#include "runtime/trace_file.h"

enum { STEPS = 7 }; /* batches of 96, 96, 96, 2 samples, and again */

static ts_err create(ts_device **d, const ts_device_options *o) {
  const ts_fake_options fake = {.name = "cuda",
                                .serial = o->serial,
                                .id = "fake",
                                .slow_us = 2000,
                                .timeout_s = 60};
  return ts_fake_create(d, &fake);
}

static const ts_backend backend = {"cuda", create, ts_fake_kernels, NULL};

static void train(const char *path, const char *pipeline, bool pinned) {
  static pr_result result;
  pr_run r;
  ts_trace_file file = {0};
  pr_sets s = {0};
  pr_set(&s, "run.backend=cuda");
  pr_set(&s, "comm.backend=mpi");
  pr_set(&s, pipeline);
  pr_set(&s, pinned ? "data.pin_memory=true" : "data.pin_memory=false");
  /* So long that a busy machine's pauses don't count. */
  pr_kernel_hooks.lookup_us = pr_kernel_hooks.row_update_us = 4000;
  memset(&result, 0, sizeof result);
  pr_start(&r, NULL, &s);
  ck_assert_ok(ts_trace_file_open(&file, path, 0, INT64_MAX, r.t->control));
  ts_trace_train(0);
  pr_steps(&r, &result);
  ck_assert_ok(ts_trace_file_close(&file, NULL, r.t->control));
  ts_trace_file_reset(&file);
  pr_stop(&r);
  memset(&pr_kernel_hooks, 0, sizeof pr_kernel_hooks);
  ck_assert_int_eq(result.n, STEPS);
}

static bool of_batch(const ts_trace *t, const ts_read_span *s,
                     const void *arg) {
  return s->batch == *(const int64_t *)arg &&
         !strcmp(t->lanes[s->lane].name, "compute");
}

/* Copies, and those that lie beside compute of the batch before. */
static int count(const ts_trace *t, int *n_beside) {
  int n = 0;
  *n_beside = 0;
  for (int64_t i = 0; i < t->n_spans; i++) {
    const ts_read_span *s = &t->spans[i];
    const int64_t before = s->batch - 1;
    ts_cover cover = {0};
    if (strcmp(s->name, "batch to device") != 0) continue;
    ck_assert_str_eq(t->lanes[s->lane].name, "memcpy");
    ck_assert_str_eq(s->phase, "input");
    ck_assert_int_gt(s->bytes, n % 4 < 3 ? 96 * 8 * 10 : 2 * 8 * 10);
    ck_assert_int_eq(s->batch, n++); /* each once, in order */
    ck_assert_ok(ts_cover_make(&cover, t, 0, of_batch, &before));
    *n_beside += ts_cover_overlap(&cover, s->t0, s->t1) > 0;
    ts_cover_reset(&cover);
  }
  return n;
}

/* Each batch's ids are sorted once, where they arrive, before its own backward
 * pass; how many of these lie beside compute of the batch before. */
static int count_sorts(const ts_trace *t) {
  int n = 0, n_beside = 0;
  for (int64_t i = 0; i < t->n_spans; i++) {
    const ts_read_span *s = &t->spans[i];
    const int64_t before = s->batch - 1;
    ts_cover cover = {0};
    if (strcmp(s->name, "sort rows") != 0) continue;
    ck_assert_str_eq(t->lanes[s->lane].name, "data");
    ck_assert_int_eq(s->batch, n++);
    for (int64_t k = 0; k < t->n_spans; k++)
      ck_assert(strcmp(t->spans[k].name, "fused backward") != 0 ||
                t->spans[k].batch != s->batch || t->spans[k].t0 >= s->t1);
    ck_assert_ok(ts_cover_make(&cover, t, 0, of_batch, &before));
    n_beside += ts_cover_overlap(&cover, s->t0, s->t1) > 0;
    ts_cover_reset(&cover);
  }
  ck_assert_int_eq(n, STEPS);
  return n_beside;
}

static void start(void) {
  ts_backend_replace(&backend);
}

static void stop(void) {
  pr_close_data();
  ts_backend_replace(NULL);
}

TS_TESTS_BETWEEN(start, stop)

TS_TESTS(one_copy_beside_compute, 0, 4) {
  static const char *const kinds[] = {"pipeline.kind=base",
                                      "pipeline.kind=sparse_dist"};
  ts_trace t;
  char path[64];
  int n_beside;
  const bool ahead = _i & 1;
  snprintf(path, sizeof path, "/tmp/tessera-upload-%d.json", (int)getpid());
  train(path, kinds[ahead], _i & 2);
  ck_assert_ok(ts_trace_read(&t, path));
  (void)remove(path);
  ck_assert_int_eq(count(&t, &n_beside), STEPS);
  ck_assert_int_eq(count_sorts(&t) > 0, ahead);
  if (ahead)
    ck_assert_int_ge(n_beside, STEPS / 2); /* the first has none before it */
  else
    ck_assert_int_eq(n_beside, 0);
  ts_trace_reset(&t);
}
