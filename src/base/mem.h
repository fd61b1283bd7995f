/* mem.h - counted memory of the host.
 *
 * Every allocation of the program is counted by tag and by space, with
 * high-water marks; the memory report and the benchmarks print them, and a
 * debug build fails at exit when something leaked.  Thread-safe.
 * All of it is Local. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* X(name, text in the memory report) */
#define TS_TAG_LIST(X)                                                         \
  X(MISC, "other")                                                             \
  X(TABLES, "embedding tables")                                                \
  X(ROW_STATE, "row optimizer state")                                          \
  X(SLOW, "tables in slow memory")                                             \
  X(DENSE, "dense parameters")                                                 \
  X(GRADS, "dense gradients")                                                  \
  X(DENSE_STATE, "dense optimizer state")                                      \
  X(ACTIVATIONS, "activations")                                                \
  X(SPARSE, "lookup and backward")                                             \
  X(COMM, "communication")                                                     \
  X(INPUT, "input batches")                                                    \
  X(WORDS, "words of vocabularies")                                            \
  X(CHECKPOINT, "checkpoint")                                                  \
  X(METRICS, "metrics")

typedef enum {
#define TS_TAG_ENUM(name, text) TS_TAG_##name,
  TS_TAG_LIST(TS_TAG_ENUM)
#undef TS_TAG_ENUM
      TS_TAG_COUNT
} ts_tag;

/* Where memory lives. */
typedef enum {
  TS_SPACE_HOST,   /* pageable host memory */
  TS_SPACE_PINNED, /* page-locked host memory (plain host memory on "host") */
  TS_SPACE_DEVICE, /* the device's memory (host memory on "host") */
  TS_SPACE_COUNT
} ts_space;

typedef struct ts_mem_stat {
  int64_t now_bytes;
  int64_t peak_bytes;
} ts_mem_stat;

/* *P = BYTES bytes, 64-byte aligned (2 MiB and huge pages advised from
 * 4 MiB up), zeroed; NULL for 0 bytes.  Fails with NOMEM and says for what
 * (tag) and how much.  Free with ts_mem_free.  Local. */
ts_err ts_mem_alloc(void *p, size_t bytes, ts_tag tag); /* P is a T** */
void ts_mem_free(void *p);                              /* NULL is fine */
/* The same, of which nothing counts until ts_mem_give counts BYTES more, as the
 * system gives a large block its pages when they are touched first. */
ts_err ts_mem_range(void *p, size_t bytes, ts_tag tag);
void ts_mem_give(void *p, size_t bytes);
/* Several, in this order. */
void ts_mem_free_each(void *const *p, size_t n);
#define ts_mem_free_all(...)                                                   \
  ts_mem_free_each((void *[]){__VA_ARGS__},                                    \
                   sizeof(void *[]){__VA_ARGS__} / sizeof(void *))
/* Never frees P: somebody outside the program may still write to it.  It is no
 * leak. */
void ts_mem_abandon(void *p);

/* Grows *P (a T**) to at least BYTES, not keeping the content; *CAPACITY is
 * its size before and after.  For staging buffers. */
ts_err ts_mem_reserve(void *p, size_t *capacity, size_t bytes, ts_tag tag);

/* Resizes *P keeping the content; an array of N elements to one of WANTED. */
ts_err ts_mem_resize(void *p, size_t old_bytes, size_t bytes, ts_tag tag);
ts_err ts_mem_extend(void *p, int64_t n, int64_t wanted, size_t size,
                     ts_tag tag);

/* strdup, counted under MISC. */
ts_err ts_mem_strdup(char **p, const char *s);

/* n * size without overflow, else NOMEM. */
ts_err ts_mem_array(void *p, int64_t n, size_t size, ts_tag tag);
/* P = N elements of the type that P points to. */
#define ts_mem_many(p, n, tag) ts_mem_array(&(p), n, sizeof *(p), TS_TAG_##tag)

/* Blocks given out under TAG so far, live or not. */
int64_t ts_mem_n_allocs(ts_tag tag);

/* Memory in flight: buffers of batches under way, sized before the first step
 * (ts_pool).  PLANNED: room given then; USED: what they have held at most,
 * each; HELD: planned, and what was needed beyond it; GROWN counts that. */
typedef struct ts_ebc_batch_mem {
  ts_mem_stat planned, used, held;
  int64_t n_grown, grown_bytes;
} ts_ebc_batch_mem;
ts_ebc_batch_mem ts_mem_flight_of(ts_tag);
void ts_mem_flight_plan(ts_tag, int64_t delta_bytes); /* arenas come and go */
void ts_mem_flight_use(ts_tag, int64_t delta_bytes);
void ts_mem_flight_grow(ts_tag, int64_t delta_bytes); /* < 0: given back */

/* Counting for allocators that are not ours (devices): delta may be < 0. */
void ts_mem_count(ts_tag tag, ts_space space, int64_t delta_bytes);

ts_mem_stat ts_mem_stat_of(ts_tag tag, ts_space space);
ts_mem_stat ts_mem_total(ts_space space); /* peak of the sum */
/* With heads, padding and the alignment of huge pages: what blocks take from
 * the system. */
ts_mem_stat ts_mem_mapped(void);
/* Peaks start anew from what is held now: what came before was a trial. */
void ts_mem_forget_peaks(void);
/* Allocations that have failed so far: for work that goes on to collect more
 * errors and asks once at its end. */
int64_t ts_mem_failures(void);
const char *ts_tag_text(ts_tag tag);

/* Number of live ts_mem_alloc blocks; prints each tag that is not empty to
 * stderr when not zero.  For the end of main in debug builds and tests. */
int64_t ts_mem_leaks(void);
