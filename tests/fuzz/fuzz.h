/* fuzz.h - what the fuzzers share: one rank, a comm of it, a file to read.
 *
 * Each fuzz_NAME.c gives its input to the reader of one format, as the
 * program would, and throws away what comes of it: the sanitizers watch.
 * libFuzzer has the main program. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/config.h"
#include "base/err.h"
#include "io/source.h"
#include "runtime/comm.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The communicator of the one rank, made when it is first asked for. */
ts_comm *fuzz_comm(void);
/* NAME in a folder of this process. */
const char *fuzz_path(const char *name);
/* The input as file NAME in that folder. */
const char *fuzz_file(const char *name, const void *data, size_t size);
/* A deck that is right. */
ts_config *fuzz_deck(const char *text, const char *const *sets, int n_sets);
/* Opens data.train (STATE: of another source, or NULL), reads all of it in
 * batches of 7 and closes it; what the source knows goes to *SAVED, unless it
 * is NULL. */
ts_err fuzz_read(const ts_config *, const char *state, char **saved);

/* COND has to hold, whatever the input. */
#define FUZZ_CHECK(cond)                                                       \
  do {                                                                         \
    if (!(cond)) {                                                             \
      fprintf(stderr, "%s:%d: not so: %s; %s\n", __FILE__, __LINE__, #cond,    \
              ts_err_message());                                               \
      abort();                                                                 \
    }                                                                          \
  } while (0)
