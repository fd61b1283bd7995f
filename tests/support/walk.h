/* walk.h - a call that fails at each passage through a point of failure in
 * turn (base/fault.h): the error comes out, and nothing that was made stays. */
#pragma once

#include <glob.h>
#include <hdf5.h>

#include "base/fault.h"
#include "tests/support/harness.h"

/* Bytes, open files and objects of HDF5 that the process holds, in sum. */
static inline int64_t walk_held(void) {
  glob_t open;
  int64_t n = H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL);
  for (int s = 0; s < TS_SPACE_COUNT; s++)
    n += ts_mem_total((ts_space)s).now_bytes;
  ck_assert_int_eq(glob("/proc/self/fd/*", 0, NULL, &open), 0);
  n += (int64_t)open.gl_pathc;
  globfree(&open);
  return n;
}

/* The fault that is armed was met: no later passage meets it. */
static inline bool walk_met(const char *what) {
  for (int i = 0; i < 100000; i++)
    if (ts_fault(what)) return false;
  return true;
}

/* MAKE also ends what it makes.  Each passage through WHAT is an error of one
 * of CODES (bits). */
static inline void walk(ts_err (*make)(void *), void *arg, const char *what,
                        unsigned codes) {
  ck_assert_ok(make(arg)); /* what is kept for later is made now */
  for (int nth = 1, met = 1; met; nth++) {
    char fault[64];
    const int64_t held = walk_held();
    snprintf(fault, sizeof fault, "%s:rank0:nth%d", what, nth);
    ck_assert_ok(ts_fault_set(fault, 0));
    const ts_err err = make(arg);
    met = walk_met(what);
    ck_assert_ok(ts_fault_set(NULL, 0));
    ck_assert_msg(walk_held() == held, "%s: %lld bytes or files stay", fault,
                  (long long)(walk_held() - held));
    ck_assert_msg((met ? codes : 1u << TS_OK) >> err & 1, "%s: code %d: %s",
                  fault, (int)err, ts_err_message());
    ck_assert(met || nth > 1);
    ts_err_clear();
  }
}
