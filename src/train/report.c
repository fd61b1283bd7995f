/* report.c - header and end of the log. */
#include "train/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/graph.h"
#include "base/kinds.h"
#include "base/log.h"
#include "config.h"
#include "io/deck.h"
#include "io/hdf5.h"
#include "runtime/topology.h"
#include "runtime/trace.h"
#include "train/graph.h"
#include "train/planning.h"

extern char **environ;

/* Where, by which words and variables. */
static void report_origin(void) {
  char host[256] = "?", words[1024] = "";
  FILE *f = fopen("/proc/self/cmdline", "r");
  const size_t n = f ? fread(words, 1, sizeof words - 1, f) : 0;
  if (f) fclose(f);
  for (size_t i = 0; i + 1 < n; i++)
    if (!words[i] || words[i] == '\n') words[i] = ' ';
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '?';
  ts_info("  on %s: %s", host, words);
  for (char **e = environ; *e; e++)
    if (!strncmp(*e, "TESSERA_", 8)) ts_info("  %s", *e);
}

ts_err ts_report_header(ts_trainer *t) {
  int64_t widened = t->widened;
  uint64_t hash = 0;
  ts_err err = ts_comm_sum_i64(t->control, &widened, 1);
  const ts_cpu *cpu = ts_cpu_info();
  ts_info("tessera %s", PACKAGE_VERSION);
  report_origin();
  ts_info("  %s; %s; dense products: %s", ts_mpi_version(), ts_hdf5_version(),
          ts_linear_engine_version(&t->kernels));
  ts_info("  %s, kernels %s", cpu->model, t->kernels.isa);
  ts_report_backend(t);
  if (err == TS_OK) err = ts_report_device(t);
  ts_info(
      "  %d rank%s on %d node%s, %d thread%s each, lanes %s, collectives %s",
      t->n_ranks, t->n_ranks > 1 ? "s" : "", ts_world_nodes(t->world),
      ts_world_nodes(t->world) > 1 ? "s" : "", t->n_threads,
      t->n_threads > 1 ? "s" : "",
      t->config->run.serial_lanes ? "serial" : "parallel",
      ts_world_backend(t->world));
  if (err == TS_OK) err = ts_settle(t, ts_deck_hash(&hash, t->config));
  ts_info("  deck %s, hash %016llx", t->config->deck_path,
          (unsigned long long)hash);
  if (err == TS_OK) err = ts_report_binding(t);
  if (widened)
    ts_note("the launcher bound ranks to single cores; %d of them were given "
            "their share of the node's CPUs",
            (int)widened);
  return err;
}

ts_err ts_report_layers(ts_trainer *t) {
  ts_err err = TS_OK;
  ts_str text = {0};
  if (t->rank != 0) return TS_OK;
  TS_TRY(ts_graph_print(&text, t->model));
  ts_info("layers; a sample's products and bytes:\n%.*s", (int)text.n_bytes - 1,
          text.text);
done:
  ts_str_reset(&text);
  return err;
}

static int n_averaged(const ts_config *c) {
  int n = 0;
  for (int32_t i = 0; i < c->n_tables; i++) n += c->tables[i].ema;
  return n;
}

void ts_report_plan(ts_trainer *t) {
  int32_t n[TS_SHARD_COUNT] = {0};
  char bytes[32], params[32], kinds[256] = "";
  int64_t total = 0;
  const ts_plan_report *r = t->planning->report;
  for (int32_t i = 0; i < t->plan->n_tables; i++) {
    const ts_table_config *c = &t->config->tables[i];
    n[t->plan->tables[i].kind]++;
    total += c->rows * ts_row_bytes(c->dtype, c->dim);
  }
  for (int k = 0, at = 0; k < TS_SHARD_COUNT; k++)
    if (n[k])
      at +=
          snprintf(kinds + at, sizeof kinds - (size_t)at, "%s %d %s",
                   at ? "," : ";", n[k], ts_shard_kind_name((ts_shard_kind)k));
  ts_info("tables: %d, %s%s", t->plan->n_tables, ts_str_bytes(bytes, total),
          kinds);
  if (r)
    ts_info("plan: predicted %.2f ms a step, of it tables %.2f on rank %d, "
            "slowest / mean %.2f; %.1f MiB on rank %d, %.1f MiB left",
            r->step_ms, r->sparse_ms, r->slowest, r->imbalance,
            r->memory_bytes / (1 << 20), r->fullest,
            (r->limit - r->memory_bytes) / (1 << 20));
  const int32_t n_slow = ts_plan_n_kernels(t->plan);
  if (n_slow)
    ts_note("fast memory doesn't suffice for all rows: %d tables whose kernel "
            "is \"auto\" are in slow memory; the output folder's plan says "
            "which and why",
            n_slow);
  if (r) {
    const ts_plan_memory *m = &r->ranks[r->fullest].load.memory;
    ts_info("memory predicted on rank %d: tables and their state %.1f MiB, "
            "batches under way %.1f MiB, the rest %.1f MiB",
            r->fullest, (m->weights + m->state) / (1 << 20),
            m->buffers / (1 << 20), m->dense / (1 << 20));
    if (m->pinned > 0)
      ts_info("of the host's memory %.1f MiB are page-locked, batches' and "
              "tables'",
              m->pinned / (1 << 20));
  }
  if (ts_device_runs_at_once(t->device))
    ts_info("input dist: sizes as the %s (comm.input_dist)",
            ts_ebc_counts(t->ebc) ? "host has read them, without a wait"
                                  : "GPU counts them, and the host waits");
  ts_info("dense parameters: %s",
          ts_str_count(params, ts_params_count(&t->params)));
  if (t->config->optimizer.ema > 0)
    ts_info("evaluations take running means of the dense weights and of %d "
            "tables (ema): optimizer.ema = %g",
            n_averaged(t->config), t->config->optimizer.ema);
}

