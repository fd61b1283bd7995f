/* fake_memory.c - memory that faults on the host, by two mappings of one file
 * without a name: counted, and scarce, like a GPU's. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fake_device.h"
#include "tests/support/harness.h"

/* The device's memory, in bytes: room of two mappings; memory of the host is
 * taken by what is used alone. */
#define ALL ((size_t)1 << 33)
enum { PAGE = 4096 };

/* Ascending; a page that nobody has lies behind each. */
typedef struct block {
  struct block *next;
  char *at;
  size_t bytes; /* as asked for */
} block;

static char *memory, *alias; /* (ALL), the same bytes */
static int file;
static block *blocks;
static size_t n_blocks, top; /* bytes from the start that were ever used */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_open; /* kernels that run */

bool ts_fake_has(const void *p) {
  const char *c = p;
  return memory && c >= memory && c < memory + ALL;
}

void *ts_fake_alias(const void *p) {
  return ts_fake_has(p) ? alias + ((const char *)p - memory)
                        : (void *)(uintptr_t)p;
}

int ts_fake_n_blocks(void) {
  return (int)n_blocks;
}

static void *map(int protection) {
  void *p = mmap(NULL, ALL, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* The memory is this process's, like a GPU's: devices come and go. */
static ts_err start_memory(void) {
  file = memfd_create("device", 0);
  if (file < 0 || ftruncate(file, (off_t)ALL) != 0 ||
      !(alias = map(PROT_READ | PROT_WRITE)) || !(memory = map(PROT_NONE)))
    return ts_fail(TS_ERR_NOMEM, "no memory for a fake device");
  return TS_OK;
}

static size_t pages(size_t bytes) {
  return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void protect(size_t from, size_t to) {
  if (to > from)
    (void)mprotect(memory + from, to - from,
                   n_open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* Into the first gap that B fits in; false: there is none. */
static bool place(block *b) {
  block **at = &blocks;
  char *free_from = memory;
  const size_t room = pages(b->bytes) + PAGE;
  while (*at && (size_t)((*at)->at - free_from) < room) {
    free_from = (*at)->at + pages((*at)->bytes) + PAGE;
    at = &(*at)->next;
  }
  if (room > ALL - (size_t)(free_from - memory)) return false;
  b->at = free_from;
  b->next = *at;
  *at = b;
  n_blocks++;
  const size_t end = (size_t)(free_from - memory) + room - PAGE;
  protect(top, end);
  if (end > top) top = end;
  return true;
}

ts_err ts_fake_alloc(void **p, size_t bytes, ts_tag tag) {
  block *b;
  *p = NULL;
  if (!bytes) return TS_OK;
  ts_err err = ts_mem_alloc(&b, sizeof *b, TS_TAG_MISC); /* leaks are seen */
  if (err != TS_OK) return err;
  b->bytes = bytes;
  pthread_mutex_lock(&lock);
  if (!memory) err = start_memory();
  const bool fits = err == TS_OK && bytes < ALL && place(b);
  pthread_mutex_unlock(&lock);
  if (!fits) {
    ts_mem_free(b);
    return err != TS_OK
               ? err
               : ts_fail(TS_ERR_NOMEM, "out of fake memory: %zu bytes for %s",
                         bytes, ts_tag_text(tag));
  }
  ts_mem_count(tag, TS_SPACE_DEVICE, (int64_t)bytes);
  *p = b->at;
  return TS_OK;
}

/* Every kernel may touch all of it: which arrays are whose the fake doesn't
 * know. */
void ts_fake_open(bool open) {
  pthread_mutex_lock(&lock);
  const int before = n_open;
  n_open += open ? 1 : -1;
  if (!before != !n_open) protect(0, top);
  pthread_mutex_unlock(&lock);
}

void ts_fake_free(void *p, size_t bytes, ts_tag tag) {
  block *b, **at = &blocks;
  if (!p) return;
  pthread_mutex_lock(&lock);
  while ((b = *at) && b->at != p) at = &b->next;
  ck_assert_ptr_nonnull(b);
  *at = b->next;
  n_blocks--;
  /* Its next owner finds zeroes. */
  (void)fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  b->at - memory, (off_t)pages(b->bytes));
  pthread_mutex_unlock(&lock);
  ck_assert_uint_eq(b->bytes, bytes);
  ts_mem_count(tag, TS_SPACE_DEVICE, -(int64_t)bytes);
  ts_mem_free(b);
}
