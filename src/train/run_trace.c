/* run_trace.c - the trace of a run. */
#include "train/run_trace.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

/* Ten batches show a pipeline that is under way; more make a file that a
 * viewer is slow with. */
enum { SKIPPED = 10, TRACED = 10 };

ts_err ts_run_trace_open(ts_trace_file *f, const ts_config *c,
                         const ts_trace_request *ask, int64_t next,
                         ts_comm *comm) {
  ts_err err = TS_OK;
  ts_str path = {0};
  int64_t first = 0, end = INT64_MAX;
  if (!ask->path && !*c->run.trace) return TS_OK;
  if (ask->path)
    first = next + SKIPPED, end = first + TRACED;
  else
    TS_TRY(ts_str_append(&path, "%s/%s", c->run.output, c->run.trace));
  if (ask->end > 0) first = ask->first, end = ask->end;
  TS_TRY(ts_trace_file_open(f, ask->path ? ask->path : path.text, first, end,
                            comm));
done:
  ts_str_reset(&path);
  return err;
}

/* Memory of the batches under way, in MB. */
static void count_memory(void) {
  static const ts_tag tags[] = {TS_TAG_ACTIVATIONS, TS_TAG_COMM, TS_TAG_INPUT};
  enum { N = sizeof tags / sizeof *tags };
  const char *names[N];
  double values[N];
  for (int i = 0; i < N; i++) {
    int64_t bytes = 0;
    for (int s = 0; s < TS_SPACE_COUNT; s++)
      bytes += ts_mem_stat_of(tags[i], (ts_space)s).now_bytes;
    names[i] = ts_tag_text(tags[i]);
    values[i] = 1e-6 * (double)bytes;
  }
  ts_trace_counter("memory in flight (MB)", N, names, values);
}

void ts_run_trace_step(int64_t next) {
  ts_trace_train(next);
  if (ts_trace_on()) count_memory();
}

ts_err ts_run_trace_close(ts_trace_file *f, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_str path = {0};
  int64_t n = 0;
  char text[32];
  if (!f->path) return TS_OK;
  TS_TRY(ts_str_append(&path, "%s", f->path));
  TS_TRY(ts_trace_file_close(f, &n, comm));
  if (n > 0)
    ts_info("trace: %s events in %s", ts_str_count(text, n), path.text);
  else
    ts_note("the trace %s is empty: none of its batches was trained",
            path.text);
done:
  ts_str_reset(&path);
  return err;
}
