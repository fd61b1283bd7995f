/* nccl_box.h - how bytes get from rank to rank of one machine for the stand-in
 * of NCCL: a file of shared memory with a box for each pair of ranks, which
 * holds a part of a message until it is taken. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ts_boxes ts_boxes;

/* The boxes of the SIZE ranks that know NAME; NULL: there is no shared memory.
 * All have come: joined. */
ts_boxes *ts_boxes_open(const char *name, int rank, int size);
bool ts_boxes_joined(const ts_boxes *);
void ts_boxes_close(ts_boxes *);

/* A message to or from PEER.  What it is (WHAT) goes before its bytes. */
typedef struct ts_message {
  int peer;
  bool send;
  void *at;
  size_t bytes, done;
  char what[96];
  bool put, ended; /* all of it lies in the box; is with the other side */
} ts_message;

/* Goes on with M as far as it gets: *MOVED.  False: the other side means
 * another message, which THEIRS (96) says. */
bool ts_message_go(ts_boxes *, ts_message *m, bool *moved, char *theirs);
