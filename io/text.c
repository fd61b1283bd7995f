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
#include "io/csv_fields.h"

/* A line that is longer than LINE_MAX_BYTES packs a disk into a kilobyte. */
enum { LINE_MAX_BYTES = 64 << 20, PIECE_BYTES = 1 << 16 };
enum { EVERY = 32, PLACES = 1 << 22 };

typedef struct ts_text_file {
  char *path;
  const char *map;        /* NULL: packed */
  int64_t bytes, mapped;  /* without and with blank lines at the end */
  int64_t n_lines, first; /* of data; first in the whole */
  int64_t every, *index;  /* byte of each EVERY-th line */
  bool quoted;            /* it has quotes: line ends may be none */
  gzFile gz;
  int64_t gz_line;   /* next line of the file */
  int64_t gz_number; /* line ends before it, those in quotes, too */
  char *piece;       /* (PIECE_BYTES) unpacked, of it [at, filled) unread */
  int32_t at, filled;
} ts_text_file;

struct ts_text {
  ts_text_file *files;
  int32_t n_files;
  int header;     /* 0 or 1 lines */
  char separator; /* '\0': no quotes */
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

/* Of a byte order mark at the text's start. */
static int mark_bytes(const char *p, int64_t n) {
  return n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0;
}

/* Line starts in (from, to]: their number, and with INDEX their places where
 * NUMBER, that of the first one, says so.  *OPEN: a quote is open at FROM, and
 * then at TO; NULL: there are none. */
static int64_t scan(const ts_text *t, const ts_text_file *f, int64_t from,
                    int64_t to, bool *open, int64_t number, int64_t *index) {
  int64_t n = 0;
  const char *p = f->map + from, *end = f->map + to, *line = p;
  while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
    if (open) *open = ts_csv_is_open(line, p, t->separator, *open);
    line = ++p;
    if (open && *open) continue;
    if (index && (number + n) % f->every == 0)
      index[(number + n) / f->every] = p - f->map;
    n++;
  }
  return n;
}

/* What a rank's share of the bytes says: line starts, and whether a quote is
 * open behind it, by whether one was open before it. */
typedef struct ts_share {
  int64_t n[2];
  bool open[2], quoted;
} ts_share;

static ts_share look_at_share(const ts_text *t, const ts_text_file *f,
                              int64_t from, int64_t to) {
  ts_share s = {.open = {false, true}};
  s.quoted =
      t->separator && memchr(f->map + from, '"', (size_t)(to - from)) != NULL;
  const bool first = from <= mark_bytes(f->map, f->bytes); /* none is open */
  for (int k = 0; k < 1 + (s.quoted && !first); k++)
    s.n[k] = scan(t, f, from, to, s.quoted ? &s.open[k] : NULL, 0, NULL);
  return s;
}

/* The first line that begins at byte AT or behind it: quotes can be told there.
 */
static int64_t line_from(const ts_text_file *f, int64_t at) {
  if (at == 0) return mark_bytes(f->map, f->bytes);
  const char *p = memchr(f->map + at - 1, '\n', (size_t)(f->bytes - at + 1));
  return p ? p + 1 - f->map : f->bytes;
}

/* Each rank scans its share of the bytes. */
static ts_err index_plain(const ts_text *t, ts_text_file *f, ts_comm *comm) {
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int64_t from = line_from(f, f->bytes * me / w),
                to = line_from(f, f->bytes * (me + 1) / w);
  ts_share own = look_at_share(t, f, from, to), all[w];
  int64_t before = 1;
  bool open = false, open_here = false;
  TS_DO(ts_comm_gather_all(comm, all, &own, sizeof own));
  f->n_lines = f->bytes > 0;
  for (int r = 0; r < w; r++) {
    if (r < me) before += all[r].n[open];
    f->n_lines += all[r].n[open];
    f->quoted |= all[r].quoted;
    open = all[r].open[open];
    if (r + 1 == me) open_here = open;
  }
  for (f->every = EVERY; f->n_lines / f->every > PLACES;) f->every *= 2;
  const int64_t n = f->n_lines / f->every + 1;
  TS_DO(ts_mem_many(f->index, n, INPUT));
  scan(t, f, from, to, f->quoted ? &open_here : NULL, before, f->index);
  TS_DO(ts_comm_sum_i64(comm, f->index, n));
  f->index[0] = mark_bytes(f->map, f->bytes);
  return TS_OK;
}

/* Skips N lines from P. */
static const char *skip(const ts_text *t, const ts_text_file *f, const char *p,
                        int64_t n) {
  const char *end = f->map + f->bytes;
  while (n-- > 0 && p < end) {
    p = f->quoted ? ts_csv_record_end(p, end, t->separator)
                  : memchr(p, '\n', (size_t)(end - p));
    p = p ? p + 1 : end;
  }
  return p;
}

static const char *seek_plain(const ts_text *t, const ts_text_file *f,
                              int64_t line) {
  return skip(t, f, f->map + f->index[line / f->every], line % f->every);
}

/* ---- packed files -------------------------------------------------------- */

