/* nccl_group.h - what the calls of the stand-in for NCCL (nccl.c) note down,
 * and what is done about it on the stream (nccl_group.c). */
#pragma once

#include <nccl.h>

#include "tests/support/emulated/nccl_box.h"
#include "tests/support/emulated/runtime.h"

typedef enum ts_op_kind {
  SEND,
  RECV,
  ALL_GATHER,
  ALL_TO_ALL,
  BROADCAST,
  ALL_REDUCE,
  REDUCE_SCATTER
} ts_op_kind;

/* One operation, as it was called. */
typedef struct ts_op {
  ts_op_kind kind;
  const void *from;
  void *to;
  size_t n;
  ncclDataType_t type;
  int peer; /* or root */
  ncclRedOp_t reduce;
} ts_op;

enum { OPS = 2048 };
typedef struct ts_group {
  struct ncclComm *comm;
  cudaStream_t stream;
  int n;
  ts_op op[OPS];
} ts_group;

struct ncclComm {
  char name[64];
  ts_boxes *boxes;
  int rank, size;
  cudaStream_t stream; /* of the first operation */
  pthread_t thread;
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t moved;
  ts_group *begun; /* that the thread is to launch */
  bool stop, aborted, finalized;
  int users; /* the caller, and what is launched */
  int n_collectives;
  ncclResult_t state;
  char said[256];
};

/* A rule was broken: a complaint, and the communicator's error, WHY. */
ncclResult_t ts_nccl_misuse(ncclComm_t, ncclResult_t why, const char *said);
bool ts_nccl_aborted(ncclComm_t);
void ts_nccl_drop(ncclComm_t); /* by one of its users */

/* Exchanges and reduces; GROUP points to a ts_group *, which is freed. */
void ts_nccl_run(void *group);
