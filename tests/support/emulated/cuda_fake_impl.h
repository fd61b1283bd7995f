/* cuda_fake_impl.h - what the files of the fake CUDA runtime share. */
#ifndef TS_TESTS_CUDA_FAKE_IMPL_H
#define TS_TESTS_CUDA_FAKE_IMPL_H

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "tests/support/emulated/cuda_fake.h"

typedef enum {
  COPY,
  SET,
  RECORD,
  WAIT,
  WORD,
  FREE,
  FAULT,
  GRAPH,
  CALL,
  LAUNCH
} ts_work_kind;

enum { FAKE_ARGS = 96 }; /* bytes of a launch's, as far as it is known */
/* A launch, kept until ts_cuda_fake_forget. */
typedef struct ts_fake_launch {
  const void *func; /* the host's name of the kernel */
  const char *name; /* the compiler's */
  dim3 grid, block;
  size_t shared;
  struct ts_fake_launch *older;
  size_t bytes; /* of PARAMS, as the kernel has them; 0: not known */
  _Alignas(16) unsigned char params[];
} ts_fake_launch;

typedef struct ts_work {
  ts_work_kind kind;
  void *dst;
  const void *src;
  size_t bytes;
  int value;
  void (*call)(void *);         /* with dst, which is freed */
  void (*kernel)(void **value); /* of launches; NULL: not known, does nothing */
  const size_t *sizes;          /* (bytes) of its arguments, at value.. */
  char arg[FAKE_ARGS];
  struct CUevent_st *event;
  uint64_t number; /* of the event's record; what the word at src waits for */
  struct ts_fake_graph *run; /* GRAPH: a copy of its own */
  const struct ts_fake_launch *launch;
  struct ts_work *next;
} ts_work;

/* The nodes that the next one depends on. */
enum { FRONT = 16 };
typedef struct ts_front {
  struct CUgraph_st *graph; /* NULL: no capture */
  int node[FRONT], n;
} ts_front;

struct CUstream_st {
  pthread_t thread;
  ts_work *first, *last;
  bool stop;
  struct CUstream_st *older; /* of all that exist */
  ts_front front;            /* while it is captured */
};

struct CUevent_st {
  uint64_t recorded, reached;
  double time;
  bool timed, captured; /* captured: by its last record */
  ts_front front;
};

extern pthread_mutex_t ts_fake_lock;
extern ts_cuda_fake ts_fake_counts; /* under it, as all below */

cudaError_t ts_fake_answer(cudaError_t);
/* A launch, without the lock, and its kind of work; *E: as CUDA answers.
 * cuda_fake_kernels.c, or, where kernels are cuda/'s own, cuda_fake_launch.c.
 */
void ts_fake_launch_run(const ts_work *);
ts_work ts_fake_launch_of(const struct cudaKernelNodeParams *, cudaError_t *e);
/* Copies, sets and launches, without the lock. */
void ts_fake_move(const ts_work *);
cudaError_t ts_fake_enqueue(cudaStream_t, ts_work);
/* True for memory of cudaMalloc and cudaHostAlloc. */
bool ts_fake_knows(const void *p, bool *device);

/* ... and what of BYTES at P lies in one block; under lock. */
bool ts_fake_within(const void *p, size_t bytes);
/* cuda_fake_look.c, if linked; under lock: memory, NULL for none, and a look
 * at what WORK names: FRESH, when it is enqueued; else when it is done. */
void *ts_fake_memory(size_t bytes, bool device);
void ts_fake_memory_end(void *p, size_t bytes);
void ts_fake_look(const ts_work *, bool fresh);

/* The capture of G has ended on all streams. */
void ts_fake_end_capture(const struct CUgraph_st *g);

/* cuda_fake_launch.c counts: what is wrong, with its text, which is printed,
 * too; a copy of memory that is not the runtime's. */
void ts_fake_complain(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
void ts_fake_pageable(void);
int ts_fake_attribute(enum cudaDeviceAttr); /* of the GPU */

/* cuda_fake_image.c: a kernel in binary code; all zero: not known. */
enum { PARAMETERS = 64 };
typedef struct ts_fake_image {
  bool known;
  int registers, most_threads, n_params;
  size_t shared, param_bytes;
  struct {
    size_t at, bytes;
  } param[PARAMETERS];
} ts_fake_image;
void ts_fake_image_read(ts_fake_image *, void **fat, const char *name);

/* cuda_fake_graph.c; under lock.  *DONE: WORK was captured, or may not be. */
cudaError_t ts_fake_capture(cudaStream_t, const ts_work *, bool *done);
/* What is done to a captured event or stream that may not be. */
cudaError_t ts_fake_spoil(struct CUgraph_st *, cudaError_t);
bool ts_fake_capturing(void);             /* any stream is */
void ts_fake_run(struct ts_fake_graph *); /* without the lock */

#endif
