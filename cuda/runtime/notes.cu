/* notes.cu - the work of a graph, piece by piece. */
#include "cuda/runtime/notes.h"

#include <string.h>

#include "cuda/runtime/enqueue.h"

enum {
  ALIGN = 16,    /* of each argument */
  ARGS_MOST = 64 /* of a launch */
};

void ts_notes_reset(ts_notes *l) {
  ts_mem_free(l->item);
  ts_mem_free(l->byte);
  ts_mem_free(l->kept);
  memset(l, 0, sizeof *l);
}

/* ---- arguments ----------------------------------------------------------- */

static size_t room_of(size_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static ts_err reserve(ts_notes *l, ts_note *note, size_t bytes) {
  const size_t need = l->n_bytes + bytes;
  if (need > l->room) {
    const size_t room = need + need / 2 + 4096;
    TS_DO(ts_mem_resize(&l->byte, l->room, room, TS_TAG_MISC));
    l->room = room;
  }
  note->at = l->n_bytes;
  note->bytes = bytes;
  return TS_OK;
}

ts_err ts_notes_draft(ts_notes *l, ts_note *note, const void *arg,
                      size_t bytes) {
  const ts_err err = reserve(l, note, room_of(bytes));
  if (err != TS_OK) return err;
  memcpy(l->byte + note->at, arg, bytes);
  memset(l->byte + note->at + bytes, 0, note->bytes - bytes);
  return TS_OK;
}

ts_err ts_notes_draft_launch(ts_notes *l, ts_note *note, const void **value) {
  size_t bytes = 0;
  if (note->n > ARGS_MOST)
    return ts_fail(TS_ERR_INTERNAL, "a launch with %d arguments", note->n);
  for (int i = 0; i < note->n; i++) bytes += room_of(note->sizes[i]);
  const ts_err err = reserve(l, note, bytes);
  if (err != TS_OK) return err;
  char *at = l->byte + note->at;
  for (int i = 0; i < note->n; i++) {
    const size_t size = note->sizes[i], room = room_of(size);
    memcpy(at, value[i], size);
    memset(at + size, 0, room - size);
    at += room;
  }
  return TS_OK;
}

/* Where a launch's arguments are, as CUDA wants to be told. */
static void spread(void **value, const ts_note *note, char *byte) {
  char *at = byte + note->at;
  for (int i = 0; i < note->n; i++) {
    value[i] = at;
    at += room_of(note->sizes[i]);
  }
}

/* ---- new arguments ------------------------------------------------------- */

static cudaError_t renew_launch(cudaGraphExec_t exec, cudaGraphNode_t node,
                                const ts_note *note, char *byte) {
  void *value[ARGS_MOST + 1];
  cudaKernelNodeParams p = {};
  spread(value, note, byte);
  p.func = (void *)note->what;
  p.gridDim = note->grid;
  p.blockDim = note->block;
  p.sharedMemBytes = (unsigned)note->shared_bytes;
  p.kernelParams = value;
  return cudaGraphExecKernelNodeSetParams(exec, node, &p);
}

static cudaError_t renew_set(cudaGraphExec_t exec, cudaGraphNode_t node,
                             const ts_note_set *s) {
  cudaMemsetParams p = {};
  p.dst = s->p;
  p.value = (unsigned)s->byte;
  p.elementSize = 1;
  p.width = s->bytes;
  p.height = 1;
  return cudaGraphExecMemsetNodeSetParams(exec, node, &p);
}

static bool renew(cudaGraphExec_t exec, cudaGraphNode_t node,
                  const ts_note *note, char *byte) {
  cudaError_t e = cudaErrorNotSupported;
  const ts_note_copy *c = (const ts_note_copy *)(byte + note->at);
  if (!node) return false;
  if (note->kind == TS_NOTE_LAUNCH)
    e = renew_launch(exec, node, note, byte);
  else if (note->kind == TS_NOTE_COPY)
    e = cudaGraphExecMemcpyNodeSetParams1D(exec, node, c->dst, c->src, c->bytes,
                                           cudaMemcpyDefault);
  else if (note->kind == TS_NOTE_SET)
    e = renew_set(exec, node, (const ts_note_set *)(byte + note->at));
  else
    return false;
  return ts_cuda_ok(e);
}

static bool is_size(dim3 a, dim3 b) {
  return a.x == b.x && a.y == b.y && a.z == b.z;
}

void ts_notes_play(ts_notes *l, const ts_note *draft, cudaGraphExec_t exec,
                   bool *same, bool *changed) {
  ts_note *note = &l->item[l->next];
  *same = *changed = false;
  if (l->next == l->n || note->kind != draft->kind ||
      note->lane != draft->lane || note->what != draft->what ||
      note->bytes != draft->bytes)
    return;
  *changed = !is_size(note->grid, draft->grid) ||
             !is_size(note->block, draft->block) ||
             note->shared_bytes != draft->shared_bytes ||
             memcmp(l->byte + note->at, l->byte + draft->at, note->bytes) != 0;
  *same = !*changed || renew(exec, note->node, draft, l->byte);
  if (!*same) return;
  if (*changed) {
    memcpy(l->byte + note->at, l->byte + draft->at, note->bytes);
    note->grid = draft->grid;
    note->block = draft->block;
    note->shared_bytes = draft->shared_bytes;
  }
  l->next++;
}

/* ---- work ---------------------------------------------------------------- */

/* Records the event of position SEQ of L, or makes STREAM wait for it. */
static cudaError_t with_event(ts_cuda_lane *l, uint64_t seq,
                              cudaStream_t stream, bool record) {
  cudaError_t e = cudaSuccess;
  pthread_mutex_lock(&l->lock);
  cudaEvent_t event =
      (cudaEvent_t)ts_event_ring_find(&l->ring, l->ring.asked + seq);
  if (event)
    e = record ? cudaEventRecord(event, stream)
               : cudaStreamWaitEvent(stream, event, 0);
  pthread_mutex_unlock(&l->lock);
  return e;
}

ts_err ts_note_issue(const ts_notes *l, const ts_note *note) {
  void *value[ARGS_MOST + 1];
  const cudaStream_t stream = note->lane->stream;
  char *arg = l->byte + note->at;
  const ts_note_copy *c = (const ts_note_copy *)arg;
  const ts_note_set *s = (const ts_note_set *)arg;
  const ts_note_position *p = (const ts_note_position *)arg;
  switch (note->kind) {
  case TS_NOTE_LAUNCH:
    spread(value, note, l->byte);
    return ts_cuda_check(__FILE__, __LINE__,
                         cudaLaunchKernel(note->what, note->grid, note->block,
                                          value, note->shared_bytes, stream),
                         note->name);
  case TS_NOTE_COPY:
    return TS_CUDA(
        cudaMemcpyAsync(c->dst, c->src, c->bytes, cudaMemcpyDefault, stream));
  case TS_NOTE_SET:
    return TS_CUDA(cudaMemsetAsync(s->p, (int)s->byte, s->bytes, stream));
  case TS_NOTE_CALL:
    return ((ts_cuda_work *)note->what)(arg, stream);
  case TS_NOTE_RECORD:
    return TS_CUDA(with_event(note->lane, p->seq, stream, true));
  case TS_NOTE_WAIT:
    return TS_CUDA(
        with_event((ts_cuda_lane *)note->what, p->seq, stream, false));
  }
  return TS_OK;
}

/* ---- the list ------------------------------------------------------------ */

ts_err ts_notes_add(ts_notes *l, const ts_note *draft) {
  if (l->n == l->capacity) {
    const int capacity = 2 * l->capacity + 64;
    TS_DO(ts_mem_resize(&l->item, (size_t)l->capacity * sizeof *l->item,
                        (size_t)capacity * sizeof *l->item, TS_TAG_MISC));
    l->capacity = capacity;
  }
  l->item[l->n++] = *draft;
  l->n_bytes = draft->at + draft->bytes;
  return TS_OK;
}

void ts_notes_cut(ts_notes *l, int n, ts_note *draft) {
  if (n < l->n) l->n_bytes = l->item[n].at;
  l->n = l->next = n;
  if (!draft) return;
  memmove(l->byte + l->n_bytes, l->byte + draft->at, draft->bytes);
  draft->at = l->n_bytes;
}

/* FNV-1a */
static void mix(uint64_t *h, const void *p, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    *h = (*h ^ ((const unsigned char *)p)[i]) * UINT64_C(1099511628211);
}

uint64_t ts_notes_shape(const ts_notes *l) {
  uint64_t h = UINT64_C(14695981039346656037);
  for (int i = 0; i < l->n; i++) {
    const ts_note *note = &l->item[i];
    mix(&h, &note->kind, sizeof note->kind);
    mix(&h, &note->lane, sizeof note->lane);
    mix(&h, &note->what, sizeof note->what);
    /* Who waits for what is part of the order. */
    if (note->kind == TS_NOTE_RECORD || note->kind == TS_NOTE_WAIT)
      mix(&h, l->byte + note->at, sizeof(ts_note_position));
  }
  return h;
}

ts_err ts_notes_nodes_keep(ts_notes *l) {
  ts_mem_free(l->kept);
  l->kept = NULL;
  l->n_kept = 0;
  TS_DO(ts_mem_array(&l->kept, l->n, sizeof *l->kept, TS_TAG_MISC));
  for (int i = 0; i < l->n; i++) l->kept[i] = l->item[i].node;
  l->n_kept = l->n;
  return TS_OK;
}

void ts_notes_nodes_restore(ts_notes *l) {
  for (int i = 0; i < l->n; i++)
    l->item[i].node = i < l->n_kept ? l->kept[i] : NULL;
}

cudaGraphNode_t ts_note_node(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t *last = NULL;
  size_t n = 0;
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData *edges = NULL; /* plain ones only if not asked for */
  const cudaError_t e =
      cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &last, &edges, &n);
#elif CUDART_VERSION >= 12000
  const cudaError_t e =
      cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &last, &n);
#else
  const cudaError_t e =
      cudaStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, &last, &n);
#endif
  return ts_cuda_ok(e) && status == cudaStreamCaptureStatusActive && n == 1
             ? last[0]
             : NULL;
}
