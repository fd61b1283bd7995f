/* contract.h - the contract of a family of kernels (tests/kernels/X.c), the
 * same for every backend (TESSERA_BACKEND).
 *
 * A case makes its arrays with kt_array and fills them.  kt_check calls the
 * kernels twice and more: first the oracle, the host's plain C, on a copy of
 * all arrays, then what is tested, on copies of its own: on the host each
 * version of the kernels that the CPU has, on 1 to 3 threads; on "emulated"
 * GPUs from large to tiny; under sanitizers one number of threads and one GPU
 * of these, drawn for each case.  All that they leave has to be the oracle's
 * bytes, those around the arrays included, unless kt_compare says otherwise. */
#pragma once

#include "tests/support/sparse_util.h"

/* ---- numbers: the same in each run of a test ----------------------------- */

uint32_t kt_bits(void);
int32_t kt_below(int32_t n);
/* A zero, a denormal, an infinity, NaN, the largest, a tie of a 16-bit type. */
float kt_special(void);
/* 2^LOW <= |x| < 2^HIGH. */
float kt_number(int low, int high);
/* 2^-16 to 2^8 of either sign or none; 2^-20 to 2^20, 1 of 64 special; [-1, 1],
 * 1 of 16 a zero, a denormal or 1. */
typedef enum { KT_PLAIN, KT_POSITIVE, KT_SPECIAL, KT_UNIT } kt_numbers;
float kt_some(kt_numbers);

/* ---- arrays -------------------------------------------------------------- */

/* Gives back all arrays. */
void kt_begin(void);
/* N elements of SIZE, any bits, whose start is OFF bytes behind a border of
 * 256: memory of the host.  Nothing lies close behind it that a sanitizer
 * would take for the array. */
void *kt_array(int64_t n, size_t size, int off);
float *kt_floats(int64_t n, int off, kt_numbers);
/* An OFF on a border of a vector, or not. */
int kt_off(void);
/* The same with the elements at FROM; NULL of NULL. */
void *kt_copy(const void *from, int64_t n, size_t size);
void *kt_zeros(int64_t n, size_t size);
/* The host's memory in every run: kernels reach it (ts_device_reach). */
void *kt_reached(int64_t n, size_t size);

typedef enum {
  KT_BITS,
  KT_ANY_NAN, /* floats; one NaN is as good as another */
  KT_NEAR, /* floats, doubles: the host's vector versions round another way */
  KT_OWN   /* not compared: kt_look does, or nobody */
} kt_how;
void kt_compare(const void *array, kt_how);
/* An array that is not compared: the kernels write it afresh. */
void *kt_own(int64_t n, size_t size);
/* Called after each run that is tested, with kt_ref and kt_got. */
void kt_look(void (*look)(const void *arg));

/* ---- runs ---------------------------------------------------------------- */

/* Calls kernels of the table; every pointer into an array goes through kt_at.
 * It runs in a task of a lane. */
typedef ts_err kt_call(const ts_kernels *, const void *arg);
void kt_check(kt_call *, const void *arg);
/* The same where the kernels refuse. */
void kt_refused(kt_call *, const void *arg, ts_err, const char *words);

/* In a call: the run's own place of P, which points into an array; NULL of
 * NULL.  kt_host: of reached memory, where the host has it. */
void *kt_at(const void *p);
void *kt_host(const void *p);
#define KT_AT(p) ((p) = kt_at(p))
/* The same for every pointer into an array among the BYTES at P. */
void kt_at_all(void *p, size_t bytes);
/* A call of one entry, with arguments of a type. */
#define KT_CALL(name, entry, type)                                             \
  static ts_err name(const ts_kernels *k, const void *arg) {                   \
    type a = *(const type *)arg;                                               \
    kt_at_all(&a, sizeof a);                                                   \
    return k->entry(&a);                                                       \
  }
/* The same twice, with a and again of a CASE: a second run has to give the
 * first one's bits. */
#define KT_CALL_TWICE(name, entry, kase)                                       \
  static ts_err name(const ts_kernels *k, const void *arg) {                   \
    const kase *c = arg;                                                       \
    ts_err err = TS_OK;                                                        \
    for (int i = 0; i < 2 && err == TS_OK; i++) {                              \
      __typeof__(((kase *)0)->a) a = i ? c->again : c->a;                      \
      kt_at_all(&a, sizeof a);                                                 \
      err = k->entry(&a);                                                      \
    }                                                                          \
    return err;                                                                \
  }
/* In a call: all arrays are as they were when the oracle was here. */
void kt_step(const ts_kernels *, const char *what);

/* P's array as the oracle, or the tested kernel, has left it. */
void *kt_ref(const void *p);
void *kt_got(const void *p);
/* Who is being tested. */
const char *kt_who(void);
/* In a call: BYTES at P as pinned memory that stays to the run's end. */
void *kt_pin(const void *p, size_t bytes);
/* In a call: this run's memory is not the host's. */
bool kt_apart(void);
/* The tested kernels' isa is NAME. */
bool kt_is(const char *isa);
/* GPUs with less shared memory than that have no room for the case; until
 * kt_begin. */
void kt_least_shared(int bytes);
/* Launches of kernels with NAME in their names since the start; -1: nobody
 * counts them. */
int64_t kt_launches(const char *name);

/* ---- the program --------------------------------------------------------- */

/* The tests of the file that follow are a contract of KERNELS, entries of the
 * table: KT_CONTRACT("lookup weight_grad"); a backend that lacks one is skipped
 * (77), with its name. */
#define KT_CONTRACT(kernels) TS_BEFORE_MAIN(kt_contract(kernels))
void kt_contract(const char *kernels);
