/* fake_device.h - a device with memory that the host may not touch, and a
 * library that moves it between ranks: for tests of what GPUs need, without
 * one.
 *
 * Device memory is mapped twice: where everyone knows it nothing may be read
 * or written, which ends the program; lane tasks use the other mapping. */
#pragma once

#include "runtime/comm_wire.h"
#include "runtime/device.h"
#include "kernel_table.h"

typedef struct ts_fake_options {
  const char *name; /* of the backend whose place it takes; NULL: "fake" */
  bool serial;
  bool asked;            /* events can't be watched, only asked for */
  char id[TS_DEVICE_ID]; /* the device's name of its own */
  int slow_us;           /* what a copy takes at most */
  double timeout_s;
} ts_fake_options;

ts_err ts_fake_create(ts_device **, const ts_fake_options *);
/* It in the place of backend "cuda", for ts_backend_replace. */
extern const struct ts_backend ts_fake_backend;
/* The host's kernels, which alone may touch the device's memory, and only
 * while they run.  ISA as for ts_kernels_fill. */
ts_err ts_fake_kernels(ts_kernels *, const char *isa);
extern int ts_fake_restored; /* choices of products that came back so far */
/* The host's kernels, which then know rows in two places, too. */
void ts_fake_lines(ts_kernels *host);
/* Copies of this name take so much longer; NULL: none. */
typedef struct ts_fake_late_copies {
  const char *span;
  int us;
} ts_fake_late_copies;
extern ts_fake_late_copies ts_fake_late;
/* Device memory, zeroed; NULL for 0 bytes. */
ts_err ts_fake_alloc(void **p, size_t bytes, ts_tag);
void ts_fake_free(void *p, size_t bytes, ts_tag);
bool ts_fake_has(const void *p); /* P is device memory */
/* The other address of P; of the host's memory its own. */
void *ts_fake_alias(const void *p);
/* From open to close kernels run; counted. */
void ts_fake_open(bool open);
int ts_fake_n_blocks(void); /* not yet freed */

/* Messages travel in a world of their own, started and stopped collectively. */
void ts_fake_wire_start(int ranks_per_node);
void ts_fake_wire_stop(void);
extern const ts_wire_ops ts_fake_wire;
/* Faults made on purpose, and what was seen of them. */
typedef struct ts_fake_state {
  bool hang, broken;             /* nothing is ever enqueued; polls fail */
  int n_aborts, n_groups, n_bad; /* n_bad: begun while busy */
  int n_waits;                   /* of lane "compute" for other lanes */
  uint64_t order;                /* a hash of the order of launches */
} ts_fake_state;
extern ts_fake_state ts_fake;
