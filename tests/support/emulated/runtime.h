/* runtime.h - what the files of the CUDA runtime without a GPU share. */
#pragma once

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>

#include "tests/support/emulated/emulated.h"

typedef enum {
  COPY,
  SET,
  RECORD,
  WAIT,
  FREE,
  FAULT,
  GRAPH,
  LAUNCH
} ts_work_kind;

/* A kernel that has been launched, or asked about. */
typedef struct ts_kernel {
  const void *address;
  ts_emulated_call *call;
  const size_t *sizes; /* (n) of its parameters */
  int n;
  char name[512]; /* the compiler's */
  size_t raised;  /* bytes of shared memory that were asked for */
  int64_t launches;
  bool has_limits; /* what follows is known */
  int registers, most_threads;
  size_t shared;
  struct ts_kernel *next;
} ts_kernel;

/* A launch, or the work of a library (kernel NULL: RUN with the parameters),
 * with a copy of its parameters; as many items of work have it as USERS, the
 * last of which frees it. */
typedef struct ts_launch {
  ts_kernel *kernel;
  void (*run)(void *);
  dim3 grid, block;
  size_t shared, bytes;
  int users; /* atomic */
  _Alignas(64) unsigned char params[];
} ts_launch;

typedef struct ts_work {
  ts_work_kind kind;
  void *dst;
  const void *src;
  size_t bytes;
  int value;
  struct CUevent_st *event;
  uint64_t number;           /* of the event's record */
  struct ts_graph_work *run; /* GRAPH: a copy of its own */
  ts_launch *launch;
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
  pthread_cond_t go; /* there is more work, or an event was reached */
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
  struct CUevent_st *next; /* of those that are destroyed */
};

extern pthread_mutex_t ts_emulated_lock;
extern ts_emulated_counts ts_emulated_counted; /* under it, as all below */

/* streams.c; keeps E as the thread's last error. */
cudaError_t ts_answer(cudaError_t e);
cudaError_t ts_enqueue(cudaStream_t, ts_work);
/* Work of a library: RUN (a copy of ARG) when STREAM gets to it. */
void ts_emulated_enqueue(cudaStream_t, void (*run)(void *), const void *arg,
                         size_t bytes);
/* A copy, set, call or launch, without the lock. */
void ts_work_do(const ts_work *);
void ts_work_end(const ts_work *); /* what it holds is not needed more */
void ts_streams_settle(void);      /* waits until none is busy */
void ts_capture_ended(const struct CUgraph_st *);
void ts_device_fails(void); /* from now on; without the lock */

/* memory.c; under lock. */
cudaError_t ts_memory_give_out(void **p, size_t bytes, bool device);
void ts_memory_give_back(void *p);
void *ts_memory_addresses(size_t bytes); /* which nobody may touch; or NULL */
bool ts_memory_knows(const void *p, bool *device);
void ts_memory_set(void *p, int byte, size_t bytes); /* without the lock */
/* A look at what WORK names: FRESH, when it is enqueued; else when its stream
 * gets to it. */
void ts_look(const ts_work *, bool fresh);

/* launches.c */
ts_work ts_launch_of(const cudaKernelNodeParams *, cudaError_t *e);
void ts_launch_run(const ts_launch *);
void ts_launch_drop(ts_launch *);

/* gpu.c; complain and complain_locked: without the lock and under it. */
extern ts_emulated_gpu ts_gpu;
void ts_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t ts_order_seed(void);
int ts_fill_byte(void);

/* names.c: the name of the function at P in this program, "" if not known. */
void ts_name_of(char *name, size_t size, const void *p);
/* Registers and shared memory of the kernel as nvcc compiled it, from the file
 * that the build made of cuobjdump's output, or TESSERA_EMULATED_RESOURCES.
 * A kernel that isn't in the file may be launched with any. */
void ts_limits_of(ts_kernel *);

/* graphs.c; under lock.  *DONE: WORK was captured, or may not be. */
cudaError_t ts_capture(cudaStream_t, const ts_work *, bool *done);
/* A call that a captured event or stream does not allow. */
cudaError_t ts_capture_spoil(struct CUgraph_st *, cudaError_t);
bool ts_capturing(void);                   /* any stream is */
void ts_graph_run(struct ts_graph_work *); /* without the lock */
void ts_graph_drop(struct ts_graph_work *);
