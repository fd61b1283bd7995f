/* err.c - the calling thread's error record. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local ts_err_record record;

static const struct {
  int exit_code;
  const char *name;
} list[] = {
#define ROW(name, code, text) {code, text},
    TS_ERR_LIST(ROW)
#undef ROW
};

int ts_err_exit_code(ts_err err) {
  return err < TS_ERR_COUNT ? list[err].exit_code : 1;
}

const char *ts_err_name(ts_err err) {
  return err < TS_ERR_COUNT ? list[err].name : "unknown error";
}

ts_err ts_err_fail(const char *file, int line, ts_err code, const char *fmt,
                   ...) {
  if (record.code == TS_OK) {
    va_list args;
    record.code = code;
    record.file = file;
    record.line = line;
    va_start(args, fmt);
    vsnprintf(record.text, sizeof record.text, fmt, args);
    va_end(args);
  }
  return code;
}

const char *ts_err_message(void) {
  return record.text;
}

int ts_err_agreed(void) {
  return record.agreed;
}

int ts_err_is_own(ts_err err) {
  return (err == TS_ERR_NOMEM || err == TS_ERR_COMM || err == TS_ERR_IO ||
          err == TS_ERR_INTERNAL) &&
         !record.agreed;
}

void ts_err_take(ts_err_record *out) {
  *out = record;
  ts_err_clear();
}

void ts_err_put(const ts_err_record *in) {
  if (record.code == TS_OK) record = *in;
}

void ts_err_clear(void) {
  memset(&record, 0, sizeof record);
}
