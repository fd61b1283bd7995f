/* mem_free.h - how much memory there is for what can do with less.
 * All of it is Local. */
#pragma once

#include <stdint.h>

/* Bytes that processes of this node may still take together: of the machine
 * and of the job's control groups, the page cache counted as free.  -1: not
 * known. */
int64_t ts_mem_free_bytes(void);
/* Bytes that this process may still take by its own limits (ulimit -v, -d);
 * -1: it has none. */
int64_t ts_mem_left_bytes(void);