void ts_report_progress(const ts_progress_line *l, const ts_metrics_result *r) {
  char gone[32], left[32], rate[32], figures[64] = "";
  if (r)
    snprintf(figures, sizeof figures, "  NE %.4f  AUC %.4f", r->window_ne,
             r->auc);
  ts_progress("step %8lld/%lld  epoch %.2f  loss %.5f%s  %s samples/s  %s, "
              "left %s",
              (long long)l->step, (long long)l->last, l->epoch, l->loss,
              figures, ts_str_count(rate, (int64_t)l->samples_per_s),
              ts_str_seconds(gone, l->gone_s), ts_str_seconds(left, l->left_s));
}

/* ---- the table at the end ------------------------------------------------ */

enum { ROWS_MAX = 64, NAME_MAX_BYTES = 32 };

typedef struct ts_rows {
  int n;
  char name[ROWS_MAX][NAME_MAX_BYTES];
  int parent[ROWS_MAX]; /* row of the phase that a part is of, else its own */
  double seconds[ROWS_MAX];
} ts_rows;

static void collect(const char *phase, double seconds, int64_t calls,
                    void *arg) {
  ts_rows *rows = arg;
  (void)calls;
  if (rows->n == ROWS_MAX) return;
  snprintf(rows->name[rows->n], NAME_MAX_BYTES, "%s", phase);
  rows->parent[rows->n] = rows->n;
  if (*phase == ' ' && rows->n)
    rows->parent[rows->n] = rows->parent[rows->n - 1];
  rows->seconds[rows->n++] = seconds;
}

/* Of a phase, or of its part. */
static double seconds_of(const ts_rows *rows, const char *phase,
                         const char *name) {
  for (int i = 0; i < rows->n; i++)
    if (!strcmp(rows->name[i], name) &&
        !strcmp(rows->name[rows->parent[i]], phase))
      return rows->seconds[i];
  return 0;
}

/* Rank 0's phases, each over all ranks. */
static ts_err print_phases(ts_trainer *t, double seconds) {
  ts_rows own = {0};
  int64_t n;
  char names[2][NAME_MAX_BYTES]; /* phase, part or phase */
  double all[t->n_ranks];
  ts_timers_each(collect, &own);
  n = own.n;
  TS_DO(ts_comm_bcast(t->control, &n, sizeof n, 0));
  ts_info(" ");
  ts_info("%-24s %9s %9s %9s %6s", "time per phase (s)", "min", "avg", "max",
          "% run");
  for (int64_t i = 0; i < n; i++) {
    if (t->rank == 0) {
      memcpy(names[0], own.name[own.parent[i]], sizeof names[0]);
      memcpy(names[1], own.name[i], sizeof names[1]);
    }
    TS_DO(ts_comm_bcast(t->control, names, sizeof names, 0));
    const double mine = seconds_of(&own, names[0], names[1]);
    double low = 1e300, high = 0, sum = 0;
    TS_DO(ts_comm_gather_all(t->control, all, &mine, sizeof mine));
    for (int r = 0; r < t->n_ranks; r++) {
      low = fmin(low, all[r]);
      high = fmax(high, all[r]);
      sum += all[r];
    }
    if (high >= 0.0005 * seconds)
      ts_info("%-24s %9.3f %9.3f %9.3f %6.1f", names[1], low, sum / t->n_ranks,
              high, 100 * sum / t->n_ranks / seconds);
  }
  return TS_OK;
}

static ts_err report_products(const ts_trainer *t) {
  ts_str text = {0};
  const ts_err err = ts_linear_unfused(&t->kernels, &text);
  if (text.text) ts_note("matrix products: %s", text.text);
  ts_str_reset(&text);
  return err;
}

ts_err ts_report_end(ts_trainer *t, double seconds, int64_t n_samples,
                     int64_t n_steps) {
  char n[32], rate[32];
  if (seconds <= 0) seconds = 1e-9;
  TS_DO(print_phases(t, seconds));
  TS_DO(ts_report_balance(t, seconds));
  TS_DO(ts_report_traffic(t, n_steps));
  ts_step_graph_report(t);
  TS_DO(report_products(t));
  TS_DO(ts_report_memory(t));
  ts_info(" ");
  ts_info("trained on %s samples in %.1f s", ts_str_count(n, n_samples),
          seconds);
  ts_progress("Performance: %s samples/s",
              ts_str_count(rate, (int64_t)((double)n_samples / seconds)));
  return TS_OK;
}
