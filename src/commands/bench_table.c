/* bench_table.c - records of benchmarks as text and as JSON. */
#include "commands/bench_table.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/comm.h"

enum { LINE_MAX_BYTES = 512 };

static FILE *records; /* JSON goes there; NULL: nowhere */

ts_err ts_bench_open(const ts_args *a) {
  ts_err err = TS_OK;
  if (a->json) ts_log_quiet(true);
  if (ts_mpi_rank() == 0 && a->out) {
    records = ts_file_stream(a->out, "w");
    if (!records) err = ts_fail(TS_ERR_IO, "%s: %s", a->out, ts_file_why());
  } else if (ts_mpi_rank() == 0 && a->json) {
    records = stdout;
  }
  return ts_mpi_agree(err);
}

ts_err ts_bench_close(void) {
  FILE *f = records;
  records = NULL;
  if (f && f != stdout && ts_file_close(f) != 0)
    return ts_fail(TS_ERR_IO, "records can't be written: %s", strerror(errno));
  return TS_OK;
}

/* A field taken apart. */
typedef struct ts_field {
  char key[32], format[96], head[32];
  bool column; /* it has a head */
  /* Text, a value so wide (below 0: to the left), text. */
  int before, width, after;
  char kind;
  const char *tail; /* the text after the value */
} ts_field;

static const char *word(char *to, size_t room, const char *from) {
  const size_t n = strcspn(from, "|}");
  snprintf(to, room, "%.*s", (int)n, from);
  return from + n;
}

/* The field at *AT; false behind the last. */
static bool next(ts_field *f, const char **at) {
  char *end;
  if (**at != '{') return false;
  *f = (ts_field){.tail = ""};
  *at = word(f->key, sizeof f->key, *at + 1);
  *at = word(f->format, sizeof f->format, *at + 1);
  f->column = **at == '|';
  if (f->column) *at = word(f->head, sizeof f->head, *at + 1);
  ++*at;
  const char *p = strchr(f->format, '%');
  f->kind = *f->format;
  if (!p) return true;
  f->before = (int)(p - f->format);
  f->width = (int)strtol(p + 1, &end, 10);
  end += strspn(end, ".0123456789");
  f->kind = *end;
  f->tail = end + 1;
  f->after = (int)strlen(f->tail) - (strstr(f->tail, "%%") != NULL);
  return true;
}

/* TEXT where the value of a column would be. */
static void put_text(char *to, size_t room, const ts_field *f,
                     const char *text) {
  const int more = f->width < 0 ? -f->after : f->after;
  snprintf(to, room, "%*s%*s", f->before, "", f->width + more, text);
}

void ts_bench_heads(const ts_bench_table *t) {
  char line[2][LINE_MAX_BYTES] = {"", ""};
  bool two = false;
  ts_field f;
  for (const char *at = t->fields; next(&f, &at);) {
    char *lower = strchr(f.head, '\n');
    if (!f.column) continue;
    if (lower) *lower = '\0', two = true;
    const char *const texts[] = {lower ? f.head : "",
                                 lower ? lower + 1 : f.head};
    for (int k = 0; k < 2; k++) {
      const size_t n = strlen(line[k]);
      put_text(line[k] + n, sizeof line[k] - n, &f, texts[k]);
    }
  }
  if (two) ts_info("%s", line[0]);
  ts_info("%s", line[1]);
}

/* Adds one value to the line and to JSON. */
static void add(char *to, size_t room, json_t *json, const ts_field *f,
                va_list *args) {
  const char *text = f->kind == 's' ? va_arg(*args, const char *) : NULL;
  const double x = f->kind == 's' ? NAN : va_arg(*args, double);
  char buf[32];
  if (json && *f->key)
    json_object_set_new(json, f->key,
                        text ? ts_json_text(text) : ts_json_number(x));
  if (!strchr(f->format, '%')) return;
  if (!text && isnan(x)) {
    if (f->column) put_text(to, room, f, "-");
  } else if (f->kind == 'C' || f->kind == 'B') {
    snprintf(to, room, "%.*s%*s%s", f->before, f->format, f->width,
             f->kind == 'C' ? ts_str_count(buf, (int64_t)x)
                            : ts_str_bytes(buf, (int64_t)x),
             f->tail);
  } else if (text) {
    snprintf(to, room, f->format, text);
  } else {
    snprintf(to, room, f->format, x);
  }
}

void ts_bench_print(const ts_bench_table *t, ...) {
  char line[LINE_MAX_BYTES] = "";
  json_t *json = records ? json_pack("{s:s}", "table", t->name) : NULL;
  va_list args;
  ts_field f;
  va_start(args, t);
  for (const char *at = t->fields; next(&f, &at);) {
    const size_t n = strlen(line);
    add(line + n, sizeof line - n, json, &f, &args);
  }
  va_end(args);
  ts_progress("%s", line);
  if (!json) return;
  (void)ts_json_put(records, json, 9);
  fputc('\n', records);
  fflush(records);
}
