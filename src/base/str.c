/* str.c - growing strings, numbers for people, small files. */
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

static ts_err make_room(ts_str *s, size_t more) {
  size_t need = s->n_bytes + more + 1;
  if (need <= s->capacity) return TS_OK;
  size_t capacity = need < 64 ? 64 : need + need / 2;
  ts_err err = ts_mem_resize(&s->text, s->text ? s->n_bytes + 1 : 0, capacity,
                             TS_TAG_MISC);
  if (err == TS_OK) s->capacity = capacity;
  return err;
}

ts_err ts_str_append_bytes(ts_str *s, const void *data, size_t n_bytes) {
  TS_DO(make_room(s, n_bytes));
  if (n_bytes) memcpy(s->text + s->n_bytes, data, n_bytes);
  s->n_bytes += n_bytes;
  s->text[s->n_bytes] = '\0';
  return TS_OK;
}

ts_err ts_str_append(ts_str *s, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (n < 0) return ts_fail(TS_ERR_INTERNAL, "text can't be formatted");
  TS_DO(make_room(s, (size_t)n));
  va_start(args, fmt);
  vsnprintf(s->text + s->n_bytes, (size_t)n + 1, fmt, args);
  va_end(args);
  s->n_bytes += (size_t)n;
  return TS_OK;
}

void ts_str_reset(ts_str *s) {
  ts_mem_free(s->text);
  *s = (ts_str){0};
}

bool ts_str_whole(const char *from, size_t n_bytes, bool *minus, uint64_t *x) {
  char text[32], *end;
  if (!n_bytes || n_bytes >= sizeof text) return false;
  memcpy(text, from, n_bytes);
  text[n_bytes] = '\0';
  *minus = *text == '-';
  const char *digits = text + *minus;
  if (*digits < '0' || *digits > '9') return false;
  errno = 0;
  *x = strtoull(digits, &end, 10);
  return !*end && !errno;
}

bool ts_str_ends(const char *s, const char *end) {
  const size_t n = strlen(s), m = strlen(end);
  return n >= m && !strcmp(s + n - m, end);
}

enum { DISTANCE_MAX = 64, TEXT_BYTES_MAX = 1 << 30 };

static int least(int a, int b, int c) {
  int m = a < b ? a : b;
  return m < c ? m : c;
}

int ts_str_distance(const char *a, const char *b) {
  int d[3][DISTANCE_MAX + 1];
  int n = (int)strlen(a), m = (int)strlen(b);
  if (n > DISTANCE_MAX || m > DISTANCE_MAX) return n > m ? n : m;
  for (int j = 0; j <= m; j++) d[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= m; j++) {
      row[j] =
          least(up[j] + 1, row[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = least(row[j], up2[j - 2] + 1, row[j]);
    }
  }
  return d[n % 3][m];
}

const char *ts_str_bytes(char buf[32], int64_t n_bytes) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double x = (double)n_bytes;
  int u = 0;
  while (x >= 1024 && u < 4) x /= 1024, u++;
  snprintf(buf, 32, u ? "%.1f %s" : "%.0f %s", x, unit[u]);
  return buf;
}

const char *ts_str_count(char buf[32], int64_t n) {
  char digits[24];
  int len = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
  for (int i = 0; i < len && at < 30; i++) {
    buf[at++] = digits[i];
    int left = len - 1 - i;
    if (left && left % 3 == 0 && digits[i] != '-') buf[at++] = ',';
  }
  buf[at] = '\0';
  return buf;
}

const char *ts_str_seconds(char buf[32], double seconds) {
  long s = seconds > 0 && seconds < 1e9 ? (long)(seconds + 0.5) : 0;
  snprintf(buf, 32, "%02ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  return buf;
}

ts_err ts_file_read(ts_str *s, const char *path) {
  ts_err err = TS_OK;
  char piece[65536];
  struct stat st;
  size_t n;
  /* A look before it is opened: a pipe or a device has no end. */
  if (stat(path, &st) != 0) return ts_fail_errno(TS_ERR_IO, path);
  if (!S_ISREG(st.st_mode))
    return ts_fail(TS_ERR_IO, "%s: is not a file", path);
  if (st.st_size > TEXT_BYTES_MAX)
    return ts_fail(TS_ERR_IO, "%s: is over 1 GiB", path);
  FILE *f = fopen(path, "rb");
  if (!f) return ts_fail_errno(TS_ERR_IO, path);
  while ((n = fread(piece, 1, sizeof piece, f)) > 0)
    TS_TRY(ts_str_append_bytes(s, piece, n));
  if (ferror(f)) TS_TRY(ts_fail_errno(TS_ERR_IO, path));
  TS_TRY(ts_str_append_bytes(s, "", 0));
done:
  fclose(f);
  return err;
}

ts_err ts_file_read_of_deck(ts_str *s, const char *path, const char *key) {
  char why[512];
  if (ts_file_read(s, path) == TS_OK) return TS_OK;
  snprintf(why, sizeof why, "%s", ts_err_message());
  ts_err_clear();
  return ts_fail(TS_ERR_DECK, "%s can't be read: %s", key, why);
}

ts_err ts_mkdirs(const char *path) {
  ts_err err = TS_OK;
  char *copy = NULL;
  TS_TRY(ts_mem_strdup(&copy, path));
  for (char *p = copy + 1; *copy; p++) {
    if (*p != '/' && *p != '\0') continue;
    char kept = *p;
    *p = '\0';
    if (mkdir(copy, 0777) != 0 && errno != EEXIST)
      TS_THROW(TS_ERR_IO, "folder %s can't be made: %s", copy, strerror(errno));
    *p = kept;
    if (!kept) break;
  }
done:
  ts_mem_free(copy);
  return err;
}
