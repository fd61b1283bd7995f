/* emulated.h - backend "emulated": cuda/ as it is, compiled by g++, over a CUDA
 * runtime without a GPU.  A stream is a thread; a launch runs the kernel's
 * threads on it, one after the other (simt.cc); memory of the GPU is memory of
 * the host at addresses that are used once.  cuBLASLt and NCCL are stand-ins
 * that hold to their rules (cublas.c, nccl.c).
 *
 * What a GPU would refuse or fault on is a complaint: it is printed and
 * counted, and a kernel that goes wrong is a fault of the device. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ts_backend;
extern const struct ts_backend ts_backend_emulated;
/* The same by the name "cuda", for ts_backend_replace. */
extern const struct ts_backend ts_backend_emulated_cuda;

/* ---- what it is ---------------------------------------------------------- */

/* A member that is 0: an H200's. */
typedef struct ts_emulated_gpu {
  int n_sms;        /* 132 */
  int grid_max;     /* blocks in x, for who asks: 2^31 - 1 */
  int shared_bytes; /* that a block may ask for: 232448 */
  int capability;   /* 10 * major + minor: 90 */
  int n_gpus;       /* that are visible: 8, or TESSERA_FAKE_GPUS */
  bool no_pools;    /* in the order of streams */
  bool reads_pages; /* of the host, by itself */
} ts_emulated_gpu;
/* No launch may be under way.  NULL: an H200. */
void ts_emulated_set_gpu(const ts_emulated_gpu *);

/* Draws the order of blocks, warps and lanes; 0: as they are numbered.  At the
 * start of the program it is ts_emulated_seed: TESSERA_EMULATED_SEED, or 1. */
void ts_emulated_set_order(uint64_t seed);
uint64_t ts_emulated_seed(void);
/* Sets the byte that fills fresh device memory; 0x5a before. */
void ts_emulated_set_fill(int byte);

/* ---- what has come to pass ----------------------------------------------- */

typedef struct ts_emulated_counts {
  int64_t blocks;      /* of memory that are out */
  int streams, events; /* that exist */
  int events_most;     /* at once, so far */
  int device;          /* of the last cudaSetDevice */
  int graphs;          /* that have been run */
  int captures;        /* of streams, so far */
  int64_t launches;    /* calls, captured ones included, not runs */
  int by_default;      /* uses of the default stream, so far */
  int64_t pageable;    /* copies that CUDA makes the host wait for */
  int64_t to_host;     /* bytes of copies from device memory to other, so far */
  int64_t complaints;
  char complaint[512]; /* the first of those */
} ts_emulated_counts;
ts_emulated_counts ts_emulated_now(void);
/* Launches of kernels with NAME in their names, so far; NULL: of all. */
int64_t ts_emulated_launches(const char *name);
/* Forgets complaints and heals faults. */
void ts_emulated_forgive(void);

/* ---- streams ------------------------------------------------------------- */

/* While it is held, STREAM doesn't get on; NULL: none is. */
void ts_emulated_hold(void *stream);
/* Copies, sets and launches that the held STREAM has not done never are; it is
 * held no more. */
void ts_emulated_drop(void *stream);
/* The stream that was created last; that of a lane. */
void *ts_emulated_stream(void);
struct ts_lane;
void *ts_emulated_stream_of(struct ts_lane *);
/* A fault of the device, as of a kernel, when STREAM gets to it: every call
 * fails from then on, until heal. */
void ts_emulated_fault(void *stream);
void ts_emulated_heal(void);
/* Waits until STREAM has done all of its work, whatever came of it. */
void ts_emulated_drain(void *stream);

/* The next launch of a communicator here is lost, as where a rank is gone:
 * an error of the communicator, and the others wait until they abort. */
void ts_emulated_nccl_fail(void);

#ifdef __cplusplus
}
#endif