/* More of the file; nothing at its end. */
static ts_err refill(ts_text_file *f) {
  int code;
  f->at = 0;
  f->filled = gzread(f->gz, f->piece, PIECE_BYTES);
  const char *why = gzerror(f->gz, &code);
  if (f->filled >= 0 && (code == Z_OK || code == Z_STREAM_END)) {
    if (gztell(f->gz) == f->filled) f->at = mark_bytes(f->piece, f->filled);
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

static ts_err open_packed(ts_text_file *f) {
  f->gz = gzopen(f->path, "rb");
  if (!f->gz) return ts_fail_errno(TS_ERR_DATA, f->path);
  gzbuffer(f->gz, 1 << 18);
  return ts_mem_alloc(&f->piece, PIECE_BYTES, TS_TAG_INPUT);
}

static ts_err count_packed(const ts_text *t, ts_text_file *f, ts_comm *comm) {
  ts_err err = TS_OK;
  bool end = false;
  int64_t last = 0;
  ts_str line = {0};
  if (ts_comm_rank(comm) == 0)
    while (err == TS_OK && !end) {
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

static ts_err lines_packed(ts_text *t, ts_text_file *f, int64_t line, int32_t n,
                           ts_lines *out) {
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

/* ---- all ----------------------------------------------------------------- */

static ts_err open_local(ts_text_file *f, const char *path) {
  TS_DO(ts_mem_strdup(&f->path, path));
  return ts_str_ends(path, ".gz") ? open_packed(f) : map_file(f);
}

/* F's first line without its end, appended to S. */
static ts_err take_header(const ts_text *t, ts_text_file *f, ts_str *s) {
  bool end;
  if (f->gz) {
    TS_DO(next_packed(t, f, s, &end));
    rewind_packed(f);
  } else {
    const char *begin = seek_plain(t, f, 0), *stop = skip(t, f, begin, 1);
    TS_DO(ts_str_append_bytes(s, begin, (size_t)(stop - begin)));
  }
  if (s->n_bytes > 1 &&
      (!memcmp(s->text, "\xff\xfe", 2) || !memcmp(s->text, "\xfe\xff", 2)))
    return ts_fail(TS_ERR_DATA,
                   "%s: is UTF-16; iconv -f UTF-16 -t UTF-8 makes it a text "
                   "that is read here",
                   f->path);
  while (s->n_bytes && strchr("\r\n", s->text[s->n_bytes - 1]))
    s->text[--s->n_bytes] = '\0';
  return TS_OK;
}

/* The first file's header is the one that columns are found in; the other files
 * must have the same. */
static ts_err take_headers(ts_text *t) {
  ts_err err = TS_OK;
  ts_str line = {0};
  TS_TRY(take_header(t, &t->files[0], &t->first_line));
  for (int32_t i = 1; i < t->n_files; i++) {
    ts_text_file *f = &t->files[i];
    line.n_bytes = 0;
    if (f->n_lines) TS_TRY(take_header(t, f, &line));
    if (f->n_lines && strcmp(line.text, t->first_line.text) != 0)
      TS_THROW(TS_ERR_DATA, "%s: its header is not that of %s: %.200s", f->path,
               t->files[0].path, line.text);
  }
done:
  ts_str_reset(&line);
  return err;
}

ts_err ts_text_open(ts_text **out, const ts_strings *paths, char separator,
                    ts_comm *comm) {
  ts_err err = TS_OK;
  ts_text *t = NULL;
  int64_t total = 0;
  TS_TRY(ts_mem_alloc(&t, sizeof *t, TS_TAG_INPUT));
  t->header = separator != '\0';
  t->separator = separator;
  TS_TRY(ts_mem_many(t->files, paths->n, INPUT));
  for (int32_t i = 0; i < paths->n; i++) {
    ts_text_file *f = &t->files[t->n_files++];
    TS_TRY(ts_agree(comm, open_local(f, paths->item[i])));
    TS_TRY(f->gz ? count_packed(t, f, comm) : index_plain(t, f, comm));
    f->n_lines = f->n_lines > t->header ? f->n_lines - t->header : 0;
    f->first = total;
    total += f->n_lines;
  }
  if (t->header) TS_TRY(ts_agree(comm, take_headers(t)));
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

int64_t ts_text_bytes(const ts_text *t) {
  int64_t n = 0;
  for (int32_t i = 0; i < t->n_files; i++) n += t->files[i].bytes;
  return n;
}

const char *ts_text_packed(const ts_text *t) {
  for (int32_t i = 0; i < t->n_files; i++)
    if (t->files[i].gz) return t->files[i].path;
  return NULL;
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
  *out = (ts_lines){.path = f->path, .quoted = f->quoted};
  if (f->gz) return lines_packed(t, f, line, *n, out);
  out->begin = seek_plain(t, f, line);
  out->end = skip(t, f, out->begin, *n);
  out->counted = f->quoted ? f->map : out->begin;
  out->number = f->quoted ? 1 : line + 1;
  return TS_OK;
}

int64_t ts_lines_number(const ts_lines *lines, const char *p) {
  int64_t n = lines->number;
  const char *at = lines->counted;
  while (at < p && (at = memchr(at, '\n', (size_t)(p - at)))) at++, n++;
  return n;
}
