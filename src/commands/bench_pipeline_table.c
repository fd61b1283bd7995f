/* bench_pipeline_table.c - the table of `tessera bench pipeline`, for people
 * and as JSON. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "commands/bench_pipeline.h"

/* What the rows of the table say. */
typedef struct ts_line {
  double median, p90, fastest; /* ms; fastest: of the fastest tenth */
  double rate;                 /* samples/s */
  double exposed;              /* % of the time */
  double input_hidden;         /* % of input dist's messages */
  /* NAN without their row: */
  double of_base, of_sparse_dist; /* step times over theirs */
  double fastest_of;              /* fastest tenth over sparse_dist's */
  int same;                       /* losses are base's; -1: not known */
} ts_line;

static double tenth(const double *sorted, int n, int k) {
  const int i = (k * n + 9) / 10 - 1;
  return sorted[i < 0 ? 0 : i];
}

/* The median of one round. */
static double of_round(const ts_pipeline_bench *b, const ts_pipeline_case *x,
                       int round) {
  double ms[b->steps];
  memcpy(ms, x->ms + (int64_t)round * b->steps, sizeof ms);
  return ts_bench_median(ms, b->steps);
}

/* Of each round's medians, the median of the ratios: a round's turns were
 * neighbours in time.  NAN without Y. */
static double ratio(const ts_pipeline_bench *b, const ts_pipeline_case *x,
                    const ts_pipeline_case *y) {
  double q[b->rounds];
  if (!y) return NAN;
  for (int r = 0; r < b->rounds; r++)
    q[r] = of_round(b, x, r) / of_round(b, y, r);
  return ts_bench_median(q, b->rounds);
}

/* KIND's row with the same in_backward as X's, or NULL. */
static const ts_pipeline_case *row_of(const ts_pipeline_bench *b,
                                      const ts_pipeline_case *x,
                                      const char *kind) {
  for (int i = 0; i < b->n_cases; i++)
    if (!strcmp(b->cases[i].kind, kind) &&
        b->cases[i].in_backward == x->in_backward)
      return &b->cases[i];
  return NULL;
}

/* Time of the fastest tenth: what the machine does when left alone. */
static double fastest(const ts_pipeline_bench *b, const ts_pipeline_case *x) {
  const int n = b->rounds * b->steps;
  double ms[n];
  memcpy(ms, x->ms, sizeof ms);
  (void)ts_bench_median(ms, n); /* sorts */
  return tenth(ms, n, 1);
}

/* Median of Y over the quarter of steps that took least: one that the machine
 * held up says nothing of how messages are hidden. */
static double quiet_median(const ts_pipeline_bench *b,
                           const ts_pipeline_case *x, const double *y) {
  const int n = b->rounds * b->steps;
  double ms[n], kept[n];
  int n_kept = 0;
  memcpy(ms, x->ms, sizeof ms);
  (void)ts_bench_median(ms, n); /* sorts */
  for (int i = 0; i < n; i++)
    if (x->ms[i] <= ms[n / 4]) kept[n_kept++] = y[i];
  return ts_bench_median(kept, n_kept);
}

static ts_line make_row(const ts_pipeline_bench *b, const ts_pipeline_case *x) {
  const int n = b->rounds * b->steps;
  const ts_pipeline_case *base = row_of(b, x, "base");
  const ts_pipeline_case *sparse_dist = row_of(b, x, "sparse_dist");
  const double input = quiet_median(b, x, x->input);
  double ms[n];
  memcpy(ms, x->ms, sizeof ms);
  ts_line row = {.median = ts_bench_median(ms, n), /* sorts */
                 .of_base = ratio(b, x, base),
                 .of_sparse_dist = ratio(b, x, sparse_dist),
                 .same = base ? x->losses == base->losses : -1};
  row.p90 = tenth(ms, n, 9);
  row.fastest = tenth(ms, n, 1);
  row.fastest_of = sparse_dist ? row.fastest / fastest(b, sparse_dist) : NAN;
  row.rate = (double)b->global_batch / row.median * 1e3;
  row.exposed =
      100 * quiet_median(b, x, x->exposed) / quiet_median(b, x, x->ms);
  if (input > 0)
    row.input_hidden = 100 * (1 - quiet_median(b, x, x->input_exposed) / input);
  return row;
}

void ts_pipeline_bench_head(const ts_pipeline_bench *b) {
  ts_info(" ");
  ts_info("bench pipeline: %s, scale %g, %d ranks of %d threads, batch %lld; "
          "%d rounds of %d steps after %d; %s",
          b->deck, b->scale, b->n_ranks, b->n_threads,
          (long long)b->global_batch, b->rounds, b->steps, b->warm, b->ids);
  if (b->delay_us > 0 || b->delay_gbytes_per_s > 0)
    ts_info("a network of %g us and %g GB/s (comm.delay)", b->delay_us,
            b->delay_gbytes_per_s);
}

/* X with so many DIGITS, or what stands for none. */
static const char *ratio_text(char text[16], double x, int digits,
                              const char *none) {
  snprintf(text, 16, "%.*f", digits, x);
  return isnan(x) ? none : text;
}

