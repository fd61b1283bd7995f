/* folder.h - a world and a folder of all its ranks, for each test of a file. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/harness.h"

static ts_fixture f;
static char dir[64];

static inline void folder_start(void) {
  ts_fixture_start(&f, false, 1);
  strcpy(dir, "/tmp/tessera-test-XXXXXX");
  if (f.rank == 0) ck_assert_ptr_nonnull(mkdtemp(dir));
  ck_assert_ok(ts_comm_bcast(f.comm, dir, sizeof dir, 0));
}

static inline void folder_stop(void) {
  char command[96];
  ck_assert_ok(ts_comm_barrier(f.comm));
  snprintf(command, sizeof command, "rm -rf %s", dir);
  ck_assert(f.rank != 0 || system(command) == 0);
  ts_fixture_stop(&f);
}
