/* err.h - error codes, messages and the one way to pass them up.
 *
 * Every function that can fail returns a ts_err.  The function that finds
 * the fault calls ts_fail(), which writes one message for the user into the
 * calling thread's error record together with file and line; everything
 * above it only passes the code on with TS_TRY or TS_DO.  A worker thread hands
 * its record over with ts_err_take() / ts_err_put().
 *
 * Nothing here communicates; ranks agree with ts_agree() (runtime/comm.h).
 * All of it is Local. */
#pragma once

#include <errno.h>
#include <string.h>

/* X(name, exit code of the program, short text) */
#define TS_ERR_LIST(X)                                                         \
  X(OK, 0, "no error")                                                         \
  X(INTERNAL, 1, "internal error")                                             \
  X(NOMEM, 1, "out of memory")                                                 \
  X(IO, 1, "input/output error")                                               \
  X(DECK, 2, "error in the deck")                                              \
  X(USAGE, 2, "error on the command line")                                     \
  X(DATA, 3, "error in the input data")                                        \
  X(NAN, 3, "loss is not a number")                                            \
  X(CKPT, 4, "error in a checkpoint")                                          \
  X(COMM, 5, "communication error")                                            \
  X(FAULT, 6, "fault of a processor or memory")                                \
  X(STOPPED, 75, "stopped early, can be resumed")

typedef enum {
#define TS_ERR_ENUM(name, code, text) TS_ERR_##name,
  TS_ERR_LIST(TS_ERR_ENUM)
#undef TS_ERR_ENUM
      TS_ERR_COUNT
} ts_err;

#define TS_OK TS_ERR_OK
#define TS_ERR_TEXT_MAX 4096

/* One fault: its code, the user's message, where it was found. */
typedef struct ts_err_record {
  ts_err code;
  int line;
  int agreed; /* all ranks have it: ts_agree */
  const char *file;
  char text[TS_ERR_TEXT_MAX];
} ts_err_record;

/* Documented exit code of the program for ERR: 0 to 6 or 75. */
int ts_err_exit_code(ts_err err);

/* Short text of ERR from the list above; never NULL. */
const char *ts_err_name(ts_err err);

/* Records a fault in the calling thread unless one is already recorded (the
 * first one counts) and returns CODE.  Use the macro ts_fail. */
ts_err ts_err_fail(const char *file, int line, ts_err code, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));
#define ts_fail(code, ...) ts_err_fail(__FILE__, __LINE__, code, __VA_ARGS__)
/* "PATH: errno in words", after a call of the system for the file PATH. */
#define ts_fail_errno(code, path) ts_fail(code, "%s: %s", path, strerror(errno))

/* The calling thread's message, "" where none is recorded. */
const char *ts_err_message(void);

/* Whether the calling thread's record is one that all ranks have. */
int ts_err_agreed(void);
/* Whether ERR may be this rank's alone: memory, communication, input and
 * output and internal errors are, unless the ranks have agreed on them. */
int ts_err_is_own(ts_err err);

/* Moves the calling thread's record to *OUT and clears it. */
void ts_err_take(ts_err_record *out);

/* Makes *IN the calling thread's record unless it already has one. */
void ts_err_put(const ts_err_record *in);

/* Forgets the calling thread's record: the caller deals with the fault. */
void ts_err_clear(void);

/* Calls CALL; on an error keeps its code in the local variable `err` and
 * goes to the label `done`, where the function cleans up and returns err. */
#define TS_TRY(call)                                                           \
  do {                                                                         \
    err = (call);                                                              \
    if (err != TS_OK) goto done;                                               \
  } while (0)

/* As TS_TRY(ts_fail(...)): records, sets err, goes to done. */
#define TS_THROW(code, ...)                                                    \
  do {                                                                         \
    err = ts_fail(code, __VA_ARGS__);                                          \
    goto done;                                                                 \
  } while (0)

/* Calls CALL; returns its error, where it has one: for functions that have
 * nothing to clean up. */
#define TS_DO(call)                                                            \
  do {                                                                         \
    const ts_err ts_do_err = (call);                                           \
    if (ts_do_err != TS_OK) return ts_do_err;                                  \
  } while (0)
