/* report_traffic.c - what embeddings cost on the wire: bytes per step by
 * collective, beside what they would be without codecs and short ids, and
 * what data.dedup saved.  Sums over all ranks, per step. */
#include <inttypes.h>

#include "base/log.h"
#include "base/str.h"
#include "train/report.h"

static void print_line(const char *what, int64_t before, int64_t after) {
  char b[32], a[32];
  if (before <= 0) return;
  ts_info("%-24s %12s %12s %7.0f%%", what, ts_str_bytes(b, before),
          ts_str_bytes(a, after), 100.0 * (double)after / (double)before);
}

static void print_saved(const ts_ebc_stat *s) {
  char a[32], b[32];
  if (!s->n_bags_in) return;
  ts_info("data.dedup: %s bags a step went as %s",
          ts_str_count(a, s->n_bags_in), ts_str_count(b, s->n_bags_sent));
  ts_info("data.dedup: %s ids a step went as %s, as many rows not looked up",
          ts_str_count(a, s->n_ids_in), ts_str_count(b, s->n_ids_sent));
}

ts_err ts_report_traffic(ts_trainer *t, int64_t n_steps) {
  ts_ebc_stat s = ts_ebc_stat_of(t->ebc);
  int64_t *const all = (int64_t *)&s;
  const int64_t n = (int64_t)(sizeof s / sizeof *all);
  TS_DO(ts_comm_sum_i64(t->control, all, n));
  if (n_steps < 1) return TS_OK;
  for (int64_t i = 0; i < n; i++) all[i] /= n_steps;
  ts_info(" ");
  if (s.input_raw + s.forward_raw + s.backward_raw > 0)
    ts_info("%-24s %12s %12s", "bytes per step, all ranks", "plain", "sent");
  print_line("ids", s.input_raw, s.input_coded);
  print_line("pooled embeddings", s.forward_raw, s.forward_coded);
  print_line("their gradients", s.backward_raw, s.backward_coded);
  print_saved(&s);
  return TS_OK;
}