static void print_row(const ts_pipeline_case *x, const ts_line *row) {
  char name[64], rate[32], of[3][16];
  snprintf(
      name, sizeof name, "%s%s%s%s%s%s%s", x->kind,
      x->plain ? ", no graph" : "", x->variant.stash ? ", stash" : "",
      x->variant.lookup ? ", " : "", x->variant.lookup ? x->variant.lookup : "",
      x->variant.lookup ? ", " : "", x->variant.lookup ? x->variant.lane : "");
  ts_info("%-36s %9.2f %9.2f %9.2f %9s %9.1f %9.1f %7.1f %7.1f %7s %7s "
          "%7s  %s",
          name, row->median, row->p90, row->fastest,
          ts_str_count(rate, (int64_t)row->rate), (double)x->alloc / (1 << 20),
          (double)x->reserved / (1 << 20), row->exposed, row->input_hidden,
          ratio_text(of[0], row->of_base, 3, "-"),
          ratio_text(of[1], row->of_sparse_dist, 3, "-"),
          ratio_text(of[2], row->fastest_of, 3, "-"),
          row->same < 0 ? "-"
          : row->same   ? "base's"
                        : "its own");
}

void ts_pipeline_bench_print(const ts_pipeline_bench *b) {
  for (int i = 0; i < b->n_cases; i++) {
    const ts_pipeline_case *x = &b->cases[i];
    const ts_line row = make_row(b, x);
    if (!i || x->in_backward != b->cases[i - 1].in_backward) {
      ts_info(" ");
      ts_info("%-36s %9s %9s %9s %9s %9s %9s %7s %7s %7s %7s %7s",
              x->in_backward ? "in_backward = true" : "in_backward = false",
              "step", "P90", "fastest", "", "alloc", "reserved", "exposed",
              "input", "of", "of s.", "of its");
      ts_info("%-36s %9s %9s %9s %9s %9s %9s %7s %7s %7s %7s %7s  %s",
              "pipeline", "ms", "ms", "10%", "samples/s", "MiB", "MiB",
              "comm %", "hidden%", "base", "dist", "fastest", "losses");
    }
    print_row(x, &row);
  }
}

/* ---- JSON ---------------------------------------------------------------- */

static ts_err add_row(ts_str *s, const ts_pipeline_bench *b,
                      const ts_pipeline_case *x, bool last) {
  ts_err err = TS_OK;
  const ts_line row = make_row(b, x);
  char of[3][16];
  TS_TRY(ts_str_append(s, "  {\"pipeline\": \"%s\", ", x->kind));
  if (x->variant.stash) TS_TRY(ts_str_append(s, "\"stash_gradients\": true, "));
  if (x->variant.lookup)
    TS_TRY(ts_str_append(s, "\"lookup\": \"%s\", \"lane\": \"%s\", ",
                         x->variant.lookup, x->variant.lane));
  TS_TRY(ts_str_append(
      s,
      "\"plain\": %s, \"in_backward\": %s, \"median_ms\": %.4f, \"p90_ms\": "
      "%.4f, "
      "\"fastest_ms\": %.4f, \"samples_per_s\": %.1f, \"alloc_bytes\": %lld, "
      "\"reserved_bytes\": %lld, \"exposed_comm_percent\": %.3f, "
      "\"input_hidden_percent\": %.3f, \"of_base\": %s, "
      "\"of_sparse_dist\": %s, \"fastest_of_sparse_dist\": %s, "
      "\"losses_of_base\": %s}%s\n",
      x->plain ? "true" : "false", x->in_backward ? "true" : "false",
      row.median, row.p90, row.fastest, row.rate, (long long)x->alloc,
      (long long)x->reserved, row.exposed, row.input_hidden,
      ratio_text(of[0], row.of_base, 5, "null"),
      ratio_text(of[1], row.of_sparse_dist, 5, "null"),
      ratio_text(of[2], row.fastest_of, 5, "null"),
      row.same < 0 ? "null"
      : row.same   ? "true"
                   : "false",
      last ? "" : ","));
done:
  return err;
}

static ts_err write_text(const char *path, const ts_str *s) {
  FILE *f = fopen(path, "w");
  if (!f) return ts_fail(TS_ERR_IO, "%s: %s", path, strerror(errno));
  const bool written = fwrite(s->text, 1, s->n_bytes, f) == s->n_bytes;
  if ((fclose(f) != 0) | !written)
    return ts_fail(TS_ERR_IO, "%s: %s", path, strerror(errno));
  return TS_OK;
}

ts_err ts_pipeline_bench_json(const ts_pipeline_bench *b) {
  ts_err err = TS_OK;
  ts_str s = {0};
  if (ts_mpi_rank() != 0) return TS_OK;
  TS_TRY(ts_str_append(
      &s,
      "{\"scale\": %g, \"ranks\": %d, \"threads\": %d, \"global_batch\": "
      "%lld, \"rounds\": %d, \"steps\": %d, \"delay_us\": %g, "
      "\"delay_gbytes_per_s\": %g, \"rows\": [\n",
      b->scale, b->n_ranks, b->n_threads, (long long)b->global_batch, b->rounds,
      b->steps, b->delay_us, b->delay_gbytes_per_s));
  for (int i = 0; i < b->n_cases; i++)
    TS_TRY(add_row(&s, b, &b->cases[i], i == b->n_cases - 1));
  TS_TRY(ts_str_append(&s, "]}\n"));
  TS_TRY(write_text(b->json, &s));
done:
  ts_str_reset(&s);
  return err;
}
