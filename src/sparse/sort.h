/* sort.h - the host's kernel "sort"; see kernel_table.h.
 * All of it is Local. */
#pragma once

#include "kernel_table.h"

/* Scratch of a sort on so many threads; it may hold anything. */
size_t ts_sort_work_bytes(int n_threads);
ts_err ts_sort_host(const ts_sort_args *);
