/* zip.c - zip archives (APPNOTE.TXT of PKWARE): the directory at the end says
 * where members are; a number that it has no room for is in an extra field.
 *
 * What the file says is not believed: every place is looked at before it is
 * read, and no size is taken for an allocation before the packed bytes can
 * have it. */
#include "io/zip.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "base/mem.h"

enum {
  END_BYTES = 22,
  END64_BYTES = 56,
  LOCATOR_BYTES = 20,
  ENTRY_BYTES = 46,
  LOCAL_BYTES = 30,
  COMMENT_MAX = 65535,
  DEFLATE_MOST = 1032 /* bytes that one deflated byte can become */
};

static ts_err damaged(const ts_zip *z, const char *what) {
  return ts_fail(TS_ERR_DATA,
                 "%s: is no zip archive that can be read: %s; it is damaged, "
                 "or its end missing",
                 z->path, what);
}

static uint64_t number(const char *p, int n_bytes) {
  uint64_t x = 0;
  for (int i = n_bytes; i-- > 0;) x = x << 8 | (unsigned char)p[i];
  return x;
}

static bool is_at(const char *p, const char *sign) {
  return !memcmp(p, "PK", 2) && !memcmp(p + 2, sign, 2);
}

/* ---- the directory ------------------------------------------------------- */

/* The record at the end, which a comment may follow; NULL: there is none. */
static const char *find_end(const ts_zip *z) {
  const int64_t last = z->n_bytes - END_BYTES;
  const int64_t first = last > COMMENT_MAX ? last - COMMENT_MAX : 0;
  for (int64_t i = last; i >= first; i--)
    if (is_at(z->map + i, "\5\6") &&
        (int64_t)number(z->map + i + 20, 2) == last - i)
      return z->map + i;
  return NULL;
}

/* Where the directory is, and how many entries it has. */
static ts_err find_directory(ts_zip *z, int64_t *from, uint64_t *n) {
  const char *end = find_end(z);
  if (!end) return damaged(z, "it has no directory");
  uint64_t at = number(end + 16, 4), size = number(end + 12, 4);
  int64_t stop = end - z->map;
  *n = number(end + 10, 2);
  if (stop >= LOCATOR_BYTES && is_at(end - LOCATOR_BYTES, "\6\7")) {
    const uint64_t place = number(end - LOCATOR_BYTES + 8, 8);
    stop -= LOCATOR_BYTES;
    if (stop < END64_BYTES || place > (uint64_t)(stop - END64_BYTES) ||
        !is_at(z->map + place, "\6\6"))
      return damaged(z, "the directory's end (zip64) is not where it says");
    const char *end64 = z->map + place;
    *n = number(end64 + 32, 8);
    size = number(end64 + 40, 8);
    at = number(end64 + 48, 8);
    stop = (int64_t)place;
  }
  if (at > (uint64_t)stop || size > (uint64_t)stop - at)
    return damaged(z, "the directory is not within the file");
  if (*n > size / ENTRY_BYTES || *n > INT32_MAX)
    return damaged(z, "the directory is too short for its members");
  *from = (int64_t)at;
  z->end = (int64_t)(at + size);
  return TS_OK;
}

/* Sizes and place of 32 bits that are all ones are in the extra field of zip64,
 * in this order. */
static bool take_large(ts_zip_member *m, const char *extra, int64_t n) {
  int64_t *const of[] = {&m->size, &m->packed, &m->at};
  bool wanted = false;
  for (int i = 0; i < 3; i++) wanted |= *of[i] == UINT32_MAX;
  while (wanted && n >= 4) {
    const int64_t size = (int64_t)number(extra + 2, 2);
    const bool zip64 = number(extra, 2) == 1;
    const char *p = extra + 4;
    if (size > n - 4) return false;
    for (int i = 0; zip64 && i < 3; i++) {
      if (*of[i] != UINT32_MAX) continue;
      if (p + 8 > extra + 4 + size) return false;
      *of[i] = (int64_t)number(p, 8);
      p += 8;
    }
    if (zip64) return true;
    extra += 4 + size;
    n -= 4 + size;
  }
  return !wanted;
}

static ts_err take_entry(ts_zip *z, ts_zip_member *m, const char **at) {
  const char *p = *at, *stop = z->map + z->end;
  if (stop - p < ENTRY_BYTES || !is_at(p, "\1\2"))
    return damaged(z, "an entry of the directory is none");
  const int64_t n_name = (int64_t)number(p + 28, 2);
  const int64_t n_extra = (int64_t)number(p + 30, 2);
  const int64_t n_more = (int64_t)number(p + 32, 2);
  if (n_name + n_extra + n_more > stop - p - ENTRY_BYTES)
    return damaged(z, "an entry of the directory leaves it");
  m->encrypted = p[8] & 1;
  m->method = (int)number(p + 10, 2);
  m->crc = (uint32_t)number(p + 16, 4);
  m->packed = (int64_t)number(p + 20, 4);
  m->size = (int64_t)number(p + 24, 4);
  m->at = (int64_t)number(p + 42, 4);
  TS_DO(ts_mem_alloc(&m->name, (size_t)n_name + 1, TS_TAG_INPUT));
  memcpy(m->name, p + ENTRY_BYTES, (size_t)n_name);
  if (!take_large(m, p + ENTRY_BYTES + n_name, n_extra))
    return damaged(z, "a size of zip64 is missing");
  *at = p + ENTRY_BYTES + n_name + n_extra + n_more;
  return TS_OK;
}

