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

/* The fault that is armed at passage NTH was met: no later one meets it, and
 * had there been fewer, one of as many more would. */
static inline bool walk_met(const char *what, int nth) {
  for (int i = 0; i < nth; i++)
    if (ts_fault(what)) return false;
  return true;
}

/* MAKE, where passage NTH through WHAT fails: an error of one of CODES (bits),
 * and nothing stays.  False where it came to no such passage. */
static inline bool walk_one(ts_err (*make)(void *), void *arg, const char *what,
                            int nth, unsigned codes) {
  char fault[64];
  const int64_t held = walk_held();
  snprintf(fault, sizeof fault, "%s:rank0:nth%d", what, nth);
  ck_assert_ok(ts_fault_set(fault, 0));
  const ts_err err = make(arg);
  const bool met = walk_met(what, nth);
  ck_assert_ok(ts_fault_set(NULL, 0));
  ck_assert_msg(walk_held() == held, "%s: %lld bytes or files stay", fault,
                (long long)(walk_held() - held));
  ck_assert_msg((met ? codes : 1u << TS_OK) >> err & 1, "%s: code %d: %s",
                fault, (int)err, ts_err_message());
  ts_err_clear();
  return met;
}

/* MAKE also ends what it makes.  Each passage through WHAT fails in turn. */
static inline void walk(ts_err (*make)(void *), void *arg, const char *what,
                        unsigned codes) {
  int nth = 1;
  ck_assert_ok(make(arg)); /* what is kept for later is made now */
  while (walk_one(make, arg, what, nth, codes)) nth++;
  ck_assert_int_gt(nth, 1);
}

/* How often MAKE passes through WHAT. */
static inline int walk_count(ts_err (*make)(void *), void *arg,
                             const char *what) {
  enum { MOST = 1000000 };
  char fault[64];
  int left = 0;
  snprintf(fault, sizeof fault, "%s:rank0:nth%d", what, MOST);
  ck_assert_ok(ts_fault_set(fault, 0));
  ck_assert_ok(make(arg));
  while (!ts_fault(what)) left++;
  ck_assert_ok(ts_fault_set(NULL, 0));
  return MOST - 1 - left;
}

/* PLACES of its passages, from the first to the last, fail in turn: all where
 * there are no more. */
static inline void walk_some(ts_err (*make)(void *), void *arg,
                             const char *what, int places, unsigned codes) {
  ck_assert_ok(make(arg));
  const int n = walk_count(make, arg, what);
  for (int i = 0; i < (n < places ? n : places); i++)
    walk_one(make, arg, what, n < places ? i + 1 : 1 + i * n / places, codes);
}
