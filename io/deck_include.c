/* deck_include.c - the files that a deck includes, looked at before libconfig
 * opens them.
 *
 * libconfig reads what it is told to: a device without end, a file that
 * includes itself ten deep, ten files that each include the next ten times.
 * So the lines "@include" are followed here first, as libconfig's scanner
 * takes them: at the start of a line, outside of comments and texts, with
 * paths from the deck's folder.  A file that is missing is left to libconfig.
 * Messages name files and lines, never what is in a file. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/deck_impl.h"

/* libconfig stops at 10 files within each other. */
enum { DEPTH_MAX = 10, FILES_MAX = 1000, BYTES_MAX = 16 << 20 };

typedef struct ts_includes {
  const char *dir;
  struct ts_open_file {
    const char *path;
    struct stat id;
  } chain[DEPTH_MAX + 1];
  int depth, n_files;
  int64_t n_bytes;
} ts_includes;

const char *ts_deck_skip_quiet(const char *p) {
  const char *end = p;
  if (*p == '#' || (p[0] == '/' && p[1] == '/')) return p + strcspn(p, "\n");
  if (p[0] == '/' && p[1] == '*') {
    end = strstr(p + 2, "*/");
    return end ? end + 2 : p + strlen(p);
  }
  if (*p != '"') return p;
  for (p++; *p && *p != '"'; p++) p += p[0] == '\\' && p[1];
  return *p ? p + 1 : p;
}

/* The path of an "@include" at P, the start of a line, into PATH; false where
 * there is none. */
static bool take_path(const char *p, char *path, size_t size) {
  size_t n = 0;
  p += strspn(p, " \t");
  if (strncmp(p, "@include", 8) != 0) return false;
  const size_t blanks = strspn(p + 8, " \t");
  p += 8 + blanks;
  if (!blanks || *p++ != '"') return false;
  for (; *p && *p != '"' && n + 1 < size; p++) {
    if (p[0] == '\\' && (p[1] == '\\' || p[1] == '"')) p++;
    path[n++] = *p;
  }
  path[n] = '\0';
  return *p == '"';
}

static ts_err look_at(ts_includes *, const char *text);

static ts_err say_cycle(const ts_includes *w, int from, int line) {
  ts_str chain = {0};
  for (int i = from; i <= w->depth; i++)
    (void)ts_str_append(&chain, "%.300s -> ", w->chain[i].path);
  const ts_err err = ts_fail(TS_ERR_DECK, "%s:%d: includes itself: %s%s",
                             w->chain[w->depth].path, line,
                             chain.text ? chain.text : "", w->chain[from].path);
  ts_str_reset(&chain);
  return err;
}

/* The file at PATH, which line LINE of the innermost one includes. */
static ts_err enter(ts_includes *w, const char *path, int line) {
  ts_err err = TS_OK;
  ts_str text = {0};
  struct stat st;
  const char *from = w->chain[w->depth].path;
  if (stat(path, &st) != 0) return TS_OK;
  if (!S_ISREG(st.st_mode))
    TS_THROW(TS_ERR_DECK, "%s:%d: %s is not a file", from, line, path);
  for (int i = 0; i <= w->depth; i++)
    if (w->chain[i].id.st_ino == st.st_ino &&
        w->chain[i].id.st_dev == st.st_dev)
      return say_cycle(w, i, line);
  w->n_bytes += st.st_size;
  if (++w->n_files > FILES_MAX || w->n_bytes > BYTES_MAX)
    TS_THROW(TS_ERR_DECK, "%s:%d: includes make it over %d files or %d MiB",
             from, line, FILES_MAX, BYTES_MAX >> 20);
  if (w->depth == DEPTH_MAX || ts_file_read(&text, path) != TS_OK) {
    ts_err_clear();
    goto done;
  }
  /* libconfig reads on after a NUL, which ends what is looked at here. */
  if (strlen(text.text) != text.n_bytes)
    TS_THROW(TS_ERR_DECK, "%s:%d: %s is not a text", from, line, path);
  if (ts_deck_cuts(text.text))
    TS_THROW(TS_ERR_DECK, "%s:%d: %s: integers over 2147483647 end with L",
             from, line, path);
  w->chain[++w->depth] = (struct ts_open_file){path, st};
  err = look_at(w, text.text);
  w->depth--;
done:
  ts_str_reset(&text);
  return err;
}

static ts_err look_at(ts_includes *w, const char *text) {
  char path[1024], full[2048];
  bool start = true;
  int line = 1;
  for (const char *p = text; *p;) {
    if (start && take_path(p, path, sizeof path)) {
      snprintf(full, sizeof full, "%s%s%s", *path == '/' ? "" : w->dir,
               *path == '/' ? "" : "/", path);
      TS_DO(enter(w, full, line));
      p += strspn(p, " \t"); /* its text is skipped as any other */
    }
    const char *next = ts_deck_skip_quiet(p);
    if (next == p) next++;
    for (; p < next; p++) line += *p == '\n';
    start = p[-1] == '\n';
  }
  return TS_OK;
}

ts_err ts_deck_includes(const ts_deck *d, const char *text) {
  ts_includes w = {.dir = d->config->deck_dir};
  w.chain[0].path = d->path;
  if (stat(d->path, &w.chain[0].id) != 0) w.chain[0].id = (struct stat){0};
  return look_at(&w, text);
}
