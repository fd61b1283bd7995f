/* notes.h - the work of a graph, piece by piece, in the order in which it was
 * enqueued: enough to tell whether a step does the same again, to give
 * launches and copies new arguments, and to enqueue it once more.
 * Private to graph.cu, enqueue.cu and notes.cu. */
#pragma once

#include "cuda/runtime/lane.h"

typedef enum ts_note_kind {
  TS_NOTE_LAUNCH,
  TS_NOTE_COPY,
  TS_NOTE_SET,
  TS_NOTE_CALL,   /* of a library */
  TS_NOTE_RECORD, /* a position of the lane */
  TS_NOTE_WAIT    /* for a position of a lane that takes part */
} ts_note_kind;

typedef struct ts_note {
  ts_note_kind kind;
  ts_cuda_lane *lane;
  const void *what; /* the kernel, the ts_cuda_work, the other lane */
  dim3 grid, block; /* of launches, as the next ones */
  size_t shared_bytes;
  const size_t *sizes;
  int n;
  const char *name;     /* the kernel's */
  size_t at, bytes;     /* its arguments, in the list's */
  cudaGraphNode_t node; /* NULL: can't be given new arguments */
} ts_note;

/* Arguments of the other kinds.  Positions count from where the lane's graph
 * began. */
typedef struct ts_note_copy {
  void *dst;
  const void *src;
  size_t bytes;
} ts_note_copy;
typedef struct ts_note_set {
  void *p;
  size_t byte, bytes;
} ts_note_set;
typedef struct ts_note_position {
  uint64_t seq;
} ts_note_position;

typedef struct ts_notes {
  ts_note *item; /* (n) */
  int n, capacity;
  int next;   /* while it is replayed: the first that has not come yet */
  char *byte; /* (n_bytes) arguments */
  size_t n_bytes, room;
  cudaGraphNode_t *kept; /* (n_kept) */
  int n_kept;
} ts_notes;

void ts_notes_reset(ts_notes *);

/* Puts the arguments of NOTE behind all others, where they stay until the next
 * draft: sets its at and bytes. */
ts_err ts_notes_draft(ts_notes *, ts_note *note, const void *arg, size_t bytes);
ts_err ts_notes_draft_launch(ts_notes *, ts_note *note, const void **value);

/* A draft is the next note of what is replayed: *SAME.  Where its arguments
 * are others EXEC gets them (*CHANGED), if its kind allows. */
void ts_notes_play(ts_notes *, const ts_note *draft, cudaGraphExec_t exec,
                   bool *same, bool *changed);

/* Enqueues a note: a launch for the first time, or once more. */
ts_err ts_note_issue(const ts_notes *, const ts_note *);
/* The draft becomes the last note. */
ts_err ts_notes_add(ts_notes *, const ts_note *draft);
/* Forgets the notes after the first N, but for a draft. */
void ts_notes_cut(ts_notes *, int n, ts_note *draft);

/* The sequence of work without its arguments: graphs of the same shape have
 * the same nodes. */
uint64_t ts_notes_shape(const ts_notes *);

/* Nodes of the graph that an executable is made of name those of the
 * executable, whatever graph it is updated from: keep them, and restore them
 * in notes of the same shape. */
ts_err ts_notes_nodes_keep(ts_notes *);
void ts_notes_nodes_restore(ts_notes *);

/* The node that STREAM, which is captured, was given last; NULL: not known. */
cudaGraphNode_t ts_note_node(cudaStream_t stream);
