/* test_step_graph.c - which steps are graphs (train/graph.h), on the host's
 * device, and on one whose memory is discrete in the place of "cuda", with
 * graphs that only count: how many there are in each pipeline, that none is cut
 * by a wait of the host, when they are given up. ranks: 1 2  sanitized: 1 */
#include <string.h>

#include "base/mem.h"
#include "tests/support/fake_device.h"
#include "tests/train/pipe_run.h"
#include "runtime/backends.h"
#include "runtime/device_impl.h"

static struct {
  int begun, ended, cut, open, most_open;
  int between; /* tasks of the lane of data after the first graph of a step */
  int unlike;  /* one of so many is a sequence of its own, 0: none */
  int cuts;    /* one of so many is cut, 0: none */
} seen;

static ts_err graph_create(ts_graph **out, ts_lane *lane) {
  ts_graph *g = NULL;
  const ts_err err = ts_mem_alloc(&g, sizeof *g, TS_TAG_MISC);
  if (err != TS_OK) return err;
  *g = (ts_graph){.lane = lane};
  *out = g;
  return TS_OK;
}

static void graph_destroy(ts_graph *g) {
  seen.cut += (int)g->counts.n_cut;
  ts_mem_free(g);
}

static ts_err graph_begin(ts_graph *g) {
  (void)g;
  seen.begun++;
  if (++seen.open > seen.most_open) seen.most_open = seen.open;
  return TS_OK;
}

static ts_err graph_end(ts_graph *g) {
  seen.ended++;
  seen.open--;
  if (seen.cuts && seen.ended % seen.cuts == 0)
    g->counts.n_cut++;
  else if (g->counts.n_made == 0 ||
           (seen.unlike && seen.ended % seen.unlike == 0))
    g->counts.n_made++;
  else
    g->counts.n_updated++;
  return TS_OK;
}

static const ts_backend *host;

static const ts_device_ops *plain_ops;

static ts_err submit(ts_lane *lane, const char *span, ts_task task,
                     const void *arg, size_t bytes) {
  if (!strcmp(lane->name, "data") && seen.ended % 2) seen.between++;
  return plain_ops->submit(lane, span, task, arg, bytes);
}

/* The device of D with graphs. */
static void add_graphs(ts_device *d, ts_device_ops *ops) {
  plain_ops = d->ops;
  *ops = *d->ops;
  ops->submit = submit;
  ops->graph_create = graph_create;
  ops->graph_destroy = graph_destroy;
  ops->graph_begin = graph_begin;
  ops->graph_end = graph_end;
  d->ops = ops;
}

static ts_err host_create(ts_device **out, const ts_device_options *o) {
  static ts_device_ops ops;
  const ts_err err = host->device_create(out, o);
  if (err == TS_OK) add_graphs(*out, &ops);
  return err;
}

static ts_err apart_create(ts_device **out, const ts_device_options *o) {
  static ts_device_ops ops;
  const ts_fake_options fake = {.name = "cuda",
                                .serial = o->serial,
                                .id = "fake",
                                .slow_us = 20,
                                .timeout_s = 60};
  const ts_err err = ts_fake_create(out, &fake);
  if (err == TS_OK) add_graphs(*out, &ops);
  return err;
}

static ts_backend near;
static const ts_backend discrete = {"cuda", apart_create, ts_fake_kernels,
                                    NULL};

static void start(void) {
  host = ts_backend_find("host");
  near = *host;
  near.device_create = host_create;
}

static void stop(void) {
  ts_backend_replace(NULL);
  pr_close_data();
}

static pr_result plain, graphs;

/* With graphs, whose numbers are then in SEEN, and without; the same. */
static void run(const pr_sets *sets, const ts_backend *backend) {
  pr_sets s = *sets;
  ts_backend_replace(backend);
  memset(&seen, 0, sizeof seen);
  pr_set(&s, backend == &discrete ? "run.backend=cuda" : "run.backend=host");
  pr_set(&s, "comm.backend=mpi");
  pr_set(&s, "run.graph=off");
  pr_train(&plain, NULL, &s);
  ck_assert_int_eq(seen.begun, 0);
  s.item[s.n - 1] = "run.graph=auto";
  pr_train(&graphs, NULL, &s);
  ts_backend_replace(NULL);
  ck_assert_all(pr_same(&plain, &graphs));
  ck_assert_int_eq(seen.ended, seen.begun);
  ck_assert_int_le(seen.most_open, 1);
}

enum { STEPS = 7, PLAIN = 2, CASES = 9 };

TS_TESTS_BETWEEN(start, stop)

TS_TESTS(steps_are_graphs, 0, 2 * CASES) {
  static const struct ts_step_case {
    const char *set[3];
    int each; /* graphs of a step */
  } cases[CASES] = {{{"pipeline.kind=base"}, 1},
                    {{"pipeline.kind=base", "run.on_nan=skip"}, 2},
                    {{"pipeline.kind=base", "run.accumulate=2"}, 2},
                    {{"pipeline.kind=base", "optimizer.in_backward=false"}, 1},
                    {{"pipeline.kind=sparse_dist"}, 2},
                    {{"pipeline.kind=sparse_dist", "run.on_nan=skip"}, 2},
                    {{"pipeline.kind=semi_sync"}, 0},
                    {{"pipeline.kind=fused_sparse_dist"}, 0},
                    {{"pipeline.kind=base", "run.lanes=serial"}, 0}};
  pr_sets s = {0};
  const struct ts_step_case *x = &cases[_i % CASES];
  for (int k = 0; k < 3 && x->set[k]; k++) pr_set(&s, x->set[k]);
  run(&s, _i / CASES ? &discrete : &near);
  ck_assert_int_eq(seen.begun,
                   ts_mpi_size() > 1 ? 0 : x->each * (STEPS - PLAIN));
  ck_assert_int_eq(seen.cut, 0);
  /* The backward pass is on its way before the host asks for anything of the
   * next batch. */
  if (!strcmp(x->set[0], "pipeline.kind=sparse_dist"))
    ck_assert_int_eq(seen.between, 0);
}

/* Tables in slow memory: the host has a part in their steps. */
TS_TEST(slow_rows_have_none) {
  pr_sets s = {0};
  pr_set(&s, "pipeline.kind=base");
  pr_set(&s, "tables.tw.kernel=cached");
  run(&s, &near);
  ck_assert_int_eq(seen.begun, 0);
}

/* Work that is another each time, or cut each time: eight tries, then no more.
 * When that is one step of two, graphs go on. */
TS_TESTS(useless_ones_are_given_up, 0, 4) {
  static const struct {
    int unlike, cuts, begun;
  } cases[] = {{1, 0, 9}, {0, 1, 8}, {2, 0, 18}, {0, 2, 18}};
  pr_sets s = {0};
  pr_set(&s, "pipeline.kind=base");
  pr_set(&s, "run.steps=20");
  pr_set(&s, "run.graph=auto");
  ts_backend_replace(&near);
  memset(&seen, 0, sizeof seen);
  seen.unlike = cases[_i].unlike;
  seen.cuts = cases[_i].cuts;
  pr_train(&graphs, NULL, &s);
  ts_backend_replace(NULL);
  ck_assert_int_eq(graphs.n, 20);
  ck_assert_int_eq(seen.begun, ts_mpi_size() > 1 ? 0 : cases[_i].begun);
  ck_assert_int_eq(seen.ended, seen.begun);
}
