/* alone.c - what is there in libtessera_serve in the place of other ranks and
 * of data: it is one process that reads one file.  Whoever asks these for more
 * has a bug. */
#include <string.h>

#include "base/log.h"
#include "io/source.h"
#include "runtime/comm.h"

static ts_err none(void) {
  return ts_fail(TS_ERR_INTERNAL, "there is one rank");
}

/* Of data that are made a deck names no files. */
const ts_source_ops *ts_source_find(const char *format) {
  static const ts_source_ops made = {.format = "synthetic", .no_files = true};
  return strcmp(format, made.format) ? NULL : &made;
}

ts_err ts_mpi_agree(ts_err err) {
  return err;
}

int ts_world_size(const ts_world *w) {
  (void)w;
  return 1;
}

int ts_world_rank(const ts_world *w) {
  (void)w;
  return 0;
}

ts_err ts_comm_create(ts_world *w, ts_comm **out, ts_group group,
                      const char *name) {
  (void)w, (void)out, (void)group, (void)name;
  return none();
}

void ts_comm_destroy(ts_comm *c) {
  (void)c;
}

ts_err ts_comm_end(ts_token *token, ts_lane *lane) {
  (void)token, (void)lane;
  return none();
}

ts_err ts_comm_all_reduce(ts_comm *c, ts_token *token, void *buf, int64_t n,
                          ts_dtype t, ts_reduction op, ts_lane *after) {
  (void)c, (void)token, (void)buf, (void)n, (void)t, (void)op, (void)after;
  return none();
}

ts_err ts_comm_all_gather_v(ts_comm *c, ts_token *token, void *recv,
                            const void *send, const int64_t *bytes,
                            ts_lane *after) {
  (void)c, (void)token, (void)recv, (void)send, (void)bytes, (void)after;
  return none();
}

ts_err ts_comm_all_to_all_v(ts_comm *c, ts_token *token, void *recv,
                            const int64_t *recv_bytes, const void *send,
                            const int64_t *send_bytes, ts_lane *after) {
  (void)recv, (void)recv_bytes;
  return ts_comm_all_gather_v(c, token, NULL, send, send_bytes, after);
}

ts_err ts_comm_reduce_scatter_v(ts_comm *c, ts_token *token, void *recv,
                                const void *send, const int64_t *counts,
                                ts_dtype t, ts_lane *after) {
  (void)t;
  return ts_comm_all_gather_v(c, token, recv, send, counts, after);
}

/* ---- the log, which is nobody's here --------------------------------------
 */

void ts_note(const char *fmt, ...) {
  (void)fmt;
}

void ts_warn(const char *fmt, ...) {
  (void)fmt;
}
