/* metrics_log.c - metrics.jsonl. */
#include "io/metrics_log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

struct ts_metrics_log {
  FILE *file;
  char *path;
  int64_t n_evaluations;
};

/* Bytes of the leading lines whose step is at most STEP; *N: of STEP's
 * evaluations. */
static long kept_bytes(FILE *f, int64_t step, int64_t *n) {
  char line[4096];
  long end = 0, long_step;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "{\"step\":%ld", &long_step) != 1 || long_step > step ||
        !strchr(line, '\n'))
      break;
    *n += long_step == step && strstr(line, ",\"eval\":true");
    end = ftell(f);
  }
  return end;
}

ts_err ts_metrics_log_open(ts_metrics_log **out, const char *path,
                           int64_t step) {
  ts_err err = TS_OK;
  ts_metrics_log *l = NULL;
  TS_TRY(ts_mem_alloc(&l, sizeof *l, TS_TAG_MISC));
  TS_TRY(ts_mem_strdup(&l->path, path));
  if (step > 0) l->file = ts_file_stream(path, "r+");
  const bool goes_on = l->file;
  if (!l->file && (step <= 0 || errno == ENOENT))
    l->file = ts_file_stream(path, "w");
  if (!l->file) TS_THROW(TS_ERR_IO, "%s: %s", path, ts_file_why());
  if (goes_on) {
    const long end = kept_bytes(l->file, step, &l->n_evaluations);
    if (ftruncate(fileno(l->file), end) != 0 ||
        fseek(l->file, end, SEEK_SET) != 0)
      TS_THROW(TS_ERR_IO, "%s: %s", path, strerror(errno));
  }
  *out = l;
  l = NULL;
done:
  ts_metrics_log_close(l);
  return err;
}

int64_t ts_metrics_log_evaluations(const ts_metrics_log *l) {
  return l ? l->n_evaluations : 0;
}

/* The rest of a line that has begun. */
static ts_err end_line(ts_metrics_log *l, int n, const char *const *names,
                       const double *values) {
  for (int i = 0; i < n; i++)
    if (isfinite(values[i]))
      fprintf(l->file, ",\"%s\":%.9g", names[i], values[i]);
  fprintf(l->file, "}\n");
  if (ts_file_flush(l->file) != 0)
    return ts_fail(TS_ERR_IO, "%s: %s", l->path, strerror(errno));
  return TS_OK;
}

ts_err ts_metrics_log_line(ts_metrics_log *l, int64_t step, int eval,
                           const char *task, int n, const char *const *names,
                           const double *values) {
  if (!l) return TS_OK;
  fprintf(l->file, "{\"step\":%lld", (long long)step);
  if (eval) fprintf(l->file, ",\"eval\":true");
  if (task) fprintf(l->file, ",\"task\":\"%s\"", task);
  return end_line(l, n, names, values);
}

ts_err ts_metrics_log_table(ts_metrics_log *l, int64_t step, const char *table,
                            int n, const char *const *names,
                            const double *values) {
  if (!l) return TS_OK;
  fprintf(l->file, "{\"step\":%lld,\"table\":\"%s\"", (long long)step, table);
  return end_line(l, n, names, values);
}

ts_err ts_metrics_log_event(ts_metrics_log *l, int64_t step, const char *event,
                            int n, const char *const *names,
                            const double *values) {
  if (!l) return TS_OK;
  fprintf(l->file, "{\"step\":%lld,\"%s\":true", (long long)step, event);
  return end_line(l, n, names, values);
}

void ts_metrics_log_close(ts_metrics_log *l) {
  if (!l) return;
  if (l->file) fclose(l->file);
  ts_mem_free(l->path);
  ts_mem_free(l);
}
