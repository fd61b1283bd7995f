/* bench_phases.c - where a step goes: the timers' phases with what each has to
 * move through memory and to multiply, beside a copy and a product.
 *
 * Bytes are counted once, however often they are used: ids, distinct rows and
 * their state, outputs or gradients.  Operations are those of the layers'
 * products; what models do by element has none.  Phases without a figure have
 * many small arrays, or the host's work; phases of different lanes may overlap,
 * so their sum may be more than the step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "commands/bench.h"
#include "commands/bench_limits.h"
#include "commands/bench_table.h"
#include "runtime/trace.h"

enum { PHASES = 64 };

typedef struct ts_phase_line {
  const char *name;
  double seconds;
  double bytes, operations; /* of a step; 0: not known */
} ts_phase_line;

typedef struct ts_phase_table {
  ts_phase_line line[PHASES];
  int n;
} ts_phase_table;

/* The bytes and operations of a step. */
typedef struct ts_step_needs {
  double lookup, backward, optimizer, ids; /* bytes */
  double products;                         /* operations of a forward pass */
  ts_model_bytes model;
} ts_step_needs;

/* ---- needs --------------------------------------------------------------- */

/* Distinct ids of N features from FIRST on: a bit for each row of their
 * table. */
static ts_err distinct(double *n, const ts_jagged *first, int32_t n_features,
                       int64_t rows) {
  ts_err err = TS_OK;
  uint64_t *seen = NULL;
  int64_t found = 0;
  TS_TRY(ts_mem_array(&seen, rows / 64 + 1, sizeof *seen, TS_TAG_MISC));
  memset(seen, 0, (size_t)(rows / 64 + 1) * sizeof *seen);
  for (int32_t f = 0; f < n_features; f++)
    for (int64_t i = 0; i < first[f].n_ids; i++) {
      const int64_t id = first[f].ids[i];
      if (id < 0 || id >= rows) continue;
      const uint64_t bit = UINT64_C(1) << id % 64;
      found += !(seen[id / 64] & bit);
      seen[id / 64] |= bit;
    }
  *n = (double)found;
done:
  ts_mem_free(seen);
  return err;
}

static ts_err add_table(ts_step_needs *needs, const ts_table_config *table,
                        const ts_jagged *first, int32_t bags) {
  double n_ids = 0, rows = 0;
  const int32_t n = table->features.n;
  const double row = (double)ts_row_bytes(table->dtype, table->dim);
  for (int32_t f = 0; f < n; f++) n_ids += (double)first[f].n_ids;
  const double ids = n_ids * (table->weighted ? 12 : 8);
  const double out = 4.0 * table->dim * bags * n;
  TS_DO(distinct(&rows, first, n, table->rows));
  needs->ids += ids;
  needs->lookup += ids + rows * row + out;
  needs->backward +=
      ids +
      2 * rows * (row + (double)ts_row_state_bytes(table, table->dim, true)) +
      out;
  return TS_OK;
}

/* As cross layers choose it. */
static bool has_half(const ts_trainer *t) {
  const ts_config *c = t->config;
  return ts_linear_in_bf16(c->run.precision, c->model.dcn_rank, NULL,
                           &t->kernels) &&
         ts_linear_in_bf16(c->run.precision, INT32_MAX, NULL, &t->kernels);
}

static ts_err find_needs(ts_step_needs *needs, const ts_trainer *t,
                         const ts_batch *batch) {
  const ts_config *c = t->config;
  double n_states = 0;
  int32_t f = 0;
  *needs = (ts_step_needs){0};
  for (int32_t i = 0; i < c->n_tables; f += c->tables[i++].features.n)
    TS_DO(add_table(needs, &c->tables[i], &batch->kjt.features[f], batch->n));
  for (int32_t i = 0; i < t->params.n; i++) {
    const ts_param *p = t->params.item[i];
    if (p->layer && p->cols)
      needs->products += 2.0 * (double)p->n * (double)batch->n;
    n_states = 0;
    for (int k = 0; k < TS_PARAM_STATES_MAX; k++) n_states += p->state[k] != 0;
    n_states += p->ema != NULL;
    needs->optimizer += 4.0 * (double)p->n * (3 + 2 * n_states);
  }
  needs->model = ts_bench_model_bytes(c, batch->n, has_half(t));
  return TS_OK;
}

