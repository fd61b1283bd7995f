/* enqueue.cu - what tasks put on a stream, at once or as notes of a graph. */
#include "cuda/runtime/enqueue.h"

#include "cuda/runtime/graph.h"

ts_err ts_cuda_set(void *p, int byte, size_t bytes, cudaStream_t stream) {
  ts_cuda_lane *lane;
  ts_notes *l = ts_cuda_graph_notes(stream, &lane);
  const ts_note_set set = {p, (unsigned char)byte, bytes};
  if (!bytes) return TS_OK;
  if (!l) return TS_CUDA(cudaMemsetAsync(p, byte, bytes, stream));
  return ts_cuda_graph_note(l, {TS_NOTE_SET, lane}, &set, sizeof set);
}

ts_err ts_cuda_move(void *dst, const void *src, size_t bytes,
                    cudaStream_t stream) {
  ts_cuda_lane *lane;
  ts_notes *l = ts_cuda_graph_notes(stream, &lane);
  const ts_note_copy copy = {dst, src, bytes};
  if (!bytes) return TS_OK;
  if (!l)
    return TS_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream));
  return ts_cuda_graph_note(l, {TS_NOTE_COPY, lane}, &copy, sizeof copy);
}

ts_err ts_cuda_call(ts_cuda_work *work, const void *arg, size_t bytes,
                    cudaStream_t stream) {
  ts_cuda_lane *lane;
  ts_notes *l = ts_cuda_graph_notes(stream, &lane);
  if (!l) return work(arg, stream);
  return ts_cuda_graph_note(l, {TS_NOTE_CALL, lane, (const void *)work}, arg,
                            bytes);
}

ts_err ts_cuda_launch_kernel(const ts_cuda_kernel *k, const void **value) {
  const ts_cuda_shape &s = k->shape;
  ts_cuda_lane *lane;
  ts_notes *l = ts_cuda_graph_notes(s.stream, &lane);
  if (!l)
    return ts_cuda_check(k->site.file, k->site.line,
                         cudaLaunchKernel(k->kernel, s.grid, s.block,
                                          (void **)value, s.shared_bytes,
                                          s.stream),
                         k->site.name);
  ts_note note = {TS_NOTE_LAUNCH, lane,     k->kernel, s.grid,      s.block,
                  s.shared_bytes, k->sizes, k->n,      k->site.name};
  const ts_err err = ts_notes_draft_launch(l, &note, value);
  return err == TS_OK ? ts_cuda_graph_put(&note) : err;
}
