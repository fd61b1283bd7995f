/* vocabulary_share.c - one copy of all words a node.
 *
 * A rank of each node puts them into memory without a name, which the others
 * open by its number, so that nothing stays behind however the program ends,
 * and nobody waits for anybody to close it.  The same words of another source,
 * as those of data.eval are, take the memory that is there.  Where the system
 * has none to share, a rank keeps a copy of its own. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/vocabulary_impl.h"

/* In this process, mapped once. */
struct ts_words_shared {
  char *map;
  size_t bytes;
  bool counted; /* in this rank's memory: it is the one that has made it */
  int n_users;
  struct ts_words_shared *next;
};

typedef struct ts_words_shared ts_words_shared;

static ts_words_shared *known;

/* What a rank says to the others. */
typedef struct ts_offer {
  char host[64];
  int64_t pid, fd; /* -1: none */
} ts_offer;

typedef struct ts_sharing {
  ts_vocabularies *v;
  size_t bytes;
  ts_offer own, *all;
  ts_words_shared *fresh; /* not known yet */
} ts_sharing;

/* ---- the memory ---------------------------------------------------------- */

static size_t room_of(const ts_vocabulary *v) {
  return (v->bytes + 7) / 8 * 8;
}

static size_t bytes_of(const ts_vocabularies *v) {
  size_t bytes = 0;
  for (int32_t k = 0; k < v->n_features; k++)
    if (v->of[k].block) bytes += room_of(&v->of[k]);
  return bytes;
}

static bool is_same(const ts_vocabularies *v, const char *map) {
  for (int32_t k = 0; k < v->n_features; k++) {
    if (!v->of[k].block) continue;
    if (memcmp(map, v->of[k].block, v->of[k].bytes) != 0) return false;
    map += room_of(&v->of[k]);
  }
  return true;
}

static ts_words_shared *find_known(const ts_vocabularies *v, size_t bytes) {
  ts_words_shared *m = known;
  while (m && (m->bytes != bytes || !is_same(v, m->map))) m = m->next;
  return m;
}

/* Maps FD, of M->bytes bytes. */
static bool map_it(ts_words_shared *m, int fd, int protection) {
  void *map = mmap(NULL, m->bytes, protection, MAP_SHARED, fd, 0);
  m->map = map == MAP_FAILED ? NULL : map;
  return m->map != NULL;
}

/* Puts the words there; its descriptor, -1: the system has no room. */
static int make(ts_words_shared *m, const ts_vocabularies *v) {
  const int fd = memfd_create("tessera-words", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (posix_fallocate(fd, 0, (off_t)m->bytes) != 0 ||
      !map_it(m, fd, PROT_READ | PROT_WRITE)) {
    close(fd);
    return -1;
  }
  char *to = m->map;
  for (int32_t k = 0; k < v->n_features; k++) {
    if (!v->of[k].block) continue;
    memcpy(to, v->of[k].block, v->of[k].bytes);
    to += room_of(&v->of[k]);
  }
  (void)mprotect(m->map, m->bytes, PROT_READ);
  m->counted = true;
  ts_mem_count(TS_TAG_WORDS, TS_SPACE_HOST, (int64_t)m->bytes);
  return fd;
}

/* What another rank has made; what is not these words for certain is none. */
static void attach(ts_words_shared *m, const ts_vocabularies *v,
                   const ts_offer *of) {
  char path[64];
  struct stat st;
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)of->pid,
           (long long)of->fd);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (fstat(fd, &st) == 0 && st.st_size == (off_t)m->bytes &&
      map_it(m, fd, PROT_READ) && !is_same(v, m->map)) {
    munmap(m->map, m->bytes);
    m->map = NULL;
  }
  close(fd);
}

static void drop(ts_words_shared *m) {
  if (m->map) munmap(m->map, m->bytes);
  if (m->counted) ts_mem_count(TS_TAG_WORDS, TS_SPACE_HOST, -(int64_t)m->bytes);
  ts_mem_free(m);
}

void ts_words_shared_release(ts_words_shared *m) {
  ts_words_shared **at = &known;
  if (!m || --m->n_users > 0) return;
  while (*at != m) at = &(*at)->next;
  *at = m->next;
  drop(m);
}

/* V's words are those of M; its own copies go. */
static void take(ts_vocabularies *v, ts_words_shared *m) {
  const char *at = m->map;
  m->n_users++;
  v->shared = m;
  for (int32_t k = 0; k < v->n_features; k++) {
    ts_vocabulary *x = &v->of[k];
    if (!x->block) continue;
    ts_vocabulary_lay(x, at, x->words.times != NULL);
    at += room_of(x);
    ts_mem_free(x->block);
    x->block = NULL;
  }
}

/* ---- between ranks ------------------------------------------------------- */

static ts_err begin(ts_sharing *x, int n_ranks) {
  x->own.pid = getpid();
  x->own.fd = -1;
  if (gethostname(x->own.host, sizeof x->own.host - 1) != 0)
    snprintf(x->own.host, sizeof x->own.host, "?");
  TS_DO(ts_mem_many(x->all, n_ranks, WORDS));
  TS_DO(ts_mem_alloc(&x->fresh, sizeof *x->fresh, TS_TAG_WORDS));
  x->fresh->bytes = x->bytes;
  return TS_OK;
}

/* The first rank of this one's node. */
static int leader_of(const ts_sharing *x) {
  int r = 0;
  while (strcmp(x->all[r].host, x->own.host) != 0) r++;
  return r;
}

ts_err ts_vocabularies_share(ts_vocabularies *v, ts_comm *comm) {
  ts_err err = TS_OK;
  if (!v) return TS_OK;
  ts_sharing x = {.v = v, .bytes = bytes_of(v)};
  ts_words_shared *m = find_known(v, x.bytes);
  TS_TRY(ts_agree(comm, begin(&x, ts_comm_size(comm))));
  TS_TRY(ts_comm_gather_all(comm, x.all, &x.own, sizeof x.own));
  const int leader = leader_of(&x);
  if (!m && leader == ts_comm_rank(comm)) x.own.fd = make(x.fresh, v);
  TS_TRY(ts_comm_gather_all(comm, x.all, &x.own, sizeof x.own));
  if (!m && leader != ts_comm_rank(comm) && x.all[leader].fd >= 0)
    attach(x.fresh, v, &x.all[leader]);
  TS_TRY(ts_comm_barrier(comm)); /* all have opened it */
  if (!m && x.fresh->map) {
    m = x.fresh;
    m->next = known;
    known = m;
    x.fresh = NULL;
  }
  if (m) take(v, m);
done:
  if (x.own.fd >= 0) close((int)x.own.fd);
  if (x.fresh) drop(x.fresh);
  ts_mem_free(x.all);
  return err;
}
