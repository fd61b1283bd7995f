/* text_known.c - where the lines of large text files are, kept from run to run:
 * finding them takes a pass over the file, and packed ones are unpacked for it
 * by one rank.
 *
 * A file lines-HASH of the run's folder, HASH being of the text's path: a head,
 * then the places.  It is true as long as the text has the size and the time of
 * its last change that stand in the head.  A private format: who can't read it
 * looks for the lines again. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/text_impl.h"

/* Smaller ones are looked through at once. */
enum { PLAIN_BYTES = 16 << 20, PACKED_BYTES = 1 << 20 };

static const char magic[8] = "tslines1";

typedef struct ts_known {
  char magic[8];
  int64_t file_bytes, seconds, nanoseconds; /* the text's */
  int64_t separator, n_lines, quoted, every, n_places;
  uint64_t sum; /* of the places */
} ts_known;

static int64_t places_of(const ts_known *k) {
  return k->every ? k->n_lines / k->every + 1 : 0;
}

static uint64_t sum_of(const int64_t *place, int64_t n) {
  return n ? ts_fnv1a(TS_FNV_START, place, (size_t)n * sizeof *place) : 0;
}

/* The head for F as it is now; false: F is not worth it, or not there. */
static bool head_of(ts_known *k, const ts_text *t, const ts_text_file *f) {
  struct stat st;
  if (stat(f->path, &st) != 0) return false;
  *k = (ts_known){.file_bytes = st.st_size,
                  .seconds = st.st_mtim.tv_sec,
                  .nanoseconds = st.st_mtim.tv_nsec,
                  .separator = t->separator,
                  .n_lines = f->n_lines,
                  .quoted = f->quoted,
                  .every = f->every};
  memcpy(k->magic, magic, sizeof magic);
  k->n_places = places_of(k);
  k->sum = sum_of(f->index, k->n_places);
  return k->file_bytes >= (f->gz ? PACKED_BYTES : PLAIN_BYTES);
}

static void name_of(char name[4096], const char *folder, const char *path) {
  snprintf(name, 4096, "%.4000s/lines-%016llx", folder,
           (unsigned long long)ts_fnv1a(TS_FNV_START, path, strlen(path)));
}

/* ---- taking -------------------------------------------------------------- */

static bool is_of(const ts_known *k, const ts_known *now,
                  const ts_text_file *f) {
  const int64_t most = 1100 * k->file_bytes; /* of deflate */
  const bool sound = f->gz ? !k->every && k->n_lines <= most
                           : k->every > 0 && k->n_lines <= k->file_bytes;
  return sound && k->n_lines >= 0 && k->n_places == places_of(k) &&
         !memcmp(k->magic, magic, sizeof magic) &&
         k->file_bytes == now->file_bytes && k->seconds == now->seconds &&
         k->nanoseconds == now->nanoseconds && k->separator == now->separator;
}

static bool are_places(const int64_t *place, int64_t n, int64_t bytes) {
  for (int64_t i = 0; i < n; i++)
    if (place[i] < 0 || place[i] > bytes || (i && place[i] < place[i - 1]))
      return false;
  return true;
}

/* Head and places, to be freed; false: there are none that are true. */
static bool read_known(ts_known *k, int64_t **place, const ts_text *t,
                       const ts_text_file *f, const char *folder) {
  char name[4096];
  ts_known now;
  if (!head_of(&now, t, f)) return false;
  name_of(name, folder, f->path);
  FILE *in = ts_file_stream(name, "r");
  if (!in) return false;
  bool good = fread(k, sizeof *k, 1, in) == 1 && is_of(k, &now, f);
  const size_t n = good ? (size_t)k->n_places : 0;
  good = good &&
         ts_mem_array(place, (int64_t)n, sizeof **place, TS_TAG_INPUT) == TS_OK;
  good = good && (!n || fread(*place, sizeof **place, n, in) == n) &&
         k->sum == sum_of(*place, k->n_places) &&
         are_places(*place, k->n_places, f->bytes);
  (void)ts_file_close(in);
  return good;
}

ts_err ts_text_known_take(bool *known, const ts_text *t, ts_text_file *f,
                          const char *folder, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_known k = {0};
  int64_t *place = NULL;
  const bool first = ts_comm_rank(comm) == 0;
  if (first) *known = read_known(&k, &place, t, f, folder);
  TS_TRY(ts_comm_bcast(comm, known, sizeof *known, 0));
  if (!*known) goto done;
  TS_TRY(ts_comm_bcast(comm, &k, sizeof k, 0));
  TS_TRY(ts_agree(comm, first ? TS_OK
                              : ts_mem_array(&place, k.n_places, sizeof *place,
                                             TS_TAG_INPUT)));
  if (k.n_places)
    TS_TRY(ts_comm_bcast(comm, place, k.n_places * (int64_t)sizeof *place, 0));
  f->n_lines = k.n_lines;
  f->quoted = k.quoted != 0;
  f->every = k.every;
  f->index = place;
  place = NULL;
done:
  ts_mem_free(place);
  return err;
}

/* ---- keeping ------------------------------------------------------------- */

void ts_text_known_keep(const ts_text *t, const ts_text_file *f,
                        const char *folder) {
  char name[4096], temp[4096 + 8];
  ts_known k;
  if (!head_of(&k, t, f)) return;
  name_of(name, folder, f->path);
  snprintf(temp, sizeof temp, "%s.part", name);
  unlink(temp); /* of a run that was killed */
  FILE *out = ts_file_stream(temp, "wx");
  if (!out) return;
  const size_t n = (size_t)k.n_places;
  bool good = fwrite(&k, sizeof k, 1, out) == 1 &&
              (!n || fwrite(f->index, sizeof *f->index, n, out) == n);
  good &= ts_file_close(out) == 0;
  if (!good || ts_file_rename(temp, name) != 0) unlink(temp);
}
