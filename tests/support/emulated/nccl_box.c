/* nccl_box.c - shared memory between the ranks of one machine. */
#include "tests/support/emulated/nccl_box.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 1 << 16 };

/* From one rank to another one; a part is there while sent > taken. */
typedef struct ts_box {
  uint64_t sent, taken;
  size_t total, bytes;
  char what[96];
  char data[ROOM];
} ts_box;

typedef struct ts_file {
  int joined;
  ts_box box[]; /* (size * size) from * size + to */
} ts_file;

struct ts_boxes {
  ts_file *file;
  int rank, size;
  size_t bytes;
};

ts_boxes *ts_boxes_open(const char *name, int rank, int size) {
  ts_boxes *b = calloc(1, sizeof *b);
  if (!b) abort();
  b->rank = rank;
  b->size = size;
  b->bytes = sizeof(ts_file) + (size_t)size * (size_t)size * sizeof(ts_box);
  const int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
  void *p = MAP_FAILED;
  if (fd >= 0 && !ftruncate(fd, (off_t)b->bytes))
    p = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) (void)close(fd);
  if (p == MAP_FAILED) {
    free(b);
    return NULL;
  }
  b->file = p;
  if (__atomic_add_fetch(&b->file->joined, 1, __ATOMIC_ACQ_REL) == size)
    (void)shm_unlink(name);
  return b;
}

bool ts_boxes_joined(const ts_boxes *b) {
  return __atomic_load_n(&b->file->joined, __ATOMIC_ACQUIRE) == b->size;
}

void ts_boxes_close(ts_boxes *b) {
  (void)munmap(b->file, b->bytes);
  free(b);
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

static void put(ts_box *box, ts_message *m) {
  const size_t n = least(m->bytes - m->done, ROOM);
  box->total = m->bytes;
  box->bytes = n;
  memcpy(box->what, m->what, sizeof box->what);
  if (n) memcpy(box->data, (const char *)m->at + m->done, n);
  m->done += n;
  m->put = m->done == m->bytes;
  (void)__atomic_add_fetch(&box->sent, 1, __ATOMIC_RELEASE);
}

static bool take(ts_box *box, ts_message *m, char *theirs) {
  memcpy(theirs, box->what, sizeof box->what);
  if (box->total != m->bytes || strcmp(box->what, m->what) != 0) return false;
  if (box->bytes) memcpy((char *)m->at + m->done, box->data, box->bytes);
  m->done += box->bytes;
  (void)__atomic_add_fetch(&box->taken, 1, __ATOMIC_RELEASE);
  return true;
}

bool ts_message_go(ts_boxes *b, ts_message *m, bool *moved, char *theirs) {
  const int at =
      m->send ? b->rank * b->size + m->peer : m->peer * b->size + b->rank;
  ts_box *box = &b->file->box[at];
  const bool full = __atomic_load_n(&box->sent, __ATOMIC_ACQUIRE) !=
                    __atomic_load_n(&box->taken, __ATOMIC_ACQUIRE);
  if (full == m->send) return true;
  if (m->send && m->put)
    m->ended = true;
  else if (m->send)
    put(box, m);
  else if (take(box, m, theirs))
    m->ended = m->done == m->bytes;
  else
    return false;
  *moved = true;
  return true;
}
