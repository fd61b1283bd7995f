/* metrics_log.c - metrics.jsonl, and the files that it was before. */
#include "io/metrics_log.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

static const char newest[] = "metrics.jsonl";

/* ---- the files ----------------------------------------------------------- */

/* Bytes of PATH before its last name. */
static int folder_bytes(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (int)(slash + 1 - path) : 0;
}

/* N of "metrics.N.jsonl", 0 of other names. */
static int64_t number_of(const char *name) {
  int64_t n = 0;
  int digits = 0, end = 0;
  if (strncmp(name, "metrics.", 8) != 0) return 0;
  for (; digits < 18 && name[8 + digits] >= '0' && name[8 + digits] <= '9';
       digits++)
    n = 10 * n + (name[8 + digits] - '0');
  end = 8 + digits;
  return name[8] != '0' && !strcmp(name + end, ".jsonl") ? n : 0;
}

/* *OUT is the number next to NUMBER that a file which PATH was before has: the
 * greatest below it or, with ABOVE, the least above it; 0 if there is none. */
static ts_err next_to(int64_t *out, const char *path, int64_t number,
                      bool above) {
  ts_str folder = {0};
  *out = 0;
  if (strcmp(path + folder_bytes(path), newest) != 0) return TS_OK;
  TS_DO(ts_str_append(&folder, "%.*s.", folder_bytes(path), path));
  DIR *d = opendir(folder.text);
  ts_str_reset(&folder);
  if (!d) return errno == ENOENT ? TS_OK : ts_fail_errno(TS_ERR_IO, path);
  for (const struct dirent *e; (e = readdir(d));) {
    const int64_t n = number_of(e->d_name);
    if (n && (above ? n > number : n < number) &&
        (!*out || (above ? n < *out : n > *out)))
      *out = n;
  }
  closedir(d);
  return TS_OK;
}

static ts_err path_of(ts_str *out, const char *path, int64_t number) {
  return ts_str_append(out, "%.*smetrics.%lld.jsonl", folder_bytes(path), path,
                       (long long)number);
}

/* ---- writing ------------------------------------------------------------- */

