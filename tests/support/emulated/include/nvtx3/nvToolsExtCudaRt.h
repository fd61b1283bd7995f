#include <nvtx3/nvToolsExt.h>
#define nvtxNameCudaStreamA(stream, name) ((void)(stream), (void)(name))