ts_err ts_zip_open(ts_zip *z, const char *map, int64_t n_bytes,
                   const char *path) {
  int64_t from = 0;
  uint64_t n = 0;
  *z = (ts_zip){.path = path, .map = map, .n_bytes = n_bytes};
  TS_DO(find_directory(z, &from, &n));
  TS_DO(ts_mem_many(z->item, (int64_t)n, INPUT));
  z->n = (int32_t)n;
  const char *at = map + from;
  for (int32_t i = 0; i < z->n; i++) TS_DO(take_entry(z, &z->item[i], &at));
  z->end = from;
  return TS_OK;
}

void ts_zip_reset(ts_zip *z) {
  for (int32_t i = 0; z->item && i < z->n; i++) ts_mem_free(z->item[i].name);
  ts_mem_free(z->item);
  *z = (ts_zip){0};
}

ts_err ts_zip_find(const ts_zip *z, const char *name,
                   const ts_zip_member **out) {
  *out = NULL;
  for (int32_t i = 0; i < z->n; i++) {
    if (strcmp(z->item[i].name, name) != 0) continue;
    if (*out)
      return ts_fail(TS_ERR_DATA, "%s: has two members %.200s", z->path, name);
    *out = &z->item[i];
  }
  return TS_OK;
}

/* ---- members ------------------------------------------------------------- */

static ts_err refuse(const ts_zip *z, const ts_zip_member *m, const char *why) {
  return ts_fail(TS_ERR_DATA, "%s: member %.200s can't be read: %s", z->path,
                 m->name, why);
}

ts_err ts_zip_data(const ts_zip *z, const ts_zip_member *m, const char **data) {
  if (m->encrypted) return refuse(z, m, "it is encrypted");
  if (m->method != 0 && m->method != 8)
    return refuse(z, m,
                  "it is packed in another way than np.savez_compressed does "
                  "(deflate)");
  if (m->at < 0 || m->at > z->end - LOCAL_BYTES ||
      !is_at(z->map + m->at, "\3\4"))
    return refuse(z, m, "it does not begin where the directory says");
  const char *p = z->map + m->at;
  const int64_t at = m->at + LOCAL_BYTES + (int64_t)number(p + 26, 2) +
                     (int64_t)number(p + 28, 2);
  if (m->packed < 0 || m->size < 0 || at > z->end || m->packed > z->end - at)
    return refuse(z, m, "it is not within the file");
  if (m->method == 0 ? m->packed != m->size
                     : m->size / DEFLATE_MOST > m->packed)
    return refuse(z, m, "its packed bytes are not of the size that it says");
  *data = z->map + at;
  return TS_OK;
}

static int64_t bite(int64_t n) {
  return n < INT_MAX ? n : INT_MAX;
}

static uint32_t checksum(const char *p, int64_t n) {
  uLong crc = crc32(0, NULL, 0);
  for (int64_t i = 0; i < n; i += bite(n - i))
    crc = crc32(crc, (const Bytef *)p + i, (uInt)bite(n - i));
  return (uint32_t)crc;
}

ts_err ts_zip_check(const ts_zip *z, const ts_zip_member *m,
                    const char *stored) {
  if (checksum(stored, m->size) == m->crc) return TS_OK;
  return refuse(z, m, "its checksum is wrong: it is damaged");
}

/* Inflates up to N bytes from DATA; *N becomes how many there are, *ENDS
 * whether the stream ends there. */
static bool inflate_all(const char *data, int64_t packed, char *to, int64_t *n,
                        bool *ends) {
  z_stream s = {0};
  int64_t in = 0, out = 0;
  int rc = Z_OK;
  if (inflateInit2(&s, -MAX_WBITS) != Z_OK) return false;
  while (rc == Z_OK && out < *n) {
    const int64_t n_in = bite(packed - in), n_out = bite(*n - out);
    s.next_in = (Bytef *)(data + in);
    s.avail_in = (uInt)n_in;
    s.next_out = (Bytef *)to + out;
    s.avail_out = (uInt)n_out;
    rc = inflate(&s, Z_NO_FLUSH);
    in += n_in - s.avail_in;
    out += n_out - s.avail_out;
  }
  /* All the room is taken: the end may be the next thing to come. */
  char more;
  s.next_in = (Bytef *)(data + in);
  s.avail_in = (uInt)bite(packed - in);
  s.next_out = (Bytef *)&more;
  s.avail_out = 1;
  if (rc == Z_OK) rc = inflate(&s, Z_NO_FLUSH);
  *ends = rc == Z_STREAM_END && s.avail_out == 1 && s.avail_in == 0;
  inflateEnd(&s);
  *n = out;
  return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR;
}

ts_err ts_zip_unpack(const ts_zip *z, const ts_zip_member *m, char *to,
                     int64_t n) {
  const char *data;
  const bool all = n == m->size;
  int64_t got = n;
  bool ends = true;
  TS_DO(ts_zip_data(z, m, &data));
  if (m->method == 0)
    memcpy(to, data, (size_t)n);
  else if (!inflate_all(data, m->packed, to, &got, &ends))
    return refuse(z, m, "it can't be unpacked: it is damaged");
  if (got != n || (all && !ends))
    return refuse(z, m, "it unpacks to another size than it says");
  return all ? ts_zip_check(z, m, to) : TS_OK;
}
