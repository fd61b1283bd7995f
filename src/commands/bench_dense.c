/* bench_dense.c - how much of a step's dense time is matrix products, and
 * what the library alone needs for the same ones.
 *
 * Dense time is all work of a step but that of tables and input; that of the
 * dense optimizer, which has a lane of its own, stands apart.  After each step
 * its products are run again alone, in the step's order and on the step's
 * arrays: so both feel the same machine.  On a shared machine the fastest
 * quarter of these turns says most. */
#include "commands/bench_dense.h"
#include "commands/bench_table.h"

#include <stdlib.h>
#include <string.h>

#include "commands/bench.h"
#include "runtime/trace.h"

/* Work of tables and input; what is not here counts as dense. */
static const char *const not_dense[] = {
    "input pack",
    "wait for input dist",
    "input unpack",
    "lookup",
    "fused backward",
    "encode",
    "decode",
    "assemble",
    "disassemble",
    "bundle rows",
    "open rows",
    "reduce rows",
    "row statistics",
    "sum rows",
    "release",
    "prefetch",
    "position weights",
    "position gradients",
    "clear",
    "weight gradients",
    "clear positions",
};

static bool is_dense(const char *phase) {
  if (phase[0] == ' ' || !strcmp(phase, "products alone")) return false;
  for (size_t i = 0; i < sizeof not_dense / sizeof *not_dense; i++)
    if (!strcmp(not_dense[i], phase)) return false;
  return true;
}

static void add(const char *phase, double seconds, int64_t calls, void *arg) {
  ts_bench_turn *t = arg;
  (void)calls;
  if (!strcmp(phase, "dense optimizer"))
    t->optimizer += seconds;
  else if (is_dense(phase))
    t->dense += seconds;
  if (!strcmp(phase, TS_LINEAR_PRODUCTS)) t->products += seconds;
  if (!strcmp(phase, "products alone")) t->alone += seconds;
}

static ts_bench_turn so_far(void) {
  ts_bench_turn t = {0};
  ts_timers_each(add, &t);
  return t;
}

void ts_bench_turn_begin(ts_bench_turn *t) {
  *t = so_far();
}

ts_err ts_bench_turn_end(ts_bench_turn *t, ts_trainer *trainer) {
  const ts_bench_turn step = so_far();
  const ts_params *ps = &trainer->params;
  for (int32_t i = 0; i < ps->n; i++)
    if (ps->item[i]->layer)
      TS_DO(ts_linear_repeat(ps->item[i]->layer, TS_FORWARD, trainer->compute));
  for (int32_t i = ps->n - 1; i >= 0; i--)
    if (ps->item[i]->layer)
      TS_DO(
          ts_linear_repeat(ps->item[i]->layer, TS_BACKWARD, trainer->compute));
  TS_DO(ts_lane_sync(trainer->compute));
  const ts_bench_turn all = so_far();
  *t = (ts_bench_turn){.dense = step.dense - t->dense,
                       .products = step.products - t->products,
                       .optimizer = step.optimizer - t->optimizer,
                       .alone = all.alone - step.alone};
  return TS_OK;
}

static int by_time(const void *a, const void *b) {
  const ts_bench_turn *x = a, *y = b;
  const double d = x->dense + x->alone - (y->dense + y->alone);
  return (d > 0) - (d < 0);
}

static const ts_bench_table products = {
    "products",
    "{products_ms|products: %.2f ms}{dense_ms| of %.2f ms dense}"
    "{products_percent| (%.1f %%)}{engine|; %s}{alone_ms| alone %.2f ms}"
    "{alone_of_dense|: ratio %.3f}{optimizer_ms|; optimizer %.2f ms more}"
    "{alone_of_all|: ratio %.3f (a rank and step, fastest quarter)}"};

ts_err ts_bench_turns_print(ts_bench_turn *turns, int n, ts_trainer *trainer) {
  const int best = n >= 4 ? n / 4 : 1;
  double ms[4] = {0};
  const double each = 1e3 / best / trainer->n_ranks;
  qsort(turns, (size_t)n, sizeof *turns, by_time);
  for (int i = 0; i < best; i++) {
    ms[0] += each * turns[i].products;
    ms[1] += each * turns[i].dense;
    ms[2] += each * turns[i].alone;
    ms[3] += each * turns[i].optimizer;
  }
  TS_DO(ts_comm_sum_f64(trainer->control, ms, 4));
  ts_bench_print(&products, ms[0], ms[1], 100 * ms[0] / ms[1],
                 ts_linear_engine_version(&trainer->kernels), ms[2],
                 ms[2] / ms[1], ms[3], ms[2] / (ms[1] + ms[3]));
  return TS_OK;
}
