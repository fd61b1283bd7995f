/* layers.h - what the contracts of layers' kernels share: numbers that are
 * expected, from formulas in double that know nothing of the kernels.
 *
 * The oracle and who is tested both have to come close to them; what nothing
 * is expected of stays, bit for bit; and all runs of one who is tested (other
 * threads, another GPU) leave the same bits. */
#pragma once

#include "tests/support/contract.h"

/* Floats or doubles (SIZE 4, 8) that are written.  Until lt_begin. */
void lt_begin(void);
void *lt_out(int64_t n, size_t size);
/* The array at P, which came from kt_floats, is written, too. */
void lt_over(const void *p, int64_t n, size_t size);
/* Number AT of P is WANT, but for 4e-6 OF; of 0: the same float. */
void lt_want(const void *p, int64_t at, double want, double of);
void lt_check(kt_call *, const void *arg);
/* A double of the numbers [-1, 1) times OF. */
float lt_number(float of);
float *lt_numbers(int64_t n, float of);
