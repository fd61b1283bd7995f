/* mem_stream.h - copies of what nobody reads soon. */
#pragma once

#include <stddef.h>

/* As memcpy, past the caches where the machine can: memory is not read before
 * it is written over, and what the caches hold stays there.  Local. */
void ts_mem_stream(void *to, const void *from, size_t n);

/* Has the system give the pages of N bytes at P now, instead of one by one
 * when they are first written to; the content stays.  On N_THREADS.  Local. */
void ts_mem_touch(void *p, size_t n, int n_threads);