struct ts_metrics_log {
  FILE *file;
  char *path;
  int64_t number, n_bytes; /* of files that it was; size of the next one */
  int64_t step, n_evaluations;
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

/* The log ends in the open file NAME, at END: this is metrics.jsonl again. */
static ts_err go_on(ts_metrics_log *l, const char *name, long end) {
  if (strcmp(name, l->path) != 0 && ts_file_rename(name, l->path) != 0)
    return ts_fail_errno(TS_ERR_IO, name);
  if (ftruncate(fileno(l->file), end) != 0 ||
      fseek(l->file, end, SEEK_SET) != 0)
    return ts_fail_errno(TS_ERR_IO, l->path);
  return TS_OK;
}

/* From the newest file on: those that begin after STEP go.  Whoever is killed
 * here leaves a log that only lacks some of these lines. */
static ts_err keep_until(ts_metrics_log *l, int64_t step) {
  ts_err err = TS_OK;
  ts_str name = {0};
  TS_TRY(ts_str_append(&name, "%s", l->path));
  for (int64_t number = INT64_MAX, older;; number = older) {
    l->file = ts_file_stream(name.text, "r+");
    if (!l->file && errno != ENOENT)
      TS_THROW(TS_ERR_IO, "%s: %s", name.text, ts_file_why());
    const long end =
        l->file && step > 0 ? kept_bytes(l->file, step, &l->n_evaluations) : 0;
    TS_TRY(next_to(&older, l->path, number, false));
    if (end || !older) {
      if (l->file) TS_TRY(go_on(l, name.text, end));
      break;
    }
    if (l->file) fclose(l->file);
    if (l->file && unlink(name.text) != 0)
      err = ts_fail_errno(TS_ERR_IO, name.text);
    l->file = NULL;
    TS_TRY(err);
    ts_str_reset(&name);
    TS_TRY(path_of(&name, l->path, older));
  }
done:
  ts_str_reset(&name);
  return err;
}

ts_err ts_metrics_log_open(ts_metrics_log **out, const char *path, int64_t step,
                           int64_t n_bytes) {
  ts_err err = TS_OK;
  ts_metrics_log *l = NULL;
  TS_TRY(ts_mem_alloc(&l, sizeof *l, TS_TAG_MISC));
  *l = (ts_metrics_log){.step = step, .n_bytes = n_bytes};
  TS_TRY(ts_mem_strdup(&l->path, path));
  TS_TRY(keep_until(l, step));
  if (!l->file) l->file = ts_file_stream(path, "w");
  if (!l->file) TS_THROW(TS_ERR_IO, "%s: %s", path, ts_file_why());
  TS_TRY(next_to(&l->number, path, INT64_MAX, false));
  *out = l;
done:
  if (err != TS_OK) ts_metrics_log_close(l);
  return err;
}

int64_t ts_metrics_log_evaluations(const ts_metrics_log *l) {
  return l ? l->n_evaluations : 0;
}

/* Between two lines, so that the files are whole at any moment. */
static ts_err rotate(ts_metrics_log *l) {
  ts_err err = TS_OK;
  ts_str name = {0};
  TS_TRY(path_of(&name, l->path, l->number + 1));
  if (ts_file_rename(l->path, name.text) != 0)
    TS_TRY(ts_fail_errno(TS_ERR_IO, name.text));
  l->number++;
  FILE *next = ts_file_stream(l->path, "w");
  if (!next) TS_THROW(TS_ERR_IO, "%s: %s", l->path, ts_file_why());
  fclose(l->file);
  l->file = next;
done:
  ts_str_reset(&name);
  return err;
}

ts_err ts_metrics_log_line(ts_metrics_log *l, const ts_metrics_line *x) {
  if (!l) return TS_OK;
  if (l->n_bytes && x->step > l->step && ftell(l->file) >= l->n_bytes)
    TS_DO(rotate(l));
  if (x->step > l->step) l->step = x->step;
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

/* ---- reading ------------------------------------------------------------- */

/* The newest file is opened before others are looked for: one that gets a
 * number in between is either seen among them, or what is open. */
static ts_err open_next(ts_metrics_reader *r) {
  ts_err err = TS_OK;
  ts_str name = {0};
  int64_t number = 0;
  if (r->file) fclose(r->file);
  r->file = fopen(r->path, "r");
  const int why = r->file ? 0 : errno;
  TS_TRY(next_to(&number, r->path, r->number, true));
  if (number) {
    if (r->file) fclose(r->file);
    TS_TRY(path_of(&name, r->path, number));
    r->file = fopen(name.text, "r");
    if (!r->file) TS_TRY(ts_fail_errno(TS_ERR_DATA, name.text));
    r->number = number;
    goto done;
  }
  r->last = true;
  /* Killed before the newest was there, where there are others. */
  if (!r->file && !(r->number && why == ENOENT))
    TS_THROW(TS_ERR_DATA, "%s: %s", r->path, strerror(why));
done:
  ts_str_reset(&name);
  return err;
}

ts_err ts_metrics_reader_next(ts_metrics_reader *r, json_t **line, bool *end) {
  ssize_t n = -1;
  *line = NULL;
  *end = false;
  while (!r->file || (n = getline(&r->text, &r->room, r->file)) < 0) {
    if (r->file && ferror(r->file)) return ts_fail_errno(TS_ERR_DATA, r->path);
    *end = r->last;
    if (*end) return TS_OK;
    TS_DO(open_next(r));
  }
  *line = json_loadb(r->text, (size_t)n, 0, NULL);
  return TS_OK;
}

void ts_metrics_reader_reset(ts_metrics_reader *r) {
  if (r->file) fclose(r->file);
  free(r->text);
  *r = (ts_metrics_reader){.path = r->path};
}
