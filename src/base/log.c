/* log.c - the log on stdout and in a file. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/file.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *file;
static int own_rank, quiet_stdout, aside;

void ts_log_rank(int rank) {
  own_rank = rank;
}

ts_err ts_log_open(const char *path) {
  if (own_rank != 0) return TS_OK;
  ts_log_close();
  file = ts_file_stream(path, "a");
  if (!file) return ts_fail(TS_ERR_IO, "log %s: %s", path, ts_file_why());
  return TS_OK;
}

void ts_log_close(void) {
  pthread_mutex_lock(&lock);
  if (file) fclose(file);
  file = NULL;
  pthread_mutex_unlock(&lock);
}

void ts_log_quiet(int quiet) {
  quiet_stdout = quiet;
}

void ts_log_aside(void) {
  aside = 1;
}

static void put(FILE *f, const char *head, const char *fmt, va_list args) {
  fputs(head, f);
  vfprintf(f, fmt, args);
  fputc('\n', f);
}

static void print(const char *head, int flush, const char *fmt, va_list args) {
  va_list again;
  FILE *out = aside ? stderr : stdout;
  if (own_rank != 0) return;
  pthread_mutex_lock(&lock);
  va_copy(again, args);
  if (!quiet_stdout) put(out, head, fmt, args);
  if (file) put(file, head, fmt, again);
  va_end(again);
  if (flush && !quiet_stdout) fflush(out);
  if (flush && file) fflush(file);
  pthread_mutex_unlock(&lock);
}

#define PRINT(head, flush)                                                     \
  do {                                                                         \
    va_list args;                                                              \
    va_start(args, fmt);                                                       \
    print(head, flush, fmt, args);                                             \
    va_end(args);                                                              \
  } while (0)

void ts_info(const char *fmt, ...) {
  PRINT("", 0);
}
void ts_note(const char *fmt, ...) {
  PRINT("NOTE: ", 1);
}
void ts_warn(const char *fmt, ...) {
  PRINT("WARNING: ", 1);
}
void ts_progress(const char *fmt, ...) {
  PRINT("", 1);
}

void ts_log_error(const char *text) {
  pthread_mutex_lock(&lock);
  fflush(stdout);
  fprintf(stderr, "tessera: error: %s\n", text);
  fflush(stderr);
  if (file) {
    fprintf(file, "error: %s\n", text);
    fflush(file);
  }
  pthread_mutex_unlock(&lock);
}
