/* entries.cu - the kernels of sparse/entries.h on the GPU
 * (cuda/sparse/entries_kernels.cuh). */
#include "cuda/runtime/stream_run.cuh"

#include "cuda/sparse/entries_launch.cuh"

/* As many blocks as run at once: grids go on with a stride. */
static int64_t most(void) {
  return (int64_t)ts_cuda_gpu_now()->n_sms * (2048 / TS_ENTRY_THREADS);
}

static ts_err entries(const ts_entries_args *a) {
  ts_stream_run run(TS_TAG_SPARSE);
  return ts_entries_launch(run, a, most(), run.stream);
}

static ts_err append(const ts_append_args *a) {
  return ts_append_launch(a, most(), ts_cuda_stream_now());
}

static ts_err add(float *to, const float *from, int64_t n) {
  return ts_add_launch(to, from, n, most(), ts_cuda_stream_now());
}

static ts_err add_rows(const ts_add_rows_args *a) {
  return ts_add_rows_launch(a, most(), ts_cuda_stream_now());
}

/* The host waits: it needs the numbers. */
static ts_err find(const ts_find_args *a) {
  ts_err err = TS_OK;
  const cudaStream_t stream = ts_cuda_stream_now();
  const size_t bytes = (size_t)a->m * sizeof(int64_t);
  int64_t *at = NULL;
  if (a->m == 0) return TS_OK;
  TS_TRY(ts_cuda_take(&at, bytes, TS_TAG_SPARSE, stream));
  TS_TRY(ts_find_launch(a, at, stream));
  TS_TRY(ts_graph_cut("the host looks for rows"));
  TS_TRY(ts_cuda_settle_now());
  TS_TRY(TS_CUDA(
      cudaMemcpyAsync(a->at, at, bytes, cudaMemcpyDeviceToHost, stream)));
  TS_TRY(TS_CUDA(cudaStreamSynchronize(stream)));
done:
  if (at) ts_cuda_give(at, bytes, TS_TAG_SPARSE, stream);
  return err;
}

void ts_cuda_kernels_entries(ts_kernels *k) {
  k->entries = entries;
  k->append = append;
  k->find = find;
  k->add = add;
  k->add_rows = add_rows;
}
