/* cuda_dense.h - the tests of the GPU's kernels of the dot interaction, cross
 * layers, factorisation machines and rows side by side, against the host's and
 * sums in double; where they run is a target's: the CPU
 * (tests/kernels/dense_emulated.cc) or a GPU. */
#ifndef TS_TESTS_CUDA_DENSE_H
#define TS_TESTS_CUDA_DENSE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "runtime/kernels.h"

typedef struct dense_target {
  void (*kernels)(ts_kernels *);
  /* TASK where kernels run, to the end. */
  ts_err (*run)(ts_err (*task)(void *), void *arg);
  /* A copy of BYTES where kernels can see it; what it holds now; its end. */
  void *(*send)(const void *, size_t bytes);
  void (*fetch)(void *to, const void *sent, size_t bytes);
  void (*drop)(void *sent);
  /* The GPU that there would be, from large to tiny: results are the same. */
  int n_machines;
  void (*set_machine)(int i);         /* NULL: can't be set */
  void (*start)(void), (*stop)(void); /* around all tests, or NULL */
} dense_target;

extern const dense_target dense_emulated;
#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include "tests/support/harness.h"

Suite *cuda_dense_suite(const char *name, const dense_target *);
/* Of cuda_dense_rows.c: cross layers, machines, rows side by side. */
TCase *cuda_dense_rows(void);

/* ---- a case's memory: one block, of which every run has a copy ----------- */

/* The host's kernels, plain C; the target's. */
extern ts_kernels dense_host, dense_tested;

void dense_begin(void);
/* BYTES whose start is OFF bytes behind a border of 256; where in the block. */
size_t dense_take(int64_t bytes, int off);
/* N numbers of f32, or of bf16, some of them zeros or denormals. */
size_t dense_take_floats(int64_t n, int off);
size_t dense_take_halves(int64_t n, int off);
/* What the block held before any run, and after the host's or the target's. */
const char *dense_was(void);
char *dense_of_host(void);
char *dense_of_target(void);

/* TASK (BASE, ARG) by the host's kernels on a copy of the block at BASE, then
 * by the target's on each of its machines, whose results are the same. */
typedef ts_err dense_task(const ts_kernels *, char *base, const void *arg);
void dense_run(dense_task *, const void *arg);
/* Both left the same bytes, gaps between arrays included; on_target: bytes
 * [AT, AT + BYTES) are the target's own business. */
void dense_forgive(size_t at, size_t bytes);
void dense_same(const char *what);
#endif

#endif