static void assign(ts_phase_line *l, const ts_step_needs *needs) {
  const struct {
    const char *phase;
    double bytes, operations;
  } all[] = {{"lookup", needs->lookup, 0},
             {"fused backward", needs->backward, 0},
             {"dense optimizer", needs->optimizer, 0},
             {"concatenate", needs->model.join, 0},
             {"concatenate backward", needs->model.join, 0},
             {"cross", needs->model.cross, 0},
             {"cross backward", needs->model.cross_backward, 0},
             {"input pack", 2 * needs->ids, 0},
             {"input unpack", 2 * needs->ids, 0},
             {"dense forward", 0, needs->products},
             {"dense backward", 0, 2 * needs->products},
             {TS_LINEAR_PRODUCTS, 0, 3 * needs->products}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i].phase, l->name)) {
      l->bytes = all[i].bytes;
      l->operations = all[i].operations;
    }
}

/* ---- the table ----------------------------------------------------------- */

static void add(const char *phase, double seconds, int64_t calls, void *arg) {
  ts_phase_table *t = arg;
  int i = 0;
  (void)calls;
  if (!strcmp(phase, "products alone")) return;
  while (i < t->n && strcmp(t->line[i].name, phase) != 0) i++;
  if (i == PHASES) return;
  if (i == t->n) t->line[t->n++] = (ts_phase_line){.name = phase};
  t->line[i].seconds += seconds; /* parts of several phases are one line */
}

static int longest_first(const void *a, const void *b) {
  const ts_phase_line *x = a, *y = b;
  return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static const ts_bench_table phases = {
    "phases",
    "{phase|%-22s|phase}{ms| %9.3f|ms}{of_step_percent| %6.1f%%|of step}"
    "{gb| %9.4f|GB}{gb_per_s| %8.1f|GB/s}{of_copy_percent| %6.1f%%|of copy}"
    "{gflop| %9.2f|GFLOP}{tflop_per_s| %8.3f|TFLOP/s}"
    "{of_product_percent| %6.1f%%|of it}"};

static void print_line(const ts_phase_line *l, double step, double copy,
                       double product) {
  const double s = l->seconds;
  const double gb = l->bytes > 0 ? 1e-9 * l->bytes : NAN;
  const double gflop = l->operations > 0 ? 1e-9 * l->operations : NAN;
  ts_bench_print(&phases, l->name, 1e3 * s, 100 * s / step, gb, gb / s,
                 100e9 * gb / s / copy, gflop, 1e-3 * gflop / s,
                 100e9 * gflop / s / product);
}

static void print(const ts_phase_table *t, double step, double copy,
                  double product) {
  ts_phase_line sum = {.name = "sum"};
  ts_info("where a step goes, rank 0: a copy in its memory %.1f GB/s, read and "
          "written; a product %.3f TFLOP/s",
          1e-9 * copy, 1e-12 * product);
  ts_bench_heads(&phases);
  for (int i = 0; i < t->n; i++) {
    print_line(&t->line[i], step, copy, product);
    if (t->line[i].name[0] != ' ') sum.seconds += t->line[i].seconds;
  }
  print_line(&sum, step, copy, product);
  print_line(&(ts_phase_line){.name = "step", .seconds = step}, step, copy,
             product);
}

ts_err ts_bench_phases_print(ts_trainer *t, const ts_batch *batch, int steps,
                             double seconds) {
  enum { COPY = 256 << 20 };
  ts_phase_table table = {.n = 0};
  ts_step_needs needs;
  double copy = 0, product = 0;
  ts_timers_each(add, &table); /* before anything else is timed */
  TS_DO(find_needs(&needs, t, batch));
  for (int i = 0; i < table.n; i++) {
    table.line[i].seconds /= steps;
    assign(&table.line[i], &needs);
  }
  qsort(table.line, (size_t)table.n, sizeof *table.line, longest_first);
  TS_DO(ts_bench_copy_rate(&copy, t->device, t->compute, COPY));
  TS_DO(ts_bench_product_rate(&product, t));
  if (t->rank == 0) print(&table, seconds, copy, product);
  return TS_OK;
}
