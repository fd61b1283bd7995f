/* text.c - numbered lines of plain and packed text files. */
#include "io/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

/* A line that is longer than LINE_MAX_BYTES packs a disk into a kilobyte. */
enum { EVERY = 1024, LINE_MAX_BYTES = 64 << 20, PIECE_BYTES = 1 << 16 };

typedef struct ts_text_file {
  char *path;
  const char *map;        /* NULL: packed */
  int64_t bytes, mapped;  /* without and with blank lines at the end */
  int64_t n_lines, first; /* of data; first in the whole */
  int64_t *index;         /* byte of every EVERY-th line of the file */
  gzFile gz;
  int64_t gz_line; /* next line of the file */
  char *piece;     /* (PIECE_BYTES) unpacked, of it [at, filled) unread */
  int32_t at, filled;
} ts_text_file;

struct ts_text {
  ts_text_file *files;
  int32_t n_files;
  int header; /* 0 or 1 lines */
  ts_str first_line;
  ts_str lines; /* unpacked */
};

/* ---- plain files --------------------------------------------------------- */

static ts_err map_file(ts_text_file *f) {
  ts_err err = TS_OK;
  struct stat st;
  const int fd = ts_file_open(f->path, O_RDONLY);
  if (fd < 0) return ts_fail_errno(TS_ERR_DATA, f->path);
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
    TS_THROW(TS_ERR_DATA, "%s: is not a file", f->path);
  f->bytes = f->mapped = st.st_size;
  f->map = "";
  if (f->bytes) {
    void *map = mmap(NULL, (size_t)f->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) TS_TRY(ts_fail_errno(TS_ERR_DATA, f->path));
    f->map = map;
  }
  /* Blank lines at the end are none. */
  while (f->bytes &&
         (f->map[f->bytes - 1] == '\n' || f->map[f->bytes - 1] == '\r'))
    f->bytes--;
done:
  close(fd);
  return err;
}

/* Line starts in (from, to]: their number, and with INDEX their places where
 * NUMBER, that of the first one, says so. */
static int64_t scan(const ts_text_file *f, int64_t from, int64_t to,
                    int64_t number, int64_t *index) {
  int64_t n = 0;
  const char *p = f->map + from, *end = f->map + to;
  while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
    p++;
    if (index && (number + n) % EVERY == 0)
      index[(number + n) / EVERY] = p - f->map;
    n++;
  }
  return n;
}

/* Each rank scans its share of the bytes. */
static ts_err index_plain(ts_text_file *f, ts_comm *comm) {
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int64_t from = f->bytes * me / w, to = f->bytes * (me + 1) / w;
  int64_t own = scan(f, from, to, 0, NULL), counts[w], before = 1;
  TS_DO(ts_comm_gather_all(comm, counts, &own, sizeof own));
  f->n_lines = f->bytes > 0;
  for (int r = 0; r < w; r++) {
    if (r < me) before += counts[r];
    f->n_lines += counts[r];
  }
  const int64_t n = f->n_lines / EVERY + 1;
  TS_DO(ts_mem_many(f->index, n, INPUT));
  scan(f, from, to, before, f->index);
  return ts_comm_sum_i64(comm, f->index, n);
}

/* Skips N lines from P. */
static const char *skip(const char *p, const char *end, int64_t n) {
  while (n-- > 0 && p < end) {
    p = memchr(p, '\n', (size_t)(end - p));
    p = p ? p + 1 : end;
  }
  return p;
}

static const char *seek_plain(const ts_text_file *f, int64_t line) {
  return skip(f->map + f->index[line / EVERY], f->map + f->bytes, line % EVERY);
}

/* ---- packed files -------------------------------------------------------- */

/* More of the file; nothing at its end. */
static ts_err refill(ts_text_file *f) {
  int code;
  f->at = 0;
  f->filled = gzread(f->gz, f->piece, PIECE_BYTES);
  const char *why = gzerror(f->gz, &code);
  if (f->filled >= 0 && (code == Z_OK || code == Z_STREAM_END)) return TS_OK;
  f->filled = 0;
  return ts_fail(TS_ERR_DATA, "%s: line %lld: %s", f->path,
                 (long long)f->gz_line + 1, why);
}

/* The next line, with its end, appended to S; *END: there was none.  It may
 * have any bytes, as in a file that is not packed. */
static ts_err next_packed(ts_text_file *f, ts_str *s, bool *end) {
  size_t n_bytes = 0;
  for (bool whole = false; !whole;) {
    if (f->at == f->filled) TS_DO(refill(f));
    if (f->at == f->filled) break;
    const char *p = f->piece + f->at, *stop = f->piece + f->filled;
    const char *line_end = memchr(p, '\n', (size_t)(stop - p));
    whole = line_end != NULL;
    const size_t n = (size_t)((whole ? line_end + 1 : stop) - p);
    if ((n_bytes += n) > LINE_MAX_BYTES)
      return ts_fail(TS_ERR_DATA, "%s: line %lld is over 64 MiB", f->path,
                     (long long)f->gz_line + 1);
    if (s) TS_DO(ts_str_append_bytes(s, p, n));
    f->at += (int32_t)n;
  }
  *end = n_bytes == 0;
  f->gz_line += !*end;
  return TS_OK;
}

static void rewind_packed(ts_text_file *f) {
  gzrewind(f->gz);
  f->gz_line = f->at = f->filled = 0;
}

static ts_err open_packed(ts_text_file *f) {
  f->gz = gzopen(f->path, "rb");
  if (!f->gz) return ts_fail_errno(TS_ERR_DATA, f->path);
  gzbuffer(f->gz, 1 << 18);
  return ts_mem_alloc(&f->piece, PIECE_BYTES, TS_TAG_INPUT);
}

