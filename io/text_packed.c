/* text_packed.c - lines of .gz files: unpacked one after the other. */
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "io/csv_fields.h"
#include "io/text_impl.h"
#include "runtime/progress.h"

/* A line that is longer than LINE_MAX_BYTES packs a disk into a kilobyte. */
enum { LINE_MAX_BYTES = 64 << 20, PIECE_BYTES = 1 << 16 };

/* More of the file; nothing at its end. */
static ts_err refill(ts_text_file *f) {
  int code;
  f->at = 0;
  f->filled = gzread(f->gz, f->piece, PIECE_BYTES);
  const char *why = gzerror(f->gz, &code);
  if (f->filled >= 0 && (code == Z_OK || code == Z_STREAM_END)) {
    if (gztell(f->gz) == f->filled)
      f->at = ts_text_mark_bytes(f->piece, f->filled);
    return TS_OK;
  }
  f->filled = 0;
  return ts_fail(TS_ERR_DATA, "%s: line %lld: %s", f->path,
                 (long long)f->gz_number + 1, why);
}

/* What ends with the next line end, appended to S; *END: there was nothing.
 * BEFORE: bytes of the same line that S has.  It may have any bytes, as in a
 * file that is not packed. */
static ts_err next_end(ts_text_file *f, ts_str *s, size_t before, bool *end) {
  size_t n_bytes = 0;
  for (bool whole = false; !whole;) {
    if (f->at == f->filled) TS_DO(refill(f));
    if (f->at == f->filled) break;
    const char *p = f->piece + f->at, *stop = f->piece + f->filled;
    const char *line_end = memchr(p, '\n', (size_t)(stop - p));
    whole = line_end != NULL;
    const size_t n = (size_t)((whole ? line_end + 1 : stop) - p);
    if (before + (n_bytes += n) > LINE_MAX_BYTES)
      return ts_fail(TS_ERR_DATA, "%s: line %lld is over 64 MiB%s", f->path,
                     (long long)f->gz_number + 1,
                     before ? ": a quote has no end" : "");
    if (s) TS_DO(ts_str_append_bytes(s, p, n));
    f->at += (int32_t)n;
  }
  *end = n_bytes == 0;
  f->gz_number += !*end;
  return TS_OK;
}

/* The next line, with its end, appended to S; *END: there was none.  S may be
 * NULL where there are no quotes. */
static ts_err next_packed(const ts_text *t, ts_text_file *f, ts_str *s,
                          bool *end) {
  const size_t begin = s ? s->n_bytes : 0;
  bool open = false, no_more = false;
  TS_DO(next_end(f, s, 0, end));
  if (t->separator && !*end)
    open = ts_csv_is_open(s->text + begin, s->text + s->n_bytes, t->separator,
                          false);
  while (open && !no_more) {
    const size_t from = s->n_bytes;
    TS_DO(next_end(f, s, from - begin, &no_more));
    open = ts_csv_is_open(s->text + from, s->text + s->n_bytes, t->separator,
                          true);
  }
  f->gz_line += !*end;
  return TS_OK;
}

static void rewind_packed(ts_text_file *f) {
  gzrewind(f->gz);
  f->gz_line = f->gz_number = f->at = f->filled = 0;
}

ts_err ts_text_packed_open(ts_text_file *f) {
  f->gz = gzopen(f->path, "rb");
  if (!f->gz) return ts_fail_errno(TS_ERR_DATA, f->path);
  gzbuffer(f->gz, 1 << 18);
  return ts_mem_alloc(&f->piece, PIECE_BYTES, TS_TAG_INPUT);
}

ts_err ts_text_packed_count(const ts_text *t, ts_text_file *f, ts_comm *comm) {
  ts_err err = TS_OK;
  bool end = false;
  int64_t last = 0;
  ts_str line = {0};
  struct stat st = {0};
  if (stat(f->path, &st) != 0) st.st_size = 0;
  ts_work work =
      ts_work_begin("counting lines of", f->path, (double)st.st_size, NULL);
  if (ts_comm_rank(comm) == 0)
    while (err == TS_OK && !end) {
      if (f->at == f->filled && ts_work_is_due(&work))
        ts_work_at(&work, (double)gzoffset(f->gz));
      line.n_bytes = 0;
      err = next_packed(t, f, &line, &end);
      if (!end && line.n_bytes && *line.text != '\n' && *line.text != '\r')
        last = f->gz_line;
    }
  ts_str_reset(&line);
  TS_DO(ts_agree(comm, err));
  TS_DO(ts_comm_bcast(comm, &last, sizeof last, 0));
  f->n_lines = last;
  f->quoted = t->separator != '\0'; /* as far as is known */
  rewind_packed(f);
  return TS_OK;
}

ts_err ts_text_packed_lines(ts_text *t, ts_text_file *f, int64_t line,
                            int32_t n, ts_lines *out) {
  bool end = false;
  if (f->gz_line > line) rewind_packed(f);
  while (f->gz_line < line && !end) {
    t->lines.n_bytes = 0;
    TS_DO(next_packed(t, f, t->separator ? &t->lines : NULL, &end));
  }
  t->lines.n_bytes = 0;
  out->number = f->gz_number + 1;
  for (int32_t i = 0; i < n && !end; i++)
    TS_DO(next_packed(t, f, &t->lines, &end));
  out->begin = t->lines.text ? t->lines.text : "";
  out->end = out->begin + t->lines.n_bytes;
  out->counted = out->begin;
  return TS_OK;
}

ts_err ts_text_packed_header(const ts_text *t, ts_text_file *f, ts_str *s) {
  bool end;
  TS_DO(next_packed(t, f, s, &end));
  rewind_packed(f);
  return TS_OK;
}
