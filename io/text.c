/* text.c - numbered lines of plain and packed text files. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/csv_fields.h"
#include "io/text_impl.h"
#include "runtime/progress.h"

/* The place of each EVERY-th line is kept, of fewer in long files. */
enum { EVERY = 32, PLACES = 1 << 22 };

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
int ts_text_mark_bytes(const char *p, int64_t n) {
  return n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0;
}

/* Line starts in (from, to]: their number, and with INDEX their places where
 * NUMBER, that of the first one, says so.  *OPEN: a quote is open at FROM, and
 * then at TO; NULL: there are none. */
static int64_t scan(const ts_text *t, const ts_text_file *f, int64_t from,
                    int64_t to, bool *open, int64_t number, int64_t *index) {
  int64_t n = 0, n_seen = 0;
  ts_work work = ts_work_begin(index ? "keeping lines of" : "counting lines of",
                               f->path, (double)(to - from), NULL);
  const char *p = f->map + from, *end = f->map + to, *line = p;
  while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
    if (open) *open = ts_csv_is_open(line, p, t->separator, *open);
    line = ++p;
    if (++n_seen % 1024 == 0) ts_work_at(&work, (double)(p - f->map - from));
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
  const bool first =
      from <= ts_text_mark_bytes(f->map, f->bytes); /* none is open */
  for (int k = 0; k < 1 + (s.quoted && !first); k++)
    s.n[k] = scan(t, f, from, to, s.quoted ? &s.open[k] : NULL, 0, NULL);
  return s;
}

/* The first line that begins at byte AT or behind it: quotes can be told there.
 */
static int64_t line_from(const ts_text_file *f, int64_t at) {
  if (at == 0) return ts_text_mark_bytes(f->map, f->bytes);
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
  f->index[0] = ts_text_mark_bytes(f->map, f->bytes);
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

/* ---- all ----------------------------------------------------------------- */

static ts_err open_local(ts_text_file *f, const char *path) {
  TS_DO(ts_mem_strdup(&f->path, path));
  return ts_str_ends(path, ".gz") ? ts_text_packed_open(f) : map_file(f);
}

ts_err ts_text_check(const char *path, const ts_str *line) {
  const char *p = line->n_bytes ? line->text : "";
  if (line->n_bytes > 1 &&
      (!memcmp(p, "\xff\xfe", 2) || !memcmp(p, "\xfe\xff", 2)))
    return ts_fail(TS_ERR_DATA,
                   "%s: is UTF-16; iconv -f UTF-16 -t UTF-8 makes it a text "
                   "that is read here",
                   path);
  if (!strncmp(p, "sep=", 4))
    return ts_fail(TS_ERR_DATA,
                   "%s: its first line, %.20s, is a spreadsheet's, and is to "
                   "be the names of columns: tail -n +2 leaves it out",
                   path, p);
  const char *end = strchr(p, '\r');
  if (end && !strchr("\r\n", end[1]) && !strchr(p, '"'))
    return ts_fail(TS_ERR_DATA,
                   "%s: its lines end with \\r alone; tr '\\r' '\\n' makes it "
                   "a text that is read here",
                   path);
  return TS_OK;
}

/* F's first line without its end, appended to S. */
static ts_err take_header(const ts_text *t, ts_text_file *f, ts_str *s) {
  if (f->gz) {
    TS_DO(ts_text_packed_header(t, f, s));
  } else {
    const char *begin = seek_plain(t, f, 0), *stop = skip(t, f, begin, 1);
    TS_DO(ts_str_append_bytes(s, begin, (size_t)(stop - begin)));
  }
  TS_DO(ts_text_check(f->path, s));
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

static ts_err find_lines(const ts_text *t, ts_text_file *f, const char *folder,
                         ts_comm *comm) {
  bool known = false;
  if (folder) TS_DO(ts_text_known_take(&known, t, f, folder, comm));
  if (known) return TS_OK;
  TS_DO(f->gz ? ts_text_packed_count(t, f, comm) : index_plain(t, f, comm));
  if (folder && ts_comm_rank(comm) == 0) ts_text_known_keep(t, f, folder);
  return TS_OK;
}

ts_err ts_text_open(ts_text **out, const ts_strings *paths, char separator,
                    const char *folder, ts_comm *comm) {
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
    TS_TRY(find_lines(t, f, folder, comm));
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
  if (f->gz) return ts_text_packed_lines(t, f, line, *n, out);
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
