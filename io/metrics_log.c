/* metrics_log.c - metrics.jsonl. */
#include "io/metrics_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

struct ts_metrics_log {
  FILE *file;
  char *path;
  int64_t n_evaluations;
};

/* Bytes of the leading lines whose step is at most STEP; *N: of STEP's
 * evaluations. */
static long kept_bytes(FILE *f, int64_t step, int64_t *n) {
  char *text = NULL; /* getline's */
  size_t room = 0;
  long end = 0;
  for (ssize_t k; (k = getline(&text, &room, f)) > 0; end = ftell(f)) {
    json_t *line =
        text[k - 1] == '\n' ? json_loadb(text, (size_t)k, 0, NULL) : NULL;
    const json_t *at = json_object_get(line, "step");
    const bool keep = at && json_integer_value(at) <= step;
    *n += keep && json_integer_value(at) == step &&
          json_is_true(json_object_get(line, "eval"));
    json_decref(line);
    if (!keep) break;
  }
  free(text);
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
      TS_TRY(ts_fail_errno(TS_ERR_IO, path));
  }
  *out = l;
done:
  if (err != TS_OK) ts_metrics_log_close(l);
  return err;
}

int64_t ts_metrics_log_evaluations(const ts_metrics_log *l) {
  return l ? l->n_evaluations : 0;
}

ts_err ts_metrics_log_line(ts_metrics_log *l, const ts_metrics_line *x) {
  if (!l) return TS_OK;
  json_t *line = json_pack("{s:I}", "step", (json_int_t)x->step);
  if (x->event) json_object_set_new(line, x->event, json_true());
  if (x->task) json_object_set_new(line, "task", ts_json_text(x->task));
  if (x->table) json_object_set_new(line, "table", ts_json_text(x->table));
  ts_json_numbers(line, x->n, x->names, x->values);
  TS_DO(ts_json_put(l->file, line, 9));
  fputc('\n', l->file);
  if (ts_file_flush(l->file) != 0) return ts_fail_errno(TS_ERR_IO, l->path);
  return TS_OK;
}

void ts_metrics_log_close(ts_metrics_log *l) {
  if (!l) return;
  if (l->file) fclose(l->file);
  ts_mem_free_all(l->path, l);
}
