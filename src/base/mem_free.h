/* mem_free.h - how much memory there is for what can do with less. */
#ifndef TS_BASE_MEM_FREE_H
#define TS_BASE_MEM_FREE_H

#include <stdint.h>

/* Bytes that processes of this node may still take without others, or pages
 * in use, being thrown out: of the machine and of the job's cgroup, the page
 * cache counted as free.  -1: not known. */
int64_t ts_mem_free_bytes(void);

#endif
