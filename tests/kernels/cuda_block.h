/* cuda_block.h - cases of kernels whose memory is one block: the host's kernels
 * and a target's get a copy of it, and what they leave behind has to be the
 * same bytes, gaps between arrays included.  Pointers of a case are offsets
 * into the block until it runs. */
#ifndef TS_TESTS_CUDA_BLOCK_H
#define TS_TESTS_CUDA_BLOCK_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"

typedef struct block_target {
  void (*kernels)(ts_kernels *);
  /* TASK where kernels run, to the end. */
  ts_err (*run)(ts_err (*task)(void *), void *arg);
  /* A copy of BYTES where kernels can see it; what it holds now; its end. */
  void *(*send)(const void *, size_t bytes);
  void (*fetch)(void *to, const void *sent, size_t bytes);
  void (*drop)(void *sent);
  void (*set_blocks)(int most);       /* of a grid; NULL: can't be set */
  void (*start)(void), (*stop)(void); /* around all tests, or NULL */
} block_target;

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include "tests/support/harness.h"

/* The target's. */
extern ts_kernels block_tested;

/* Around all cases: a block of at most BYTES. */
void block_start(const block_target *, size_t bytes);
void block_stop(void);

/* Nothing is taken; all of it is any bytes. */
void block_clear(void);
/* BYTES whose start is OFF bytes behind a border of 256: the offset. */
void *block_take(int64_t bytes, int off);
/* What lies at offset P before any run. */
void *block_here(const void *p);

/* The pointer that lies P bytes into the block at BASE. */
#define AT(p) ((void *)(base + (uintptr_t)(p)))

/* Runs with a table of kernels on the block at BASE. */
typedef ts_err (*block_task)(const ts_kernels *, char *base, const void *arg);
/* By both, the target's in many blocks, then few: kernels go on with a stride.
 * NAN_OK: one NaN is as good as another. */
void block_check(block_task, const void *arg, bool nan_ok);
#endif

#endif
