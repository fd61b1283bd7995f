/* report_memory.c - memory of a rank: what batches under way take, predicted
 * before the first step and measured at the end, and the peaks of everything
 * by tag. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/topology.h"
#include "train/report.h"

ts_err ts_report_in_flight(ts_trainer *t) {
  ts_err err = TS_OK;
  ts_str line = {0};
  char buf[32];
  int64_t all = 0;
  for (int k = 0; k < TS_TAG_COUNT; k++) {
    t->in_flight[k] = ts_mem_flight_of((ts_tag)k).planned.now_bytes;
    all += t->in_flight[k];
  }
  TS_TRY(ts_comm_max_i64(t->control, t->in_flight, TS_TAG_COUNT));
  TS_TRY(ts_comm_max_i64(t->control, &all, 1));
  for (int k = 0; k < TS_TAG_COUNT; k++)
    if (t->in_flight[k])
      TS_TRY(ts_str_append(&line, "%s%s %s", line.text ? ", " : "",
                           ts_tag_text((ts_tag)k),
                           ts_str_bytes(buf, t->in_flight[k])));
  ts_info("memory in flight predicted: %s (%s); the most of a rank",
          ts_str_bytes(buf, all), line.text ? line.text : "none");
done:
  ts_str_reset(&line);
  return err;
}

/* Buffers that the prediction was too small for, over all ranks. */
static ts_err note_grown(ts_trainer *t) {
  int64_t n[TS_TAG_COUNT][2];
  char buf[32];
  for (int k = 0; k < TS_TAG_COUNT; k++) {
    const ts_ebc_batch_mem m = ts_mem_flight_of((ts_tag)k);
    n[k][0] = m.n_grown;
    n[k][1] = m.grown_bytes;
  }
  TS_DO(ts_comm_sum_i64(t->control, &n[0][0], 2 * TS_TAG_COUNT));
  for (int k = 0; k < TS_TAG_COUNT; k++)
    if (n[k][0])
      ts_note("%s: buffers grew %lld times beyond what was predicted, by %s "
              "over all ranks",
              ts_tag_text((ts_tag)k), (long long)n[k][0],
              ts_str_bytes(buf, n[k][1]));
  return TS_OK;
}

static ts_err print_in_flight(ts_trainer *t) {
  char predicted[32], alloc[32], reserved[32];
  int64_t n[TS_TAG_COUNT][2];
  for (int k = 0; k < TS_TAG_COUNT; k++) {
    const ts_ebc_batch_mem m = ts_mem_flight_of((ts_tag)k);
    n[k][0] = m.used.peak_bytes;
    n[k][1] = m.held.peak_bytes;
  }
  TS_DO(ts_comm_max_i64(t->control, &n[0][0], 2 * TS_TAG_COUNT));
  ts_info(" ");
  ts_info("%-24s %12s %12s %12s", "memory in flight", "predicted", "alloc",
          "reserved");
  for (int k = 0; k < TS_TAG_COUNT; k++)
    if (n[k][1])
      ts_info("%-24s %12s %12s %12s", ts_tag_text((ts_tag)k),
              ts_str_bytes(predicted, t->in_flight[k]),
              ts_str_bytes(alloc, n[k][0]), ts_str_bytes(reserved, n[k][1]));
  return note_grown(t);
}

/* Peaks of what lies in SPACE, by tag, and of their sum. */
static ts_err print_peaks(ts_trainer *t, ts_space space, const char *title) {
  char buf[32];
  int64_t peak[TS_TAG_COUNT + 1];
  for (int k = 0; k < TS_TAG_COUNT; k++)
    peak[k] = ts_mem_stat_of((ts_tag)k, space).peak_bytes;
  peak[TS_TAG_COUNT] = ts_mem_total(space).peak_bytes;
  TS_DO(ts_comm_max_i64(t->control, peak, TS_TAG_COUNT + 1));
  if (!peak[TS_TAG_COUNT]) return TS_OK;
  ts_info(" ");
  ts_info("%-24s %12s", title, "max");
  for (int k = 0; k < TS_TAG_COUNT; k++)
    if (peak[k] >= 1 << 20)
      ts_info("%-24s %12s", ts_tag_text((ts_tag)k), ts_str_bytes(buf, peak[k]));
  ts_info("%-24s %12s", "all of these at once",
          ts_str_bytes(buf, peak[TS_TAG_COUNT]));
  return TS_OK;
}

/* The system's count of the process's memory. */
static ts_err print_process(ts_trainer *t) {
  char buf[32];
  int64_t peak[] = {ts_mem_mapped().peak_bytes, ts_peak_rss_bytes()};
  TS_DO(ts_comm_max_i64(t->control, peak, 2));
  ts_info("%-24s %12s", "mapped for them", ts_str_bytes(buf, peak[0]));
  ts_info("%-24s %12s", "process (resident)", ts_str_bytes(buf, peak[1]));
  return TS_OK;
}

ts_err ts_report_memory(ts_trainer *t) {
  TS_DO(print_in_flight(t));
  TS_DO(print_peaks(t, TS_SPACE_HOST, "peak memory of a rank"));
  TS_DO(print_process(t));
  if (!ts_device_is_discrete(t->device)) return TS_OK;
  TS_DO(print_peaks(t, TS_SPACE_DEVICE, "peak on a rank's GPU"));
  return print_peaks(t, TS_SPACE_PINNED, "peak of locked pages");
}
