/* clock.cu - marks of a lane are events with times (runtime/clock.h). */
#include "cuda/runtime/cuda_impl.h"

ts_err ts_cuda_mark(ts_lane *lane, void **mark) {
  ts_err err = TS_OK;
  TS_TRY(ts_cuda_use());
  TS_TRY(ts_graph_cut("a clock is set"));
  if (!*mark)
    TS_TRY(TS_CUDA(
        cudaEventCreateWithFlags((cudaEvent_t *)mark, cudaEventDefault)));
  TS_TRY(TS_CUDA(cudaEventRecord((cudaEvent_t)*mark, ts_cuda_stream(lane))));
done:
  return err;
}

ts_err ts_cuda_between(ts_lane *, void *a, void *b, double *seconds) {
  float ms = 0;
  const ts_err err =
      TS_CUDA(cudaEventElapsedTime(&ms, (cudaEvent_t)a, (cudaEvent_t)b));
  *seconds = 1e-3 * (double)ms;
  return err;
}

void ts_cuda_unmark(void *mark) {
  if (cudaEventDestroy((cudaEvent_t)mark) != cudaSuccess)
    (void)cudaGetLastError();
}
