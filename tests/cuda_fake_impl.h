/* cuda_fake_impl.h - what the files of the fake CUDA runtime share. */
#ifndef TS_TESTS_CUDA_FAKE_IMPL_H
#define TS_TESTS_CUDA_FAKE_IMPL_H

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "cuda_fake.h"

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
/* cuda_fake_kernels.c: a launch, and its kind of work. */
void ts_fake_launch(const ts_work *);
ts_work ts_fake_launch_of(const void *kernel, void **value);
/* Copies, sets and launches, without the lock. */
void ts_fake_move(const ts_work *);
cudaError_t ts_fake_enqueue(cudaStream_t, ts_work);
/* True for memory of cudaMalloc and cudaHostAlloc. */
bool ts_fake_knows(const void *p, bool *device);

/* The capture of G has ended on all streams. */
void ts_fake_end_capture(const struct CUgraph_st *g);

/* cuda_fake_graph.c; under lock.  *DONE: WORK was captured, or may not be. */
cudaError_t ts_fake_capture(cudaStream_t, const ts_work *, bool *done);
/* What is done to a captured event or stream that may not be. */
cudaError_t ts_fake_spoil(struct CUgraph_st *, cudaError_t);
bool ts_fake_capturing(void);             /* any stream is */
void ts_fake_run(struct ts_fake_graph *); /* without the lock */

#endif