static ts_err count_packed(ts_text_file *f, ts_comm *comm) {
  ts_err err = TS_OK;
  bool end = false;
  int64_t last = 0;
  ts_str line = {0};
  if (ts_comm_rank(comm) == 0)
    while (err == TS_OK && !end) {
      line.n_bytes = 0;
      err = next_packed(f, &line, &end);
      if (!end && line.n_bytes && *line.text != '\n' && *line.text != '\r')
        last = f->gz_line;
    }
  ts_str_reset(&line);
  TS_DO(ts_agree(comm, err));
  TS_DO(ts_comm_bcast(comm, &last, sizeof last, 0));
  f->n_lines = last;
  rewind_packed(f);
  return TS_OK;
}

static ts_err lines_packed(ts_text *t, ts_text_file *f, int64_t line, int32_t n,
                           ts_lines *out) {
  bool end = false;
  if (f->gz_line > line) rewind_packed(f);
  while (f->gz_line < line && !end) TS_DO(next_packed(f, NULL, &end));
  t->lines.n_bytes = 0;
  for (int32_t i = 0; i < n && !end; i++)
    TS_DO(next_packed(f, &t->lines, &end));
  out->begin = t->lines.text ? t->lines.text : "";
  out->end = out->begin + t->lines.n_bytes;
  return TS_OK;
}

/* ---- all ----------------------------------------------------------------- */

static ts_err open_local(ts_text_file *f, const char *path) {
  TS_DO(ts_mem_strdup(&f->path, path));
  return ts_str_ends(path, ".gz") ? open_packed(f) : map_file(f);
}

/* F's first line without its end, appended to S. */
static ts_err take_header(ts_text_file *f, ts_str *s) {
  bool end;
  if (f->gz) {
    TS_DO(next_packed(f, s, &end));
    rewind_packed(f);
  } else {
    const char *stop = skip(f->map, f->map + f->bytes, 1);
    TS_DO(ts_str_append_bytes(s, f->map, (size_t)(stop - f->map)));
  }
  while (s->n_bytes && strchr("\r\n", s->text[s->n_bytes - 1]))
    s->text[--s->n_bytes] = '\0';
  return TS_OK;
}

/* The first file's header is the one that columns are found in; the other files
 * must have the same. */
static ts_err take_headers(ts_text *t) {
  ts_err err = TS_OK;
  ts_str line = {0};
  TS_TRY(take_header(&t->files[0], &t->first_line));
  for (int32_t i = 1; i < t->n_files; i++) {
    ts_text_file *f = &t->files[i];
    line.n_bytes = 0;
    if (f->n_lines) TS_TRY(take_header(f, &line));
    if (f->n_lines && strcmp(line.text, t->first_line.text) != 0)
      TS_THROW(TS_ERR_DATA, "%s: its header is not that of %s: %.200s", f->path,
               t->files[0].path, line.text);
  }
done:
  ts_str_reset(&line);
  return err;
}

ts_err ts_text_open(ts_text **out, const ts_strings *paths, bool header,
                    ts_comm *comm) {
  ts_err err = TS_OK;
  ts_text *t = NULL;
  int64_t total = 0;
  TS_TRY(ts_mem_alloc(&t, sizeof *t, TS_TAG_INPUT));
  t->header = header;
  TS_TRY(ts_mem_many(t->files, paths->n, INPUT));
  for (int32_t i = 0; i < paths->n; i++) {
    ts_text_file *f = &t->files[t->n_files++];
    TS_TRY(ts_agree(comm, open_local(f, paths->item[i])));
    TS_TRY(f->gz ? count_packed(f, comm) : index_plain(f, comm));
    f->n_lines = f->n_lines > t->header ? f->n_lines - t->header : 0;
    f->first = total;
    total += f->n_lines;
  }
  if (header) TS_TRY(ts_agree(comm, take_headers(t)));
  *out = t;
done:
  if (err != TS_OK) ts_text_close(t);
  return err;
}

void ts_text_close(ts_text *t) {
  if (!t) return;
  for (int32_t i = 0; i < t->n_files; i++) {
    ts_text_file *f = &t->files[i];
    if (f->gz) gzclose(f->gz);
    if (f->map && f->mapped) munmap((void *)f->map, (size_t)f->mapped);
    ts_mem_free_all(f->index, f->piece, f->path);
  }
  ts_mem_free(t->files);
  ts_str_reset(&t->first_line);
  ts_str_reset(&t->lines);
  ts_mem_free(t);
}

int64_t ts_text_n_lines(const ts_text *t) {
  const ts_text_file *f = t->n_files ? &t->files[t->n_files - 1] : NULL;
  return f ? f->first + f->n_lines : 0;
}

const char *ts_text_header(const ts_text *t) {
  return t->first_line.text ? t->first_line.text : "";
}

ts_err ts_text_lines(ts_text *t, ts_lines *out, int64_t first, int32_t *n) {
  ts_text_file *f = t->files;
  while (first >= f->first + f->n_lines) f++;
  const int64_t line = first - f->first + t->header;
  const int64_t left = f->first + f->n_lines - first;
  if (*n > left) *n = (int32_t)left;
  out->path = f->path;
  out->number = line + 1;
  if (f->gz) return lines_packed(t, f, line, *n, out);
  out->begin = seek_plain(f, line);
  out->end = skip(out->begin, f->map + f->bytes, *n);
  return TS_OK;
}
